"""Scale and zero point of every activation; real factors as the integers that the kernels multiply with.

Formula of the latter: SPEC.md, "Requantisation".
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mica.format.schema import MULT_MAX, SHIFT_MAX, SHIFT_MIN
from mica.format.values import LOW, clip_s8
from mica.ir.exact_inputs import exact_inputs
from mica.ir.graph import Graph, Node, Quant
from mica.ir.ops import FRONT_ENDS, TRUTH_FUNCTIONS
from mica.quantise import carried, margins
from mica.quantise.calibrate import Range
from mica.quantise.groups import group, real_range, width
from mica.reference.recurrent import bounded

# Outputs with a fixed range, from the TensorFlow Lite 8-bit quantisation specification. A function whose results stay
# within half of it has the range that was seen.
SOFTMAX_QUANT = Quant(1 / 256, -128)
INDEX_QUANT = Quant(1.0, 0)  # row numbers stay integers
REAL_QUANT = Quant(1.0, 0)  # what inputs say that are not quantised
TRUTH_QUANT = Quant(1.0, 0)  # 0 and 1
FIXED_UNARY = {"sigmoid": Quant(1 / 256, -128), "tanh": Quant(1 / 128, 0)}


def choose_quants(g: Graph, ranges: Mapping[str, Range]) -> dict[str, Quant]:
    """Scale and zero point of every activation: the model's own where it is quantised already."""
    ranges = margins.widened(g, ranges)
    groups = group(g, _whole(g, ranges) | _fixed(g, ranges) | carried.quants(g, ranges), ranges)
    names = [*g.inputs, *(o for node in g.nodes for o in node.outputs)]
    return {name: groups.quant(name) or from_range(groups.range(name)) for name in names}


def _fixed(g: Graph, ranges: Mapping[str, Range]) -> dict[str, Quant]:
    """Scales that do not come from a range."""
    fixed = {v.name: v.quant for v in g.values.values() if v.data is None and v.quant is not None}
    fixed |= {name: INDEX_QUANT for name in g.inputs if g.value(name).dtype == "int32"}
    fixed |= dict.fromkeys(exact_inputs(g), REAL_QUANT)
    fixed |= {n.inputs[0]: Quant(n.attrs["front_end"].step, 0) for n in g.nodes if n.op in FRONT_ENDS}
    fixed |= dict.fromkeys(_truths(g) - set(fixed), TRUTH_QUANT)
    for node in g.nodes:
        out = node.outputs[0]
        if out in fixed:
            continue
        if node.op == "Softmax":
            fixed[out] = SOFTMAX_QUANT
        elif node.op == "Ranks":
            fixed[out] = Quant(node.attrs["step"], node.attrs["zero_point"])
        elif node.op in ("ArgMax", "TopK"):
            fixed[out] = INDEX_QUANT
        elif node.op == "Unary" and node.attrs["function"] in FIXED_UNARY:
            usual, seen = FIXED_UNARY[node.attrs["function"]], ranges.get(out)
            if seen is None or not 0 < 2 * width(seen) <= width(real_range(usual)):
                fixed[out] = usual
        elif node.op == "Recurrent" and _in_one(g, node):
            fixed[out] = FIXED_UNARY["tanh"]
        elif node.op == "Embedding":  # of the whole table: calibration sees only some of its rows
            table = g.value(node.inputs[1])
            assert table.data is not None
            fixed[out] = table.quant or from_range(Range(float(table.data.min()), float(table.data.max())))
    return fixed


def _whole(g: Graph, ranges: Mapping[str, Range]) -> dict[str, Quant]:
    """Inputs of integers: themselves, where 256 of them suffice, so that equal ones stay equal."""
    whole = {}
    for name in g.inputs:
        if g.value(name).whole:
            low, high = min(ranges[name].low, 0.0), max(ranges[name].high, 0.0)
            if high - low <= 255:
                whole[name] = Quant(1.0, int(clip_s8(LOW - np.floor(low))))
    return whole


def _in_one(g: Graph, node: Node) -> bool:
    """True if the hidden state of a recurrent layer never leaves [-1, 1]."""
    initial = node.inputs[1:-5][:1]
    return bounded(node.attrs) and all(g.is_const(i) and np.abs(np.asarray(g.data(i))).max() <= 1 for i in initial)


def _truths(g: Graph) -> set[str]:
    """Values that are 0 or 1: results of comparisons, and values selected from these."""
    truths = {name for name in g.inputs if g.value(name).dtype == "bool"}
    for node in g.nodes:
        made = _makes_truth(node.op, node.attrs)
        if node.op == "Unary" and node.attrs["function"] == "composed":
            made = _ends_in_truth(node.attrs["arguments"][0], node.inputs[0] in truths)
        if made or (node.op in ("MinMax", "Reshape", "Transpose") and all(i in truths for i in node.inputs)):
            truths.add(node.outputs[0])
    return truths


def _makes_truth(op: str, attrs: Mapping[str, Any]) -> bool:
    return op == "Greater" or (op == "Unary" and attrs["function"] in TRUTH_FUNCTIONS)


def _ends_in_truth(program: Sequence[tuple[str, Mapping[str, Any], tuple[str | float, ...]]], x: bool) -> bool:
    """True if the result of a composed function is 0 or 1. x: True if its input is 0 or 1."""
    truths = {"v0"} if x else set()
    for k, (op, attrs, operands) in enumerate(program, 1):
        if _makes_truth(op, attrs) or (op == "MinMax" and all(i in truths for i in operands)):
            truths.add(f"v{k}")
    return f"v{len(program)}" in truths


def undetermined(g: Graph) -> list[str]:
    """Activations whose scale only a calibration can tell: none, in a model that is quantised throughout."""

    class Asked(dict[str, Range]):
        def __missing__(self, name: str) -> Range:
            self[name] = Range(0.0, 0.0)
            return self[name]

    asked = Asked()
    choose_quants(g, asked)
    return list(asked)


def from_range(r: Range) -> Quant:
    """The scale and zero point whose 256 integers span [low, high], widened so that zero is one of them."""
    low, high = min(r.low, 0.0), max(r.high, 0.0)
    if high - low < 1e-30:  # always zero; any scale serves
        return Quant(1.0, 0)
    scale = float(np.float32((high - low) / 255.0))
    return Quant(scale, int(clip_s8(np.rint(LOW - low / scale))))


def quantise_multiplier(factors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """factor -> (mult int32, shift int8) with factor ~ mult * 2**-(31 + shift), mult in [2**30, 2**31) or 0.

    A factor below 2**-32 becomes 0: it moves no int32 by as much as half a step. Raises ValueError at 2**30 or more.
    """
    mantissa, exponent = np.frexp(np.asarray(factors, np.float64))
    mult = np.rint(mantissa * 2.0**31).astype(np.int64)
    full = mult > MULT_MAX  # a mantissa that rounded up to 1
    mult = np.where(full, mult // 2, mult)
    shift = -(exponent + full).astype(np.int64)
    if np.any(shift < SHIFT_MIN):
        raise ValueError(f"a scale ratio of {float(np.max(factors)):.3g} is too large to compute with")
    tiny = (shift > SHIFT_MAX) | (mult == 0)
    return np.where(tiny, 0, mult).astype(np.int32), np.where(tiny, 0, shift).astype(np.int8)
