"""One number of many: sums, extremes, norms, logarithms, and where extremes are."""

from mica.fallback.common import log2, one_factor, root, split, volume

_SUM, _MAX, _MIN, _SQUARES, _ABSOLUTE, _ROOT, _LOG = range(7)


def reduce_s8(step):
    """Over `axes` dimensions from `axis` on."""
    outer, n, inner = split(step, step.params["axis"], step.params["axes"])
    step.want(outer * inner == volume(step.y.shape), "the output is not the input without these dimensions")
    mode = step.within("mode", 0, 6)
    finish = one_factor(step)
    low, high = step.clamp()
    extreme = mode in (_MAX, _MIN)
    if extreme:
        step.same_scale()
    else:
        step.want(n <= (33025 if mode in (_SQUARES, _ROOT) else 1 << 23), "too many numbers")
    most = 1 << 24 if mode == _LOG else 0
    bias = step.within("bias", -most, most)
    zero = step.x[0].zero_point
    x, y = step.x[0].data, step.y.data

    def one(values):
        if extreme:
            v = (max if mode == _MAX else min)(values)
            return min(max(v, low), high)
        total = 0
        for v in values:
            v -= zero
            total += v * v if mode in (_SQUARES, _ROOT) else abs(v) if mode == _ABSOLUTE else v
        if mode == _ROOT:
            places = 15
            while 0 < total < 1 << 30 and places:
                total <<= 2
                places -= 1
            total = root(total) << places
        elif mode == _LOG:
            if total <= 0:
                return low
            total = log2(total) + bias
        return finish(total)

    def run():
        at = 0
        for i in range(outer):
            for j in range(inner):
                first = i * n * inner + j
                y[at] = one(x[k] for k in range(first, first + n * inner, inner))
                at += 1

    return run


def argmax_s8(step):
    """Index of the largest (or smallest) element along an axis. y is int32."""
    outer, n, inner = split(step, step.params["axis"], 1)
    least, last = step.within("minimum", 0, 1), step.within("select_last", 0, 1)
    step.want(outer * inner == volume(step.y.shape), "the output is not the input without the axis")
    x, y = step.x[0].data, step.y.data

    def run():
        at = 0
        for i in range(outer):
            for j in range(inner):
                first = i * n * inner + j
                best = place = 0
                for k in range(n):
                    v = x[first + k * inner]
                    if least:
                        v = -v
                    if k == 0 or v > best or (last and v == best):
                        best, place = v, k
                y[at] = place
                at += 1

    return run


def _beats(v, other, smallest):
    return v < other if smallest else v > other


def top_k_s8(step):
    """Indices of the largest (or smallest) elements along an axis, the best first. y is int32."""
    axis, smallest = step.params["axis"], step.within("smallest", 0, 1)
    a, b = step.x[0].shape, step.y.shape
    step.want(0 <= axis < len(b) and len(a) == len(b), "the axis is not one of the output")
    step.want(a[:axis] == b[:axis] and a[axis + 1 :] == b[axis + 1 :], "an input differs beside the axis")
    outer, n, inner = split(step, axis, 1)
    k = step.y.shape[axis]
    step.want(k <= n, "more places than elements")
    x, y = step.x[0].data, step.y.data

    def run():
        for i in range(outer):
            for j in range(inner):
                first, at = i * n * inner + j, i * k * inner + j
                for m in range(n):
                    v = x[first + m * inner]
                    place = min(m, k)  # so many are found; those that it beats move on, the last of k of them out
                    while place and _beats(v, x[first + y[at + (place - 1) * inner] * inner], smallest):
                        place -= 1
                        if place + 1 < k:
                            y[at + (place + 1) * inner] = y[at + place * inner]
                    if place < k:
                        y[at + place * inner] = m

    return run
