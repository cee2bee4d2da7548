"""Operators of one or two elements, with numpy's broadcasting; the output may lie exactly on an input."""

from mica.fallback.common import broadcast, offsets, one_factor


def _each(step, f):
    """Return a run that computes y = f(a, b) for every pair of elements."""
    shape = step.y.shape
    along_a, along_b = broadcast(step, step.x[0].shape, step.x[1].shape, shape)
    a, b, y = step.x[0].data, step.x[1].data, step.y.data

    def run():
        at = 0
        for i, j in zip(offsets(shape, along_a), offsets(shape, along_b)):
            y[at] = f(a[i], b[j])
            at += 1

    return run


def _fits(step, bound):
    step.want(bound < 1 << 31, "a sum can leave 32 bits")


def add_s8(step):
    """y = clamp(zy + ((a * mult_a + b * mult_b + offset) >> shift))."""
    p = step.params
    mult_a, mult_b, offset = p["mult_a"], p["mult_b"], p["offset"]
    _fits(step, 128 * (abs(mult_a) + abs(mult_b)) + abs(offset))
    shift = step.within("shift", 0, 30)
    low, high = step.clamp()
    zero = step.y.zero_point

    def f(a, b):
        v = zero + ((a * mult_a + b * mult_b + offset) >> shift)
        return low if v < low else high if v > high else v

    return _each(step, f)


def mul_s8(step):
    """y = clamp(zy + requant((a - za) * (b - zb)))."""
    finish = one_factor(step)
    za, zb = step.x[0].zero_point, step.x[1].zero_point
    return _each(step, lambda a, b: finish((a - za) * (b - zb)))


def minmax_s8(step):
    """y = clamp(zy + (max(a * mult_a + offset_a, b * mult_b + offset_b) >> shift)), or min."""
    p = step.params
    mult_a, offset_a, mult_b, offset_b = p["mult_a"], p["offset_a"], p["mult_b"], p["offset_b"]
    _fits(step, 128 * abs(mult_a) + abs(offset_a))
    _fits(step, 128 * abs(mult_b) + abs(offset_b))
    shift = step.within("shift", 0, 30)
    choose = max if step.within("larger", 0, 1) else min
    low, high = step.clamp()
    zero = step.y.zero_point

    def f(a, b):
        v = zero + (choose(a * mult_a + offset_a, b * mult_b + offset_b) >> shift)
        return low if v < low else high if v > high else v

    return _each(step, f)


def div_s8(step):
    """y = clamp(zy + (a - za) * factor / ((b - zb) * 2**shift)), halves away from zero; x / 0 is a bound, 0 / 0 zy."""
    factor, shift = step.within("factor", 0, 1 << 21), step.within("shift", 0, 22)
    low, high = step.clamp()
    za, zb, zero = step.x[0].zero_point, step.x[1].zero_point, step.y.zero_point

    def f(a, b):
        a -= za
        b -= zb
        if b == 0:
            v = 512 if a else 0  # beyond any int8
        else:
            d = abs(b) << shift
            v = (2 * factor * abs(a) + d) // (2 * d)
        v = zero + (-v if (a < 0) != (b < 0) else v)
        return low if v < low else high if v > high else v

    return _each(step, f)


def lut_s8(step):
    """y = table[x + 128]."""
    step.same_shape()
    table = step.constant("table", 256)
    x, y = step.x[0].data, step.y.data

    def run():
        for i in range(len(x)):
            y[i] = table[x[i] + 128]

    return run
