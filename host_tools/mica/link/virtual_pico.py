"""The virtual Picos: images for a real RPI_PICO or RPI_PICO2, run by the emulator in boards/common/virtual.

    firmware.uf2 -> flash file -> run.py ... FLASH PORT SENSORS <- TCP: the board's USB serial port
                                  stdin/stdout: questions, such as for the number of cycles; what sensors say

Flash is a file, so files on the board and its ROMFS outlive it.
"""

import contextlib
import os
import select
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from mica.boards import BoardSpec
from mica.errors import MicaError
from mica.images import uf2
from mica.link import child, emulator
from mica.link.qemu import Emulator, rom_window
from mica.link.sensors import Sensors
from mica.toolchain.cache import Progress, cache_dir, quiet

FLASH_BASE = 0x10000000
_START = 60.0  # seconds for the emulator to listen, and for the board to reach its prompt

# Where the board itself reads its cycle counter, as MicroPython: a list [low word, high word]. See chip.py's Counters.
CYCLES_ON_BOARD = 0x4FF00000
INSTRUCTIONS_ON_BOARD = CYCLES_ON_BOARD + 0x14  # a Pico 2's: low word, high word
BLOCKS_ON_BOARD = CYCLES_ON_BOARD + 0x20  # see VirtualPico.blocks()
WAITS_ON_BOARD = CYCLES_ON_BOARD + 0x28  # cycles in which core 0 waited for flash: low word, high word; then core 1
MEMORIES = ("waits", "ideal")


class Cycles(NamedTuple):
    """Cycles executed since power-on, the board's time, and how long the emulator took for them (both in seconds)."""

    executed: int
    board_seconds: float
    busy_seconds: float


# --- flash ----------------------------------------------------------------------------------------------


def default_flash(name: str) -> Path:
    """$MICA_FLASH, else a file in the cache: one board of this name for each user."""
    if "MICA_FLASH" in os.environ:
        return Path(os.environ["MICA_FLASH"])
    return cache_dir() / "flash" / f"{name}.bin"


def memory() -> str:
    """$MICA_MEMORY: `waits`, as the chip's flash and its cache do, or `ideal`, where no access takes longer than RAM's.
    Raises MicaError."""
    how = os.environ.get("MICA_MEMORY") or MEMORIES[0]
    if how not in MEMORIES:
        raise MicaError(f"MICA_MEMORY={how}: expected {' or '.join(MEMORIES)}")
    return how


def _open_flash(path: Path, name: str, bytes_of_it: int) -> IO[bytes]:
    """Open the flash file, erased when new, and lock it. The lock ends with the file object, or the process."""
    import fcntl

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("r+b" if path.exists() else "w+b")
    except OSError as error:
        raise MicaError(f"{path}: cannot be used as flash: {error.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise MicaError(
            f"{path}: another virtual {name} runs with this flash", todo="end it, or name another file in MICA_FLASH"
        ) from None
    size = file.seek(0, os.SEEK_END)
    if size == 0:
        file.write(b"\xff" * bytes_of_it)
        file.flush()
    elif size != bytes_of_it:
        file.close()
        raise MicaError(
            f"{path}: has {size} bytes, a {name}'s flash has {bytes_of_it}", todo="remove it to begin again"
        )
    return file


def _write_flash(file: IO[bytes], address: int, data: bytes, where: str) -> None:
    """Put data where the board will see it at `address`."""
    offset = address - FLASH_BASE
    if offset < 0 or offset + len(data) > file.seek(0, os.SEEK_END):
        raise MicaError(f"{where}: {len(data)} bytes at {address:#x} lie outside of flash")
    file.seek(offset)
    if file.read(len(data)) != data:
        file.seek(offset)
        file.write(data)


# --- the emulator ---------------------------------------------------------------------------------------


