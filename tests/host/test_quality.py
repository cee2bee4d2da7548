"""The quality lines of `mica pack`: measured on the file that is written, and warnings where they cannot be right."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nets import MODELS, Net, truth, varies

from mica.cli.main import main
from mica.compile import compile_file, quality
from mica.data.calibration import doubts, load_calibration, samples_for
from mica.file.codec import encode
from mica.format.values import dequantise_output
from mica.importer import import_onnx
from mica.passes import pipeline
from mica.quantise import tune
from mica.reference import float_ops
from mica.run.host import HostRunner

Capsys = pytest.CaptureFixture[str]


def network(scale: float = 0.5) -> Net:
    """scale: of the first layer's weights, so that the inputs it expects have a size of some 0.5 / scale."""
    net = Net()
    x = net.add(
        "Conv", net.input([1, 3, 8, 8]), net.random(6, 3, 3, 3, scale=scale), net.random(6, scale=0.1), name="first"
    )
    y = net.add("Gemm", net.add("Flatten", net.add("Relu", x)), net.random(216, 5, scale=0.1), name="second")
    net.output(net.add("Softmax", y, axis=-1))
    return net


def samples(n: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 3, 8, 8)).astype(np.float32)


def packed(tmp_path: Path, capsys: Capsys, x: np.ndarray | None, *words: object, net: Net | None = None) -> Any:
    """Result of `pack --json`, and its text on stderr."""
    path = (net or network()).save(tmp_path)
    if x is not None:
        np.savez(tmp_path / "x.npz", x=x)
        words = (*words, "--calib", tmp_path / "x.npz")
    assert main(["pack", str(path), *map(str, words), "--json"]) == 0
    out, err = capsys.readouterr()
    return json.loads(out), err


