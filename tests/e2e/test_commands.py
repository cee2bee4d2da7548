"""Every command, as a user types it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import text_nets
from helpers import DEMO, mica

from mica.file.codec import decode

TEST_DATA = DEMO / "digits_test.npz"


def test_pack_reports_and_writes(tmp_path: Path) -> None:
    out = tmp_path / "d.mica"
    r = mica(
        "pack", DEMO / "digits.onnx", "-o", out, "--calib", DEMO / "digits_calib.npz", "--eval", TEST_DATA, "--json"
    )
    assert r.code == 0, r.err
    facts = r.json
    model = decode(out.read_bytes())
    assert facts["size"] == out.stat().st_size
    assert facts["arena_bytes"] == model.arena_bytes >= facts["arena_lower_bound"]
    assert facts["macs"] == sum(layer["macs"] for layer in facts["layers"]) == 73472
    assert facts["accuracy"]["value"] >= facts["accuracy"]["float_value"] - 0.01
    assert facts["accuracy"]["value"] >= 0.95
    assert float(model.metadata["accuracy_int8"]) == pytest.approx(facts["accuracy"]["value"], abs=1e-4)


def test_pack_prints_a_table(tmp_path: Path) -> None:
    r = mica("pack", DEMO / "digits.onnx", "-o", tmp_path / "d.mica", "--calib", DEMO / "digits_calib.npz")
    assert r.code == 0, r.err
    for word in ("conv2d_s8", "<- peak", "73,472", "lower bound"):
        assert word in r.out


def test_pack_without_calibration_warns(tmp_path: Path) -> None:
    r = mica("pack", DEMO / "digits.onnx", "-o", tmp_path / "d.mica")
    assert r.code == 0
    assert "warning" in r.err
    assert "--calib" in r.err


def test_pack_promises_nothing_where_a_plan_saves_nothing(tmp_path: Path) -> None:
    text_nets.save(tmp_path / "a.onnx", "(float[1,4] x) => (float[1,4] y) { y = Relu(x) }")
    r = mica("pack", tmp_path / "a.onnx", "-o", tmp_path / "a.mica")
    assert "16 bytes for tensors (lower bound 16)\n" in r.out


def test_run_says_that_values_are_cut_off(tmp_path: Path, digits: Path) -> None:
    """Samples of 0 to 255, or of 1e6, for a model of 0 to 1."""
    for factor, said in ((255.0, True), (1e6, True), (1.1, False)):
        np.save(tmp_path / "x.npy", np.full((1, 1, 8, 8), factor, np.float32))
        r = mica("run", digits, tmp_path / "x.npy")
        assert r.code == 0
        assert ("warning: input 'image': 64 of 64 values are far outside of 0 to " in r.err) == said, r.err


def test_packing_twice_gives_the_same_bytes(tmp_path: Path, digits: Path) -> None:
    again = tmp_path / "digits.mica"
    args = ("--calib", DEMO / "digits_calib.npz", "--labels", DEMO / "labels.txt", "--golden", "2")
    assert mica("pack", DEMO / "digits.onnx", "-o", again, *args).code == 0
    assert again.read_bytes() == digits.read_bytes()


def test_info(digits: Path) -> None:
    r = mica("info", digits)
    assert r.code == 0
    assert "input 'image' 1x1x8x8" in r.out
    facts = mica("info", digits, "--json").json
    assert [layer["kernel"] for layer in facts["layers"]][-1] == "softmax_s8"
    assert facts["metadata"]["labels"].split("\n") == [str(d) for d in range(10)]


def test_info_ops() -> None:
    ops = mica("info", "--ops", "--json").json["ops"]
    assert {"Conv", "Gemm", "MaxPool", "Softmax", "BatchNormalization"} <= set(ops)


@pytest.mark.parametrize("target", ["host", "UNIX", "MPS2_AN385"])
def test_run(digits: Path, target: str) -> None:
    r = mica("run", digits, TEST_DATA, "--sample", 22, "--on", target, "--json")
    assert r.code == 0, r.err
    (output,) = r.json["outputs"]
    assert max(range(10), key=output["values"].__getitem__) == 1
    shown = mica("run", digits, TEST_DATA, "--sample", 22, "--on", target)
    assert shown.out.splitlines()[1].split()[0] == "1"


@pytest.mark.parametrize("target", ["host", "UNIX", "MPS2_AN385"])
def test_eval(digits: Path, target: str) -> None:
    r = mica("eval", digits, TEST_DATA, "--on", target, "--float", DEMO / "digits.onnx", "--samples", 60, "--json")
    assert r.code == 0, r.err
    facts = r.json
    assert facts["samples"] == 60
    assert facts["value"] >= 0.95
    assert facts["agreement"] >= 0.95
    assert facts["target"] == target


@pytest.mark.parametrize("target", ["UNIX", "MPS2_AN385"])
def test_verify_equal(digits: Path, target: str) -> None:
    r = mica("verify", digits, "--on", target, "--data", TEST_DATA, "--samples", 2, "--json")
    assert r.code == 0, r.out + r.err
    assert r.json["equal"]
    assert r.json["layers"] == 9
    assert r.json["first_difference"] is None


@pytest.mark.parametrize("target", ["UNIX", "MPS2_AN385"])
def test_demo(target: str) -> None:
    r = mica("demo", "--on", target, "--json")
    assert r.code == 0, r.err
    facts = r.json
    assert facts["equal"]
    assert facts["board_value"] >= max(0.95, facts["float_value"] - 0.01)
    assert facts["board_value"] == facts["host_value"]
    shown = mica("demo", "--on", target)
    assert ">>> m.predict" in shown.out
    assert "output bytes equal" in shown.out


def test_boards() -> None:
    names = {b["name"] for b in mica("boards", "--json").json["boards"]}
    assert {"UNIX", "MPS2_AN385", "RPI_PICO"} <= names


@pytest.mark.parametrize("command", ["pack", "info", "run", "eval", "verify", "build", "repl", "boards", "demo"])
def test_help(command: str) -> None:
    r = mica(command, "-h")
    assert r.code == 0
    assert "--json" in r.out
    assert "usage: mica " + command in r.out


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads as Linux does")
@pytest.mark.parametrize(("given", "threads"), ((None, 1), ("2", 2)))
def test_products_are_computed_by_one_thread_unless_the_user_says_so(given: str | None, threads: int) -> None:
    code = (
        "import os; from mica.cli.main import main; main(['boards']); import numpy; "
        "numpy.ones((600, 600)) @ numpy.ones((600, 600)); print(len(os.listdir('/proc/self/task')))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    environment |= {} if given is None else {"OPENBLAS_NUM_THREADS": given}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert int(said.stdout.split()[-1]) == min(threads, os.cpu_count() or 1)
