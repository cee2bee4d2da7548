"""Writes boards of the ESP32 family, with esptool in this process."""

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

from mica.errors import MicaError
from mica.flash import flash_map
from mica.flash.firmware_image import Image
from mica.flash.flash_map import Partition, Span
from mica.flash.writer import FlashCallbacks, Writer
from mica.link.board import Link

_BAUD = 460800  # what every USB bridge on these boards can
_DETECTIONS = 3
_SECTOR = 4096
_FORMATTED_BY = 2 * _SECTOR  # of an empty file system: MicroPython formats it only where these are erased


class EspWriter(Writer):
    def __init__(self, image: Image, port: str, erase_all: bool, callbacks: FlashCallbacks) -> None:
        self.image = image
        self.port = port
        self.erase_all = erase_all
        self.callbacks = callbacks
        self.partitions: list[Partition] | None = None  # of the board, as it was
        _import_esptool()

    def files_of_board(self, board: Link) -> Span | None:
        self.partitions = flash_map.partitions_of_board(board)
        return flash_map.find_files(self.partitions)

    def files_without_repl(self) -> Span | str | None:
        """The place of the files by the partition table, which the ROM loader reads for us."""
        with self._connected() as esp:
            table = bytes(esp.read_flash(flash_map.PARTITION_TABLE, flash_map.PARTITION_TABLE_BYTES))
        self.partitions = flash_map.partitions(table)
        if not self.partitions:
            return None if not table.strip(b"\xff") else "what is in its flash is no partition table"
        return flash_map.find_files(self.partitions)

    def write(self, board: Link | None, moved: bool) -> None:
        if board:
            board.close()
        parts = self._parts()
        if moved and self.image.files and not self.erase_all:
            parts.append((self.image.files.start, b"\xff" * _FORMATTED_BY))
        with self._connected() as esp:
            from esptool import cmds

            cmds.write_flash(esp, sorted(parts), erase_all=self.erase_all)
            esp.hard_reset()

    def _parts(self) -> list[tuple[int, bytes]]:
        """Parts of the image to write. The place of settings (NVS) is left out if the board has its own there."""
        settings = _settings(self.image.partitions)
        keep = settings if settings and not self.erase_all and settings == _settings(self.partitions or ()) else None
        parts = []
        for at, data in self.image.parts:
            if keep and keep.overlaps(at, len(data)):
                parts += [(at, data[: max(0, keep.start - at)]), (keep.end, data[max(0, keep.end - at) :])]
            else:
                parts.append((at, data))
        return [part for part in parts if part[1]]

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        """The chip with esptool's loader running on it; esptool's complaints are MicaErrors of one line."""
        assert self.image.board.esptool is not None
        expected = self.image.board.esptool.chip
        from esptool import cmds
        from esptool.util import FatalError
        from serial import SerialException

        esp = None
        with _as_our_progress(self.callbacks):
            try:
                esp = _detect_chip(self.port)
                name = esp.CHIP_NAME.lower().replace("-", "")
                if name != expected:
                    raise MicaError(
                        f"{self.port} is an {esp.CHIP_NAME}; {self.image.board.name} has an {_pretty(expected)}"
                    )
                esp = cmds.run_stub(esp)
                esp.change_baud(_BAUD)
                cmds.attach_flash(esp)
                yield esp
            except FatalError as error:
                raise _explain(str(error)).at(self.port) from None
            except (SerialException, OSError) as error:
                raise MicaError(f"{self.port}: the connection broke ({error})", todo="was it unplugged?") from None
            finally:
                if esp is not None:
                    with contextlib.suppress(Exception):
                        esp._port.close()


def _detect_chip(port: str) -> Any:
    """Detect the chip; ask again where a lost byte makes esptool take it for one that cannot name itself."""
    from esptool import cmds
    from esptool.util import FatalError

    for left in reversed(range(_DETECTIONS)):
        try:
            return cmds.detect_chip(port)
        except FatalError as error:
            if not left or "autodetect" not in str(error):
                raise
        gc.collect()  # closes the port, which it has left open in an object that refers to itself
    raise AssertionError


def _settings(rows: Any) -> Span | None:
    return next((row.span for row in rows if row.label == "nvs"), None)


def _pretty(chip: str) -> str:
    return "ESP32" + (f"-{chip[5:].upper()}" if chip[5:] else "")


def _explain(message: str) -> MicaError:
    """esptool's first line, and what to do where it does not say."""
    first = message.strip().splitlines()[0].rstrip(".") if message.strip() else "esptool gave up"
    if "Failed to connect" in first:
        return MicaError("no ESP32 answers", todo=f"hold its BOOT button, press reset, and try again ({first})")
    if "MD5" in first:
        return MicaError("what was written reads back different", todo=f"try again, with --erase ({first})")
    if "No more data" in first or "No serial data" in first or "Timed out" in first:
        return MicaError("the board fell silent", todo="check its cable, and try again")
    return MicaError(first, todo="try again")


def _import_esptool() -> None:
    try:
        import esptool
    except ImportError:
        raise MicaError("esptool is not installed", todo='type: pip install "esptool>=5,<6"') from None
    version = str(esptool.__version__)
    if version.partition(".")[0] != "5":
        raise MicaError(
            f"esptool {version} is installed, and mica works with 5", todo='type: pip install "esptool>=5,<6"'
        )


@contextlib.contextmanager
def _as_our_progress(callbacks: FlashCallbacks) -> Iterator[None]:
    """Have esptool report to our meter rather than print."""
    from esp_pylib.logger import EspLog, EspLogBase

    with contextlib.ExitStack() as stack:

        class Logger(EspLogBase):  # type: ignore[misc, unused-ignore]
            meter: Any = None

            def print(self, *args: Any, **kwargs: Any) -> None:
                pass

            err = warn = note = hint = debug = print

            def set_verbosity(self, mode: Any) -> None:
                pass

            def progress_bar(self, cur_iter: int, total_iters: int, *args: Any, **kwargs: Any) -> None:
                if self.meter is None:
                    self.meter = stack.enter_context(callbacks.meter("writing flash", "bytes"))
                self.meter(cur_iter, total_iters)

        before = EspLog.instance
        EspLog.instance = Logger()
        try:
            yield
        finally:
            EspLog.instance = before
