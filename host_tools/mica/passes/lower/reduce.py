"""Reductions: one number of all along some axes.

y = ReduceSum(x, axes), Mean, L1, L2, SumSquare, LogSum   =>   y = Reduce(x) over adjacent axes, transposed first where
                                                                they are not
y = ReduceMax(x, axes), ReduceMin                         =>   y = Extreme(x), likewise
y = ReduceLogSumExp(x, axes)                              =>   y = LogSumExp(x), the axes brought to the end
y = ReduceMean(x, H and W of an image)                    =>   y = AveragePool2d(x as NHWC)
y = ArgMax(x, axis), ArgMin                               =>   y = ArgMax(x)
v, i = TopK(x, 1)                                         =>   v = Extreme(x); i = ArgMax(x)
v, i = TopK(x, k)                                         =>   i = TopK(x); v = Pick(x, i)
y = GlobalLpPool(x)                                       =>   y = Reduce(x) over all but batch and channels
"""

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes.builder import TO_NHWC, Builder, Lowering
from mica.passes.lower.arithmetic import CLIP

MODES = {
    "ReduceL1": "absolute",
    "ReduceL2": "root",
    "ReduceLogSum": "log",
    "ReduceMean": "sum",
    "ReduceSum": "sum",
    "ReduceSumSquare": "squares",
}


def _axes(b: Builder, node: Node) -> list[int] | None:
    """The axes of a reduction, sorted; None for an empty list that means no axes at all."""
    rank = len(b.shape(node.inputs[0]))
    axes = node.attrs.get("axes")
    if axes is None and len(node.inputs) > 1 and node.inputs[1]:
        axes = b.constant(node.inputs[1], "axes").reshape(-1).tolist()
    if not axes:
        return None if node.attrs.get("noop_with_empty_axes") else list(range(rank))
    if any(not -rank <= a < rank for a in axes):
        raise ValueError(f"axes {list(axes)} of a tensor of {rank} dimensions")
    return sorted({int(a) % rank for a in axes})


def adjacent(shape: tuple[int, ...], axes: list[int]) -> tuple[int, int] | None:
    """(first, how many) of a run of axes that holds all of `axes` and otherwise only dimensions of 1, or None."""
    if not axes:
        return 0, 0
    first, last = axes[0], axes[-1]
    between = [i for i in range(first, last + 1) if i not in axes and shape[i] != 1]
    return None if between else (first, last - first + 1)


def as_run(b: Builder, x: str, axes: list[int]) -> tuple[str, int, int]:
    """x with `axes` next to each other, transposed where they are not: (name, first axis, how many)."""
    shape = b.shape(x)
    run = adjacent(shape, axes)
    if run is None:
        x = b.transpose(x, [i for i in range(len(shape)) if i not in axes] + axes)
        run = len(shape) - len(axes), len(axes)
    return x, *run


def reduce_to(b: Builder, out: str, x: str, axes: list[int], mode: str, factor: float = 1.0) -> None:
    """out = factor * what `mode` says of x's numbers along `axes`, in out's shape."""
    x, axis, n = as_run(b, x, axes)
    shape = b.shape(x)
    attrs = {"mode": mode, "axis": axis, "axes": n, "factor": factor, **CLIP}
    b.emit_to(out, "Reshape", [b.emit("Reduce", [x], (*shape[:axis], *[1] * n, *shape[axis + n :]), attrs)])


def _reduce(g: Graph, node: Node, b: Builder) -> None:
    x, out = node.inputs[0], node.outputs[0]
    shape, axes = b.shape(x), _axes(b, node)
    if axes is None:
        b.emit_to(out, "Reshape", [x])
        return
    n = int(np.prod([shape[a] for a in axes], dtype=np.int64))
    mode = MODES[node.op]
    if node.op == "ReduceMean" and _mean_of_image(b, x, out, axes):
        return
    if n == 1 and mode == "sum":
        b.emit_to(out, "Reshape", [x])
        return
    reduce_to(b, out, x, axes, mode, 1.0 / n if node.op == "ReduceMean" else 1.0)


def _mean_of_image(b: Builder, x: str, out: str, axes: list[int]) -> bool:
    shape = b.shape(x)
    if len(shape) != 4 or shape[0] != 1 or axes not in ([2, 3], [1, 2]):
        return False
    # [1, 2]: a TensorFlow export, in which channels are last already.
    nhwc = b.transpose(x, TO_NHWC) if axes == [2, 3] else x
    _, h, w, c = b.shape(nhwc)
    attrs = {"kernel": (h, w), "strides": (1, 1), "pads": (0, 0, 0, 0), "count_include_pad": 0, **CLIP}
    b.emit_to(out, "Reshape", [b.emit("AveragePool2d", [nhwc], (1, 1, 1, c), attrs)])
    return True


