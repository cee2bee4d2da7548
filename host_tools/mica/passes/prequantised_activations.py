"""Rounding that the model asks for becomes the scale and zero point of the value that is rounded.

    Unary(Conv2d(x), quantise s z)          =>   Conv2d(x), its output having `quant` s, z
    Unary(MaxPool2d(x), quantise)           =>   MaxPool2d(Unary(x, quantise)), and on from there: a selection of
                                                 elements has the scale of what it selects from
    Unary(x, quantise), x with that quant   =>   x
    Unary(x, quantise), x with another      =>   stays: a table from integers to integers,
                                                 behind a selection or another such
    Unary(x, clip), x with a quant          =>   its output has that of x, unless the model says another

A value that is rounded to several scales takes the finest; the others become tables behind it.
"""

from mica.ir.graph import Graph, Node, Quant
from mica.ir.ops import CORE_BY_NAME
from mica.passes.drop_identity import bypass
from mica.passes.quantised_values import grid_of, is_quantise, quantise


def run(g: Graph) -> Graph:
    while _step(g):
        pass
    for node in g.nodes:
        y = g.value(node.outputs[0])
        if is_quantise(node):
            y.quant = grid_of(node)
        elif node.op == "Unary" and node.attrs["function"] == "clip" and y.quant is None:
            y.quant = g.value(node.inputs[0]).quant
    return g


def _step(g: Graph) -> bool:
    """Merges one rounding into the value that it rounds; False if none is left."""
    producers, consumers = g.producers(), g.consumers()
    for node in g.nodes:
        if not is_quantise(node):
            continue
        x, grid = g.value(node.inputs[0]), grid_of(node)
        if x.quant is None and is_quantise(producers.get(x.name)):
            x.quant = grid_of(producers[x.name])
        if x.quant is None:
            x.quant = _of_selection(g, x.name, producers)
        if x.quant is None:
            finest = min((grid_of(n) for n in consumers[x.name] if is_quantise(n)), key=lambda q: q.scale)
            x.quant = finest
            selection = producers.get(x.name)
            if selection is not None and CORE_BY_NAME[selection.op].selects:
                _above(g, selection, node.name)
            return True
        if x.quant == grid and _drop(g, node):
            return True
    return False


def _of_selection(g: Graph, x: str, producers: dict[str, Node]) -> Quant | None:
    """Scale and zero point of the tensor that x is selected from, else None."""
    while g.value(x).quant is None:
        node = producers.get(x)
        if node is None or not CORE_BY_NAME[node.op].selects:
            return None
        sources = [i for i in node.inputs if i and not g.is_const(i)]
        if len(sources) != 1:
            return None
        x = sources[0]
    return g.value(x).quant


def _above(g: Graph, selection: Node, name: str) -> None:
    """Rounds the inputs of a selection with the scale and zero point of its output."""
    quant = g.value(selection.outputs[0]).quant
    assert quant is not None
    for k, x in enumerate(selection.inputs):
        if x and not g.is_const(x) and g.value(x).quant != quant:
            rounded = g.new_value(f"{x}.quantised", g.value(x).shape)
            g.insert_before(selection, quantise(x, rounded, name, quant))
            selection.inputs[k] = rounded


def _drop(g: Graph, node: Node) -> bool:
    """Readers of `node` read its input; False where both ends are the graph's own names."""
    x, y = node.inputs[0], node.outputs[0]
    if y in g.outputs and (x in g.inputs or x in g.outputs):
        return False
    bypass(g, node)
    return True
