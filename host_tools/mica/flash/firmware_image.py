"""The file that is flashed: a firmware, alone or with models in its ROMFS, as one file."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mica.boards import BoardSpec
from mica.errors import MicaError, Unsupported
from mica.flash import flash_map
from mica.flash.flash_map import Span
from mica.images import romfs, uf2


@dataclass(frozen=True)
class Image:
    """A firmware for a board, taken apart: what goes where in flash, offsets from its start."""

    where: str  # the file, for messages
    board: BoardSpec
    parts: tuple[tuple[int, bytes], ...]
    files: Span | None  # the file system of this firmware; None when it does not say
    models: Span | None  # its ROMFS window
    partitions: tuple[flash_map.Partition, ...] = ()
    family: int = 0

    @property
    def size(self) -> int:
        return sum(len(data) for _, data in self.parts)

    @property
    def start(self) -> int:
        return self.parts[0][0]

    def as_file(self) -> bytes:
        """UF2 for a boot loader's drive, or bytes from `start` on for esptool."""
        if self.board.flasher == "uf2":
            return uf2.build([(flash_map.XIP_BASE + at, data) for at, data in self.parts], self.family)
        end = max(at + len(data) for at, data in self.parts)
        whole = bytearray(b"\xff" * (end - self.start))
        for at, data in self.parts:
            whole[at - self.start : at - self.start + len(data)] = data
        return bytes(whole)


def combined_image(board: BoardSpec, models: Sequence[Path], firmware: Path | None = None) -> bytes:
    """One file with a firmware and models: `/rom/NAME.mica` is there when the board starts.

    UF2 for RP2040 and RP2350; for the ESP32 family bytes that belong at the offset `board.esptool.offset`. `firmware`
    is an image of `mica build`, by default the one that it builds now. Raises MicaError.
    """
    if firmware is None:
        from mica.toolchain.build import build

        firmware = build(board).image
    return with_models(read(board, firmware), read_models(models)).as_file()


def read(board: BoardSpec, path: Path) -> Image:
    """A firmware image for this board; MicaError when it is none, or is for another chip."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise MicaError(f"{path}: no such file") from None
    except OSError as error:
        raise MicaError(f"{path}: cannot be read: {error.strerror}") from None
    if board.flasher == "uf2":
        return _read_uf2(board, data, str(path))
    if board.flasher == "esptool":
        return _read_esp(board, data, str(path))
    raise Unsupported(f"{board.name} is not a board that is flashed", todo=f"try: mica emu {board.name}")


def _read_uf2(board: BoardSpec, data: bytes, where: str) -> Image:
    assert board.uf2 is not None
    blocks = uf2.parse(data, where)
    uf2.check_family(blocks, board.uf2.family, board.name, where)
    own = [(block.address, block.data) for block in blocks if block.family in (board.uf2.family, None)]
    if not own or min(address for address, _ in own) != board.uf2.base:
        raise MicaError(f"{where}: no program begins at {board.uf2.base:#x}", todo="expected a firmware")
    end = board.uf2.base + board.flash
    for address, piece in own:
        if not board.uf2.base <= address <= end - len(piece):
            raise MicaError(f"{where}: writes at {address:#x}, which is not in the flash of {board.name}")
    files = flash_map.rp2_files_of_image(own)
    models = None
    if board.romfs and board.romfs.base - flash_map.XIP_BASE + board.romfs.size == (files.start if files else None):
        models = Span(board.romfs.base - flash_map.XIP_BASE, board.romfs.size)
    parts = tuple((address - flash_map.XIP_BASE, piece) for address, piece in _joined(own))
    if files and any(files.overlaps(at, len(piece)) for at, piece in parts):
        raise MicaError(f"{where}: writes into its own file system", todo="is it a dump of a whole flash?")
    return Image(where, board, parts, files, models, family=board.uf2.family)


def _joined(pieces: Sequence[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Pieces that follow each other as one."""
    found: list[tuple[int, bytearray]] = []
    for address, data in sorted(pieces):
        if found and found[-1][0] + len(found[-1][1]) == address:
            found[-1][1].extend(data)
        else:
            found.append((address, bytearray(data)))
    return [(address, bytes(data)) for address, data in found]


_ESP_MAGIC = 0xE9
# Chip id in the header of an image, of the chips that mica has boards for.
_ESP_CHIPS = {0: "esp32", 2: "esp32s2", 5: "esp32c3", 9: "esp32s3", 13: "esp32c6", 16: "esp32h2"}


def _read_esp(board: BoardSpec, data: bytes, where: str) -> Image:
    assert board.esptool is not None
    offset = board.esptool.offset
    if len(data) < 32 or data[0] != _ESP_MAGIC:
        raise MicaError(
            f"{where}: not a firmware for an ESP32", todo="expected firmware.bin, with boot loader and partition table"
        )
    chip = _ESP_CHIPS.get(int.from_bytes(data[12:14], "little"), "another chip")
    if chip != board.esptool.chip:
        raise MicaError(f"{where}: is for {chip}; {board.name} has an {board.esptool.chip}")
    table = flash_map.PARTITION_TABLE - offset
    rows = flash_map.partitions(data[table : table + flash_map.PARTITION_TABLE_BYTES])
    if not rows:
        raise MicaError(
            f"{where}: has no partition table", todo="expected firmware.bin, with boot loader and partition table"
        )
    if offset + len(data) > board.flash:
        raise MicaError(f"{where}: {len(data):,} bytes do not fit into the flash of {board.name} ({board.flash:,})")
    files, models = flash_map.find_files(rows), flash_map.find_models(rows)
    return Image(where, board, ((offset, data),), files, models, tuple(rows))


def with_models(image: Image, models: Mapping[str, bytes]) -> Image:
    """The image with these files in its ROMFS; what else the window held is erased with it."""
    if not models:
        return image
    if image.models is None:
        raise MicaError(
            f"{image.where}: has no ROMFS as {image.board.name}'s, for models", todo="flash mica's own firmware"
        )
    rom = romfs.rom_window_image(models, image.models.size)
    # Without them, what `mica push` has put there could be newer than this.
    logs = [(image.models.start + at, blank) for at, blank in romfs.blank_logs(len(rom), image.models.size)]
    parts = [part for part in image.parts if not image.models.overlaps(part[0], len(part[1]))]
    for at, data in image.parts:
        if image.models.overlaps(at, len(data)):  # an image that came with models: cut them off
            parts.append((at, data[: max(0, image.models.start - at)]))
            parts.append((max(at, image.models.end), data[max(0, image.models.end - at) :]))
    parts = sorted(part for part in [*parts, (image.models.start, rom), *logs] if part[1])
    return dataclasses.replace(image, parts=tuple(parts))


def read_models(models: Sequence[Path]) -> dict[str, bytes]:
    """Content of .mica files, by the names that they have in /rom."""
    from mica.file.codec import FormatError, decode

    found: dict[str, bytes] = {}
    for path in models:
        try:
            data = path.read_bytes()
            decode(data)
        except FileNotFoundError:
            raise MicaError(f"{path}: no such file") from None
        except OSError as error:
            raise MicaError(f"{path}: cannot be read: {error.strerror}") from None
        except FormatError as error:
            hint = "make one with `mica pack`" if path.suffix == ".onnx" else ""
            raise error.at(str(path)).then(hint) from None
        if path.name in found:
            raise MicaError(f"{path}: there is another {path.name}", todo="models on a board need names of their own")
        found[path.name] = data
    return found
