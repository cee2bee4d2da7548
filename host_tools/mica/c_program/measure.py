"""Bytes of code of a C program, as a core's compiler makes it, without functions of the C library."""

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from mica.boards.isa import toolchain
from mica.c_program.folder import Program
from mica.errors import MicaError
from mica.toolchain.process import clean_environment, telling_lines

_FLAGS = ("-O2", "-std=c99", "-ffunction-sections", "-fdata-sections", "-nostdlib")
_ROOM = "--defsym=__flash_size=0x4000000,--defsym=__ram_size=0x4000000"  # for picolibc's linker script
_LINK = f"-Wl,--gc-sections,--unresolved-symbols=ignore-all,--no-warn-rwx-segments,{_ROOM}"


def measure_program(data: bytes, isa: str) -> dict[str, Any]:
    """Return the bytes of a model's program for an instruction set. code: None where its compiler is missing."""
    program = Program(data, "net", [isa])
    found: dict[str, Any] = {"code": None, "constants": program.memory.constants, "ram": program.memory.ram}
    chain = toolchain(isa)
    compiler = f"{chain.prefix}gcc"
    if not chain.prefix or shutil.which(compiler) is None:
        return found | {"compiler": f"{compiler} is missing: apt install {chain.packages}"}
    return found | {"code": _linked(program, chain) - program.memory.constants, "compiler": compiler}


def _linked(program: Program, chain: Any) -> int:
    """Return the bytes of code and constants of all that a run needs."""
    flags = [f for f in (chain.bench[0].flags if chain.bench else ()) if not f.startswith("-D")]
    with tempfile.TemporaryDirectory() as name:
        files = {Path(name) / path: text for path, text in program.files().items() if path.startswith("src/")}
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        sources = [path for path in files if path.suffix in (".c", ".S") and not path.stem.endswith("_golden")]
        entry = f"-Wl,-e,{program.name}_run,-u,{program.name}_begin"
        command = [f"{chain.prefix}gcc", *flags, *_FLAGS, f"-I{name}/src", *sources, _LINK, entry, "-lgcc", "-o"]
        done = subprocess.run(
            [*command, f"{name}/a"], capture_output=True, text=True, env=clean_environment(), check=False
        )
        if done.returncode:
            raise MicaError("the program does not compile:\n  " + "\n  ".join(telling_lines(done.stderr)))
        size = [f"{chain.prefix}size", f"{name}/a"]
        return int(subprocess.run(size, capture_output=True, text=True, check=True).stdout.splitlines()[1].split()[0])
