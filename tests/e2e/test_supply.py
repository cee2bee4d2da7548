"""scripts/setup installs exactly the packages that scripts/constraints.txt lists, by hash."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from helpers import ROOT
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LIST = ROOT / "scripts" / "constraints.txt"

# Stands for the Python of a new .venv: notes its arguments, and the files that pip is told to read.
# A file for each call: two of them run side by side.
PYTHON = """#!/bin/bash
exec >>{log}.$(date +%s%N).$$
echo "$*"
while [ $# -gt 0 ]; do [ "$1" != -r ] || {{ echo "-- file"; cat "$2"; echo "-- end"; }}; shift; done
"""


def pinned() -> list[tuple[Requirement, list[str]]]:
    """Each requirement of the list with its hashes."""
    text = "".join(line for line in LIST.read_text().splitlines(keepends=True) if not line.startswith("#"))
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        words, *hashes = re.split(r"\s--hash=", line)
        found.append((Requirement(words.strip()), [h.strip() for h in hashes]))
    return found


def test_every_line_is_a_version_with_hashes() -> None:
    assert "://" not in LIST.read_text()
    for requirement, hashes in pinned():
        assert re.fullmatch(r"==[\w.]+", str(requirement.specifier)), requirement
        assert hashes and all(re.fullmatch(r"sha256:[0-9a-f]{64}", h) for h in hashes), requirement


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize("machine", ["Linux x86_64", "Darwin arm64"])
def test_all_that_the_project_asks_for_is_listed(python: str, machine: str) -> None:
    """Once, for each Python and machine; else run scripts/constraints."""
    system, arch = machine.split()
    here = {"python_version": python, "python_full_version": f"{python}.5", "platform_machine": arch}
    here |= {"sys_platform": system.lower(), "platform_system": system, "implementation_name": "cpython"}
    here |= {"platform_python_implementation": "CPython"}

    def applies(marker: Marker | None) -> bool:
        return marker is None or marker.evaluate(here)

    listed = [canonicalize_name(r.name) for r, _ in pinned() if applies(r.marker)]
    assert len(listed) == len(set(listed))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    expected = [Requirement(r) for r in [*project["project"]["dependencies"], *extras["dev"], *extras["esp"]]]
    expected += [Requirement(r) for r in project["build-system"]["requires"]]
    assert {canonicalize_name(r.name) for r in expected if applies(r.marker)} <= set(listed)
    versions = {canonicalize_name(r.name): str(r.specifier)[2:] for r, _ in pinned() if applies(r.marker)}
    assert [r for r in expected if applies(r.marker) and versions[canonicalize_name(r.name)] not in r.specifier] == []


def test_what_is_installed_is_what_is_listed() -> None:
    """In the Python that runs this test, which scripts/setup has filled."""
    for requirement, _ in pinned():
        if requirement.marker is None or requirement.marker.evaluate():
            assert importlib.metadata.version(requirement.name) in requirement.specifier, "run scripts/setup"


def test_setup_installs_by_hash(tmp_path: Path) -> None:
    """Every call of pip wants hashes, but for the one that makes the checkout itself known,
    which installs nothing else."""
    for name in ("scripts/setup", "scripts/constraints.txt", "pyproject.toml", "setup.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("usermod_c", "host_tools/mica/engine"):
        (tmp_path / name).mkdir(parents=True)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    log = tmp_path / "log"
    python.write_text(PYTHON.format(log=log))
    python.chmod(0o755)
    env = {**os.environ, "MICA_CACHE": str(tmp_path / "cache")}
    command = [tmp_path / "scripts" / "setup", "demo"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    text = "".join(path.read_text() for path in sorted(tmp_path.glob("log.*")))
    calls = [line.split() for line in text.splitlines() if line.startswith("-m pip") and "uninstall" not in line]
    assert len(calls) == 3
    assert all("--require-hashes" in call or call[-3:] == ["--no-deps", "--editable", "."] for call in calls)
    first, second = re.findall(r"^-- file\n(.*?)^-- end$", text, flags=re.M | re.S)
    assert second == LIST.read_text()
    assert first.startswith("setuptools==") and first in second and first.count("==") == 1
    assert "--hash=sha256:" in first and not first.endswith("\\\n")
