"""Resizing as weighted sums along columns, then rows."""

from mica.fallback.common import image


def resize_linear_s8(step):
    """x [1,H,W,C] -> y [1,OH,OW,C]; the weights of an entry sum to 2048, so 22 bits are taken off at the end."""
    (h, w, c), (oh, ow, n) = image(step)
    step.want(c == n, "input and output differ in channels")
    step.same_scale()
    taps = step.within("row_taps", 1, min(255, h))
    across = step.within("column_taps", 1, min(255, w))
    rows, row_weights = _entries(step, "row", oh, taps, h)
    columns, column_weights = _entries(step, "column", ow, across, w)
    x, y = step.x[0].data, step.y.data

    def run():
        at = 0
        for i in range(oh):
            for j in range(ow):
                for o in range(c):
                    total = 1 << 21
                    for a in range(taps):
                        first = ((rows[i] + a) * w + columns[j]) * c + o
                        acc = 0
                        for b in range(across):
                            acc += column_weights[j * across + b] * x[first + b * c]
                        total += row_weights[i * taps + a] * acc
                    v = total >> 22
                    y[at] = -128 if v < -128 else 127 if v > 127 else v
                    at += 1

    return run


def _entries(step, axis, n, taps, size):
    """Return where the taps of each of n outputs begin, and their weights [n, taps]."""
    first = step.constant(axis + "s", n)
    weights = step.constant(axis + "_weights", n * taps)
    for i in range(n):
        step.want(first[i] + taps <= size, "a tap lies outside the input")
        entry = [weights[k] for k in range(i * taps, i * taps + taps)]
        step.want(sum(entry) == 2048 and sum([abs(v) for v in entry]) <= 2896, "the weights of an entry are wrong")
    return first, weights
