"""Softmax along the last dimension.

SOFTMAX(x, beta)   =>   Softmax(x * beta); the product has the integers of x, on a scale of its own
LOG_SOFTMAX(x)     =>   LogSoftmax(x)
"""

import math

import numpy as np

from mica.importer.tflite.net import Grid8, Net
from mica.importer.tflite.operators.form import Form, Op


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


FORMS = {"LOG_SOFTMAX": Form(_softmax), "SOFTMAX": Form(_softmax, "SoftmaxOptions")}
