"""From sound to energies of bands, each divided by a power of its past energy. Arithmetic: SPEC.md, pcen_s8."""

from array import array

from mica.fallback.audio import (
    _BEFORE,
    _POWER,
    _bits,
    _log,
    as_sizes,
    check_filters,
    check_turns,
    energies,
    framed,
    log_table,
    noise_of,
    put_noise,
    root_table,
    sound_of,
    spectrum,
    take_noise,
)


def _number(v, e):
    more = _bits(v) - 31
    return v >> more if more > 0 else v << -more, e + more


def _sum(a, b):
    if not a[0] or (b[0] and b[1] > a[1]):
        a, b = b, a
    return _number(a[0] + (b[0] >> min(a[1] - b[1], 31) if b[0] else 0), a[1])


def _packed(a):
    if not a[0] or a[1] < -128:
        return 1 << 31
    return 0xFFFFFFFF if a[1] > 127 else a[0] >> 7 << 8 | a[1] + 128


def _normaliser(step, curve):
    """Return f(energy, noise), which gives a band in units of 2**-8, and its new noise."""
    smooth, alpha = step.within("smooth", 1, 1 << 16), step.within("alpha", 0, 1 << 16)
    eps = _number(step.within("eps", 0, 0x7FFFFFFF), step.within("eps_exponent", -128, 127))
    start = _number(step.within("start", 0, 0x7FFFFFFF), step.within("start_exponent", -128, 127))
    origin, bits = step.within("origin", -(1 << 24), 1 << 24), 16 - step.within("places", 2, 8)
    logs, last = log_table(), len(curve) - 1

    def log_of(a):
        return _log(logs, a[0]) + (a[1] << 16)

    def normalised(energy, noise):
        before = _number(noise >> 8, (noise & 255) - 121)
        if not noise:
            before = start if start[0] else energy
        now = _sum(
            _number(before[0] * ((1 << 16) - smooth) >> 15, before[1] - 1),
            _number(energy[0] * smooth >> 15, energy[1] - 1),
        )
        noise = _packed(now)
        if not energy[0]:
            return curve[0], noise
        at = log_of(energy) - (log_of(_sum(now, eps)) * alpha >> 16) - origin
        i = at >> bits
        if at < 0 or i >= last:
            return curve[0 if at < 0 else last], noise
        return curve[i] + ((curve[i + 1] - curve[i]) * (at & (1 << bits) - 1) >> bits), noise

    return normalised


def pcen_s8(step):
    """A row for each frame of a sound."""
    samples, frames, bands, fft, frame, hop = sound_of(step)
    kept, zero = noise_of(step, frames, bands)
    frames -= 4 if kept is not None else 0
    flags = step.within("flags", 0, 127)
    step.want(not flags & ~(_POWER | _BEFORE), "flags are power and before alone")
    first = 1 if flags & _BEFORE else 0
    samples -= first
    step.want(samples >= frame and frames == 1 + (samples - frame) // hop, "the frames are not those of the samples")
    step.want(step.within("bands", 1, 65535) == bands, "there are other columns than bands")
    emphasis = step.within("preemphasis", 0, 1 << 15)
    window, twiddles = step.constant("window", frame), step.constant("twiddles", fft + 2)
    filters, gains = step.constant("filters", 2 * bands), step.constant("gains", step.within("gains", 0, 0x3FFFFFFF))
    normalised = _normaliser(step, step.constant("curve", step.within("points", 2, 65535)))
    check_turns(step, fft, window, twiddles)
    check_filters(step, fft, bands, filters, gains)
    x, y, y_zero = step.x[0].data, step.y.data, step.y.zero_point
    cut, bins, noise = array("i", bytes(4 * frame)), [0] * (fft // 2 + 1), [0] * bands
    roots = root_table()
    read = framed(cut, lambda i: x[i], emphasis, spectrum(fft, window, twiddles, cut, bins))

    def run():
        take_noise(noise, kept, zero)
        at = 0
        for r in range(frames):
            exponent = as_sizes(read(r * hop + first), flags, roots, bins)
            for b, total in enumerate(energies(filters, gains, bins)):
                v, noise[b] = normalised(_number(total, exponent), noise[b])
                y[at] = min((v + 128) >> 8, 127)
                at += 1
        if kept is not None:
            put_noise(noise, y, at, y_zero)

    return run
