"""Weights that hold NaN or infinity are refused by their names, before a sample could be blamed. Changes nothing."""

import numpy as np

from mica.ir.graph import Graph
from mica.passes import dead_code
from mica.passes.refusal import Refusals

# Operators that compute with every element of a constant: elsewhere infinity may be a bound, or what is filled in.
_COMPUTE = frozenset(
    (
        *("Add", "BatchNormalization", "Conv", "ConvTranspose", "Div", "Gemm", "InstanceNormalization", "GRU", "LSTM"),
        *("LayerNormalization", "MatMul", "Mean", "Mul", "PRelu", "RNN", "Sub", "Sum"),
    )
)


def run(g: Graph) -> Graph:
    g = dead_code.run(g)
    refusals = Refusals()
    blamed: set[str] = set()
    for node in g.nodes:
        for i in node.inputs:
            data = g.data(i) if i and i not in blamed else None
            if data is None or data.dtype.kind != "f" or node.op == "Ranks":  # whose NaN says what is not known
                continue
            bad = np.isnan(data) if node.op not in _COMPUTE else ~np.isfinite(data)
            if not bad.any():
                continue
            blamed.add(i)
            with refusals.at(node):
                what = "NaN" if np.isnan(data).any() else "infinity"
                raise ValueError(
                    f"its constant '{i}' holds {what} ({int(bad.sum()):,} of {data.size:,} values); the model is "
                    "damaged there, or its training went wrong"
                )
    refusals.stop()
    return g
