"""Running sums become a product with a triangle of ones.

y = CumSum(x, axis)    =>   y = Transpose(MatMul(Transpose(x, axis to the end), triangle), back)

The triangle has length**2 bytes in the file, so long axes are refused.
"""

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes.refusal import Refusals

LONGEST = 256  # 64 KB of ones


def run(g: Graph) -> Graph:
    refusals = Refusals()
    nodes: list[Node] = []
    for node in g.nodes:
        if node.op != "CumSum":
            nodes.append(node)
            continue
        with refusals.at(node):
            nodes += _product(g, node)
    refusals.stop()
    g.nodes = nodes
    return g


def _product(g: Graph, node: Node) -> list[Node]:
    x, axis_data = g.value(node.inputs[0]), g.data(node.inputs[1])
    if axis_data is None:
        raise ValueError("an axis that is not constant")
    rank = len(x.shape)
    axis = int(axis_data.reshape(-1)[0]) % rank
    n = x.shape[axis]
    if n > LONGEST:
        raise ValueError(f"a running sum over {n} elements; {LONGEST} are supported")
    ones = np.triu(np.ones((n, n), np.float32), 1 if node.attrs.get("exclusive", 0) else 0)
    if node.attrs.get("reverse", 0):
        ones = ones[::-1, ::-1]
    triangle = g.new_const(f"{node.name}.triangle", np.ascontiguousarray(ones))
    perm = [i for i in range(rank) if i != axis] + [axis]
    wide = [x.shape[p] for p in perm]
    if rank == 1:
        wide = [1, n]
        shape = g.new_const(f"{node.name}.shape", np.array(wide, np.int64))
        first = Node("Reshape", node.name, [x.name, shape], [])
        back = g.new_const(f"{node.name}.shape", np.array([n], np.int64))
        last = Node("Reshape", node.name, ["", back], node.outputs)
    else:
        first = Node("Transpose", node.name, [x.name], [], {"perm": perm})
        last = Node("Transpose", node.name, [""], node.outputs, {"perm": np.argsort(perm).tolist()})
    moved, summed = (g.new_value(f"{node.name}.{part}", wide) for part in ("moved", "summed"))
    first.outputs, last.inputs[0] = [moved], summed
    return [first, Node("MatMul", node.name, [moved, triangle], [summed]), last]
