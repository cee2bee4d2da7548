"""Writes RP2040 and RP2350 boards: a UF2 file copied onto the drive that they show in BOOTSEL mode."""

import errno
import os
import time
from pathlib import Path

from mica.boards import BoardSpec
from mica.errors import MicaError
from mica.flash import flash_map
from mica.flash.firmware_image import Image
from mica.flash.flash_map import Span
from mica.flash.writer import FlashCallbacks, Writer
from mica.images import uf2
from mica.link import drives, on_board
from mica.link.board import BoardError, Link
from mica.link.drives import Drive

_NAME = "mica.uf2"
_CHUNK = 128 * uf2.BLOCK  # written at a time, and then brought to the board, so that progress is true
_DRIVE_SECONDS = 20.0  # for a drive to appear, mounted
_TICK = 0.2


class Uf2Writer(Writer):
    def __init__(self, image: Image, drive: Path | None, callbacks: FlashCallbacks) -> None:
        self.image = image
        self.facts = image.board
        self.drive = drive
        self.callbacks = callbacks

    def files_of_board(self, board: Link) -> Span | None:
        return flash_map.rp2_files_of_board(board)

    def files_without_repl(self) -> Span | str | None:
        find_drive(self.facts, self.drive)  # first of all: is there a board?
        return "they cannot be seen in BOOTSEL mode, and a firmware with another layout formats them"

    def write(self, board: Link | None, moved: bool) -> None:
        drive = self._enter(board) if board else find_drive(self.facts, self.drive)
        copy(self.image.as_file(), drive, self.callbacks)

    def _enter(self, board: Link) -> Drive:
        """Put a running board into BOOTSEL mode, and wait for its drive."""
        before = drives.find()
        self.callbacks.say(f"{board.name}: into BOOTSEL mode")
        try:
            # It does not answer any more.
            board.exec(on_board.source("bootloader"), timeout=3)
        except BoardError as error:
            if error.exception:
                raise error.at(f"{board.name} does not go into BOOTSEL mode") from None
        board.close()
        end = time.monotonic() + _DRIVE_SECONDS
        while time.monotonic() < end:
            new = [drive for drive in drives.find() if drive not in before]
            if new:
                return drives.choose(self.facts.mcu, self.facts.name, new)
            time.sleep(_TICK)
        hint = next((f"; it is not mounted: udisksctl mount -b {device}" for device in drives.unmounted()), "")
        raise MicaError(
            f"{board.name} went into BOOTSEL mode, but no drive appeared within {_DRIVE_SECONDS:.0f} s{hint}",
            todo="when it is there, the same command without --on goes on",
        )


def find_drive(facts: BoardSpec, folder: Path | None) -> Drive:
    """The drive of a board that is in BOOTSEL mode already, at `folder` or anywhere. Raises MicaError."""
    if folder is None:
        return drives.choose(facts.mcu, facts.name, drives.find())
    found = drives.read(folder)
    if found is None:
        raise MicaError(f"{folder} is not the drive of a board in BOOTSEL mode: there is no {drives.INFO} in it")
    return drives.choose(facts.mcu, facts.name, [found])


def copy(image: bytes, drive: Drive, callbacks: FlashCallbacks) -> None:
    """Copy a UF2 file onto a boot loader's drive, whole blocks at a time.

    A board restarts as soon as it has the last block, and its drive is gone before we can close the file: that is
    success. Raises MicaError for every other end.
    """
    path = drive.path / _NAME
    done = 0
    total = len(image) // uf2.BLOCK
    try:
        with callbacks.meter(f"writing to {drive.path}", "blocks") as progress, path.open("wb", buffering=0) as file:
            while done < len(image):
                written = file.write(image[done : done + _CHUNK])
                done += written
                _bring(file.fileno())
                progress(done // uf2.BLOCK, total)
    except OSError as error:
        if done < len(image):
            raise _explain(error, drive, done // uf2.BLOCK, len(image)) from None


def _bring(descriptor: int) -> None:
    """Have the system write to the device now; where it cannot say, go on."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS):
            raise


def _explain(error: OSError, drive: Drive, blocks: int, size: int) -> MicaError:
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return MicaError(
            f"no permission to write to {drive.path}",
            todo="mount it as your own user, as a desktop does: udisksctl mount",
        )
    if error.errno == errno.ENOSPC:
        return MicaError(
            f"{drive.path} is full: the image has {size:,} bytes",
            todo="unplug the board, plug it in with BOOTSEL, try again",
        )
    return MicaError(
        f"the drive {drive.path} vanished after {blocks} of {size // uf2.BLOCK} blocks ({error.strerror})",
        todo="plug the board in with BOOTSEL again and repeat",
    )
