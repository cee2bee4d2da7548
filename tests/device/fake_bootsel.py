"""A pretend board in BOOTSEL mode: a folder that behaves as the boot ROM's drive does.

It reads what is copied onto it block by block, as it comes: magic numbers, family, address, number and count. Blocks
of another family are passed over, as the ROM does; the others go into an image of the flash. When it has all of them
the drive is gone, and the board starts. Written from the UF2 specification and the RP2040's data sheet (2.8.4.2), and
without mica's own UF2 code, which it checks.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

INFO = {
    "RP2040": "UF2 Bootloader v3.0\nModel: Raspberry Pi RP2\nBoard-ID: RPI-RP2\n",
    "RP2350": "UF2 Bootloader v1.0\nModel: Raspberry Pi RP2350\nBoard-ID: RP2350\n",
}
FAMILY = {"RP2040": 0xE48BFF56, "RP2350": 0xE48BFF59}
FLASH_BASE = 0x10000000


class FakeBootsel:
    """The drive at `folder`, for a board whose flash is the file `flash` (made, erased, when missing)."""

    def __init__(
        self,
        folder: Path,
        flash: Path,
        chip: str = "RP2040",
        flash_bytes: int = 2 << 20,
        started: Callable[[], None] | None = None,
        vanish_at: int | None = None,
    ) -> None:
        """`started` is called when the board has its image and leaves. `vanish_at`: the cable is pulled there."""
        self.folder = folder
        self.flash = flash
        self.family = FAMILY[chip]
        self.vanish_at = vanish_at
        self.started = started
        self.content = bytearray(flash.read_bytes() if flash.exists() else b"\xff" * flash_bytes)
        self.seen: set[int] = set()
        self.passed_over = 0
        self.faults: list[str] = []
        self.erased: set[int] = set()
        self.done = threading.Event()
        self._stop = False
        folder.mkdir(parents=True)
        (folder / "INDEX.HTM").write_text("<html></html>", encoding="ascii")
        # As a pipe rather than a file: then a writer notices when the drive goes away, as on a cable.
        self.pipe = folder / "mica.uf2"
        os.mkfifo(self.pipe)
        (folder / "INFO_UF2.TXT").write_text(INFO[chip], encoding="ascii")
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        # Without a writer yet, a pipe opens for reading only if it need not wait.
        pipe = os.open(self.pipe, os.O_RDONLY | os.O_NONBLOCK)
        if self.vanish_at is not None:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 4096)  # so that the writer is not far ahead when the cable is pulled
        held = b""
        complete = False
        try:
            while not complete and not self._stop:
                try:
                    new = os.read(pipe, 4096)
                except BlockingIOError:
                    new = b""
                if not new:
                    time.sleep(0.005)
                    continue
                held += new
                while len(held) >= 512 and not complete:
                    complete = self._block(held[:512])
                    held = held[512:]
                    if self.vanish_at is not None and len(self.seen) >= self.vanish_at:
                        return
        finally:
            shutil.rmtree(self.folder)
            os.close(pipe)
            if complete:
                self.flash.write_bytes(self.content)
                if self.started:
                    self.started()
            self.done.set()

    def _block(self, block: bytes) -> bool:
        """Take one block; whether it was the last that was missing."""
        first, second, flags, address, size, number, count, family = struct.unpack_from("<8I", block)
        (last,) = struct.unpack_from("<I", block, 508)
        if (first, second, last) != (0x0A324655, 0x9E5D5157, 0x0AB16F30):
            self.faults.append(f"not a block: {block[:8].hex()}")
            return False
        if flags & 1 or not flags & 0x2000 or family != self.family:
            self.passed_over += 1
            return False
        offset = address - FLASH_BASE
        if size != 256 or offset % 256 or not 0 <= offset <= len(self.content) - size or number >= count:
            self.faults.append(f"block {number} of {count}: {size} bytes at {address:#x}")
            return False
        sector = offset & ~0xFFF
        if sector not in self.erased:
            self.erased.add(sector)
            self.content[sector : sector + 4096] = b"\xff" * 4096
        self.content[offset : offset + size] = block[32 : 32 + size]
        self.seen.add(number)
        return len(self.seen) == count

    def close(self) -> None:
        self._stop = True
        self.thread.join(10)
