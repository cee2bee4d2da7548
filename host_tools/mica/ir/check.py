"""Rules that a graph must keep, checked between passes. A failure here is a bug of a pass, never of a user's model."""

from mica.format.schema import MAX_INPUTS
from mica.ir.graph import Graph
from mica.ir.ops import CORE_BY_NAME, UNARY_FUNCTIONS


class BrokenGraph(AssertionError):
    """A pass left a graph behind that contradicts itself."""


def structure(g: Graph, after: str = "?") -> None:
    """Every value is known, made once, and made before it is read; constants are what they say."""
    made = set(g.inputs) | {name for name, v in g.values.items() if v.data is not None}
    for node in g.nodes:
        for i in node.inputs:
            if i and i not in made:
                raise BrokenGraph(f"after {after}: node '{node.name}' ({node.op}) reads '{i}' before it is made")
        for o in node.outputs:
            if o in made:
                raise BrokenGraph(f"after {after}: node '{node.name}' ({node.op}) makes '{o}' a second time")
            if o:
                made.add(o)
                if o not in g.values:
                    raise BrokenGraph(f"after {after}: value '{o}' has no shape")
    for o in g.outputs:
        if o not in made:
            raise BrokenGraph(f"after {after}: output '{o}' is never made")
    for v in g.values.values():
        if v.data is not None and v.data.shape != v.shape:
            raise BrokenGraph(f"after {after}: constant '{v.name}' is {v.data.shape}, its value says {v.shape}")


def core(g: Graph) -> None:
    """Every node is a core operator with its attributes, and its shapes fit."""
    for node in g.nodes:
        op = CORE_BY_NAME.get(node.op)
        if op is None:
            raise BrokenGraph(f"node '{node.name}': '{node.op}' is not a core operator")
        missing = set(op.attrs) - set(node.attrs)
        if missing:
            raise BrokenGraph(f"node '{node.name}' ({node.op}): attributes {sorted(missing)} are missing")
        least_inputs = op.activations + len(op.constants)
        most = MAX_INPUTS + len(op.constants) if op.variadic else least_inputs
        if not least_inputs <= len(node.inputs) <= most:
            raise BrokenGraph(f"node '{node.name}' ({node.op}): {len(node.inputs)} inputs")
        for i in node.inputs[len(node.inputs) - len(op.constants) :]:
            if not g.is_const(i):
                raise BrokenGraph(f"node '{node.name}' ({node.op}): '{i}' must be constant")
        if node.op == "Unary" and len(node.attrs["arguments"]) != UNARY_FUNCTIONS[node.attrs["function"]]:
            raise BrokenGraph(f"node '{node.name}' (Unary): arguments {node.attrs['arguments']}")
        found = g.value(node.outputs[0]).shape
        expected = op.shape(g, node)
        if expected is not None and tuple(found) != tuple(expected):
            raise BrokenGraph(f"node '{node.name}' ({node.op}): output {found}, its inputs give {expected}")
