"""Pooling."""

from mica.exporter.conv import picture, window
from mica.exporter.step import Form, NoForm, Step, alike, factors


def _pads(s: Step) -> tuple[str, list[int]]:
    """Return what `conv.picture` does. ONNX has no pads as wide as the window."""
    x, pads = picture(s)
    if max(pads[0], pads[2]) >= s.p["kernel_h"] or max(pads[1], pads[3]) >= s.p["kernel_w"]:
        raise NoForm
    return x, pads


def max_pool(s: Step) -> None:
    x, pads = _pads(s)
    s.put(s.node("MaxPool", x, pads=pads, **window(s)), nchw=True)


def average_pool(s: Step) -> None:
    p, taps = s.p, s.p["kernel_h"] * s.p["kernel_w"]
    x, pads = _pads(s)
    real = factors(s.blobs) * (s.y.scale / s.x[0].scale)  # what a sum of n numbers is multiplied by
    attributes = window(s)
    del attributes["dilations"]
    include = int(len(real) == 1 or p["count_include_pad"] == 1)
    if len(real) == 1:
        factor = float(real[0]) * taps  # pads count as zeros, and all windows have all their taps
    elif not all(alike(f, real[0] / n) for n, f in enumerate(real, 1)):
        raise NoForm
    else:
        factor = float(real[0])
        if include and pads[2:] != [p["pad_bottom"], p["pad_right"]]:
            raise NoForm  # windows reach beyond the pads, where nothing counts
    y = s.node("AveragePool", x, pads=pads, count_include_pad=include, **attributes)
    of_all = float(factors(s.blobs)[-1])
    if len(real) == 1 or not any(pads):
        s.put_sum(s.times(y, factor), of_all * s.y.scale, of_all, nchw=True)
    else:
        s.put(s.times(y, factor), nchw=True, units=[of_all])


FORMS: dict[str, Form] = {"max_pool2d_s8": max_pool, "average_pool2d_s8": average_pool}
