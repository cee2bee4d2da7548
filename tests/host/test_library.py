"""mica as a library: the page's snippets, and errors that name the wrong argument."""

from __future__ import annotations

import ast
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from nets import Net
from pages import ROOT

import mica
from mica.cli.main import main
from mica.errors import MicaError, Unsupported
from mica.file.codec import encode

PAGE = ROOT / "host_tools" / "docs" / "library.md"
DEMO = ROOT / "host_tools" / "mica" / "demo"
DIGITS = DEMO / "digits.onnx"


@pytest.fixture(scope="module")
def digits() -> bytes:
    return mica.pack(DIGITS, np.load(DEMO / "digits_calib.npz")["x"], plain=True).data


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its snippets run one after the other, and the digits are read as the demo reads them."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for snippet in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.S | re.M):
        exec(compile(snippet, str(PAGE), "exec"), names)
    y, classes = names["y"], names["classes"]
    assert isinstance(y, np.ndarray) and y.dtype == np.float32 and y.shape == (360, 10)
    assert np.mean(y.argmax(axis=1) == classes) > 0.98
    options = re.findall(
        r"`(\w+)`", "".join(re.findall(r"^\| `.*?\|", PAGE.read_text(encoding="utf-8").split("## Run")[0], re.M))
    )
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
    with pytest.raises(MicaError, match=r"have shape \[2, 3\]; expected \[n, 1, 8, 8\]"):
        m.predict(np.zeros((2, 3)))
    with pytest.raises(MicaError, match="has float64; expected int8"):
        m.run(np.zeros((1, 8, 8)))


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (np.full((2, 64), np.nan), "input 'image': holds NaN or infinity"),
        (np.array([[0.0] * 63 + [np.inf]]), "input 'image': holds NaN or infinity"),
        (np.zeros((1, 64), np.int8), "int8 may be numbers or the quantised tensor; give numbers"),
        ([[0.0] * 64, [0.0] * 60], "an input is list of object; expected an array of numbers"),
        (["a"] * 64, "expected an array of numbers"),
        (np.zeros((0, 64)), "inputs of 0 samples"),
        (np.zeros((1, 1, 16, 4)), r"samples have shape \[1, 1, 16, 4\]"),
        (None, "expected an array of numbers"),
    ],
)
def test_refused_as_by_command_and_board(digits: bytes, x: object, said: str) -> None:
    """predict() refuses NaN as eval and a board do; it answered class 1 once."""
    with pytest.raises(MicaError, match=said):
        mica.Model(digits).predict(x)  # type: ignore[arg-type]


def test_far_values_are_told(digits: bytes) -> None:
    """predict() warns as `mica run` does; values near the range are nothing special."""
    m, x = mica.load(digits), np.load(DEMO / "digits_test.npz")["x"][:4]
    with pytest.warns(UserWarning, match=r"values are far outside of 0 to 1, .* is the input scaled as for --calib\?"):
        m.predict(x * 255.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        m.predict(np.full((1, 64), 1.5))


def test_samples_in_every_form(digits: bytes) -> None:
    """A sample without a batch, flat, in lists, or as on a board: the same answer. top() takes what a board's takes."""
    m, demo = mica.Model(digits), np.load(DEMO / "digits_test.npz")
    x = (demo["x"][0] * demo["scale"]).astype(np.float32).reshape(1, 8, 8)
    expected = m.predict(x[None])
    for form in (x, x[0], x.reshape(64), [x], [x.reshape(64).tolist()], {"image": x}, x.reshape(1, 64)):
        np.testing.assert_array_equal(m.predict(form), expected)
    assert m.top(2) == m.top(2, expected[0]) == m.top(2, 0) == m.top(2, m.output_names[0])
    assert m.top(10)[0] == m.top()[0] and len(m.top(10)) == 10 and m.top(0) == []
    with pytest.raises(MicaError, match="top: a number of scores is expected, not '3'"):
        m.top("3")  # type: ignore[arg-type]
    with pytest.raises(MicaError, match="top: no output 'none'"):
        m.top(1, "none")
    with pytest.raises(MicaError, match="the model has not run"):
        mica.Model(bytearray(digits)).top()
    with pytest.raises(MicaError, match=r"a model was asked of ndarray; give a \.mica file's path or its bytes"):
        mica.Model(x)  # type: ignore[arg-type]


def public(found: ast.ClassDef) -> set[str]:
    names = {n.name for n in found.body if isinstance(n, ast.FunctionDef)}
    names |= {n.target.id for n in found.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    return {name for name in names if not name.startswith("_")}


def test_the_list_of_differences() -> None:
    """The page's table has every name that the library's or the board's Model has alone, and no other."""
    source = ast.parse((ROOT / "firmware" / "mica" / "model.py").read_text(encoding="utf-8"))
    (board,) = (public(n) for n in source.body if isinstance(n, ast.ClassDef) and n.name == "Model")
    library = {name for name in vars(mica.load(mica.pack(DIGITS, plain=True).data)) if not name.startswith("_")}
    library |= {name for name in vars(mica.Model) if not name.startswith("_")}
    page = PAGE.read_text(encoding="utf-8")
    alone = " ".join(re.findall(r"^\| only on a board \| (.*) \|$", page, re.M))
    (differs,) = re.findall(r"^\| differs \|.*\n((?:\|.*\n)+)", page, re.M)
    listed = set(re.findall(r"^\| `(\w+)`", differs, re.M)) | set(re.findall(r"`(\w+)`", alone))
    same = set(re.findall(r"`(\w+)`", re.findall(r"^\| the same \| (.*) \|$", page, re.M)[0]))
    assert board - library == set(re.findall(r"`(\w+)`", alone)) and library - board == set()
    assert board & library == (listed | same) - (board - library) and not same & listed


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
