"""Costs of the reference models on one core of the virtual Picos, and on both: `scripts/bench/run --only two-cores`.

The files are those of the table of the Cortex-M0+. A count is core 0's, from before `run()` until after it, with
MicroPython's loop over the layers; core 1's count stands beside it. Both cores wait for flash, and there
for each other. The bytes of the output are compared with the numpy reference.
"""

import ast
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import bare_metal
import numpy as np

from mica.cli import text
from mica.errors import MicaError
from mica.file.codec import ModelFile
from mica.link.board import Link
from mica.link.targets import open_board
from mica.link.virtual_pico import CYCLES_ON_BOARD
from mica.reference.executor import ReferenceModel

BOARDS = ("RPI_PICO", "RPI_PICO2")

# Each line of its answer: cycles of core 0, of core 1, CRC of the output.
# First a run that starts core 1 and lets Python import.
ON_BOARD = f"""
import binascii, gc, machine, mica

def now(k):
    low = machine.mem32[{CYCLES_ON_BOARD} + k]
    return low + (machine.mem32[{CYCLES_ON_BOARD} + k + 4] << 32)

def measure(file, x, cores, in_ram):
    gc.collect()
    m = mica.Model(open(file, "rb").read() if in_ram else file)
    if mica.cores(cores) != cores:
        raise RuntimeError("core 1 is not there")
    into = m.input(0)
    for _ in range(2):
        for i in range(len(x)):
            into[i] = x[i] if x[i] < 128 else x[i] - 256
        gc.collect()
        a, b = now(4), now(12)
        m.run()
        a, b = now(4) - a, now(12) - b
    mica.cores(1)
    print((a, b, binascii.crc32(m.output())))
"""


@dataclass(frozen=True)
class Row:
    """One model: cycles on one core, cycles on two, and core 1's share of the latter."""

    board: str
    model: str
    one: int
    two: int
    second: int

    @property
    def ratio(self) -> float:
        return self.two / self.one


def measure(board: Link, where: str, name: str, expected: int, in_ram: bool = False) -> Row:
    """Measure a model on a virtual Pico: name.mica, with name.x as its input. expected: the CRC of its output."""
    file, x = f"/rom/{name}.mica", f"/rom/{name}.x"
    found = []
    for cores in (1, 2):
        said = board.exec(f"measure({file!r}, open({x!r}, 'rb').read(), {cores}, {in_ram})", timeout=120).decode()
        first, second, crc = ast.literal_eval(said)
        if crc != expected:
            raise MicaError(f"{name}, on {cores} cores: wrote other bytes than the reference")
        found.append((first, second))
    return Row(where, name, found[0][0], found[1][0], found[1][1])


def run(where: str, models: Iterable[tuple[str, ModelFile]], in_ram: bool = False) -> list[Row]:
    """Measure all models on a board. Raises MicaError where one wrote other bytes than numpy."""
    files: dict[str, bytes] = {}
    expected: dict[str, int] = {}
    for name, model in models:
        data = bare_metal.for_board(model, where)
        if len(model.inputs) != 1:
            raise MicaError(f"{name}: expected one input")
        reference = ReferenceModel(data)
        x = bare_metal.random_input(model.tensors[model.inputs[0]], np.random.default_rng(zlib.crc32(name.encode())))
        reference.set_input(0, x)
        reference.run()
        files |= {f"{name}.mica": data, f"{name}.x": x.tobytes()}
        expected[name] = zlib.crc32(reference.tensor(model.outputs[0]).tobytes())
    with open_board(f"{where}@emu", rom_files=files) as board:
        board.exec(ON_BOARD)
        return [measure(board, where, name, crc, in_ram) for name, crc in expected.items()]


def table(rows: Iterable[Row]) -> str:
    """The rows for people, in millions of cycles."""
    head = ("board", "model", "one core, M cycles", "two cores", "of which core 1", "two / one")
    lines = [
        (r.board, r.model, f"{r.one / 1e6:.2f}", f"{r.two / 1e6:.2f}", f"{r.second / 1e6:.2f}", f"{r.ratio:.3f}")
        for r in rows
    ]
    return text.table(head, lines, "llrrrr")
