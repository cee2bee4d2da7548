"""Normalisation of rows."""

from mica.fallback.common import root, volume


def layer_norm_s8(step):
    """Mode 0 by mean and deviation, 1 by the root of squares, 2 by the sum of absolute values; then gamma and beta."""
    step.same_shape()
    dims = step.y.shape
    axis = step.within("axis", 0, len(dims))
    n = volume(dims[axis:])
    inner, wide = step.within("inner", 1, 65535), step.within("channels", 1, 65535)
    step.want(
        n <= 65535 and n % inner == 0 and (wide % (n // inner) == 0 or (inner == 1 and n % wide == 0)),
        "the channels do not divide the rows",
    )
    mode = step.within("mode", 0, 2)
    epsilon = step.within("epsilon_high", 0, (1 << 30) - 1) << 32 | step.params["epsilon_low"] & 0xFFFFFFFF
    shift = step.within("shift", 0, 30)
    gamma, beta = step.constant("gamma", wide), step.constant("beta", wide)
    low, high = step.clamp()
    zero_x, zero_y = step.x[0].zero_point if mode else 0, step.y.zero_point
    half = (1 << shift) >> 1
    x, y = step.x[0].data, step.y.data

    def run():
        for first in range(0, len(x), n):
            total = squares = absolute = 0
            for i in range(first, first + n):
                d = x[i] - zero_x
                total += d
                squares += d * d
                absolute += abs(d)
            spread = squares if mode == 1 else absolute * absolute if mode == 2 else n * squares - total * total
            m = (spread << 14) + epsilon
            scale = h = 0
            if m:
                while m >> 62 == 0:
                    m <<= 2
                    h += 1
                r = root(m >> 32)
                scale = ((1 << 31) + (r >> 1)) // r
            for i in range(first, first + n):
                d = x[i] - zero_x if mode else n * x[i] - total
                normal = (d * scale << h) >> 20
                o = i // inner % wide
                v = zero_y + ((((normal * gamma[o]) >> 20) + beta[o] + half) >> shift)
                y[i] = low if v < low else high if v > high else v

    return run


def norm_s8(step):
    """The same by mean and deviation (mode 0) or the root of squares (1), as 32 bits hold it."""
    step.same_shape()
    dims = step.y.shape
    n = volume(dims[step.within("axis", 0, len(dims)) :])
    step.want(n <= 65535, "more than 65535 elements to normalise together")
    mode, each = step.within("mode", 0, 1), step.within("each", 0, 1)
    fraction, epsilon = step.within("fraction", 0, 16), step.within("epsilon", 0, 0x7FFFFFFF)
    factor, up = step.within("factor", 1, 65535), step.within("up", -24, 16)
    most = (1 << 30) - 1
    offset = step.within("offset", -most, most)
    low, high = step.clamp()
    zero = step.x[0].zero_point
    spread = n * max(127 - zero, zero + 128) ** 2 if mode else (255 * n) ** 2 // 4
    step.want((spread << fraction) + epsilon < 1 << 32, "the sums of a row can leave 32 bits")
    step.want(mode or n * factor <= 1 << 24, "the sums of a row can leave 32 bits")
    reach, down = 1 if mode else max(n - 1, 1), 8 + fraction - 2 * up
    step.want(
        down >= 0 and reach * 63 * factor * factor <= 32704**2 << down, "elements that are normalised can leave 16 bits"
    )
    terms = step.constant("terms", n << each)
    for i in range(n):
        step.want(
            -32768 <= terms[i << each] <= 32767 and (not each or -most <= terms[2 * i + 1] <= most),
            "gamma or an offset is so large that a result can overflow",
        )
    x, y = step.x[0].data, step.y.data

    def shifted(v, up):
        return v << up if up >= 0 else ((v >> (-up - 1)) + 1) >> 1

    def run():
        for first in range(0, len(x), n):
            total = squares = 0
            for i in range(first, first + n):
                d = x[i] - (zero if mode else 0)
                total += d
                squares += d * d
            w = ((squares if mode else n * squares - total * total) << fraction) + epsilon
            scale = centre = 0
            if w:
                h = up
                while w >> 30 == 0:
                    w <<= 2
                    h += 1
                m = ((w >> 15) + 1) >> 1
                r = 69250 - (m * 39500 >> 16)
                for _ in range(3):
                    r += (((63 << 24) - (m >> 1) - (r * r >> 16) * m) >> 14) * r >> 17
                s = ((r * factor >> 15) + 1) >> 1
                scale = shifted(s if mode else n * s, h)
                centre = shifted((zero if mode else total) * s, h)
            for i in range(n):
                t = (x[first + i] * scale - centre + 32768) >> 16
                v = ((t * terms[i << each] + (terms[2 * i + 1] if each else offset)) >> 20) - 128
                y[first + i] = low if v < low else high if v > high else v

    return run
