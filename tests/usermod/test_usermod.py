"""The user module on boards: each script of this folder runs there, and prints the lines of its .exp file.

A script's first line may name models, `# models: small two`: usermod_models.py makes them,
and they are put on the board as globals, as is fails(f, ...), which prints what a call raises.
`# heap: 260000` says how many free bytes it needs, and `# needs: mica.fallback` a module.
A script that prints SKIP, or has too little heap or no such module, needs something
that the board lacks: SKIPS has all of them. All that is done on the newest MicroPython too: on this computer,
and with `scripts/test --all` on the emulated Cortex-M3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mica.link.answers import require_mica
import mica
import pytest
from mica.link.board import Link, BoardError
from mica.boards import load_board
from mica.toolchain.build import build as build_firmware
from mica.link.emulated import EmulatedBoard
from mica.toolchain.micropython import NEWEST, choose
from mica.link.unix_board import UnixBoard
from targets import DEEP_ON_NEWEST, LONG_ON_A_PICO, PICO
from usermod_models import build

HERE = Path(__file__).parent
SCRIPTS = sorted(p.stem for p in HERE.glob("*.exp"))
# Which script says SKIP on which board, and why. Any other SKIP is something that has gone;
# one that no longer skips, too.
SKIPS = {
    ("arena_threads", "MPS2_AN385"): "this MicroPython has no threads",
    ("fallback", "RPI_PICO@emu"): "its firmware lacks no kernel, and has none in MicroPython",
    ("pictures", "RPI_PICO@emu"): "the same",
    ("fallback", "RPI_PICO2@emu"): "the same",
    ("pictures", "RPI_PICO2@emu"): "the same",
    ("gc_views", "RPI_PICO@emu"): "fills 215 KB of heap; a Pico has that much in all",
    ("raw_kernels_bad", "RPI_PICO@emu"): "wants several blocks of 70 KB",
    ("gc_views", "RPI_PICO2@emu"): "fills 215 KB of heap twice",
    ("raw_kernels_bad", "RPI_PICO2@emu"): "wants a block of 280 KB beside others",
}

# On a virtual Pico 2; with scripts/test --all every script runs there.
ON_PICO2 = ["learner_saved", "hooks_order", "hooks_shipped", "model_romfs", "text", "supervisor_damage"]

FAILS = """
def fails(f, *args, **kw):
    try:
        f(*args, **kw)
        print("no exception")
    except Exception as e:
        print(type(e).__name__ + ":", e)
"""


@pytest.fixture(scope="session")
def models() -> dict[str, bytes]:
    """Every model, with an input and the oracle's answer."""
    return build()


@pytest.fixture(scope="session", params=DEEP_ON_NEWEST)
def newest_of_session(request: pytest.FixtureRequest) -> Iterator[Link]:
    facts = load_board(request.param)
    image = build_firmware(facts, micropython=choose(NEWEST)).image
    with UnixBoard(facts, image) if facts.port.program else EmulatedBoard(facts, image) as board:
        version = board.exec("import sys\nprint(sys.implementation.version[:3])")
        assert version == f"({NEWEST.replace('.', ', ')})\n".encode()
        yield board


@pytest.fixture
def newest_board(newest_of_session: Link) -> Link:
    """A board with the newest MicroPython, with an empty heap."""
    newest_of_session.soft_reset()
    return newest_of_session


def put_models(board: Link, script: str, models: dict[str, bytes]) -> None:
    first = script.split("\n", 1)[0]
    for name in first.removeprefix("# models:").split() if first.startswith("# models:") else []:
        for variable in (name, name + "_x", name + "_y"):
            if variable == name or variable in script:
                board.put(models[variable], variable)


