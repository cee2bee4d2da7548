"""Layout in a file of the weights of an integer graph's node."""

from mica.format.weights import Layout
from mica.ir.graph import Graph, Node
from mica.kernels import KERNEL_BY_NAME


def layout_of(g: Graph, node: Node) -> Layout:
    """The layout that `pack` writes of a kernel's node: by the bits of its weights, where it has some."""
    kernel = KERNEL_BY_NAME[node.op]
    names = [name for name, _ in kernel.blobs]
    if "weights" not in names:
        return kernel.layout
    return kernel.layout_of(g.value(node.inputs[names.index("weights") - len(names)]).bits)
