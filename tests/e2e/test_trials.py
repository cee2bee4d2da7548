"""Small inputs that once went wrong (../shared/trials), as commands take them.
Other trials are tried where their operators are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT, mica

from mica.run.host import HostRunner

TRIALS = ROOT.parent / "shared" / "trials"
pytestmark = pytest.mark.skipif(not TRIALS.is_dir(), reason="the folder ../shared/trials is missing")


def test_a_picture_of_16_bits(tmp_path: Path) -> None:
    folder, packed = TRIALS / "png-16-bit", tmp_path / "m.mica"
    assert (
        mica("pack", folder / "model.onnx", "--calib", folder / "calib.npz", "--picture", "rgb", "-o", packed).code == 0
    )
    answers = [mica("run", packed, folder / f"same-{bits}-bit.png", "--json").json["outputs"] for bits in (8, 16)]
    assert answers[0] == answers[1]
    assert np.argmax(answers[0][0]["int16"]) == 3  # its scores hardly differ


def test_a_nan_among_the_samples(tmp_path: Path) -> None:
    folder = TRIALS / "nan-in-calibration"
    refused = mica("pack", folder / "model.onnx", "--calib", folder / "calib.npz", "-o", tmp_path / "m.mica")
    assert refused.code == 1 and "NaN" in refused.err and not (tmp_path / "m.mica").exists()
    assert (
        mica("pack", folder / "model.onnx", "--calib", folder / "calib-clean.npz", "-o", tmp_path / "m.mica").code == 0
    )


def test_a_flatten_that_computes_its_shape(tmp_path: Path) -> None:
    """Keras has 93.00 % of these 200."""
    folder, packed = TRIALS / "keras-flatten-dynamic-batch", tmp_path / "m.mica"
    net, data = folder / "model.tflite", ("--data", folder / "labelled.npz")
    assert mica("pack", net, "--calib", folder / "calib.npz", *data, "-o", packed).code == 0
    found = mica("eval", packed, *data, "--float", net, "--json").json
    assert found["float_value"] == 0.93 and found["value"] == pytest.approx(0.93, abs=0.01)
    compared = mica("compare", packed, packed, *data, "--float", net)
    assert compared.code == 0, compared.err


def test_a_scaler_behind_a_front_end(tmp_path: Path) -> None:
    """scikit-learn has all of these 80; its output `label` is no score."""
    folder, packed = TRIALS / "scaler-behind-a-front-end", tmp_path / "m.mica"
    words = "logmel:frame=480,hop=320,fft=512,mels=10,fmin=20,fmax=8000,floor=1e-4,samples=4000"
    done = mica("pack", folder / "model.onnx", "--calib", folder / "calib.npz", "--frontend", words, "-o", packed)
    assert done.code == 0, done.err
    found = mica("eval", packed, "--data", folder / "labelled.npz", "--json").json
    assert found["value"] == 1.0
    with HostRunner(packed.read_bytes()) as host:
        assert host.model.metadata["labels"] == "low\nnoise\nrising"