def test_the_keys(tmp_path: Path, capsys: Capsys) -> None:
    result, err = packed(tmp_path, capsys, samples(16))
    q = result["quality"]
    assert q["data"] == "held out" and q["samples"] == 16 and q["warnings"] == [] and "warning" not in err
    assert 20 < q["sqnr_db"] == q["worst_output"]["sqnr_db"] and 0 <= q["agreement"] <= 1
    assert q["worst_layer"]["name"] in {layer["name"] for layer in result["layers"]}
    assert result["recipe"]["tried"] == "best of 5 on 16 samples"
    assert main(["pack", str(tmp_path / "net.onnx"), "--calib", str(tmp_path / "x.npz")]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^quality     same answer as float on [0-9.]+ % of 16 samples$", out, re.MULTILINE), out
    assert re.search(r"^error       [0-9.]+ \+/- [0-9.]+ dB below the signal.*; worst layer ", out, re.MULTILINE), out


def test_on_labelled_data_it_is_the_file_beside_onnx_runtime(tmp_path: Path, capsys: Capsys) -> None:
    x = samples(20, seed=2)
    np.savez(tmp_path / "data.npz", x=x, y=np.zeros(20, int))
    q = packed(tmp_path, capsys, samples(8), "--eval", tmp_path / "data.npz", "-o", tmp_path / "m.mica")[0]["quality"]
    net = network()
    exact = [truth(net, {"x": s[None]})[net.outputs[0].name] for s in x]
    with HostRunner((tmp_path / "m.mica").read_bytes()) as runner:
        out = runner.model.tensors[runner.model.outputs[0]]
        found = [dequantise_output(runner.run([runner.quantise([s[None]])])[0][0], out) for s in x]
    noise = float(np.sum((np.array(exact) - np.array(found)) ** 2))
    assert (q["data"], q["samples"]) == ("eval", 20)
    assert q["sqnr_db"] == pytest.approx(10 * np.log10(varies(exact) / noise), abs=0.01)
    assert q["agreement"] == np.mean([np.argmax(a) == np.argmax(b) for a, b in zip(exact, found, strict=True)])


def test_what_others_lose_is_measured_on_samples_without_part_in_the_ranges(tmp_path: Path) -> None:
    """Of samples that are held out and ten times as large, a second model cuts off most; they fit into the file."""
    net = Net()
    net.output(net.add("Gemm", net.add("Flatten", net.input([1, 3, 8, 8])), net.random(192, 4, scale=0.1)))
    x = samples(60)
    alike = quality.measure(compile_file(net.save(tmp_path), {"x": x}, plain=True))
    x[3::4] *= 10
    compiled = compile_file(net.save(tmp_path), {"x": x}, plain=True)
    found = quality.measure(compiled)
    assert found is not None and alike is not None and found.errors.samples == 60
    unseen = compiled.tuned.unseen
    assert unseen is not None and unseen.tuned.ranges["x"].high == np.max([s["x"] for s in unseen.seen]) < np.max(x)
    assert found.errors.each[0].beyond_db > 10 > alike.errors.each[0].beyond_db
    assert "others may go beyond" in found.cannot_tell
    t = compiled.model.tensors[compiled.model.inputs[0]]
    assert t.scale * 255 > 0.9 * np.ptp(x)


@pytest.mark.parametrize("seed", range(4))
def test_fresh_numbers_are_as_near_as_the_line_tells(seed: int, tmp_path: Path) -> None:
    """A few of 500 fresh rows lie beyond all that 64 samples reached; cut off, they would make most of the error."""
    net, r = Net(), np.random.default_rng(seed)
    y = net.add("Tanh", net.add("Gemm", net.input([1, 6]), net.const(r.normal(size=(6, 12)).astype(np.float32))))
    net.output(net.add("Gemm", y, net.const(r.normal(size=(12, 1)).astype(np.float32))))
    x = r.normal(size=(564, 6)).astype(np.float32)
    compiled = compile_file(net.save(tmp_path), {"x": x[:64]})
    told = quality.measure(compiled)
    real = np.stack([truth(net, {"x": row[None]})[net.outputs[0].name] for row in x[64:]])
    with HostRunner(compiled.data) as runner:
        out = runner.model.tensors[runner.model.outputs[0]]
        found = [dequantise_output(runner.run([runner.quantise([row[None]])])[0][0], out) for row in x[64:]]
    db = 10 * np.log10(varies(list(real)) / float(np.sum((real - np.array(found).reshape(real.shape)) ** 2)))
    assert told is not None and told.errors.sqnr_db is not None and told.errors.plus_minus_db is not None
    assert db > 30 and abs(told.errors.sqnr_db - db) < max(3.0, told.errors.plus_minus_db), (db, told.facts()["line"])


@pytest.mark.parametrize("head", ("Sigmoid", "Softmax"))
def test_ranges_behind_scores_have_room_where_each_counts(head: str, tmp_path: Path) -> None:
    """A class survives what is cut off; the score of a sigmoid is off by it."""
    net = Net()
    hidden = net.add("Relu", net.add("Gemm", net.input([1, 10]), net.random(10, 16)))
    net.output(net.add(head, net.add("Gemm", hidden, net.random(16, 3))))
    x = np.random.default_rng(1).normal(size=(64, 10)).astype(np.float32)
    compiled = compile_file(net.save(tmp_path), {"x": x}, plain=True)
    first = compiled.core.nodes[0].outputs[0]
    reached = max(float(y.max()) for s in x for n, y in float_ops.stream(compiled.core, {"x": s}) if n == first)
    end = compiled.tuned.ranges[first].high
    assert (end > 1.05 * reached) == (head == "Sigmoid"), (first, end, reached)


@pytest.mark.parametrize("bounded", (True, False))
def test_only_what_others_lose_raises_a_doubt(bounded: bool, tmp_path: Path) -> None:
    """A tanh gives the next layer nothing of what lies further out; without it an output is cut."""
    net = Net()
    x = net.input([1, 4])
    net.output(net.add("Gemm", net.add("Tanh", x) if bounded else x, net.random(4, 2)))
    far = 3 * np.random.default_rng(1).laplace(size=(200, 4)).astype(np.float32)
    told = quality.measure(compile_file(net.save(tmp_path), {"x": far}))
    assert told is not None and bool(told.cannot_tell) is not bounded, told.facts()["line"]


def test_samples_are_moved_as_far_as_others_may_lie() -> None:
    """Categories stay, whole numbers stay whole, white stays white; longer tails go further."""
    r = np.random.default_rng(3)
    x = {"u8": r.integers(0, 256, (64, 30)), "normal": r.normal(size=(64, 30)), "far": r.standard_t(2, (64, 30))}
    x["u8"][:3] = np.array([[0], [255], [255]])
    x["kinds"] = np.eye(4)[r.integers(0, 4, 64)]
    moved = quality.stretched([{k: v[n].astype(np.float32) for k, v in x.items()} for n in range(64)])
    y = {k: np.stack([s[k] for s in moved]) for k in x}
    assert np.array_equal(y["kinds"], x["kinds"])
    assert np.array_equal(y["u8"], np.rint(y["u8"])) and (y["u8"].min(), y["u8"].max()) == (0, 255)
    assert np.abs(y["u8"] - x["u8"]).max() > 5
    wider = {k: np.ptp(y[k]) / np.ptp(x[k]) for k in ("normal", "far")}
    assert 1.15 < wider["normal"] < 1.45 < wider["far"] <= 1 + quality.MOST + 1e-6


def test_a_wrong_layer_in_the_file_is_seen(tmp_path: Path) -> None:
    """Nothing in front of the bytes that are written is measured: the line falls with any of their layers."""
    compiled = compile_file(network().save(tmp_path), {"x": samples(32)})
    right = quality.measure(compiled)
    assert right is not None and right.errors.sqnr_db is not None and right.errors.sqnr_db > 25
    layers = [s for s in compiled.model.steps if "weights" in s.blobs]
    assert len(layers) == 2
    for step in layers:
        blobs = {**step.blobs, "weights": np.ascontiguousarray(step.blobs["weights"][::-1])}
        steps = [replace(s, blobs=blobs) if s is step else s for s in compiled.model.steps]
        planted = replace(compiled, data=encode(replace(compiled.model, steps=steps)))
        assert planted.data != compiled.data
        wrong = quality.measure(planted)
        assert wrong is not None and wrong.errors.sqnr_db is not None
        assert wrong.errors.sqnr_db < right.errors.sqnr_db - 10, step.name
        assert wrong.facts()["line"] != right.facts()["line"]


def test_votes_raise_a_doubt(tmp_path: Path) -> None:
    """One of a hundred other samples may have another vote, and so another answer; without votes a network is sure."""
    found = []
    for votes in (True, False):
        net = Net()
        d = net.add("Gemm", net.input([1, 8]), net.random(8, 6))
        v = (
            net.add("Cast", net.add("Less", d, net.const(np.zeros(1, np.float32))), to=1)
            if votes
            else net.add("Tanh", d)
        )
        net.output(net.add("MatMul", v, net.random(6, 3)))
        x = np.random.default_rng(1).uniform(-1, 1, (200, 8)).astype(np.float32)
        real = np.stack([truth(net, {"x": row[None]})[net.outputs[0].name] for row in x])
        far = x[np.argsort(np.abs(real).max(axis=(1, 2)))[-160:]]
        told = quality.measure(compile_file(net.save(tmp_path), {"x": far}))
        assert told is not None
        found.append(told.cannot_tell)
    assert "comparison" in found[0] and "comparison" not in found[1], found


def test_a_warning_is_said_again_at_the_end(tmp_path: Path, capsys: Capsys) -> None:
    np.savez(tmp_path / "x.npz", x=samples(9) * 255)
    assert main(["pack", str(network().save(tmp_path)), "--calib", str(tmp_path / "x.npz"), "--plain"]) == 0
    out, err = capsys.readouterr()
    (warning,) = [line.removeprefix("warning     ") for line in out.splitlines() if line.startswith("warning     ")]
    assert "the first layer's weights expect numbers around" in warning and f"mica: warning: {warning}" in err
    assert out.rstrip().endswith(warning)


def test_without_samples_nothing_is_known(tmp_path: Path, capsys: Capsys) -> None:
    assert main(["pack", str(network().save(tmp_path))]) == 0
    out = capsys.readouterr().out
    assert "quality     unknown: " in out and "--calib" in out and " dB" not in out and "same answer" not in out


@pytest.mark.parametrize("n", (1, 3, 7))
def test_few_samples_say_what_was_left_out(n: int, tmp_path: Path, capsys: Capsys) -> None:
    result, err = packed(tmp_path, capsys, samples(n))
    assert result["recipe"] == {
        "name": "plain",
        "tried": f"{n} samples are too few to choose a recipe; expected 8 or more".replace(
            "1 samples are", "1 samples are"
        ),
    }
    assert result["quality"]["data"] == ("calibration" if n == 1 else "held out")
    assert ("one calibration sample" in err) == (n == 1) == bool(result["quality"]["warnings"])


def test_a_large_network_is_asked_with_fewer_samples(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = samples(40) / 10 + samples(40, seed=3)[:, :1, :1, :1]  # neighbours are alike, as in pictures
    plain = packed(tmp_path, capsys, x, "--plain")[0]["quality"]["sqnr_db"]
    monkeypatch.setattr(tune, "MAX_MACS", 1000)
    result, _ = packed(tmp_path, capsys, x)
    assert result["recipe"]["tried"].endswith("left out above 1,000 multiplications, on 32 of 40 samples")
    assert result["recipe"]["name"] == "rounded"
    assert result["quality"]["sqnr_db"] > plain - 1
    assert result["quality"]["samples"] == 40


def test_made_up_samples_say_so(tmp_path: Path, capsys: Capsys) -> None:
    result, _ = packed(tmp_path, capsys, None)
    assert result["quality"]["data"] == "made up"


PIXELS = np.random.default_rng(0).integers(0, 256, (10, 3, 8, 8)).astype(np.float32)
DOUBTS = {
    "all zero": (np.zeros((9, 3, 8, 8), np.float32), "input 'x' is zero in all calibration samples"),
    "one again and again": (np.repeat(samples(1), 9, axis=0), "input 'x': all 9 calibration samples are the same"),
    "one": (samples(1), "one calibration sample"),
    "bytes of pixels": (PIXELS, "whole numbers from 0 to 255; the first layer's weights expect numbers around"),
    "far too small": (samples(9) / 255, "the first layer's weights expect numbers around"),
    "far too large": (samples(9) * 255, "the first layer's weights expect numbers around"),
}


@pytest.mark.parametrize("case", DOUBTS)
def test_calibration_that_cannot_be_right(case: str, tmp_path: Path, capsys: Capsys) -> None:
    x, said = DOUBTS[case]
    result, err = packed(tmp_path, capsys, x, "--plain")
    (warning,) = result["quality"]["warnings"]
    assert said in warning and f"mica: warning: {warning}" in err


def test_pixels_where_pixels_were_trained(tmp_path: Path, capsys: Capsys) -> None:
    assert packed(tmp_path, capsys, PIXELS, "--plain", net=network(scale=0.005))[0]["quality"]["warnings"] == []


@pytest.mark.parametrize("name", ("kws", "ic", "vww", "ad"))
@pytest.mark.parametrize("kind", ("model", "model_qdq"))
def test_real_samples_of_real_models_raise_no_doubt(name: str, kind: str) -> None:
    """Real samples give no warning; samples a hundred times too large do."""
    if not MODELS.is_dir():
        pytest.skip(f"{MODELS} is missing: the reference models are not part of the repository")
    core = pipeline.run(import_onnx(MODELS / name / f"{kind}.onnx"))
    arrays = load_calibration(MODELS / name / "calib.npz", core.inputs)
    few = {k: v[:20] for k, v in arrays.items()}
    assert doubts(core, samples_for(core, few)) == []
    assert len(doubts(core, samples_for(core, {k: 100 * v for k, v in few.items()}))) == 1


def test_layers_in_strips(tmp_path: Path, capsys: Capsys) -> None:
    """A model whose layers run row by row has no whole tensors in memory;
    its figures are those of the same model without."""
    net = Net()
    y = net.add("Relu", net.conv(net.input([1, 2, 16, 16]), 2, 12, pads=[1, 1, 1, 1]))
    y = net.add("Relu", net.conv(y, 12, 12, 1))
    net.output(net.add("GlobalAveragePool", net.add("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])))
    x = np.random.default_rng(0).standard_normal((8, 2, 16, 16)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, y=np.zeros(8, int))
    words = ("--plain", "--report-error", "--eval", tmp_path / "data.npz", "-o")
    whole, _ = packed(tmp_path, capsys, x, *words, tmp_path / "whole.mica", net=net)
    strips, _ = packed(tmp_path, capsys, x, *words, tmp_path / "strips.mica", "--ram", "3500", net=net)
    assert strips["strips"] and strips["arena_bytes"] < whole["arena_bytes"]
    for key in ("sqnr_db", "worst_output"):
        assert strips["quality"][key] == whole["quality"][key]
    files = [str(tmp_path / f"{name}.mica") for name in ("whole", "strips")]
    assert main(["compare", *files, str(tmp_path / "data.npz"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sqnr_db"] == 120.0
    assert main(["info", files[1], "--onnx", str(tmp_path / "back.onnx")]) == 0
