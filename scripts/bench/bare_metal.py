"""The engine as a bare-metal program, on every core that can be emulated here: build it, give it models, read counts.

A core is an emulator, compiler flags and a folder of kernels.
One program serves all models of a core: they are put into the emulator's memory as one block of jobs (the C side:
bare/main.c).
"""

import contextlib
import hashlib
import os
import re
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import cycle_tables
import numpy as np

from mica.boards import load_board
from mica.boards.isa import Bench, isas
from mica.errors import MicaError
from mica.file.codec import DTYPE_NUMPY, ModelFile, TensorRecord, encode
from mica.link import emulator
from mica.packing.model import set_scratch
from mica.reference.executor import ReferenceModel
from mica.toolchain.cache import cache_dir
from mica.toolchain.process import need_program
from mica.toolchain.source_lists import engine

ROOT = Path(__file__).resolve().parents[2]
BARE = Path(__file__).resolve().parent / "bare"
USERMOD = ROOT / "usermod_c"
VIRTUAL = "pico.py"  # in place of QEMU
Array = np.ndarray

FLAGS = (
    *("-O2", "-std=c99", "-Wall", "-Wextra", "-Werror", "-ffunction-sections", "-fdata-sections"),
    *("-ffreestanding", "-nostartfiles", "-Wl,--gc-sections", "-Wl,--no-warn-rwx-segments", "-Wl,--build-id=none"),
)


@dataclass(frozen=True)
class Core(Bench):
    """One emulated core, from the isa.toml of its kernels."""

    isa: str = ""  # the folder of kernels that its boards use
    tools: tuple[str, str] = ("", "")  # prefix of the compiler, and its packages


@dataclass(frozen=True)
class Compiler:
    """Another compiler for a core's C, in place of its own GCC, which still assembles and links.

    `without`: beginnings of the core's flags that it does not take.
    """

    command: tuple[str, ...]
    without: tuple[str, ...] = ("--specs",)


# The program's variables lie in the second megabyte of what is the code memory of the MPS2 boards: all RAM in QEMU.
# The board's kernels in assembly run from RAM (boards/RPI_PICO).
HOT = ("-DMICA_HOT_SECTION=.time_critical.mica",)

CORES = {
    bench.name: Core(**vars(bench), isa=isa.name, tools=(isa.prefix, isa.packages))
    for isa in isas().values()
    for bench in isa.bench
}


@dataclass
class Job:
    """A model, one array for each of its inputs, and the scratch that its kernels get (None: as the file asks).

    A counter that ticks once in 40 instructions says more of a short step that runs `times` times;
    none of them may write over its input.
    """

    name: str
    data: bytes
    inputs: Sequence[Array]
    scratch: int | None = None
    parts: int = 1  # into how many each step's rows are cut
    times: int = 1


@dataclass
class Result:
    """Costs of a job. `counts` (of one run) and `hashes` by step; `check` and `load` are the counts of mica_check() and
    of loading the checked file; `refused` is the engine's reason, or a fault of the run. With a table of cycles, also
    by step: `executed` instructions, `cycles`, and the cycles that `late` addresses would add (cycles/cortex_m4.c)."""

    name: str
    counts: list[float] = field(default_factory=list)
    hashes: list[int] = field(default_factory=list)
    arena_bytes: int = 0
    scratch_bytes: int = 0
    check: float = 0.0
    load: float = 0.0
    refused: str = ""
    executed: list[float] = field(default_factory=list)
    cycles: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)


def fnv(data: bytes) -> int:
    """FNV-1a, 32 bits, as bare/main.c computes it."""
    h = 0x811C9DC5
    for b in data:
        h = ((h ^ b) * 0x01000193) & 0xFFFFFFFF
    return h


def expected(job: Job) -> list[int]:
    """The hash of each step's output in numpy, where the rounding rule stands independently of the C engine."""
    model = ReferenceModel(job.data)
    for i, x in enumerate(job.inputs):
        model.set_input(i, x)
    hashes = []
    for k, step in enumerate(model.file.steps):
        model.run_step(k)
        hashes.append(fnv(model.tensor(step.outputs[0]).tobytes()))
    return hashes


def random_input(t: TensorRecord, rng: np.random.Generator, kind: str = "") -> Array:
    """Full-range data for a tensor; "extreme" takes only the ends of the range."""
    if t.dtype != "int8":
        return rng.integers(0, 2, t.dims).astype(DTYPE_NUMPY[t.dtype])
    if kind == "extreme":
        return rng.choice(np.array([-128, -128, -128, 127], np.int8), t.dims)
    return rng.integers(-128, 128, t.dims, dtype=np.int8)


