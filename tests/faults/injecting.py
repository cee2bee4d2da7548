"""The build of MicroPython in which memory runs out and Ctrl-C comes where a test says,
for test_faults.py and the soak."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests" / "usermod"), str(ROOT / "host_tools")]

from usermod_models import (
    embedding,
    golden,
    golden_state,
    hearing,
    language,
    lent,
    moving,
    narrow7,
    remembering,
    small,
    two,
)

from mica.boards import read_board
from mica.toolchain.build import build
from mica.link.board import Link, BoardError
from mica.link.unix_board import UnixBoard
from mica.file import codec
from mica.images import romfs


MODELS = {"small": small, "two": two, "state": golden_state, "golden": golden, "lent": lent} | {
    make.__name__: make for make in (embedding, narrow7, language, remembering, hearing, moving)
}
SCRIPTS = ("board_scenarios.py", "board_text.py", "board_push.py", "board_listen.py", "board_learn.py")


@contextmanager
def board() -> Iterator[Link]:
    """MicroPython with _faults, models and scenarios; nothing has been tried yet."""
    facts = read_board(HERE / "UNIX_FAULTS")
    there = UnixBoard(facts, build(facts, extras=["fleet"]).image)
    try:
        _prepare(there)
        yield there
    finally:
        there.close()


def _prepare(there: Link) -> None:
    for name, make in MODELS.items():
        there.put(codec.encode(make()), name)
    there.put(romfs.half_image({"digits.mica": codec.encode(golden())}), "romfs")
    for script in SCRIPTS:
        there.exec((HERE / script).read_text())


def scenarios(there: Link) -> list[str]:
    return there.exec("print(*[f.__name__ for f in SCENARIOS])").decode().split()


def inject(there: Link, name: str, most: int, seed: int) -> dict[str, int]:
    """Inject faults into one scenario, at each place or at `most` of them, spread out. Return how many of each kind.
    Raises AssertionError with the fault that broke something."""
    try:
        there.exec(f"tried = one({name}, {most}, {seed})", timeout=600)
        *problems, last = there.exec("for p in problems:\n    print(p)\nprint(*tried)").decode().splitlines()
    except BoardError as e:
        problems = [f"{name}: {e.traceback or e}"]
    if problems:  # whatever broke is not to be found in the next scenario too
        there.soft_reset()
        _prepare(there)
        raise AssertionError("\n".join(problems))
    once, on, interrupts = (int(n) for n in last.split())
    return {"allocations that failed": once, "memory that had run out": on, "interrupts": interrupts}
