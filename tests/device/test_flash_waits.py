"""Flash of the virtual Picos takes its time: words that the cache lacks, the cache's registers, the stream,
and `ideal` memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from targets import PICO, PICO2

from mica.link.board import Link
from mica.link.targets import open_board
from mica.link.virtual_pico import FLASH_BASE, WAITS_ON_BOARD


class Chip(NamedTuple):
    """miss: cycles of a word or line that the cache lacks; next: of one that follows it at once;
    fills: bytes that come."""

    miss: int
    next: int
    fills: int
    stream: int  # cycles of a word
    again: int  # cycles more, where the last access was just before elsewhere

    def misses(self, found: list[int]) -> list[bool | None]:
        """True for a miss alone, False for a hit, None for anything else."""
        return [{0: False, self.miss: True, self.miss + self.again: True}.get(n) for n in found]


CHIPS = {PICO: Chip(40, 40, 4, 40, 0), PICO2: Chip(56, 32, 8, 16, 1)}
XIP = {PICO: 0x14000000, PICO2: 0x400C8000}
KB = 1024
WAY = 8 * KB
FREE = 0x80000  # an offset in flash where no code lies
PRELUDE = f"""
import machine, uctypes, array
mem = machine.mem32
XIP, FREE, WAY = 0x14000000, {FLASH_BASE + FREE}, {WAY}

# Reads n words, `stride` bytes apart; cycles that it waits for them.
@micropython.asm_thumb
def _reads(r0, r1, r2, r3):
    ldr(r4, [r3, 0])
    label(MORE)
    ldr(r5, [r0, 0])
    add(r0, r0, r1)
    sub(r2, r2, 1)
    bgt(MORE)
    ldr(r5, [r3, 0])
    sub(r0, r5, r4)

def reads(at, stride, n):
    return _reads(at, stride, n, {WAITS_ON_BOARD})

def one(at):
    return reads(at, 0, 1)
"""


@pytest.fixture(scope="module", params=CHIPS)
def target(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def board(target: str) -> Iterator[Link]:
    with open_board(target) as board:
        board.exec(PRELUDE)
        yield board


@pytest.fixture(scope="module")
def chip(target: str) -> Chip:
    return CHIPS[target]


@pytest.fixture
def ask(board: Link) -> Callable[[str], Any]:
    return lambda code: json.loads(board.exec(code))


def test_one_missing_word(ask: Callable[[str], Any], chip: Chip) -> None:
    """40 cycles on a Pico, where 40 to 50 were measured; a hit costs nothing."""
    found = ask("at = FREE + 0x1230\none(at + WAY)\none(at + 2 * WAY)\nprint([one(at), one(at), one(at)])")
    assert chip.misses(found) == [True, False, False]


def test_what_a_miss_brings(ask: Callable[[str], Any], chip: Chip) -> None:
    found = ask(
        "at = FREE + 0x2340\nfor k in (1, 2): one(at + k * WAY); one(at + k * WAY + 4)\nprint([one(at), one(at + "
        "4), one(at + 8)])"
    )
    assert chip.misses(found) == [True, chip.fills == 4, True]


def test_weights_in_a_row(ask: Callable[[str], Any], chip: Chip) -> None:
    """Data of four times the cache's size, each word once."""
    words = 16 * KB
    fills = 4 * words // chip.fills
    found = ask(f"reads(FREE, 4, 4096)\nprint(reads(FREE + {64 * KB}, 4, {words}))")
    assert chip.next * fills <= found <= chip.next * fills + 50 * chip.miss


def test_the_way_used_last_stays(ask: Callable[[str], Any], chip: Chip) -> None:
    found = ask("at = FREE + 0x3450\nprint([one(at + WAY * k) for k in (4, 5, 6, 5, 7, 5, 6)])")
    assert chip.misses(found) == [True, True, True, False, True, False, True]


FLUSH = {PICO: "mem[XIP + 4] = 1\nmem[XIP + 4]", PICO2: f"machine.mem8[0x18000002 + {FREE} + 0x120] = 0"}


