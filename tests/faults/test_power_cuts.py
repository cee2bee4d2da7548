"""Power is cut while a head is saved, at bytes of littlefs's erases and programs: what is found is what was saved
before, or the new."""

from __future__ import annotations

from pathlib import Path

import pytest

from mica.link.board import Link
from targets import sampled
from usermod_models import build

SCRIPT = Path(__file__).resolve().parents[1] / "usermod" / "learner_saved.py"


def cutting(there: Link, model: str, width: int) -> None:
    code = SCRIPT.read_text().split("if hasattr(vfs")[0]
    assert code.count("every = 701 ") == 1
    there.put(build()[model], model)
    there.exec(code.replace("every = 701 ", f"every = {sampled(1, 29)} "))
    there.exec(f"m = mica.Model({model})\nx = bytearray({width})\ninputs = [mica.Quantised(x)]")


def counted(there: Link, code: str) -> int:
    lines = there.exec(f"print({code})", timeout=1200).decode().splitlines()
    assert len(lines) == 1, lines[:5]
    return int(lines[0])


@pytest.mark.parametrize(("model", "width", "least"), [("embedding", 64, 20000), ("narrow7", 7, 10000)])
def test_power_cuts(unix_board: Link, model: str, width: int, least: int) -> None:
    """With --all at every byte of twelve saves."""
    cutting(unix_board, model, width)
    cuts = sum(counted(unix_board, f"cuts({kind!r}, 6)") for kind in ("prototype", "softmax", "anomaly"))
    print("cuts", cuts)
    assert cuts > sampled(least, least * 3 // 100)


def test_files_about_a_block_long(unix_board: Link) -> None:
    """A file that ends near its block's end, and is written in parts: a cut comes back, and so does what follows."""
    cutting(unix_board, "narrow7", 7)
    unix_board.exec(ABOUT_A_BLOCK)
    cuts = counted(unix_board, f"sum(about(n) for n in range(BLOCK - 64, BLOCK + 5, {sampled(4, 12)}))")
    print("cuts", cuts)
    assert cuts > sampled(20000, 60)


ABOUT_A_BLOCK = """
def parts(left):
    while left:
        for most in (64, 4):
            yield bytes(min(most, left))
            left -= min(most, left)


def put(size):
    learn._put("/cut/x", bytearray(b"mlrn") + bytes(heads.HEAD - 4), lambda: parts(size - heads.HEAD))


def about(size):
    data = bytearray(b"\\xff" * (BLOCK * COUNT))
    vfs.VfsLfs2.mkfs(Flash(data), readsize=16, progsize=16, lookahead=16)
    at, n = size % every, 0
    while True:
        flash = Flash(bytearray(data))
        vfs.mount(littlefs(flash), "/cut")
        flash.left = at
        try:
            put(size)
            whole = True
        except OSError:
            whole = False
        try:
            vfs.umount("/cut")
        except OSError:
            pass
        flash.left = 0
        vfs.mount(littlefs(Flash(flash.data)), "/cut")
        put(size)
        if os.stat("/cut/x.0")[6] != size:
            print("not written again", size, at)
        vfs.umount("/cut")
        if whole:
            return n
        n += 1
        at += every
"""
