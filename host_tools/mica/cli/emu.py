"""mica emu: an emulated board with a port, for other programs.

It runs in the foreground until Ctrl-C, and ends with the program that started it.
"""

import argparse
import os
import time
from pathlib import Path

from mica.boards import BoardSpec, all_boards, load_board
from mica.cli import options, text
from mica.cli.target import add_memory
from mica.cli.text import say
from mica.errors import MicaError, Unsupported
from mica.images import romfs, uf2
from mica.link.emulated import start_emulator
from mica.link.sensors import Sensors
from mica.link.virtual_pico import default_flash
from mica.listen import sensor_files
from mica.toolchain.build import build

JSON_KEYS = "board, port, pid"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("board", metavar="B", nargs="?", help="an emulated board (see mica boards), or its folder")
    parser.add_argument(
        "--image",
        metavar="FILE",
        help="run this firmware in the place of mica's, such as stock MicroPython's .uf2 for a Pico; its "
        "flash is kept apart",
    )
    parser.add_argument("--rom", metavar="FOLDER", help="put the files of this folder into the board's ROMFS, as /rom")
    parser.add_argument(
        "--socket", metavar="PORT", type=int, help="serve on this TCP port of this computer (0: any free one)"
    )
    add_memory(parser)
    options.add(
        parser,
        """
        --i2s WAV[,sck=N,ws=N,sd=N]  the virtual Pico's microphone plays this; default pins 16, 17, 18
        --pdm WAV[,clk=N,data=N]  the virtual Pico's PDM microphone plays this; default pins 3 and 2
        --adc WAV[,pin=N]  the virtual Pico's analogue pin has this voltage; 26 where no other is said
        --imu NPZ[,sda=N,scl=N,addr=N|,sck=N,mosi=N,miso=N,cs=N]  the virtual Pico's MPU6050 moves like this; at pins
            4 and 5 and address 0x68 where nothing else is said. An LSM6DS3 with addr=0x6a, an MPU6500 with
            sck=2,mosi=3,miso=4,cs=5
        --camera FILE[,data=N,xclk=N,sda=N,scl=N,kind=2640]  the virtual Pico's OV7670 or OV2640 sees this picture, or a
            folder's in turn; default pins 0 to 10, 11, 14 and 15
        """,
    )


def run(args: argparse.Namespace) -> int:
    image = Path(args.image) if args.image else None
    board = _emulated(args.board) if args.board else _board_of(image)
    if args.socket is not None and not 0 <= args.socket < 1 << 16:
        raise MicaError(f"--socket {args.socket}: expected a TCP port, 0 to 65535")
    rom = None
    flash: bool | Path = True
    if image is not None:
        if args.rom is not None:
            raise MicaError(
                "--rom: only mica knows where its own firmware has a ROMFS", todo="leave out --image, or --rom"
            )
        if board.uf2:
            uf2.check_family(uf2.parse(_read(image), str(image)), board.uf2.family, board.name, str(image))
            flash = default_flash(f"{image.stem}@emu")
    if args.rom is not None:
        size = board.romfs.size if board.romfs else 0
        rom = romfs.build(romfs.read_folder(Path(args.rom)), size=size)
    given = ((bus, getattr(args, bus)) for bus in sensor_files.READERS)
    wired = Sensors({bus: sensor_files.READERS[bus](words) for bus, words in given if words is not None})
    parent = os.getppid()
    image = image or build(board, progress=say).image
    with start_emulator(
        board, image, rom=rom, tcp=args.socket, keep_flash=flash, sensors=wired, progress=say
    ) as emulator:
        if args.json:
            text.emit_json({"board": board.name, "port": emulator.port, "pid": emulator.pid})
        else:
            print(emulator.port, flush=True)
        # mpremote has no prompt at a socket: it waits for the file of a serial port.
        prompt = f", or for a prompt mica repl --on {emulator.port}" if emulator.port.startswith("socket:") else ""
        command = " ls" if prompt else ""
        say(f"{board.name} runs; try: mpremote connect {emulator.port}{command}{prompt}   Ctrl-C here ends it")
        while emulator.alive():
            if os.getppid() != parent:
                return 0  # nobody is left to press Ctrl-C
            for note in emulator.notes():
                say(note)
            time.sleep(0.2)
    say(f"{board.name} has ended{': ' if emulator.last_words else ''}{emulator.last_words}")
    return 0


def _read(image: Path) -> bytes:
    try:
        return image.read_bytes()
    except OSError as error:
        raise MicaError(f"{image}: {error.strerror}") from None


def _board_of(image: Path | None) -> BoardSpec:
    """The emulated board that a UF2 file is for, by its chip."""
    boards = [b for b in all_boards() if b.emulator and b.uf2]
    if image is None:
        raise MicaError("which board? mica emu B, or mica emu --image FILE.uf2", todo="mica boards lists them")
    families = {block.family for block in uf2.parse(_read(image), str(image))}
    found = next((b for b in boards if b.uf2 and b.uf2.family in families), None)
    if found is None:
        chips = (
            ", ".join(sorted(uf2.FAMILIES.get(f, hex(f)) for f in families if f is not None)) or "no chip in particular"
        )
        raise Unsupported(f"{image}: is for {chips}", todo=f"emulated are {', '.join(b.target for b in boards)}")
    return found


def _emulated(name: str) -> BoardSpec:
    board = load_board(name.removesuffix("@emu"))
    if board.emulator is None:
        names = [b.name for b in all_boards() if b.emulator and b.emulator.machine]
        raise Unsupported(f"{name} is a real board", todo=f"emulated are {', '.join(names)}")
    if not board.emulator.machine:
        raise Unsupported(f"{name} has no port: it talks to a terminal", todo=f"type at it with: mica repl --on {name}")
    return board
