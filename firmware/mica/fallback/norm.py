"""Normalisation of rows."""

from mica.fallback.common import root, volume


def layer_norm_s8(step):
    """Mode 0 by mean and deviation, 1 by the root of squares, 2 by the sum of absolute values; then gamma and beta."""
    step.same_shape()
    dims = step.y.shape
    axis = step.within("axis", 0, len(dims))
    n = volume(dims[axis:])
    inner, wide = step.within("inner", 1, 65535), step.within("channels", 1, 65535)
    step.want(n <= 65535 and n % inner == 0 and wide % (n // inner) == 0, "the channels do not divide the rows")
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
