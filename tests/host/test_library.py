"""mica as a library: the page's snippets, and errors that name the wrong argument."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from nets import Net
from pages import ROOT

import mica
from mica.cli.main import main
from mica.errors import MicaError, Unsupported
from mica.format.codec import encode

PAGE = ROOT / "host_tools" / "docs" / "library.md"
DEMO = ROOT / "host_tools" / "mica" / "demo"
DIGITS = DEMO / "digits.onnx"


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its snippets run one after the other, and the digits are read as the demo reads them."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for snippet in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.S | re.M):
        exec(compile(snippet, str(PAGE), "exec"), names)
    y, classes = names["y"], names["classes"]
    assert isinstance(y, np.ndarray) and y.dtype == np.float32 and y.shape == (360, 10)
    assert np.mean(y.argmax(axis=1) == classes) > 0.98
    options = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| `.*?\|", PAGE.read_text(encoding="utf-8"), re.M)))
    from mica.compile.packed import Options

    assert sorted(options) == sorted(Options.__annotations__)


def test_the_same_file_as_the_command(tmp_path: Path) -> None:
    packed = mica.pack(DIGITS, np.load(DEMO / "digits_calib.npz")["x"], plain=True, golden=2, board="RPI_PICO")
    words = ["--calib", str(DEMO / "digits_calib.npz"), "--plain", "--golden", "2", "--board", "RPI_PICO"]
    assert main(["pack", str(DIGITS), *words, "-o", str(tmp_path / "a.mica")]) == 0
    # The command's file also says which command made it.
    ours, theirs = (mica.load(data)._model for data in (packed.data, (tmp_path / "a.mica").read_bytes()))
    assert theirs.metadata.pop("command").startswith("mica pack digits.onnx")
    assert encode(ours) == encode(theirs)


def test_errors() -> None:
    with pytest.raises(MicaError, match="no option 'bord'"):
        mica.pack(DIGITS, bord="RPI_PICO")  # type: ignore[call-arg]
    with pytest.raises(MicaError, match="weights=5"):
        mica.pack(DIGITS, weights=5)
    with pytest.raises(MicaError, match=r"none\.onnx"):
        mica.pack("none.onnx", np.zeros((1, 1)))
    with pytest.raises(MicaError, match="cannot be read"):
        mica.load("none.mica")
    with pytest.raises(MicaError, match="the model"):
        mica.load(b"no model")
    m = mica.load(mica.pack(DIGITS, plain=True).data)
    with pytest.raises(MicaError, match=r"has shape \[2, 3\]; expected \[n, 1, 8, 8\]"):
        m.predict(np.zeros((2, 3)))
    with pytest.raises(MicaError, match="has float64; expected int8"):
        m.run(np.zeros((1, 8, 8)))


def test_a_board_that_is_too_small(tmp_path: Path) -> None:
    import onnx

    text = "g (float[1,1000] x) => (float[1,2000] y) { y = MatMul(x, w) }"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    weights = np.random.default_rng(0).standard_normal((1000, 2000)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(model, tmp_path / "large.onnx")
    with pytest.raises(Unsupported, match="does not fit RPI_PICO"):
        mica.pack(tmp_path / "large.onnx", board="RPI_PICO", plain=True)


def test_an_output_without_a_batch(tmp_path: Path) -> None:
    """Detectors give rows of boxes, [12, 4], not [1, 12, 4]."""
    net = Net()
    net.output(net.add("Reshape", net.input([1, 4, 12]), net.const(np.array([12, 4]))), [12, 4])
    x = np.random.default_rng(3).normal(size=(5, 4, 12)).astype(np.float32)
    y = mica.load(mica.pack(net.save(tmp_path), x, plain=True).data).predict(x)
    np.testing.assert_allclose(y, x.reshape(5, 12, 4), atol=0.05)
