"""Trouble for a board, for test_trouble.py and `scripts/soak --boards`."""

from __future__ import annotations

import contextlib
import random
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SILENT = 600  # seconds until a board is taken to hang; a busy computer has been silent for two minutes
sys.path[:0] = [str(ROOT / "tests" / "usermod"), str(ROOT / "host_tools")]

from usermod_models import golden, golden_state, small, two

from mica.link.board import Link, BoardError
from mica.link.targets import open_board
from mica.file import codec
from mica.compile import compile_file


def put_models(board: Link) -> None:
    """Put the models on the board that its scripts expect as globals."""
    for name, make in {"small": small, "two": two, "golden_state": golden_state, "good": golden}.items():
        board.put(codec.encode(make()), name)


def trouble(board: Link, script: str, seed: int, rounds: int, threads: bool = True) -> list[int]:
    """Runs board_SCRIPT.py on a board; the numbers of its last line.
    Raises AssertionError where the board went away."""
    text = (HERE / f"board_{script}.py").read_text()
    try:
        board.exec(f"seed, rounds, threads = {seed}, {rounds}, {threads}")
        return [int(n) for n in board.exec(text, timeout=SILENT).decode().split("\n")[-2].split()]
    except BoardError as e:
        raise AssertionError(f"{script}, seed {seed}, on {board.name}:\n{e.traceback or e}") from None


def interrupted(board: Link, seed: int, times: int) -> int:
    """Ctrl-C at random moments of endless runs; after each the model gives its answer as before."""
    rng = random.Random(seed)
    board.exec("import mica\nm = mica.Model(small)\nx = bytes(range(64))\nwant = m.predict([x])")
    for k in range(times):
        try:
            board.exec("while True:\n    m.predict([x])", timeout=0.02 + rng.random() * 0.2)
        except BoardError:
            pass
        else:
            raise AssertionError("an endless loop ended")
        assert board.exec("print(m.arena.busy, m.predict([x]) == want)") == b"False True\n", f"seed {seed}, Ctrl-C {k}"
    return times


def one_round(name: str, seed: int) -> dict[str, int]:
    """Try everything on a board that is started for it; return counts. Raises AssertionError with the fault."""
    unix = name == "UNIX"
    with open_board(name) as board:
        put_models(board)
        tried, _, runs = trouble(board, "files", seed, 1000 if unix else 200)
        board.soft_reset()
        put_models(board)
        calls, _, right = trouble(board, "calls", seed, 500 if unix else 100)
        between, refused, meanwhile, _, _ = trouble(board, "meanwhile", seed, 500 if unix else 50)
        return {
            "files": tried,
            "calls": calls,
            "calls meanwhile": meanwhile,
            "refused": refused,
            "interrupts": interrupted(board, seed, 10),
            "inferences": runs + right + between,
        }


def board_with_digits(target: str = "RPI_PICO@emu") -> Link:
    """A virtual Pico for cores(), or a Pico 2, with its models in its /rom."""
    digits = compile_file(ROOT / "host_tools" / "mica" / "demo" / "digits.onnx", plain=True).data
    return open_board(target, rom_files={"digits.mica": digits, "small.mica": codec.encode(small())})


def cores(board: Link, seed: int, runs: int) -> dict[str, int]:
    """One session of `runs` runs of the digits on two cores, ended as the seed says; then a soft reset. What was tried.
    Raises AssertionError where an answer was another, or the board went away."""
    last = ("end", "thread", "loop")[seed % 3]
    text = (HERE / "board_cores.py").read_text()
    try:
        board.exec(f"seed, runs, last = {seed}, {runs}, {last!r}")
        if last == "loop":
            said = _interrupted_when_done(board, text, seed)
        else:
            said = board.exec(text, timeout=SILENT)
        figures = [int(n) for n in said.decode().split("\n")[-2].split()]
        board.soft_reset()
    except BoardError as e:
        raise AssertionError(f"two cores, seed {seed}, on {board.name}:\n{e.traceback or e}") from None
    return dict(zip(("runs on two cores", "runs on one", "interrupts", "threads", "files"), figures, strict=True))


class _Enough(Exception):
    pass


def _interrupted_when_done(board: Link, text: str, seed: int) -> bytes:
    """Return the text that a program prints until Ctrl-C, which comes a random time after a line of it."""
    said = bytearray()

    def feed(data: bytes) -> None:
        said.extend(data)
        if said.endswith(b"\n") and said.split(b"\n")[-2][:1].isdigit():
            time.sleep(random.Random(seed).random() * 0.01)
            raise _Enough

    with contextlib.suppress(_Enough):
        board.exec_follow(text, feed, timeout=SILENT)
    return bytes(said)
