"""Somebody's own firmware: MicroPython's own makefiles, and the line of boards/README.md that adds mica."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

from targets import nightly

import mica
from mica.cli.main import main
from mica.toolchain import sources
from mica.toolchain.cache import cache_dir
from mica.toolchain.micropython import NEWEST, choose
from mica.toolchain.process import clean_environment, telling_lines

ROOT = Path(__file__).resolve().parents[2]
DEMO = Path(mica.__file__).parent / "demo"

# Of the port's usual variant, what needs libraries that Debian's sources of MicroPython lack.
WITHOUT = ["MICROPY_PY_BTREE=0", "MICROPY_PY_FFI=0", "MICROPY_PY_SSL=0", "MICROPY_SSL_MBEDTLS=0"]

CODE = """
import mica
m = mica.Model(open("{model}", "rb").read())
print(m.selftest(), m.layers[0].runs_in)
"""


@nightly
def test_the_line_of_the_readme(tmp_path: Path) -> None:
    """It builds, for the port's own variant, and a model passes its self-test there, by the engine in C."""
    (line,) = re.findall(
        r"^make -C ports/unix .*USER_C_MODULES=.*$", (ROOT / "boards" / "README.md").read_text(), flags=re.M
    )
    command = shlex.split(line.replace("/path/to/mica", str(ROOT)))
    build = cache_dir() / "tests" / "own-board"  # made again only where something has changed
    done = subprocess.run(
        [*command, "-j2", f"BUILD={build}", *WITHOUT],
        cwd=sources.fetch(choose(NEWEST)),
        capture_output=True,
        text=True,
        env=clean_environment(),
        check=False,
    )
    assert done.returncode == 0, "\n".join(telling_lines(done.stdout + done.stderr))
    model = tmp_path / "digits.mica"
    pack = ["pack", "--plain", "--golden", "2", "--calib", f"{DEMO}/digits_calib.npz", "-o", str(model)]
    assert main([*pack, f"{DEMO}/digits.onnx"]) == 0
    said = subprocess.run(
        [build / "micropython", "-c", CODE.format(model=model)], capture_output=True, text=True, check=False
    )
    assert (said.stdout, said.stderr) == ("None C\n", "")
