"""Boards: one folder each, described by its board.toml. Those under boards/ have names; any other has its path.

Boards that keep stock MicroPython have no folder, but a line in boards/stock.toml.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from mica.boards.isa import isas, natives
from mica.boards.ports import PORTS, STOCK, Port
from mica.errors import MicaError, did_you_mean
from mica.format.schema import SCRATCH_LIMIT
from mica.resources import data_dir


@dataclass(frozen=True)
class Romfs:
    """Window of flash whose models and files are read in place: its address, and its size in bytes."""

    base: int
    size: int


@dataclass(frozen=True)
class Uf2:
    """Facts for a UF2 file of this board: address of the image, and the family id of its chip."""

    base: int
    family: int


@dataclass(frozen=True)
class Esptool:
    """Facts for esptool: its name for the chip, and the image's offset in flash."""

    chip: str
    offset: int


@dataclass(frozen=True)
class Emulator:
    """The program that emulates the board on this computer; `package` is its apt package, `machine` the board there."""

    program: str
    machine: str = ""
    package: str = ""
    args: tuple[str, ...] = ()


@dataclass(frozen=True)
class BoardSpec:
    """One board. Sizes in bytes; `clock` in Hz. 0 means not applicable."""

    folder: Path
    name: str
    description: str
    port: Port
    mcu: str
    core: str
    isa: str
    ram: int
    arena: int
    scratch: int = field(default=SCRATCH_LIMIT, repr=False)  # RAM that a model may want for speed, beside its tensors
    clock: int = 0
    flash: int = 0
    storage: int = 0
    network: bool = False  # it has sockets, as a board of a fleet needs
    submodules: tuple[str, ...] = ()  # of MicroPython's git repository, that its source package lacks
    romfs: Romfs | None = None
    uf2: Uf2 | None = None
    emulator: Emulator | None = None
    # Of no concern to a build, which goes by the repr.
    esptool: Esptool | None = field(default=None, repr=False)
    flash_miss: int = field(default=0, repr=False)  # cycles of what its flash cache lacks (cost/waits.py); 0: not known
    native: str = field(default="", repr=False)  # native modules of stock MicroPython here, as mpy_ld.py calls them
    stock_heap: int = field(
        default=0, repr=False
    )  # that stock MicroPython leaves free at its prompt, where that is known
    heap: int = field(default=0, repr=False)  # the same with mica, or NOTHING; where 0, cost/table.py knows
    module: int = field(
        default=0, repr=False
    )  # RAM of mica as a native module, its runtime and arena; NOTHING: not known

    @property
    def flasher(self) -> str:
        return self.port.flasher

    @property
    def target(self) -> str:
        """Name of the emulated board for --on; if a physical board has the name, `@emu` follows it."""
        return self.name if self.flasher == "none" else f"{self.name}@emu"


_SIZES = {"ram", "arena", "scratch", "stock_heap", "flash", "storage", "size"}
_TABLES: dict[str, type] = {"romfs": Romfs, "uf2": Uf2, "emulator": Emulator, "esptool": Esptool}


def parse_size(value: object, where: str) -> int:
    """Return bytes for 1024, "64K" or "4M"."""
    text = str(value).strip()
    factor = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:].upper())
    try:
        size = int(text, 0) if factor is None else int(text[:-1], 0) * factor
    except ValueError:
        size = -1
    if size < 0 or isinstance(value, bool | float):
        raise MicaError(f"{where}: {value!r} is not a size", todo='expected bytes, or a text such as "64K" or "4M"')
    return size


