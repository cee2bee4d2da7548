"""Instruction sets: the folders of usermod_c/kernels/isa, and what their isa.toml says of the cores that run their
kernels."""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from mica.errors import MicaError
from mica.resources import data_dir

REFERENCE = "ref"  # for cores without kernels of their own, and for this computer

T = TypeVar("T")


@dataclass(frozen=True)
class Native:
    """Settings of a native module's build; `isa.toml` need not repeat those of its instruction set.

    `own`: members of libgcc in whose place natmod/ has its own. `whole`: all of its C is compiled as one program;
    `small`: C of kernels/isa that is compiled for size: its loops are assembly, or it takes little of a model's time.
    """

    name: str  # of the architecture, as MicroPython's mpy_ld.py calls it
    boards: str  # for people
    isa: str
    prefix: str  # of compiler and binutils
    packages: str  # of apt, that have them
    flags: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    whole: bool = False
    small: tuple[str, ...] = ()
    ram: int = 0  # bytes that a module with all kernels takes at most; 0: never measured


@dataclass(frozen=True)
class Bench:
    """An emulated core of scripts/bench. Addresses and sizes in bytes;
    `per_tick`: instructions in one count of its counter."""

    name: str
    flags: tuple[str, ...]
    start: str  # file of scripts/bench/bare
    command: tuple[str, ...]
    unit: str  # cycles or instructions
    code: int
    jobs: int
    ram: int
    ram_bytes: int
    arena_bytes: int
    board: str = "MPS2_AN385"  # whose board.toml says what scratch a file may want
    per_tick: float = 1


@dataclass(frozen=True)
class Isa:
    """One instruction set."""

    name: str
    prefix: str = ""  # of compiler and binutils
    packages: str = ""  # of apt, that have them
    cost: str = ""  # the core's entry in cost/table.json; "" where none was measured
    cost_of: Mapping[str, str] = field(default_factory=dict)  # the same for cores that have another, by their names
    loads: str = ""  # the native module that stock MicroPython loads on such a core, where that of another's kernels is
    native: tuple[Native, ...] = ()
    bench: tuple[Bench, ...] = ()


def _made(cls: type[T], table: Mapping[str, Any], place: str) -> T:
    known = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]
    if unknown := sorted(set(table) - set(known)):
        raise MicaError(f"{place}: no key is called {unknown[0]!r}", todo=f"known are {', '.join(known)}")
    needed = [n for n, f in known.items() if f.default is MISSING and f.default_factory is MISSING]
    if missing := [name for name in needed if name not in table]:
        raise MicaError(f"{place}: {missing[0]!r} is missing")
    return cls(**{name: tuple(v) if isinstance(v, list) else v for name, v in table.items()})


def read(path: Path) -> Isa:
    """Read one isa.toml. Raises MicaError, naming the file."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise MicaError(f"{path}: {error}") from None
    shared = {"isa": path.parent.name, "prefix": table.get("prefix", ""), "packages": table.get("packages", "")}
    table["native"] = [_made(Native, shared | row, f"{path}: native") for row in table.get("native", ())]
    table["bench"] = [_made(Bench, row, f"{path}: bench") for row in table.get("bench", ())]
    return _made(Isa, {"name": path.parent.name, **table}, str(path))


@cache
def isas() -> dict[str, Isa]:
    """All instruction sets, by name."""
    folder = data_dir("usermod_c") / "kernels" / "isa"
    return {path.parent.name: read(path) for path in sorted(folder.glob("*/isa.toml"))}


def toolchain(name: str) -> Isa:
    """The instruction set whose compiler builds for `isa`: itself, else one of its family, else the reference."""
    known = isas()
    family = [isa for isa in known.values() if isa.prefix and isa.name[:4] == name[:4]]
    return known.get(name) or (family or [known[REFERENCE]])[0]


@cache
def natives() -> dict[str, Native]:
    """The architectures of native modules, by name, the shortest names first."""
    found = [native for isa in isas().values() for native in isa.native]
    return {native.name: native for native in sorted(found, key=lambda n: (len(n.name), n.name))}
