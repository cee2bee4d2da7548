"""Compilers for a core's C beside its own GCC: Debian 13's GCC 14, unpacked in the cache, and clang.

People build with the compiler of their system, and a kernel that is right with one may be wrong with another
(`test_compilers.py`).
"""

from __future__ import annotations

import shutil
from pathlib import Path

from bare_metal import Compiler, Core

from mica.toolchain.xtensa_cc import unpacked

COMPILERS = ("own", "gcc-14", "clang")
# clang's triple, and where the C library's headers are, by the prefix of the core's GCC.
_OTHERS = {
    "arm-none-eabi-": ("arm-none-eabi", "/usr/include/newlib"),
    "riscv64-unknown-elf-": ("riscv32-unknown-elf", "/usr/lib/picolibc/riscv64-unknown-elf/include"),
}


def compiler(name: str, core: Core) -> Compiler | None:
    """Return one of COMPILERS for a core; None is its own. Raises Unsupported where its packages can't be had."""
    if name == "own":
        return None
    prefix = core.tools[0]
    triple, headers = _OTHERS[prefix]
    if name == "clang":
        clang = shutil.which("clang")
        assert clang, "clang is not installed; scripts/setup installs it"
        words = (clang, f"--target={triple}", "-Qunused-arguments", "-isystem", headers)
        return Compiler(words, ("--specs", "-misa-spec"))
    root = unpacked(f"gcc-14-{triple}", [f"gcc-{prefix[:-1]}"], unpinned=True)
    libraries = root / "usr/lib/x86_64-linux-gnu"
    loader = (str(libraries / "ld-linux-x86-64.so.2"), "--library-path", str(libraries))
    gcc: Path = root / "usr/bin" / f"{prefix}gcc"
    return Compiler((*loader, str(gcc), "-wrapper", ",".join(loader), "-isystem", headers))