# --- building ---------------------------------------------------------------------------------------------------------


def isa_folder(isa: str, usermod: Path = USERMOD) -> Path:
    """The folder of kernels for an instruction set; the reference where it has none of its own."""
    folder = usermod / "kernels" / "isa" / isa
    return folder if (folder / "mica_select.h").exists() else usermod / "kernels" / "isa" / "ref"


def sources(isa: str, usermod: Path = USERMOD) -> list[Path]:
    """The portable engine, and the kernels of an instruction set."""
    return engine(usermod, isa_folder(isa, usermod).name)


@cache
def _version(command: tuple[str, ...]) -> str:
    """Return a compiler's version: another program may stand at the same path tomorrow."""
    return subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout


def build(
    core: Core,
    isa: str | None = None,
    usermod: Path = USERMOD,
    more: Sequence[str] = (),
    compiler: Compiler | None = None,
) -> Path:
    """Build the program for a core with the kernels of `isa` (None: its own), once for each state of its sources."""
    isa = core.isa if isa is None else isa
    prefix, package = core.tools
    gcc = need_program(f"{prefix}gcc", package)
    link_with = [gcc, *core.flags, *FLAGS, *more]
    compile_with = link_with
    if compiler is not None:
        known = [flag for flag in core.flags if not flag.startswith(compiler.without)]
        compile_with = [*compiler.command, *known, *FLAGS, *more]
    versions = [_version(tuple(command)) for command in (link_with, compile_with)]
    digest = hashlib.sha256(repr((core, isa, link_with, compile_with, versions)).encode())
    for path in sorted(p for folder in (usermod, BARE) for p in folder.rglob("*") if p.is_file()):
        if path.suffix in (".c", ".h", ".S", ".inc", ".ld", ".txt"):
            digest.update(str(path.relative_to(folder_of(path, usermod))).encode() + path.read_bytes())
    folder = cache_dir() / "bench"
    folder.mkdir(exist_ok=True)
    program = folder / f"{core.name}-{isa}-{digest.hexdigest()[:12]}.elf"
    with contextlib.suppress(FileNotFoundError):  # another process may discard it at any time
        os.utime(program)
        return program
    if usermod == USERMOD:
        for old in folder.glob(f"{core.name}-{isa}-*.elf"):
            _discard(old, 3600)
    include = ["include", "kernels", f"kernels/isa/{isa_folder(isa, usermod).name}"]
    own = [
        f"-DBENCH_JOBS={core.jobs:#x}", f"-DBENCH_ARENA_BYTES={core.arena_bytes}", "-DBENCH_TABLES_BYTES=24576",
    ]  # fmt: skip
    places = [*(f"-I{usermod / i}" for i in include), f"-I{BARE}"]
    objects = [
        *_objects([*compile_with, *own], places, [BARE / "main.c", BARE / core.start], usermod),
        *_objects(compile_with, places, [p for p in sources(isa, usermod) if p.suffix != ".S"], usermod),
        *_objects(link_with, places, [p for p in sources(isa, usermod) if p.suffix == ".S"], usermod),
    ]
    half = program.with_suffix(f".{os.getpid()}")
    link(core, half, objects, more)
    half.replace(program)
    return program


def link(core: Core, program: Path, inputs: Sequence[str | Path], options: Sequence[str] = ()) -> None:
    """Make a program for a core of objects or sources. Raises MicaError."""
    symbols = {"CODE_BASE": core.code, "RAM_BASE": core.ram, "RAM_END": core.ram + core.ram_bytes}
    gcc, places = need_program(f"{core.tools[0]}gcc", core.tools[1]), ["-T", str(BARE / "bench.ld"), f"-I{BARE}"]
    places += [f"-Wl,--defsym={k}={v:#x}" for k, v in symbols.items()]
    _gcc([gcc, *core.flags, *FLAGS, *options, *places, *map(str, inputs), "-lc", "-lgcc", "-o", str(program)])


def _discard(path: Path, seconds: float) -> None:
    """Delete a file that was not used for so long. The time protects files of other flags or processes."""
    with contextlib.suppress(FileNotFoundError):
        if time.time() - path.stat().st_mtime > seconds:
            path.unlink()


