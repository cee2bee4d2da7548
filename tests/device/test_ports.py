"""Faults of ports: in use, forbidden, or without a board at the other end."""

import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from mica.errors import MicaError
from mica.link import ports
from mica.link.serial_board import SerialBoard


@pytest.fixture
def dead_port() -> Iterator[str]:
    """A port whose other end reads everything and answers nothing."""
    master, slave = pty.openpty()
    name = os.ttyname(slave)
    os.close(slave)

    def swallow() -> None:
        try:
            while True:
                os.read(master, 1024)
        except OSError:
            pass

    kept = os.open(name, os.O_RDWR | os.O_NOCTTY)  # or the reader would end when the port is closed
    thread = threading.Thread(target=swallow, daemon=True)
    thread.start()
    yield name
    os.close(kept)
    os.close(master)


def held_by(code: str, port: str) -> "subprocess.Popen[bytes]":
    """Another program that has the port open; returns when it has."""
    process = subprocess.Popen([sys.executable, "-c", code, port], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout and process.stdout.readline() == b"open\n"
    return process


@pytest.mark.parametrize(
    "code",
    [
        "import sys, serial; s = serial.Serial(sys.argv[1], exclusive=True); print('open', flush=True); input()",
        "import sys; f = open(sys.argv[1], 'r+b', 0); print('open', flush=True); input()",
    ],
    ids=["locked", "without a lock"],
)
def test_held(dead_port: str, code: str) -> None:
    process = held_by(code, dead_port)
    try:
        with pytest.raises(MicaError, match=rf"port {dead_port} is held by \S+ \(process {process.pid}\)"):
            SerialBoard(dead_port)
    finally:
        process.communicate()
    ports.check_port(dead_port)


def test_nobody_answers(dead_port: str) -> None:
    with pytest.raises(MicaError, match=f"no MicroPython answers at {dead_port}"):
        SerialBoard(dead_port)
    # And it was let go of:
    ports.check_port(dead_port)


def test_no_permission(dead_port: str) -> None:
    """Root may open everything, so the check is run by a child that is not root."""
    os.chmod(dead_port, 0o600)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setuid(65534)
            else:
                os.chmod(dead_port, 0)
            ports.check_port(dead_port)
            os.write(write_end, b"no error")
        except BaseException as error:
            os.write(write_end, f"{type(error).__name__}: {error}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    said = os.read(read_end, 1000).decode()
    assert said.startswith(f"MicaError: no permission for {dead_port}; "), said


def test_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    for plugged, said in (([], "no board is plugged in"), (["/dev/ttyA", "/dev/ttyB"], "/dev/ttyA, /dev/ttyB")):
        monkeypatch.setattr(ports, "usb_ports", lambda plugged=plugged: plugged)
        with pytest.raises(MicaError, match=said):
            ports.the_only_port()
    monkeypatch.setattr(ports, "usb_ports", lambda: ["/dev/ttyA"])
    assert ports.the_only_port() == "/dev/ttyA"


@pytest.mark.parametrize(
    ("target", "is_port"),
    [
        ("COM5", True),
        ("com12", True),
        ("/dev/ttyACM0", True),
        ("socket://h:1", True),
        ("COMET", False),
        ("UNIX", False),
    ],
)
def test_port_names(target: str, is_port: bool) -> None:
    assert ports.is_port_name(target) is is_port
