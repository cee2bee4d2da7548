"""Softmax and its logarithm, from a table of exponentials."""

from mica.fallback.common import log2, volume


def _table(step, n, axis):
    """Return the table of n entries, of which the first 256 are exponentials whose sums stay below 2**31."""
    table = step.constant("table", n)
    most = 0
    for i in range(256):
        most = max(most, table[i])
    step.want(table[0] >= 1 and most <= 1 << 23 and axis * most <= 1 << 31, "the table can overflow")
    return table


def softmax_s8(step):
    """Over the last axis; a table of 512 entries brings the numerators of scales other than 1/256."""
    step.same_shape()
    step.want(len(step.y.shape) >= 1, "softmax of a single element")
    n = step.y.shape[-1]
    zero = step.y.zero_point
    plain = zero == -128 and step.y.scale == 1 / 256
    table = _table(step, 256 if plain else 512, n)
    x, y = step.x[0].data, step.y.data

    def run():
        for first in range(0, len(x), n):
            row = range(first, first + n)
            most = max([x[i] for i in row])
            total = sum([table[most - x[i]] for i in row])
            for i in row:
                d = most - x[i]
                v = ((table[d] << 8) if plain else table[256 + d]) + (total >> 1)
                y[i] = min(127, v // total + zero)

    return run


def log_softmax_s8(step):
    """Over the last axis; with `sum` one number for each row, the logarithm of the sum of the exponentials."""
    dims = step.x[0].shape
    step.want(len(dims) >= 1, "the softmax of a single element")
    n = dims[-1]
    whole = step.within("sum", 0, 1)
    if whole:
        step.want(volume(step.y.shape) == volume(dims[:-1]), "the output is not the input without its last axis")
    else:
        step.same_shape()
    p = step.params
    mult, mult_log, offset = p["mult"], p["mult_log"], p["offset"]
    step.want(255 * abs(mult) + 32 * abs(mult_log) + abs(offset) < 1 << 31, "a sum can leave 32 bits")
    shift = step.within("shift", 0, 30)
    table = _table(step, 256, n)
    low, high = step.clamp()
    zero = step.y.zero_point
    x, y = step.x[0].data, step.y.data

    def finish(v):
        v = zero + (v >> shift)
        return low if v < low else high if v > high else v

    def run():
        for k in range(len(x) // n):
            row = range(k * n, k * n + n)
            most = max([x[i] for i in row])
            log = log2(sum([table[most - x[i]] for i in row]))
            base = ((log * mult_log) >> 16) + offset
            if whole:
                y[k] = finish(most * mult + base)
            else:
                for i in row:
                    y[i] = finish((x[i] - most) * mult + base)

    return run
