"""UF2 files: what a boot loader's drive takes. Blocks of 512 bytes, each with its address and the chip's family.

    0 magic  4 magic  8 flags  12 address  16 bytes of data (256)  20 number  24 count  28 family  32 data ... 508 magic

RP2040's boot ROM erases a flash sector when its first block comes, and can damage what it wrote when a sector
other than the last comes in part (erratum E14): so `build` fills sectors.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from mica.errors import MicaError

BLOCK = 512
PAGE = 256  # bytes of data in a block, and what flash is programmed by
SECTOR = 4096  # what flash is erased by

_MAGICS = (0x0A324655, 0x9E5D5157)
_LAST_MAGIC = 0x0AB16F30
_NOT_FLASH = 0x00000001  # flags
_HAS_FAMILY = 0x00002000

RP2040, ABSOLUTE, DATA, RP2350, RP2350_RISCV, RP2350_NS = (0xE48BFF56 + i for i in range(6))
FAMILIES = {
    RP2040: "RP2040",
    RP2350: "RP2350 (Arm)",
    RP2350_RISCV: "RP2350 (RISC-V)",
    RP2350_NS: "RP2350 (Arm, non-secure)",
    ABSOLUTE: "any RP2350 (absolute addresses)",
    DATA: "RP2350 data",
    0x1C5F21B0: "ESP32",
    0xC47E5767: "ESP32-S3",
    0xD42BA06C: "ESP32-C3",
    0xADA52840: "nRF52840",
    0x68ED2B88: "SAMD21",
    0x55114460: "SAMD51",
}


class Block(NamedTuple):
    """One block: `data` goes to `address`. `family` is None where the block does not say."""

    address: int
    data: bytes
    family: int | None
    number: int
    of: int


def parse(image: bytes, where: str) -> list[Block]:
    """The blocks of a UF2 file that are meant for flash. Raises MicaError for anything else."""
    blocks = []
    if not image or len(image) % BLOCK:
        raise MicaError(f"{where}: not a UF2 file ({len(image):,} bytes; expected a multiple of {BLOCK})")
    for at in range(0, len(image), BLOCK):
        first, second, flags, address, size, number, count, family = struct.unpack_from("<8I", image, at)
        (last,) = struct.unpack_from("<I", image, at + BLOCK - 4)
        if (first, second) != _MAGICS or last != _LAST_MAGIC or size > 476:
            raise MicaError(f"{where}: not a UF2 file (block {at // BLOCK})")
        if not flags & _NOT_FLASH:
            data = image[at + 32 : at + 32 + size]
            blocks.append(Block(address, data, family if flags & _HAS_FAMILY else None, number, count))
    return blocks


def check_family(blocks: list[Block], expected: int, board: str, where: str) -> None:
    """Raise MicaError unless the blocks are for this family, or for none in particular."""
    for family in sorted({block.family for block in blocks if block.family not in (expected, None)}, key=str):
        if family == ABSOLUTE and expected in (RP2350, RP2350_RISCV):
            continue  # the block that works round erratum RP2350-E10
        assert family is not None
        name = FAMILIES.get(family, f"another chip (family {family:#010x})")
        raise MicaError(f"{where}: is for {name}; {board} has an {FAMILIES.get(expected, hex(expected))}")


def build(parts: Iterable[tuple[int, bytes]], family: int) -> bytes:
    """A UF2 file that writes these (address, data) parts; a later part wins where two overlap.

    What is left of a sector that a part begins or ends in becomes 0xff, unless another part writes there.
    """
    sectors: dict[int, bytearray] = {}
    for address, data in parts:
        at = 0
        while at < len(data):
            start, within = divmod(address + at, SECTOR)
            sector = sectors.setdefault(start * SECTOR, bytearray(b"\xff" * SECTOR))
            piece = data[at : at + SECTOR - within]
            sector[within : within + len(piece)] = piece
            at += len(piece)
    pages = [
        (start + at, bytes(sector[at : at + PAGE]))
        for start, sector in sorted(sectors.items())
        for at in range(0, SECTOR, PAGE)
    ]
    blocks = []
    for number, (address, page) in enumerate(pages):
        head = struct.pack("<8I", *_MAGICS, _HAS_FAMILY, address, PAGE, number, len(pages), family)
        blocks.append(head + page + bytes(476 - PAGE) + struct.pack("<I", _LAST_MAGIC))
    return b"".join(blocks)
