"""One firmware for all tests that want another than the usual: each choice of a build's settings takes a minute of a
core."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from mica.boards import load_board
from mica.toolchain.cache import cache_dir, locked
from mica.toolchain.contents import Contents

NAME = "UNIX"
MANIFEST = "module('extra.py')\n"


@contextlib.contextmanager
def odd_settings(manifest: str = MANIFEST) -> Iterator[dict[str, Any]]:
    """For build(): no kernel in C, an arena of its own, and a manifest of this text, which may freeze `extra`.
    No other test builds it meanwhile."""
    folder = cache_dir() / "tests"  # always the same: each path of a manifest gets a build folder of its own
    with locked("tests/odd-firmware"):
        (folder / "extra.py").write_text("answer = 1\n", encoding="utf-8")
        path = folder / "manifest.py"
        path.write_text(manifest, encoding="utf-8")
        yield {"arena": load_board(NAME).arena + 4096, "manifests": [path], "contents": Contents(frozenset())}
