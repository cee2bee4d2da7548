"""The first jump of a native module for the ESP32: what MicroPython's linker lets pass is found when it is built."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mica.errors import MicaError
from mica.toolchain import natmod, sources

START = ".text\n.global mpy_init\nmpy_init: ret\n"


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
    if order == "before start" and size > 2**17 - 8:
        with pytest.raises(MicaError, match="first jump"):
            natmod.check_jump(module)
    else:
        natmod.check_jump(module)
