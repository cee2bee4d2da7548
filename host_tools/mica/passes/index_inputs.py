"""Inputs that are row numbers of a constant table (words, categories) stay integers: int32 in the file.

Gather(constant, Cast(x)), x int64      =>   Gather(constant, x), x int32
Gather(constant, Cast(x)), x float      =>   likewise: the cast says that whole numbers are meant
TensorScatter(x, rows, Cast(i))          =>   likewise
any other int64 or int32 input          =>   real numbers that happen to be whole

Operators that only rename elements (Reshape, Squeeze ...) may stand between.
"""

from collections.abc import Collection, Mapping

from mica.ir.graph import Graph, Node
from mica.passes.drop_identity import bypass
from mica.passes.refusal import Refusals

RENAMES = frozenset(("Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"))
INTEGER_TYPES = (2, 3, 4, 5, 6, 7, 12, 13)  # of TensorProto
INTEGERS = ("int32", "int64")


def run(g: Graph) -> Graph:
    refusals = Refusals()
    for name in g.inputs:
        value = g.value(name)
        if value.dtype not in (*INTEGERS, "float32"):
            continue
        path, consumers = [name], g.consumers()  # the input under all its names
        casts: list[Node] = []
        indexes: list[Node] = []
        others: list[Node] = []
        for x in path:
            for node in consumers.get(x, []):
                if node.op == "Cast" and node.attrs.get("to") in INTEGER_TYPES:
                    casts.append(node)
                    path.append(node.outputs[0])
                elif node.op in RENAMES and node.inputs[0] == x:
                    path.append(node.outputs[0])
                elif _is_index(g, node, x):
                    indexes.append(node)
                else:
                    others.append(node)
        if not indexes:
            if value.dtype in INTEGERS:
                value.dtype, value.whole = "float32", True
            continue
        with refusals.at(indexes[0]):
            if value.dtype == "float32" and not casts:
                raise ValueError(f"its indices '{name}' are not whole numbers")
            if others or any(x in g.outputs for x in path):
                where = f"node '{others[0].name}' ({others[0].op})" if others else "an output"
                raise ValueError(f"input '{name}' is read as row numbers here and as real numbers by {where}")
        value.dtype = "int32"
        for x in path:
            g.value(x).dtype = "int32"
        for node in casts:
            bypass(g, node)
    refusals.stop()
    return g


def _is_index(g: Graph, node: Node, x: str) -> bool:
    """True if a node reads `x` as a row number only."""
    at = next((k for k, i in enumerate(node.inputs) if i == x), -1)
    if node.inputs.count(x) != 1:
        return False
    return (node.op == "Gather" and at == 1 and g.is_const(node.inputs[0])) or (node.op == "TensorScatter" and at == 2)


def whole_number(g: Graph, x: str, producers: Mapping[str, Node], copies: Collection[str] = ()) -> str | None:
    """The input of whole numbers that a value repeats, through renaming operators, Casts or `copies`; else None."""
    while x not in g.inputs:
        node = producers.get(x)
        renamed = node is not None and (node.op in RENAMES or node.op in copies)
        if node is None or not (renamed or (node.op == "Cast" and node.attrs.get("to") in INTEGER_TYPES)):
            return None
        x = node.inputs[0]
    return x if g.value(x).dtype in INTEGERS else None
