"""The size of the product, and of additions by hand. tests/kernels/test_new_kernel.py has the recipe of a kernel."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from mica.cli import main

ROOT = Path(__file__).resolve().parents[2]
# Lines of the product. Whoever raises this says in the commit what went in exchange.
MOST_LINES = 136_600
ENDINGS = "py|c|h|S|mjs|pyi|toml|mk|cmake|css|html|js"
PRODUCT = rf"git ls-files host_tools firmware usermod_c boards scripts | grep -E '\.({ENDINGS})$'"
# Where an activation stands: its row, its meaning, its ONNX operator.
ACTIVATION = {
    "host_tools/mica/ir/ops.py",
    "host_tools/mica/reference/unary.py",
    "host_tools/mica/passes/lower/unary.py",
}


def _files() -> list[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("a copy without git has no list of files")
    listed = subprocess.run(["sh", "-c", PRODUCT], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def test_the_product_does_not_grow() -> None:
    lines = sum((ROOT / name).read_bytes().count(b"\n") for name in _files())
    assert lines <= MOST_LINES, (
        f"the product has {lines:,} lines, {lines - MOST_LINES:,} more than MOST_LINES: take as many away elsewhere; "
        "whoever raises the number says in the commit what went in exchange"
    )


def test_an_activation_is_three_files() -> None:
    named = {name for name in _files() if re.search(r"\bcelu\b", (ROOT / name).read_text("utf-8"), re.IGNORECASE)}
    assert named == ACTIVATION


HELLO = """
from typing import Any

JSON_KEYS = {"hello": "whom"}

def add_arguments(parser: Any) -> None:
    parser.add_argument("whom")

def run(args: Any) -> int:
    print("hello", args.whom)
    return 0
"""


def test_a_command_is_two_files(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A file, and a row of COMMANDS: then it runs, is in the help, and gets its mistakes in one line."""
    module = ModuleType("mica.cli.hello")
    exec(HELLO, module.__dict__)
    monkeypatch.setitem(sys.modules, "mica.cli.hello", module)
    monkeypatch.setitem(main.COMMANDS, "hello", "greet somebody")
    assert main.main(["hello", "you"]) == 0 and capsys.readouterr().out == "hello you\n"
    with pytest.raises(SystemExit):
        main.main(["-h"])
    assert "greet somebody" in capsys.readouterr().out
    assert main.main(["hello"]) == 1 and "the following arguments are required: whom" in capsys.readouterr().err


def test_no_file_is_long() -> None:
    """Assembly and the header that scripts/gen_format.py writes aside, none has more than 500 lines."""
    sizes = {name: (ROOT / name).read_bytes().count(b"\n") for name in _files() if not name.endswith(".S")}
    assert {name: n for name, n in sizes.items() if n > 500 and name != "usermod_c/include/mica_format.h"} == {}
