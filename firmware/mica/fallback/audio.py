"""From sound to features: rows of logarithms of band energies. The arithmetic is that of SPEC.md, log_mel_s8."""

from array import array

from mica.fallback.common import log2, one_factor, volume

_POWER, _PEAK, _LIMIT, _DCT, _BEFORE, _PAD, _MIRROR = 1, 2, 4, 8, 16, 32, 64


def _bits(v):
    n = 0
    while v:
        v >>= 1
        n += 1
    return n


def _nearest_root(v):
    low, high = 0, 1 << 25
    while high - low > 1:
        middle = (low + high) >> 1
        if middle * middle <= v:
            low = middle
        else:
            high = middle
    return low + (v - low * low > low)


def _log(logs, v):
    b = _bits(v) - 1
    m = v >> (b - 22) if b > 22 else v << (22 - b)
    i = m >> 16 & 63
    return (b << 16) + logs[i] + ((logs[i + 1] - logs[i]) * (m & 0xFFFF) >> 16)


def _root(roots, v):
    if not v:
        return 0
    z = (32 - _bits(v)) & -2
    v <<= z
    i = (v >> 25) - 32
    r = roots[i] + (((roots[i + 1] - roots[i]) * (v >> 11 & 0x3FFF) + 0x2000) >> 14)
    return (r + (1 << (z // 2 - 1))) >> z // 2 if z else r


def as_sizes(exponent, flags, roots, bins):
    """Turn squares in `bins` into sizes, unless the flag power is set. Return their exponent."""
    if flags & _POWER:
        return exponent * 2
    for k in range(len(bins)):
        bins[k] = _root(roots, bins[k])
    return exponent - 8


def _limit(re, im, n, bits):
    """Shift the first n numbers to the right until they fit so many bits and a sign; return by how many."""
    most = 0
    for k in range(n):
        most |= (re[k] if re[k] >= 0 else ~re[k]) | (im[k] if im[k] >= 0 else ~im[k])
    s = max(_bits(most) - bits, 0)
    if s:
        half = 1 << (s - 1)
        for k in range(n):
            re[k], im[k] = (re[k] + half) >> s, (im[k] + half) >> s
    return s


def _transform(re, im, half, twiddles):
    """Transform numbers in bit-reversed order in place. Return the growth of their exponent."""
    exponent = _limit(re, im, half, 16)
    for k in range(0, half, 4):
        sr, si, tr, ti = re[k] + re[k + 1], im[k] + im[k + 1], re[k] - re[k + 1], im[k] - im[k + 1]
        ur, ui, vr, vi = re[k + 2] + re[k + 3], im[k + 2] + im[k + 3], re[k + 2] - re[k + 3], im[k + 2] - im[k + 3]
        for i, r, m in ((0, sr + ur, si + ui), (1, tr + vi, ti - vr), (2, sr - ur, si - ui), (3, tr - vi, ti + vr)):
            re[k + i], im[k + i] = r, m
    h = 4
    while h < half:
        exponent += _limit(re, im, half, 16) - 2
        for j in range(h):
            at = 2 * j * (half // h)
            c, w = twiddles[at], twiddles[at + 1]
            for k in range(j, half, 2 * h):
                n = k + h
                tr, ti = (re[n] * c + im[n] * w + 2048) >> 12, (im[n] * c - re[n] * w + 2048) >> 12
                ar, ai = re[k] << 2, im[k] << 2
                re[k], im[k], re[n], im[n] = ar + tr, ai + ti, ar - tr, ai - ti
        h *= 2
    return exponent


def _bins(re, im, half, twiddles, bins):
    """Put the squares of all bins into `bins`. Return the growth of the exponent of their roots."""
    exponent = _limit(re, im, half, 15) - 1
    xr, xi = array("i", bytes(4 * half + 4)), array("i", bytes(4 * half + 4))
    xr[0], xr[half] = (re[0] + im[0]) << 3, (re[0] - im[0]) << 3
    for a in range(1, half):
        b = half - a
        c, w = twiddles[2 * a], twiddles[2 * a + 1]
        pr, pi = im[a] + im[b], re[b] - re[a]
        xr[a] = ((re[a] + re[b]) << 2) + ((pr * c + pi * w + 2048) >> 12)
        xi[a] = ((im[a] - im[b]) << 2) + ((pi * c - pr * w + 2048) >> 12)
    exponent += _limit(xr, xi, half + 1, 17)
    for k in range(half + 1):
        total = 0
        for v in (abs(xr[k]), abs(xi[k])):
            total += (v >> 2) ** 2 + ((v >> 2) * (v & 3) >> 1)
        bins[k] = total
    return exponent


def log_table():
    """Return the table that _log takes."""
    return array("i", [log2(64 + i) - (6 << 16) for i in range(65)])


def root_table():
    """Return the table that _root takes."""
    return array("i", [_nearest_root((32 + i) << 41) for i in range(97)])


def spectrum(fft, window, twiddles, cut, bins):
    """Return f(s): put the squares of the bins of the frame `cut` into `bins`, s to shift it to the right by;
    return the exponent of their roots."""
    half, frame = fft // 2, len(window)
    re, im = array("i", bytes(4 * half)), array("i", bytes(4 * half))
    places_of = array("H", [0] * half)
    for k in range(1, half):
        places_of[k] = places_of[k >> 1] >> 1 | (half >> 1 if k & 1 else 0)

    def into_bins(s):
        for i in range(frame):
            v = cut[i]
            cut[i] = (((v >> (s - 1)) + 1) >> 1 if s > 0 else v << -s) * window[i]
        for k in range(half):
            to, i = places_of[k], 2 * k
            re[to] = cut[i] if i < frame else 0
            im[to] = cut[i + 1] if i + 1 < frame else 0
        exponent = s - 15 + _transform(re, im, half, twiddles)
        return exponent + _bins(re, im, half, twiddles, bins)

    return into_bins


def check_turns(step, fft, window, twiddles):
    """Refuse tables with which something could overflow."""
    for k in range(0, fft + 2, 2):
        c, w = twiddles[k], twiddles[k + 1]
        sound = c > -0x8000 and w > -0x8000 and c * c + w * w <= (1 << 28) + (1 << 15)
        step.want(sound, "a twiddle factor is longer than 1")
    for v in window:
        step.want(v > -0x8000, "the window is -32768 somewhere")


def check_filters(step, fft, bands, filters, gains):
    """Refuse filters that are none of the bins, and gains that are none of the filters'."""
    total = 0
    for b in range(bands):
        first, n = filters[2 * b], filters[2 * b + 1]
        step.want(first + n <= fft // 2 + 1, "a filter is none of the bins")
        total += n
    step.want(total == len(gains), "the filters' gains are not all that there are")


def _check(step, fft, bands, columns, filters, constants):
    check_turns(step, fft, constants["window"], constants["twiddles"])
    check_filters(step, fft, bands, filters, constants["gains"])
    dct = constants["dct"]
    for c in range(columns):
        if len(dct):
            total = 0
            for b in range(bands):
                total += abs(dct[c * bands + b])
            step.want(total <= 1 << 18, "a sum of the DCT can overflow")
        step.want(abs(constants["bias"][c]) < 1 << 29, "a bias is too large")


def sound_of(step):
    """Check the sound and the shape of its rows; return samples, rows, columns, fft, frame and hop."""
    shape, rows = step.x[0].shape, step.y.shape
    step.want(len(shape) >= 1 and volume(shape[:-1]) == 1, "the samples of one sound are expected")
    step.want(len(rows) >= 2 and volume(rows[:-2]) == 1, "rows of one sound are expected")
    fft = step.within("fft", 32, 2048)
    step.want(fft & (fft - 1) == 0, "fft is no power of two")
    return shape[-1], rows[-2], rows[-1], fft, step.within("frame", 1, fft), step.within("hop", 1, 65535)


def framed(cut, sample, emphasis, into_bins):
    """Return f(begin): put the bins of the frame that begins there into the place of into_bins;
    return the exponent of their roots."""
    places = 15 if emphasis else 0

    def f(begin):
        most = 0
        for i in range(len(cut)):
            v = sample(begin + i)
            if emphasis:
                v = v * 32768 - emphasis * sample(max(begin + i - 1, 0))
            cut[i] = v
            most |= v if v >= 0 else ~v
        return into_bins(max(_bits(most), places) - 15) - places

    return f


def energies(filters, gains, bins):
    """Yield the sum of each filter over the bins."""
    g = 0
    for b in range(0, len(filters), 2):
        total = 0
        for k in range(filters[b], filters[b] + filters[b + 1]):
            total += bins[k] * gains[g] >> 16
            g += 1
        yield total


def log_mel_s8(step):
    """A row for each frame of a sound."""
    samples, frames, columns, fft, frame, hop = sound_of(step)
    flags = step.within("flags", 0, 127)
    first = 1 if flags & _BEFORE else 0
    samples -= first
    pad = step.within("pad", 0, 65535)
    emphasis = step.within("preemphasis", 0, 1 << 15)
    if flags & _PAD:
        step.want(not first and not emphasis, "frames reach beyond the samples, and pre-emphasis does not")
        sound = pad < samples and (frames - 1) * hop + frame < pad + 2 * samples
    else:
        step.want(not pad and not flags & _MIRROR, "a pad without its flag")
        sound = samples >= frame and frames == 1 + (samples - frame) // hop
    step.want(sound, "the frames are not those of the samples")
    bands = step.within("bands", 1, 65535)
    step.want(flags & _DCT or bands == columns, "there are other columns than bands")
    floor, floor_exponent = step.within("floor", 0, 0x7FFFFFFF), step.within("floor_exponent", -64, 63)
    window, twiddles = step.constant("window", frame), step.constant("twiddles", fft + 2)
    filters = step.constant("filters", 2 * bands)
    gains = step.constant("gains", step.within("gains", 0, 0x3FFFFFFF))
    dct = step.constant("dct", columns * bands if flags & _DCT else 0)
    bias = step.constant("bias", columns)
    finish = one_factor(step)
    _check(
        step,
        fft,
        bands,
        columns,
        filters,
        {"window": window, "twiddles": twiddles, "gains": gains, "dct": dct, "bias": bias},
    )
    x, y = step.x[0].data, step.y.data
    logs, roots = log_table(), root_table()
    cut = array("i", bytes(4 * frame))
    bins = [0] * (fft // 2 + 1)

    def sample(i):
        if flags & _MIRROR:
            i = -i if i < 0 else min(i, 2 * samples - 2 - i)
        return x[i] if 0 <= i < samples + first else 0

    read = framed(cut, sample, emphasis, spectrum(fft, window, twiddles, cut, bins))

    def run():
        lowest, minus = floor, 0
        if flags & _PEAK:
            peak = max(1, max(x))
            times = 2 if flags & _POWER else 1
            minus = _log(logs, peak) * times
            lowest *= peak**times
        at = 0
        for r in range(frames):
            exponent = as_sizes(read(r * hop + first - pad), flags, roots, bins)
            up = floor_exponent - exponent
            much = max(up + _bits(lowest) - 62, 0) if lowest else 0
            up -= much
            exponent += much
            least = lowest << up if up > 0 else lowest >> -up
            log = []
            for total in energies(filters, gains, bins):
                total >>= much
                total = max(total, least) if flags & _LIMIT else total + least
                log.append(_log(logs, total or 1) + (exponent << 16) - minus)
            for c in range(columns):
                v = log[c] if not flags & _DCT else 0
                if flags & _DCT:
                    for b in range(bands):
                        v += log[b] * dct[c * bands + b]
                    v >>= 11
                y[at] = finish(v + bias[c])
                at += 1

    return run


def _half_word(v):
    return ((v + 0x8000) & 0xFFFF) - 0x8000


def _rounded(v):
    return (v + 0x4000) >> 15


def _kiss(re, im, n, twiddles):
    """Transform n complex int16 numbers, which stand in the order of its stages, in place;
    the result is divided by n."""
    m = 1
    while m < n:
        two = m == 1 and _bits(n) % 2 == 0  # no power of four
        base, factor = (2, 16383) if two else (4, 8191)
        step = n // (base * m)
        for k in range(m):
            for q in range(k, n, base * m):
                parts = []
                for j in range(base):
                    r, i = _rounded(re[q + j * m] * factor), _rounded(im[q + j * m] * factor)
                    if j:
                        c, s = twiddles[2 * j * k * step], twiddles[2 * j * k * step + 1]
                        r, i = _rounded(r * c - i * s), _rounded(r * s + i * c)
                    parts.append((r, i))
                (fr, fi), (ar, ai) = parts[:2]
                if two:
                    out = ((fr + ar, fi + ai), (fr - ar, fi - ai))
                else:
                    (br, bi), (cr, ci) = parts[2:]
                    lr, li, hr, hi = fr - br, fi - bi, fr + br, fi + bi
                    sr, si, dr, di = ar + cr, ai + ci, ar - cr, ai - ci
                    out = ((hr + sr, hi + si), (lr + di, li - dr), (hr - sr, hi - si), (lr - di, li + dr))
                for j in range(base):
                    re[q + j * m], im[q + j * m] = _half_word(out[j][0]), _half_word(out[j][1])
        m *= base


def _square(r, i):
    r, i = _half_word(r), _half_word(i)
    return r * r + i * i


def _energies(re, im, n, twiddles, bins):
    """Put the squares of the n + 1 bins of 2 * n real samples into `bins`."""
    r, i = _rounded(re[0] * 16383), _rounded(im[0] * 16383)
    bins[0], bins[n] = _square(r + i, 0), _square(r - i, 0)
    for k in range(1, n // 2 + 1):
        ar, ai = _rounded(re[k] * 16383), _rounded(im[k] * 16383)
        br, bi = _rounded(re[n - k] * 16383), _rounded(-im[n - k] * 16383)
        c, s = twiddles[2 * (n + k - 1)], twiddles[2 * (n + k - 1) + 1]
        dr, di = ar - br, ai - bi
        tr, ti = _rounded(dr * c - di * s), _rounded(dr * s + di * c)
        bins[k] = _square((ar + br + tr) >> 1, (ai + bi + ti) >> 1)
        bins[n - k] = _square((ar + br - tr) >> 1, (ti - ai - bi) >> 1)


def _rounded_root(v):
    r, bit = 0, 1 << 62
    while bit > v:
        bit >>= 2
    while bit:
        if v >= r + bit:
            v -= r + bit
            r = (r >> 1) + bit
        else:
            r >>= 1
        bit >>= 2
    return min(r + (v > r), 0xFFFFFFFF)


def _curve(lut, x):
    if x <= 2:
        return max(lut[x], 0)
    n = _bits(x)
    at = 4 * n - 6
    f = (x << (11 - n) if n < 11 else x >> (n - 11)) & 0x3FF
    y = ((lut[at + 2] * f >> 5) + lut[at + 1] * 32) * f
    return max(((y + 0x4000) >> 15) + lut[at], 0)


def _natural(logs, v, places):
    n = _bits(v) - 1
    over = v - (1 << n)
    f = over << (16 - n) if n < 16 else over >> (n - 16)
    i = f >> 9
    two = ((n << 16) + f + logs[i] + ((logs[i + 1] - logs[i]) * (f & 511) >> 16)) & 0xFFFFFFFF
    e = (45426 * two + 0x8000) >> 16 & 0xFFFFFFFF
    return min(((e << places) + 0x8000) >> 16 & 0xFFFFFFFF, 65535)


def noise_of(step, rows, bands):
    """Return the noise that goes on, and its zero point; None where there is none."""
    if len(step.x) == 1:
        return None, 0
    low = step.x[1].shape
    alike = volume(low[:-2]) == 1 and tuple(low[-2:]) == (4, bands)
    step.want(alike and rows > 4, "the noise is none of the bands")
    return step.x[1].data, step.x[1].zero_point


def take_noise(noise, kept, zero):
    """Put together the words of a noise, of zeros where kept is None."""
    for b in range(len(noise)):
        noise[b] = 0
        for k in range(4 if kept is not None else 0):
            noise[b] |= (kept[k * len(noise) + b] - zero & 255) << 8 * k


def put_noise(noise, y, at, zero):
    """Put its bytes into y, from y[at] on."""
    for k in range(4):
        for v in noise:
            y[at] = ((v >> 8 * k) + zero + 128 & 255) - 128
            at += 1


def pcan_s8(step):
    """A row for each frame of speech."""
    samples, frames, bands, fft, frame, hop = sound_of(step)
    kept, zero = noise_of(step, frames, bands)
    y_zero = step.y.zero_point
    frames -= 4 if kept is not None else 0
    sound = samples >= frame and frames == 1 + (samples - frame) // hop
    step.want(sound, "the frames are not those of the samples")
    step.want(step.within("bands", 1, 65535) == bands, "there are other columns than bands")
    smooth = step.within("odd", 0, 1 << 14), step.within("even", 0, 1 << 14)
    places, least = step.within("places", 0, 16), step.within("least", 0, 1 << 14)
    snr_shift, correction = step.within("snr_shift", 0, 31), step.within("correction", -31, 31)
    log_places = step.within("log_places", 0, 10)
    window, twiddles = step.constant("window", frame), step.constant("twiddles", fft // 2 * 3)
    filters = step.constant("filters", 2 * bands + 2)
    n_gains = step.within("gains", 0, 0x1FFFFFFF)
    gains = step.constant("gains", 2 * n_gains)
    lut, logs = step.constant("lut", 125), step.constant("logs", 129)
    finish = one_factor(step)
    total = 0
    for b in range(bands + 1):
        step.want(filters[2 * b] + filters[2 * b + 1] <= fft // 2 + 1, "a filter is none of the bins")
        total += filters[2 * b + 1]
    step.want(total == n_gains, "the filters' gains are not all that there are")
    x, y, n = step.x[0].data, step.y.data, fft // 2
    re, im, bins = array("i", bytes(4 * n)), array("i", bytes(4 * n)), [0] * (n + 1)
    noise = [0] * bands

    def run():
        take_noise(noise, kept, zero)
        at = 0
        for r in range(frames):
            begin, most = r * hop, 0
            for i in range(frame):
                most = max(most, abs(x[begin + i] * window[i] >> 12))
            up = max(15 - _bits(most), 0)
            for k in range(n):
                to, i, left = 0, k, n
                while left > 1:
                    bits = 1 if left & 3 else 2
                    left >>= bits
                    to += (i & ((1 << bits) - 1)) * left
                    i >>= bits
                for part, j in ((re, 2 * k), (im, 2 * k + 1)):
                    v = x[begin + j] * window[j] >> 12 if j < frame else 0
                    part[to] = min(max(v, -0x8000), 0x7FFF) << up
            _kiss(re, im, n, twiddles)
            _energies(re, im, n, twiddles, bins)
            total = g = 0
            for b in range(bands + 1):
                following = 0
                for k in range(filters[2 * b], filters[2 * b] + filters[2 * b + 1]):
                    total += bins[k] * gains[g]
                    following += bins[k] * gains[g + 1]
                    g += 2
                if b:
                    signal = _rounded_root(total) >> up
                    loud, s = signal << places & 0xFFFFFFFF, smooth[b % 2]
                    level = (loud * s + noise[b - 1] * ((1 << 14) - s)) >> 14 & 0xFFFFFFFF
                    noise[b - 1] = level
                    v = max((loud - min(level, loud)) >> places, signal * least >> 14)
                    v = v * _curve(lut, level) >> snr_shift & 0xFFFFFFFF
                    v = v * v >> 20 if v < 1 << 13 else (v >> 6) - 64
                    v = v >> -correction if correction < 0 else v << correction & 0xFFFFFFFF
                    y[at] = finish(_natural(logs, v, log_places) if v > 1 else 0)
                    at += 1
                total = following
        if kept is not None:
            put_noise(noise, y, at, y_zero)

    return run
