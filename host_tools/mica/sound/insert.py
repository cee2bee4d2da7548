"""Sound as the input of a network that was made for features of it.

input x [.., frames, .., columns, ..]   =>   samples [1, S] -> LogMel -> Reshape, Transpose -> x

x keeps its name and scale; dimensions of 1 may lie anywhere, and columns may come before frames.
"""

from mica.errors import MicaError
from mica.ir import check
from mica.ir.axes import Front
from mica.ir.front_end import FrontEnd, order_of, rows_of
from mica.ir.graph import Graph, Node
from mica.passes import axes

SAMPLES = "samples"


def put(g: Graph, f: Front, name: str) -> Graph:
    """A core graph with the front end before its input `name`. Raises MicaError."""
    return _put(g, f, name) if isinstance(f, FrontEnd) else axes.put(g, f, name, SAMPLES)


def _put(g: Graph, f: FrontEnd, name: str) -> Graph:
    x = g.value(name)
    rows = rows_of(x.shape, f.columns, f"input '{name}'")
    if rows != f.frames:
        least = f.before + f.frame + (rows - 1) * f.hop
        raise MicaError(
            f"--frontend: {f.samples} samples have {f.frames} frames; input '{name}' takes {rows}",
            todo=f"expected samples={least} to {least + f.hop - 1}",
        )
    if name in g.outputs:
        raise MicaError(f"--frontend: input '{name}' is an output as well")
    samples = g.new_value(SAMPLES, (1, f.samples))
    y = g.new_value(f"{name}.rows", (1, rows, f.columns))
    g.value(y).quant = x.quant
    nodes = [Node("LogMel", y, [samples], [y], {"front_end": f})]
    if order_of(x.shape, rows, f.columns) == "columns":
        turned = g.new_value(f"{name}.columns", (1, f.columns, rows))
        g.value(turned).quant = x.quant
        nodes.append(Node("Transpose", turned, [y], [turned], {"perm": (0, 2, 1)}))
        y = turned
    nodes.append(Node("Reshape", name, [y], [name]))
    g.nodes[:0] = nodes
    g.inputs = [samples if i == name else i for i in g.inputs]
    x.dtype, x.whole = "float32", False
    check.structure(g, "front_end")
    check.core(g)
    return g
