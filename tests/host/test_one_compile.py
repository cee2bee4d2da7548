"""`fit MODEL OPTIONS` gives the figures of `fit` on the file that `pack MODEL OPTIONS` writes,
for every option of `pack`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from mica.cli import model_options
from mica.cli.main import main

DEMO = Path(__file__).resolve().parents[2] / "host_tools" / "mica" / "demo"
DIGITS, CALIB, TEST = (str(DEMO / name) for name in ("digits.onnx", "digits_calib.npz", "digits_test.npz"))


def _net(folder: Path, name: str, text: str, **arrays: np.ndarray) -> str:
    """A network from onnx.parser's text; `arrays` are its weights."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    model.graph.initializer.extend(onnx.numpy_helper.from_array(a, key) for key, a in arrays.items())
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    return str(path)


def _weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Models and files that options name."""
    folder = tmp_path_factory.mktemp("one")
    rng = np.random.default_rng(0)
    np.savez(folder / "x.npz", x=rng.standard_normal((20, 1, 16)).astype(np.float32))
    np.savez(folder / "wide.npz", x=rng.standard_normal((20, 1, 12, 8)).astype(np.float32))
    np.savez(folder / "sound.npz", x=(3000 * rng.standard_normal((12, 1664))).astype(np.int16))
    (folder / "labels.txt").write_text("\n".join("abcdefghij"))
    (folder / "key").write_bytes(bytes(range(32)))
    states = "g (float[1,16] x, float[1,16] past_h) => (float[1,16] y, float[1,16] present_h)"
    pooled = "g (float[1,12,8] x) => (float[1,4] y) { a = ReduceMean<axes=[1], keepdims=0>(x) y = MatMul(a, w) }"
    return {
        "rnn": _net(
            folder,
            "rnn",
            states + " { a = MatMul(past_h, w) b = Add(x, a) present_h = Tanh(b) y = Identity(present_h) }",
            w=_weights(16, 16) / 8,
        ),
        "rows": _net(folder, "rows", pooled, w=_weights(8, 4)),
        "conv": _net(
            folder,
            "conv",
            "g (float[1,1,12,8] x) => (float[1,4,1,1] y) { a = Conv(x, w) b = Relu(a) y = GlobalAveragePool(b) }",
            w=_weights(4, 1, 3, 8),
        ),
        "free": _net(folder, "free", "g (float[N,16] x) => (float[N,4] y) { y = MatMul(x, w) }", w=_weights(16, 4)),
        "x": str(folder / "x.npz"),
        "wide": str(folder / "wide.npz"),
        "sound": str(folder / "sound.npz"),
        "labels": str(folder / "labels.txt"),
        "key": str(folder / "key"),
        "digits": DIGITS,
        "calib": CALIB,
        "test": TEST,
    }


FRONT_END = "logmel:frame=256,hop=128,fft=256,mels=8,samples=1664"

# model, options; words that `files` has stand for its paths
CASES = {
    "nothing": ("digits",),
    "calib": ("digits", "--calib", "calib", "--plain"),
    "method": ("digits", "--calib", "calib", "--plain", "--calib-method", "minmax"),
    "tuned": ("rows", "--calib", "wide"),
    "eval": ("digits", "--plain", "--data", "test"),
    "picture": ("digits", "--picture", "grey", "--pixel-scale", "1/16", "--pixel-offset", "0.5"),
    "ram": ("digits", "--ram", "4000"),
    "feed": ("digits", "--feed", "--ram", "6K"),
    "four bits": ("digits", "--weights", "4"),
    "size": ("digits", "--calib", "calib", "--weights", "auto", "--size", "8000"),
    "loss": ("digits", "--calib", "calib", "--weights", "auto", "--loss", "3"),
    "embedding": ("digits", "--plain", "--embedding"),
    "labels": ("digits", "--labels", "labels", "--name", "ten"),
    "golden": ("digits", "--golden", "3"),
    "key": ("digits", "--key", "key"),
    "shape": ("free", "--shape", "N=1"),
    "states by name": ("rnn", "--calib", "x"),
    "states": ("rnn", "--state", "past_h=present_h"),
    "no states": ("rnn", "--state", "none"),
    "window": ("rows", "--window", "x=3"),
    "front end": ("rows", "--frontend", FRONT_END, "--calib", "sound"),
    "stream": ("conv", "--stream", "x:2=1"),
}


def _figures(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    code = main(["fit", *words, "--board", "RPI_PICO", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert "error" not in found, found
    return {key: value for key, value in found.items() if key not in ("file", "notes")} | {"code": code}


@pytest.mark.parametrize("case", CASES)
def test_fit_sees_what_pack_writes(
    case: str, files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [files.get(word, word) for word in CASES[case]]
    packed = str(tmp_path / "m.mica")
    assert main(["pack", *words, "--board", "RPI_PICO", "-o", packed]) == 0
    capsys.readouterr()
    assert _figures(capsys, *words) == _figures(capsys, packed)


def test_every_option_has_a_case() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    model_options.add_arguments(parser)
    options = {a.option_strings[0] for a in parser._actions if a.option_strings}
    used = {word for words in CASES.values() for word in words}
    # --tokens needs a language model (tests/host/test_text.py), --custom a file of Python (tests/e2e/test_custom.py).
    assert options - used == {"--board", "--tokens", "--custom", "--eval"}  # --eval: the old name of --data
