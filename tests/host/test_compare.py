"""`mica compare`: two packed models beside each other and beside float."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nets import Net, truth, varies

from mica.cli.main import main
from mica.compile import compile_file
from mica.data.calibration import load_calibration
from mica.format.values import dequantise_output
from mica.run.host import HostRunner

SHAPE = (8, 8, 2)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Net]:
    """A net packed with good ranges (a) and with ranges ten times too wide (b), and labelled data."""
    folder = tmp_path_factory.mktemp("pair")
    net = Net()
    x = net.add("Transpose", net.input([1, *SHAPE]), perm=[0, 3, 1, 2])
    y = net.add("Relu", net.conv(x, 2, 6, pads=[1, 1, 1, 1]))
    y = net.add("Flatten", net.conv(y, 6, 4, k=8))
    net.output(y)
    path = net.save(folder)
    rng = np.random.default_rng(1)
    calibration = rng.standard_normal((6, *SHAPE)).astype(np.float32)
    for name, factor in (("a", 1), ("b", 10)):
        (folder / f"{name}.mica").write_bytes(compile_file(path, {"x": calibration * factor}).data)
    samples = rng.standard_normal((30, *SHAPE)).astype(np.float32)
    labels = [int(np.argmax(truth(net, {"x": s[None]})[y])) for s in samples]
    np.savez(folder / "labelled.npz", x=samples, y=labels)
    np.savez(folder / "samples.npz", x=samples)
    return folder, net


def compared(capsys: pytest.CaptureFixture[str], *words: object) -> Any:
    assert main(["compare", *map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_beside_float(pair: tuple[Path, Net], capsys: pytest.CaptureFixture[str]) -> None:
    folder, net = pair
    words = (folder / "a.mica", folder / "b.mica", folder / "labelled.npz", "--float", folder / "net.onnx")
    r = compared(capsys, *words)
    # ONNX Runtime's float outputs, and the definition.
    samples = load_calibration(folder / "samples.npz", ["x"])["x"]
    for side in "ab":
        with HostRunner((folder / f"{side}.mica").read_bytes()) as runner:
            t = runner.model.tensors[runner.model.outputs[0]]
            found = [dequantise_output(runner.run([runner.quantise([s[None]])])[0][0], t) for s in samples]
        exact = [truth(net, {"x": s[None]})[t.name] for s in samples]
        noise = sum(float(np.sum((e - f) ** 2)) for e, f in zip(exact, found, strict=True))
        assert r[side]["sqnr_db"] == pytest.approx(10 * np.log10(varies(exact) / noise), abs=0.01)
        assert r[side]["size"] == (folder / f"{side}.mica").stat().st_size
        assert r[side]["time"]["total"] > 0
    assert r["a"]["sqnr_db"] > r["b"]["sqnr_db"] + 5
    assert r["a"]["worst_output"]["sqnr_db"] == r["a"]["sqnr_db"]
    errors = [layer["sqnr_db"] for layer in r["a"]["worst_layers"]]
    assert errors == sorted(errors) and len(errors) == 2
    assert r["a"]["value"] == r["a"]["agreement"] >= r["b"]["value"]  # the labels are float's answers
    assert main(["compare", *map(str, words)]) == 0
    out = capsys.readouterr().out
    assert "same answer as float" in out and "worst layer 2" in out


def test_without_float_b_is_beside_a(pair: tuple[Path, Net], capsys: pytest.CaptureFixture[str]) -> None:
    folder, _ = pair
    a, b, data = folder / "a.mica", folder / "b.mica", folder / "samples.npz"
    r = compared(capsys, a, b, data)
    assert "value" not in r["a"] and r["sqnr_db"] < 40 and len(r["layers"]) == 2
    same = compared(capsys, a, a, data)
    assert same["same_file"] and same["agreement"] is None and same["sqnr_db"] == 120.0


def test_models_of_two_tasks(pair: tuple[Path, Net], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, _ = pair
    net = Net()
    net.output(net.add("Relu", net.input([1, 4])))
    (tmp_path / "c.mica").write_bytes(compile_file(net.save(tmp_path)).data)
    assert main(["compare", str(folder / "a.mica"), str(tmp_path / "c.mica"), str(folder / "samples.npz")]) == 1
    assert "the models have different inputs: 'x' [1, 8, 8, 2] and 'x' [1, 4]" in capsys.readouterr().err
