"""Convolutions: NHWC here, NCHW in ONNX; the transposes round each cancel later.

CONV_2D(x, w [O,H,W,I], b)             =>   Conv(x, w [O,I,H,W], b), activation
DEPTHWISE_CONV_2D(x, w [1,H,W,O], b)   =>   Conv(x, w [O,1,H,W], b, group=C), activation
TRANSPOSE_CONV(shape, w [O,H,W,I], x)  =>   ConvTranspose(x, w [I,O,H,W]), activation
CONV_2D(PAD(x, zero point))            =>   Conv(x) with the pads of both
"""

import numpy as np

from mica.importer.tflite import schema
from mica.importer.tflite.net import TO_NCHW, TO_NHWC, Net
from mica.importer.tflite.operators.form import Form, Op
from mica.importer.tflite.operators.weights import bias_of, weights_of

OIHW_OF_OHWI = (0, 3, 1, 2)
OIHW_OF_IHWO = (3, 0, 1, 2)


def window(net: Net, op: Op, x: int, kernel: tuple[int, ...]) -> tuple[list[int], list[int], list[int]]:
    """(strides, dilations, pads: top, left, bottom, right) of a window over x. Raises ValueError."""
    xs, ys = net.shape(x), net.shape(op.y)
    if len(xs) != 4 or len(ys) != 4 or min(*xs, *ys, *kernel) < 1:
        raise ValueError(f"a window of {list(kernel)} over {list(xs)} that gives {list(ys)}")
    strides = [op.integer("stride_h"), op.integer("stride_w")]
    dilations = [op.integer(f"dilation_{side}") if f"dilation_{side}" in op.options else 1 for side in "hw"]
    if min(*strides, *dilations) < 1:
        raise ValueError(f"strides {strides}, dilations {dilations}")
    before, behind = [], []
    for size, out, k, stride, dilation in zip(xs[1:3], ys[1:3], kernel, strides, dilations, strict=True):
        reach = (k - 1) * dilation + 1
        same = op["padding"] == schema.SAME
        expected = -(-size // stride) if same else (size - reach) // stride + 1
        if out != expected:
            raise ValueError(f"an output of {out} rows or columns; a window of {reach} over {size} gives {expected}")
        total = max((out - 1) * stride + reach - size, 0) if same else 0
        before.append(total // 2)
        behind.append(total - total // 2)
    return strides, dilations, [*before, *behind]


def unpadded(net: Net, x: int) -> tuple[int, list[int]]:
    """The tensor that an operator of zeros in front of x has padded, and how (as `window`); else x itself."""
    return net.pads.get(x, (x, [0, 0, 0, 0]))


def _conv(net: Net, op: Op) -> None:
    x, w = op.i(0), op.i(1)
    depthwise = op.kind == "DEPTHWISE_CONV_2D"
    ws = net.shape(w)
    if len(ws) != 4 or min(ws) < 1 or (depthwise and ws[0] != 1):
        raise ValueError(f"weights of shape {list(ws)}")
    if net.tensor(x).data is not None:
        raise ValueError("its input is constant")
    strides, dilations, pads = window(net, op, x, ws[1:3])
    channels = net.shape(x)[3]
    per_group = 1 if depthwise else ws[3]
    groups = channels // per_group
    filters = ws[3] if depthwise else ws[0]
    if channels % per_group or filters % groups:
        raise ValueError(f"weights of shape {list(ws)} for {channels} channels")
    source, around = unpadded(net, x)
    kernel, scales = weights_of(net, w, OIHW_OF_IHWO if depthwise else OIHW_OF_OHWI)
    inputs = [net.transpose(net.x(source), TO_NCHW), kernel, *bias_of(net, op.i(2), x, scales, filters)]
    y = net.node(
        "Conv",
        inputs,
        strides=strides,
        dilations=dilations,
        pads=[a + b for a, b in zip(pads, around, strict=True)],
        group=groups,
        kernel_shape=list(ws[1:3]),
    )
    _finish(net, op, y)


def _transpose_conv(net: Net, op: Op) -> None:
    x, w = op.i(2), op.i(1)
    ws, xs, ys = net.shape(w), net.shape(x), net.shape(op.y)
    if len(ws) != 4 or len(xs) != 4 or len(ys) != 4 or min(*ws, *xs, *ys) < 1 or ws[3] != xs[3] or ws[0] != ys[3]:
        raise ValueError(f"weights of shape {list(ws)} from {list(xs)} to {list(ys)}")
    expected = net.data(op.i(0), "an output shape")
    if expected.reshape(-1).tolist() != list(ys):
        raise ValueError(f"an output of {list(ys)}; it is told to make {expected.reshape(-1)[:4].tolist()}")
    strides = [op.integer("stride_h"), op.integer("stride_w")]
    if min(strides) < 1:
        raise ValueError(f"strides {strides}")
    before, behind, extra = [], [], []
    for size, out, k, stride in zip(xs[1:3], ys[1:3], ws[1:3], strides, strict=True):
        whole = (size - 1) * stride + k
        if size != (-(-out // stride) if op["padding"] == schema.SAME else (out - k) // stride + 1):
            raise ValueError(f"an input of {size} rows or columns, strides {strides}, that make {out}")
        before.append(max(whole - out, 0) // 2)
        behind.append(max(whole - out, 0) - before[-1])
        extra.append(max(out - whole, 0))
    kernel, scales = weights_of(net, w, OIHW_OF_IHWO, channel=1)
    inputs = [net.transpose(net.x(x), TO_NCHW), kernel, *bias_of(net, op.i(3), x, scales, ws[0])]
    y = net.node(
        "ConvTranspose",
        inputs,
        strides=strides,
        pads=[*before, *behind],
        output_padding=extra,
        kernel_shape=list(ws[1:3]),
    )
    _finish(net, op, y)


def _finish(net: Net, op: Op, y: str) -> None:
    y = net.activation(net.transpose(y, TO_NHWC), op["activation"])
    net.done(op.y, y, positive=schema.ACTIVATIONS.get(op.integer("activation"), "") in ("RELU", "RELU6"))


def _pad(net: Net, op: Op) -> None:
    """PAD(x, pads [rank, 2]), PADV2 with a number to fill with."""
    x, rank = op.i(0), len(net.shape(op.i(0)))
    pads = net.data(op.i(1), "pads")
    if pads.shape != (rank, 2) or np.any(pads < 0):
        raise ValueError(f"pads of shape {list(pads.shape)} for a tensor of {rank} dimensions")
    grown = [n + int(a) + int(b) for n, (a, b) in zip(net.shape(x), pads, strict=True)]
    if grown != list(net.shape(op.y)):
        raise ValueError(f"an output of {list(net.shape(op.y))}; its pads give {grown}")
    value = _pad_value(net, op)
    y = net.node("Pad", [net.x(x), net.numbers(pads.T.reshape(-1)), net.real_number(value)])
    net.done(op.y, y, like=x)
    same = net.grid(op.y) is None or net.grids.get(x) == net.grids.get(op.y)
    if value == 0 and rank == 4 and same and not np.any(pads[[0, 3]]):
        source, around = unpadded(net, x)
        own = [*pads[1:3, 0].tolist(), *pads[1:3, 1].tolist()]
        net.pads[op.y] = (source, [a + b for a, b in zip(own, around, strict=True)])


def _pad_value(net: Net, op: Op) -> float:
    if op.i(2) < 0:
        return 0.0
    t, value = net.tensor(op.i(2)), net.data(op.i(2), "a number to pad with")
    if value.size != 1:
        raise ValueError(f"{value.size} numbers to pad with")
    number = float(value.reshape(-1)[0])
    return number if t.grid is None else (number - float(t.grid.zero_point[0])) * float(t.grid.scale[0])


FORMS = {
    "CONV_2D": Form(_conv, "Conv2DOptions", (2, 3)),
    "DEPTHWISE_CONV_2D": Form(_conv, "DepthwiseConv2DOptions", (2, 3)),
    "PAD": Form(_pad, "", (2, 2)),
    "PADV2": Form(_pad, "", (3, 3)),
    "TRANSPOSE_CONV": Form(_transpose_conv, "TransposeConvOptions", (3, 4)),
}
