"""Arithmetic of two tensors, with broadcasting."""

from collections.abc import Sequence

import numpy as np

from mica.format.values import HIGH, LOW
from mica.ir.graph import Graph, Node, Quant
from mica.kernels.dense import MATMUL_MOST
from mica.quantise.groups import real_range
from mica.quantise.kernels.common import act, common_factors, emit, operand, quant, table, temporary
from mica.quantise.params import TRUTH_QUANT, quantise_multiplier
from mica.reference.functions import floor_log2

OPEN = {"act_min": LOW, "act_max": HIGH}


def _operands(g: Graph, out: Graph, node: Node) -> tuple[list[str], list[Quant], Quant]:
    """Names and scales of the inputs, scale of the output."""
    names = [operand(g, out, i) for i in node.inputs]
    return names, [quant(out, n) for n in names], quant(out, node.outputs[0])


def sum_params(signs: Sequence[float], qs: Sequence[Quant], qy: Quant) -> dict[str, int]:
    """Parameters of add_s8, without its clamp."""
    mults, shift = common_factors([s * q.scale / qy.scale for s, q in zip(signs, qs, strict=True)])
    offset = ((1 << shift) >> 1) - sum(m * q.zero_point for m, q in zip(mults, qs, strict=True))
    return {"mult_a": mults[0], "mult_b": mults[1], "offset": offset, "shift": shift}


def requant_params(factor: float) -> dict[str, int]:
    """mult and shift of a single factor."""
    mult, shift = quantise_multiplier(np.array(factor))
    return {"mult": int(mult), "shift": int(shift)}


def _add(g: Graph, out: Graph, node: Node) -> None:
    names, qs, qy = _operands(g, out, node)
    params = {**sum_params(node.attrs["signs"], qs, qy), **act(qy, node.attrs["clip"])}
    emit(out, node, "add_s8", names, [], params)


def _mul(g: Graph, out: Graph, node: Node) -> None:
    names, (qa, qb), qy = _operands(g, out, node)
    params = {**requant_params(qa.scale * qb.scale / qy.scale), **act(qy, node.attrs["clip"])}
    emit(out, node, "mul_s8", names, [], params)


def minmax_params(qa: Quant, qb: Quant, qy: Quant, larger: bool) -> dict[str, int]:
    """Parameters of minmax_s8, without its clamp."""
    (a, b), shift = common_factors([qa.scale / qy.scale, qb.scale / qy.scale])
    half = (1 << shift) >> 1
    params = {"mult_a": a, "offset_a": half - a * qa.zero_point, "mult_b": b, "offset_b": half - b * qb.zero_point}
    return {**params, "shift": shift, "larger": int(larger)}


def _minmax(g: Graph, out: Graph, node: Node) -> None:
    names, (qa, qb), qy = _operands(g, out, node)
    params = {**minmax_params(qa, qb, qy, node.attrs["larger"]), **act(qy, node.attrs["clip"])}
    emit(out, node, "minmax_s8", names, [], params)


def _div(g: Graph, out: Graph, node: Node) -> None:
    names, (qa, qb), qy = _operands(g, out, node)
    # factor * 2**-shift, at most 2**21: a quotient of integers is 1/255 at least, so that more saturates all the same.
    ratio = min(qa.scale / (qb.scale * qy.scale), 2.0**21)
    shift = int(np.clip(20 - floor_log2(ratio), 0, 22))
    params = {"factor": min(int(np.rint(ratio * 2.0**shift)), 2**21), "shift": shift, **act(qy, node.attrs["clip"])}
    emit(out, node, "div_s8", names, [], params)


def _greater(g: Graph, out: Graph, node: Node) -> None:
    """A difference in steps so small that any at all is 1 or more, clamped to 0 and 1."""
    if any(g.is_const(i) for i in node.inputs):
        _greater_than_constant(g, out, node)
        return
    names, qs, qy = _operands(g, out, node)
    mults, _ = common_factors([q.scale / max(q.scale for q in qs) for q in qs])
    a, b = mults[0], -mults[1]
    # Integers a * qa - b * qb: their difference is 1 or more exactly where it is above 0.
    offset = -a * qs[0].zero_point - b * qs[1].zero_point
    assert (qy.scale, qy.zero_point) == (1.0, 0)
    params = {"mult_a": a, "mult_b": b, "offset": offset, "shift": 0, "act_min": 0, "act_max": 1}
    emit(out, node, "add_s8", names, [], params)


