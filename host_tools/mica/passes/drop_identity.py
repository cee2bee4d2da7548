"""Operators that do nothing at inference.

y = Identity(x) | Dropout(x) | Cast(x, to=float) | x * 1  =>   readers of y read x
y = Cast(x, to=int64), x an integer already               =>   likewise
y = Imputer(x), where a front end makes the input         =>   likewise
likewise, where y is an output of the graph               =>   x takes the name y; y = Reshape(x) where it cannot
"""

from mica.ir.graph import Graph, Node

# TensorProto.FLOAT, FLOAT16, DOUBLE, BFLOAT16: all are the same real number to a quantiser.
FLOAT_TYPES = (1, 10, 11, 16)
WIDE_INTEGERS = (6, 7)  # INT32, INT64

_RENAMES = ("Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Cast")


def run(g: Graph) -> Graph:
    consumers = g.consumers()
    for node in list(g.nodes):
        if any(o in consumers or o in g.outputs for o in node.outputs[1:]):  # somebody wants the mask of a Dropout
            continue
        if (
            node.op == "Identity"
            or (node.op == "Dropout" and not _training(g, node))
            or (node.op == "Cast" and _same_number(g, node))
            or (node.op == "Mul" and _by_one(g, node))
            or (node.op == "Imputer" and g.features)  # a front end makes no NaN
        ):
            bypass(g, node)
    return g


def _same_number(g: Graph, node: Node) -> bool:
    """True if a Cast does not change the number: to a float, or from a truth or an integer to a wide integer."""
    to = node.attrs.get("to")
    if to in FLOAT_TYPES:
        return True
    return to in WIDE_INTEGERS and (g.value(node.inputs[0]).dtype in ("bool", "int32", "int64") or _counts(g, node))


def _by_one(g: Graph, node: Node) -> bool:
    """Return True if a product's second factor is 1 everywhere, as `nn.EmbeddingBag` has it, and widens nothing."""
    ones = g.data(node.inputs[1])
    same = g.value(node.inputs[0]).shape == g.value(node.outputs[0]).shape
    return ones is not None and same and bool((ones == 1).all()) and g.value(node.inputs[1]).quant is None


def _counts(g: Graph, node: Node) -> bool:
    """True if a node reads places that ArgMax or TopK found, reshaped or not: they are whole numbers already."""
    producers, x = g.producers(), node.inputs[0]
    while (maker := producers.get(x)) is not None and maker.op in _RENAMES:
        x = maker.inputs[0]
    return maker is not None and (maker.op in ("ArgMax", "ArgMin") or (maker.op == "TopK" and x == maker.outputs[1]))


def _training(g: Graph, node: Node) -> bool:
    """True if a Dropout drops values, as its third input says (from opset 12 on)."""
    if len(node.inputs) < 3 or not node.inputs[2]:
        return False
    mode = g.data(node.inputs[2])
    return mode is None or bool(mode.any())


def bypass(g: Graph, node: Node) -> None:
    """Removes a node whose first output is its first input. Outputs of the graph keep their names."""
    x, y = node.inputs[0], node.outputs[0]
    if y not in g.outputs:
        g.replace_uses(y, x)
        g.remove(node)
    elif x in g.inputs or x in g.outputs or g.is_const(x):  # both names must stay
        node.op, node.inputs, node.outputs, node.attrs = "Reshape", [x], [y], {}
    else:
        g.remove(node)
        del g.values[y]
        g.rename_value(x, y)
