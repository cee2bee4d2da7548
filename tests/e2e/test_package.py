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

# All of them in one program: to start one takes longer than what is looked at.
HELP_OF_EACH = """
import sys
from mica.cli.main import main
for name in sys.argv[1:]:
    try:
        main([name, "-h"])
    except SystemExit as end:
        print("code", end.code)
"""


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
    (work / "elsewhere").mkdir()
    where = python(work / "site", "import mica; print(mica.__file__)")
    assert Path(where.strip()).is_relative_to(work / "site")
    return work / "site"


def python(installed: Path, code: str, *args: object) -> str:
    """What a program prints whose mica is the installed one."""
    elsewhere = installed.parent / "elsewhere"
    return run(sys.executable, "-c", code, *args, cwd=elsewhere, PYTHONPATH=str(installed))


def mica(installed: Path, *args: object) -> str:
    return python(installed, "import sys; from mica.cli.main import main; sys.exit(main())", *args)


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
    helps = python(installed, HELP_OF_EACH, *names).split("usage: mica ")[1:]
    assert [text.split()[0] for text in helps] == names
    assert all(text.endswith("\ncode 0\n") for text in helps)


def test_build(installed: Path) -> None:
    built = json.loads(mica(installed, "build", "--board", "UNIX", "--json"))
    said = run(built["image"], "-c", "import mica; print(mica.Model)", cwd=installed.parent / "elsewhere")
    assert "class" in said
