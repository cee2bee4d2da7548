"""The exports of `tests/models/exports`: small models as PyTorch, Keras and scikit-learn write them,
and their answers."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from mica.compile import Compiled, compile_file
from mica.format.values import dequantise_output, quantise_input
from mica.quantise.choose_bits import Bits
from mica.run.host import HostRunner

FOLDER = Path(__file__).resolve().parent.parent / "models" / "exports"
FILES = sorted(FOLDER.glob("*.onnx"))


@dataclasses.dataclass
class Answer:
    """One output over all test inputs: the framework's answer and the engine's."""

    name: str
    expected: np.ndarray
    found: np.ndarray

    @property
    def sqnr(self) -> float:
        """Signal to quantisation noise, in dB; infinite where nothing differs."""
        noise = float(np.mean((self.expected.astype(np.float64) - self.found) ** 2))
        signal = float(np.mean(self.expected.astype(np.float64) ** 2))
        return float("inf") if noise == 0 else 10 * np.log10(max(signal, 1e-30) / noise)


def compiled(path: Path, plain: bool = False, bits: Bits | None = None) -> Compiled:
    """The export, calibrated on the samples in its sidecar."""
    with np.load(path.with_suffix(".npz")) as data:
        calibration = {k: data[k] for k in data.files if "/" not in k and k != "about"}
    return compile_file(path, calibration, plain=plain, bits=bits)


def answers(path: Path, model: Compiled) -> list[Answer]:
    """Runs the test inputs one by one through the engine."""
    with np.load(path.with_suffix(".npz")) as data:
        arrays = {k: data[k] for k in data.files if k.startswith("test/")}
    with HostRunner(model.data) as runner:
        tensors = runner.model.tensors
        inputs = [tensors[t] for t in runner.model.inputs]
        n = len(arrays[f"test/{inputs[0].name}"])
        samples = []
        for k in range(n):
            sample = []
            for t in inputs:
                x = arrays[f"test/{t.name}"][k]
                sample.append(quantise_input(x, t) if t.dtype == "int8" else x.astype(t.dtype).reshape(t.dims))
            samples.append(sample)
        results = runner.run(samples)
        found = []
        for i, tensor_id in enumerate(runner.model.outputs):
            t = tensors[tensor_id]
            expected = arrays[f"test/{t.name}"]
            values = [dequantise_output(r[i], t) if t.dtype == "int8" else r[i] for r in results]
            found.append(Answer(t.name, expected, np.stack(values).reshape(expected.shape)))
    return found
