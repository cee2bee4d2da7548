"""host_tools/PICTURES.md has the output of `scripts/pictures`, apart from measured figures."""

from __future__ import annotations

import struct
import subprocess
import sys

from helpers import ROOT


def test_page() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "pictures.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_picture() -> None:
    content = (ROOT / "host_tools" / "report.png").read_bytes()
    assert struct.unpack(">8x4x4sII", content[:24]) == (b"IHDR", 1280, 900)
