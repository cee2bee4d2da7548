"""The failure table's second half: builds, ports and emulators. What is wrong here is wrong with the machine around
mica, so each row makes it so first. One line each, never a traceback, and nothing left running."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mica.cli.main import main
from mica.toolchain.build import BuildResult

BOARD = "MPS2_AN385"


@dataclass
class Machine:
    """This computer, as a row wants it."""

    folder: Path
    model: Path
    patch: pytest.MonkeyPatch
    sockets: list[socket.socket] = field(default_factory=list)

    def without(self, *programs: str) -> None:
        """PATH has everything but these programs."""
        bin_folder = self.folder / "bin"
        bin_folder.mkdir(exist_ok=True)
        for part in os.environ["PATH"].split(os.pathsep):
            for program in Path(part).glob("*") if Path(part).is_dir() else ():
                link = bin_folder / program.name
                if program.name not in programs and not link.is_symlink() and not link.exists():
                    link.symlink_to(program)
        self.patch.setenv("PATH", str(bin_folder))

    def with_program(self, name: str, script: str) -> None:
        """PATH begins with a folder that has this program."""
        bin_folder = self.folder / "first"
        bin_folder.mkdir(exist_ok=True)
        (bin_folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (bin_folder / name).chmod(0o755)
        self.patch.setenv("PATH", f"{bin_folder}{os.pathsep}{os.environ['PATH']}")

    def file(self, name: str, size: int = 0) -> Path:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(size))
        return path

    def listening(self) -> int:
        """A TCP port that accepts connections and never answers."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.sockets.append(listener)
        return int(listener.getsockname()[1])

    def nothing_plugged_in(self) -> None:
        self.patch.setattr("mica.link.ports.usb_ports", lambda: [])

    def two_plugged_in(self) -> None:
        self.patch.setattr("mica.link.ports.usb_ports", lambda: ["/dev/ttyACM0", "/dev/ttyACM1"])


Words = tuple[str, ...]
# Sets the machine up and returns the arguments.
Row = Callable[[Machine], list[object]]

# An arena that nobody else builds with: the firmware is not there, so its tools are looked for.
NEW = ("--arena", "12345")


def compiler_missing(prefix: str, board: str) -> Row:
    def row(machine: Machine) -> list[object]:
        machine.without(f"{prefix}gcc")
        return ["build", "--board", board, *NEW]

    return row


def library_missing(prefix: str, board: str, script: str) -> Row:
    def row(machine: Machine) -> list[object]:
        machine.with_program(f"{prefix}gcc", script)
        return ["build", "--board", board, *NEW]

    return row


def program_missing(program: str, *arguments: object) -> Row:
    def row(machine: Machine) -> list[object]:
        machine.without(program)
        return list(arguments)

    return row


def cache_is_a_file(machine: Machine) -> list[object]:
    machine.patch.setenv("MICA_CACHE", str(machine.file("cache") / "mica"))
    return ["build", "--board", BOARD]


def rom_too_large(machine: Machine) -> list[object]:
    machine.file("rom/big.bin", 5 << 20)
    return ["emu", "QEMU_M0", "--rom", machine.folder / "rom"]


def plugged(machine: Machine, state: Callable[[Machine], None]) -> list[object]:
    state(machine)
    return ["verify", machine.model, "--on", "auto"]


def qemu_that_ends(machine: Machine) -> list[object]:
    machine.with_program("qemu-system-arm", "echo 'no memory left'; exit 1")
    return ["emu", BOARD]


def qemu_that_is_silent(machine: Machine) -> list[object]:
    machine.patch.setattr("mica.link.qemu._START_SECONDS", 0.5)
    machine.with_program("qemu-system-arm", "exec sleep 60")
    return ["emu", BOARD]


ARM = "gcc-arm-none-eabi libnewlib-arm-none-eabi"
RISCV = "gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf"
XTENSA = "gcc-xtensa-lx106 picolibc-xtensa-lx106-elf"

