"""Rows of features against constant vectors: nearest neighbours, and machines of support vectors."""

from mica.fallback.common import one_factor, root
from mica.fallback.tabular import place, rows


def distances_s8(step):
    """The distance of a row of features to each point: the sum of differences, of their squares, or of products."""
    n, points = rows(step)
    kind, bound = step.within("kind", 0, 2), step.within("bound", 1, 32767)
    most = n * (2 * bound, 4 * bound * bound, bound * bound)[kind]
    step.want(most < 1 << 31, "a distance can overflow")
    table, missing = step.constant("points", n * points), step.constant("missing", n)
    scale, exponent, offset = step.constant("scale", n), step.constant("exponent", n), step.constant("offset", n)
    for v in scale:
        step.want(v > -0x80000000, "a scale is -2**31")
    for views in (table, missing):
        for v in views:
            step.want(-bound <= v <= bound, "points are not within the bound")
    x, y = step.x[0].data, step.y.data

    def run():
        for i in range(len(y)):
            y[i] = 0
        for row in range(len(y) // points):
            at = row * points
            for f in range(n):
                g = place(x, row * n + f, scale[f], exponent[f], offset[f])
                g = missing[f] if g is None else min(max(g, -bound), bound)
                t = f * points
                for s in range(points):
                    v = table[t + s]
                    y[at + s] += g * v if kind == 2 else (g - v) * (g - v) if kind else abs(g - v)

    return run


def nearest_s8(step):
    """The mean of the values of the k least, weighted by how near they are."""
    n, results = rows(step)
    k, kind = step.within("k", 1, min(n, 65535)), step.within("kind", 0, 3)
    target, value = step.constant("target", n), step.constant("value", n)
    for t in target:
        step.want(t < results, "a target is none of the output's numbers")
    finish = one_factor(step)
    x, y = step.x[0].data, step.y.data

    def run():
        at = 0
        for row in range(0, len(x), n):
            total = [0] * results
            weights = 0
            last = (-1, 0)
            nearest = None
            for _ in range(k):
                best = None
                for s in range(n):
                    d = (max(x[row + s], 0), s)
                    if d > last and (best is None or d < best):
                        best = d
                last = best
                far = root(best[0]) if kind & 1 else best[0]
                v = value[best[1]]
                if nearest is None:
                    nearest = far
                if kind == 0 or kind == 3:
                    w = 1
                    v = max(v, far) if kind else v
                elif nearest == 0:
                    w = 1 if far == 0 else 0
                else:
                    w = (nearest << 15) // far
                weights += w
                total[target[best[1]]] += w * v
            for v in total:
                y[at] = finish((512 * v + weights) // (2 * weights))
                at += 1

    return run


def machine_s8(step):
    """Sums of weights times a function of the input, which a table has in straight pieces."""
    n, results = rows(step)
    in_mult, in_shift = step.within("in_mult", 0, 0x7FFFFFFF), step.within("in_shift", -30, 31) + 31
    in_offset, down = step.params["in_offset"], step.within("down", 0, 40)
    table, factors = step.constant("table", 257), step.constant("factors", n * results)
    bias = step.constant("bias", results)
    for v in table:
        step.want(-(1 << 22) <= v <= 1 << 22, "the table is not within +-2**22")
    for r in range(results):
        size = sum(abs(factors[i]) for i in range(r, len(factors), results))
        step.want((size << 22 >> down) + abs(bias[r]) + 1 < 1 << 31, "a sum can overflow")
    finish = one_factor(step)
    x, y = step.x[0].data, step.y.data

    def run():
        at = 0
        for row in range(0, len(x), n):
            total = [0] * results
            for s in range(n):
                u = ((x[row + s] * in_mult + (1 << (in_shift - 1))) >> in_shift) + in_offset
                u = min(max(u, 0), 65535)
                v = table[u >> 8]
                v += ((table[(u >> 8) + 1] - v) * (u & 255)) >> 8
                for r in range(results):
                    total[r] += v * factors[s * results + r]
            for r in range(results):
                y[at] = finish(bias[r] + ((total[r] + (1 << down >> 1)) >> down))
                at += 1

    return run
