"""Kernels of int16, and those between int8 and int16. The zero points of int16 are 0."""

from mica.fallback.common import channels, factors, image, one_factor, volume, window
from mica.fallback.elementwise import _each
from mica.fallback.pool import _span

_LOW, _HIGH = -32768, 32767


def _centred(step):
    for t in step.x + (step.y,):
        step.want(t.dtype != "h" or t.zero_point == 0, "int16 has the zero point 0")


class _Wide:
    """A step whose clamp is that of int16."""

    def __init__(self, step):
        _centred(step)
        self._step = step
        self.y = step.y
        self.constant = step.constant
        self.within = step.within
        self.want = step.want

    def clamp(self):
        low = self._step.within("act_min", _LOW, _HIGH)
        return low, self._step.within("act_max", low, _HIGH)


def conv2d_s16(step):
    """x [1,H,W,Cin], weights [Cout,KH,KW,Cin/groups]; a tap outside x is 0."""
    wide = _Wide(step)
    (h, w, cin), (oh, ow, cout) = image(step)
    kh, sh, dh, top, kw, sw, dw, left = window(step, oh, ow)
    groups = step.within("groups", 1, 65535)
    step.want(cin % groups == 0 and cout % groups == 0, "groups do not divide the channels")
    n, k = cin // groups, kh * kw * (cin // groups)
    weights, row = step.weights(cout, k)
    bias, mult = step.constant("bias", cout), step.constant("mult", cout)
    finish = channels(wide, cout)
    for o in range(cout):
        reach = abs(bias[o])
        for i in range(o * row, o * row + k):
            reach += abs(weights[i]) << 15
        step.want(reach < 1 << 47 and ((reach >> 16) + 1) * mult[o] <= 1 << 46, "a sum can leave 64 bits")
    x, y = step.x[0].data, step.y.data

    def run():
        at = 0
        for oy in range(oh):
            rows = [(i, oy * sh - top + i * dh) for i in range(kh)]
            for ox in range(ow):
                columns = [(j, ox * sw - left + j * dw) for j in range(kw)]
                for o in range(cout):
                    acc = bias[o]
                    first = o // (cout // groups) * n
                    for i, iy in rows:
                        for j, ix in columns:
                            if 0 <= iy < h and 0 <= ix < w:
                                a, b = (iy * w + ix) * cin + first, o * row + (i * kw + j) * n
                                for c in range(n):
                                    acc += x[a + c] * weights[b + c]
                    y[at] = finish(acc, o)
                    at += 1

    return run


def pool_s16(step):
    """Mean or largest value of the taps inside x."""
    wide = _Wide(step)
    (h, w, c), (oh, ow, cout) = image(step)
    kh, sh, dh, top, kw, sw, dw, left = window(step, oh, ow)
    step.want(c == cout, "input and output differ in channels")
    largest = step.within("largest", 0, 1)
    mult = dict(step.constants())["mult"]
    n = len(mult)
    step.want(n == 0 if largest else n in (1, kh * kw) and kh * kw < 65536, "mult wants one entry, or one a tap")
    shift = step.constant("shift", n)
    factors(step, mult, shift)
    low, high = wide.clamp()
    x, y = step.x[0].data, step.y.data

    def run():
        at = 0
        for oy in range(oh):
            rows = _span(oy * sh - top, kh, dh, h)
            for ox in range(ow):
                columns = _span(ox * sw - left, kw, dw, w)
                entry = max(len(rows) * len(columns) - 1, 0) if n > 1 else 0
                for o in range(c):
                    acc = low if largest else 0
                    for iy in rows:
                        for ix in columns:
                            v = x[(iy * w + ix) * c + o]
                            acc = max(acc, v) if largest else acc + v
                    if not largest:
                        s = shift[entry] + 31
                        mean = (abs(acc) * mult[entry] + (1 << (s - 1))) >> s
                        acc = -mean if acc < 0 else mean
                    y[at] = low if acc < low else high if acc > high else acc
                    at += 1

    return run


def binary_s16(step):
    """y = clamp((a * mult_a + b * mult_b + a * b * mult_ab + half) >> shift)."""
    p = step.params
    mult_a, mult_b, mult_ab = p["mult_a"], p["mult_b"], p["mult_ab"]
    shift = step.within("shift", 1, 62)
    half = 1 << (shift - 1)
    low, high = _Wide(step).clamp()

    def f(a, b):
        v = (a * mult_a + b * mult_b + a * b * mult_ab + half) >> shift
        return low if v < low else high if v > high else v

    return _each(step, f)


def lut_s16(step):
    """Between the entries of a table, along a line."""
    _centred(step)
    step.same_shape()
    bits = step.within("bits", 1, 12)
    table = step.constant("table", (1 << bits) + 1)
    down = 16 - bits
    half, rest = 1 << (down - 1), (1 << down) - 1
    x, y = step.x[0].data, step.y.data

    def run():
        for i in range(len(y)):
            u = x[i] + 32768
            low = table[u >> down]
            y[i] = low + (((table[(u >> down) + 1] - low) * (u & rest) + half) >> down)

    return run


def softmax_s16(step):
    """Over the last axis; an exponential is a product of two entries."""
    _centred(step)
    step.same_shape()
    step.want(len(step.y.shape) >= 1 and step.y.scale == 1 / 32768, "a softmax has the scale 2**-15")
    n = step.y.shape[-1]
    table = step.constant("exponentials", 512)
    sound = table[0] == 1 << 24 and table[256] >= 1
    for i in range(256):
        sound = sound and table[i] <= 1 << 24 and n * table[256 + i] <= 1 << 31
    step.want(sound, "the table can overflow")
    x, y = step.x[0].data, step.y.data

    def run():
        for first in range(0, len(x), n):
            row = range(first, first + n)
            most = max([x[i] for i in row])
            e = []
            for i in row:
                d = most - x[i]
                e.append((table[d >> 8] * table[256 + (d & 255)] + (1 << 23)) >> 24)
            total = sum(e)
            for i in row:
                y[i] = min(_HIGH, ((e[i - first] << 16) // total + 1) >> 1)

    return run


def _rescaled(step, finish):
    step.want(volume(step.x[0].shape) == volume(step.y.shape), "input and output differ in size")
    x, y, zero = step.x[0].data, step.y.data, step.x[0].zero_point

    def run():
        for i in range(len(y)):
            y[i] = finish(x[i] - zero)

    return run


def widen_s16(step):
    """int8 -> int16 on another scale."""
    return _rescaled(step, one_factor(_Wide(step)))


def narrow_s8(step):
    """int16 -> int8 on another scale."""
    _centred(step)
    return _rescaled(step, one_factor(step))
