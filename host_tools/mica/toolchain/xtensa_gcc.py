"""The program `xtensawin-gcc` (xtensa_cc.py): it takes GCC's arguments, once for each file, so it imports little."""

import io
import itertools
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

GCC = Path("usr/lib/gcc/xtensa-lx106-elf/13.3.0")
LLVM = Path("usr/lib/llvm-22")
LIBRARIES = Path("usr/lib/x86_64-linux-gnu")
HEADERS = Path("/usr/lib/xtensa-lx106-elf/include")  # picolibc's
VERSION = "xtensa-lx106-elf-gcc 13.3.0 for windowed cores, LLVM 22's assembler"

_OPPOSITES = "beq bne,bge blt,bgeu bltu,beqi bnei,bgei blti,bgeui bltui,beqz bnez,"
_OPPOSITES += "bgez bltz,bany bnone,ball bnall,bbc bbs,bbci bbsi,bf bt"
_FAR = "\t.literal .Lfar{0}, {1}\n\tl32r\ta8, .Lfar{0}\n\tcallx8\ta8"
_LONG_LOOP = (
    "\tloop\t{0}, {2}; rsr\t{0}, lend; wsr\t{0}, lbeg; .literal {2}end, {1}; l32r\t{0}, {2}end; wsr\t{0}, lend; isync; "
    "rsr\t{0}, lcount; addi\t{0}, {0}, 1; {2}:"
)
_OPPOSITE = {x: y for pair in _OPPOSITES.split(",") for x, y in (pair.split(), pair.split()[::-1])}


def _program(root: Path, libraries: str, binary: Path) -> list[str]:
    """A command that runs a program with the C library it came with."""
    return [str(root / LIBRARIES / "ld-linux-x86-64.so.2"), "--library-path", libraries, str(root / binary)]


def main(arguments: Sequence[str]) -> int:
    """Do as GCC does: -E to stdout, -c with -o, --version; else link by Debian's linker.

    arguments: the folders of GCC and LLVM, the core's description, what links ("mpy_ld.py" or "ld"), and GCC's.
    """
    gcc, llvm, core, linker, *words = arguments
    if words == ["--version"]:
        print(VERSION)
        return 0
    if words[0].startswith("--print-file-name="):
        print(words[0].partition("=")[2])  # as GCC says of a file that it has not
        return 0
    if "-E" not in words and "-c" not in words:
        link = ["xtensa-lx106-elf-ld", *(word.removeprefix("-Wl,") for word in words)]
        return subprocess.run(link, check=False).returncode
    os.environ["XTENSA_GNU_CONFIG"] = core
    cc1 = _program(Path(gcc), str(Path(gcc) / LIBRARIES), GCC / "cc1")
    include = ["-nostdinc", "-isystem", f"{Path(gcc) / GCC / 'include'}", "-isystem", str(HEADERS)]
    common = [*cc1, "-quiet", "-mlongcalls", *include]
    with_value = {w for i, w in enumerate(words) if words[i - 1] in ("-o", "-MF")}
    rest = [w for w in words if w not in ("-c", "-o", "-MMD", "-MD", "-MF") and w not in with_value]
    sources = [w for w in rest if w == "-" or (w.endswith((".c", ".S")) and not w.startswith("-"))]
    if "-E" in words:  # cc1 takes one file at a time
        options = [w for w in rest if w not in sources]
        return max((subprocess.run([*common, *options, w], check=False).returncode for w in sources), default=1)
    target = Path(words[words.index("-o") + 1])
    assembly = target.with_suffix(".s")
    if sources[0].endswith(".S"):
        shutil.copy(sources[0], assembly)
    else:
        depends = ["-MMD", str(target.with_suffix(".d")), "-MT", str(target)]
        done = subprocess.run([*common, *depends, *rest, "-o", str(assembly)], check=False)
        if done.returncode != 0:
            return done.returncode
    libraries = f"{Path(llvm) / LIBRARIES}:{Path(llvm) / LLVM / 'lib'}"
    failure = _assemble(_program(Path(llvm), libraries, LLVM / "bin" / "llvm-mc"), assembly, target, far=linker == "ld")
    if failure:
        print(failure, file=sys.stderr)
        target.unlink(missing_ok=True)
        return 1
    objcopy = _program(Path(llvm), libraries, LLVM / "bin" / "llvm-objcopy")
    return _fit(objcopy, target) if linker == "mpy_ld.py" else 0


