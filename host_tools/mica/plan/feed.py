"""The input that a caller can deliver row by row (`mica pack --feed`), and the shape of its rows."""

from dataclasses import replace

from mica.file.order import is_image
from mica.ir.graph import Graph


def fed_input(g: Graph) -> str:
    """The first picture [1, H, W, C] among the inputs, else the first input: the planner says why it cannot be fed."""
    return next((i for i in g.inputs if is_image(g.value(i).shape)), g.inputs[0])


def as_picture(g: Graph, name: str) -> Graph:
    """A graph without the Reshape that gives rows to the input `name`, if there is one; else g itself.

    x [1, 1, H, W] -> Reshape [1, H, W, 1] -> ...   =>   x [1, H, W, 1] -> ...
    """
    readers = g.consumers().get(name, [])
    if len(readers) != 1 or readers[0].op != "Reshape" or name in g.outputs or readers[0].outputs[0] in g.outputs:
        return g
    old = readers[0].outputs[0]
    shape = g.value(old).shape
    if not is_image(shape) or shape[1] == 1:
        return g
    out = Graph(g.name, g.inputs, g.outputs)
    out.values = {k: v for k, v in g.values.items() if k != old}
    out.values[name] = replace(g.value(name), shape=shape)
    out.nodes = [
        replace(node, inputs=[name if i == old else i for i in node.inputs])
        for node in g.nodes
        if node is not readers[0]
    ]
    return out
