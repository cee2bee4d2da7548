"""How good a packed model is on samples that its calibration did not see, beside the float network.

All calibration samples make the model that is delivered. So without labelled data the one that is measured is another: made
with the same recipe of some of the samples, and run on others (`quantise.tune.Unseen`). That is cross-validation: what it
says of the method holds for the model, which has seen a little more. It is the engine that runs, so roundings that the
tuner's simulation does not know are in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mica import engine
from mica.compile.quantising import trial
from mica.compile.state import Compiled
from mica.format import joins
from mica.format.codec import ModelFile
from mica.format.names import clean
from mica.format.values import QUANTISED, dequantise_output, quantise_input
from mica.ir.graph import Graph
from mica.reference import float_ops
from mica.run.evaluation import Dataset
from mica.run.output_errors import OutputErrors, Sums

SAMPLES = 64  # at most
MAX_MACS = 300_000_000  # of all of them; two samples always

Samples = Sequence[Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Quality:
    """data: what was measured on: "held out" of the calibration samples, "eval" data, "calibration" samples themselves (where
    there are too few to hold any out), "unseen" by a model that came quantised, or "made up"."""

    errors: OutputErrors
    worst_layer: dict[str, Any] | None  # name, kernel, sqnr_db of the layer with the lowest
    data: str

    def facts(self) -> dict[str, Any]:
        """The key `quality` of --json."""
        e = self.errors
        return {
            "sqnr_db": e.sqnr_db,
            "agreement": e.agreement,
            "samples": e.samples,
            "worst_output": e.worst,
            "worst_layer": self.worst_layer,
            "data": self.data,
        }


def of(compiled: Compiled, data: Dataset | None = None) -> Quality | None:
    """Quality of a compiled model on labelled data, on calibration samples that it did not see, or on made-up ones.

    None where the model has inputs that evaluation data does not feed.
    """
    tuned, unseen = compiled.tuned, compiled.tuned.unseen
    if data is not None and len(compiled.core.inputs) == 1 and not compiled.model.state_bytes:
        name = compiled.core.inputs[0]
        samples = _of_data(data, name, compiled.core.value(name).shape, _number(compiled))
        return _measure(compiled, compiled.model, compiled.data, compiled.core, samples, "eval")
    if unseen is None:
        return None
    if unseen.tuned.graph is tuned.graph and unseen.tuned.ranges == tuned.ranges and not compiled.model.state_bytes:
        model, content = compiled.model, compiled.data
    else:
        model, content = trial(unseen.tuned)
    kind = "made up" if compiled.made_up else "unseen" if not tuned.ranges else unseen.kind
    return _measure(compiled, model, content, unseen.tuned.exact, _thin(unseen.samples, _number(compiled)), kind)


def _number(compiled: Compiled) -> int:
    return max(2, min(SAMPLES, MAX_MACS // max(compiled.macs, 1)))


def _thin(samples: Samples, n: int) -> Samples:
    return samples if len(samples) <= n else [samples[k * len(samples) // n] for k in range(n)]


def _of_data(data: Dataset, name: str, shape: tuple[int, ...], n: int) -> Samples:
    """n samples evenly spread; of a series one window."""
    n = min(n, len(data))
    chosen = [k * len(data) // n for k in range(n)]
    few = replace(data, x=data.x[chosen], y=data.y[chosen])
    return [{name: windows[k % len(windows)]} for k, windows in enumerate(few.inputs(shape, name))]


def _measure(
    compiled: Compiled, model: ModelFile, content: bytes, exact: Graph, samples: Samples, kind: str
) -> Quality:
    loaded = engine.load(content, compiled.custom)
    ends = [model.tensors[t] for t in model.outputs]
    errors, layers = OutputErrors(ends, joins.KEY not in compiled.model.metadata), Sums()
    steps = {model.tensors[s.outputs[0]].name: s for s in model.steps}
    for sample in samples:
        for i, t in enumerate(model.inputs):
            loaded.set_input(i, quantise_input(sample[exact.inputs[i]], model.tensors[t]))
        found = {}
        for step, made in zip(model.steps, loaded.layers(), strict=True):
            y = model.tensors[step.outputs[0]]
            if y.dtype in QUANTISED:
                found[y.name] = (y, np.array(made))
        outputs = [dequantise_output(loaded.output(k), t) for k, t in enumerate(ends)]
        expected: dict[str, np.ndarray] = {}
        for name, real in float_ops.stream(exact, sample):  # which lets go of what nobody reads any more
            if name in exact.outputs:
                expected[name] = real
            if (key := clean(name)) in found:
                y, integers = found.pop(key)
                layers.add(key, real, dequantise_output(integers, y))
        errors.add([expected[o] for o in exact.outputs], outputs)
    known = {name: db for name in layers.signal if (db := layers.db(name)) is not None}
    worst = min(known, key=known.__getitem__, default=None)
    layer = worst and {"name": steps[worst].name, "kernel": steps[worst].kernel, "sqnr_db": known[worst]}
    return Quality(errors, layer or None, kind)
