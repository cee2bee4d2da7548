"""Power is cut while a head is saved, at bytes of littlefs's erases and programs: what is found is what was saved
before, or the new."""

from __future__ import annotations

from pathlib import Path

from mica.link.board import Link
from targets import sampled
from usermod_models import build

SCRIPT = Path(__file__).resolve().parents[1] / "usermod" / "learner_saved.py"


def test_power_cuts(unix_board: Link) -> None:
    """With --all at every byte of twelve saves: more than 20,000."""
    code = SCRIPT.read_text().split("if hasattr(vfs")[0]
    assert code.count("every = 701 ") == 1
    unix_board.put(build()["embedding"], "embedding")
    unix_board.exec(code.replace("every = 701 ", f"every = {sampled(1, 29)} ") + BEGIN)
    cuts = 0
    for kind, saves in (("prototype", 6), ("softmax", 6), ("anomaly", 6)):
        lines = unix_board.exec(f"print(cuts({kind!r}, {saves}))", timeout=1200).decode().splitlines()
        assert len(lines) == 1, lines[:5]
        cuts += int(lines[0])
    print("cuts", cuts)
    assert cuts > sampled(20000, 600)


BEGIN = """
m = mica.Model(embedding)
x = bytearray(64)
inputs = [mica.Quantised(x)]
"""