def _objects(compile_with: list[str], places: list[str], files: Sequence[Path], usermod: Path) -> list[str]:
    """Each file compiled, or found in the cache where it, its headers and the options are as they were."""
    options = hashlib.sha256(repr((compile_with, _version(tuple(compile_with)))).encode())
    headers: dict[str, list[Path]] = {}  # by name; where there are several, all of them count
    for path in sorted(p for folder in (usermod, BARE) for p in folder.rglob("*.*") if p.suffix in (".h", ".inc")):
        headers.setdefault(path.name, []).append(path)

    def with_headers(path: Path, seen: dict[Path, bytes]) -> dict[Path, bytes]:
        seen[path] = path.read_bytes()
        for name in re.findall(rb'^\s*#\s*include "([^"]+)"', seen[path], re.M):
            for header in headers.get(Path(name.decode()).name, ()):
                if header not in seen:
                    with_headers(header, seen)
        return seen

    folder = cache_dir() / "bench" / "objects"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.o"):
        _discard(old, 86400)

    def compiled(path: Path) -> str:
        digest, seen = options.copy(), with_headers(path, {})
        if any("isa" in source.parts for source in seen):  # else it is the same for every set of kernels
            digest.update(repr([Path(place).name for place in places]).encode())
        for source, content in seen.items():
            digest.update(str(source.relative_to(folder_of(source, usermod))).encode() + content)
        made = folder / f"{digest.hexdigest()[:24]}.o"
        with contextlib.suppress(FileNotFoundError):  # nor touch(), which makes an empty one of what was discarded
            os.utime(made)
            return str(made)
        half = made.with_suffix(f".{os.getpid()}")
        _gcc([*compile_with, *places, "-c", str(path), "-o", str(half)])
        half.replace(made)
        return str(made)

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(compiled, files))


def _gcc(command: list[str]) -> None:
    """Run a compiler that writes the file named last. Raises MicaError."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        Path(command[-1]).unlink(missing_ok=True)
        raise MicaError(f"building the benchmark with {Path(command[0]).name} failed:\n{done.stderr.strip()}")


def folder_of(path: Path, usermod: Path) -> Path:
    """Return the one of the two source folders that holds a file."""
    return usermod if usermod in path.parents else BARE


def text_bytes(core: Core, program: Path, prefix: str = "mica_") -> dict[str, int]:
    """Bytes of each function and constant of the program whose name begins with `prefix`."""
    nm = need_program(f"{core.tools[0]}nm", core.tools[1])
    out = subprocess.run([nm, "-S", "--defined-only", program], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in out.splitlines()]
    return {r[3]: int(r[1], 16) for r in rows if len(r) == 4 and r[3].startswith(prefix)}


def address_of(core: Core, program: Path, name: str) -> int:
    """Address of a function in the program."""
    nm = need_program(f"{core.tools[0]}nm", core.tools[1])
    out = subprocess.run([nm, "--defined-only", program], capture_output=True, text=True, check=True).stdout
    return next(int(line.split()[0], 16) for line in out.splitlines() if line.split()[-1] == name) & ~1


# --- running ----------------------------------------------------------------------------------------------------------


def command(core: Core, program: Path, block: Path | None = None, options: Sequence[str] = ()) -> list[str]:
    """Return what runs a program. block: what the core finds at `core.jobs`. options: of pico.py, or more of QEMU's."""
    if core.command[0] == VIRTUAL:
        files = [hex(core.jobs), str(block)] if block else []
        return [sys.executable, "-B", str(BARE / VIRTUAL), *options, str(emulator.install()), str(program), *files]
    need_program(core.command[0], "qemu-system-arm" if "arm" in core.command[0] else "qemu-system-misc")
    loader = ["-device", f"loader,file={block},addr={core.jobs:#x},force-raw=on"] if block else []
    how = ["-display", "none", "-monitor", "none", "-icount", "shift=0"]
    return [*core.command, *how, "-kernel", str(program), *loader, *options]


def _block(jobs: Sequence[Job]) -> bytes:
    head = 8 + 24 * len(jobs)
    table, body = b"", bytearray()
    for job in jobs:
        model = ReferenceModel(job.data)
        body += bytes(-(head + len(body)) % 16)
        file = head + len(body)
        body += job.data + bytes(-len(job.data) % 4)
        inputs = head + len(body)
        for x in job.inputs:
            raw = np.ascontiguousarray(x).tobytes()
            body += raw + bytes(-len(raw) % 4)
        scratch = model.info["scratch_want"] if job.scratch is None else job.scratch
        table += struct.pack("<6I", file, len(job.data), inputs, scratch, job.parts, job.times)
    return struct.pack("<2I", 0x53424F4A, len(jobs)) + table + bytes(body)


