"""The Cortex-M33 of the virtual Pico 2 without MicroPython: nested exceptions, masks, SysTick, and what it does not model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mica.errors import MicaError
from mica.link import rp2350
from mica.resources import data_dir

HERE = Path(__file__).parent
FLAGS = ("-mcpu=cortex-m33", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-sp-d16", "-O1", "-ffreestanding", "-nostdlib")
RUN = """
import mmap, struct, sys
sys.path.insert(0, sys.argv[1])
from chip import Chip
with open(sys.argv[3], "r+b") as file:
    chip = Chip(sys.argv[2], mmap.mmap(file.fileno(), 0), lambda data: None)
while chip.stopped is None:
    if chip.run(100000):
        chip.clock.skip(chip.clock.idle_nanos)
count = struct.unpack_from("<I", chip.ram, 0x1000)[0]
print(chip.stopped)
print(*struct.unpack_from(f"<{count}I", chip.ram, 0x1004))
"""


def run(source: Path, folder: Path) -> list[str]:
    """What a program says, which runs from the start of flash until it stops itself."""
    elf, flash = folder / "a.elf", folder / "flash.bin"
    layout = ("-Wl,--section-start=.vectors=0x10000000", "-Wl,-Ttext=0x10000200", "-Wl,-e,reset")
    subprocess.run(["arm-none-eabi-gcc", *FLAGS, "-Wall", "-Wextra", *layout, source, "-o", elf], check=True)
    subprocess.run(["arm-none-eabi-objcopy", "-O", "binary", "--pad-to=0x10010000", elf, flash], check=True)
    script = [sys.executable, "-B", "-c", RUN, data_dir("boards") / "common" / "rp2350", rp2350.install(), flash]
    result = subprocess.run(script, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def test_exceptions_nest_by_priority(tmp_path: Path) -> None:
    why, order = run(HERE / "exceptions.c", tmp_path)
    assert "core 0: the firmware has stopped itself (bkpt 1)" in why
    # 46 is interrupted by 47, PendSV comes last, and s15 outlives all three; then PRIMASK; then BASEPRI; then five ticks.
    nested = [46, 47, 146, 14]
    assert [int(n) for n in order.split()] == [*nested, 77, 1, 47, 2, 47, 3, *nested, 4, 6]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("REG(0x40080000) = 1;", "core 0: writes 0x1 to register 0x0 of SPI0 (0x40080000), which is not modelled"),
        ("(void)REG(0x400a0004);", "core 0: reads register 0x4 of ADC (0x400a0004), which is not modelled"),
        ("REG(0x50200000) = 1;", "core 0: writes 0x1 to register 0x0 of PIO0 (0x50200000), which is not modelled"),
        ("REG(0x10000000) = 1;", "core 0: fault: access to 0x10000000"),
        ("REG(0xe000ed94) = 1;", "core 0: the memory protection unit (0xe000ed94) is not modelled"),
        ("REG(0xe0040000) = 1;", "core 0: the core's register 0xe0040000 is not modelled"),
        ('__asm volatile ("mcr p7, 0, r0, c0, c0");', "of coprocessor p7 is not modelled"),
    ],
)
def test_what_is_not_modelled_stops_with_its_name(code: str, said: str, tmp_path: Path) -> None:
    text = (HERE / "exceptions.c").read_text(encoding="utf-8")
    source = tmp_path / "a.c"
    source.write_text(text.replace("float kept = 1.5f;", f"float kept = 1.5f;\n    {code}"), encoding="utf-8")
    assert said in run(source, tmp_path)[0]


def test_without_unicorn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MicaError, match=r'unicorn is missing.*; pip install "mica\[emulators\]"'):
        rp2350.install()