def _field(shift: re.Match[str]) -> str:
    return f"\textui\t{shift[1]}, {shift[2]}, {shift[3]}, {32 - int(shift[3])}"


def _assemble(llvm_mc: list[str], assembly: Path, target: Path, *, far: bool) -> str:
    """Assemble. Branches that reach too far become their opposites over a jump, and long loops set the end themselves,
    as GNU's assembler has it. With `far`, a call loads its address, as Debian's linker does not know CALL8."""
    text = assembly.read_text(encoding="utf-8").replace("@PLT", "")
    text = re.sub(r"^\t\.word\b", "\t.long", text, flags=re.M)
    text = re.sub(r"^\t\.hword\b", "\t.short", text, flags=re.M)
    # GNU's assembler takes shifts that the instruction has no room for.
    text = re.sub(r"^\tsrli\t(\w+), (\w+), (1[6-9]|[23]\d)$", _field, text, flags=re.M)
    if far:
        number = itertools.count()
        text = re.sub(r"^\tcall8\t(\S+)", lambda call: _FAR.format(next(number), call[1]), text, flags=re.M)
    lines = re.sub(r"\b(bnez|beqz)\.n\b", r"\1", text).split("\n")
    while True:
        assembly.write_text("\n".join(lines), encoding="utf-8")
        command = [*llvm_mc, "-triple=xtensa", "-mcpu=esp32", "-filetype=obj", str(assembly), "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return ""
        wrong = [int(n) for n in re.findall(r":(\d+):\d+: error: (?:loop )?fixup value out of range", done.stderr)]
        if not wrong:
            return done.stderr
        for n in wrong:
            found = re.match(r"\t(\w+)\t(.*), *(\S+)$", lines[n - 1])
            label = f".Lnear{n}"
            if found and found[1] == "loop":
                lines[n - 1] = _LONG_LOOP.format(found[2], found[3], label)
            elif found and found[1] in _OPPOSITE:
                lines[n - 1] = f"\t{_OPPOSITE[found[1]]}\t{found[2]}, {label}; j {found[3]}; {label}:"
            else:
                return done.stderr


def _fit(objcopy: list[str], target: Path) -> int:
    """Change an object so that mpy_ld.py can link it.

    mpy_ld.py finds a section by its name, so names must differ between objects. It expects the addends of literals in
    the literals. It adds to the offset in an l32r, which LLVM has set.
    """
    from elftools.elf.elffile import ELFFile
    from elftools.elf.relocation import RelocationSection

    with target.open("rb") as file:
        names = {s.name for s in ELFFile(file).iter_sections()}
    own = [n for n in names if n.startswith((".text", ".rodata", ".data.rel.ro", ".bss"))]
    renames = [f"--rename-section={name}={name}.{target.stem}" for name in sorted(own)]
    done = subprocess.run([*objcopy, *renames, str(target)], check=False)
    if done.returncode != 0:
        return done.returncode
    data = bytearray(target.read_bytes())
    elf = ELFFile(io.BytesIO(bytes(data)))
    for table in elf.iter_sections():
        if not isinstance(table, RelocationSection):
            continue
        section: Any = elf.get_section(table["sh_info"])
        symbols: Any = elf.get_section(table["sh_link"])
        for i, relocation in enumerate(table.iter_relocations()):
            at = section["sh_offset"] + relocation["r_offset"]
            kind = symbols.get_symbol(relocation["r_info_sym"])["st_info"]["type"]
            if relocation["r_info_type"] == 20:  # R_XTENSA_SLOT0_OP
                data[at + 1 : at + 3] = b"\0\0"
            elif section.name.startswith(".literal") and kind == "STT_SECTION":
                struct.pack_into("<i", data, at, relocation["r_addend"])
                struct.pack_into("<i", data, table["sh_offset"] + 12 * i + 8, 0)
    target.write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
