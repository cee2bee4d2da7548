"""The tutorials of host_tools/docs: their lines as they stand there, and their training scripts where the frameworks
are installed.

A comment above a block says why a test does not type it. Blocks with the comment "two terminals" start an emulated
board and use it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from helpers import ROOT, mica

from mica.toolchain.build import BuildResult

DOCS = ROOT / "host_tools" / "docs"
EXAMPLES = DOCS / "examples"
TUTORIALS = {  # page -> folder of its example, and what must be printed in the end
    "from-pytorch": ("pytorch", r"^\[\(1, "),
    "from-keras": ("keras", r"^\[\(1, "),
    "from-scikit-learn": ("scikit-learn", r"^\[\('barolo', "),
    "gesture": ("gesture", r"^shake \d+ ms$"),
    "teach": ("gesture", r"^\('still', "),
    "own-words": ("words", r"s +up +0\."),
    "camera": ("camera", r"^\('circle', "),
}
NOT_TYPED = ("not typed", "needs a board", "typed by the test of")
MOST_COMMANDS = 10  # from the README to an answer
EXPECTED = re.compile(r"```text\n(.*?)```", re.S)


@dataclass
class Block:
    """Lines of a shell. comment: the one above the block, or ''."""

    comment: str
    lines: list[str]


def text_of(page: str) -> str:
    return (DOCS / f"{page}.md").read_text(encoding="utf-8")


def blocks(text: str) -> list[Block]:
    found = re.findall(r"(?:<!-- ([^>]*) -->\n)?^```(\w*)\n(.*?)^```$", text, flags=re.S | re.M)
    return [Block(comment, body.replace("\\\n", " ").strip().splitlines()) for comment, kind, body in found if not kind]


def typed(text: str) -> list[Block]:
    return [block for block in blocks(text) if not block.comment.startswith(NOT_TYPED)]


@pytest.mark.parametrize("page", TUTORIALS)
def test_few_commands(page: str) -> None:
    """Those that are typed, what a clone needs first, and those that the reader may skip."""
    every = [line for block in blocks(text_of(page)) if block.comment != "needs a board" for line in block.lines]
    assert 4 <= len(every) <= MOST_COMMANDS, every


def test_blocks_that_are_not_typed_say_why() -> None:
    for page in sorted(DOCS.glob("*.md")):
        for comment in re.findall(r"<!-- (.*?) -->", page.read_text(encoding="utf-8")):
            assert comment.startswith((*NOT_TYPED, "two terminals", "ten lines")), (page.name, comment)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Path]:
    example, _ = TUTORIALS[request.node.callspec.params["page"]]
    for file in (EXAMPLES / example).iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MICA_FLASH", str(tmp_path / "flash.bin"))  # of no earlier run, which has taught its head
    yield tmp_path


def run(line: str) -> str:
    """A line in a shell, with this Python's mica, mpremote and Python; what it printed."""
    python = shlex.quote(sys.executable)
    head = f'mica() {{ {python} -m mica "$@"; }}\nmpremote() {{ {python} -m mpremote "$@"; }}\n'
    head += f'python() {{ {python} "$@"; }}\n'
    done = subprocess.run(["bash", "-c", head + line], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout.replace("\r\n", "\n")


def in_two_terminals(lines: list[str]) -> str:
    """All but the last line, of which `mica emu` runs meanwhile; then the last one, which gives the answer."""
    with socket.socket() as taken:  # nobody else is given it; an emulator, which asks for this one, is
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 0))
        return at_port(str(taken.getsockname()[1]), lines)


def at_port(port: str, lines: list[str]) -> str:
    *before, emulator, last = (line.replace("4711", port) for line in lines)
    for line in before:
        run(line)
    words = shlex.split(emulator)
    assert words[:2] == ["mica", "emu"], emulator
    process = subprocess.Popen(
        [sys.executable, "-m", *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    stop = threading.Timer(900, process.kill)
    stop.start()
    try:
        assert process.stdout is not None and port in process.stdout.readline()
        return run(last)
    finally:
        stop.cancel()
        process.terminate()
        process.wait(30)
        time.sleep(0.1)


@pytest.mark.parametrize("page", TUTORIALS)
def test_tutorial(page: str, folder: Path, firmware: Callable[[str], BuildResult]) -> None:
    firmware("RPI_PICO")
    text = text_of(page)
    programs = re.findall(r"Save this as `main\.py`:\n\n```python\n(.*?)```", text, flags=re.S)
    for program in programs:
        Path("main.py").write_text(program)
    out = ""
    for block in typed(text):
        if block.comment == "two terminals":
            out += in_two_terminals(block.lines)
        else:
            for line in block.lines:
                out += run(line) if not line.startswith("pip install") else ""
    assert re.search(TUTORIALS[page][1], out, flags=re.M), out
    lines = {plain(line) for line in out.splitlines()}
    said = [plain(line) for found in EXPECTED.findall(text) for line in found.strip().splitlines()]
    missing = [line for line in said if line not in lines and not line.startswith("time ")]
    assert not missing, f"{missing}\n{out}"


def plain(line: str) -> str:
    """With single blanks, and without the time of an event, which differs from run to run."""
    return re.sub(r"\d+ ms$", "ms", " ".join(line.split()))


# The long half: training, in `scripts/test --all` (MICA_TEST_ALL=1).
TRAINING = {  # folder -> modules that it needs, and its commands
    "pytorch": (("torch", "onnxscript", "sklearn"), ["train.py"]),
    "keras": (("tensorflow", "keras", "sklearn"), ["train.py"]),
    "scikit-learn": (("sklearn", "skl2onnx"), ["train.py"]),
}
OWN = {"gesture": "gestures.py data", "own-words": "words.py", "camera": "shapes.py"}  # page -> what makes its data


@pytest.mark.parametrize("folder_name", TRAINING)
def test_training(folder_name: str, tmp_path: Path) -> None:
    needed, commands = TRAINING[folder_name]
    if not os.environ.get("MICA_TEST_ALL"):
        pytest.skip("training runs in scripts/test --all only (MICA_TEST_ALL=1)")
    for name in needed:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"the Python package {name} is not installed")
    for script in (EXAMPLES / folder_name).glob("*.py"):
        shutil.copy(script, tmp_path)
    for command in commands:
        done = subprocess.run(
            [sys.executable, *command.split()], cwd=tmp_path, capture_output=True, text=True, timeout=1800, check=False
        )
        assert done.returncode == 0, done.stderr
    (model,) = (path for path in tmp_path.glob("net.*"))
    result = mica("pack", model, "--calib", tmp_path / "samples.npz", "--plain", "-o", tmp_path / "net.mica")
    assert result.code == 0, result.err


@pytest.mark.parametrize("page", OWN)
def test_own_training(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's `mica train` makes the file that the example keeps, and is right on 95 % of what it held out."""
    if not os.environ.get("MICA_TEST_ALL"):
        pytest.skip("training runs in scripts/test --all only (MICA_TEST_ALL=1)")
    (line,) = (line for block in blocks(text_of(page)) for line in block.lines if line.startswith("mica train"))
    monkeypatch.chdir(tmp_path)
    kept = EXAMPLES / TUTORIALS[page][0]
    run(f"python {kept}/{OWN[page]}")
    words = shlex.split(line)
    assert (kept / words[words.index("-o") + 1]).is_file()
    assert json.loads(run(f"{line} --json"))["accuracy"] >= 0.95
    assert (tmp_path / words[words.index("--report") + 1]).is_file()