def run(board: Link, name: str, models: dict[str, bytes]) -> str:
    script = (HERE / f"{name}.py").read_text()
    heap = re.search("^# heap: ([0-9]+)$", script, re.MULTILINE)
    if heap and int(board.exec("import gc\ngc.collect()\nprint(gc.mem_free())")) < int(heap[1]):
        return "SKIP\n"
    needs = re.search("^# needs: (.+)$", script, re.MULTILINE)
    if needs and board.exec(f"try:\n import {needs[1]}\nexcept ImportError:\n print('none')"):
        return "SKIP\n"
    put_models(board, script, models)
    if "fails(" in script:
        board.exec(FAILS)
    try:
        return board.exec(script).decode()
    except BoardError as error:
        raise AssertionError(f"{name} on {board.name}:\n{error.traceback or error}") from None


@pytest.mark.parametrize("kind", ["unix_board", "qemu_board", "pico_board"])
def test_help(kind: str, request: pytest.FixtureRequest) -> None:
    """help(), dir() and TAB list every name, import nothing, and keep nothing; a name works when it is used."""
    board: Link = request.getfixturevalue(kind)
    said = board.exec("import mica\nhelp(mica)").decode()
    listed = {line.split(" -- ")[0].strip() for line in said.splitlines() if " -- " in line}
    assert {"Model", "Supervisor", "generate", "motion", "hooks", "slots", "cores"} <= listed
    assert {name for name in listed if name.startswith("_")} <= {"__doc__", "__name__", "__path__", "__file__",
                                                                 "__version__"}
    assert "__doc__ -- mica.Model(file) or mica.load(file): predict([x])" in said
    assert "motion -- <mica.motion, imported" in said
    code = """
import gc, sys
def loaded():
    return sorted([k for k in sys.modules if k.startswith("mica.") and k not in ("mica.slots", "mica.later")])
def names():
    found = dir(mica)
    return [name for name in found if hasattr(mica, name)] == found and len(found)
names()
gc.collect()
free = gc.mem_free()
n = names()
gc.collect()
print(n > 20, free - gc.mem_free() < 200, loaded())
from mica import motion, Supervisor
print(loaded(), len(dir(motion)) > 5, mica.motion.watch is motion.watch)
import mica.wav as wav
print(type(wav) is type(sys), mica.wav is wav, mica.boxes.yolo8 is mica.boxes.yolo8, loaded())
print(Supervisor.deinit is mica.Supervisor.deinit, isinstance(mica.Supervisor, type))
motion.own = 5
print(mica.motion.own)
try:
    mica.modle
except AttributeError as e:
    print(e)
"""
    assert board.exec(code).decode().splitlines() == [
        "True True ['mica.files', 'mica.layer', 'mica.model']",
        "['mica.files', 'mica.layer', 'mica.model'] True True",
        ("True True True ['mica.audio', 'mica.boxes', 'mica.files', 'mica.layer', 'mica.model', "
        "'mica.motion', 'mica.wav']"),
        "True True",
        "5",
        "'module' object has no attribute 'modle'",
    ]


def test_version(board: Link) -> None:
    """Firmware and host tools are of one version."""
    assert require_mica(board) == mica.__version__


@pytest.mark.parametrize("name", [s for s in SCRIPTS if not s.startswith("soft_reset")])
def test_script(board: Link, name: str, models: dict[str, bytes]) -> None:
    """One script on a board with an empty heap."""
    if board.name == PICO and name in LONG_ON_A_PICO:
        pytest.skip("runs there in scripts/test --all only (MICA_TEST_ALL=1)")
    check_script(board, name, models)


@pytest.mark.parametrize("name", ON_PICO2)
def test_script_on_pico2(pico2_board: Link, name: str, models: dict[str, bytes]) -> None:
    check_script(pico2_board, name, models)


@pytest.mark.parametrize("name", [s for s in SCRIPTS if not s.startswith("soft_reset")])
def test_script_on_newest(newest_board: Link, name: str, models: dict[str, bytes]) -> None:
    check_script(newest_board, name, models)


def check_script(board: Link, name: str, models: dict[str, bytes]) -> None:
    where = name, board.name
    assert judge(where, run(board, name, models)) is None
    if where in SKIPS:
        pytest.skip(SKIPS[where])


