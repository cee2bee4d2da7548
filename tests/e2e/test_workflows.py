"""Workflows for people who host the project on GitHub: actionlint passes them, and their scripts run here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import npm_packages
from helpers import DEMO, ROOT

GITHUB = ROOT / ".github"
LINT = Path(__file__).resolve().parent / "lint_workflows.mjs"


def test_actionlint(tmp_path: Path) -> None:
    files = sorted((GITHUB / "workflows").glob("*.yml"))
    assert len(files) == 3 and json.loads(npm_packages.run(LINT, *files)) == []
    bad = tmp_path / "bad.yml"
    bad.write_text(files[0].read_text().replace("runs-on", "runs_on"))
    assert json.loads(npm_packages.run(LINT, bad)) != []


def test_both_commands_run_on_each_system_that_the_readme_names() -> None:
    text = (GITHUB / "workflows" / "test.yml").read_text()
    _, debian, ubuntu = re.split(r"^  (?:debian|ubuntu):$", text, flags=re.M)
    assert "release: [bookworm, trixie]" in debian and "container: debian:${{ matrix.release }}" in debian
    assert "runs-on: ubuntu-24.04" in ubuntu and "container" not in ubuntu
    for job in (debian, ubuntu):
        assert re.search(r"- run: scripts/demo\n +- run: scripts/test \$\{\{ .*'schedule' && '--all' .*}}\n", job)
        assert "path: .cache/durations.tsv" in job


def test_scripts_that_are_named_are_there() -> None:
    for path in [*(GITHUB / "workflows").glob("*.yml"), GITHUB / "actions" / "mica" / "action.yml"]:
        for name in re.findall(r"(?:scripts/|\.github/)[\w./-]+", path.read_text()):
            # The owner of a repository adds the list of signers: see publish.sh.
            assert name == ".github/allowed_signers" or os.access(ROOT / name, os.X_OK), f"{path.name}: {name}"


def test_the_action(tmp_path: Path) -> None:
    """Packs, fits and verifies; the table has the numbers of the commands."""
    shutil.copy(DEMO / "digits.onnx", tmp_path / "net.onnx")
    mica = tmp_path / "mica"
    mica.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mica "$@"\n')
    mica.chmod(0o755)
    given = {
        "MODEL": str(tmp_path / "net.onnx"),
        "CALIB": str(DEMO / "digits_calib.npz"),
        "OPTIONS": "--plain",
        "BOARD": "RPI_PICO",
        "TARGET": "UNIX",
        "MICA": str(mica),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "RUNNER_TEMP": str(tmp_path),
    }
    script = GITHUB / "actions" / "mica" / "run.sh"
    done = subprocess.run(
        [script], env={**os.environ, **given}, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stderr
    summary = (tmp_path / "summary.md").read_text()
    assert f"| file | {(tmp_path / 'net.mica').stat().st_size:,} bytes |" in summary
    assert re.search(r"\| time on RPI_PICO \| [\d,]+ cycles, [\d.]+ ms \|", summary)
    assert "| verified | every layer the same on UNIX |" in summary
    assert f"file={tmp_path / 'net.mica'}\n" in (tmp_path / "output").read_text()
    given["MODEL"] = str(tmp_path / "missing.onnx")
    done = subprocess.run(
        [script], env={**os.environ, **given}, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode != 0 and "missing.onnx" in done.stderr
