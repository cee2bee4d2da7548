"""A float network that makes one number of one number becomes one function of it, and so one table.

x -> FullyConnected -> clip -> FullyConnected -> y    =>    y = Unary(x)
x is an input of the model and has one element, as y has.

256 values of x have 256 results, computed in float: nothing is rounded in between,
which costs the most where a few channels follow one input, whose roundings add up.
Quantised models keep their layers, whose integers are those of their file.
"""

import numpy as np

from mica.ir.graph import Graph, Node
from mica.ir.ops import CORE_BY_NAME, POINTWISE
from mica.passes.quantised_values import is_quantise
from mica.reference import float_ops

# Operators whose results depend on nothing but their inputs, all of them real numbers.
_PLAIN = (
    *POINTWISE,
    *("AveragePool2d", "Concat", "Conv2d", "ConvTranspose2d", "DepthwiseConv2d", "Extreme"),
    *("FullyConnected", "LayerNorm", "MatMul", "MaxPool2d", "Pad", "Reduce", "Remap"),
    *("Reshape", "Softmax", "StridedCopy", "Transpose"),
)
_MOVES = ("Remap", "Reshape", "StridedCopy", "Transpose")


class Network:
    """Part of a core graph as a function of one number."""

    def __init__(self, g: Graph, nodes: list[Node], x: str, y: str) -> None:
        self.graph = Graph(g.name, [x], [y])
        self.graph.nodes = nodes
        names = {x, *(i for n in nodes for i in (*n.inputs, *n.outputs) if i)}
        self.graph.values = {name: g.values[name] for name in names}
        self.x, self.y = x, y

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Compute each element; float64, any shape."""
        shape = self.graph.value(self.x).shape
        each = [float_ops.run(self.graph, {self.x: np.full(shape, v, np.float32)}) for v in x.reshape(-1)]
        return np.array([values[self.y].reshape(-1)[0] for values in each], np.float64).reshape(x.shape)


def run(g: Graph) -> Graph:
    tied = {name for pair in g.states for name in pair}
    for x in g.inputs:
        v = g.value(x)
        if v.size == 1 and v.quant is None and v.dtype == "float32" and not v.whole and not {x, *g.outputs} & tied:
            _tabulate(g, x)
    return g


def _tabulate(g: Graph, x: str) -> None:
    known = {x}
    for node in g.nodes:
        if _depends_on_nothing_else(g, node, known):
            known.update(node.outputs)
    producers, consumers = g.producers(), g.consumers()
    for last in reversed(g.nodes):
        y = last.outputs[0]
        if y not in known or g.value(y).size != 1:
            continue
        inside = _makers(producers, y, x)
        names = {n.outputs[0] for n in inside} - {y}
        apart = all(name not in g.outputs and all(r in inside for r in consumers.get(name, [])) for name in names)
        if not apart or all(n.op in (*POINTWISE, *_MOVES) for n in inside):
            continue
        network = Network(g, [n for n in g.nodes if n in inside], x, y)
        shape = g.value(x).shape
        at = g.index(last)
        made = y if g.value(y).shape == shape else g.new_value(f"{y}.one", shape)
        new = [Node("Unary", last.name, [x], [made], {"function": "network", "arguments": (network,)})]
        new += [] if made == y else [Node("Reshape", last.name, [made], [y])]
        g.nodes[at : at + 1] = new
        g.nodes = [n for n in g.nodes if n not in inside]
        return


def _depends_on_nothing_else(g: Graph, node: Node, known: set[str]) -> bool:
    if node.op not in _PLAIN or CORE_BY_NAME[node.op].reads or len(node.outputs) != 1:
        return False
    values = [g.value(i) for i in node.inputs if i]
    activations = [v.name for v in values if v.data is None]
    as_in_the_file = any(v.weight_scale is not None or v.quant is not None for v in (*values, g.value(node.outputs[0])))
    as_in_the_file |= node.attrs.get("weight_steps") is not None
    quantises = is_quantise(node)
    return bool(activations) and known.issuperset(activations) and not as_in_the_file and not quantises


def _makers(producers: dict[str, Node], y: str, x: str) -> list[Node]:
    """The nodes between x and y."""
    found: list[Node] = []
    todo = [y]
    while todo:
        name = todo.pop()
        node = producers.get(name)
        if name != x and node is not None and node not in found:
            found.append(node)
            todo += node.inputs
    return found
