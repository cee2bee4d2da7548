"""Helpers of the end-to-end tests: the command line as a user types it, and the models it is used on."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mica.cli.main import main

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
    """Runs `mica ARGS` as its own process. It is forked: to start Python and import everything takes longer than most
    commands."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        words = ["mica", *map(str, args)]
        process = multiprocessing.get_context("fork").Process(target=_command, args=(words, out.fileno(), err.fileno()))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            pytest.fail(f"{' '.join(words)}: not ended after {timeout} s")
        texts = [os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode() for file in (out, err)]
    return Result(process.exitcode, *texts)


def _command(words: list[str], out: int, err: int) -> None:
    """The new process, with streams, arguments and warnings as a shell and Python give them."""
    os.dup2(out, 1)
    os.dup2(err, 2)
    sys.stdout, sys.stderr, sys.argv = os.fdopen(1, "w"), os.fdopen(2, "w", errors="backslashreplace"), words
    importlib.reload(warnings)  # pytest collects them
    warnings.resetwarnings()
    warnings.simplefilter("ignore", DeprecationWarning)
    sys.exit(main())


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
