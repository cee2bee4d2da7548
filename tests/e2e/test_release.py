"""`scripts/release` in a small form: the wheel and one board, whose image starts in the virtual Pico and answers.

The wheel, built through the sdist, works outside a checkout: boards/, firmware/ and usermod_c/ travel inside it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import DEMO, ROOT

from mica.boards import load_board
from mica.link.serial_board import SerialBoard
from mica.link.virtual_pico import VirtualPico
from mica.toolchain.build import BuildResult

NO_IDF = "ESP32_GENERIC"

# README's digits through mica as a library, where no package of an extra can be imported.
DIGITS_IN_PYTHON = """
import sys
from importlib.resources import files
for name in ("PIL", "paho", "starlette", "uvicorn", "nats", "soundfile", "soxr", "esptool"):
    sys.modules[name] = None
import numpy as np
import mica
demo = files("mica.demo")
packed = mica.pack(demo / "digits.onnx", np.load(demo / "digits_calib.npz")["x"], board="RPI_PICO")
test = np.load(demo / "digits_test.npz")
y = mica.load(packed.data).predict(test["x"] * test["scale"])
from mica import engine
print(engine.AVAILABLE, round((y.argmax(axis=1) == test["y"]).mean(), 3))
"""

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


def release(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "release.py"), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)


@pytest.fixture(scope="module")
def made(firmware: Callable[[str], BuildResult], tmp_path_factory: pytest.TempPathFactory) -> Path:
    firmware("RPI_PICO")
    out = tmp_path_factory.mktemp("release") / "out"
    done = release("-o", out, "--board", "RPI_PICO", "--board", NO_IDF, "--part", "wheel", "--part", "images")
    assert done.returncode == 0, done.stderr
    return out


def test_everything_is_there(made: Path) -> None:
    """Files, manifest and SHA256SUMS agree; a missing file is listed with a reason that a person can act on."""
    manifest = json.loads((made / "manifest.json").read_text())
    files = {entry["file"]: entry for entry in manifest["files"]}
    assert set(files) == {p.relative_to(made).as_posix() for p in made.rglob("*") if p.is_file()} - {
        "manifest.json",
        "SHA256SUMS",
    }
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=made, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stdout.count(": OK") == len(files)
    for name, entry in files.items():
        data = (made / name).read_bytes()
        assert (entry["bytes"], entry["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    kinds = [entry["kind"] for entry in files.values()]
    assert kinds.count("wheel") == kinds.count("sdist") == 1
    made_for = {entry["board"]: entry for entry in files.values() if entry["kind"] == "firmware"}
    assert made_for["RPI_PICO"]["compiler"].startswith("arm-none-eabi-gcc")
    skipped = {entry["what"]: entry["why"] for entry in manifest["skipped"]}
    assert set(made_for) | set(skipped) == {"RPI_PICO", NO_IDF}
    if NO_IDF in skipped:
        assert "ESP-IDF" in skipped[NO_IDF]
    revision = subprocess.run(
        ["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout
    assert manifest["revision"].removesuffix("-dirty") == revision.strip()


def test_notices(made: Path) -> None:
    """The notices name everyone whose code is in a Pico's firmware. They are found from the map: no list names them."""
    (path,) = made.glob("*RPI_PICO.uf2.NOTICES.txt")
    text = path.read_text()
    words = " ".join(text.split())
    for expected in (
        "the mica authors",
        "Damien P. George",
        "Permission is hereby granted, free of charge",
        "Raspberry Pi",
        "Redistributions in binary form must reproduce the above copyright notice",
        "Ha Thach (tinyusb.org)",
        "The littlefs authors",
        "ChaN",
        "Mbed TLS Contributors",
        "of the compiler (package libnewlib-arm-none-eabi)",
    ):
        assert expected in words, expected
    assert "of unknown licence" not in text
    assert str(ROOT) not in text and str(Path.home()) not in text  # nor where it was built
    unix_only = "ports/unix/"
    assert unix_only not in text


def test_the_wheel_has_what_commands_need(made: Path) -> None:
    """The wheel has the data of all commands. It serves all Pythons from 3.11, and systems with an old C library."""
    (wheel,) = made.glob("*.whl")
    assert sys.platform != "linux" or "-cp311-abi3-manylinux" in wheel.name
    names = set(zipfile.ZipFile(wheel).namelist())
    for expected in (
        "mica/cost/table.json",
        "mica/demo/digits.onnx",
        "mica/_data/boards/RPI_PICO/board.toml",
        "mica/toolchain/archives.sha256",
    ):
        assert expected in names


def test_the_first_line_answers(made: Path) -> None:
    """The image as it is handed out, on a flash that was empty."""
    (image,) = made.glob("*RPI_PICO.uf2")
    with VirtualPico(load_board("RPI_PICO"), image, keep_flash=False) as pico, SerialBoard(pico.port) as board:
        said = board.exec('import mica; m = mica.Model("/rom/digits.mica"); print(m.name, m.copied, m.selftest())')
    assert said.decode().split() == ["digits", "False", "None"]


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("data")
    done = release("-o", tmp_path, "--part", "wheel")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"release: {tmp_path} is there and not empty; name another folder"
    assert [p.name for p in tmp_path.iterdir()] == ["precious"]


# ---- The wheel, unpacked ----


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
def installed(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's content, away from the checkout."""
    work = tmp_path_factory.mktemp("package")
    (wheel,) = made.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(work / "site")
    (work / "elsewhere").mkdir()
    where = python(work / "site", "import mica; print(mica.__file__)")
    assert Path(where.strip()).is_relative_to(work / "site")
    return work / "site"


def python(installed: Path, code: str, *args: object) -> str:
    """Return the text that a program prints with the installed mica."""
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


def test_packs_and_runs_without_a_compiler_and_without_extras(installed: Path) -> None:
    """PATH is empty, so no program can be started, a compiler least of all."""
    command = [sys.executable, "-c", DIGITS_IN_PYTHON]
    printed = run(*command, cwd=installed.parent / "elsewhere", PYTHONPATH=str(installed), PATH="")
    compiled, right = printed.split()
    assert compiled == "True" and float(right) > 0.95


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
    """Each command imports the modules that it needs, and prints its options."""
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