def test_flush(ask: Callable[[str], Any], chip: Chip, target: str) -> None:
    """All of it on an RP2040, a line by its address on an RP2350."""
    found = ask(f"at = FREE + 0x120\none(at)\nbefore = one(at)\n{FLUSH[target]}\nprint([before, one(at), one(at)])")
    assert chip.misses(found) == [False, True, False]


def test_aliases(ask: Callable[[str], Any], chip: Chip, target: str) -> None:
    """RP2040: 0x11 looks up, keeps nothing new. 0x12: looks nothing up, and keeps. 0x13: neither.
    RP2350: 0x14 neither."""
    fresh = "at = FREE + 0x560\nfor k in (1, 2): one(at + k * WAY)\n"
    if target == PICO2:
        missed, hit, *words = ask(fresh + "print([one(at), one(at), one(at + 0x4000000), one(at + 0x4000000)])")
        assert chip.misses([missed, hit]) == [True, False] and all(40 <= n <= 41 for n in words)
        return
    reads = [1, 1, 0, 1, 2, 3, 0]
    found = ask(f"{fresh}print([one(at + (k << 24)) for k in {reads}])")
    assert chip.misses(found) == [True, True, True, False, True, True, False]
    found = ask(f"{fresh}print([one(at + (k << 24)) for k in (3, 2, 0)])")
    assert chip.misses(found) == [True, True, False]


def test_widths(ask: Callable[[str], Any], board: Link, target: str) -> None:
    """Bytes, halves and, on an M33, words at any address read what is there."""
    at = FLASH_BASE + 0x200
    plain = ask(f"print(list(uctypes.bytearray_at({at}, 64)))")
    halves = ask(f"print([machine.mem16[{at} + 2 * k] for k in range(32)])")
    assert halves == [plain[2 * k] | plain[2 * k + 1] << 8 for k in range(32)]
    if target == PICO2:
        found = ask(f"import struct\nb = uctypes.bytearray_at({at}, 64)\nprint([list(b[k:k + 9]) for k in range(9)])")
        assert found == [plain[k : k + 9] for k in range(9)]
        board.exec("""
@micropython.asm_thumb
def unaligned(r0):
    ldr(r0, [r0, 0])
    lsr(r0, r0, 2)
""")
        found = ask(f"print([unaligned({at} + k) for k in range(13)])")
        assert found == [int.from_bytes(bytes(plain[k : k + 4]), "little") >> 2 for k in range(13)]


def test_counters(ask: Callable[[str], Any], board: Link, target: str) -> None:
    """CTR_HIT and CTR_ACC count what is read between two looks from code in RAM."""
    code = f"""
@micropython.asm_thumb
def counted(r0, r1, r2, r3):
    mov(r4, 0)
    str(r4, [r3, 0x0c])
    str(r4, [r3, 0x10])
    label(MORE)
    ldr(r5, [r0, 0])
    add(r0, r0, r1)
    sub(r2, r2, 1)
    bgt(MORE)
    ldr(r0, [r3, 0x0c])
    ldr(r1, [r3, 0x10])
    lsl(r1, r1, 12)
    add(r0, r0, r1)

for k in (1, 2): reads(FREE + 0x800 + k * WAY, 8, 50)
found = [counted(FREE + 0x800, 8, 50, {XIP[target]}) for k in range(2)]
print([[n & 0xfff, n >> 12] for n in found])
"""
    first, second = ask(code)
    assert first == [0, 50] and second[1] == 50 and second[0] >= 45  # MicroPython's code came in between


def test_code_waits(board: Link, target: str) -> None:
    """MicroPython runs from flash, so a program that does little waits for some of it;
    a second turn of a small loop for none."""
    code = """
def turns(n):
    k = 0
    while k < n:
        k += 1
turns(1000)
from_all, from_waits = mem[0x4ff00004], mem[WAITS]
turns(1000)
print([mem[0x4ff00004] - from_all, mem[WAITS] - from_waits])
"""
    cycles, waits = json.loads(board.exec(code.replace("WAITS", str(WAITS_ON_BOARD))))
    assert 0 < waits < cycles / 4


