"""Pooling over windows."""

from mica.fallback.common import factors, image, window


def _span(first, kernel, dilation, size):
    """Return the taps of a window that lie inside [0, size)."""
    return [i for i in range(first, first + (kernel - 1) * dilation + 1, dilation) if 0 <= i < size]


def max_pool2d_s8(step):
    """x [1,H,W,C] -> y [1,OH,OW,C]; a window without a tap inside gives act_min."""
    (h, w, c), (oh, ow, n) = image(step)
    kh, sh, dh, top, kw, sw, dw, left = window(step, oh, ow)
    step.want(c == n, "input and output differ in channels")
    step.same_scale()
    low, high = step.clamp()
    x, y = step.x[0].data, step.y.data

    def run():
        at = 0
        for oy in range(oh):
            rows = _span(oy * sh - top, kh, dh, h)
            for ox in range(ow):
                columns = _span(ox * sw - left, kw, dw, w)
                for o in range(c):
                    most = low
                    for iy in rows:
                        for ix in columns:
                            v = x[(iy * w + ix) * c + o]
                            if v > most:
                                most = v
                    y[at] = min(most, high)
                    at += 1

    return run


def average_pool2d_s8(step):
    """x [1,H,W,C] -> y [1,OH,OW,C]; the factor depends on how many taps count."""
    (h, w, c), (oh, ow, n) = image(step)
    kh, sh, dh, top, kw, sw, dw, left = window(step, oh, ow)
    step.want(c == n, "input and output differ in channels")
    step.want(dh == 1 and dw == 1, "dilation is not 1")
    padded = step.within("count_include_pad", 0, 1)
    bottom, right = step.within("pad_bottom", 0, 65535), step.within("pad_right", 0, 65535)
    inside = top < kh and left < kw and (oh - 1) * sh - top < h and (ow - 1) * sw - left < w
    step.want(inside, "a window lies wholly outside the input")
    step.want(255 * kh * kw < 1 << 31, "the window is too large")
    mult = dict(step.constants())["mult"]
    n = len(mult)
    step.want(n in (1, kh * kw), "mult wants one entry, or one for each number of taps")
    shift = step.constant("shift", n)
    factors(step, mult, shift)
    low, high = step.clamp()
    x, y = step.x[0].data, step.y.data
    zero_x, zero_y = step.x[0].zero_point, step.y.zero_point

    def counted(first, kernel, before, size, behind):
        """Return how many taps along an axis count."""
        if not padded:
            before = behind = 0
        return min(first + kernel, size + behind) - max(first, -before)

    def run():
        at = 0
        for oy in range(oh):
            first_y = oy * sh - top
            rows = _span(first_y, kh, 1, h)
            for ox in range(ow):
                first_x = ox * sw - left
                columns = _span(first_x, kw, 1, w)
                taps = counted(first_y, kh, top, h, bottom) * counted(first_x, kw, left, w, right)
                entry = taps - 1 if n > 1 else 0
                factor = mult[entry]
                s = shift[entry] + 31
                half = 1 << (s - 1)
                less = len(rows) * len(columns) * zero_x
                for o in range(c):
                    acc = -less
                    for iy in rows:
                        for ix in columns:
                            acc += x[(iy * w + ix) * c + o]
                    v = zero_y + ((acc * factor + half) >> s)
                    y[at] = low if v < low else high if v > high else v
                    at += 1

    return run