def _fill(cls: type, table: Mapping[str, Any], where: str, **given: Any) -> Any:
    """Make a `cls` from a TOML table; every key must be a field, of the right type."""
    known = {f.name: f for f in fields(cls) if f.name not in given}
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise MicaError(f"{where}: unknown key {', '.join(unknown)}", todo=f"known are {', '.join(known)}")
    missing = [name for name, f in known.items() if f.default is MISSING and name not in table]
    if missing:
        raise MicaError(f"{where}: {', '.join(missing)} is missing")
    values = dict(given)
    for key, value in table.items():
        place = f"{where}: {key}"
        if key in _TABLES and cls is BoardSpec:
            if not isinstance(value, dict):
                raise MicaError(f"{place}: {value!r} is not a table", todo=f"write [{key}] above its keys")
            values[key] = _fill(_TABLES[key], value, place)
        elif key in _SIZES:
            values[key] = parse_size(value, place)
        elif key in ("args", "submodules"):
            if not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
                raise MicaError(f"{place}: {value!r} is not a list of texts")
            values[key] = tuple(value)
        elif known[key].type is Port and isinstance(value, str):
            if value not in PORTS:
                raise MicaError(f"{place} is {value!r}", todo=f"known are {', '.join(PORTS)}")
            values[key] = PORTS[value]
        else:
            expected = known[key].type
            if type(value) is not expected:
                kind = getattr(expected, "__name__", str(expected))
                what = {"str": "a text", "Port": "a text", "bool": "true or false"}.get(kind, "a whole number")
                raise MicaError(f"{place}: {value!r} is not {what}")
            values[key] = value
    return cls(**values)