# Fetches n words by the stream and DMA; a loop in RAM meanwhile counts cycles, and reads `k` words of flash itself.
STREAM = """
@micropython.asm_thumb
def _go(r0, r1, r2, r3):  # stream's registers, words, address to read, the count of DMA
    push({r0})
    mov(r6, 0)
    mov(r7, r3)
    mov(r4, 0x4f)
    lsl(r4, r4, 8)
    add(r4, 0xf0)
    lsl(r4, r4, 16)
    ldr(r5, [r4, 4])
    str(r1, [r0, 0x18])
    label(MORE)
    cmp(r2, 0)
    beq(POLL)
    ldr(r6, [r2, 0])
    mov(r3, 1)
    lsl(r3, r3, 10)
    add(r2, r2, r3)
    label(POLL)
    ldr(r6, [r7, 0])
    cmp(r6, 0)
    bne(MORE)
    ldr(r0, [r4, 4])
    sub(r0, r0, r5)
    pop({r1})

def stream(at, n, reading=0):
    into = array.array("I", [0] * n)
    dma = 0x50000000 + 5 * 0x40
    mem[STREAM + 0x14] = at
    mem[dma], mem[dma + 4], mem[dma + 8] = AUX, uctypes.addressof(into), n
    mem[dma + 12] = CTRL
    passed = _go(STREAM, n, reading, dma + 8)
    wanted = array.array("I", uctypes.bytearray_at(at, 4 * n))
    return [passed, int(into == wanted), mem[STREAM + 0x18], mem[STREAM + 8] & 6, mem[STREAM + 0x14] - at]
"""
DMA_OF_STREAM = {
    PICO: (0x50400000, 1 | 2 << 2 | 1 << 5 | 5 << 11 | 37 << 15),
    PICO2: (0x50500000, 1 | 2 << 2 | 1 << 6 | 5 << 13 | 49 << 17),
}


def stream_code(target: str, code: str = STREAM) -> str:
    aux, control = DMA_OF_STREAM[target]
    return code.replace("STREAM", str(XIP[target])).replace("AUX", str(aux)).replace("CTRL", str(control))


def test_stream_by_dma(board: Link, chip: Chip, target: str) -> None:
    """All words come, in their time; reads of flash come first, and the stream takes what they leave of the bus."""
    board.exec(stream_code(target))
    passed, equal, left, fifo, moved = json.loads(board.exec("print(stream(0x10000100, 600))"))
    assert (equal, left, fifo, moved) == (1, 0, 2, 2400)
    assert 600 * chip.stream <= passed <= 600 * chip.stream + 400
    slower, equal, left, fifo, moved = json.loads(board.exec("print(stream(0x10000100, 600, FREE))"))
    assert (equal, left, fifo, moved) == (1, 0, 2, 2400)
    assert slower > 1.9 * passed  # each read in the loop takes the bus once


FULL_FIRST = """
@micropython.asm_thumb
def _start(r0, r1, r2):  # DMA's channel, what starts it, how often to look; returns the count that is left
    str(r1, [r0, 12])
    label(MORE)
    ldr(r3, [r0, 8])
    cmp(r3, 0)
    beq(END)
    sub(r2, r2, 1)
    bgt(MORE)
    label(END)
    mov(r0, r3)

def full_first(at, n):
    into = array.array("I", [0] * n)
    dma = 0x50000000 + 5 * 0x40
    mem[STREAM + 0x14], mem[STREAM + 0x18] = at, n
    while not mem[STREAM + 8] & 4:
        pass
    mem[dma], mem[dma + 4], mem[dma + 8] = AUX, uctypes.addressof(into), n
    irq = machine.disable_irq()  # so that nothing reads flash meanwhile
    left = _start(dma, CTRL, 20000)
    machine.enable_irq(irq)
    return [left, int(into == array.array("I", uctypes.bytearray_at(at, 4 * n)))]
"""


def test_a_stream_before_its_dma(board: Link, target: str) -> None:
    """The FIFO is full when DMA begins to read it. That starts the stream again: nobody reads its registers."""
    assert json.loads(board.exec(f"{stream_code(target, FULL_FIRST)}\nprint(full_first(0x10000200, 300))")) == [0, 1]


