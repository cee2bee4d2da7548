"""Opens a board by what people call it: a port, the name of an emulated board, or `auto`.

Such as:  with open_board("MPS2_AN385") as board: print(board.exec("print(1 + 1)"))
"""

from collections.abc import Mapping

from mica.boards import board_names, emulated_board, emulated_boards, stock_boards
from mica.errors import MicaError, did_you_mean
from mica.images import romfs
from mica.link.board import Link
from mica.link.ports import check_port, is_port_name, the_only_port
from mica.link.sensors import Sensors
from mica.link.serial_board import SerialBoard
from mica.toolchain.build import build
from mica.toolchain.cache import Progress, quiet


def open_board(
    target: str,
    *,
    icount: bool = False,
    reset: bool = True,
    rom_files: Mapping[str, bytes] | None = None,
    sensors: Sensors | None = None,
    progress: Progress = quiet,
) -> Link:
    """Open a target: the name of an emulated board, a port, or `auto` for the one board that is plugged in.

    An emulated board's firmware is built first when it is not up to date. With `icount` the emulator's clock counts
    instructions. `reset` soft-resets a board at a port, so that it starts with an empty heap. `rom_files` are put into
    the ROMFS of an emulated board that has one, before it starts; the board's `rom_files` tells.
    `sensors` are wired to the virtual Pico.
    """
    if board := emulated_board(target):
        result = build(board, progress=progress)
        # These need POSIX; a real board's port is opened on Windows too.
        if board.port.program:
            from mica.link.unix_board import UnixBoard

            return UnixBoard(board, result.image)
        from mica.link.emulated import EmulatedBoard

        rom = romfs.fitting(rom_files, board.romfs.size if board.romfs else 0)
        return EmulatedBoard(board, result.image, icount=icount, rom_files=rom, sensors=sensors, progress=progress)
    return SerialBoard(_port_of(target), reset=reset)


def check_target(target: str) -> None:
    """Raise MicaError where open_board(target) can only fail. For callers that would work long before they open it."""
    if emulated_board(target) is None:
        check_port(_port_of(target))


def _port_of(target: str) -> str:
    """The port that a target which is no emulated board stands for."""
    emulated = emulated_boards()
    if target in board_names() or target in stock_boards():
        other = f"emulated, it is --on {target}@emu" if f"{target}@emu" in emulated else ""
        plug = "plug it in and give its port, such as --on /dev/ttyACM0 (or --on auto)"
        raise MicaError(f"{target} is a real board", todo=plug).then(other)
    if target == "auto":
        return the_only_port()
    if not is_port_name(target):
        raise MicaError(
            f"{target!r} is neither a board nor a port",
            todo=did_you_mean(
                target,
                ["host", "auto", *emulated, *board_names()],
                f"known are host, auto, {', '.join(emulated)}, and ports such as /dev/ttyACM0, COM5 or "
                "socket://127.0.0.1:5000",
            ),
        )
    return target
