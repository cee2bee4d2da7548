"""An error tells what was found and what to do, in one line and as two attributes."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path

import pytest

from mica.cli.main import main
from mica.errors import MicaError, Unsupported
from mica.file.codec import FormatError
from mica.link.board import board_exception
from mica.link.diagnosis import failed


def test_the_line_is_both_and_values_stay_apart() -> None:
    error = MicaError("a.npz: holds x; y", todo="give z")
    assert (error.found, error.todo, str(error)) == ("a.npz: holds x; y", "give z", "a.npz: holds x; y; give z")
    assert (str(MicaError("no such file")), MicaError("no such file").todo) == ("no such file", "")
    assert str(MicaError("a\x1bb\nc", todo="\x07d")) == "a?b\nc; ?d"


def test_whoever_knows_more_adds_it_by_value() -> None:
    error = FormatError("byte 0: found b'PK'", todo="this is not a .mica file")
    there = error.at("net.mica").then("pack it").then("")
    assert type(there) is FormatError
    assert (there.found, there.todo) == ("net.mica: byte 0: found b'PK'", "this is not a .mica file; pack it")
    assert str(error) == "byte 0: found b'PK'; this is not a .mica file"  # as it was
    refused = Unsupported.because("cannot be packed", ["node 'a': x", "node 'b': y"]).at("net.onnx")
    assert str(refused) == "net.onnx: cannot be packed:\n  node 'a': x\n  node 'b': y"
    assert refused.reasons == ("node 'a': x", "node 'b': y")
    assert str(Unsupported.because("it", ["one"])) == "it: one"
    for same in (copy.copy(there), pickle.loads(pickle.dumps(there))):
        assert (type(same), same.found, same.todo) == (FormatError, there.found, there.todo)


def test_a_board_s_exception_has_a_name() -> None:
    error = board_exception(
        'Traceback (most recent call last):\r\n  File "<stdin>", line 1\r\nImportError: no module\r\n'
    )
    assert (error.exception, error.found) == ("ImportError", "ImportError: no module")
    assert error.at("COM5").exception == "ImportError"
    assert board_exception("it went: badly").exception == ""
    assert board_exception("MemoryError").exception == "MemoryError"


def test_a_finding_takes_the_values_and_not_the_text() -> None:
    finding = failed(MicaError("QEMU did not start; it said: no such machine", todo="install a newer one"))
    assert (finding.text, finding.todo) == ("QEMU did not start; it said: no such machine", "install a newer one")


def test_json_carries_both(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(b"\x08\x07")
    assert main(["verify", str(path), "--json"]) == 1
    said = capsys.readouterr()
    line = f"{path}: not a .mica file; make one with `mica pack`"
    assert said.err == f"mica: error: {line}\n"
    assert json.loads(said.out) == {
        "error": line,
        "found": f"{path}: not a .mica file",
        "todo": "make one with `mica pack`",
        "exit_code": 1,
    }
    assert main(["verify", str(tmp_path / "none.mica"), "--json"]) == 1
    assert "todo" not in json.loads(capsys.readouterr().out)