BOTH_CORES = """
import _thread, time

@micropython.asm_thumb
def summed(r0, r1):  # words
    mov(r2, 0)
    label(MORE)
    ldr(r3, [r0, 0])
    add(r0, 4)
    add(r2, r2, r3)
    sub(r1, 1)
    bgt(MORE)
    lsr(r0, r2, 2)

def on_core_1():
    found.append(summed(0x10140000, 16384))

def both():
    before = mem[WAITS]
    alone = [summed(0x10120000, 16384), summed(0x10140000, 16384)]
    between = mem[WAITS]
    _thread.start_new_thread(on_core_1, ())
    together = summed(0x10120000, 16384)
    after = mem[WAITS]
    while not found:
        time.sleep_ms(1)
    return [alone == [together, found[0]], 2 * (after - between) / (between - before)]
found = []
print(both())
"""


def test_two_cores_at_the_bus(board: Link) -> None:
    """Both read flash that no cache has room for: right words on both, and each waits for the other too."""
    equal, more = board.exec(BOTH_CORES.replace("WAITS", str(WAITS_ON_BOARD))).decode().strip("[]\r\n ").split(", ")
    assert equal == "True" and 1.2 < float(more) < 2.5


ROM = """
import struct
half, byte = machine.mem16, machine.mem8

@micropython.asm_thumb
def _call(r0, r1, r2, r3):  # a function of two words, its arguments, the counter
    mov(r7, r3)
    mov(r6, r0)
    mov(r0, r1)
    mov(r1, r2)
    ldr(r5, [r7, 0])
    bl(GO)
    ldr(r1, [r7, 0])
    sub(r1, r1, r5)
    b(END)
    label(GO)
    bx(r6)
    label(END)
    mov(r0, r1)

def of_table(at, code):
    while mem[at]:
        if half[at] == code[0] | code[1] << 8:
            return mem[at + 4]
        at += 8

nothing = of_table(half[0x14], b"IF")
bits = lambda x: struct.unpack("<i", struct.pack("<f", x))[0]

def cost(table, k, a, b):
    fn = mem[of_table(half[0x16], table) + 4 * k]
    found = 0
    for n in range(100):  # one by one at first, then translated
        took = _call(fn, a, b, 0x4ff00004) - _call(nothing, a, b, 0x4ff00004)
        if n and took != found:
            return [took, found]
        found = took
    return found
"""


def test_floats_cost_what_the_chip_takes(target: str, board: Link) -> None:
    """A call into the ROM's tables, beside one of a function that only returns; also where one calls another."""
    if target != PICO:
        pytest.skip("an RP2350 has a unit for floats")
    board.exec(ROM)
    calls = (
        "[cost(b'SF', k, bits(7.5), bits(2.5)) for k in (0, 1, 2, 3, 7, 27)] + [cost(b'SD', k, 0, 0) for k in (0, 31)]"
    )
    found = json.loads(board.exec(f"print({calls})"))
    returns = 2
    assert [n + returns for n in found] == [70, 73, 56, 69, 38, 63, 88, 23]
    assert json.loads(board.exec("print([7.5 + 2.5, 7.5 - 2.5, 7.5 * 2.5, 7.5 / 2.5])")) == [10.0, 5.0, 18.75, 3.0]


def test_ideal(monkeypatch: pytest.MonkeyPatch, target: str, tmp_path: Path) -> None:
    monkeypatch.setenv("MICA_MEMORY", "ideal")
    monkeypatch.setenv("MICA_FLASH", str(tmp_path / "flash.bin"))
    with open_board(target) as board:
        board.exec(PRELUDE)
        assert json.loads(board.exec(f"print([one(FREE), reads(FREE, 4, 5000), mem[{WAITS_ON_BOARD}]])")) == [0, 0, 0]
        board.exec(stream_code(target))
        passed, equal, *_ = json.loads(board.exec("print(stream(0x10000100, 600))"))
        assert equal == 1 and passed < 600 * CHIPS[target].stream / 2
