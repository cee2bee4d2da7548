"""The Cortex-M33 of the virtual Pico 2 without MicroPython: nested exceptions, masks, SysTick,
and what it does not model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mica.errors import MicaError
from mica.link import emulator
from mica.resources import data_dir

HERE = Path(__file__).parent
FLAGS = ("-mcpu=cortex-m33", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-sp-d16", "-O1", "-ffreestanding", "-nostdlib")
RUN = """
import mmap, struct, sys
sys.path.insert(0, sys.argv[1])
from rp2350 import Rp2350 as Chip
with open(sys.argv[3], "r+b") as file:
    chip = Chip(sys.argv[2], mmap.mmap(file.fileno(), 0), lambda data: None)
while chip.stopped is None:
    if chip.run(100000):
        chip.clock.skip(chip.clock.idle_nanos)
count = struct.unpack_from("<I", chip.ram, 0x1000)[0]
print(chip.stopped)
print(*struct.unpack_from(f"<{count}I", chip.ram, 0x1004))
by_block = (int(sum(m.blocks[what].sum() for m in chip.memories)) for what in ("instructions", "cycles"))
print(chip.first.state.instructions, chip.first.state.cycles, *by_block)
"""


def run(source: Path, folder: Path) -> list[str]:
    """Run a program from the start of flash until it stops itself; return why, its words, and its counts."""
    elf, flash = folder / "a.elf", folder / "flash.bin"
    layout = ("-Wl,--section-start=.vectors=0x10000000", "-Wl,-Ttext=0x10000200", "-Wl,-e,reset")
    subprocess.run(["arm-none-eabi-gcc", *FLAGS, "-Wall", "-Wextra", *layout, source, "-o", elf], check=True)
    subprocess.run(["arm-none-eabi-objcopy", "-O", "binary", elf, flash], check=True)
    flash.write_bytes(
        flash.read_bytes().ljust(0x10000, b"\xff")
    )  # whole pages; not every objcopy pads behind a section
    script = [sys.executable, "-B", "-c", RUN, data_dir("boards") / "common" / "virtual", emulator.install(), flash]
    result = subprocess.run(script, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def test_exceptions_nest_by_priority(tmp_path: Path) -> None:
    why, order, _ = run(HERE / "exceptions.c", tmp_path)
    assert "core 0: the firmware has stopped itself (bkpt 1)" in why
    # 46 is interrupted by 47, PendSV comes last, and s15 outlives all three; then PRIMASK; then BASEPRI;
    # then five ticks.
    nested = [46, 47, 146, 14]
    assert [int(n) for n in order.split()] == [*nested, 77, 1, 47, 2, 47, 3, *nested, 4, 6]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("REG(0x400c0000) = 1;", "core 0: writes 0x1 to register 0x0 of HSTX_CTRL (0x400c0000), which is not modelled"),
        ("REG(0x40080014) = 1;", "core 0: writes 0x1 to register 0x14 of SPI0 (0x40080014), which is not modelled"),
        ("(void)REG(0x400a0018);", "core 0: reads register 0x18 of ADC (0x400a0018), which is not modelled"),
        ("REG(0x50200000) = 1 << 24;", "writes 0x1000000 to register 0x0 of PIO0 (0x50200000), which is not modelled"),
        (
            "REG(0x50000010) = 59 << 17 | 1;",
            "writes 0x760001 to register 0x10 of DMA (0x50000010), which is not modelled",
        ),
        ("REG(0x10000000) = 1;", "core 0: fault: access to 0x10000000"),
        ("REG(0xe000ed94) = 1;", "core 0: the memory protection unit (0xe000ed94) is not modelled"),
        ("REG(0xe0040000) = 1;", "core 0: the core's register 0xe0040000 is not modelled"),
        ('__asm volatile ("mcr p7, 0, r0, c0, c0");', "of coprocessor p7 is not modelled"),
    ],
)
def test_what_is_not_modelled_stops_with_its_name(code: str, said: str, tmp_path: Path) -> None:
    assert said in run(with_code(code, tmp_path), tmp_path)[0]


def with_code(code: str, folder: Path) -> Path:
    """exceptions.c with more in it, and an end behind that."""
    text = (HERE / "exceptions.c").read_text(encoding="utf-8")
    source = folder / "a.c"
    more = f'float kept = 1.5f;\n    {code}\n    __asm volatile ("bkpt 2");'
    source.write_text(text.replace("float kept = 1.5f;", more), encoding="utf-8")
    return source


def test_registers_work_at_once_with_both_cores(tmp_path: Path) -> None:
    """A reset of core 1, an interrupt and an alarm, written at any place of a turn: a thread outlived a soft reset."""
    why, counts, _ = run(HERE / "turns.c", tmp_path)
    assert "core 0: the firmware has stopped itself (bkpt 1)" in why
    assert counts == "0 0 0 1"  # none too late; and core 1 did run


def test_counts(tmp_path: Path) -> None:
    """Instructions to the unit, and cycles as the table has them: a loop of 7 instructions,
    a load and a store among them."""
    loop = "1: ldr r1, [r2]\\n adds r1, #1\\n str r1, [r2]\\n smlad r3, r1, r1, r3\\n udiv r1, r1, r3\\n "
    loop += "subs r0, #1\\n bne 1b"
    counts = []
    for turns in (100, 250):
        code = f'__asm volatile ("movs r0, #{turns}\\n mov r2, sp\\n movs r3, #1\\n {loop}" : : : '
        code += '"r0", "r1", "r2", "r3", "memory");'
        counts.append([int(n) for n in run(with_code(code, tmp_path), tmp_path)[2].split()])
    (few, few_cycles, *few_by_block), (many, many_cycles, *many_by_block) = counts
    assert many - few == 150 * 7 and (few, many) == (few_by_block[0], many_by_block[0])
    assert many_cycles - few_cycles == 150 * (2 + 1 + 1 + 1 + 12 + 1 + 1 + 2)  # a branch taken costs 2 more
    assert many_by_block[1] - few_by_block[1] == many_cycles - few_cycles


def test_without_unicorn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MicaError, match=r'unicorn is missing.*; pip install "mica-mcu\[emulators\]"'):
        emulator.install()
