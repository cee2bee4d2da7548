"""A stand-in for a board with a raw REPL (without raw paste) on a pseudo-terminal. A test gives its answers."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import tty
from collections.abc import Callable, Iterator

from mica.link import serial_board

PROMPT = b"raw REPL; CTRL-B to exit\r\n>"

# The program that was sent, and where to write -> what it prints, then b"\x04", its exception, b"\x04>".
Reply = Callable[[str], "bytes | Iterator[bytes]"]


class FakeBoard:
    """`port` is its name. `reply(program)` gives what the program prints, an exception of it behind b"\\x04";
    an iterator is written piece by piece until the host interrupts.
    The first `late` prompts come together with the one after them.
    With `looks`, it is in a transfer at first: in a piece of 256 bytes, and it takes what has come only so often
    (seconds)."""

    def __init__(self, reply: Reply, late: int = 0, looks: float = 0.0) -> None:
        self.reply = reply
        self._late = late
        self._looks = looks
        self.written = 0
        self._ours, theirs = os.openpty()
        tty.setraw(theirs)
        os.set_blocking(self._ours, False)
        self._theirs = theirs  # held open: or a host that closes its end ends ours
        self.port = os.ttyname(theirs)
        self._going = True
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> FakeBoard:
        return self

    def __exit__(self, *_: object) -> None:
        self._going = False
        self._thread.join(10)
        os.close(self._ours)
        os.close(self._theirs)

    def _read(self) -> bytes:
        """Return the bytes that have arrived; b"" after a moment without any."""
        try:
            return os.read(self._ours, 4096)
        except BlockingIOError:
            time.sleep(0.002)
            return b""

    def _write(self, data: bytes) -> bool:
        """Write all of the data and return True; return False if the host interrupts first."""
        while data and self._going:
            try:
                n = os.write(self._ours, data)
            except BlockingIOError:
                if b"\x03" in self._read():
                    return False
                continue
            self.written += n
            data = data[n:]
        return True

    def _finish_transfer(self) -> None:
        """Take pieces until one does not begin for as long as a board would wait."""
        have, last = 0, time.monotonic()
        while self._going and (have or time.monotonic() - last < serial_board._PATIENCE):
            time.sleep(self._looks)
            new = self._read()
            if new:
                last = time.monotonic()
            have += len(new)
            self._write(b"+" * (have // 256))
            have %= 256
        self._write(b"\x04Traceback: OSError: no data\r\n\x04>")

    def _run(self) -> None:
        program, late = b"", 0
        with contextlib.suppress(OSError):
            if self._looks:
                self._finish_transfer()
            while self._going:
                program += self._read()
                if program[:1] == b"\x04":  # a soft reset
                    program = program[1:]
                    self._write(b"OK\r\nMPY: soft reboot\r\n" + PROMPT)
                elif b"\x01" in program:  # into the raw REPL; in it, what raw paste is asked by
                    program = program.partition(b"\x01")[2]
                    late += 1
                    if late > self._late:
                        self._write(PROMPT * late)
                        late = self._late = 0
                elif program.endswith(b"\x04"):
                    text, program = program[:-1].replace(b"\x03", b"").replace(b"\r", b"").decode(), b""
                    self._write(b"OK")
                    self._answer(self.reply(text))

    def _answer(self, reply: bytes | Iterator[bytes]) -> None:
        if isinstance(reply, bytes):
            printed, _, error = reply.partition(b"\x04")
            self._write(printed + b"\x04" + error + b"\x04>")
            return
        for piece in reply:
            if not self._going or not self._write(piece) or b"\x03" in self._read():
                return
