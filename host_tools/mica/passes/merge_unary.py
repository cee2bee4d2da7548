"""Pointwise operators between one tensor and one tensor become one table, computed without rounding in between.

    y = Unary(Unary(x, f), g)                          =>   y = Unary(x, composed g(f(x)))
    s = Unary(x, sigmoid); y = Mul(x, s)               =>   y = Unary(x, composed x * sigmoid(x))
    x * clip(x + 3, 0, 6) / 6                          =>   likewise (HardSwish); x * tanh(softplus(x)) (Mish),
                                                            0.5 * x * (1 + erf(x / sqrt(2))) (Gelu),
                                                            Where(x > c, x, a * x)

Several operators may read x, and each other; what is merged may be read by nobody else. Numbers may be operands.
A value that a quantised model rounds is not merged away. `recognise_activations` gives names to what comes out.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mica.ir.graph import Graph, Node
from mica.ir.ops import POINTWISE
from mica.passes import dead_code
from mica.passes.quantised_values import is_quantise

MOST = 64  # operators in one table; more are merged in several turns


@dataclass
class _Region:
    x: str
    nodes: list[Node]  # in execution order, the last one makes the result


class _Neighbours(NamedTuple):
    producers: dict[str, Node]
    consumers: dict[str, list[Node]]
    order: dict[int, int]  # of nodes, by their identity


def run(g: Graph) -> Graph:
    changed = True
    while changed:
        changed = False
        neighbours = _Neighbours(g.producers(), g.consumers(), {id(n): k for k, n in enumerate(g.nodes)})
        for node in reversed(g.nodes):
            region = _region(g, node, neighbours)
            if region is not None:
                _merge(g, node, region)
                g = dead_code.run(g)
                changed = True
                break
    return g


def _takes_part(g: Graph, node: Node | None) -> bool:
    """A pointwise operator of tensors of the output's shape, and numbers."""
    if node is None or node.op not in POINTWISE:
        return False
    if is_quantise(node):
        return False
    shape = g.value(node.outputs[0]).shape
    return all(_number(g, i) is not None or (not g.is_const(i) and g.value(i).shape == shape) for i in node.inputs)


def _number(g: Graph, name: str) -> float | None:
    data = g.data(name)
    return float(data.reshape(-1)[0]) if data is not None and data.size == 1 else None


def _region(g: Graph, last: Node, neighbours: _Neighbours) -> _Region | None:
    """The largest region that ends in `last`, has one input, and at least two operators."""
    if not _takes_part(g, last):
        return None
    producers, consumers, order = neighbours
    inside, known = [last], {id(last)}
    frontier = {i for i in last.inputs if not g.is_const(i)}
    best: _Region | None = None
    while len(inside) <= MOST:
        if len(frontier) == 1 and len(inside) > 1:
            best = _Region(next(iter(frontier)), sorted(inside, key=lambda n: order[id(n)]))
        # The latest maker first: then all readers of its result that can be inside are.
        makers = [producers[i] for i in frontier if i in producers]
        if not makers:
            break
        latest = max(makers, key=lambda n: order[id(n)])
        y = latest.outputs[0]
        alone = y not in g.outputs and all(id(n) in known for n in consumers[y])
        if not alone or g.value(y).quant is not None or not _takes_part(g, latest):
            break
        inside.append(latest)
        known.add(id(latest))
        frontier = frontier - {y} | {i for i in latest.inputs if not g.is_const(i)}
    return best


def _merge(g: Graph, last: Node, region: _Region) -> None:
    names = {region.x: "v0"}
    program: list[tuple[str, dict[str, Any], tuple[str | float, ...]]] = []
    for node in region.nodes:
        operands = tuple(names[i] if i in names else float(np.asarray(g.data(i)).reshape(-1)[0]) for i in node.inputs)
        if node.op == "Unary" and node.attrs["function"] == "composed":
            # Its own program, with its numbers moved on.
            (inner,) = node.attrs["arguments"]
            names[node.outputs[0]] = _append(program, inner, str(operands[0]))
            continue
        program.append((node.op, dict(node.attrs), operands))
        names[node.outputs[0]] = f"v{len(program)}"
    last.op, last.inputs = "Unary", [region.x]
    last.attrs = {"function": "composed", "arguments": (tuple(program),)}


def _append(
    program: list[tuple[str, dict[str, Any], tuple[str | float, ...]]],
    inner: tuple[tuple[str, dict[str, Any], tuple[str | float, ...]], ...],
    x: str,
) -> str:
    """Appends a program that reads x; returns the name of its result."""
    at = len(program)
    for op, attrs, operands in inner:
        moved = tuple((x if i == "v0" else f"v{int(i[1:]) + at}") if isinstance(i, str) else i for i in operands)
        program.append((op, attrs, moved))
    return f"v{len(program)}"
