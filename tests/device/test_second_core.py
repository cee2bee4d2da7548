"""The second core of the virtual Pico: its start, its side of the SIO, its interrupts, its wait for a flash write."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from targets import PICO, PICO2

from mica.link.board import BoardError, Link
from mica.link.targets import open_board

HERE = Path(__file__).parent


class Chip(NamedTuple):
    """irqs: of the FIFO, of core 0 and core 1; psm: the power-on state machine; proc1: its bit of core 1."""

    core: str
    depth: int
    irqs: tuple[int, int]
    psm: int
    proc1: int


CHIPS = {
    PICO: Chip("cortex-m0plus", 8, (15, 16), 0x40010000, 16),
    PICO2: Chip("cortex-m33", 4, (25, 25), 0x40018000, 24),
}
FLAGS = ("-mthumb", "-Os", "-ffreestanding", "-nostdlib", "-Wall", "-Wextra", "-Werror")
STAYS = bytes.fromhex("fee7")  # b .

# Core 0's side. MicroPython's own handler of core 0's FIFO interrupt would take the answers.
ON_BOARD = """
import array, machine, time, uctypes

mem = machine.mem32
ST, WR, RD = 0xd0000050, 0xd0000054, 0xd0000058
mem[0xe000e180] = 1 << IRQ
stack = bytearray(1024)
counters = array.array("I", [0, 0, 0])
table = bytearray(512)
vectors = (uctypes.addressof(table) + 255) & ~255

def reset():
    mem[PSM + 0x2004] = 1 << PROC1
    off = mem[PSM + 0xc]
    while mem[ST] & 1:
        mem[RD]
    mem[PSM + 0x3004] = 1 << PROC1
    return off >> PROC1 & 1, mem[PSM + 0xc] >> PROC1 & 1, mem[ST] & 1, mem[RD]

def ask(word):
    mem[WR] = word
    asm_sev()
    from_ms = time.ticks_ms()
    while not mem[ST] & 1:
        if time.ticks_diff(time.ticks_ms(), from_ms) > 500:
            return "silence"
    return mem[RD] & 0xffffffff

@micropython.asm_thumb
def asm_sev():
    data(2, 0xbf40)

def start(entry):
    words = [0, 0, 1, vectors, uctypes.addressof(stack) + len(stack) & ~7, entry | 1]
    return [ask(w) for w in words] == words
