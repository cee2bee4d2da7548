"""Register windows on XTENSA_WIN: registers of frames are kept, on the stack or not.

By day in short; `scripts/test --all` makes all 1,000 hooks and 500 interrupts, and plants every fault.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from targets import ALL, HAS_WINDOWS, WINDOWS, sampled
from usermod_models import build as build_models

from mica.boards import load_board
from mica.errors import MicaError
from mica.link.board import Link
from mica.link.emulated import EmulatedBoard
from mica.link.serial_board import SerialBoard
from mica.toolchain import sources, xtensa_cc
from mica.toolchain.build import BuildResult

Firmware = Callable[[str], BuildResult]
BOARD = WINDOWS
pytestmark = pytest.mark.skipif(not HAS_WINDOWS, reason="the compiler for register windows is of Debian")
VECTOR_OF_OVERFLOW = 0x80  # of a frame that has called by CALL8
STORES = {f"a{n}": 3 * at for n, at in enumerate((0, 2, 3, 4, 5, 6, 7, 8))}  # one of the instructions is a load
NOP = bytes((0xF0, 0x20, 0x00))
CALLX8 = bytes((0xE0, 0x08, 0x00))  # a8
KEEPER = Path(__file__).with_name("windows_keeper.c")

# Recursion 40 deep through C and Python in turn, with everything that may happen at its end; then objects that only a
# register of C knows while the next allocation collects garbage.
PROGRAM = """
import gc, mica
m = mica.Model(small)
want = m.predict([mica.Quantised(small_x)])
done = 0

def end():
    global done
    done += 1
    if done % 5 == 0:
        gc.collect()
    if done % 7 == 0:
        bytearray(1 << 29)
    if done % 11 == 0:
        raise ValueError(done)
    return done

def deep(n, *more):
    return sum([n, max(deep(n - 1, n, *more[:4]) for _ in range(1))]) if n else end()

def hook(layer):
    before = done
    try:
        assert deep(40, "a", layer, 2.5, bytes(3)) == 820 + done
    except MemoryError:
        assert done == before + 1 and done % 7 == 0
    except ValueError as error:
        assert error.args == (done,) and done == before + 1

with m.hook("*", before=hook):
    while done < hooks:
        assert m.predict([mica.Quantised(small_x)]) == want

gc.threshold(64)
last = []
for i in range(objects):
    numbers = list(range(i % 7))
    made = bytearray(b"%d" % i)
    last.append(([i] * 5, numbers, made, {"k": i, i: 2}, (1 << 70) * i, (i, i + 1) + (2,), lambda i=i: i))
    last = last[-9:]
    for j, (a, b, c, d, e, f, g) in enumerate(last, i + 1 - len(last)):
        assert a == [j] * 5 and b == list(range(j % 7)) and c == b"%d" % j and d == {"k": j, j: 2}
        assert e == (1 << 70) * j and f == (j, j + 1, 2) and g() == j
gc.threshold(-1)
assert m.predict([mica.Quantised(small_x)]) == want
print("whole", done >= hooks)
"""

INTERRUPTED = """
import mica
m = mica.Model(small)
want = m.predict([mica.Quantised(small_x)])
hits = 0
while hits < interrupts:
    try:
        print(".")
        while True:
            assert m.predict([mica.Quantised(small_x)]) == want
    except KeyboardInterrupt:
        hits += 1
        assert not m.arena.busy and m.predict([mica.Quantised(small_x)]) == want