def run(
    core: Core,
    program: Path,
    jobs: Sequence[Job],
    timeout: float = 1200,
    xip: int | None = None,
    cycles: str | None = None,
    cold: bool = False,
) -> list[Result]:
    """All jobs in one start of the emulator. Raises MicaError where it does not come to its end.

    xip: cycles of each miss in a model of the RP2040's flash cache; None reads flash without a wait.
    With `cycles`, any number has Result.late hold the waits of a Pico 2. cold: each step begins with an empty cache.
    cycles: a table of cycle_tables.TABLES that QEMU counts by as well.
    """
    totals = cache_dir() / "bench" / f"cycles-{os.getpid()}.txt"
    block = cache_dir() / "bench" / f"jobs-{os.getpid()}.bin"
    block.write_bytes(_block(jobs))
    options = []
    if core.command[0] == VIRTUAL:
        options = [*([f"--xip={xip}"] if xip is not None else []), *(["--cold"] if cold else [])]
    elif cycles is not None:
        mark = address_of(core, program, cycle_tables.MARK)
        places = (core.code, core.jobs) if xip is not None else None
        options = cycle_tables.options(core.command[0], cycles, mark, totals, places, cold)
    try:
        started = command(core, program, block, options)
        done = subprocess.run(started, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise MicaError(f"the benchmark on {core.name} did not end in {timeout:.0f} s") from None
    finally:
        block.unlink(missing_ok=True)
    results = [Result(job.name) for job in jobs]
    ended = False
    for line in (done.stdout + "\n" + done.stderr).splitlines():
        kind, *rest = line.split()[:1] + line.split()[1:] or [""]
        if kind == "J":
            i, arena, scratch, check, load = (int(word, 16) for word in rest)
            results[i].arena_bytes, results[i].scratch_bytes = arena, scratch
            results[i].check, results[i].load = check * core.per_tick, load * core.per_tick
        elif kind == "S":
            i, _, count, value = (int(word, 16) for word in rest)
            results[i].counts.append(count * core.per_tick / jobs[i].times)
            results[i].hashes.append(value)
        elif kind == "E":
            results[int(rest[0], 16)].refused = " ".join(rest[1:])
        elif kind == "D":
            ended = True
    if not ended:
        failures = [r.refused for r in results if r.refused]
        last = "\n".join((done.stdout + done.stderr).splitlines()[-5:])
        raise MicaError(f"the benchmark on {core.name} ended early: {failures[0] if failures else last}")
    if cycles is not None and not any(r.refused for r in results):
        by_job = cycle_tables.steps(totals, [len(r.counts) for r in results])
        totals.unlink()
        for job, result, seen in zip(jobs, results, by_job, strict=True):
            result.executed, result.cycles, result.late = (
                [n / job.times for n in column] for column in zip(*seen, strict=True)
            )
    return results


def differences(jobs: Sequence[Job], results: Sequence[Result], expected: Mapping[str, list[int]]) -> list[str]:
    """One line for each job whose steps did not all write the expected bytes."""
    lines = []
    for job, r in zip(jobs, results, strict=True):
        if r.refused:
            lines.append(f"{job.name}: {r.refused}")
        elif r.hashes != expected[job.name]:
            step = next((i for i, (a, b) in enumerate(zip(r.hashes, expected[job.name], strict=False)) if a != b), -1)
            lines.append(f"{job.name}: step {step} wrote other bytes than the numpy reference")
    return lines


def available(core: Core) -> str:
    """Why a core cannot be used here, or nothing."""
    if shutil.which(f"{core.tools[0]}gcc") is None:
        return f"{core.tools[0]}gcc is not installed: apt install {core.tools[1]}"
    if core.command[0] != VIRTUAL and shutil.which(core.command[0]) is None:
        return f"{core.command[0]} is not installed"
    return ""


def for_board(model: ModelFile, board: str) -> bytes:
    """The file that `mica pack --board` writes: the same for every board, but for the scratch it wants."""
    set_scratch(model, load_board(board).scratch)
    return encode(model)
