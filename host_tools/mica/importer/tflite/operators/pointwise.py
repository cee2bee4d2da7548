"""Functions of one tensor, element by element, and softmax along the last dimension.

SOFTMAX(x, beta)   =>   Softmax(x * beta); the product has the integers of x, on a scale of its own
"""

import math

import numpy as np

from mica.importer.tflite.net import Grid8, Net
from mica.importer.tflite.operators.form import Form, Op

_LIKE = ("Abs", "Ceil", "Cos", "Elu", "Exp", "Floor", "Log", "Neg", "Round", "Sign", "Sin", "Sqrt", "Tanh")
SAME_NAME = {name.upper(): name for name in _LIKE}
SAME_NAME |= {"HARD_SWISH": "HardSwish", "LOGICAL_NOT": "Not", "LOGISTIC": "Sigmoid"}
POSITIVE = ("ABS", "EXP", "LOGISTIC", "RELU", "RELU6", "RELU_0_TO_1", "RSQRT", "SQRT", "SQUARE")


def _function(net: Net, op: Op) -> None:
    x = net.x(op.i(0))
    if op.kind in SAME_NAME:
        y = net.node(SAME_NAME[op.kind], [x])
    elif op.kind == "RSQRT":
        y = net.node("Reciprocal", [net.node("Sqrt", [x])])
    elif op.kind == "SQUARE":
        y = net.node("Mul", [x, x])
    elif op.kind == "LEAKY_RELU":
        y = net.node("LeakyRelu", [x], alpha=float(op["alpha"]))
    elif op.kind == "GELU":
        y = net.node("Gelu", [x], approximate="tanh" if op["approximate"] else "none")
    else:
        y = net.function(x, op.kind)
    net.done(op.y, y, positive=op.kind in POSITIVE)


def _cast(net: Net, op: Op) -> None:
    """Numbers as numbers of another type; an int32 that has a scale would lose it."""
    x, y, value = net.tensor(op.i(0)), net.tensor(op.y), net.x(op.i(0))
    to_float = y.dtype == "float32" and x.dtype in ("bool", "float16", "float32", "int32", "int64", "int8", "uint8")
    rows = x.dtype in ("int32", "int64") and y.dtype in ("int32", "int64")
    if y.grid is not None or not (to_float or rows) or (x.grid is not None and x.dtype not in ("int8", "uint8")):
        raise ValueError(f"a cast from {x.dtype} to {y.dtype}")
    if x.grid is not None:  # the integers themselves: real / scale + zero point
        scale, zero = (net.real_number(float(v[0])) for v in (x.grid.scale, x.grid.zero_point))
        net.done(op.y, net.node("Add", [net.node("Div", [value, scale]), zero]))
        return
    net.done(op.y, net.node("Cast", [value], to={"float32": 1, "int32": 6, "int64": 7}[y.dtype]))


def _requantise(net: Net, op: Op) -> None:
    """QUANTIZE, DEQUANTIZE, FAKE_QUANT: the same real numbers, rounded as the output's type says."""
    if net.tensor(op.y).dtype in ("int32", "int64"):  # finer than what made it: nothing is left to round
        net.real[op.y] = net.x(op.i(0))
        return
    net.done(op.y, net.x(op.i(0)), like=op.i(0))


def _softmax(net: Net, op: Op) -> None:
    x, beta = net.x(op.i(0)), float(op.options.get("beta", 1.0))
    if not (math.isfinite(beta) and beta > 0):
        raise ValueError(f"a factor beta of {beta}")
    if beta != 1:
        grid = net.grids.get(op.i(0))
        x = net.node("Mul", [x, net.real_number(beta)])
        if grid is not None:
            x = net.rounded(x, Grid8(float(np.float32(grid.scale * beta)), grid.zero_point, grid.dtype))
    y = net.node("Softmax" if op.kind == "SOFTMAX" else "LogSoftmax", [x], axis=-1)
    net.done(op.y, y, positive=op.kind == "SOFTMAX")


FORMS = {
    **dict.fromkeys((*SAME_NAME, "RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "RSQRT", "SQUARE"), Form(_function)),
    "CAST": Form(_cast),
    "DEQUANTIZE": Form(_requantise),
    "GELU": Form(_function, "GeluOptions"),
    "LEAKY_RELU": Form(_function, "LeakyReluOptions"),
    "LOG_SOFTMAX": Form(_softmax),
    "QUANTIZE": Form(_requantise),
    "SOFTMAX": Form(_softmax, "SoftmaxOptions"),
}
