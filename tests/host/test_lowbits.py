"""Weights of four bits: tables and rows, the cost for networks outside the design set, and options of `mica pack`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import exports
import numpy as np
import pytest
from nets import Net
from onnx import TensorProto

import mica.demo
from mica import engine
from mica.cli.main import main
from mica.compile import Compiled, compile_file
from mica.data.calibration import load_calibration
from mica.errors import MicaError
from mica.file.codec import FormatError, decode, encode
from mica.format.values import quantise_input
from mica.format.weights import CODES, CODES4
from mica.importer import import_onnx
from mica.ir.graph import Quant
from mica.quantise import lowbits
from mica.quantise.choose_bits import Bits, smallest
from mica.reference.executor import ReferenceModel
from mica.run import evaluation
from mica.run.host import HostRunner

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "models"))
import exporting

DEMO = Path(mica.demo.__file__).parent


def test_rows_of_codes() -> None:
    """Against the words of SPEC.md, weight by weight."""
    rng = np.random.default_rng(1)
    values = np.array([-128, -90, -3, 0, 1, 5, 80, 127], np.int8)
    for k in (1, 2, 3, 4, 7, 8, 9, 17):
        weights = rng.choice(values, (3, k))
        stored = np.frombuffer(CODES4.stored(weights.tobytes(), 3), np.uint8)
        assert len(stored) == CODES4.total(3, k) == CODES + 3 * CODES4.row_bytes(k)
        table, rows = stored[:CODES].view(np.int8), stored[CODES:].reshape(3, -1)
        assert rows.shape[1] % 4 == 0
        for (o, i), w in np.ndenumerate(weights):
            pair = int(rows[o, i // 4 * 2 + i % 2])
            assert table[pair >> 4 if i & 2 else pair & 15] == w
        np.testing.assert_array_equal(CODES4.read(stored, (3, k)), weights)


def test_solve() -> None:
    rng = np.random.default_rng(2)
    a = rng.standard_normal((2, 9, 30))
    h = a @ a.transpose(0, 2, 1)
    b = rng.standard_normal((2, 5, 9))
    np.testing.assert_allclose(lowbits.solve(h, b) @ h, b, atol=1e-4)


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, np.ndarray]]:
    """A convolution with and one without groups, a narrow one, a dense layer; and samples."""
    net = Net(seed=3)
    y = net.add("Relu", net.conv(net.input([1, 12, 7, 7]), 12, 24, pads=[1, 1, 1, 1]))
    y = net.add("Relu", net.conv(y, 24, 24, group=2))
    y = net.conv(y, 24, 4)
    y = net.add("Gemm", net.add("Flatten", y), net.random(10, 36), net.random(10), transB=1)
    net.output(y)
    path = net.save(tmp_path_factory.mktemp("net"))
    return path, {"x": np.random.default_rng(4).standard_normal((6, 12, 7, 7)).astype(np.float32)}


@pytest.mark.parametrize("how", ["measured", "plain", "made up"])
def test_a_table_a_layer(net: tuple[Path, dict[str, np.ndarray]], how: str) -> None:
    """Large layers have 16 weights and are stored as codes; narrow and small ones stay. The engine equals numpy."""
    path, samples = net
    packed = compile_file(path, None if how == "made up" else samples, plain=how == "plain", bits=Bits())
    plain = compile_file(path, samples, plain=True)
    few = [step.layout == CODES4.code for step in packed.model.steps if "weights" in step.blobs]
    assert few == [True, True, False, False]
    for step in packed.model.steps:
        assert step.layout != CODES4.code or len(np.unique(step.blobs["weights"])) <= CODES
    assert len(packed.data) < 0.75 * len(plain.data)
    assert encode(decode(packed.data)) == packed.data
    loaded, expected = engine.load(packed.data), ReferenceModel(packed.data)
    for seed in range(3):
        x = np.random.default_rng(seed).integers(-128, 128, (1, 7, 7, 12), dtype=np.int8)
        for model in (loaded, expected):
            model.set_input(0, x.reshape(packed.model.tensors[packed.model.inputs[0]].dims))
            model.run()
        np.testing.assert_array_equal(loaded.output(0), expected.output(0))


def test_more_weights_than_a_table_holds(net: tuple[Path, dict[str, np.ndarray]]) -> None:
    model = decode(compile_file(net[0], net[1], plain=True).data)
    next(s for s in model.steps if s.kernel == "conv2d_s8").layout = CODES4.code
    with pytest.raises(FormatError, match="a table holds 16"):
        encode(model)


def test_auto(net: tuple[Path, dict[str, np.ndarray]]) -> None:
    """A size is kept with no more layers than it takes; no loss at all allows none, any loss all."""
    path, samples = net
    eight = len(compile_file(path, samples).data)

    def made(bits: Bits) -> tuple[int, int]:
        compiled = compile_file(path, samples, bits=bits)
        return len(compiled.data), sum(s.layout == CODES4.code for s in compiled.model.steps)

    assert made(Bits(size=eight + 100))[1] == 0
    size, layers = made(Bits(size=eight - 300))
    assert size <= eight - 300 and layers == 1
    assert made(Bits(loss=0.0))[1] == 0
    assert made(Bits(loss=100.0))[1] == 2


def test_room_that_is_left() -> None:
    """The last layer of the queue saves more than is missing: those that lose most get eight bits again,
    as far as there is room."""
    saves = {"a": 100, "b": 1000, "c": 90, "d": 5000}

    def size(part: Sequence[str]) -> int:
        return 10_000 - sum(saves[name] for name in part)

    assert smallest("abcd", saves, size, 10_000) == []
    assert smallest("abcd", saves, size, 9_000) == ["b"]
    assert smallest("abcd", saves, size, 5_100) == ["d"]
    assert smallest("abcd", saves, size, 4_950) == ["a", "d"]
    assert smallest("abcd", saves, size, 3_810) == ["a", "b", "c", "d"]
    with pytest.raises(MicaError, match="smallest file is 3,810"):
        smallest("abcd", saves, size, 3_809)


def test_options(net: tuple[Path, dict[str, np.ndarray]], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, samples = net
    np.savez(tmp_path / "x.npz", **samples)
    call = ["pack", str(path), "-o", str(tmp_path / "m.mica")]
    calib = ["--calib", str(tmp_path / "x.npz")]
    for more, text in (
        (["--weights", "auto"], "expected --size or --loss"),
        (["--weights", "auto", "--size", "1", "--loss", "1"], "expected --size or --loss"),
        (["--size", "9000"], "--size is for --weights auto"),
        (["--weights", "auto", "--size", "0"], "expected a number of bytes"),
        (["--weights", "auto", "--loss", "nan"], "expected a number of dB"),
        (["--weights", "auto", "--size", "9K"], "measures what layers lose"),
        ([*calib, "--weights", "auto", "--size", "1K"], "the smallest file is"),
        ([*calib, "--weights", "auto", "--size", "6500", "--golden", "9"], "what was added behind the weights"),
    ):
        assert main([*call, *more]) == 1
        said = capsys.readouterr().err.strip().splitlines()[-1]
        assert text in said and said.startswith("mica: error:"), said
        assert not (tmp_path / "m.mica").exists()
    assert main([*call, *calib, "--weights", "auto", "--board", "RPI_PICO", "--json"]) == 0
    assert all(row["weight_bits"] in (8, None) for row in json.loads(capsys.readouterr().out)["layers"])
    assert main([*call, *calib, "--weights", "4", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [row["weight_bits"] for row in result["layers"] if row["weight_bits"]] == [4, 4, 8, 8]
    data = (tmp_path / "m.mica").read_bytes()
    assert "--weights 4" in decode(data).metadata["command"]


def test_a_head_in_its_embedding(tmp_path: Path) -> None:
    """Head and embedding share one table, in eight bits if the file must become smaller. The engine equals numpy."""
    net = Net(seed=5)
    table = net.random(96, 16)
    x = net.add("Gather", table, net.input([1], "token", TensorProto.INT64), axis=0)
    x = net.add("Relu", net.add("Gemm", x, net.random(48, 16), net.random(48), transB=1))
    x = net.add("Gemm", x, net.random(16, 48), net.random(16), transB=1)
    net.output(net.add("MatMul", x, net.add("Transpose", table, perm=[1, 0])))
    path = net.save(tmp_path)
    samples = {"token": np.arange(0, 96, 6, dtype=np.float32).reshape(16, 1)}
    eight = compile_file(path, samples)
    four = compile_file(path, samples, bits=Bits())
    size = compile_file(path, samples, bits=Bits(size=len(eight.data) - 600))
    loss = compile_file(path, samples, bits=Bits(loss=40.0))
    for packed in (four, size, loss):
        head = packed.model.steps[-1]
        embedding = next(s for s in packed.model.steps if s.kernel == "embedding_s8")
        np.testing.assert_array_equal(embedding.blobs["table"] ^ -128, head.blobs["weights"])
        assert len(packed.data) <= len(eight.data) - 600
        assert encode(decode(packed.data)) == packed.data
        loaded, expected = engine.load(packed.data), ReferenceModel(packed.data)
        for token in range(0, 96, 19):
            for model in (loaded, expected):
                model.set_input(0, np.array([token], np.int32))
                model.run()
            np.testing.assert_array_equal(loaded.output(0), expected.output(0))
    assert sum(s.layout == CODES4.code for s in size.model.steps) == 0
    assert compile_file(path, samples, bits=Bits(size=len(eight.data))).data == eight.data
    assert [s.layout == CODES4.code for s in four.model.steps if "weights" in s.blobs] == [True, True, False]


def test_digits() -> None:
    """A network that had no part in choosing the method: within 1 point of int8."""
    calibration = load_calibration(DEMO / "digits_calib.npz", import_onnx(DEMO / "digits.onnx").inputs)
    data = evaluation.load(DEMO / "digits_test.npz")

    def score(compiled: Compiled) -> float:
        with HostRunner(compiled.data) as runner:
            return evaluation.evaluate(data, compiled.core.value("image").shape, runner.predict).value

    eight, four = (compile_file(DEMO / "digits.onnx", calibration, bits=bits) for bits in (None, Bits()))
    assert len(four.data) < 0.87 * len(eight.data)
    found = score(eight), score(four)
    print(f"\ndigits: int8 {found[0]:.4f}, four bits {found[1]:.4f}")
    assert found[1] >= found[0] - 0.01


def _series(n: int, channels: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = exporting.series(n, channels, length, seed=900)
    return np.ascontiguousarray(x.transpose(0, 2, 1)), y


@pytest.mark.parametrize(
    ("name", "samples"),
    [
        ("dynamo_mlp", lambda n: exporting.series(n, 2, 12, seed=900)),
        ("torchscript_transformer", lambda n: _series(n, 6, 8)),
        ("torchscript_cnn", lambda n: exporting.pictures(n, 1, 12, seed=900)),
    ],
)
def test_trained_networks(name: str, samples: Callable[[int], tuple[np.ndarray, np.ndarray]]) -> None:
    """Three more networks, outside the design set, are within 1 point of int8 on samples that are new to them."""
    path = exports.FOLDER / f"{name}.onnx"
    x, labels = samples(600)
    found = []
    for bits in (None, Bits()):
        compiled = exports.compiled(path, bits=bits)
        assert (bits is None) == all(s.layout != CODES4.code for s in compiled.model.steps)
        with HostRunner(compiled.data) as runner:
            tensor = runner.model.tensors[runner.model.inputs[0]]
            answers = runner.run([[quantise_input(row, tensor)] for row in x.reshape(len(x), *tensor.dims[1:])])
        found.append(float(np.mean([a[0].argmax() == label for a, label in zip(answers, labels, strict=True)])))
    print(f"\n{name}: int8 {found[0]:.4f}, four bits {found[1]:.4f}")
    assert found[1] >= found[0] - 0.01


def test_weights_that_move() -> None:
    """Weights move in turn to the best value beside the others: the error, by second moments, never grows."""
    rng = np.random.default_rng(5)
    a = rng.standard_normal((2, 12, 40)) @ rng.standard_normal((2, 40, 12))
    c = a @ a.transpose(0, 2, 1) / 40
    desired, steps = rng.standard_normal((6, 12)) * 30, rng.uniform(0.5, 2.0, 6)
    table = np.array([-90.0, -40.0, -15.0, 0.0, 20.0, 50.0, 100.0])

    def nearest(x: np.ndarray) -> np.ndarray:
        return np.asarray(table[np.searchsorted((table[1:] + table[:-1]) / 2, x)])

    def errors(q: np.ndarray) -> np.ndarray:
        off = (q * steps[:, None] - desired).reshape(2, 3, 12)
        return np.einsum("gnj,gjk,gnk->gn", off, c, off).reshape(-1)

    q = nearest(desired / steps[:, None])
    better = lowbits.moved(desired, q, steps, c, nearest)
    assert set(np.unique(better)) <= set(table)
    assert np.all(errors(better) <= errors(q)) and errors(better).sum() < 0.7 * errors(q).sum()


def test_the_error_of_outputs() -> None:
    """Differences of it are those of the variance, by what is exact and what is delivered,
    one set of inputs for each group."""
    rng = np.random.default_rng(6)
    exact_x = rng.standard_normal((2, 5, 400))
    delivered = exact_x + 0.3 * rng.standard_normal(exact_x.shape)
    centred = [x - x.mean(axis=2, keepdims=True) for x in (exact_x, delivered)]
    covariance, crossed = (x @ centred[1].transpose(0, 2, 1) / 400 for x in (centred[1], centred[0]))
    m = lowbits.Moments(exact_x.mean(axis=2), delivered.mean(axis=2), covariance, crossed)
    rows = rng.standard_normal((6, 5))

    def variance(rounded: np.ndarray) -> float:
        a, b = rows.reshape(2, 3, 5), rounded.reshape(2, 3, 5)
        return float((a @ centred[0] - b @ centred[1]).var(axis=2).sum())

    tried = [rows, 0 * rows, rows + 0.2 * rng.standard_normal((6, 5)), -rows]
    constant = m.error(rows, tried[0]) - variance(tried[0])
    for rounded in tried[1:]:
        np.testing.assert_allclose(m.error(rows, rounded) - variance(rounded), constant, rtol=1e-6)


def test_what_a_weight_counts_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A weight counts by the variance of its input plus the damping, so a weight of a constant input still counts."""
    seen: list[np.ndarray] = []
    monkeypatch.setattr(lowbits, "_to_table", lambda values, weight: seen.append(weight))
    c = np.diag([4.0, 1.0, 0.0])[None]
    q = Quant(0.1, 0)
    m = lowbits.Moments(np.zeros((1, 3)), np.zeros((1, 3)), c, c)
    rows = np.array([[1.0, -0.5, 0.25], [0.5, 0.5, 0.5]])
    steps, _, _ = lowbits._Maker(rows, np.zeros(2), m, q, q)._table(rows, 0.3)
    np.testing.assert_allclose(seen[0], np.outer(steps**2, [4.5, 1.5, 0.5]))
