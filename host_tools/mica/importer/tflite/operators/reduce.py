"""Sums, extremes, norms and spectra along dimensions; `sound.recognise` makes a front end of a spectrum.

MEAN, SUM, REDUCE_MAX, REDUCE_MIN (x, axes)   =>   ReduceMean ... in the output's shape
ARG_MAX, ARG_MIN (x, axis)                    =>   ArgMax, ArgMin, Cast to int32 where the file has that
L2_NORMALIZATION(x)                           =>   LpNormalization along the last dimension
CUMSUM(x, axis)                               =>   CumSum
TOPK_V2(x, k)                                 =>   TopK, Cast
RFFT2D(x [.., 1, N])                          =>   DFT of the last axis: [.., 1, N / 2 + 1, 2], real and imaginary
COMPLEX_ABS(x)                                =>   the square root of both squares
"""

import numpy as np
from onnx import TensorProto, helper

from mica.importer.tflite.net import Net
from mica.importer.tflite.operators.form import Form, Op

REDUCTIONS = {"MEAN": "ReduceMean", "SUM": "ReduceSum", "REDUCE_MAX": "ReduceMax", "REDUCE_MIN": "ReduceMin"}


def axes_of(net: Net, i: int, rank: int) -> list[int]:
    """Dimensions that a constant names, 0 to rank - 1. Raises ValueError."""
    found = net.data(i, "dimensions").reshape(-1)
    if found.size > 8 or found.dtype.kind != "i" or any(not -rank <= a < rank for a in found.tolist()):
        raise ValueError(f"the dimensions {found[:8].tolist()} of a tensor of {rank}")
    return sorted({a % rank for a in found.tolist()})


def _reduce(net: Net, op: Op) -> None:
    x = op.i(0)
    axes = axes_of(net, op.i(1), len(net.shape(x)))
    if not axes:
        net.done(op.y, net.x(x), like=x)
        return
    y = net.node(REDUCTIONS[op.kind], [net.x(x), net.numbers(axes)], keepdims=int(op["keep_dims"]))
    net.done(op.y, y, like=x)


def _arg(net: Net, op: Op) -> None:
    axes = axes_of(net, op.i(1), len(net.shape(op.i(0))))
    if len(axes) != 1:
        raise ValueError(f"{len(axes)} dimensions to search")
    kind = "ArgMax" if op.kind == "ARG_MAX" else "ArgMin"
    y = net.node(kind, [net.x(op.i(0))], axis=axes[0], keepdims=0)
    net.done(op.y, net.node("Cast", [y], to=TensorProto.INT32) if net.tensor(op.y).dtype == "int32" else y)


def _l2_norm(net: Net, op: Op) -> None:
    y = net.node("LpNormalization", [net.x(op.i(0))], axis=len(net.shape(op.i(0))) - 1, p=2)
    net.done(op.y, net.activation(y, op["activation"]))


def _cumsum(net: Net, op: Op) -> None:
    axes = axes_of(net, op.i(1), len(net.shape(op.i(0))))
    if len(axes) != 1:
        raise ValueError(f"{len(axes)} dimensions to add along")
    attrs = {name: int(op[name]) for name in ("exclusive", "reverse")}
    net.done(op.y, net.node("CumSum", [net.x(op.i(0)), net.const(np.int64(axes[0]))], **attrs))


def _top_k(net: Net, op: Op) -> None:
    values, places = op.outputs
    k, shape = net.data(op.i(1), "a number of values").reshape(-1), net.shape(op.i(0))
    if k.size != 1 or net.tensor(places).dtype not in ("int32", "int64"):
        raise ValueError(f"{k[:8].tolist()} values, and places of {net.tensor(places).dtype}")
    if not shape or not 1 <= k[0] <= shape[-1]:
        raise ValueError(f"the {k[0]} largest values of {list(shape)}")
    y, at = net.several("TopK", [net.x(op.i(0)), net.numbers(k)], 2, axis=len(shape) - 1)
    net.done(values, y, like=op.i(0))
    net.done(places, net.node("Cast", [at], to=helper.np_dtype_to_tensor_dtype(np.dtype(net.tensor(places).dtype))))


def _rfft(net: Net, op: Op) -> None:
    shape, size = net.shape(op.i(0)), net.data(op.i(1), "a length").reshape(-1).tolist()
    if len(size) != 2 or size[0] != 1 or len(shape) < 2 or shape[-2] != 1:
        raise ValueError(f"a spectrum of {list(shape)}, of the lengths {size}; one of rows is supported")
    wide = net.node("Unsqueeze", [net.x(op.i(0)), net.numbers([len(shape)])])
    numbers = [net.const(np.int64(n)) for n in (size[1], len(shape) - 1)]  # its points and its axis
    net.real[op.y] = net.node("DFT", [wide, *numbers], onesided=1)


def _abs(net: Net, op: Op) -> None:
    x = net.x(op.i(0))
    power = net.node("ReduceSum", [net.node("Mul", [x, x]), net.numbers([len(net.shape(op.y))])], keepdims=0)
    net.done(op.y, net.node("Sqrt", [power]))


FORMS = {
    **{name: Form(_reduce, "ReducerOptions", (2, 2)) for name in REDUCTIONS},
    "ARG_MAX": Form(_arg, "ArgMaxOptions", (2, 2)),
    "ARG_MIN": Form(_arg, "ArgMinOptions", (2, 2)),
    "COMPLEX_ABS": Form(_abs),
    "CUMSUM": Form(_cumsum, "CumsumOptions", (2, 2)),
    "L2_NORMALIZATION": Form(_l2_norm, "L2NormOptions"),
    "RFFT2D": Form(_rfft, "", (2, 2)),
    "TOPK_V2": Form(_top_k, "", (2, 2), (2, 2)),
}
