"""Object files in the cache are those of several processes: one of them may discard what another is about to take."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bare_metal
import c_build
import pytest


def bare(source: Path) -> str:
    return bare_metal._objects(["gcc"], [], [source], source.parent)[0]


def hosted(source: Path) -> str:
    return c_build.objects(c_build.BUILDS[0], [str(source)])[0]


@pytest.mark.parametrize("made", [bare, hosted])
def test_what_is_gone_is_made_again(
    made: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of no bytes took its place, which no link takes, nor any that came later."""
    monkeypatch.setenv("MICA_CACHE", str(tmp_path))
    (tmp_path / "bench").mkdir()
    source = tmp_path / "one.c"
    source.write_text("int one;\n")
    whole = Path(made(source)).read_bytes()

    def discarded(path: Any, *times: Any) -> None:
        Path(path).unlink()
        raise FileNotFoundError

    monkeypatch.setattr(os, "utime", discarded)
    assert whole and Path(made(source)).read_bytes() == whole
