"""Helpers of the end-to-end tests: the command line as a user types it, and the models it is used on."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
DEMO = ROOT / "host_tools" / "mica" / "demo"
REFERENCE = ROOT.parent / "shared" / "models"


@dataclass
class Result:
    """Result of a command: its exit code, and the texts that it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.out)


def mica(*args: object, timeout: float = 600) -> Result:
    """Runs `mica ARGS` as its own process, as a shell would."""
    command = [sys.executable, "-c", "import sys; from mica.cli.main import main; sys.exit(main())"]
    done = subprocess.run([*command, *map(str, args)], capture_output=True, text=True, timeout=timeout, check=False)
    return Result(done.returncode, done.stdout, done.stderr)


def reference_model(name: str) -> Path:
    """Folder of a model of ../shared/models; skips where a clone stands alone."""
    folder = REFERENCE / name
    if not folder.is_dir():
        pytest.skip(f"../shared/models/{name} is not here: the reference models do not travel with the project")
    return folder


def pack(onnx: Path, to: Path, *extra: object) -> Path:
    """Packs a model, which must succeed."""
    result = mica("pack", onnx, "-o", to, *extra)
    assert result.code == 0, result.err
    return to