def _read(path: Path) -> dict[str, Any]:
    """Return a TOML file. `like`: a board of mica whose keys stand for those it leaves out, but for its emulator."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise MicaError(f"{path} is missing") from None
    except (OSError, ValueError) as error:  # of TOML, too
        raise MicaError(f"{path}: {error}") from None
    like = table.pop("like", None)
    if like is None:
        return table
    if like not in board_names() or like == path.parent.name:
        raise MicaError(f"{path}: like is {like!r}", todo=f"known are {', '.join(board_names())}")
    base = _read(data_dir("boards") / like / "board.toml")
    return {**{key: value for key, value in base.items() if key != "emulator"}, **table}


def read_board(folder: Path) -> BoardSpec:
    """Read folder/board.toml. Raises MicaError, naming file and key, when it is not as it should be."""
    path = folder / "board.toml"
    board: BoardSpec = _fill(BoardSpec, _read(path), str(path), folder=folder)
    if board.name != folder.name:
        raise MicaError(f"{path}: name is {board.name!r}, but the folder is {folder.name!r}")
    if board.flasher != "none" and not (board.flash and getattr(board, board.flasher)):
        raise MicaError(
            f"{path}: flash or [{board.flasher}] is missing, by which a board of {board.port.name} is flashed"
        )
    return board


def board_names() -> list[str]:
    """Names of all boards, without reading them."""
    return sorted(path.parent.name for path in data_dir("boards").glob("*/board.toml"))


@cache
def stock_boards() -> dict[str, BoardSpec]:
    """The boards of boards/stock.toml, by name, as they are without mica."""
    path = data_dir("boards") / "stock.toml"
    given = {"folder": path.parent, "port": STOCK, "isa": "", "arena": 0}
    return {
        name: _fill(BoardSpec, {"native": "armv7emsp", **table}, f"{path}: {name}", name=name, **given)
        for name, table in _read(path).items()
    }


def native_of(board: BoardSpec) -> str:
    """The architecture of native modules that stock MicroPython loads on a board; "" for none."""
    isa = isas().get(board.isa)
    return board.native or (isa.loads or next((n.name for n in isa.native), "") if isa else "")


NOTHING = -1  # bytes of heap: none are left
NATIVE_ARENA = 16 * 1024  # of a native module, which takes it from the heap
RUNTIME = 8 * 1024 + 512  # bytes of RAM: bytecode that is not frozen, and what newer compilers make of a module


def on_stock(board: BoardSpec, heap: int, module: int | None = None) -> BoardSpec:
    """A board on stock MicroPython, which has `heap` bytes free (0: not known),
    with mica as a native module of `module` bytes.

    None: the module has all kernels. Raises MicaError where there is no module for the board.
    """
    native = natives().get(native_of(board))
    if native is None:
        raise MicaError(f"{board.name}: mica has no native module for it", todo=f"there are {', '.join(natives())}")
    size = native.ram if module is None else module
    known = bool(native.ram) or module is not None
    taken = size + RUNTIME + NATIVE_ARENA if known else NOTHING
    left = (max(heap - taken, 0) or NOTHING) if heap and known else 0
    found = replace(board, native=native.name, isa=native.isa, arena=NATIVE_ARENA, heap=left, module=taken)
    if board.port.stock or board.flasher == "none" or board.romfs is None:
        return found
    # The ports' own images of these boards have no ROMFS: all of it is files.
    return replace(found, romfs=None, storage=board.storage + board.romfs.size)


KEPT = 32 * 1024  # bytes of RAM that MicroPython keeps for itself on a Pico


def chip(core: str, ram: int, clock: int = 0) -> BoardSpec:
    """A chip that has no folder, with mica in its firmware. core: an entry of cost/table.json, such as m7."""
    known = {isa.cost: (isa.name, core) for isa in isas().values() if isa.cost}
    known |= {cost: (isa.name, name) for isa in isas().values() for name, cost in isa.cost_of.items()}
    if core not in known:
        raise MicaError(f"--core {core}: no core is called so", todo=f"known are {', '.join(sorted(known))}")
    isa, name = known[core]
    heap = max(ram - KEPT - NATIVE_ARENA, 0) or NOTHING
    return BoardSpec(Path(), core, "", Port(""), "", name, isa, ram, NATIVE_ARENA, clock=clock, heap=heap)


def all_boards() -> list[BoardSpec]:
    return [read_board(data_dir("boards") / name) for name in board_names()]


def emulated_boards() -> dict[str, BoardSpec]:
    """The boards that run on this computer, by the name that --on takes."""
    return {board.target: board for board in all_boards() if board.emulator}


def as_spelled(name: str) -> str:
    """Return the name of a board, or of its emulation, as mica spells it, whatever case it is in;
    any other text as it is."""
    real, at, emulation = name.partition("@")
    found = {known.lower(): known for known in (*board_names(), *stock_boards())}.get(real.lower())
    return name if found is None or Path(name).is_dir() else found + (at + emulation).lower()


def _is_path(name: str) -> bool:
    """True if `name` is written as the path of a folder: with a slash."""
    return "/" in name or os.sep in name


def emulated_board(target: str) -> BoardSpec | None:
    """The board that a target of --on runs on this computer, by its name or its folder; None for ports and all else."""
    if not (_is_path(target) and (Path(target.removesuffix("@emu")) / "board.toml").is_file()):
        return emulated_boards().get(target)
    board = load_board(target)
    if board.emulator and target.endswith("@emu") == board.target.endswith("@emu"):
        return board
    other = f"emulated, it is --on {target}@emu" if board.emulator else "plug it in and give its port"
    raise MicaError(f"{target} is a real board", todo=other)


def load_board(name: str) -> BoardSpec:
    """The board called `name`, or whose emulation is, or of boards/stock.toml,
    or of the folder `name` where it has a slash.

    The error for an unknown name lists the known.
    """
    stock = stock_boards()
    names = sorted([*board_names(), *stock])
    real = name.removesuffix("@emu")
    if _is_path(real):
        board = _own_board(Path(real), names)
    elif real in stock:
        board = on_stock(stock[real], stock[real].stock_heap)
    elif real in names:
        board = read_board(data_dir("boards") / real)
    else:
        known = f"known are {', '.join(names)}"
        meant = f"did you mean ./{real}?" if Path(real).is_dir() else did_you_mean(name, names, known)
        raise MicaError(f"no board is called {name!r}", todo=meant)
    if name != real and (board.emulator is None or not board.target.endswith("@emu")):
        raise MicaError(f"no board is called {name!r}", todo=f"did you mean {real}?")
    return board


def _own_board(folder: Path, names: list[str]) -> BoardSpec:
    """Return the board of any folder. It may not have a name of mica's own, whose measured costs it would be given."""
    if not folder.is_dir():
        raise MicaError(f"{folder}: no such folder", todo="expected one with a board.toml")
    folder = folder.resolve()
    board = read_board(folder)
    if board.name in names and folder != data_dir("boards").resolve() / board.name:
        raise MicaError(f"{folder}: mica has a board called {board.name}", todo="choose another name")
    return board
