"""Names that would break a line or command a terminal: refused by both readers, made harmless by pack."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from rich_model import rich_model
from test_corrupt import OK, compare, driver, python_verdict, verdicts

from mica.cli.main import main
from mica.file import codec
from mica.file.codec import FormatError, ModelFile
from mica.format import names

__all__ = ["driver"]  # a fixture

ERR_NAME = 16
SPACES = "\u0085\u00a0\u1680\u2000\u2005\u200a\u2028\u2029\u202f\u205f\u3000\t\n\x0b\x0c\r\x1c\x1f"
GOOD = ("", "a b", "/Conv_1;x:0", "été 東京", "\u2010\u202a\u2060\u3001\u1681", "a" * 255, "\u00c2\u00a1", "\ufeff")
BAD = (
    *("a  b", " a", "a ", " ", "a" * 256, "\x1b[2J", "a\x7f", "a\x80", "\u009b31m", "a\x01"),
    *(text for space in SPACES for text in (f"a{space}b", space, f"a{space}")),
)


def unchecked(change: Callable[[ModelFile], None], monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A file that encode() would refuse to make."""
    model = rich_model()
    model.golden = []
    change(model)
    with monkeypatch.context() as patch:
        patch.setattr(codec, "decode", lambda _: None)
        return codec.encode(model)


def named(where: str, name: str) -> Callable[[ModelFile], None]:
    def change(model: ModelFile) -> None:
        if where == "step":
            model.steps[1].name = name
        elif where == "tensor":
            model.tensors[2].name = name
        elif where == "key":
            model.metadata[name] = "x"
        else:
            model.metadata["labels"] = name

    return change


@pytest.mark.parametrize("where", ["step", "tensor", "key"])
def test_both_readers(where: str, driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [(f"{name!r} of a {where}", unchecked(named(where, name), monkeypatch)) for name in GOOD + BAD]
    assert compare(driver, files) == Counter({OK: len(GOOD), ERR_NAME: len(BAD)})
    for (_, data), (_, said) in zip(
        files[len(GOOD) :], verdicts(driver, [f for _, f in files[len(GOOD) :]]), strict=True
    ):
        # It is not for the message to print it.
        assert said.isascii() and said.isprintable() and python_verdict(data).isprintable(), said


def test_values(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels are lines; none has characters that move a cursor."""
    good, bad = ("one\ntwo", " a  b\u00a0\n"), ("a\tb", "a\x1b[0m", "a\r\nb", "\u009b", "\x7f")
    files = [(repr(text), unchecked(named("value", text), monkeypatch)) for text in good + bad]
    assert compare(driver, files) == Counter({OK: len(good), ERR_NAME: len(bad)})


def test_what_clean_makes_is_a_name() -> None:
    for code in range(sys.maxunicode + 1):
        name = names.clean(f"{chr(code)}a {chr(code)}")
        assert name.isprintable() and not names.fault(name.encode()), hex(code)
        assert names.texts_fault(names.clean_lines(chr(code)).encode(errors="replace")) < 0, hex(code)
    assert names.clean("é" * 200, 20) == "é" * 8 + "..."
    assert [name for name in BAD if names.clean(name) == name] == []
    assert [name for name in GOOD if names.clean(name) != name] == ["\u2010\u202a\u2060\u3001\u1681", "\ufeff"]


def hostile_net(path: Path) -> None:
    """Two inputs whose names differ in control characters only, a name of 100 KB, an If with a value from outside."""
    weights = numpy_helper.from_array(np.ones((4, 4), np.float32), "w\x1b[31m")
    flag = numpy_helper.from_array(np.array(True), "flag\u2028")
    float_ = TensorProto.FLOAT
    branches = {
        f"{which}_branch": helper.make_graph(
            [helper.make_node("Neg", ["sum\u00a0 x"], [f"{which}\tout"], f"{which}\n")],
            which,
            [],
            [helper.make_tensor_value_info(f"{which}\tout", float_, [1, 4])],
        )
        for which in ("then", "else")
    }
    nodes = [
        helper.make_node("MatMul", ["in\x1b", "w\x1b[31m"], ["n" * 100_000], "n" * 100_000),
        helper.make_node("Add", ["n" * 100_000, "in\x07"], ["sum\u00a0 x"], "\x1b]0;owned\x07"),
        helper.make_node("If", ["flag\u2028"], ["out  \u3000"], "if", **branches),
    ]
    graph = helper.make_graph(
        nodes,
        "net\x1b",
        [helper.make_tensor_value_info(name, float_, [1, 4]) for name in ("in\x1b", "in\x07")],
        [helper.make_tensor_value_info("out  \u3000", float_, [1, 4])],
        [weights, flag],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def test_pack_and_info(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile_net(tmp_path / "a\x1b[2J.onnx")
    (tmp_path / "labels").write_text("one\x1b[1m\ntwo\tthree\nf\u00a0our\nfive\n", encoding="utf-8")
    output = tmp_path / "a.mica"
    words = ["pack", str(tmp_path / "a\x1b[2J.onnx"), "-o", str(output), "--labels", str(tmp_path / "labels")]
    assert main([*words, "--name", "my \x1b net", "--golden", "1"]) == 0
    model = codec.decode(output.read_bytes())
    assert [model.tensors[t].name for t in (*model.inputs, *model.outputs)] == ["in?_2", "in?", "out"]
    assert model.metadata["labels"] == "one?[1m\ntwo three\nf our\nfive"
    assert max(len(step.name) for step in model.steps) <= 200
    assert main(["info", str(output)]) == 0
    said = "".join(capsys.readouterr())
    assert "my ? net" in said and all(line.isprintable() for line in said.split("\n"))
    assert main([*words[:2], "-o", str(tmp_path / "b\x1b.mica")]) == 1
    out, err = capsys.readouterr()
    assert "'b?.mica'" in err and err.count("\n") == 1 and err.rstrip("\n").isprintable() and not out
    assert not (tmp_path / "b\x1b.mica").exists()


def test_a_direction_mark_does_not_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """U+202E is no control character for the format, and turns a line round."""
    model = rich_model()
    model.tensors[0].name = model.steps[0].name = model.metadata["name"] = "a\u202egnp"
    (tmp_path / "a.mica").write_bytes(codec.encode(model))
    assert main(["info", str(tmp_path / "a.mica")]) == 0
    out, _ = capsys.readouterr()
    assert "a?gnp" in out and "\u202e" not in out


def test_errors_are_printable() -> None:
    assert str(FormatError("a\x1b\nb")) == "a??b"
