"""QEMU as a board: started directly, reached through a pseudo-terminal like any serial port."""

import contextlib
import os
import re
import select
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import BinaryIO

from mica.boards import BoardSpec
from mica.errors import MicaError
from mica.link import child
from mica.toolchain.process import need_program

# With `icount`: shift=0 makes every instruction one nanosecond of the board's time.
INSTRUCTIONS_A_SECOND = 1_000_000_000
_START_SECONDS = 10.0  # for QEMU to say where its port is


class Emulator(contextlib.AbstractContextManager["Emulator"]):
    """A running QEMU. `port` is the name of its serial port. Use as a context manager, or call close()."""

    def __init__(
        self,
        board: BoardSpec,
        image: Path,
        *,
        icount: bool = False,
        rom: bytes | None = None,
        tcp: int | None = None,
    ) -> None:
        """Start the board with an ELF image.

        With `icount` every instruction takes one nanosecond of the board's time, whatever the host does.
        `rom` is an image for its ROMFS.
        With `tcp` its port is on TCP, at this number or, for 0, at a free one; else it is a pseudo-terminal.
        """
        facts = board.emulator
        if facts is None or not facts.machine:
            raise MicaError(f"{board.name} cannot be emulated by QEMU")
        program = need_program(facts.program, facts.package)
        command = [program, "-machine", facts.machine, "-nographic", "-monitor", "none", "-semihosting"]
        command += ["-kernel", str(image), *facts.args]
        if icount:
            command += ["-icount", "shift=0"]
        if not image.is_file():
            raise MicaError(f"{image} is not there", todo=f"expected a file to run on {board.name}")
        self.name = board.name
        self._kept: int | None = None
        with contextlib.ExitStack() as stack:
            inherited = []
            if rom is not None:
                # A file without a name, open in QEMU: nothing to clean up, however we end.
                file = stack.enter_context(_nameless(rom))
                inherited.append(file.fileno())
                base = rom_window(board, len(rom))
                command += ["-device", f"loader,file=/dev/fd/{file.fileno()},addr={base:#x},force-raw=on"]
            if tcp is None:
                command += ["-serial", "pty"]
            else:
                # QEMU does not tell which port it was given, so it is given one that listens already.
                listener = stack.enter_context(_listener(tcp))
                inherited.append(listener.fileno())
                command += ["-chardev", f"socket,id=port,fd={listener.fileno()},server=on,wait=off"]
                command += ["-serial", "chardev:port"]
                host, number = listener.getsockname()
            self._process = child.start(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=inherited,
            )
        try:
            if tcp is None:
                self.port = self._find_port(_START_SECONDS)
            elif self.ends_within(0.5):
                self._find_port(0.1)
            else:
                self.port = f"socket://{host}:{number}"
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

    def notes(self) -> list[str]:
        """Messages of its sensors since the last call: it has none."""
        return []

    @property
    def last_words(self) -> str:
        """Why it has ended, where that is known."""
        return ""

    def alive(self) -> bool:
        return self._process.poll() is None

    def ends_within(self, seconds: float) -> bool:
        """True if it has ended, or ends within this time."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def close(self) -> None:
        self.release()
        child.stop(self._process)

    def __exit__(self, *error: object) -> None:
        self.close()


def _nameless(data: bytes) -> BinaryIO:
    file = tempfile.TemporaryFile(prefix="mica-")  # noqa: SIM115 - the caller's to close
    file.write(data)
    file.flush()
    return file


def _listener(port: int) -> socket.socket:
    """A socket that listens at a port of this computer only; 0 is a free one."""
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(1)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or "expected a number from 0 to 65535"
        raise MicaError(f"cannot listen at port {port}: {reason}") from None
    return listener


def rom_window(board: BoardSpec, size: int) -> int:
    """Address of the board's ROMFS, if an image of `size` bytes fits."""
    if board.romfs is None:
        raise MicaError(f"{board.name} has no ROMFS")
    if size > board.romfs.size:
        raise MicaError(f"the ROMFS image has {size:,} bytes; {board.name} has {board.romfs.size:,} for it")
    return board.romfs.base
