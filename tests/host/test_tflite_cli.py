"""The commands of a model's way, for a .tflite file as for an ONNX file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tflite_nets import NETS

from mica.cli.main import main


def mica(capsys: pytest.CaptureFixture[str], *words: object) -> Any:
    """Runs a command, which has to succeed and to warn of nothing; its JSON."""
    code = main([str(w) for w in (*words, "--json")])
    out, err = capsys.readouterr()
    assert code == 0, err
    assert "warning" not in err
    return json.loads(out)


def test_an_int8_file_needs_no_calibration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, packed, data = tmp_path / "net", tmp_path / "net.mica", tmp_path / "data.npz"
    source.write_bytes(NETS["classifier"]())
    x = np.random.default_rng(0).uniform(-2.5, 2.5, (20, 6, 6, 2)).astype(np.float32)
    np.savez(data, x=x, y=np.zeros(20, np.int64))
    result = mica(capsys, "pack", source, "-o", packed, "--golden", 2, "--eval", data)
    assert result["accuracy"]["agreement"] == 1.0
    assert mica(capsys, "info", packed)["inputs"][0]["name"] == "input"
    assert mica(capsys, "verify", packed)["equal"]
    assert mica(capsys, "fit", source, "--board", "RPI_PICO")["fits"]
    assert mica(capsys, "fit", packed, "--board", "RPI_PICO")["fits"]
    assert mica(capsys, "eval", packed, data, "--float", source)["float_value"] is not None
    assert mica(capsys, "run", packed, data)["outputs"][0]["name"] == "Identity"


def test_a_float_file_takes_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, packed, data = tmp_path / "net.tflite", tmp_path / "net.mica", tmp_path / "x.npy"
    source.write_bytes(NETS["dynamic"]())
    np.save(data, np.random.default_rng(0).standard_normal((30, 8)).astype(np.float32))
    mica(capsys, "pack", source, "-o", packed, "--calib", data)
    assert main(["pack", str(source), "-o", str(packed)]) == 0
    assert "no --calib" in capsys.readouterr().err


def test_states_are_not_in_the_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, packed, data = tmp_path / "net.tflite", tmp_path / "net.mica", tmp_path / "x.npz"
    source.write_bytes(NETS["lstm"]())
    x = np.random.default_rng(0).standard_normal((10, 6, 3)).astype(np.float32)
    np.savez(data, x=x, y=np.zeros(10, np.int64))
    mica(capsys, "pack", source, "-o", packed, "--calib", data)
    assert mica(capsys, "verify", packed)["equal"]
    assert len(mica(capsys, "info", packed)["inputs"]) == 1
    other = tmp_path / "other.mica"
    assert main(["pack", str(source), "-o", str(other), "--calib", str(data), "--eval", str(data)]) == 1
    assert "has a state, which lives from run to run; --data measures one sample" in capsys.readouterr().err
    assert not other.exists()


def test_a_packed_file_is_told_what_takes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, packed = tmp_path / "net.tflite", tmp_path / "net.mica"
    source.write_bytes(NETS["svdf"]())
    mica(capsys, "pack", source)
    assert main(["pack", str(packed)]) == 1
    assert "is a .mica file, packed already" in capsys.readouterr().err
    assert main(["verify", str(source)]) == 1
    assert "not a .mica file; make one with `mica pack`" in capsys.readouterr().err
