"""Puts a firmware onto a real board, and loses none of the user's files doing so.

    image -> what is on the board? -> [files to this computer] -> write -> board comes back -> [files put back] -> mica
    answers

How a board is written is a Writer's business: uf2_drive.py (RP2040, RP2350), esp.py (the ESP32 family).
"""

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import serial.tools.list_ports

from mica.boards import BoardSpec
from mica.errors import MicaError, Unsupported
from mica.flash import board_files, firmware_image
from mica.flash.board_files import Backup, Entry
from mica.flash.esp import EspWriter
from mica.flash.firmware_image import Image
from mica.flash.flash_map import Span
from mica.flash.uf2_drive import Uf2Writer, find_drive
from mica.flash.writer import FlashCallbacks, Writer
from mica.link import on_board
from mica.link.answers import ask, number, one_of, require_mica, text
from mica.link.board import BoardError, Link
from mica.link.ports import check_port, is_port_name, the_only_port, usb_ports
from mica.link.serial_board import SerialBoard

BACK_SECONDS = 45.0  # for a board to come back with its new firmware
_OBEYS_SECONDS = 3.0  # for a board to say that it starts again


@dataclass(frozen=True)
class FlashRequest:
    """The options of a flash. `target` is a port, `auto`, or None for a board that is in its boot loader."""

    board: BoardSpec
    target: str | None
    image: Path
    models: Sequence[Path] = ()
    erase_files: bool = False  # go on where files would be lost, or cannot be seen
    erase_all: bool = False  # the whole flash first
    drive: Path | None = None
    backup: Path | None = None  # keep the copies of files there


@dataclass(frozen=True)
class Result:
    """Outcome of a flash. `files`: kept, restored, erased, unseen or none; `backup` is the folder of the request."""

    board: str
    image: str
    bytes: int
    port: str
    mica: str
    files: str
    restored: int
    backup: str | None
    models: list[str]  # written into /rom
    selftest: dict[str, str]  # of those that were asked for: passed, or none where the file has no golden vectors
    seconds: float


def look_for(facts: BoardSpec, target: str | None, drive: Path | None) -> None:
    """Raise MicaError where no such board can be seen. For callers that would work long before they flash it."""
    port = _port(facts, target, drive)
    if port:
        check_port(port)
    elif facts.flasher == "uf2":
        find_drive(facts, drive)


def flash(request: FlashRequest, callbacks: FlashCallbacks) -> Result:
    """Do all of it. Raises MicaError; where files of the user's are in a folder by then, the message names it."""
    begun = time.monotonic()
    image = firmware_image.read(request.board, request.image)
    models = firmware_image.read_models(request.models)
    image = firmware_image.with_models(image, models)
    backup: Backup | None = None
    port = _port(request.board, request.target, request.drive)
    before = frozenset(usb_ports())
    known = _serial_number(port)
    writer = _writer(request, image, port, callbacks)
    running = _open_repl(port, request.board) if port else None
    try:
        if running:
            _check_chip(request.board, running)
        moved, fate, entries = _look(request, image, writer, running, callbacks)
        if running and moved and not models:
            models = _models_on(request, image, running, callbacks)
            writer.image = firmware_image.with_models(image, models)
        if running and entries:
            backup = _back_up(request, running, entries, callbacks)
        try:
            writer.write(running, moved)
            if running:
                running.close()
            running = wait_for_board(port, before, known, request.board.name)
            if backup:
                with callbacks.meter("putting the files back", "bytes") as progress:
                    board_files.restore(running, backup, progress)
        except MicaError as error:
            if backup is None:
                raise
            raise error.then(_whereabouts(backup)) from None
        except BaseException:
            if backup:
                callbacks.say(_whereabouts(backup))
            raise
        if backup and request.backup is None:
            backup.discard()
        version = require_mica(running)
        tried = {path.name: _try_model(running, path.name) for path in request.models}
        _start_program(running)
    finally:
        if running:
            running.close()
    return Result(
        board=request.board.name,
        image=str(request.image),
        bytes=writer.image.size,
        port=running.port or "",
        mica=version,
        files=fate,
        restored=len(backup.hashes) if backup else 0,
        backup=str(request.backup) if backup and request.backup else None,
        models=sorted(models),
        selftest=tried,
        seconds=round(time.monotonic() - begun, 1),
    )


