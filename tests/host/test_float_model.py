"""Random networks: the core graph equals ONNX Runtime, the engine the integer reference, and both stay near float."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nets import assert_same, core, truth
from random_nets import RandomNet
from targets import sampled

from mica import engine
from mica.compile import compile_file
from mica.file.codec import ModelFile
from mica.format.values import dequantise_output, quantise_input
from mica.reference.executor import ReferenceModel

BATCH = 25  # networks a test


@pytest.mark.parametrize("first", range(0, sampled(300, 150), BATCH))
def test_core_graph_equals_onnx_runtime(tmp_path: Path, first: int) -> None:
    """Within 1e-4 of the largest output: both add up float32, in different orders."""
    for seed in range(first, first + BATCH):
        net = RandomNet(seed)
        try:
            assert_same(net, core(net, tmp_path), 1e-4)
        except Exception as e:
            raise AssertionError(f"RandomNet({seed}): {e}") from e


def run(model: engine.LoadedModel, inputs: list[np.ndarray], n_outputs: int) -> list[np.ndarray]:
    for i, x in enumerate(inputs):
        model.set_input(i, x)
    model.run()
    return [model.output(i) for i in range(n_outputs)]


@pytest.mark.parametrize("first", range(0, sampled(200, 100), BATCH))
def test_engine_equals_reference_and_stays_near_float(tmp_path: Path, first: int) -> None:
    """Byte for byte; and the error is at most 5 % (root of mean square), 25 % (one value) of the output's range.

    The tolerance is wide because the networks are mean: random weights, up to 16 layers each of which adds its own
    half step in 256, a softmax that multiplies what comes before. 90 of 100 of them stay below 0.7 % and 2 %. A range
    below 32 output steps counts as 32: a softmax over nearly equal values is a handful of steps of 1/256.
    """
    for seed in range(first, first + BATCH):
        net = RandomNet(seed)
        samples = net.samples(8)
        calibration = {k: np.concatenate([s[k] for s in samples]) for k in samples[0]}
        compiled = compile_file(net.save(tmp_path), calibration, plain=seed % 5 != 0)  # tuning takes its time
        model: ModelFile = compiled.model
        engines = [engine.load(compiled.data), ReferenceModel(compiled.data)]
        errors: dict[str, list[np.ndarray]] = {}
        expected: dict[str, list[np.ndarray]] = {}
        for s in samples:
            records = [model.tensors[t] for t in model.inputs]
            found, reference = (
                run(e, [quantise_input(s[t.name], t) for t in records], len(model.outputs)) for e in engines
            )
            floats = truth(net, s)
            for t, a, b in zip((model.tensors[t] for t in model.outputs), found, reference, strict=True):
                assert np.array_equal(a, b), f"RandomNet({seed}): engine and reference differ in '{t.name}'"
                expected.setdefault(t.name, []).append(floats[t.name])
                errors.setdefault(t.name, []).append(dequantise_output(a, t) - floats[t.name])
        for t in (model.tensors[t] for t in model.outputs):
            error, values = np.stack(errors[t.name]), np.stack(expected[t.name])
            reach = max(float(values.max()), 0.0) - min(float(values.min()), 0.0)
            reach = max(reach, 32 * t.scale)
            rms, worst = float(np.sqrt(np.mean(error**2))), float(np.abs(error).max())
            assert rms <= 0.05 * reach, f"RandomNet({seed}), '{t.name}': root mean square {rms} of {reach}"
            assert worst <= 0.25 * reach, f"RandomNet({seed}), '{t.name}': {worst} of {reach}"
