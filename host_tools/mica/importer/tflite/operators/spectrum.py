"""The spectrum of sound that a model computes itself, as YAMNet; `sound.recognise` makes a front end of it.

RFFT2D(x [.., 1, N])      =>   DFT of the last axis: [.., 1, N / 2 + 1, 2], real and imaginary
COMPLEX_ABS(x)            =>   the square root of both squares
"""

import numpy as np

from mica.importer.tflite.net import Net
from mica.importer.tflite.operators.form import Form, Op


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


FORMS = {"COMPLEX_ABS": Form(_abs), "RFFT2D": Form(_rfft, "", (2, 2))}