def _greater_than_constant(g: Graph, out: Graph, node: Node) -> None:
    """x > t: q >= m, where m is the least of x's integers that is above t.
    t > x: not q >= m, the least that is t or above.

    Of the 257 integers that m can be, -128 to 128, a constant holds 256. If all occur, the 128 get a mask.
    """
    right = g.is_const(node.inputs[1])
    x, t = node.inputs if right else node.inputs[::-1]
    y, levels = node.outputs[0], quant(out, x).levels().astype(np.float32)
    m = np.searchsorted(levels, np.asarray(g.data(t), np.float32), "right" if right else "left") + LOW
    low = int(m.min())
    beyond = m - low > HIGH - LOW
    c = out.new_const(t, (np.minimum(m - low, HIGH - LOW) + LOW).astype(np.int8))
    out.value(c).quant = TRUTH_QUANT
    sign = 1 if right else -1
    # q - m + 1, or m - q; m is c + low - LOW.
    params = {"mult_a": sign, "mult_b": -sign, "offset": sign * (LOW - low) + int(right), "shift": 0}
    made = temporary(g, out, node, y, "near", TRUTH_QUANT) if beyond.any() else y
    emit(out, Node("Greater", node.name, [x, c], [made]), "add_s8", [x, c], [], {**params, "act_min": 0, "act_max": 1})
    if beyond.any():
        mask = out.new_const(f"{t}.beyond", np.where(beyond, 1 - right, right).astype(np.int8))
        out.value(mask).quant = TRUTH_QUANT
        params = {**minmax_params(TRUTH_QUANT, TRUTH_QUANT, TRUTH_QUANT, not right), "act_min": 0, "act_max": 1}
        emit(out, node, "minmax_s8", [made, mask], [], params)


def _where(g: Graph, out: Graph, node: Node) -> None:
    """c * a + (1 - c) * b: one of the two is exactly 0, so there is one rounding only."""
    c, a, b = (operand(g, out, i) for i in node.inputs)
    qy, y = quant(out, node.outputs[0]), node.outputs[0]
    parts = []
    for k, x in enumerate((a, b)):
        # 127 where this operand is meant, 0 elsewhere.
        mask = temporary(g, out, node, node.inputs[0], f"mask{k}", Quant(1 / 127, 0))
        table(out, node, c, mask, np.where((quant(out, c).levels() > 0.5) == (k == 0), 1.0, 0.0))
        shape = np.broadcast_shapes(out.value(c).shape, out.value(x).shape)
        part = out.new_value(f"{y}.part{k}", shape, "int8")
        out.value(part).quant = qy
        params = {**requant_params(quant(out, x).scale / (127 * qy.scale)), **OPEN}
        emit(out, Node("Mul", node.name, [mask, x], [part]), "mul_s8", [mask, x], [], params)
        parts.append(part)
    params = {**sum_params((1, 1), (qy, qy), qy), **act(qy, node.attrs["clip"])}
    emit(out, node, "add_s8", parts, [], params)


def _mask(g: Graph, out: Graph, node: Node) -> None:
    """x - reach * m: any x, less so much, is at the lower end of what y can be."""
    x, m = operand(g, out, node.inputs[0]), node.inputs[1]
    qx, qy = quant(out, x), quant(out, node.outputs[0])
    data = g.data(m)
    if data is not None:
        m = out.new_const(m, np.where(data > 0.5, HIGH, 0).astype(np.int8))
        out.value(m).quant = Quant(1 / HIGH, 0)
    reach = real_range(qx).high - real_range(qy).low
    params = {**sum_params((1, -reach), (qx, quant(out, m)), qy), **OPEN}
    emit(out, node, "add_s8", [x, m], [], params)


def _prelu(g: Graph, out: Graph, node: Node) -> None:
    """Slopes of at most 1: the larger of x and slope * x; of at least 1: the smaller.

    Otherwise max(x, 0) + slope * min(x, 0), of which one is exactly 0. There is one rounding in each.
    """
    (x, slope), (qx, qs), qy = _operands(g, out, node)
    y = node.outputs[0]
    slopes = g.data(node.inputs[1])
    bent = temporary(g, out, node, y, "bent", qy)
    params = {**requant_params(qx.scale * qs.scale / qy.scale), **OPEN}
    if slopes is not None and (slopes.max() <= 1 or slopes.min() >= 1):
        emit(out, Node("Mul", node.name, [x, slope], [bent]), "mul_s8", [x, slope], [], params)
        params = {**minmax_params(qx, qy, qy, bool(slopes.max() <= 1)), **act(qy, node.attrs["clip"])}
        emit(out, node, "minmax_s8", [x, bent], [], params)
        return
    below = temporary(g, out, node, x, "below", qx)
    above = temporary(g, out, node, x, "above", qy)
    table(out, node, x, below, np.minimum(qx.levels(), 0.0))
    emit(out, Node("Mul", node.name, [below, slope], [bent]), "mul_s8", [below, slope], [], params)
    table(out, node, x, above, np.maximum(qx.levels(), 0.0))
    emit(out, node, "add_s8", [above, bent], [], {**sum_params((1, 1), (qy, qy), qy), **act(qy, node.attrs["clip"])})


def _matmul(g: Graph, out: Graph, node: Node) -> None:
    names, (qa, qb), qy = _operands(g, out, node)
    k = g.value(node.inputs[0]).shape[-1]
    if k > MATMUL_MOST:
        raise ValueError(f"sums of {k} products; {MATMUL_MOST} fit 32 bits")
    params = {
        "transpose_b": int(node.attrs["transpose_b"]),
        **requant_params(node.attrs["factor"] * qa.scale * qb.scale / qy.scale),
        **act(qy, node.attrs["clip"]),
    }
    emit(out, node, "matmul_s8", names, [], params)


STEPS = {
    "Add": _add,
    "Div": _div,
    "Greater": _greater,
    "Mask": _mask,
    "MatMul": _matmul,
    "MinMax": _minmax,
    "Mul": _mul,
    "PRelu": _prelu,
    "Where": _where,
}
