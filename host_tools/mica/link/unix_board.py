"""MicroPython's unix port as a board: a child process that executes what comes through a pipe.

Two pipes of our own carry requests and answers, so stdin and stdout belong to the program on the board, and
output, exceptions and binary data cannot be mixed up.
"""

import binascii
import contextlib
import os
import select
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from mica.boards import BoardSpec
from mica.link import child, on_board
from mica.link.board import SILENCE, BoardError, Link, PutProgress, board_exception, check_name


class UnixBoard(Link):
    """MicroPython on this computer. Its current folder is a temporary one that lives as long as the board."""

    def __init__(self, board: BoardSpec, image: Path) -> None:
        self.name = board.name
        self._command = [str(image), *(board.emulator.args if board.emulator else ())]
        # It is removed at the end of the process, too, however that ends.
        self._folder = tempfile.TemporaryDirectory(prefix="mica-", ignore_cleanup_errors=True)
        self._files = self._folder.name
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        their_requests, self._requests = os.pipe()
        self._answers, their_answers = os.pipe()
        try:
            self._process = child.start(
                [*self._command, "-c", on_board.call("serve", their_requests, their_answers)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(their_requests, their_answers),
                cwd=self._files,
            )
        finally:
            os.close(their_requests)
            os.close(their_answers)

    def exec_follow(self, code: str, on_data: Callable[[bytes], object], timeout: float | None = SILENCE) -> None:
        answer = self._ask(b"X", "", code.encode(), on_data, timeout)
        if answer:
            raise board_exception(answer)

    def put(self, data: bytes, name: str, progress: PutProgress | None = None) -> None:
        answer = self._ask(b"P", check_name(name), bytes(data), lambda _: None, SILENCE)
        if not answer.isdecimal():
            raise board_exception(answer)
        if int(answer) != binascii.crc32(data):
            raise BoardError(f"{self.name}: {len(data)} bytes were damaged on their way")
        if progress:
            progress(len(data), len(data))

    def soft_reset(self) -> None:
        self._end()
        self._start()

    def close(self) -> None:
        self._end()
        self._folder.cleanup()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            child.stop(process)
            os.close(self._requests)
            os.close(self._answers)

    def _ask(
        self, kind: bytes, name: str, body: bytes, on_data: Callable[[bytes], object], timeout: float | None
    ) -> str:
        """Send a request and return the answer, feeding what the program prints to `on_data` meanwhile."""
        process = self._process
        if process is None or process.stdout is None:
            raise BoardError(f"{self.name} is closed")
        output = process.stdout.fileno()
        reading = [output, self._answers]
        encoded = name.encode()
        to_send = memoryview(kind + struct.pack("<II", len(encoded), len(body)) + encoded + body)
        answer = b""
        last_byte = time.monotonic()
        while True:
            try:
                ready, writable, _ = select.select(reading, [self._requests] if to_send else [], [], 0.2)
                if output not in ready and output in reading:
                    # Once more: an answer is written after all output, but select may have looked in between.
                    ready += select.select([output], [], [], 0)[0]
                if writable:
                    to_send = to_send[os.write(self._requests, to_send[: select.PIPE_BUF]) :]
                if output in ready:
                    data = os.read(output, 1 << 16)
                    last_byte = time.monotonic()
                    if data:
                        on_data(data)
                    else:  # closed: it is ending, and its pipe for answers will tell
                        reading.remove(output)
                elif self._answers in ready:
                    data = os.read(self._answers, 1 << 16)
                    last_byte = time.monotonic()
                    if not data:
                        self._raise_ended(process)
                    answer += data
                    if len(answer) >= 4 and len(answer) - 4 >= struct.unpack("<I", answer[:4])[0]:
                        return answer[4:].decode(errors="replace")
            except BrokenPipeError:
                self._raise_ended(process)
            except BoardError:
                raise
            except BaseException:  # Ctrl-C here, or a consumer of output that has had enough
                self._interrupt(process)
                raise
            if timeout is not None and time.monotonic() - last_byte >= timeout:
                self._interrupt(process)
                raise BoardError(f"{self.name} was silent for {timeout:g} s; its program was interrupted")

    def _interrupt(self, process: "subprocess.Popen[bytes]") -> None:
        """Stop the running program; a process that does not answer to that is replaced by a new one."""
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(BoardError, KeyboardInterrupt):
            if select.select([self._answers], [], [], 2.0)[0]:
                self._read(struct.unpack("<I", self._read(4))[0])
                # What it had printed by then would look like output of the next program.
                while process.stdout and select.select([process.stdout], [], [], 0)[0]:
                    if not os.read(process.stdout.fileno(), 1 << 16):
                        break
                return
        self.soft_reset()

    def _read(self, size: int) -> bytes:
        """So many bytes of an answer. Raises BoardError where the process has ended before."""
        data = b""
        while len(data) < size:
            part = os.read(self._answers, size - len(data))
            if not part:
                raise BoardError(f"{self.name}: MicroPython has ended")
            data += part
        return data

    def _raise_ended(self, process: "subprocess.Popen[bytes]") -> None:
        code = process.wait()
        cause = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self._end()
        raise BoardError(f"{self.name}: MicroPython has ended ({cause})")
