"""Reductions."""

import math

import numpy as np
from onnx import TensorProto

from mica.exporter.step import Form, Step, alike
from mica.kernels.reduce import REDUCE_MODES


def reduce(s: Step) -> None:
    p, mode = s.p, REDUCE_MODES[s.p["mode"]]
    axes = list(range(p["axis"], p["axis"] + p["axes"]))
    n = math.prod(s.x[0].dims[a] for a in axes)

    def over(op: str, x: str) -> str:
        return s.node(op, x, s.const(np.array(axes, np.int64)), keepdims=0, noop_with_empty_axes=1)

    x, sx = s.real(), s.x[0].scale
    if mode in ("max", "min"):
        y = over("ReduceMax" if mode == "max" else "ReduceMin", x) if axes else x
    else:
        factor = s.factor() * s.y.scale
        if mode == "sum" and n > 1 and alike(factor * n, sx):
            y = over("ReduceMean", x)
        elif mode in ("sum", "log"):
            y = over("ReduceSum", x)
        elif mode == "squares":
            y = over("ReduceSum", s.node("Mul", x, x))
        elif mode == "absolute":
            y = over("ReduceSum", s.node("Abs", x))
        else:
            y = s.node("Sqrt", over("ReduceSum", s.node("Mul", x, x)))
        if mode == "log":  # of a sum of 0 or less: what is lowest
            y = s.node("Log", s.node("Max", y, s.const(sx * 1e-6)))
            y = s.times(y, factor * 2**16 / math.log(2))
            y = s.node("Add", y, s.const(factor * (p["bias"] - 2**16 * math.log2(sx))))
            lowest = s.const((p.get("act_min", -128) - s.y.zero_point) * s.y.scale)
            y = s.node("Where", s.node("Less", over("ReduceSum", x), s.const(0.5 * sx)), lowest, y)
        elif s.b.nodes[-1].op_type != "ReduceMean":
            power = {"sum": sx, "squares": sx * sx, "absolute": sx, "root": sx / 2**15}[mode]
            y = s.times(y, factor / power)
    y = s.node("Reshape", y, s.shape(s.y.dims))
    if mode in ("sum", "squares", "absolute"):
        s.put_sum(y, s.factor() * s.y.scale, s.factor())
    else:
        s.put(y)


def argmax(s: Step) -> None:
    op = "ArgMin" if s.p["minimum"] else "ArgMax"
    y = s.node(op, s.real(), axis=s.p["axis"], keepdims=0, select_last_index=s.p["select_last"])
    y = s.node("Cast", y, to=TensorProto.INT32)
    s.put_integers(s.node("Reshape", y, s.shape(s.y.dims)))


def top_k(s: Step) -> None:
    k, largest = s.y.dims[s.p["axis"]], 1 - s.p["smallest"]
    places = s.node("TopK", s.real(), s.const(np.array([k], np.int64)), output=1, axis=s.p["axis"], largest=largest)
    s.put_integers(s.node("Cast", places, to=TensorProto.INT32))


FORMS: dict[str, Form] = {"reduce_s8": reduce, "argmax_s8": argmax, "top_k_s8": top_k}