print("whole")
"""


@pytest.fixture(scope="module")
def small() -> dict[str, bytes]:
    models = build_models()
    return {name: models[name] for name in ("small", "small_x")}


@pytest.fixture
def windows(firmware: Firmware, small: dict[str, bytes]) -> Iterator[SerialBoard]:
    with EmulatedBoard(load_board(BOARD), firmware(BOARD).image) as board:
        for name, data in small.items():
            board.put(data, name)
        assert isinstance(board, SerialBoard)
        yield board


def check(board: Link, hooks: int, objects: int, timeout: float) -> None:
    """Raise AssertionError or MicaError unless all goes well on a board that has the model."""
    assert board.exec(f"hooks, objects = {hooks}, {objects}" + PROGRAM, timeout=timeout) == b"whole True\n"


def test_hooks_and_objects(windows: SerialBoard) -> None:
    """Hooks, exceptions, failing allocations and collections 40 calls deep, and objects in the making: no wrong byte,
    before and after a soft reset."""
    check(windows, sampled(1000, 60), sampled(2000, 200), 600.0)
    small = {name: windows.get(name) for name in ("small", "small_x")}
    windows.soft_reset()
    for name, data in small.items():
        windows.put(data, name)
    check(windows, 20, 50, 60.0)


def test_interrupted_runs(windows: SerialBoard) -> None:
    """Ctrl-C at any place of a run, and the next run gives the same bytes."""
    said = bytearray()

    def interrupt(data: bytes) -> None:
        said.extend(data)
        for _ in range(data.count(b".")):
            time.sleep(0.001 * (len(said) % 17))
            windows._open_repl().serial.write(b"\x03")

    windows.exec_follow(f"interrupts = {sampled(500, 25)}" + INTERRUPTED, interrupt, timeout=60.0)
    assert said.endswith(b"whole\n") and said.count(b".") == sampled(500, 25)


def addresses(image: Path) -> Callable[[str], tuple[int, int]]:
    """Return what gives a symbol's address and its place in the file."""
    with image.open("rb") as file:
        elf = ELFFile(file)
        symbols = elf.get_section_by_name(".symtab")
        assert isinstance(symbols, SymbolTableSection)
        values = {symbol.name: symbol["st_value"] for symbol in symbols.iter_symbols()}
        loaded = [(s["p_vaddr"], s["p_filesz"], s["p_offset"]) for s in elf.iter_segments("PT_LOAD")]

    def find(name: str) -> tuple[int, int]:
        value = values[name]
        return value, next(value - at + offset for at, size, offset in loaded if 0 <= value - at < size)

    return find


def without_store(image: Path, register: str) -> bytes:
    """Return the firmware with a register that is not stored when a frame overflows."""
    data = bytearray(image.read_bytes())
    at = addresses(image)("xtensa_vectors")[1] + VECTOR_OF_OVERFLOW + STORES[register]
    assert data[at] >> 4 == int(register[1:]) and data[at + 2] == 0x49  # s32e
    data[at : at + 3] = NOP
    return bytes(data)


def without_spill(image: Path) -> bytes:
    """Return the firmware with a collector that leaves registers of its callers where they are: its first call goes."""
    data = bytearray(image.read_bytes())
    at = data.index(CALLX8, addresses(image)("gc_helper_collect_regs_and_stack")[1])
    data[at : at + 3] = NOP
    return bytes(data)


@pytest.mark.parametrize("register", STORES if ALL else ["a7"])
def test_a_register_that_is_not_stored_is_found(
    firmware: Firmware, small: dict[str, bytes], tmp_path: Path, register: str
) -> None:
    image = tmp_path / "firmware.elf"
    image.write_bytes(without_store(firmware(BOARD).image, register))
    with (
        pytest.raises((AssertionError, MicaError)),  # a board that ends at its start has no port
        EmulatedBoard(load_board(BOARD), image) as board,
    ):
        for name, data in small.items():
            board.put(data, name)
        check(board, 20, 200, 10.0)


def keeper(folder: Path, image: Path) -> bytes:
    """Return the native module of windows_keeper.c for a firmware."""
    find = addresses(image)
    collect = {"START": "gc_collect_start", "SEARCH": "gc_helper_collect_regs_and_stack", "END": "gc_collect_end"}
    calls = {**collect, "ALLOCATE": "gc_alloc", "SAY": "mp_hal_stdout_tx_strn"}
    flags = [
        "-Os",
        "-fpic",
        "-Wall",
        "-Wextra",
        "-Werror",
        *(f"-D{key}={find(name)[0]}" for key, name in calls.items()),
    ]
    compiler = xtensa_cc.compiler(folder)
    subprocess.run([compiler, *flags, "-c", "-o", folder / "keeper.o", KEEPER], check=True)
    (folder / "names.h").write_text("")
    linker = [sys.executable, str(sources.fetch() / "tools" / "mpy_ld.py"), "--arch", "xtensawin", "--qstrs", "names.h"]
    subprocess.run([*linker, "-o", "keeper.mpy", "keeper.o"], cwd=folder, check=True)
    return (folder / "keeper.mpy").read_bytes()


def test_pointers_in_windows_are_collected(firmware: Firmware, tmp_path: Path) -> None:
    """A block whose only pointer is in a register of a caller is kept, and lost when registers are not spilled."""
    whole = firmware(BOARD).image
    image = tmp_path / "firmware.elf"
    image.write_bytes(without_spill(whole))
    module = keeper(tmp_path, whole)
    for each, said in ((whole, b"kept\n"), (image, b"lost\n")):
        with EmulatedBoard(load_board(BOARD), each) as board:
            board.put(module, "_file")
            board.exec("with open('/keeper.mpy', 'wb') as f:\n    f.write(_file)")
            assert board.exec("import keeper") == said
