"""A short form of the soak's part `fleet`."""

from __future__ import annotations

from pathlib import Path

from hostile import one_round


def test_hostile_messages(digits_file: Path) -> None:
    figures = one_round(digits_file.read_bytes(), seed=1, n=6000)
    assert figures["whole requests"] > 1000 and figures["signed or not"] > 500
