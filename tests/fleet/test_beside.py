"""mica_fleet stands beside mica: mica works without it, and says what to install; a board without its half is named."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mica.cli.main import COMMANDS, main
from mica.errors import MicaError
from mica.link.board import Link
from mica.toolchain.mip_package import runtime
from mica_fleet.member import install

HOST_TOOLS = Path(__file__).resolve().parents[2] / "host_tools"


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with mica, and without mica_fleet."""
    folder = tmp_path_factory.mktemp("alone")
    (folder / "mica").symlink_to(HOST_TOOLS / "mica")
    return folder


def without(alone: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """`mica WORDS` where mica_fleet is not there; its entry points are, as in a tree whose folder was deleted."""
    code = f"""import sys
sys.path = [{str(alone)!r}] + [p for p in sys.path if p != {str(HOST_TOOLS)!r}]
sys.meta_path = [f for f in sys.meta_path if "editable" not in str(f).lower()]
import importlib.util
assert importlib.util.find_spec("mica_fleet") is None
from mica.cli.main import main
sys.exit(main())"""
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=alone, timeout=300, check=False)


def test_mica_works_without_it(alone: Path) -> None:
    demo = HOST_TOOLS / "mica" / "demo"
    helped = without(alone, "--help")
    assert helped.returncode == 0 and all(name in helped.stdout for name in COMMANDS)
    packed = without(alone, "pack", demo / "digits.onnx", "--plain", "-o", "d.mica")
    assert packed.returncode == 0, packed.stderr
    there = without(alone, "eval", "d.mica", "--data", demo / "digits_test.npz", "--samples", "40", "--json")
    assert there.returncode == 0 and json.loads(there.stdout)["samples"] == 40, there.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["fleet", "ls", "plant"],
        ["run", "d.mica", "x.npz", "--on", "fleet:plant"],
        ["eval", "d.mica", "--data", "x.npz", "--on", "usb:all"],
    ],
    ids=lambda words: words[0],
)
def test_what_to_install_is_said(alone: Path, words: list[str]) -> None:
    if not (alone / "d.mica").exists():
        shutil.copy(HOST_TOOLS / "mica" / "demo" / "command.mica", alone / "d.mica")
    shutil.copy(HOST_TOOLS / "mica" / "demo" / "digits_test.npz", alone / "x.npz")
    done = without(alone, *words)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "mica_fleet is missing; pip install 'mica-mcu[fleet]'" in done.stderr


def test_a_board_without_it_is_named(unix_board: Link) -> None:
    """This firmware has mica_fleet, so frozen modules are hidden; and a module `network` is pretended."""
    unix_board.exec("import sys\nsys.path[:] = ['']\nopen('network.py', 'w').close()")
    with pytest.raises(
        MicaError, match=r"has no mica_fleet; mica build --board UNIX --with fleet -o FILE, then mica flash"
    ):
        install(unix_board, {"name": "b1"}, {})


def test_a_package_for_stock_firmware() -> None:
    paths = runtime(extras=["fleet"])
    assert "mica_fleet/__init__.mpy" in paths and set(runtime()) == {
        p for p in paths if not p.startswith("mica_fleet/")
    }


def test_a_model_in_the_place_of_the_fleet(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "push", "digits.mica"]) == 1
    assert "FLEET is missing in front of digits.mica" in capsys.readouterr().err
