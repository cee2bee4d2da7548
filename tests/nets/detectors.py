"""Heads of detectors, small: as Ultralytics exports YOLOv8 and YOLO11, as YOLOv5, as Edge Impulse's FOMO."""

from __future__ import annotations

import numpy as np
from nets import Net

SIZE = 64  # of the picture
CLASSES = 3
REG = 8  # bins of a distance


def _block(net: Net, x: str, n_in: int, n_out: int, k: int = 3, stride: int = 1, group: int = 1) -> str:
    w = net.random(n_out, n_in // group, k, k, scale=1.5 / np.sqrt(n_in // group * k * k))
    p = k // 2
    y = net.add("Conv", x, w, net.random(n_out, scale=0.1), pads=[p] * 4, strides=[stride] * 2, group=group)
    return net.add("Mul", y, net.add("Sigmoid", y))  # SiLU


def _last(net: Net, x: str, n_in: int, n_out: int, gain: float, bias: float) -> str:
    w = net.random(n_out, n_in, 1, 1, scale=gain / np.sqrt(n_in))
    return net.add("Conv", x, w, net.const(np.full(n_out, bias, np.float32)))


def _pyramid(net: Net) -> list[str]:
    """Features of strides 8, 16 and 32, 16 channels each."""
    x, n = net.input([1, 3, SIZE, SIZE], "images"), 3
    levels = []
    for k in range(5):
        x, n = _block(net, x, n, 16, stride=2), 16
        if k >= 2:
            levels.append(x)
    return levels


def _anchors() -> tuple[np.ndarray, np.ndarray]:
    points, strides = [], []
    for stride in (8, 16, 32):
        n = SIZE // stride
        y, x = np.meshgrid(np.arange(n) + 0.5, np.arange(n) + 0.5, indexing="ij")
        points.append(np.stack([x.ravel(), y.ravel()]))
        strides.append(np.full((1, n * n), stride))
    return np.concatenate(points, 1)[None].astype(np.float32), np.concatenate(strides, 1).astype(np.float32)


def ultralytics(version: int = 8, only: str = "") -> Net:
    """output0 [1, 4 + classes, anchors]: boxes in pixels, and scores. only: "boxes" or "scores", that part alone."""
    net = Net(seed=version)
    levels = []
    for x in _pyramid(net):
        box = _last(net, _block(net, x, 16, 16), 16, 4 * REG, 1.5, 1.0)
        y = x
        for _ in range(2):  # YOLO11's class branch is depthwise and pointwise
            y = _block(net, _block(net, y, 16, 16, group=16), 16, 16, 1) if version == 11 else _block(net, y, 16, 16)
        cls = _last(net, y, 16, CLASSES, 8.0, -4.0)
        both = net.add("Concat", box, cls, axis=1) if not only else {"boxes": box, "scores": cls}[only]
        values = {"": 4 * REG + CLASSES, "boxes": 4 * REG, "scores": CLASSES}[only]
        levels.append(net.add("Reshape", both, net.const(np.array([1, values, -1]))))
    x = net.add("Concat", *levels, axis=2)
    if only == "scores":
        net.output(net.add("Sigmoid", x), [1, CLASSES, _anchors()[0].shape[-1]])
        return net
    box, scores = (x, "") if only else (f"{x}.box", f"{x}.cls")
    if not only:
        net.add("Split", x, net.const(np.array([4 * REG, CLASSES])), outputs=[box, scores], axis=1)
    points, strides = _anchors()
    n = points.shape[-1]
    bins = net.add("Reshape", box, net.const(np.array([1, 4, REG, n])))
    bins = net.add("Softmax", net.add("Transpose", bins, perm=[0, 2, 1, 3]), axis=1)
    w = net.const(np.arange(REG, dtype=np.float32).reshape(1, REG, 1, 1))
    distances = net.add("Reshape", net.add("Conv", bins, w), net.const(np.array([1, 4, n])))
    one, two = f"{x}.lt", f"{x}.rb"
    net.add("Split", distances, net.const(np.array([2, 2])), outputs=[one, two], axis=1)
    low, high = net.add("Sub", net.const(points), one), net.add("Add", net.const(points), two)
    centre = net.add("Div", net.add("Add", low, high), net.const(np.float32(2)))
    boxes = net.add("Concat", centre, net.add("Sub", high, low), axis=1)
    boxes = net.add("Mul", boxes, net.const(strides))
    if not only:
        boxes = net.add("Concat", boxes, net.add("Sigmoid", scores), axis=1, outputs=["output0"])
    net.output(boxes, [1, 4 + (0 if only else CLASSES), n])
    return net


def yolo5(only: str = "") -> Net:
    """output [1, boxes, 5 + classes]: for each level Concat(xy, wh, scores) of its anchors,
    one level behind the other."""
    net = Net(seed=5)
    levels = []
    values = 5 + CLASSES
    for x, stride in zip(_pyramid(net), (8, 16, 32), strict=True):
        n = SIZE // stride
        y = _last(net, _block(net, x, 16, 16), 16, 2 * values, 4.0, -1.0)
        y = net.add("Reshape", y, net.const(np.array([1, 2, values, n, n])))
        y = net.add("Sigmoid", net.add("Transpose", y, perm=[0, 1, 3, 4, 2]))
        parts = [f"{y}.{what}" for what in ("xy", "wh", "scores")]
        net.add("Split", y, net.const(np.array([2, 2, 1 + CLASSES])), outputs=parts, axis=4)
        rows, columns = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
        grid = np.stack([columns, rows], -1)[None, None].astype(np.float32)
        xy = net.add("Add", net.add("Mul", parts[0], net.const(np.float32(2 * stride))), net.const(grid * stride))
        wh = net.add(
            "Mul",
            net.add("Pow", net.add("Mul", parts[1], net.const(np.float32(2))), net.const(np.float32(2))),
            net.const(np.float32(stride)),
        )
        chosen = {"": [xy, wh, parts[2]], "boxes": [xy, wh], "scores": [parts[2]]}[only]
        y = net.add("Concat", *chosen, axis=4) if len(chosen) > 1 else chosen[0]
        last = {"": values, "boxes": 4, "scores": 1 + CLASSES}[only]
        levels.append(net.add("Reshape", y, net.const(np.array([1, -1, last]))))
    net.output(net.add("Concat", *levels, axis=1, outputs=["output"]), [1, 2 * 84, last])
    return net


def boxes_and_scores(only: str = "") -> Net:
    """FINDINGS' case: Concat(96 * sigmoid(conv), sigmoid(conv)), 1x7x64."""
    net = Net(seed=2)
    x = _block(net, net.input([1, 3, 8, 8], "images"), 3, 16)
    box = net.add("Mul", net.add("Sigmoid", _last(net, x, 16, 4, 3.0, 0.0)), net.const(np.float32(96)))
    scores = net.add("Sigmoid", _last(net, x, 16, CLASSES, 8.0, -3.0))
    parts = [p for name, p in (("boxes", box), ("scores", scores)) if only in ("", name)]
    y = net.add("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
    n = (4 if only != "scores" else 0) + (CLASSES if only != "boxes" else 0)
    net.output(net.add("Reshape", y, net.const(np.array([1, n, 64])), outputs=["out"]), [1, n, 64])
    return net


def fomo() -> Net:
    """[1, 8, 8, classes]: a softmax for each cell of a grid, channels last."""
    net = Net(seed=3)
    x = _pyramid(net)[0]
    y = _last(net, _block(net, x, 16, 16, 1), 16, 1 + CLASSES, 4.0, 0.0)
    net.output(net.add("Softmax", net.add("Transpose", y, perm=[0, 2, 3, 1]), axis=-1, outputs=["grid"]), [1, 8, 8, 4])
    return net
