"""A window of samples of several axes as the input of a network that was made for features of them.

input x [.., axes, features ..]                          =>   samples [1, N, A] -> AxisFeatures -> Reshape -> x
input x -> Features(x, factor, shift, missing) -> y      =>   samples [1, N, A] -> AxisFeatures(factor, shift) -> Reshape -> y
"""

from __future__ import annotations

import numpy as np

from mica.errors import MicaError
from mica.ir import check
from mica.ir.axes import AxisFeatures
from mica.ir.graph import Graph, Node
from mica.ir.ops import CORE_BY_NAME


def put(g: Graph, f: AxisFeatures, name: str, samples: str) -> Graph:
    """A core graph with the front end before its input `name`; samples: what its new input is called. Raises MicaError."""
    x, n = g.value(name), f.axes * f.each
    if name in g.outputs:
        raise MicaError(f"--frontend: input '{name}' is an output as well")
    readers = g.consumers().get(name, [])
    factor, shift, y = np.ones(n, np.float32), np.zeros(n, np.float32), name
    if len(readers) == 1 and readers[0].op == "Features":
        found = (np.asarray(g.data(i), np.float32).reshape(-1) for i in readers[0].inputs[1:3])
        factor, shift = (np.broadcast_to(v, (n,)) for v in found)
        y = readers[0].outputs[0]
        g.nodes.remove(readers[0])
    other = next((r for r in g.consumers().get(name, []) if CORE_BY_NAME[r.op].reads == "float32"), None)
    if other is not None:
        raise MicaError(
            f"--frontend: '{other.name}' ({other.op}) reads real numbers, which a front end does not give",
            todo="expected a network or a linear model, behind at most one scaler",
        )
    made = g.new_value(f"{name}.features", (1, *f.shape))
    g.value(made).quant = x.quant
    given = g.new_value(samples, f.input_shape)
    constants = [g.new_const(f"{made}.{what}", v) for what, v in (("factor", factor), ("shift", shift))]
    g.nodes[:0] = [
        Node("AxisFeatures", made, [given, *constants], [made], {"front_end": f}),
        Node("Reshape", y, [made], [y]),
    ]
    g.inputs = [given if i == name else i for i in g.inputs]
    x.dtype, x.whole = "float32", False
    if y != name:
        del g.values[name]
    check.structure(g, "front_end")
    check.core(g)
    return g