class VirtualPico(Emulator):
    """A running virtual Pico. `port` is where its USB serial port is. Use as a context manager, or call close()."""

    def __init__(
        self,
        board: BoardSpec,
        image: Path | None,
        *,
        rom: bytes | None = None,
        tcp: int | None = None,
        flash: Path | None = None,
        keep_flash: bool = True,
        sensors: Sensors | None = None,
        progress: Progress = quiet,
    ) -> None:
        """Start the board with a UF2 image; with None, as its flash is.

        `rom` is an image for its ROMFS. Its port is on TCP, at number `tcp`, or at a free one for 0 and None.
        `flash` is the file that keeps its flash; without `keep_flash` nothing does. `sensors` are wired to it;
        what they say is in `notes`.
        """
        self.name = board.target
        self._kept = None
        self._last_words = ""
        self._traceback = False
        self._text = b""
        self._notes: list[str] = []
        if image is not None and not image.is_file():
            raise MicaError(f"{image} is not there", todo=f"expected a file to run on {self.name}")
        self.elf = image.with_suffix(".elf") if image else Path()  # beside an image that mica has built
        # Once the emulator has it open, a file that is not kept needs no name.
        with contextlib.ExitStack() as stack:
            if not keep_flash:
                flash = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mica-"))) / "flash.bin"
            self._flash = _open_flash(flash or default_flash(self.name), board.name, board.flash)
            # The emulator has read what the sensors give when it says its port.
            wires = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mica-")))
            wired = (sensors or Sensors()).description(wires)
            self._start(
                board, image, rom, emulator.command(board, self._flash.name, tcp or 0, wired, memory(), progress)
            )

    def _start(self, board: BoardSpec, image: Path | None, rom: bytes | None, command: list[str | Path]) -> None:
        try:
            if image is not None:
                for block in uf2.parse(image.read_bytes(), str(image)):
                    _write_flash(self._flash, block.address, block.data, str(image))
            if rom is not None:
                _write_flash(self._flash, rom_window(board, len(rom)), rom, "the ROMFS image")
            self._flash.flush()
            self._process = child.start(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
        except BaseException:
            self._flash.close()
            raise
        try:
            self.port = f"socket://127.0.0.1:{self._answer('port', _START)[0]}"
            # A Ctrl-C while it starts would end what mounts its files. A main.py that never waits is not waited for.
            with contextlib.suppress(TimeoutError):
                self._answer("idle", _START)
        except BaseException as error:
            self.close()
            if isinstance(error, TimeoutError):
                raise MicaError(f"{self.name} did not start; it said: {self.last_words or 'nothing'}") from None
            raise

    def keep_connected(self) -> None:
        """Nothing: unlike a pseudo-terminal, its port notices who comes."""

    def cycles(self) -> Cycles:
        """Ask for the cycle counter."""
        executed, nanos, busy = self._ask("cycles")
        return Cycles(int(executed), int(nanos) / 1e9, float(busy))

    def blocks(self) -> np.ndarray:
        """Address, instructions and cycles of each block of code that a Pico 2 ran between its last two writes to
        BLOCKS_ON_BOARD."""
        with tempfile.TemporaryDirectory(prefix="mica-") as folder:
            self._ask(f"blocks {folder}/blocks.npy")
            found: np.ndarray = np.load(f"{folder}/blocks.npy")
        return found

    def _ask(self, question: str) -> list[str]:
        """The words of the emulator's answer, which begins as the question does."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{question}\n".encode())
            self._process.stdin.flush()
            return self._answer(question.split()[0], _START)
        except (OSError, TimeoutError):
            raise MicaError(f"{self.name}: the emulator does not answer") from None

    def notes(self) -> list[str]:
        """Messages of the sensors since the last call."""
        with contextlib.suppress(TimeoutError, MicaError):
            self._answer("", 0)
        notes, self._notes = self._notes, []
        return notes

    @property
    def last_words(self) -> str:
        """Why it has ended, as far as it said."""
        with contextlib.suppress(TimeoutError, MicaError):
            self._answer("", 0)
        return self._last_words

    def _answer(self, kind: str, seconds: float) -> list[str]:
        """The words after `kind` in the next such line. Raises TimeoutError, or MicaError when it has ended."""
        stream = self._process.stdout
        assert stream is not None
        end = time.monotonic() + seconds
        while True:
            line, newline, rest = self._text.partition(b"\n")
            if newline:
                self._text = rest
                words = line.decode(errors="replace").split(" ")
                if words[0] == kind:
                    return words[1:]
                if words[0] in ("error", "crash", "firmware", "bootsel"):
                    self._last_words = " ".join(words[1:])
                elif words[0] == "sensor":
                    self._notes.append(" ".join(words[1:]))
                elif words[0] not in ("port", "idle", "reset", "cycles", "blocks"):
                    # Of a Python traceback the last line says it, of all else the first.
                    if not self._last_words or self._traceback:
                        self._last_words = " ".join(words)
                    self._traceback |= self._last_words.startswith("Traceback (most recent")
                continue
            if not select.select([stream], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError
            new = os.read(stream.fileno(), 4096)
            if not new:
                raise MicaError(f"{self.name}: {self._last_words or 'the emulator has ended'}")
            self._text += new

    def close(self) -> None:
        super().close()
        self._flash.close()
