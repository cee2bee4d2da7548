"""The accuracy that each layer loses: its int8 output, from the engine, beside the float network's.

SQNR, the signal to quantisation noise ratio: 10 log10(sum of (float - mean)**2 / sum of (float - int8)**2)
over all values of all samples, in dB; mean: of the channel. 6 dB are one bit.
`sqnr_db` contains everything that went wrong up to this layer;
`own_db` is the layer alone, fed with the rounded output of the float layers before it, and tells which layer hurts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mica import engine
from mica.compile.state import Compiled
from mica.format.values import QUANTISED, dequantise_output, quantise_input
from mica.ir.exact_inputs import exact_inputs
from mica.ir.graph import Node, Quant
from mica.quantise import simulate
from mica.quantise.params import choose_quants
from mica.reference import float_ops
from mica.run.output_errors import LARGEST, Sums, decibels

SAMPLES = 16
MAX_MACS = 2_000_000_000  # of all samples together; one sample always


@dataclass(frozen=True)
class LayerError:
    """One step. None where the float network has no such value, or only zeros."""

    name: str
    kernel: str
    sqnr_db: float | None
    own_db: float | None


def sqnr_db(exact: np.ndarray, found: np.ndarray) -> float:
    """Return the ratio of whole outputs in dB: of their energy, with its mean."""
    signal, noise = (float(np.sum(np.square(x, dtype=np.float64))) for x in (exact, exact - found))
    result = decibels(signal, noise)
    return LARGEST if result is None else result


def measure(compiled: Compiled, samples: Sequence[Mapping[str, np.ndarray]]) -> list[LayerError]:
    """Errors of all steps, in order of execution, over some of the samples, evenly spread."""
    n = max(1, min(SAMPLES, len(samples), MAX_MACS // max(compiled.macs, 1)))
    model, loaded = compiled.model, engine.load(compiled.data, compiled.custom)
    exact, tuned = compiled.core, compiled.tuned
    quants = choose_quants(tuned.graph, tuned.ranges)
    nodes = {node.outputs[0]: node for node in tuned.graph.nodes}
    whole, own = Sums(), Sums()
    for k in range(n):
        sample = samples[k * len(samples) // n]
        values = float_ops.run(exact, sample)
        for i, t in enumerate(model.inputs):
            loaded.set_input(i, quantise_input(sample[exact.inputs[i]], model.tensors[t]))
        for step, found in zip(model.steps, loaded.layers(), strict=True):
            y = model.tensors[step.outputs[0]]
            if y.name in values and y.dtype in QUANTISED:
                whole.add(y.name, values[y.name], dequantise_output(found, y))
                own.add(y.name, values[y.name], _alone(compiled, nodes[y.name], values, quants))
    names = [model.tensors[s.outputs[0]].name for s in model.steps]
    return [
        LayerError(s.name, s.kernel, whole.db(name), own.db(name)) for s, name in zip(model.steps, names, strict=True)
    ]


def _alone(compiled: Compiled, node: Node, values: Mapping[str, np.ndarray], quants: Mapping[str, Quant]) -> np.ndarray:
    """First output of a node with int8 weights, rounded inputs, and rounded output."""
    g = compiled.tuned.graph
    reals = exact_inputs(g)
    arrays = [
        np.asarray(g.data(i))
        if i not in values
        else values[i]
        if i in reals or simulate.whole(g, i)
        else simulate.rounded(values[i], quants[i])
        for i in node.inputs
    ]
    return simulate.rounded(simulate.apply(g, node, arrays)[0], quants[node.outputs[0]])
