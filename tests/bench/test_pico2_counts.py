"""The virtual Pico 2 counts the instructions of every kernel that QEMU counts on MPS2_AN505, to the unit.

Both run the bare-metal program of scripts/bench, of the same object files, linked for two maps of memory.
In QEMU a plugin counts between readings of the counter; on the Pico 2 boards/common/virtual/hooks.c does.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import bare_metal
import cycle_tables
import layers
from bare_metal import CORES

from mica.link import emulator
from mica.resources import data_dir

M33 = CORES["m33"]
# Flash: a page with what the boot ROM looks for, the program, the jobs.
PICO2 = dataclasses.replace(
    M33, code=0x10001000, jobs=0x10200000, ram=0x20000000, ram_bytes=0x80000, arena_bytes=0x50000, board="RPI_PICO2"
)
RUN = """
import mmap, sys
sys.path.insert(0, sys.argv[1])
from rp2350 import IMAGE, Rp2350 as Chip
from core import Core

class Pico(Chip):
    def breakpoint(self, core, code):  # semihosting
        what, at = core.arguments()[:2]
        if what != 4:
            self.stop("bootsel", "the end")
        print(bytes(core.uc.mem_read(at, 200)).split(b"\\0")[0].decode(), end="")
        core.state.pc += 2

def reading(core):
    readings.append(core.state.instructions)
    return 0

readings = []
Core.tick_value = reading
with open(sys.argv[3], "r+b") as file:
    pico = Pico(sys.argv[2], mmap.mmap(file.fileno(), 0), lambda data: None)
while pico.stopped is None:
    pico.run(10_000_000)
print(pico.stopped, file=sys.stderr)
with open(sys.argv[4], "w") as file:
    file.writelines(f"{n} 0 0\\n" for n in readings)
"""


def test_equal_to_qemu(tmp_path: Path) -> None:
    # One layer of each kernel and kind of window, of the four models.
    names = (
        "kws.conv1",
        "kws.dw3x3",
        "kws.pw",
        "kws.avg",
        "kws.fc",
        "softmax 12",
        "res.conv 3x3s2 32-64",
        "res.add 8x8",
        "vww.dw 3x3",
    )
    chosen = [layer for layer in layers.LAYERS if layer.name.startswith(names)]
    jobs = [layers.job(layer, "", M33.board) for layer in chosen]
    assert len(jobs) >= len(names)
    on_qemu = bare_metal.run(M33, bare_metal.build(M33), jobs, cycles="cortex_m4")

    code, flash, totals = tmp_path / "code.bin", tmp_path / "flash.bin", tmp_path / "totals"
    subprocess.run(["arm-none-eabi-objcopy", "-O", "binary", bare_metal.build(PICO2), code], check=True)
    image = bytearray(b"\xff" * (4 << 20))
    image[0x1000 : 0x1000 + code.stat().st_size] = code.read_bytes()
    image[:12] = image[0x1000:0x1008] + b"\xd3\xde\xff\xff"
    block = bare_metal._block(jobs)
    image[0x200000 : 0x200000 + len(block)] = block
    flash.write_bytes(image)
    script = [
        sys.executable,
        "-B",
        "-c",
        RUN,
        data_dir("boards") / "common" / "virtual",
        emulator.install(),
        flash,
        totals,
    ]
    done = subprocess.run(script, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and "the end" in done.stderr, done.stderr

    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[-1] == ["D"]
    steps = [line for line in lines if line[0] == "S"]
    assert [int(line[4], 16) for line in steps] == [value for r in on_qemu for value in r.hashes]
    counted = cycle_tables.steps(totals, [len(r.hashes) for r in on_qemu])
    for job, r, here in zip(jobs, on_qemu, counted, strict=True):
        assert [n / job.times for n, _, _ in here] == r.executed, job.name
        assert min(r.executed) > 100