"""


@pytest.fixture(scope="module", params=CHIPS)
def target(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def program(target: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, int]]:
    """core1.c: its code, and where its functions begin."""
    elf, code = (tmp_path_factory.mktemp("core1") / name for name in ("core1.elf", "core1.bin"))
    link = ("-fno-jump-tables", "-Wl,-Ttext=0", "-Wl,-e,entry", HERE / "core1.c", "-o", elf)
    chip = (f"-mcpu={CHIPS[target].core}", f"-DFIFO_IRQ={CHIPS[target].irqs[1]}")
    subprocess.run(["arm-none-eabi-gcc", *chip, *FLAGS, *link], check=True)
    subprocess.run(["arm-none-eabi-objcopy", "-O", "binary", "-j", ".text", elf, code], check=True)
    names = subprocess.run(["arm-none-eabi-nm", elf], check=True, capture_output=True, text=True).stdout
    return code.read_bytes(), {line.split()[2]: int(line.split()[0], 16) for line in names.splitlines()}


@pytest.fixture(scope="module")
def board(target: str, program: tuple[bytes, dict[str, int]]) -> Iterator[Link]:
    code, at = program
    chip = CHIPS[target]
    with open_board(target, rom_files={"stays.bin": STAYS * 64}) as board:
        board.exec(f"IRQ, PSM, PROC1 = {chip.irqs[0]}, {chip.psm}, {chip.proc1}\n{ON_BOARD}")
        board.put(code + bytes(16), "code")
        board.exec(f"at = {at}\nbase = uctypes.addressof(code)\nassert base % 4 == 0")
        board.exec(
            "for k in range(48): mem[vectors + 4 * k] = base + at['tick' if k == 15 else 'fifo_interrupt'] | 1\n"
            "mem[vectors] = uctypes.addressof(counters)"
        )
        yield board


def ask(board: Link, code: str) -> str:
    return board.exec(f"print(({code}))").decode().strip()


def test_start(board: Link) -> None:
    """Forced off it is not done; released it sends a 0; the boot ROM answers word by word,
    and begins again after a wrong one."""
    assert ask(board, "reset()") == "(0, 1, 1, 0)"
    assert ask(board, "ask(0), ask(0), ask(7), ask(0), ask(0), ask(1)") == "(0, 0, 7, 0, 0, 1)"
    assert ask(board, "reset(), start(base + at['entry'])") == "((0, 1, 1, 0), True)"
    assert ask(board, "ask(0), mem[0xd0000000]") == "(1, 0)"  # which core, asked of both
    assert ask(board, "reset(), ask(0), ask(0 << 24)") == "((0, 1, 1, 0), 0, 0)"  # the boot ROM again


def test_sio(board: Link, target: str) -> None:
    """Spinlocks are one set for both cores. (Its divider core 0 needs itself, between any two lines here.)"""
    assert ask(board, "reset()[3], start(base + at['entry'])") == "(0, True)"
    assert ask(board, "ask(1 << 24 | 9), mem[0xd0000124], mem[0xd000005c] >> 9 & 1") == "(512, 0, 1)"
    assert ask(board, "ask(2 << 24 | 9), mem[0xd0000124], ask(1 << 24 | 9)") == "(0, 512, 0)"
    board.exec("mem[0xd0000124] = 1")
    if target == PICO:  # the RP2350 has no divider there
        assert ask(board, "ask(3 << 24 | 3) - (1 << 32)") == "-333"


def test_fifo_edges(board: Link, target: str) -> None:
    """The FIFO is so many words deep; flags report a word too many and a read of a missing one until cleared."""
    depth = CHIPS[target].depth
    board.exec("reset()\nmem[PSM + 0x2004] = 1 << PROC1")  # off: nobody takes any
    assert ask(board, f"[mem[ST] >> 1 & 3 for mem[WR] in range({depth + 1})]") == str([1] * (depth - 1) + [0, 2])
    assert ask(board, "mem[RD], mem[ST] & 8, mem[0xe000e200] >> IRQ & 1") == "(0, 8, 1)"
    board.exec("mem[ST] = 0xff")
    assert ask(board, "mem[ST], mem[0xe000e200] >> IRQ & 1") == "(0, 0)"
    board.exec("mem[PSM + 0x3004] = 1 << PROC1")
    assert ask(board, "mem[RD], mem[ST]") == "(0, 2)"  # the boot ROM has drained it


def test_interrupts_and_sleep(board: Link) -> None:
    """SysTick, the vector table and the FIFO interrupt are core 1's own; asleep it executes nothing."""
    assert ask(board, "reset()[3], start(base + at['entry'])") == "(0, True)"
    assert ask(board, "ask(5 << 24 | 4), counters[0]") == "(4, 0)"
    assert ask(board, "ask(6 << 24) == vectors, ask(0), ask(0), counters[0] > 0") == "(True, 1, 1, True)"
    board.exec(
        "time.sleep_ms(2)\na = mem[0x4ff0000c], counters[2]\ntime.sleep_ms(20)\nb = mem[0x4ff0000c], counters[2]"
    )
    assert ask(board, "b[0] - a[0] < 2000, b[1] - a[1] < 20, a[0] > 0") == "(True, True, True)"


def test_threads(board: Link) -> None:
    """One thread beside the main program, which may start the next when it has ended."""
    board.exec("reset()\nmem[0xe000e100] = 1 << IRQ")
    said = board.exec(
        "import _thread\n"
        "done, lock = [], _thread.allocate_lock()\n"
        "def work(n):\n"
        "    for _ in range(n):\n"
        "        with lock:\n"
        "            total[0] += 1\n"
        "    done.append(_thread.get_ident())\n"
        "for k in range(3):\n"
        "    total = [0]\n"
        "    _thread.start_new_thread(work, (500,))\n"
        "    try:\n"
        "        _thread.start_new_thread(work, (1,))\n"
        "    except OSError as e:\n"
        "        print(e)\n"
        "    for _ in range(500):\n"
        "        with lock:\n"
        "            total[0] += 1\n"
        "    with open('/beside.txt', 'w') as f:\n"
        "        f.write('x' * 5000)\n"
        "    while len(done) <= k:\n"
        "        time.sleep_ms(1)\n"
        "    print(total, done, _thread.get_ident())\n"
    )
    assert said.decode().split("\n")[:-1] == [
        line for k in (1, 2, 3) for line in ("core1 in use", f"[1000] {[2] * k} 1")
    ]


def test_flash_is_not_written_while_the_other_core_reads_it(board: Link) -> None:
    """MicroPython does not know of this core, so it does not ask it to wait."""
    board.exec("spin = memoryview(open('/rom/stays.bin', 'rb'))\nmem[0xe000e180] = 1 << IRQ\nreset()")
    assert ask(board, "start(uctypes.addressof(spin)), uctypes.addressof(spin) >> 28") == "(True, 1)"
    with pytest.raises(BoardError, match="core 1 runs code in flash while the other core writes flash"):
        board.exec("with open('/w.txt', 'w') as f: f.write('x' * 5000)", timeout=10)
