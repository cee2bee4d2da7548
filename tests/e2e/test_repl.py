"""`mica repl`, typed at like a person does: on a terminal of its own."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

CTRL_X = b"\x18"


class Terminal:
    """A program on a pseudo terminal."""

    def __init__(self, *command: str) -> None:
        self.fd, other = pty.openpty()
        self.process = subprocess.Popen(
            command, stdin=other, stdout=other, stderr=other, start_new_session=True, close_fds=True
        )
        os.close(other)
        self.seen = b""

    def expect(self, text: bytes, seconds: float = 120) -> None:
        """Read until `text` appears after the text that was expected before."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            ready, _, _ = select.select([self.fd], [], [], 0.5)
            if ready:
                try:
                    self.seen += os.read(self.fd, 4096)
                except OSError:
                    break  # the program has ended
            assert time.monotonic() < end, f"{text!r} did not come; there was {self.seen!r}"
        assert text in self.seen, f"{text!r} did not come before the end; there was {self.seen!r}"
        self.seen = self.seen.split(text, 1)[1]

    def type(self, data: bytes) -> None:
        os.write(self.fd, data)

    def close(self) -> int:
        try:
            return self.process.wait(120)
        finally:
            self.process.kill()
            os.close(self.fd)


@pytest.mark.parametrize(("target", "end"), [("MPS2_AN385", CTRL_X), ("UNIX", b"\x04"), ("RPI_PICO@emu", CTRL_X)])
def test_a_person_types(target: str, end: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a pseudo-terminal, at the program's own, and at a socket."""
    monkeypatch.setenv("MICA_FLASH", str(tmp_path / "flash.bin"))
    code = "import sys; from mica.cli.main import main; sys.exit(main())"
    terminal = Terminal(sys.executable, "-c", code, "repl", "--on", target)
    terminal.expect(b">>> ")
    terminal.type(b"6 * 7\r")
    terminal.expect(b"42")
    terminal.expect(b">>> ")
    terminal.type(b"import mica; mica.Model\r")
    terminal.expect(b"<class 'Model'>")
    terminal.expect(b">>> ")
    terminal.type(b"1 / 0\r")
    terminal.expect(b"ZeroDivisionError")
    terminal.expect(b">>> ")
    terminal.type(end)
    assert terminal.close() == 0
