"""Convolutions: each output pixel collects its taps once, then each channel multiplies them by its row of weights."""

from mica.fallback.common import channels, image, window


def conv2d_s8(step):
    """x [1,H,W,Cin], weights [Cout,KH,KW,Cin/groups] -> y [1,OH,OW,Cout]."""
    return _conv(step, step.params["groups"], _taps)


def depthwise_conv2d_s8(step):
    """x [1,H,W,C], weights [C*m,KH,KW] -> y [1,OH,OW,C*m]: a group for each input channel."""
    (_, _, n), _ = image(step)
    return _conv(step, n, _taps)


def conv_transpose2d_s8(step):
    """x [1,H,W,Cin], weights [Cout,KH,KW,Cin/groups] -> y [1,OH,OW,Cout]. Each output sums its products."""
    return _conv(step, step.params["groups"], _taps_back)


def _taps(out, step, kernel, dilation, pad, size):
    """Return where the taps of output row (or column) `out` lie; -1 outside the input's `size`."""
    first = out * step - pad
    at = [first + k * dilation for k in range(kernel)]
    return [i if 0 <= i < size else -1 for i in at]


def _taps_back(out, step, kernel, dilation, pad, size):
    """Return the input rows i with i * step + k * dilation = out + pad, -1 where there is none."""
    taps = []
    for k in range(kernel):
        i, rest = divmod(out + pad - k * dilation, step)
        taps.append(i if rest == 0 and 0 <= i < size else -1)
    return taps


def _conv(step, groups, taps):
    (h, w, cin), (oh, ow, cout) = image(step)
    kh, sh, dh, top, kw, sw, dw, left = window(step, oh, ow)
    sound = 1 <= groups <= cin and cin % groups == 0 and cout % groups == 0
    step.want(sound, "the groups do not divide the channels")
    n, m = cin // groups, cout // groups  # channels of a group: in, out
    k = kh * kw * n
    weights, row = step.weights(cout, k)
    bias = step.constant("bias", cout)
    finish = channels(step, cout)
    x, y = step.x[0].data, step.y.data
    zero = step.x[0].zero_point

    def run():
        patch = [0] * k
        columns = [taps(ox, sw, kw, dw, left, w) for ox in range(ow)]
        at = 0
        for oy in range(oh):
            rows = taps(oy, sh, kh, dh, top, h)
            for ox in range(ow):
                for g in range(groups):
                    i = 0
                    for iy in rows:
                        for ix in columns[ox]:
                            if iy < 0 or ix < 0:
                                for _ in range(n):
                                    patch[i] = zero
                                    i += 1
                            else:
                                first = (iy * w + ix) * cin + g * n
                                for c in range(first, first + n):
                                    patch[i] = x[c]
                                    i += 1
                    for o in range(g * m, g * m + m):
                        acc = bias[o]
                        r = o * row
                        for v in patch:
                            acc += v * weights[r]
                            r += 1
                        y[at] = finish(acc, o)
                        at += 1

    return run
