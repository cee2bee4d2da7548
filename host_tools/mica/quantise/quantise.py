"""Core operators on real numbers -> kernels on integers.

The result is again a Graph: node.op is a kernel name of `mica.kernels`, node.attrs its parameters, node.inputs the
activations followed by the kernel's constants (blobs) in the schema's order. Reshape stays, as an alias of its input.
Every activation carries its `Quant`.
"""

from collections.abc import Mapping

from mica.ir.exact_inputs import exact_inputs
from mica.ir.graph import Graph, Value
from mica.passes.refusal import Refusals
from mica.quantise.calibrate import Range
from mica.quantise.kernels import STEPS, WIDE_STEPS
from mica.quantise.params import choose_quants


def quantise(g: Graph, ranges: Mapping[str, Range]) -> Graph:
    """A core graph and the ranges of its activations -> the integer graph. Raises Unsupported."""
    quants = choose_quants(g, ranges)
    reals = exact_inputs(g)
    out = Graph(g.name, g.inputs, g.outputs)
    for name, value in g.values.items():
        if value.data is None:
            dtype = "int32" if value.dtype == "int32" else reals.get(name, quants[name].dtype)
            out.values[name] = Value(name, value.shape, dtype, None, quants[name])
    refusals = Refusals()
    for node in g.nodes:
        with refusals.at(node):
            wide = any(i in quants and quants[i].bits == 16 for i in (node.outputs[0], *node.inputs))
            wide = wide and "carried" not in node.attrs
            (WIDE_STEPS if wide else STEPS)[node.op](g, out, node)
    refusals.stop()
    return out
