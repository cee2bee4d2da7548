"""Outputs whose parts differ in range keep a scale for each: no part is less accurate than by itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from detectors import boxes_and_scores, fomo, ultralytics, yolo5
from nets import Net, truth

from mica import backend
from mica.cli.main import main
from mica.compile import Compiled, compile_file
from mica.errors import MicaError
from mica.file.codec import decode, encode
from mica.format import output_groups
from mica.format.schema import FEATURES
from mica.plan import schedule
from mica.run.host import HostRunner

N_CALIB, N_TEST = 16, 4
HEADS: dict[str, tuple[Callable[[str], Net], int]] = {
    "v8": (lambda only: ultralytics(8, only), 1),
    "v11": (lambda only: ultralytics(11, only), 1),
    "v5": (yolo5, 2),
    "boxes and scores": (boxes_and_scores, 1),
}


@pytest.fixture(autouse=True)
def short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the search for an order of the layers, which these tests do not concern."""
    monkeypatch.setattr(schedule, "SEARCH_STATES", 300)


def pictures(net: Net, n: int, seed: int) -> np.ndarray:
    """Smooth patches of unlike brightness, [n, 1, 3, size, size]."""
    rng = np.random.default_rng(seed)
    shape = [d.dim_value for d in net.inputs[0].type.tensor_type.shape.dim]
    coarse = rng.uniform(0, 1, (n, *shape[:2], 4, 4)) * rng.uniform(0.3, 1, (n, 1, 1, 1, 1))
    return np.kron(coarse, np.ones((1, 1, 1, shape[2] // 4, shape[3] // 4))).astype(np.float32)


def packed(net: Net, folder: Path) -> Compiled:
    return compile_file(net.save(folder), {"images": pictures(net, N_CALIB, 1)[:, 0]}, plain=True)


def answers(net: Net, compiled: Compiled) -> tuple[np.ndarray, np.ndarray]:
    """ONNX Runtime's first output and ours, over the test pictures."""
    x = pictures(net, N_TEST, 2)
    expected = [next(iter(truth(net, {"images": one}).values())) for one in x]
    with HostRunner(compiled.data) as runner:
        return np.stack(expected), runner.predict(x)


def sqnr(expected: np.ndarray, found: np.ndarray) -> float:
    return float(10 * np.log10(np.sum(expected.astype(np.float64) ** 2) / np.sum((expected - found) ** 2)))


@pytest.mark.parametrize("name", HEADS)
def test_each_part_is_as_good_as_alone(tmp_path: Path, name: str) -> None:
    make, axis = HEADS[name]
    whole = packed(make(""), tmp_path)
    expected, found = answers(make(""), whole)
    assert found.shape == expected.shape
    (group,) = output_groups.read(whole.model)
    assert (group.parts, group.axis, group.shape) == (2, axis, expected.shape[1:])
    # Behind the samples' dimension the parts lie along the same axis.
    for part, w, f in zip(
        ("boxes", "scores"), np.split(expected, [4], axis + 1), np.split(found, [4], axis + 1), strict=True
    ):
        alone = sqnr(*answers(make(part), packed(make(part), tmp_path)))
        print(name, part, f"{sqnr(w, f):.2f} dB, alone {alone:.2f}")
        assert sqnr(w, f) > alone - 1


def test_fomo_keeps_its_scores(tmp_path: Path) -> None:
    """One softmax for each cell: nothing to split, and the cells that see something are those of float."""
    compiled = packed(fomo(), tmp_path)
    expected, found = answers(fomo(), compiled)
    assert output_groups.KEY not in compiled.model.metadata
    assert sqnr(expected, found) > 25
    assert np.mean(expected.argmax(-1) == found.argmax(-1)) > 0.98


def test_alike_parts_stay_one_output(tmp_path: Path) -> None:
    """Ranges within a factor of 2 change nothing, and the file needs no feature that an older reader does not have."""
    net = Net()
    x = net.input([1, 4])
    net.output(net.add("Concat", net.add("Tanh", x), net.add("Mul", x, net.const(np.float32(0.5))), axis=1), [1, 8])
    compiled = compile_file(net.save(tmp_path), plain=True)
    assert len(compiled.model.outputs) == 1
    assert not compiled.model.features


def three(net: Net, x: str) -> list[str]:
    return [net.add("Mul", net.add("Tanh", x), net.const(np.float32(k))) for k in (0.1, 10, 1000)]


def layouts(net: Net, x: str, how: str) -> str:
    """Three parts of [1, 2, 3, 4], joined in ways that exporters write; the last output has them along some axis."""
    parts = three(net, x)
    if how == "flattened":
        return net.add("Flatten", net.add("Concat", *parts, axis=1))
    if how == "in the middle, flattened":
        return net.add("Reshape", net.add("Concat", *parts, axis=2), net.const(np.array([2, 36])))
    if how == "transposed":
        return net.add("Transpose", net.add("Concat", *parts, axis=3), perm=[3, 0, 1, 2])
    if how == "nested":
        return net.add("Concat", net.add("Concat", *parts[:2], axis=2), parts[2], axis=2)
    if how == "a constant in front":
        return net.add("Concat", net.const(np.full((1, 1, 3, 4), 0.05, np.float32)), *parts, axis=1)
    if how == "the same part twice":
        return net.add("Concat", parts[0], parts[2], parts[0], axis=1)
    return net.add("Concat", *parts, axis=1)


@pytest.mark.parametrize(
    "how",
    (
        "plain", "flattened", "in the middle, flattened", "transposed", "nested", "a constant in front",
        "the same part twice",
    ),
)  # fmt: skip
def test_layouts(tmp_path: Path, how: str) -> None:
    """In every layout the joined array equals the whole one, though each part comes from a step of its own."""
    net = Net()
    net.output(layouts(net, net.input([1, 2, 3, 4]), how))
    net.output(net.add("Neg", "x"), [1, 2, 3, 4])  # and another output keeps its place
    data = {"x": np.random.default_rng(0).uniform(-1, 1, (20, 2, 3, 4)).astype(np.float32)}
    compiled = compile_file(net.save(tmp_path), data, plain=True)
    model = decode(compiled.data)
    assert model.features == FEATURES["JOINS"]
    first, second = output_groups.read(model)
    assert (first.parts, second.parts) == (3, 1)
    with HostRunner(compiled.data) as runner:
        x = data["x"][:1]
        y = runner.run([runner.quantise([x])])[0]
        expected = list(truth(net, {"x": x}).values())
        for group, w in zip((first, second), expected, strict=True):
            found = output_groups.joined(model, group, y)
            assert found.shape == w.shape
            # A step of x and one of its Tanh are 0.008.
            np.testing.assert_allclose(found, w, rtol=0.1, atol=0.05 if group is second else 0.002)


def test_a_state_stays_whole(tmp_path: Path) -> None:
    """An output that goes back into an input keeps that input's shape."""
    net = Net()
    x, h = net.input([1, 4]), net.input([1, 8], "h")
    both = net.add("Concat", net.add("Mul", x, net.const(np.float32(100))), net.add("Tanh", x), axis=1)
    net.output(net.add("Add", both, h, outputs=["sum"]), [1, 8])
    net.output(net.add("Identity", both, outputs=["h_next"]), [1, 8])
    data = {"x": np.random.default_rng(0).uniform(-1, 1, (20, 4)).astype(np.float32)}
    compiled = compile_file(net.save(tmp_path), data, plain=True, states=[("h", "h_next")])
    assert output_groups.KEY not in compiled.model.metadata


@pytest.mark.parametrize(
    "text", ("", "2 1", "x 1 y", "0 1 y", "3 1 y", "1 1 y", "2 7 y", "-2 1 y", "1 0 a\n1 0 b\n1 0 c")
)
def test_joins_that_are_not_those_of_the_outputs(tmp_path: Path, text: str) -> None:
    compiled = compile_file(boxes_and_scores().save(tmp_path), plain=True)
    model = compiled.model
    model.metadata[output_groups.KEY] = text
    with pytest.raises(MicaError, match="metadata 'joins'"):
        output_groups.read(decode(encode(model)))


def test_the_command_and_the_backend_join(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`mica run --json` has the one array as values and the integers of its parts; mica.backend gives the one array."""
    net = boxes_and_scores()
    compiled = packed(net, tmp_path)
    (tmp_path / "net.mica").write_bytes(compiled.data)
    x = pictures(net, 1, 2)[0]
    np.save(tmp_path / "x.npy", x)
    assert main(["run", str(tmp_path / "net.mica"), str(tmp_path / "x.npy"), "--json"]) == 0
    (output,) = json.loads(capsys.readouterr().out)["outputs"]
    assert (output["name"], output["shape"]) == ("out", [1, 7, 64])
    assert [(p["name"], p["shape"]) for p in output["parts"]] == [("out.0", [1, 4, 64]), ("out.1", [1, 3, 64])]
    with HostRunner(compiled.data) as runner:
        found = runner.predict(x[None])[0]
    np.testing.assert_array_equal(np.float32(output["values"]), found.reshape(-1))
    assert main(["run", str(tmp_path / "net.mica"), str(tmp_path / "x.npy")]) == 0
    assert capsys.readouterr().out.startswith("out 1x7x64\n  [")

    rep = backend.prepare(net.model(), calibration={"images": pictures(net, N_CALIB, 1)[:, 0]})
    (y,) = rep.run([x])
    assert y.shape == (1, 7, 64)
    np.testing.assert_allclose(y, found, atol=2)
