"""The first jump of a native module for the ESP32: MicroPython's linker does not notice if it reaches too far."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mica.toolchain import natmod, sources

START = ".text\n.global mpy_init\nmpy_init: ret\n"


def jumps_forward(module: bytes) -> bool:
    """Return whether the jump at the start of an Xtensa module goes on, and not back by the sign of its 18 bits."""
    rest = iter(module[4:])

    def number() -> int:
        n = 0
        for byte in rest:
            n = n << 7 | byte & 127
            if byte < 128:
                break
        return n

    names, _objects = number(), number()
    for _ in range(names):
        length = number()
        for _ in range(0 if length & 1 else length // 2 + 1):
            next(rest)
    number()
    return [next(rest) for _ in range(3)][2] & 128 == 0


@pytest.mark.parametrize("order", ["start before", "before start"])
@pytest.mark.parametrize("size", [100, 2**17 - 8, 2**17, 2**17 + 4, 2**18 - 8])
def test_first_jump(tmp_path: Path, order: str, size: int) -> None:
    """MicroPython's linker is given so much code before or behind the module's function. It links all; in the wrong
    order the jump reaches 128 KB, less its own 4 bytes."""
    for name, text in (("start", START), ("before", f'.section .text.before, "ax"\n.space {size}\n')):
        (tmp_path / f"{name}.S").write_text(text)
        subprocess.run(["xtensa-lx106-elf-as", "-o", f"{name}.o", f"{name}.S"], cwd=tmp_path, check=True)
    (tmp_path / "names.h").write_text("")
    linker = [sys.executable, str(sources.fetch() / "tools" / "mpy_ld.py"), "--arch", "xtensawin", "--qstrs", "names.h"]
    command = [*linker, "-o", "_mica.mpy", *(f"{name}.o" for name in order.split())]
    subprocess.run(command, cwd=tmp_path, check=True)
    module = (tmp_path / "_mica.mpy").read_bytes()
    assert jumps_forward(module) == (order == "start before" or size <= 2**17 - 8)


@pytest.mark.parametrize("without", [(), ("conv2d",)])
def test_the_function_is_linked_first(tmp_path: Path, without: tuple[str, ...]) -> None:
    """With all kernels and without some, the file of the module's function comes before all others."""
    text = natmod._makefile(natmod.ARCHS["xtensawin"], tmp_path, tmp_path, "gcc", without, trees=True)
    (objects,) = (line for line in text.splitlines() if line.startswith("OBJ = "))
    assert objects.split()[2] == "obj/natmod_start.c.o"
