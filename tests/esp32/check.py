"""The engine as code for an ESP32's core, with register windows, run in an emulator: an optional check.

The compiler that knows this core is LLVM 22, of a later Debian than this one may be. It is fetched, with GCC 13 for the
native module, through this
machine's own mirror (about 180 MB), kept in the cache, and nothing is installed. What is run is a Linux program on QEMU's
core de233_fpu, as no ESP32 can be had: windows and instructions of the ESP32, not its chip. What could not be done is
said as SKIPPED, with the reason, and is no failure.

    scripts/test --esp32
"""

import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from mica.cli.verify import inputs_for
from mica.errors import MicaError, Unsupported
from mica.file import codec
from mica.resources import data_dir
from mica.run.host import HostRunner
from mica.toolchain import natmod, xtensa_cc
from mica.toolchain.pins import unpinned_by_environment
from mica.toolchain.source_lists import listed

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-ffreestanding", "-fno-builtin"]
HEADERS = "/usr/lib/xtensa-lx106-elf/include"  # picolibc's
NEEDED = {"qemu-xtensa": "qemu-user", "xtensa-lx106-elf-ld": "gcc-xtensa-lx106", "dpkg-deb": "dpkg"}


class Skip(Exception):
    """The check cannot be made here."""


def main() -> int:
    try:
        for program, package in NEEDED.items():
            if shutil.which(program) is None:
                raise Skip(f"{program} is not installed; sudo apt install {package}")
        tools = llvm()
    except Skip as reason:
        print(f"SKIPPED: ESP32 code with register windows: {reason}")
        return 0
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for isa in ("ref", "c32"):
            program = build(tools, Path(folder), isa)
            equal, steps = compare(program)
            print(f"kernels {isa}: {steps} steps, {'every one equal to the host' if equal else 'DIFFERENT'}")
            failed |= not equal
    try:
        module = natmod.build("xtensawin", progress=lambda line: print(line, flush=True))
    except Unsupported as reason:
        print(f"SKIPPED: native module: {reason}")
    else:
        right, loads = literals(module.file)
        print(f"native module: {module.size} bytes, {loads} loads of literals, {right} of them from the right place")
        failed |= loads == 0 or right != loads
    print("SKIPPED: a chip, its SDK's firmware, its vector unit: none of them is here")
    return 1 if failed else 0


def llvm() -> Callable[..., list[str]]:
    """The commands of LLVM: a function from a program's name and arguments to a command line."""
    try:
        root = xtensa_cc.unpacked(
            "llvm-22", ["clang-22", "llvm-22"], lambda line: print(line, flush=True), unpinned=unpinned_by_environment()
        )
    except MicaError as error:
        raise Skip(str(error)) from None
    library = root / "usr" / "lib"
    loader = next(library.glob("x86_64-linux-gnu/ld-linux-x86-64.so.2"), None)
    if loader is None:
        raise Skip("LLVM for this computer's processor is not among the packages")
    paths = f"{library / 'x86_64-linux-gnu'}:{library / 'llvm-22' / 'lib'}"

    def command(program: str, *arguments: object) -> list[str]:
        binary = library / "llvm-22" / "bin" / program
        return [str(loader), "--library-path", paths, str(binary), *map(str, arguments)]

    return command


