"""Bad numbers for frames and pictures, under sanitizers: all are refused, or every byte of the picture is made."""

from __future__ import annotations

import subprocess
from pathlib import Path

import c_build
import pytest

INPUTS = 2000


@pytest.mark.parametrize("build", [c_build.BUILDS[0], c_build.BUILDS[1]], ids=lambda build: build.name)
def test_no_access_outside(build: c_build.Build, tmp_path: Path) -> None:
    sanitize = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    names = ("picture.c", "picture_area.c", "picture_means.c")
    sources = [str(c_build.USERMOD / "kernels" / name) for name in names]
    sources.append(str(Path(__file__).parent / "see_fuzz.c"))
    objects = c_build.objects(build, sources, *sanitize, *c_build.STRICT)
    program = c_build.link(tmp_path / "see_fuzz", build, objects, *sanitize)
    for seed in (1,):
        done = subprocess.run([str(program), str(seed), str(INPUTS)], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr[-3000:]
        taken, refused = map(int, done.stdout.split())
        assert taken > INPUTS / 20 and refused > INPUTS / 20