# --- before ---------------------------------------------------------------------------------------------


def _port(facts: BoardSpec, target: str | None, drive: Path | None) -> str | None:
    """The port that the target stands for; None for a drive."""
    if target is None:
        return the_only_port() if facts.flasher == "esptool" else None
    if drive:
        raise MicaError(
            "--drive is for a board that is in BOOTSEL mode, and --on for one that is not", todo="give one of them"
        )
    if target == "auto":
        return the_only_port()
    if not is_port_name(target):
        raise Unsupported(
            f"{target!r} is not a port that a board is plugged in at",
            todo="expected such as /dev/ttyACM0, COM5 or auto",
        )
    return target


def _writer(request: FlashRequest, image: Image, port: str | None, callbacks: FlashCallbacks) -> Writer:
    if request.board.flasher == "uf2":
        if request.erase_all:
            raise MicaError("--erase: a boot loader's drive cannot erase; the image replaces what it covers")
        return Uf2Writer(image, request.drive, callbacks)
    if request.drive:
        raise MicaError(f"--drive: a {request.board.name} has none", todo="give its port with --on")
    assert port is not None
    return EspWriter(image, port, request.erase_all, callbacks)


def _open_repl(port: str, facts: BoardSpec) -> SerialBoard | None:
    """The board at a port, if MicroPython answers there. Raises MicaError when the port itself cannot be used, or when
    the board can be written only with MicroPython's help."""
    check_port(port)
    try:
        return SerialBoard(port)
    except BoardError:
        if facts.flasher == "esptool":
            return None
        raise MicaError(
            f"no MicroPython answers at {port}",
            todo="hold the board's BOOTSEL button while you plug it in, and leave out --on",
        ) from None


def _check_chip(facts: BoardSpec, board: Link) -> None:
    """Refuse a board with another chip, which would not start with this firmware, and one that we cannot talk to."""
    name, _, said = board.exec(on_board.source("who")).decode(errors="replace").strip().partition(" ")
    if name != "micropython":
        raise MicaError(
            f"{board.name} runs {name}, not MicroPython", todo="put the board into its boot loader, and leave out --on"
        )
    chip = said.rpartition(" with ")[2].partition("-")[0]  # RP2350-RISCV is the same chip
    if facts.flasher == "uf2" and chip != facts.mcu:
        raise MicaError(f"{board.name} is a {said or 'board of another kind'}; {facts.name} has an {facts.mcu}")


def _look(
    request: FlashRequest, image: Image, writer: Writer, board: Link | None, callbacks: FlashCallbacks
) -> tuple[bool, str, list[Entry]]:
    """Return three facts: True if the file system moves, the fate of the files, and the files to copy first."""
    if board is None:
        old = writer.files_without_repl()
        if old is None:
            return True, "none", []
        if isinstance(old, Span) and old == image.files and not request.erase_all:
            return False, "kept", []
        if request.erase_files:
            return True, "unseen", []
        why = old if isinstance(old, str) else f"its file system ({old}) would be formatted, and no MicroPython answers"
        raise MicaError(
            f"the files on this board may be lost: {why}",
            todo=(
                "a new board has none: add --erase-files. To keep them, plug it "
                "in while it runs MicroPython and give its port with --on"
            ),
        )
    old = writer.files_of_board(board)
    if old is not None and old == image.files and not request.erase_all:
        return False, "kept", []
    entries = board_files.listing(board)
    count = sum(not entry.folder for entry in entries)
    if not entries:
        return True, "none", []
    place = f"from {old or 'its place'} to {image.files or 'another'}"
    change = "the whole flash is erased" if request.erase_all else f"the file system moves {place}"
    if request.erase_files:
        callbacks.say(f"{change}: {count} files on the board will be gone, as --erase-files says")
        return True, "erased", []
    needed = board_files.space_needed(entries)
    if image.files and needed > image.files.size:
        raise MicaError(
            f"{change}, and the {count} files on the board may need {needed:,} bytes of its {image.files.size:,}",
            todo="remove some, or add --erase-files",
        )
    callbacks.say(f"{change}: copying {count} files from the board first")
    return True, "restored", entries


