"""An hour at a board's prompt leaves its memory as it was: the free bytes, and the largest free piece."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import serial
from helpers import DEMO, pack

from mica.boards import load_board
from mica.images import romfs
from mica.link.emulated import start_emulator
from mica.run.board import BoardRunner
from mica.toolchain.build import build

NEAR = 4096  # bytes
CTRL_C, TAB = "\x03", "\t"
MEASURE = "gc.collect(); print('free', gc.mem_free()); micropython.mem_info()"

WRONG = [
    "m.predict(x)",
    "m.predict([x, x])",
    "m.predict([x[1:]])",
    "m.predict(['text'])",
    "m.predict({'picture': x})",
    "m.predict([[x] * 3])",
    "m.predict([None])",
    "m.predict()",
    "m.top('many')",
    "m.top(3, 5)",
    "m.input(7)",
    "m.output('nothing')",
    "m.hook(after=1, befor=2)",
    "m.see(x, 8, 8, 'grey')",
    "m.profile(0)",
    "mica.Model()",
    "mica.Model(5)",
    "mica.Model('none.mica')",
    "mica.Model('/rom/none.mica')",
    "mica.Model('/rom')",
    "mica.Model('/rom/digits.mica', arena=bytearray(100))",
    "mica.Model(b'')",
    "mica.Model(b'MICA')",
    "mica.Model(bytearray(3000))",
    "mica.Modell('digits.mica')",
    "mica.register(1, 2)",
    "m.predict([x]))",
    "mica.cores('two')",
    "mica.generate(m, 'Once')",
    "m.resume()",
    "m.reset(1)",
    "frobnicate(m)",
]
SESSION = [
    "help(mica)",
    "dir(mica)",
    "mica." + TAB + CTRL_C,
    "mica.mo" + TAB + CTRL_C,
    "mica.generate",
    "mica.hooks",
    "help(mica.Model)",
    "dir(mica.Model)",
    "m = mica.Model('digits.mica')",
    "m",
    "help(m)",
    "dir(m)",
    "m." + TAB + CTRL_C,
    "m.pre" + TAB + CTRL_C,
    "x = [0, 0, 0, 1, 1, 0, 0, 0] * 8",
    "m.predict([x])",
    "m.top(3)",
    *WRONG,
    # Damaged files: cut, one bit changed, something else; each is copied into RAM, where it is looked at.
    "data = bytes(memoryview(open('/rom/digits.mica', 'rb')))",
    "f = open('cut.mica', 'wb'); f.write(data[:4000]); f.close()",
    "f = open('bad.mica', 'wb'); f.write(data[:8000]); f.write(b'x'); f.write(data[8001:]); f.close()",
    "f = open('other.mica', 'wb'); f.write(bytes(5000)); f.close()",
    "f = open('good.mica', 'wb'); f.write(data); f.close()",
    "data = f = None",
    *[f"mica.Model('{name}.mica')" for name in ("cut", "bad", "other")] * 3,
    "m = mica.Model('good.mica')",
    "m = mica.Model('good.mica')",
    "n = mica.Model('good.mica')",
    "n.predict([x]) == m.predict([x])",
    "n.deinit()",
    "n.predict([x])",
    "n",
    "m = mica.Model('/rom/digits.mica')",
    "m = mica.Model('digits.mica')",
    "m.selftest()",
    # Ctrl-C in runs, and in lines.
    "while True: m.predict([x])\r\r" + CTRL_C,
    "while True: mica.Model('good.mica')\r\r" + CTRL_C,
    "for i in range(10**9): y = [i] * 50\r\r" + CTRL_C,
    "m.predict([x" + CTRL_C,
    "def f(a):\r    return a" + CTRL_C,
    "m.predict([x])",
    # Names that the board has not seen before stay, in pieces of their own.
    *[f"quite_a_new_name_{k} = 'a text of line {k}'" for k in range(6)],
    "del quite_a_new_name_3",
    "big = bytearray(100000)",
    "bigger = bytearray(300000)",
    "big = None",
    "[k * k for k in range(2000)]",
    "dir(mica)",
    "help(mica)",
    "dir()",
    "globals()",
    "import nothing",
    "1 / 0",
    "'a' + 1",
    "m = n = x = y = None",
    "1",
]


class Prompt:
    """The friendly REPL, as a person types at it."""

    def __init__(self, port: str) -> None:
        self.port = port
        self._port = serial.serial_for_url(port, 115200, timeout=0.05)
        self.line("")

    def _until(self, ending: bytes, again: str = "") -> str:
        """Return what the board says; `again` is typed each 5 s until the ending comes."""
        seen, begun, times = b"", time.monotonic(), 1
        while not (seen.endswith(ending) and not self._port.in_waiting):
            seen += self._port.read(max(1, self._port.in_waiting))
            if time.monotonic() - begun > 5 * times:
                assert times < 60, f"no {ending!r}; there was {seen[-500:]!r}"
                self._port.write(again.encode())
                times += 1
        return seen.decode().replace("\r\n", "\n")

    def line(self, text: str) -> str:
        """Type a line; with a Ctrl-C at its end, that in place of Enter, or when it runs. What the board says."""
        typed, stop = (text[:-1], True) if text.endswith(CTRL_C) else (text + "\r", False)
        self._port.write(typed.encode())
        if not typed.endswith("\r\r"):
            self._port.write(CTRL_C.encode() if stop else b"")
            return self._until(b"\n>>> ")
        echo = self._until(b"... \r\n")
        time.sleep(0.3)  # until it runs a Ctrl-C would wait as a letter; then another one ends it
        self._port.write(CTRL_C.encode())
        return echo + self._until(b"\n>>> ", CTRL_C)

    def close(self) -> None:
        self._port.close()


@pytest.fixture
def prompt(tmp_path: Path) -> Iterator[Prompt]:
    digits = pack(DEMO / "digits.onnx", tmp_path / "digits.mica", "--calib", DEMO / "digits_calib.npz", "--golden", 4)
    board = load_board("RPI_PICO")
    rom = romfs.build({"digits.mica": digits.read_bytes()})
    with start_emulator(board, build(board).image, rom=rom, keep_flash=False) as emulator:
        prompt = Prompt(emulator.port)
        yield prompt
        prompt.close()


def memory(prompt: Prompt) -> tuple[int, int]:
    """Bytes free, and of the largest piece."""
    text = prompt.line(MEASURE)
    blocks = re.search(r"max free sz: (\d+)", text)
    free = re.search(r"^free (\d+)", text, re.MULTILINE)
    assert blocks and free, text
    return int(free[1]), 16 * int(blocks[1])


def test_a_session_of_a_hundred_lines(prompt: Prompt) -> None:
    assert len(SESSION) >= 100
    prompt.line("import gc, micropython, mica")
    free, largest = memory(prompt)
    said = {line: prompt.line(line) for line in SESSION}
    assert (
        "hooks" in said["dir(mica)"]
        and "predict" in said["m." + TAB + CTRL_C]
        and "motion" in said["mica.mo" + TAB + CTRL_C]
    )
    assert all("Error" in said[line] for line in WRONG), [line for line in WRONG if "Error" not in said[line]]
    assert all("KeyboardInterrupt" in said[line] for line in SESSION if line.endswith("\r\r" + CTRL_C))
    assert "EISDIR: /rom" in said["mica.Model('/rom')"] and "__doc__ -- m.predict([x])" in said["help(m)"]
    assert said["n.predict([x]) == m.predict([x])"].endswith("True\n>>> ")
    after = memory(prompt)
    assert abs(free - after[0]) <= NEAR, (free, after)
    assert abs(largest - after[1]) <= NEAR, (largest, after)
    # dir(), help() and TAB have imported nothing: each module is there when it is used.
    loaded = "import sys; print(sorted(k for k in sys.modules if k.startswith('mica.')))"
    assert "motion" not in prompt.line(loaded) and "Watcher" in prompt.line("mica.motion.watch")
    assert "mica.motion" in prompt.line(loaded)
    # A MemoryError has the facts, and advice that helps: this board reads models in flash, and this file is not there.
    prompt.line("from mica.memory import largest; hold = bytearray(largest() - 2000)")
    error = prompt.line("mica.Model('good.mica')")
    found = re.search(
        r"a copy of the file takes (\d+) bytes; (\d+) bytes of the heap are free, the largest piece has (\d+)", error
    )
    assert found and "Try: mica push puts the file into flash" in error, error
    size, free, largest = (int(n) for n in found.groups())
    assert 8000 < size < 10_000 and 0 < largest <= free < size


def test_a_copy_in_flash_is_used(prompt: Prompt, tmp_path: Path) -> None:
    """`mica run` and the like on a board that has the model: nothing is sent, and RAM holds no copy.
    The file here has golden vectors."""
    prompt.close()
    data, said = (tmp_path / "digits.mica").read_bytes(), []
    with BoardRunner(data, prompt.port, said.append) as runner:
        assert not runner.copied and said == [f"{prompt.port} has this model: its own copy /rom/digits.mica is used"]
        vector = runner.model.golden[0]
        assert runner.run([vector.inputs])[0][0].tobytes() == vector.outputs[0].tobytes()