def _extreme(g: Graph, node: Node, b: Builder) -> None:
    x, out, axes = node.inputs[0], node.outputs[0], _axes(b, node)
    if axes is None or all(b.shape(x)[a] == 1 for a in axes):
        b.emit_to(out, "Reshape", [x])
        return
    x, axis, n = as_run(b, x, axes)
    shape = b.shape(x)
    attrs = {"larger": node.op == "ReduceMax", "axis": axis, "axes": n, **CLIP}
    b.emit_to(out, "Reshape", [b.emit("Extreme", [x], (*shape[:axis], *[1] * n, *shape[axis + n :]), attrs)])


def _log_sum_exp(g: Graph, node: Node, b: Builder) -> None:
    x, out, axes = node.inputs[0], node.outputs[0], _axes(b, node)
    if axes is None:
        b.emit_to(out, "Reshape", [x])
        return
    shape = b.shape(x)
    last = list(range(len(shape) - len(axes), len(shape)))
    if axes != last:
        x = b.transpose(x, [i for i in range(len(shape)) if i not in axes] + axes)
        shape = b.shape(x)
    rows = shape[: len(shape) - len(axes)]
    flat = b.reshape(x, (*rows, int(np.prod(shape[len(rows) :], dtype=np.int64))))
    b.emit_to(out, "Reshape", [b.emit("LogSumExp", [flat], (*rows, 1), CLIP)])


def _arg_max(g: Graph, node: Node, b: Builder) -> None:
    x, out = node.inputs[0], node.outputs[0]
    shape = b.shape(x)
    rank = len(shape)
    if rank == 0:
        raise ValueError("the place of a single number")
    axis = b.axis(node, rank)
    last = bool(node.attrs.get("select_last_index", 0))
    attrs = {"axis": axis, "minimum": node.op == "ArgMin", "select_last": last}
    y = b.emit("ArgMax", [x], (*shape[:axis], 1, *shape[axis + 1 :]), attrs)
    b.emit_to(out, "Reshape", [y])


def _top_k(g: Graph, node: Node, b: Builder) -> None:
    x = node.inputs[0]
    shape = b.shape(x)
    k = node.attrs.get("k", g.data(node.inputs[1]) if len(node.inputs) > 1 else None)
    if k is None:
        raise ValueError("a number that is computed; give k as a constant")
    count, axis = int(np.asarray(k).reshape(-1)[0]), int(node.attrs.get("axis", -1)) % len(shape)
    if not 1 <= count <= shape[axis]:
        raise ValueError(f"the {count} largest of {shape[axis]}")
    larger = bool(node.attrs.get("largest", 1))
    one = (*shape[:axis], 1, *shape[axis + 1 :])
    values, places = (*node.outputs, "")[:2]
    if count > 1:
        found = b.emit("TopK", [x], (*shape[:axis], count, *shape[axis + 1 :]), {"axis": axis, "smallest": not larger})
        if places:
            b.emit_to(places, "Reshape", [found])
        if values:
            b.emit_to(values, "Pick", [x, found], {"axis": axis})
        return
    if values:
        attrs = {"larger": larger, "axis": axis, "axes": 1, **CLIP}
        b.emit_to(values, "Reshape", [b.emit("Extreme", [x], one, attrs)])
    if places:
        attrs = {"axis": axis, "minimum": not larger, "select_last": False}
        b.emit_to(places, "Reshape", [b.emit("ArgMax", [x], one, attrs)])


def _global_lp_pool(g: Graph, node: Node, b: Builder) -> None:
    p = int(node.attrs.get("p", 2))
    if p not in (1, 2):
        raise ValueError(f"a norm of order {p}; 1 and 2 are supported")
    axes = list(range(2, len(b.shape(node.inputs[0]))))
    reduce_to(b, node.outputs[0], node.inputs[0], axes, "absolute" if p == 1 else "root")


LOWERINGS: dict[str, Lowering] = {
    **dict.fromkeys(MODES, _reduce),
    "ArgMax": _arg_max,
    "ArgMin": _arg_max,
    "GlobalLpPool": _global_lp_pool,
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceMax": _extreme,
    "ReduceMin": _extreme,
    "TopK": _top_k,
}
