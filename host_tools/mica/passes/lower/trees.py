"""Ensembles of trees; nearest neighbours and machines of support vectors.

y = TreeEnsemble(x), x an input of the model      =>   y = Trees(Ranks(x)): x stays float32, nothing of it is lost
y = TreeEnsemble(Affine(x)), x an input           =>   likewise, with thresholds in the unit of x
y = TreeEnsemble(Imputer(x)), x an input          =>   likewise: a node takes a NaN where it takes the value for it
y = TreeEnsemble(x), x an activation              =>   y = Trees(x)
y = TreeEnsemble(x), x an input of integers       =>   y = Trees(Unary(x, quantise)): int8 holds x less an offset,
                                                       where the thresholds
                                                       lie within 255 steps; what lies beyond all of them may be clamped
y = VectorEnsemble(x)                             =>   y = Neighbours(x) | Machine(x), likewise; x is an input
"""

from dataclasses import replace

import numpy as np

from mica.format.values import HIGH, LOW
from mica.ir.forest import Forest
from mica.ir.graph import Graph, Node
from mica.ir.vectors import Neighbours, Vectors, imputed, scaled
from mica.kernels.tabular import FOREST_COLUMNS, MOST_COLUMNS, MOST_RANKS
from mica.passes.builder import Builder, refuse
from mica.passes.features import in_front

ULPS = 4  # of float32; the rounding of a scaler


def _tree_ensemble(g: Graph, node: Node, b: Builder) -> None:
    forest: Forest = node.attrs["forest"]
    x, out = node.inputs[0], node.outputs[0]
    n = b.shape(x)[-1]
    if forest.columns > n:
        raise ValueError(f"it asks for feature {forest.columns - 1}; its input has {n}")
    given, affine, values = in_front(g, x)
    learnt, moved = forest.learnt, forest if affine is None else _in_units_of(forest, *affine)
    if given in g.inputs and moved is not None:
        forest, x = moved, given
        if values is not None:
            at = np.where(forest.column >= 0, forest.column, 0)
            forest, learnt = replace(forest, missing=values[at] <= forest.threshold), True
    zero_point = _zero_point(g, x, forest) if x in g.inputs and not learnt else None
    if zero_point is not None:
        x = b.emit("Unary", [x], b.shape(x), {"function": "quantise", "arguments": (1.0, zero_point)})
    elif g.is_given(x):
        x, forest = ranked(g, b, x, forest, learnt)
    elif n > MOST_COLUMNS:
        raise ValueError(f"a row of {n} numbers; {MOST_COLUMNS} at most")
    b.emit_to(out, "Trees", [x], {"forest": forest})


def _in_units_of(f: Forest, scale: np.ndarray, shift: np.ndarray) -> Forest | None:
    """Return the forest for x where it was one for scale * x + shift; None where a scale is not positive."""
    if not (scale > 0).all():
        return None
    inner = f.column >= 0
    at = np.where(inner, f.column, 0)
    threshold = np.where(inner, in_units(f.threshold, scale[at], shift[at]), 0.0)
    return replace(f, threshold=threshold)