def build(tools: Callable[..., list[str]], folder: Path, isa: str) -> Path:
    """The program, linked. clang writes LLVM's own language, as only llc lets the core be chosen, and llvm-mc assembles:
    objects written directly have misplaced literals."""
    usermod = data_dir("usermod_c")
    isa_folder = usermod / "kernels" / "isa" / isa
    files = listed(usermod / "sources.txt") + (listed(isa_folder / "sources.txt") if isa != "ref" else [])
    files = [path.resolve() for path in files]
    files += [HERE / "main.c", data_dir("boards") / "common" / "qemu" / "xtensa_libgcc.c"]
    include = [f"-I{path}" for path in (usermod / "include", usermod / "kernels", isa_folder)]
    resources = tools("clang")[3].replace("bin/clang", "lib/clang/22")
    objects = []
    for number, source in enumerate(files):
        stem = folder / f"{isa}-{number}-{source.stem}"
        front = ["--target=xtensa", "-resource-dir", resources, "-O2", *STRICT, *include, "-isystem", HEADERS]
        run(tools("clang", *front, "-S", "-emit-llvm", source, "-o", f"{stem}.ll"))
        # No core of QEMU's has the ESP32's high half of a 32-bit product.
        run(tools("llc", "-O2", "-mtriple=xtensa", "-mcpu=esp32", "-mattr=-mul32high", f"{stem}.ll", "-o", f"{stem}.s"))
        objects.append(assemble(tools, Path(f"{stem}.s")))
    start = folder / "start.s"
    start.write_text((HERE / "start.S").read_text(encoding="utf-8"), encoding="utf-8")
    objects.insert(0, assemble(tools, start))
    program = folder / f"program-{isa}"
    link = ["xtensa-lx106-elf-ld", "-T", HERE / "program.ld", "-z", "noexecstack", "--no-warn-rwx-segments"]
    run([*map(str, link), *map(str, objects), "-o", str(program)])
    return program


def assemble(tools: Callable[..., list[str]], source: Path) -> Path:
    target = source.with_suffix(".o")
    run(tools("llvm-mc", "-triple=xtensa", "-mcpu=esp32", "-filetype=obj", source, "-o", target))
    return target


def run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"esp32: {' '.join(command)}\n{done.stdout}{done.stderr}")


def compare(program: Path) -> tuple[bool, int]:
    """Every kernel's models, on the program and on the host: whether each step's CRC is the same, and how many there were."""
    sys.path.insert(0, str(ROOT / "tests" / "format"))
    from models import MODELS

    stream, expected = b"", []
    for make in MODELS:
        data = codec.encode(make())
        with HostRunner(data) as host:
            samples = inputs_for(host, None, 5)
            for inputs in samples:
                expected += host.layer_hashes(inputs)
        stream += struct.pack("<I", len(data)) + data + struct.pack("<I", len(samples))
        stream += b"".join(np.ascontiguousarray(x).tobytes() for inputs in samples for x in inputs)
    done = subprocess.run(
        ["qemu-xtensa", "-cpu", "de233_fpu", str(program)],
        input=stream + struct.pack("<I", 0),
        capture_output=True,
        timeout=600,
        check=False,
    )
    if done.returncode != 42:
        print(f"the program ended with {done.returncode}: {done.stdout[-400:]!r} {done.stderr[-400:]!r}")
        return False, 0
    return [int(line, 16) for line in done.stdout.split()] == expected, len(expected)


def literals(file: Path) -> tuple[int, int]:
    """Count the instructions in a module that load an address or a constant: those that load from the linker's place,
    and all. The linker's log has the expected places."""
    log = (file.parent / "link.log").read_text(encoding="utf-8")
    found = re.findall(r"^  ([0-9a-f]{8}) (?:GOT \S+|LIT) -> ([0-9a-f]{8})$", log, flags=re.M)
    places = [(int(at, 16), int(to, 16)) for at, to in found]
    data = file.read_bytes()

    def words(base: int) -> list[int]:
        return [int.from_bytes(data[base + at : base + at + 3], "little") for at, _ in places]

    last = len(data) - max((at for at, _ in places), default=0) - 3
    base = next((b for b in range(last + 1) if all(word & 15 == 1 for word in words(b))), None)  # l32r everywhere
    if base is None:
        return 0, len(places)
    aims = [((at + 3) & ~3) + 4 * ((word >> 8) - 0x10000) for (at, _), word in zip(places, words(base), strict=True)]
    return sum(aim == to for aim, (_, to) in zip(aims, places, strict=True)), len(places)


if __name__ == "__main__":
    sys.exit(main())
