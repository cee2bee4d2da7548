"""Programs that boards execute for us travel whole, and their arguments arrive unchanged, with any content."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
from pathlib import Path

import pytest

from mica.link import on_board
from mica.link.answers import Answer, name, one_of, size

FILES = sorted(p for p in Path(on_board.__file__).parent.glob("*.py") if p.stem != "__init__")
# In no order of the alphabet, with quotes and line ends; a folder's name may hold any of them.
NAMES = ["plain", 'a "quote"', "it's", "two\nlines", "back\\slash", "{braces}", "größe"]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_only_comments_stay_behind(path: Path) -> None:
    written, sent = path.read_text(encoding="utf-8"), on_board.source(path.stem)
    assert ast.dump(ast.parse(sent)) == ast.dump(ast.parse(written))
    assert not any(line.lstrip().startswith("#") or not line.strip() for line in sent.splitlines())
    functions = [node.name for node in ast.parse(sent).body if isinstance(node, ast.FunctionDef)]
    assert functions in ([], [f"_mica_{path.stem}"])


def executed(program: str, **names: object) -> bytes:
    """Return the text that a program prints in this Python."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(program, names)
    return out.getvalue().encode()


def test_arguments_arrive_as_they_are(tmp_path: Path) -> None:
    data = bytes(range(256)) * 3
    for text in NAMES:
        path = str(tmp_path / text)
        executed(on_board.call("make_folder", path))
        executed(on_board.call("make_folder", path))  # it may be there
        file = f"{path}/{text}"
        sent = on_board.Expression("data[1:]")
        assert executed(on_board.call("write_file", file, "wb", sent), data=data) == b"767\n"
        assert Path(file).read_bytes() == data[1:]
        read = executed(on_board.source("read_file") + on_board.again("read_file", file, False)).decode()
        assert read == f"mica:sha256 {hashlib.sha256(data[1:]).hexdigest()}\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(NAMES)


def test_the_answer_of_a_call_is_kept() -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        names: dict[str, object] = {}
        exec(on_board.call("make_folder", "/", into="made"), names)
    assert names["made"] is None
    assert on_board.again("put", 3, on_board.Expression("len(x)")) == "_mica_put(3, len(x))\n"
    listed = Answer(b"mica:entry dir 0 2f61\n", "x").all("entry", one_of("dir", "file"), size, name)
    assert listed == [("dir", 0, "/a")]