def judge(where: tuple[str, str], got: str) -> str | None:
    """Return a line about what is wrong with a script's output on a board, or None."""
    says_skip = got.endswith("SKIP\n")
    if says_skip != (where in SKIPS):
        return f"{where[0]} skips on {where[1]}: {says_skip}; SKIPS says {where in SKIPS}"
    expected = "SKIP\n" if says_skip else (HERE / f"{where[0]}.exp").read_text()
    return None if compared(where[0], got) == expected else f"{where[0]} on {where[1]} printed:\n{got}"


def compared(script: str, got: str) -> str:
    """Return the lines of a script's output that are equal on all boards."""
    if script == "supervisor_damage":  # which values a damaged input cuts off differs from board to board
        return "".join(line for line in got.splitlines(keepends=True) if not line.startswith("mica: "))
    return got


def test_skips() -> None:
    """A skip that the table does not have fails, an entry that skips no longer,
    and one of a script that there is not."""
    there = (HERE / "predict.exp").read_text()
    assert judge(("predict", "UNIX"), there) is None
    assert "SKIPS says False" in str(judge(("predict", "UNIX"), "SKIP\n"))
    where = ("gc_views", "RPI_PICO@emu")
    assert judge(where, "SKIP\n") is None and "SKIPS says True" in str(judge(where,
        (HERE / "gc_views.exp").read_text()))
    assert {script for script, _ in SKIPS} <= set(SCRIPTS)


def test_soft_reset(board: Link, models: dict[str, bytes]) -> None:
    check_soft_reset(board, models)


def test_soft_reset_and_ctrl_c_on_newest(newest_board: Link, models: dict[str, bytes]) -> None:
    check_soft_reset(newest_board, models)
    check_ctrl_c(newest_board, models)


def check_soft_reset(board: Link, models: dict[str, bytes]) -> None:
    """A soft reset in mid-run: the next session starts with a free arena."""
    for name in ("soft_reset_before", "soft_reset_after"):
        assert run(board, name, models) == (HERE / f"{name}.exp").read_text()
        if name.endswith("before"):
            board.soft_reset()


def test_ctrl_c(board: Link, models: dict[str, bytes]) -> None:
    check_ctrl_c(board, models)


def check_ctrl_c(board: Link, models: dict[str, bytes]) -> None:
    """Ctrl-C in an endless series of runs: model, arena and heap stay usable."""
    board.put(models["many"], "many")
    board.exec("import mica\nm = mica.Model(many)\nwant = m.predict([[0, 1, 2, 3]])")
    for _ in range(3):
        with pytest.raises(BoardError, match="silent"):
            board.exec("while True:\n    m.run()", timeout=1.0)
        assert board.exec("print(m.arena.busy, m.predict([[0, 1, 2, 3]]) == want)") == b"False True\n"


@pytest.mark.parametrize("kind", ["unix_board", "pico_board"])
def test_two_cores(kind: str, models: dict[str, bytes], request: pytest.FixtureRequest) -> None:
    """A model uses the second core if there is one: many runs beside a Python thread that runs a model of its own. On a
    Pico that thread takes the core, and frees it when it ends."""
    board: Link = request.getfixturevalue(kind)
    board.put(models["dense"], "dense")
    board.put(models["small"], "small")
    lines = board.exec(THREADS).decode().split()
    assert lines == ["2", "200", "True", "True", "1"]


THREADS = """
import _thread, time, mica

a, b = mica.Model(small), mica.Model(dense, arena=bytearray(65536))
x = [i * 37 % 256 - 128 for i in range(len(a.input(0)))]
y = [i * 91 % 256 - 128 for i in range(len(b.input(0)))]

def once(m, values):
    for i, v in enumerate(values):
        m.input(0)[i] = v
    m.run()
    return bytes(m.output(0))

expected = once(a, x), once(b, y)
same, ended = [], []

def other():
    for _ in range(100):
        same.append(once(b, y) == expected[1])
    ended.append(True)

print(mica.cores(2))
_thread.start_new_thread(other, ())
for _ in range(100):
    same.append(once(a, x) == expected[0])
while not ended:
    time.sleep_ms(1)
print(len(same), all(same), mica.cores() == 2, mica.cores(1))
"""
