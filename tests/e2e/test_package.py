"""The wheel, built through the sdist, works outside a checkout: boards/, firmware/ and usermod_c/ travel inside it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from helpers import DEMO, ROOT

RUN = [sys.executable, "-c", "import sys; from mica.cli.main import main; sys.exit(main())"]


def run(*command: object, cwd: Path, **environ: str) -> str:
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env=os.environ | environ,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the wheel holds, away from the checkout."""
    work = tmp_path_factory.mktemp("package")
    # A copy: the build leaves folders behind, and would take stale ones for its own.
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    for name in filter(None, names):
        if not name.startswith("tests/") and (ROOT / name).is_file():
            (work / "src" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, work / "src" / name)
    hook = "import sys; from setuptools import build_meta as b; print(b.build_sdist(sys.argv[1]))"
    run(sys.executable, "-c", hook, work / "dist", cwd=work / "src")
    (sdist,) = (work / "dist").glob("*.tar.gz")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "--no-build-isolation")
    run(*pip, "--no-index", "--wheel-dir", work / "dist", sdist, cwd=work)
    (wheel,) = (work / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(work / "site")
    return work / "site"


def mica(installed: Path, *args: object) -> str:
    cwd = installed.parent / "elsewhere"
    cwd.mkdir(exist_ok=True)
    where = run(sys.executable, "-c", "import mica; print(mica.__file__)", cwd=cwd, PYTHONPATH=str(installed))
    assert Path(where.strip()).is_relative_to(installed)
    return run(*RUN, *args, cwd=cwd, PYTHONPATH=str(installed))


def test_pack(installed: Path, tmp_path: Path) -> None:
    out = tmp_path / "d.mica"
    demo = installed / "mica" / "demo"
    facts = json.loads(
        mica(installed, "pack", demo / "digits.onnx", "--calib", demo / "digits_calib.npz", "-o", out, "--json")
    )
    assert facts["size"] == out.stat().st_size
    answer = json.loads(mica(installed, "run", out, DEMO / "digits_test.npz", "--json"))
    assert len(answer["outputs"][0]["int8"]) == 10


def test_the_engine_is_inside(installed: Path) -> None:
    """C: this machine has a compiler, scripts/setup saw to it."""
    assert list((installed / "mica" / "engine").glob("_engine*"))


def test_boards(installed: Path) -> None:
    assert {"UNIX", "MPS2_AN385", "RPI_PICO"} <= {
        b["name"] for b in json.loads(mica(installed, "boards", "--json"))["boards"]
    }


def test_fit(installed: Path) -> None:
    """The cost table travels too."""
    facts = json.loads(
        mica(installed, "fit", installed / "mica" / "demo" / "digits.onnx", "--board", "RPI_PICO", "--json")
    )
    assert facts["fits"] is True and facts["time"]["total"] > 100_000


def test_every_command_is_there(installed: Path) -> None:
    """Each imports what it needs, and says what it takes."""
    said = mica(installed, "-h")
    names = re.findall(r"^    ([a-z]+)  ", said, flags=re.M)
    assert {"pack", "run", "fit", "flash", "doctor", "build"} <= set(names)
    for name in names:
        assert f"usage: mica {name}" in mica(installed, name, "-h")


def test_build(installed: Path) -> None:
    built = json.loads(mica(installed, "build", "--board", "UNIX", "--json"))
    said = run(built["image"], "-c", "import mica; print(mica.Model)", cwd=installed.parent / "elsewhere")
    assert "class" in said
