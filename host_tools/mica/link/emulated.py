"""Boards that are emulated: by QEMU, or by the virtual Pico. An emulator, and the link to its port."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from mica.boards import BoardSpec
from mica.errors import MicaError
from mica.images import romfs
from mica.link.board import SILENCE, BoardError, PutProgress
from mica.link.qemu import Emulator
from mica.link.sensors import Sensors
from mica.link.serial_board import SerialBoard
from mica.link.virtual_pico import VirtualPico
from mica.toolchain.cache import Progress, quiet


def start_emulator(
    board: BoardSpec,
    image: Path,
    *,
    icount: bool = False,
    rom: bytes | None = None,
    tcp: int | None = None,
    keep_flash: bool | Path = True,
    sensors: Sensors | None = None,
    progress: Progress = quiet,
) -> Emulator:
    """Start the emulator that the board's port has; the arguments are those of Emulator and VirtualPico.
    keep_flash: the file, too."""
    if sensors is not None and sensors.wired and not board.port.virtual_pico:
        raise MicaError(f"{board.target} has no sensors", todo="the virtual Picos have: RPI_PICO@emu, RPI_PICO2@emu")
    if board.port.virtual_pico:
        file = keep_flash if isinstance(keep_flash, Path) else None
        keep = bool(keep_flash)
        return VirtualPico(
            board, image, rom=rom, tcp=tcp, flash=file, keep_flash=keep, sensors=sensors, progress=progress
        )
    return Emulator(board, image, icount=icount, rom=rom, tcp=tcp)


class EmulatedBoard(SerialBoard):
    """An emulated board with its emulator; both end together.

    `rom_files` are put into its ROMFS before it starts. One that keeps its flash then gets a flash of its own for the
    while, so that what is in the other stays there.
    """

    def __init__(
        self,
        board: BoardSpec,
        image: Path,
        *,
        icount: bool = False,
        rom_files: Mapping[str, bytes] | None = None,
        sensors: Sensors | None = None,
        progress: Progress = quiet,
    ) -> None:
        rom = romfs.build(rom_files) if rom_files else None
        self.emulator = start_emulator(
            board, image, icount=icount, rom=rom, keep_flash=rom is None, sensors=sensors, progress=progress
        )
        self.rom_files = frozenset(rom_files or ())
        try:
            self.emulator.keep_connected()
            # It has just been switched on: no reset needed.
            super().__init__(self.emulator.port, name=board.target, reset=False)
            self.emulator.release()
        except BaseException:
            self.emulator.close()
            raise

    def exec_follow(self, code: str, on_data: Callable[[bytes], object], timeout: float | None = SILENCE) -> None:
        with self._alive():
            super().exec_follow(code, on_data, timeout)

    def put(self, data: bytes, name: str, progress: PutProgress | None = None) -> None:
        with self._alive():
            super().put(data, name, progress)

    @contextlib.contextmanager
    def _alive(self) -> Iterator[None]:
        """Say so when it is the emulator that has gone, rather than blame the line."""
        try:
            yield
        except BoardError as error:
            # An exception of the program's is not the line's; and a process that ends lets go of its port first.
            if not error.traceback and self._repl is not None and self.emulator.ends_within(0.5):
                raise BoardError(f"{self.name}: {self.emulator.last_words or 'the emulator has ended'}") from None
            raise

    def close(self) -> None:
        try:
            super().close()
        finally:
            self.emulator.close()
