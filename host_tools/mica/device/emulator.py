"""Boards emulated by QEMU: started directly, reached through a pseudo-terminal like any serial port."""

import contextlib
import os
import re
import select
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType

from mica.boards import Board as BoardFacts
from mica.device import child
from mica.device.process import need_program
from mica.device.serial_board import SerialBoard
from mica.device.transport import SILENCE, BoardError, PutProgress
from mica.errors import MicaError


class Emulator:
    """A running QEMU. `port` is the name of its serial port. Use as a context manager, or call close()."""

    def __init__(
        self, board: BoardFacts, image: Path, *, icount: bool = False, load: Sequence[tuple[Path, int]] = ()
    ) -> None:
        """Start the board with an ELF image.

        With `icount` every instruction takes one nanosecond of the board's time, whatever the host does. `load` puts
        files into the board's memory at the given addresses.
        """
        facts = board.emulator
        if facts is None or not facts.machine:
            raise MicaError(f"{board.name} cannot be emulated by QEMU")
        program = need_program(facts.program, facts.package)
        command = [program, "-machine", facts.machine, "-nographic", "-monitor", "none", "-semihosting"]
        command += ["-serial", "pty", "-kernel", str(image), *facts.args]
        if icount:
            command += ["-icount", "shift=0"]
        for path in (image, *(path for path, _ in load)):
            if not path.is_file():
                raise MicaError(f"{path} is not there; wanted a file to run on {board.name}")
        for path, address in load:
            command += ["-device", f"loader,file={str(path).replace(',', ',,')},addr={address:#x},force-raw=on"]
        self.name = board.name
        self._kept: int | None = None
        self._process = child.start(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            self.port = self._find_port(10.0)
        except BaseException:
            self.close()
            raise

    def keep_connected(self) -> None:
        """Hold the port open, without reading, until `release`.

        QEMU looks only once a second whether somebody has opened a port that was closed, unless the board prints
        just then. Held open before the board's first words, it is never found closed.
        """
        self._kept = os.open(self.port, os.O_RDWR | os.O_NOCTTY)

    def release(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            os.close(kept)

    def _find_port(self, seconds: float) -> str:
        """Wait for QEMU to say the name of its pseudo-terminal."""
        stream = self._process.stdout
        assert stream is not None
        text = b""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([stream], [], [], 0.1)[0]:
                new = stream.read1(4096)  # type: ignore[attr-defined]
                text += new
                match = re.search(rb"char device redirected to (\S+)", text)
                if match:
                    return match[1].decode()
                if not new:
                    break
        said = text.decode(errors="replace").strip() or "nothing"
        raise MicaError(f"QEMU did not start {self.name}; it said: {said}")

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return self._process.poll() is None

    def ended(self, within: float) -> bool:
        """Whether it has ended, or does so in the next seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(within)
        return not self.alive()

    def close(self) -> None:
        self.release()
        child.stop(self._process)

    def __enter__(self) -> "Emulator":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class EmulatedBoard(SerialBoard):
    """An emulated board with its emulator; both end together."""

    def __init__(
        self, board: BoardFacts, image: Path, *, icount: bool = False, load: Sequence[tuple[Path, int]] = ()
    ) -> None:
        self.emulator = Emulator(board, image, icount=icount, load=load)
        try:
            self.emulator.keep_connected()
            # It has just been switched on: no reset needed.
            super().__init__(self.emulator.port, name=board.name, reset=False)
            self.emulator.release()
        except BaseException:
            self.emulator.close()
            raise

    def exec_follow(self, code: str, on_data: Callable[[bytes], object], timeout: float | None = SILENCE) -> None:
        with self._alive():
            super().exec_follow(code, on_data, timeout)

    def put(self, data: bytes, name: str, progress: PutProgress | None = None) -> None:
        with self._alive():
            super().put(data, name, progress)

    @contextlib.contextmanager
    def _alive(self) -> Iterator[None]:
        """Say so when it is the emulator that has gone, rather than blame the line."""
        try:
            yield
        except BoardError as error:
            # A traceback came from a board that lives. Otherwise the line may break a moment before its process ends.
            if self._repl is not None and not error.traceback and self.emulator.ended(within=1.0):
                raise BoardError(f"{self.name}: the emulator has ended") from None
            raise

    def close(self) -> None:
        try:
            super().close()
        finally:
            self.emulator.close()
