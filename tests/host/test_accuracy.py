"""Accuracy on real data, int8 on the host engine beside float in ONNX Runtime, on the same samples.

The figures are printed (`pytest -s`).
"""

from __future__ import annotations

from pathlib import Path

import accuracy
import pytest
from nets import MODELS
from targets import ALL

import mica.demo
from mica.compile import compile_file
from mica.data.calibration import load_calibration
from mica.importer import import_onnx
from mica.run import evaluation
from mica.run.evaluation import Score
from mica.run.float_model import FloatModel
from mica.run.host import HostRunner

DEMO = Path(mica.demo.__file__).parent


def scores(model: Path, calibration: Path, data: Path) -> tuple[Score, Score]:
    """(float, int8) on the samples of `data`."""
    inputs = import_onnx(model).inputs
    compiled = compile_file(model, load_calibration(calibration, inputs))
    shape = compiled.core.value(inputs[0]).shape
    samples = evaluation.load(data)
    exact = evaluation.evaluate(samples, shape, FloatModel(model).predict)
    with HostRunner(compiled.data) as runner:
        found = evaluation.evaluate(samples, shape, runner.predict)
    agreement = evaluation.agreement(exact, found)
    alike = "" if agreement is None else f", agreement {agreement:.4f}"
    print(
        f"\n{model.parent.name}: {exact.metric} float {exact.value:.4f}, int8 {found.value:.4f} "
        f"on {len(samples)} samples ({found.inferences} inferences){alike}"
    )
    return exact, found


@pytest.mark.parametrize("name", accuracy.SETS if ALL else ["kws"])
def test_reference_models(name: str) -> None:
    """The bounds of `scripts/accuracy`, on whole evaluation sets: beside float and beside ONNX Runtime's
    quantisation."""
    if not MODELS.is_dir():
        pytest.skip(f"{MODELS} is missing: the reference models are not part of the repository")
    for data in accuracy.SETS[name]:
        rows = accuracy.measure(MODELS / name, data)
        print("\n" + accuracy.table(rows))
        assert accuracy.broken(rows) == []


def test_digits() -> None:
    """The demo's model: at most 1 point below float, at least 95 %."""
    exact, found = scores(DEMO / "digits.onnx", DEMO / "digits_calib.npz", DEMO / "digits_test.npz")
    assert found.value >= exact.value - 0.01
    assert found.value >= 0.95


def test_integers_are_the_same_on_every_run() -> None:
    """One model, packed twice: the same bytes."""
    calibration = load_calibration(DEMO / "digits_calib.npz", import_onnx(DEMO / "digits.onnx").inputs)
    a, b = (compile_file(DEMO / "digits.onnx", calibration).data for _ in range(2))
    assert a == b
