"""scripts/fresh, with stand-ins for the programs that need root: the folders it makes and mounts, and its commands."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from helpers import ROOT

# Each notes its words. `unshare` runs what it is given, `debootstrap` makes the folders of a Debian.
STAND_INS = {
    "id": "echo 0",
    "unshare": 'while [ "${1#--}" != "$1" ]; do shift; done; exec "$@"',
    "debootstrap": 'mkdir -p "$4/etc/apt/apt.conf.d" "$4/usr/local/share" "$4/dev" "$4/proc" "$4/sys"',
    "mount": "exit 0",
    "chroot": "exit 0",
}


@pytest.fixture
def fresh(tmp_path: Path) -> dict[str, str]:
    """The environment of a run; its log is in `log`."""
    (tmp_path / "bin").mkdir()
    for name, does in STAND_INS.items():
        program = tmp_path / "bin" / name
        program.write_text(f'#!/bin/bash\necho "{name} $*" >>"{tmp_path}/log"\n{does}\n')
        program.chmod(0o755)
    (tmp_path / "wheels").mkdir()
    settings = {"MICA_CACHE": tmp_path / "cache", "MIRROR": "file:///mirror", "PIP_FIND_LINKS": tmp_path / "wheels"}
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    return {**os.environ, **{name: str(value) for name, value in settings.items()}, "PATH": path}


def run(env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "scripts" / "fresh", *words], env=env, capture_output=True, text=True, check=False, timeout=300
    )


def test_both_commands_in_a_clone_of_this_revision(fresh: dict[str, str], tmp_path: Path) -> None:
    done = run(fresh, "trixie")
    assert done.returncode == 0, done.stderr
    root = tmp_path / "cache" / "fresh" / "trixie"
    here, there = (
        subprocess.run(["git", "-C", folder, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
        for folder in (ROOT, root / "mica")
    )
    assert here == there and not (root / "shared").exists()
    log = (tmp_path / "log").read_text()
    assert "unshare --mount --pid --fork --kill-child" in log
    assert "debootstrap --variant=minbase --include=ca-certificates trixie" in log and "file:///mirror" in log
    wheels = tmp_path / "wheels"
    assert f"find-links = {wheels}" in (root / "etc" / "pip.conf").read_text()
    assert f"mount --rbind {wheels} {root}{wheels}" in log and f"mount -o remount,bind,ro {root}{wheels}" in log
    commands = [line.split()[-1] for line in log.splitlines() if line.startswith(f"chroot {root} env -i ")]
    assert commands == ["scripts/demo", "scripts/test"]


def test_without_pip_of_the_system(fresh: dict[str, str], tmp_path: Path) -> None:
    """A minimal Debian has no pip: the one of .venv is asked, and where there is none the run goes on."""
    program = tmp_path / "bin" / "python3"
    program.write_text("#!/bin/bash\necho 'No module named pip' >&2; exit 1\n")
    program.chmod(0o755)
    done = run(fresh, "trixie", "demo")
    assert done.returncode == 0, done.stderr
    conf = (tmp_path / "cache" / "fresh" / "trixie" / "etc" / "pip.conf").read_text()
    assert (str(tmp_path / "wheels") in conf) == (ROOT / ".venv" / "bin" / "pip").exists()


def test_one_command_with_its_arguments(fresh: dict[str, str], tmp_path: Path) -> None:
    for words, expected in (
        (("test", "tests/host", "-k", "a b"), "scripts/test tests/host -k a b"),
        (("--", "cat", "x"), "cat x"),
    ):
        assert run(fresh, "bookworm", *words).returncode == 0
        assert (tmp_path / "log").read_text().splitlines()[-1].endswith(f" - {expected}")
    assert (tmp_path / "log").read_text().count("debootstrap ") == 1, "the root is kept"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "expected a Debian release"),
        (("../x",), "expected a Debian release"),
        (("trixie", "frob"), "'frob': expected demo, test"),
    ],
)
def test_mistakes(fresh: dict[str, str], tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    done = run(fresh, *words)
    assert done.returncode == 1 and said in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "cache").exists()


def test_nothing_half_made_stays(fresh: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "bin" / "debootstrap").write_text('#!/bin/bash\nmkdir -p "$4/etc"; echo "no such suite"; exit 1\n')
    done = run(fresh, "trixie")
    assert done.returncode == 1 and "debootstrap made no trixie; the log is " in done.stderr
    assert [path.suffix for path in (tmp_path / "cache" / "fresh").iterdir()] == [".log"]