TABLE: dict[str, tuple[Row, int, Words]] = {
    # builds
    "no compiler for Arm": (compiler_missing("arm-none-eabi-", BOARD), 1, ("apt install " + ARM,)),
    "no compiler for RISC-V": (compiler_missing("riscv64-unknown-elf-", "VIRT_RV32"), 1, ("apt install " + RISCV,)),
    "no compiler for Xtensa": (compiler_missing("xtensa-lx106-elf-", "XTENSA_WIN"), 1, ("apt install " + XTENSA,)),
    "no C library for Arm": (library_missing("arm-none-eabi-", BOARD, "exit 1"), 1, ("no C library", ARM)),
    "no C library for RISC-V": (
        library_missing("riscv64-unknown-elf-", "VIRT_RV32", "echo picolibc.specs"),
        1,
        ("no C library", RISCV),
    ),
    "no C library for Xtensa": (
        library_missing("xtensa-lx106-elf-", "XTENSA_WIN", "exit 1"),
        1,
        ("no C library", XTENSA),
    ),
    "no make": (program_missing("make", "build", "--board", BOARD, *NEW), 1, ("apt install make",)),
    "no compiler for this computer": (program_missing("gcc", "build", "--board", BOARD, *NEW), 1, ("gcc", "libc6-dev")),
    "cache that cannot be made": (cache_is_a_file, 1, ("cannot make", "MICA_CACHE")),
    "arena that is no size": (lambda m: ["build", "--board", BOARD, "--arena", "big"], 1, ("--arena", "'big'")),
    "arena beyond the RAM": (lambda m: ["build", "--board", "QEMU_M0", "--arena", "1M"], 1, ("1,048,576", "262,144")),
    "manifest missing": (
        lambda m: ["build", "--board", BOARD, "--manifest", m.folder / "m.py"],
        1,
        ("m.py is not there", "manifest"),
    ),
    "image to a folder that is not there": (
        lambda m: ["build", "--board", BOARD, "-o", m.folder / "no" / "image"],
        1,
        ("cannot be written",),
    ),
    "build without a board": (lambda m: ["build"], 1, ("--board",)),
    # ports
    "auto, nothing plugged in": (lambda m: plugged(m, Machine.nothing_plugged_in), 1, ("no board is plugged in",)),
    "auto, two plugged in": (lambda m: plugged(m, Machine.two_plugged_in), 1, ("/dev/ttyACM0, /dev/ttyACM1", "--on")),
    "port that is a file": (lambda m: ["verify", m.model, "--on", m.file("port")], 1, ("is not a serial port",)),
    "port that is a folder": (lambda m: ["verify", m.model, "--on", m.folder], 1, ("is not a serial port",)),
    "port that is the null device": (lambda m: ["verify", m.model, "--on", "/dev/null"], 1, ("not a serial port",)),
    "COM port on Linux": (lambda m: ["verify", m.model, "--on", "COM5"], 1, ("COM5",)),
    "socket without a number": (lambda m: ["verify", m.model, "--on", "socket://127.0.0.1"], 1, ("socket://",)),
    "socket where no MicroPython answers": (
        lambda m: ["verify", m.model, "--on", f"socket://127.0.0.1:{m.listening()}"],
        1,
        ("no MicroPython answers",),
    ),
    # emulators
    "no QEMU for Arm": (program_missing("qemu-system-arm", "emu", BOARD), 1, ("apt install qemu-system-arm",)),
    "no QEMU for Arm, verify": (
        lambda m: [*program_missing("qemu-system-arm", "verify", m.model)(m), "--on", BOARD],
        1,
        ("apt install qemu-system-arm",),
    ),
    "no QEMU for RISC-V": (
        program_missing("qemu-system-riscv32", "emu", "VIRT_RV32"),
        1,
        ("apt install qemu-system-misc",),
    ),
    "QEMU that ends at once": (qemu_that_ends, 1, ("QEMU did not start", "no memory left")),
    "QEMU that says nothing": (qemu_that_is_silent, 1, ("QEMU did not start", "it said: nothing")),
    "emu of a real board": (lambda m: ["emu", "RPI_PICO2_W"], 2, ("RPI_PICO2_W is a real board", BOARD)),
    "emu of a board without a port": (lambda m: ["emu", "UNIX"], 2, ("UNIX has no port", "mica repl --on UNIX")),
    "emu of no board": (lambda m: ["emu", "NOPE"], 1, ("NOPE", BOARD)),
    "emu, ROMFS folder missing": (lambda m: ["emu", BOARD, "--rom", m.folder / "no"], 1, ("is not a folder",)),
    "emu, ROMFS too large": (rom_too_large, 1, ("5,24", "4,194,304")),
    "emu at a port in use": (lambda m: ["emu", BOARD, "--socket", m.listening()], 1, ("cannot listen at port",)),
    "emu at an impossible port": (lambda m: ["emu", BOARD, "--socket", "70000"], 1, ("70000", "65535")),
    "emu at a port in words": (lambda m: ["emu", BOARD, "--socket", "x"], 1, ("--socket",)),
    "repl of the host": (lambda m: ["repl", "--on", "host"], 1, ("--on UNIX",)),
}


@pytest.mark.parametrize("name", TABLE)
def test_failure(
    name: str,
    tmp_path: Path,
    digits: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    firmware: Callable[[str], BuildResult],
) -> None:
    for board in (BOARD, "VIRT_RV32"):
        firmware(board)
    row, code, words = TABLE[name]
    others = children()  # boards of the session
    machine = Machine(tmp_path, digits, monkeypatch)
    arguments = row(machine)
    capsys.readouterr()
    try:
        found = main([str(argument) for argument in arguments])
    finally:
        for listener in machine.sockets:
            listener.close()
    out, err = capsys.readouterr()
    (line,) = err.splitlines()
    assert found == code, err
    assert line.startswith("mica: error: ")
    for word in words:
        assert word in line
    assert out == ""
    monkeypatch.undo()
    assert children() == others, "a program stays behind"


def children() -> dict[int, str]:
    """This process's children that still run: their numbers and commands."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
                command = (folder / "cmdline").read_bytes().split(b"\0")[0].decode()
            except OSError:
                continue
            if int(fields[1]) == os.getpid() and fields[0] != "Z" and ("qemu" in command or "sleep" in command):
                found[int(folder.name)] = command
    return found
