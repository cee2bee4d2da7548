"""A pretend board of the ESP32 family on a pseudo-terminal: the serial loader in its ROM, and a MicroPython behind it.

The loader's protocol is written from Espressif's description of it and from watching esptool: frames between two bytes
c0 (RFC 1055), `00 op length16 check32 data` one way and `01 op length16 value32 data status` back. esptool first loads
a program of its own; we swallow that and answer in its place.

A pseudo-terminal has no reset lines. So a SYNC stands for "reset into the loader", and what a REPL is greeted with
(a carriage return or Ctrl-C outside of a frame) for "reset into the firmware".
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import select
import struct
import threading
import tty
import zlib
from collections.abc import Callable
from typing import NamedTuple


class Chip(NamedTuple):
    """Registers: where the SPI controller is, and in it those that esptool types flash commands into."""

    id: int
    magic: int
    spi: int
    usr2: int
    w0: int
    tells_id: bool  # knows the command that asks for the chip's id


CHIPS = {
    "esp32": Chip(0, 0x00F01D83, 0x3FF42000, 0x24, 0x80, False),
    "esp32s3": Chip(9, 0x00000009, 0x60002000, 0x20, 0x58, True),
    "esp32c3": Chip(5, 0x1B31506F, 0x60002000, 0x20, 0x58, True),
}
MAGIC_REGISTER = 0x40001000
ESP32_UART_DIVIDER = 0x3FF40014
SPI_START = 1 << 18
READ_ID = 0x9F

# Commands.
FLASH_BEGIN, FLASH_DATA, FLASH_END = 0x02, 0x03, 0x04
MEM_BEGIN, MEM_END, MEM_DATA = 0x05, 0x06, 0x07
SYNC, WRITE_REG, READ_REG, SPI_PARAMS, SPI_ATTACH, CHANGE_BAUD = 0x08, 0x09, 0x0A, 0x0B, 0x0D, 0x0F
DEFL_BEGIN, DEFL_DATA, DEFL_END, MD5, SECURITY_INFO = 0x10, 0x11, 0x12, 0x13, 0x14
ERASE_ALL, ERASE_REGION, READ_FLASH = 0xD0, 0xD1, 0xD2

OK, REFUSED, BAD_CHECK = b"\0\0\0\0", b"\x01\x05\0\0", b"\x01\x07\0\0"
SECTOR = 4096


def frame(content: bytes) -> bytes:
    return b"\xc0" + content.replace(b"\xdb", b"\xdb\xdd").replace(b"\xc0", b"\xdb\xdc") + b"\xc0"


def reply(op: int, payload: bytes = OK, value: int = 0) -> bytes:
    return frame(struct.pack("<BBHI", 1, op, len(payload), value) + payload)


class Loader:
    """The loader and the chip's flash. `fault`: no-sync, bad-md5, die-at=N (silent from block N on),
    or noise=N (N times, asked for its id, it answers with a broken frame).
    """

    def __init__(self, chip: str, flash: bytearray, fault: str = "") -> None:
        self.chip = CHIPS[chip]
        self.flash = flash
        self.fault = fault
        self.registers = {MAGIC_REGISTER: self.chip.magic}
        if chip == "esp32":
            self.registers[ESP32_UART_DIVIDER] = 40_000_000 // 115_200  # its crystal: 40 MHz
        self.as_stub = False
        self.at = self.blocks = 0
        self.inflate: zlib._Decompress | None = None
        self.written = False
        self.sending: list[bytes] = []  # frames of a read that is under way

    def answer(self, content: bytes) -> bytes:
        """Return the answer to the content of one frame."""
        if self.sending:  # a read's acknowledgement
            return self.sending.pop(0)
        if len(content) < 8 or content[0] != 0:
            return b""
        op, length, check = struct.unpack_from("<xBHI", content)
        body = content[8 : 8 + length]

        def words(count: int) -> tuple[int, ...]:
            return struct.unpack_from(f"<{count}I", body)

        if op == SYNC:
            return b"" if self.fault == "no-sync" else reply(op, value=0x20120707) * 8  # a value of 0 would be the stub
        if op in (MEM_BEGIN, MEM_DATA):
            return reply(op)
        if op == MEM_END:
            self.as_stub = True
            return reply(op) + frame(b"OHAI")
        if op == READ_REG:
            address = words(1)[0]
            return reply(op, value=0 if address == self.chip.spi else self.registers.get(address, 0))
        if op == WRITE_REG:
            self._register(*words(3))
            return reply(op)
        if op == SECURITY_INFO and self.chip.tells_id:
            if self.fault.startswith("noise="):
                left = int(self.fault[6:]) - 1
                self.fault = f"noise={left}" if left else ""
                return b"\x00" + reply(op)
            return reply(op, struct.pack("<IB7xII", 0, 0, self.chip.id, 0) + OK)
        if op in (SPI_ATTACH, SPI_PARAMS, CHANGE_BAUD, FLASH_END, DEFL_END):
            return reply(op)
        if op in (FLASH_BEGIN, DEFL_BEGIN):
            return self._begin(op, *words(4))
        if op in (FLASH_DATA, DEFL_DATA):
            return self._data(op, body[16 : 16 + words(1)[0]], check)
        if op == MD5:
            start, size = words(2)
            data = bytearray(self.flash[start : start + size])
            if self.fault == "bad-md5":
                data[0] ^= 1
            digest = hashlib.md5(data)
            return reply(op, (digest.digest() if self.as_stub else digest.hexdigest().encode()) + OK)
        if self.as_stub and op == ERASE_ALL:
            return self._erase(op, 0, len(self.flash))
        if self.as_stub and op == ERASE_REGION:
            return self._erase(op, *words(2))
        if self.as_stub and op == READ_FLASH:
            start, size, piece, _ = words(4)
            data = bytes(self.flash[start : start + size])
            self.sending = [frame(data[at : at + piece]) for at in range(0, size, piece)]
            self.sending.append(frame(hashlib.md5(data).digest()))
            return reply(op) + self.sending.pop(0)
        return reply(0, REFUSED) * 8  # what a ROM does with a command that it does not know

    def _register(self, address: int, value: int, mask: int) -> None:
        self.registers[address] = (self.registers.get(address, 0) & ~mask) | (value & mask)
        if address == self.chip.spi and value & SPI_START:
            command = self.registers.get(self.chip.spi + self.chip.usr2, 0) & 0xFF
            size = len(self.flash).bit_length() - 1
            self.registers[self.chip.spi + self.chip.w0] = size << 16 | 0x40EF if command == READ_ID else 0

    def _erase(self, op: int, start: int, size: int) -> bytes:
        self.flash[start : start + size] = b"\xff" * size
        self.written = True
        return reply(op)

    def _begin(self, op: int, size: int, count: int, block: int, start: int) -> bytes:
        if start + size > len(self.flash):
            return reply(op, REFUSED)
        first = start // SECTOR * SECTOR
        last = -(-(start + size) // SECTOR) * SECTOR
        self.flash[first:last] = b"\xff" * (last - first)
        self.at, self.blocks = start, 0
        self.inflate = zlib.decompressobj() if op == DEFL_BEGIN else None
        return reply(op)

    def _data(self, op: int, data: bytes, check: int) -> bytes:
        checksum = 0xEF
        for byte in data:
            checksum ^= byte
        if checksum != check & 0xFF:
            return reply(op, BAD_CHECK)
        self.blocks += 1
        if self.fault.startswith("die-at=") and self.blocks >= int(self.fault[7:]):
            return b""
        data = self.inflate.decompress(data) if self.inflate else data
        end = min(self.at + len(data), len(self.flash))
        for at in range(self.at, end):  # programming only clears bits
            self.flash[at] &= data[at - self.at]
        self.at = end
        self.written = True
        return reply(op)


class FakeEsp:
    """The board at `port`. Use as a context manager."""

    def __init__(
        self,
        chip: str,
        *,
        flash_bytes: int = 4 << 20,
        fault: str = "",
        boot: Callable[[bytes], tuple[str, Callable[[], None]]] | None = None,
    ) -> None:
        """`boot` starts what is the firmware here, given what is in flash, and returns its port and what ends it.
        It is started again after the flash was written. Without it only the loader answers.
        """
        self.loader = Loader(chip, bytearray(b"\xff" * flash_bytes), fault)
        self.starts = 0
        self._boot = boot
        self._end: Callable[[], None] | None = None
        self._line = -1  # to the firmware
        self._in_loader = boot is None
        self._master, slave = os.openpty()
        tty.setraw(self._master)
        tty.setraw(slave)
        self.port = os.ttyname(slave)
        self._kept = slave  # or reading would fail whenever nobody has it open
        self._wake, self._woken = os.pipe()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.wait(60)

    def __enter__(self) -> FakeEsp:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._woken)
        self._thread.join(10)
        for descriptor in (self._master, self._kept, self._wake):
            os.close(descriptor)

    def _run(self) -> None:
        try:
            if self._boot:
                self._start()
            self._ready.set()
            held = b""
            while True:
                lines = [self._master, self._wake] + ([self._line] if self._line >= 0 else [])
                readable, _, _ = select.select(lines, [], [])
                if self._wake in readable:
                    return
                if self._line in readable:
                    said = b""
                    with contextlib.suppress(OSError):
                        said = os.read(self._line, 4096)
                    if not self._in_loader:  # a chip in its loader has no firmware that could print
                        self._put(self._master, said)
                if self._master in readable:
                    held = self._take(held + os.read(self._master, 65536))
        finally:
            self._stop()

    def _take(self, data: bytes) -> bytes:
        """Handle bytes from the host; return the rest that is not complete yet."""
        if not self._in_loader:
            if b"\xc0\x00\x08" not in data:
                self._put(self._line, data)
                return b""
            data = data[data.index(b"\xc0\x00\x08") :]
            self._in_loader, self.loader.as_stub = True, False
        while data:
            start = data.find(b"\xc0")
            outside = data if start < 0 else data[:start]
            if self._boot and (b"\x03" in outside or b"\r" in outside):
                self._start()
                self._put(self._line, data)
                return b""
            if start < 0:
                return b""
            end = data.find(b"\xc0", start + 1)
            if end < 0:
                return data[start:]
            content = data[start + 1 : end].replace(b"\xdb\xdc", b"\xc0").replace(b"\xdb\xdd", b"\xdb")
            self._put(self._master, self.loader.answer(content))
            # Two frames may share the byte between them; an empty one does no harm.
            data = data[end + 1 :] if content else data[end:]
        return b""

    def _start(self) -> None:
        """Reset into the firmware."""
        self._in_loader = False
        if self._line >= 0 and not self.loader.written:
            return
        self._stop()
        assert self._boot
        name, self._end = self._boot(bytes(self.loader.flash))
        self._line = os.open(name, os.O_RDWR | os.O_NOCTTY)
        tty.setraw(self._line)
        self.loader.written = False
        self.starts += 1

    def _stop(self) -> None:
        if self._line >= 0:
            os.close(self._line)
            self._line = -1
        if self._end:
            self._end()
            self._end = None

    @staticmethod
    def _put(descriptor: int, data: bytes) -> None:
        while data:
            data = data[os.write(descriptor, data) :]
