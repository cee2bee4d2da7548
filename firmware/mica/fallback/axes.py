"""From a window of several axes to features of each. The arithmetic is that of SPEC.md, axes_s8."""

from array import array

from mica.fallback.audio import _bits, _log, _root, check_turns, log_table, root_table, spectrum
from mica.fallback.common import channels, volume

_ACROSS = 1
_ROOT, _LOG = 1, 2
_LIMIT = 1 << 30
_MANTISSA = 24


def _floor_root(v):
    if v < 2:
        return v
    r = 1 << (_bits(v) + 1) // 2
    while True:  # Newton from above: falls until it is floor(sqrt(v))
        n = (r + v // r) >> 1
        if n >= r:
            return r
        r = n


def _shifted(v, exponent):
    if exponent > 30 - _MANTISSA:
        return _LIMIT if v else 0
    if exponent >= 0:
        return v << exponent
    return 0 if exponent < -31 else (v + (1 << (-exponent - 1))) >> -exponent


def _statistic(which, x, rows):
    if which == 0:
        return sum(x) << 4
    if which < 3:
        squares = 0
        for v in x:
            squares += v * v
        return _floor_root((rows * squares - (sum(x) ** 2 if which == 1 else 0)) << 8)
    if which < 6:
        return (min(x) if which == 3 else max(x) - (min(x) if which == 5 else 0)) << 12
    middle, n = sum(x) if which == 6 else 0, 0
    before = rows * x[0] >= middle
    for v in x:
        above = rows * v >= middle
        n += above != before
        before = above
    return n << 12


def _energy(kind, table, places):
    """Return a function of a band's total, the exponent of its values and the least logarithm."""

    def f(total, exponent, low):
        n = _bits(total)
        if kind == _LOG:
            return max(_log(table, total or 1) + (exponent << 17), low)
        if kind == _ROOT:
            up = (64 - n) & -2
            return _shifted(_root(table, total << up >> 32), exponent + 8 - up // 2 + places)
        down = n - _MANTISSA
        return _shifted(total >> down if down > 0 else total << -down, 2 * exponent + down + places)

    return f


def _centred(x, cut, into_bins):
    """Take the mean off x and leave the squares of its bins; return their exponent."""
    rows = len(x)
    total = sum(x)
    s = _bits(max(rows * max(x) - total, total - rows * min(x))) - 15
    half = 1 << (s - 1) if s > 0 else 0
    most = 0
    for i in range(rows):
        v = rows * x[i] - total
        v = min((v + half) >> s, 0x7FFF) if s > 0 else v << -s
        cut[i] = v
        most |= v if v >= 0 else ~v
    return s + into_bins(_bits(most) - 15)


def axes_s8(step):
    """Features of a window."""
    rows, axes = step.within("rows", 2, 2048), step.within("axes", 1, 65535)
    shape, out = step.x[0].shape, step.y.shape
    inner = 1 if axes == 1 and len(shape) and shape[-1] == rows else 2
    fits = len(shape) >= inner and volume(shape) == rows * axes and shape[-inner] == rows
    step.want(fits and (inner == 1 or shape[-1] == axes), "the rows of the axes are expected")
    across = step.within("flags", 0, 1) & _ACROSS
    fits = len(out) >= 2 and volume(out[:-2]) == 1 and out[-1 if across else -2] == axes
    step.want(fits, "the features of the axes are expected")
    each = out[-2 if across else -1]
    bands, fft = step.within("bands", 0, each), step.within("fft", 0, 2048)
    step.want(
        fft >= max(rows, 32) and fft & (fft - 1) == 0 if bands else fft == 0, "fft is no power of two, or too short"
    )
    kind, places = step.within("energy", 0, 2), step.within("places", -96, 96)
    digits, n_stats = step.within("stats", 0, 0x77777777), each - bands
    known = n_stats <= 8 and digits & ~(0x77777777 & (1 << 4 * n_stats) - 1) == 0
    step.want(known, "stats are none of those that there are, or more than 8")
    stats = [digits >> 4 * k & 7 for k in range(n_stats)]
    tables = step.constant("tables", fft + 2 + rows if bands else 0)
    window, twiddles = tables[fft + 2 :], tables[: fft + 2]
    filters, least = step.constant("filters", 2 * bands), step.constant("least", axes if bands else 0)
    bias = step.constant("bias", each * axes)
    finish = channels(step, each * axes)
    if bands:
        check_turns(step, fft, window, twiddles)
    for b in range(bands):
        step.want(filters[2 * b] + filters[2 * b + 1] <= fft // 2 + 1, "a band is none of the bins")
    for v in least:
        step.want(abs(v) <= _LIMIT, "a least logarithm is too large")
    for v in bias:
        step.want(abs(v) < _LIMIT, "a bias is too large")
    data, y = step.x[0].data, step.y.data
    energy = _energy(kind, log_table() if kind == _LOG else root_table(), places)
    cut, bins, x = array("i", bytes(4 * rows)), [0] * (fft // 2 + 1), array("h", bytes(2 * rows))
    into_bins = spectrum(fft, window, twiddles, cut, bins) if bands else None

    def run():
        for a in range(axes):
            for i in range(rows):
                x[i] = data[axes * i + a]
            exponent = _centred(x, cut, into_bins) if bands else 0
            for f in range(each):
                at = f * axes + a if across else a * each + f
                b = f - len(stats)
                if b < 0:
                    v = _statistic(stats[f], x, rows)
                else:
                    total = 0
                    for k in range(filters[2 * b], filters[2 * b] + filters[2 * b + 1]):
                        total += bins[k]
                    v = energy(total, exponent, least[a])
                y[at] = finish(v + bias[at], at)

    return run