def in_units(t: np.ndarray, factor: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """The largest x for which x * factor + shift is at most t, as a scaler computes it in float32: (x - mean) * factor.

    Whole numbers often meet a threshold in the middle between two others, and rounding decides on them.
    """
    x, mean, by = ((a.astype(np.float32)) for a in ((t - shift) / factor, -shift / factor, factor))
    for k in range(3 * ULPS):
        over = (x - mean) * by > t.astype(np.float32)
        x = np.where(over | (k < ULPS), np.nextafter(x, np.float32(np.inf) if k < ULPS else np.float32(-np.inf)), x)
    return x.astype(np.float64)


def _zero_point(g: Graph, x: str, f: Forest) -> int | None:
    """The zero point of int8 on a scale of 1 on which trees alone read integers x, and lose nothing;
    None where there is none.

    What is above 127 there is above all thresholds, what is below -128 below them.
    """
    value = g.value(x)
    if not (value.whole and g.is_given(x)) or value.shape[-1] > FOREST_COLUMNS or len(g.consumers()[x]) != 1:
        return None
    steps = np.floor(f.threshold[f.column >= 0])
    low, high = steps.min(initial=0.0), steps.max(initial=0.0)
    if high - low > HIGH - 1 - LOW:
        return None
    for zero_point in (0, LOW):
        if low + zero_point >= LOW and high + zero_point < HIGH:
            return zero_point
    return None


def floor32(t: np.ndarray) -> np.ndarray:
    """The largest float32 that are not above t, as float64."""
    near = t.astype(np.float32)
    return np.where(near > t, np.nextafter(near, np.float32(-np.inf)), near).astype(np.float64)


def ranked(g: Graph, b: Builder, x: str, f: Forest, learnt: bool) -> tuple[str, Forest]:
    """The ranks of x among the thresholds, and the forest on these.
    A feature has as many columns as its thresholds need.

    So it has where some nodes take a missing value for less and some for more. learnt: the forest knows missing values;
    without, the ranks of one are NaN.
    """
    inner = np.flatnonzero(f.column >= 0)
    thresholds = floor32(f.threshold[inner])
    column, code = np.full(len(f.column), -1, np.int64), np.zeros(len(f.column))
    parts: list[np.ndarray] = []
    source: list[int] = []
    missing: list[float] = []
    kinds = 2 * f.column[inner] + f.missing[inner]
    for kind in np.unique(kinds):
        nodes = inner[kinds == kind]
        distinct, place = np.unique(thresholds[kinds == kind], return_inverse=True)
        column[nodes] = len(parts) + place // MOST_RANKS
        code[nodes] = place % MOST_RANKS - 128
        for at in range(0, len(distinct), MOST_RANKS):
            parts.append(distinct[at : at + MOST_RANKS])
            source.append(int(kind) // 2)
            missing.append(np.nan if not learnt else -128 if kind % 2 else len(parts[-1]) - 128)
    if not parts:  # trees of one leaf each
        parts, source, missing = [np.zeros(0)], [0], [-128]
    if len(parts) > MOST_COLUMNS:
        raise ValueError(
            f"its thresholds make {len(parts)} columns; {MOST_COLUMNS} at most. Train it on fewer features"
        )
    first = np.cumsum([0, *(len(p) for p in parts)])
    constants = {"thresholds": np.concatenate(parts), "first": first, "source": np.array(source)}
    constants["missing"] = np.array(missing)
    names = [g.new_const(f"{b.origin}.{what}", a) for what, a in constants.items()]
    ranks = b.emit("Ranks", [x, *names], (*b.shape(x)[:-1], len(parts)), {"step": 1.0, "zero_point": 0})
    return ranks, replace(f, column=column, threshold=code)


def _left(g: Graph, node: Node, b: Builder) -> None:
    """An Imputer that trees have taken over, whose output nobody reads any more."""
    readers = g.consumers().get(node.outputs[0], [])
    if node.outputs[0] in g.outputs or not all(r.op in ("Affine", "TreeEnsemble", "VectorEnsemble") for r in readers):
        raise ValueError("it stands behind other operators; it may only read an input of the model")
    b.emit_to(node.outputs[0], "Reshape", node.inputs[:1])


def _ensemble(g: Graph, node: Node, b: Builder) -> None:
    v: Vectors = node.attrs["vectors"]
    x = node.inputs[0]
    shape = b.shape(x)
    n = v.points.shape[1]
    if shape[-1] != n:
        raise ValueError(f"its vectors have {n} features; its input has {shape[-1]}")
    x, affine, values = in_front(g, x)
    v = v if affine is None else scaled(v, *affine)
    v = v if values is None else imputed(v, values)
    if g.features:
        raise ValueError(
            "neighbours compare real numbers, and a front end gives int8; take a forest or a network behind it"
        )
    if not g.is_given(x) or g.value(x).quant is not None:
        raise ValueError("it does not read an input of the model; only scalers and imputers may stand in front of it")
    op = "Neighbours" if isinstance(v, Neighbours) else "Machine"
    b.emit_to(node.outputs[0], op, [x], {"vectors": v})


LOWERINGS = {
    "Imputer": _left,
    "InfinityImputer": refuse(
        "it replaces infinity, as a PowerTransformer does; that packs at the model's input, with standardize=True"
    ),
    "TreeEnsemble": _tree_ensemble,
    "VectorEnsemble": _ensemble,
}