def _models_on(request: FlashRequest, image: Image, board: Link, callbacks: FlashCallbacks) -> dict[str, bytes]:
    """Models in the board's /rom that the flash would erase; they become part of the new image."""
    if request.erase_files:
        return {}
    with callbacks.meter("copying models from the board", "bytes") as progress:
        found = board_files.read_rom(board, progress)
    if found and image.models is None:
        raise MicaError(
            f"{image.where} has no ROMFS as {request.board.name}'s, and {', '.join(sorted(found))} in "
            "/rom would be lost",
            todo="add --erase-files",
        )
    return found


def _back_up(request: FlashRequest, board: Link, entries: list[Entry], callbacks: FlashCallbacks) -> Backup:
    folder = request.backup or Path.cwd() / f"mica-backup-{datetime.now():%Y%m%d-%H%M%S}"
    with callbacks.meter("copying files from the board", "bytes") as progress:
        return board_files.back_up(board, entries, folder, progress)


def _whereabouts(backup: Backup) -> str:
    return f"the board's files are in {backup.folder}: mpremote cp -r {backup.folder}/. : puts them back"


# --- after ----------------------------------------------------------------------------------------------


def _serial_number(port: str | None) -> str | None:
    """USB serial number of the board at this port; it stays the same when the port's name changes."""
    found = (info.serial_number for info in serial.tools.list_ports.comports() if info.device == port)
    return next(found, None)


def _came_back(port: str | None, before: frozenset[str], known: str | None) -> list[str]:
    """Ports at which the board may be now."""
    plugged = [info for info in serial.tools.list_ports.comports() if info.vid is not None]
    new = [info.device for info in plugged if info.device not in before]
    if port is None:
        return new
    same = [info.device for info in plugged if known and info.serial_number == known]
    return same or [port, *new]  # another firmware may call the board otherwise


def wait_for_board(port: str | None, before: frozenset[str], known: str | None, name: str) -> SerialBoard:
    """The board, once its REPL answers. `before`: ports of other boards, where its own is not known."""
    end = time.monotonic() + BACK_SECONDS
    last = MicaError("no new serial port appeared")
    while True:
        for candidate in _came_back(port, before, known):
            try:
                return _settled(candidate)
            except MicaError as error:  # not there yet, or its permissions are not
                last = error
        if time.monotonic() > end:
            raise last.at(f"the image is written, but {name} did not come back within {BACK_SECONDS:.0f} s")
        time.sleep(0.2)


def _settled(port: str) -> SerialBoard:
    """The board at a port. While it starts, its own words can come between ours and be taken for answers: so ask."""
    board = SerialBoard(port)
    try:
        if board.exec("print('mi' + 'ca')", timeout=5).strip() != b"mica":
            raise BoardError(f"{board.name} is still starting")
    except BaseException:
        board.close()
        raise
    return board


def _try_model(board: Link, name: str) -> str:
    """Load a model from /rom and have it check its golden vectors: passed, or none where it has none."""
    try:
        answer = ask(board, on_board.call("try_model", f"/rom/{name}"))
    except BoardError as error:
        raise error.at(f"{name} is in /rom of {board.name}, but does not load there") from None
    (result,) = answer.one("selftest", one_of("passed", "none", "bad"))
    if result == "bad":
        index, layer = answer.one("layer", number, text)
        raise MicaError(f"{name} gives wrong answers on {board.name}, first in layer {index} ({layer})")
    return str(result)


def _start_program(board: SerialBoard) -> None:
    """Let the board start as if it had been plugged in, with its boot.py and main.py."""
    with contextlib.suppress(OSError, MicaError):
        line = board.friendly_repl().serial
        line.write(b"\x04")
        # Wait for the board's reply: a socket that is closed with unread bytes can drop those that were sent.
        end = time.monotonic() + _OBEYS_SECONDS
        said = b""
        while b"soft reboot" not in said and time.monotonic() < end:
            said += line.read(line.in_waiting or 1) or b""
