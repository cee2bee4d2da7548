"""Convolutions, matrix products, sums and products of tensors to the bit: sums of integers,
and the kernels' multipliers in double precision.

The forms of `conv`, `dense` and `elementwise` multiply by real scales, so that float32 sums may fall on the other side
of a half than the kernels' integers: two of a million values, and a network may double that at each layer.
Here all scales are 1; sums below 2**24 are exact in float32, and a double holds a sum times a multiplier to 2**-53.
Halves go up, as in the kernels.
"""

import numpy as np
from onnx import TensorProto

from mica.exporter.conv import filters, picture, window
from mica.exporter.elementwise import plain
from mica.exporter.step import Form, Step, factors


def _whole(s: Step, i: int = 0, nchw: bool = False) -> str:
    """Input i less its zero point."""
    zero = s.const(np.asarray(np.int8(s.x[i].zero_point)), "x_zero")
    return s.node("DequantizeLinear", s.integers(i, nchw), s.const(1.0, "x_one"), zero)


def _weights(s: Step, weights: np.ndarray) -> str:
    return s.node("DequantizeLinear", s.const(weights, "weights"), s.const(1.0, "weight_one"))


def _put(s: Step, sums: str, nchw: bool = False) -> None:
    """Finish sums of channels without bias as the kernel does: clamp(zy + floor((sum + bias) * factor + 1/2))."""
    shape = (1, -1, 1, 1) if nchw else (-1,)
    weights = s.blobs["weights"]
    taken = s.x[0].zero_point * weights.reshape(len(weights), -1).astype(np.int64).sum(axis=1)  # in the file's bias

    y = _double(s, "Add", s.node("Cast", sums, to=TensorProto.DOUBLE), (s.blobs["bias"] + taken).reshape(shape))
    y = _double(s, "Mul", y, factors(s.blobs).reshape(shape))
    _finish(s, _double(s, "Add", y, 0.5), nchw)


def _double(s: Step, op: str, x: str, a: np.ndarray | float) -> str:
    return s.node(op, x, s.b.const(np.asarray(a, np.float64)))


def _finish(s: Step, name: str, nchw: bool) -> None:
    """Doubles that have only to be cut: the kernel's shift, and its clamp."""
    y = s.node("Floor", name)
    ends = (s.b.const(np.asarray(s.p[p] - s.y.zero_point, np.float64)) for p in ("act_min", "act_max"))
    y = s.node("Cast", s.node("Clip", y, *ends), to=TensorProto.FLOAT)
    zero = s.const(np.asarray(np.int8(s.y.zero_point)), "y_zero")
    s.put_integers(s.node("QuantizeLinear", y, s.const(1.0, "y_one"), zero), nchw)


def conv2d(s: Step) -> None:
    weights, groups = filters(s)
    x, pads = picture(s, _whole)
    _put(s, s.node("Conv", x, _weights(s, weights), pads=pads, group=groups, **window(s)), nchw=True)


def fully_connected(s: Step) -> None:
    w = _weights(s, s.blobs["weights"])
    if len(s.x[0].dims) == 2:
        _put(s, s.node("Gemm", _whole(s), w, transB=1))
    else:
        _put(s, s.node("MatMul", _whole(s), s.node("Transpose", w, perm=[1, 0])))


def add(s: Step) -> None:
    p, nchw = s.p, plain(s)
    a, b = (
        _double(s, "Mul", s.node("Cast", s.integers(i, nchw), to=TensorProto.DOUBLE), p[f"mult_{k}"])
        for i, k in enumerate("ab")
    )
    total = _double(s, "Add", s.node("Add", a, b), p["offset"])
    _finish(s, _double(s, "Mul", total, 2.0 ** -p["shift"]), nchw)


def mul(s: Step) -> None:
    nchw = plain(s)
    product = s.node("Mul", _whole(s, 0, nchw), _whole(s, 1, nchw))
    y = _double(s, "Mul", s.node("Cast", product, to=TensorProto.DOUBLE), s.factor())
    _finish(s, _double(s, "Add", y, 0.5), nchw)


FORMS: dict[str, Form] = {
    "add_s8": add,
    "mul_s8": mul,
    **dict.fromkeys(("conv2d_s8", "depthwise_conv2d_s8"), conv2d),
    "fully_connected_s8": fully_connected,
}
