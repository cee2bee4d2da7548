"""Convolutions and pools over three axes, by those over two.

    y = Conv(x [1, C, D, H, W], w [O, C, kd, kh, kw])   =>   the kd slices that each of the D' places reads, as channels:
                                                             Conv(x' [D', kd C, H, W], w' [O, kd C, kh, kw])
    y = MaxPool(x, [kd, kh, kw]), AveragePool           =>   a pool of [kd, 1] over [D, H W], then one of [kh, kw] over [H, W]

The places stand in the batch, as windows of a picture (passes/windows_in_batch.py).
"""

import math
from typing import Any

import numpy as np

from mica.importer.expand.transformers import Writer


def of_three_axes(op: str, shape: tuple[int, ...]) -> bool:
    """True of a node that `write` takes; shape: of its first input."""
    return op in ("AveragePool", "Conv", "MaxPool") and len(shape) == 5


def write(n: Writer, op: str) -> None:
    """Spells the node out. Raises ValueError."""
    shape = n.shape(n.i[0])
    if shape[0] != 1:
        raise ValueError(f"a batch of {shape[0]} over three axes; 1 is supported")
    if n.attrs.get("ceil_mode") or n.output(1):
        raise ValueError("ceil_mode or places as an output, over three axes")
    weights = n.value(n.i[1]) if op == "Conv" else None
    if op == "Conv" and weights is None:
        raise ValueError("weights that are not constant")
    kernel = list(weights.shape[2:]) if weights is not None else n.attrs["kernel_shape"]
    window = _Window(n.attrs, kernel, shape[2:])  # type: ignore[arg-type]
    if weights is None:
        _pool(n, op, shape, window)
    else:
        _conv(n, shape, weights, window)


class _Window:
    """Strides, dilations, pads (before, behind) and results of each axis."""

    def __init__(self, attrs: dict[str, Any], kernel: list[int], sizes: tuple[int, ...]) -> None:
        self.kernel = kernel
        self.strides, self.dilations = (list(attrs.get(a, [1] * 3)) for a in ("strides", "dilations"))
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, self.dilations, strict=True)]
        auto = attrs.get("auto_pad", b"NOTSET").decode()
        pads = list(attrs.get("pads", [0] * 6)) if auto == "NOTSET" else [0] * 6
        if auto.startswith("SAME"):
            for k, (size, stride) in enumerate(zip(sizes, self.strides, strict=True)):
                total = max(0, (-(-size // stride) - 1) * stride + reach[k] - size)
                pads[k], pads[3 + k] = total // 2, total - total // 2
                if auto == "SAME_LOWER":
                    pads[k], pads[3 + k] = pads[3 + k], pads[k]
        self.pads = [(pads[k], pads[3 + k]) for k in range(3)]
        spans = zip(sizes, self.pads, reach, self.strides, strict=True)
        self.results = [(size + sum(p) - r) // s + 1 for size, p, r, s in spans]

    def plane(self) -> dict[str, list[int]]:
        """Attributes of the last two axes."""
        (top, bottom), (left, right) = self.pads[1:]
        return {"pads": [top, left, bottom, right], "strides": self.strides[1:], "dilations": self.dilations[1:]}


def _reshaped(n: Writer, x: str, *shape: int, output: str = "") -> str:
    return n.emit("Reshape", [x, n.constant("shape", np.array(shape, np.int64))], output)


def _conv(n: Writer, shape: tuple[int, ...], weights: np.ndarray, window: _Window) -> None:
    (_, channels, depth, *plane), deep = shape, window.kernel[0]
    groups, (before, behind) = int(n.attrs.get("group", 1)), window.pads[0]  # type: ignore[call-overload]
    if groups > 1 and deep > 1:
        raise ValueError("groups over three axes; 1 is supported")
    x = _reshaped(n, n.i[0], channels, depth, *plane)
    if before or behind:
        pads = [0, before, 0, 0, 0, behind, 0, 0]
        if n.opset < 11:
            x = n.emit("Pad", [x], "", pads=pads)
        else:
            x = n.emit("Pad", [x, n.constant("pads", np.array(pads)), n.constant("zero", np.zeros((), np.float32))])
    places = np.arange(window.results[0]) * window.strides[0]
    parts = []
    for k in range(deep):
        at = n.constant("at", places + k * window.dilations[0])
        parts.append(n.emit("Gather", [x, at], axis=1) if len(places) < depth + before + behind else x)
    x = n.emit("Transpose", [n.emit("Concat", parts, axis=0) if deep > 1 else parts[0]], perm=[1, 0, 2, 3])
    wide = np.ascontiguousarray(weights.swapaxes(1, 2)).reshape(len(weights), -1, *window.kernel[1:])
    y = n.emit("Conv", [x, n.constant("weights", wide), *n.i[2:3]], "", group=groups, **window.plane())
    y = n.emit("Transpose", [y], perm=[1, 0, 2, 3])
    _reshaped(n, y, 1, len(weights), *window.results, output=n.output(0))


def _pool(n: Writer, op: str, shape: tuple[int, ...], window: _Window) -> None:
    _, channels, depth, *plane = shape
    more: dict[str, Any] = {"count_include_pad": n.attrs.get("count_include_pad", 0)} if op == "AveragePool" else {}
    x, attrs = _reshaped(n, n.i[0], 1, channels, depth, math.prod(plane)), window.plane()
    if window.dilations == [1, 1, 1]:
        del attrs["dilations"]  # which older pools have not
    elif op == "AveragePool":
        raise ValueError("dilations of an average over three axes")
    else:
        more["dilations"] = [window.dilations[0], 1]
    (before, behind), deep = window.pads[0], {"kernel_shape": [window.kernel[0], 1]}
    y = n.emit(op, [x], "", strides=[window.strides[0], 1], pads=[before, 0, behind, 0], **deep, **more)
    y = _reshaped(n, y, 1, channels * window.results[0], *plane)
    y = n.emit(op, [y], "", kernel_shape=window.kernel[1:], **{**more, **attrs})
    _reshaped(n, y, 1, channels, *window.results, output=n.output(0))
