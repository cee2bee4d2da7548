"""The program that a UNIX board runs (link/on_board/serve.py) outlives Ctrl-C wherever it comes: each request has one
answer."""

from __future__ import annotations

import os
import struct
import sys
import threading
from types import FrameType
from typing import Any

import pytest

from mica.link import on_board

REQUESTS = [
    (b"P", b"x", b"abc" * 2000),
    (b"X", b"", b"seen.append(1)"),
    (b"X", b"", b"1 / 0"),
    (b"X", b"", b"seen.append(2)"),
]


def served(at: int) -> tuple[list[bytes], list[object], bool]:
    """Answers to REQUESTS and their effects, with a KeyboardInterrupt before line `at`; True if the line exists."""
    their_requests, requests = os.pipe()
    answers, their_answers = os.pipe()
    content = b"".join(k + struct.pack("<II", len(n), len(b)) + n + b for k, n, b in REQUESTS)
    writer = threading.Thread(target=lambda: (os.write(requests, content), os.close(requests)))
    writer.start()
    seen: list[object] = []
    names: dict[str, Any] = {}
    exec(on_board.source("serve").replace('"__name__": "__main__"', '"seen": seen'), {"seen": seen}, names)
    lines = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal lines
        if frame.f_code.co_name != "serve":
            return trace if frame.f_code.co_name == "_mica_serve" else None
        if event == "line":
            lines += 1
            if lines == at:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        names["_mica_serve"](their_requests, their_answers)
    finally:
        sys.settrace(None)
        writer.join()
    said = b""
    while data := os.read(answers, 1 << 16):
        said += data
    os.close(answers)
    found = []
    while said:
        (n,) = struct.unpack_from("<I", said)
        found.append(said[4 : 4 + n])
        said = said[4 + n :]
    return found, seen, lines >= at


def test_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "print_exception", lambda e, f: f.write(type(e).__name__), raising=False)
    plain = [b"%d" % 0x1D2D9A31, b"", b"ZeroDivisionError", b""]
    plain[0] = served(0)[0][0]
    assert served(0) == (plain, [1, 2], True)
    at, there = 0, True
    while there:
        at += 1
        found, seen, there = served(at)
        assert len(found) == len(REQUESTS)
        others = [k for k, (a, b) in enumerate(zip(found, plain, strict=True)) if a != b]
        assert all(found[k].endswith(b"KeyboardInterrupt") for k in others) and len(others) <= 1
        assert {1, 3} - set(others) <= {{1: 1, 2: 3}[n] for n in seen if isinstance(n, int)}
    assert at > 40
