"""Comparisons of int16, which give 0 and 1 as int8, and choices between int16 by such.

    y = x >= k           =>   narrow_s8(clamp(x - (k - 1))), binary_s16 clamping to 0 and 1; x < k likewise
    y = l <= x < k       =>   narrow_s8((x >= l) * (x < k)), and its opposite as a sum
    y = Greater(a, b)    =>   narrow_s8(clamp(a * ma - b * mb)), factors so large that any difference is 1 or more
    y = Where(c, a, b)   =>   c * a + (b - c * b), c widened by widen_s16

They are exact where both operands have one scale; of others the ratio of the scales has 30 bits.
"""

import numpy as np

from mica.format.values import HIGH16, LOW16
from mica.ir.graph import Graph, Node, Quant
from mica.passes.wide import changes
from mica.quantise.kernels import wide_steep
from mica.quantise.kernels.arithmetic import requant_params
from mica.quantise.kernels.common import StepQuantiser, act, emit, quant
from mica.quantise.kernels.wide_composed import WHOLE, Stages

TRUTH = Quant(1.0, 0, 16)
BETWEEN = {"act_min": 0, "act_max": 1}
FINE = 30  # bits of the larger factor of a difference


def _unary(g: Graph, out: Graph, node: Node) -> None:
    x, y = node.inputs[0], node.outputs[0]
    if quant(out, y).bits == 16 or node.attrs["function"] == "quantise":
        wide_steep.STEPS["Unary"](g, out, node)
        return
    s, found = Stages(g, out, node), changes(node, quant(out, x))
    if found is None:
        raise ValueError("a comparison of int16 that changes more than twice")
    first, at = found
    if not at:
        truth = _number(s, x, int(first))
    elif len(at) == 1:
        truth = _beside(s, x, at[0], not first)
    else:
        parts = [_beside(s, x, k, (n == 0) != first) for n, k in enumerate(at)]
        truth = s.value("both", g.value(x).shape, TRUTH)
        s.binary(parts[0], parts[1], truth, (1, 1, 0) if first else (0, 0, 1))
    _narrowed(s, truth)


def _beside(s: Stages, x: str, k: int, above: bool) -> str:
    """x >= k, or x < k."""
    shape = s.g.value(x).shape
    to = _constant(s, k - 1 if above else k, len(shape))
    factor = 2 if above else -2
    params = {"mult_a": factor, "mult_b": -factor, "mult_ab": 0, "shift": 1, **BETWEEN}
    return _truth(s, [x, to], shape, params)


def _number(s: Stages, x: str, n: int) -> str:
    """n for every x."""
    shape = s.g.value(x).shape
    params = {"mult_a": 0, "mult_b": 2, "mult_ab": 0, "shift": 1, **BETWEEN}
    return _truth(s, [x, _constant(s, n, len(shape))], shape, params)


def _constant(s: Stages, n: int, rank: int) -> str:
    assert LOW16 <= n <= HIGH16
    name = s.out.new_const(f"{s.node.outputs[0]}.number", np.full((1,) * rank, n, np.int16))
    s.out.value(name).quant = TRUTH
    return name


def _truth(s: Stages, inputs: list[str], shape: tuple[int, ...], params: dict[str, int]) -> str:
    y = s.value("truth", shape, TRUTH)
    emit(s.out, Node("", s.node.name, inputs, [y]), "binary_s16", inputs, [], params)
    return y


def _narrowed(s: Stages, truth: str) -> None:
    qy = quant(s.out, s.node.outputs[0])
    emit(s.out, s.node, "narrow_s8", [truth], [], {**requant_params(1.0 / qy.scale), **act(qy, WHOLE)})


def _greater(g: Graph, out: Graph, node: Node) -> None:
    """The sum of both products with its half added, halved: 1 or more exactly where the sum is above 0."""
    s = Stages(g, out, node)
    grid = quant(out, next(i for i in node.inputs if not g.is_const(i)))
    names = [_on_grid(s, i, grid) for i in node.inputs]
    scales = [quant(out, n).scale for n in names]
    a, b = (int(np.rint(scale / max(scales) * 2.0**FINE)) for scale in scales)
    params = {"mult_a": a, "mult_b": -b, "mult_ab": 0, "shift": 1, **BETWEEN}
    _narrowed(s, _truth(s, names, g.value(node.outputs[0]).shape, params))


def _where(g: Graph, out: Graph, node: Node) -> None:
    """One of the two parts is exactly 0, so there is one rounding."""
    c, y = node.inputs[0], node.outputs[0]
    s, qc, qy = Stages(g, out, node), quant(out, c), quant(out, y)
    condition = s.value("condition", g.value(c).shape, TRUTH)
    params = {**requant_params(qc.scale), **BETWEEN}
    emit(out, Node("", node.name, [c], [condition]), "widen_s16", [c], [], params)
    parts = []
    for k, x in enumerate(node.inputs[1:]):
        name = _on_grid(s, x, qy)
        factor = quant(out, name).scale / qy.scale
        shape = np.broadcast_shapes(g.value(c).shape, g.value(x).shape)
        factors = (factor, 0, -factor) if k else (0, 0, factor)
        parts.append(s.binary(name, condition, s.value("part", shape, qy), factors))
    s.binary(parts[0], parts[1], y, (1, 1, 0), node.attrs["clip"])


def _on_grid(s: Stages, x: str, q: Quant) -> str:
    """An activation, or a constant as integers of this scale."""
    data = s.g.data(x)
    if data is None:
        return x
    name = s.out.new_const(x, q.quantise(data))
    s.out.value(name).quant = q
    return name


STEPS: dict[str, StepQuantiser] = {"Greater": _greater, "Unary": _unary, "Where": _where}
