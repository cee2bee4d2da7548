"""Frames as pictures: the engine's C code equals the oracle in numpy, and both keep rules that need neither."""

from __future__ import annotations

import itertools
import re
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mica import engine
from mica.file.pictures import Desired, Frame
from mica.format.schema import PICTURE_FLAGS, PICTURE_FORMATS, PICTURE_MAX_COVER, PICTURE_MAX_SIDE
from mica.reference import pictures as oracle

ROOT = Path(__file__).resolve().parents[2]
PLAIN = np.tile((np.arange(256) - 128).astype(np.int8), (3, 1))
RNG = np.random.default_rng(5)
TABLES = RNG.integers(-128, 128, (3, 256)).astype(np.int8)

# width, height; x, y, w, h; out_w, out_h
SIZES = (
    ((1, 1), (0, 0, 1, 1), (1, 1)),
    ((2, 3), (0, 0, 2, 3), (7, 5)),
    ((2, 3), (1, 1, 1, 1), (3, 2)),
    ((20, 15), (0, 0, 20, 15), (12, 12)),
    ((20, 15), (3, 2, 13, 9), (5, 4)),
    ((20, 15), (3, 2, 13, 9), (13, 9)),
    ((20, 15), (5, 6, 15, 9), (40, 31)),
    ((38, 30), (0, 0, 38, 30), (12, 12)),
    ((160, 41), (1, 0, 159, 41), (2, 1)),
    ((40, 40), (0, 0, 40, 40), (41, 3)),
    ((12, 50), (2, 1, 9, 48), (4, 60)),
    ((140, 70), (5, 1, 133, 69), (2, 2)),  # more rows than the sum of a 565 pixel has room for
    ((300, 12), (1, 0, 299, 12), (140, 5)),  # more columns than are summed at once
    ((256, 128), (0, 0, 256, 128), (2, 1)),
    ((344, 8), (1, 0, 340, 8), (4, 2)),  # of three bytes as many columns as are summed at once
    ((344, 8), (0, 0, 344, 8), (4, 2)),  # and one more
)


def _frame(size: tuple[int, int], part: tuple[int, ...], out: tuple[int, int], format_: int, flags: int) -> Frame:
    return Frame(*size, *part, *out, format_, flags)  # type: ignore[call-arg,arg-type]


def _allowed(frame: Frame) -> bool:
    name = PICTURE_FORMATS[frame.format]
    if name in ("yuyv", "uyvy") and frame.width % 2:
        return False
    if frame.has("COLOUR"):
        return name != "grey"
    return not (frame.has("BGR") or frame.has("PLANES"))


def _all() -> list[Frame]:
    frames = [_frame(*size, f, flags) for size in SIZES for f in range(len(PICTURE_FORMATS)) for flags in range(16)]
    return [frame for frame in frames if _allowed(frame)]


def test_c_equals_the_oracle() -> None:
    assert engine.AVAILABLE
    for frame in _all():
        noise = RNG.integers(0, 256, frame.bytes, dtype=np.uint8)
        data = np.where(noise > 127, 255, 0).astype(np.uint8) if frame.flags & 4 else noise
        desired = oracle.rows(frame, data.tobytes(), TABLES)
        found = engine.see(frame, data.tobytes(), TABLES[: frame.channels])
        assert np.array_equal(found, desired), frame


def test_rows_are_those_of_the_whole() -> None:
    for frame in _all():
        if frame.flags & (PICTURE_FLAGS["PLANES"] | PICTURE_FLAGS["BGR"]):
            continue
        data = RNG.integers(0, 256, frame.bytes, dtype=np.uint8).tobytes()
        table = TABLES[: frame.channels]
        whole = engine.see(frame, data, table)
        cut = sorted({0, 1, frame.out_h // 2, frame.out_h})
        parts = [engine.see(frame, data, table, a, b) for a, b in itertools.pairwise(cut)]
        assert np.array_equal(np.concatenate(parts), whole), frame


def test_words_that_are_not_aligned() -> None:
    """A frame of 565 words may begin at any byte: here it is a view one byte further."""
    frame = _frame((20, 15), (3, 2, 13, 9), (5, 4), PICTURE_FORMATS.index("rgb565be"), 0)
    data = RNG.integers(0, 256, frame.bytes + 1, dtype=np.uint8)
    for name in ("rgb565le", "rgb565be"):
        for flags in (0, 1, 8, 9):
            one = replace(frame, format=PICTURE_FORMATS.index(name), flags=flags)
            for at in (0, 1):
                view = memoryview(data)[at : at + frame.bytes]
                found = engine.see(one, view, TABLES[: one.channels])  # type: ignore[arg-type]
                assert np.array_equal(found, oracle.rows(one, bytes(view), TABLES)), (name, flags, at)


def test_each_numbers_meaning() -> None:
    """One colour all over stays that colour, in every format, method and size; grey is its weighted mean."""
    formats = {
        "rgb888": lambda r, g, b: bytes([r, g, b]),
        "bgr888": lambda r, g, b: bytes([b, g, r]),
        "rgb565le": lambda r, g, b: (r >> 3 << 11 | g >> 2 << 5 | b >> 3).to_bytes(2, "little"),
        "rgb565be": lambda r, g, b: (r >> 3 << 11 | g >> 2 << 5 | b >> 3).to_bytes(2, "big"),
    }
    for r, g, b in ((0, 0, 0), (255, 255, 255), (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0), (200, 100, 48)):
        for name, pixel in formats.items():
            for size, part, out in SIZES:
                data = pixel(r, g, b) * (size[0] * size[1])
                for area in (0, PICTURE_FLAGS["AREA"]):
                    colour = _frame(size, part, out, PICTURE_FORMATS.index(name), 1 | area)
                    found = engine.see(colour, data, PLAIN).astype(int) + 128
                    tolerance = 8 if "565" in name and (r, g, b) == (200, 100, 48) else 0
                    assert np.abs(found - [r, g, b]).max() <= tolerance, (name, size, area)
                    grey = engine.see(replace(colour, flags=area), data, PLAIN[:1]).astype(int) + 128
                    assert np.abs(grey - (0.299 * r + 0.587 * g + 0.114 * b)).max() <= 1 + tolerance, (name, size, area)


def test_yuv_is_that_of_jpeg() -> None:
    for r, g, b in ((255, 0, 0), (0, 255, 0), (0, 0, 255), (40, 200, 90), (255, 255, 255)):
        y, u, v = (
            round(c)
            for c in (
                0.299 * r + 0.587 * g + 0.114 * b,
                128 - 0.168736 * r - 0.331264 * g + 0.5 * b,
                128 + 0.5 * r - 0.418688 * g - 0.081312 * b,
            )
        )
        y, u, v = (min(max(c, 0), 255) for c in (y, u, v))
        for name, pair in (("yuyv", (y, u, y, v)), ("uyvy", (u, y, v, y))):
            frame = _frame((20, 15), (3, 2, 13, 9), (5, 4), PICTURE_FORMATS.index(name), 1)
            found = engine.see(frame, bytes(pair) * 150, PLAIN).astype(int) + 128
            assert np.abs(found - [r, g, b]).max() <= 3, (name, r, g, b)


def test_as_others_resize() -> None:
    """For a smooth picture both methods come near to their definitions in real numbers."""
    y, x = np.mgrid[0:60, 0:80].astype(float)
    picture = 120 + 60 * np.sin(x / 9) + 50 * np.cos(y / 7)
    data = np.rint(picture).astype(np.uint8).tobytes()
    out_w, out_h = 48, 47
    u, v = (np.arange(out_w) + 0.5) * 80 / out_w - 0.5, (np.arange(out_h) + 0.5) * 60 / out_h - 0.5
    real = 120 + 60 * np.sin(u / 9)[None] + 50 * np.cos(v / 7)[:, None]
    frame = _frame((80, 60), (0, 0, 80, 60), (out_w, out_h), 0, 0)
    assert np.abs(engine.see(frame, data, PLAIN[:1])[..., 0] + 128.0 - real).max() < 2
    exact = picture.reshape(20, 3, 20, 4).mean(axis=(1, 3))
    area = _frame((80, 60), (0, 0, 80, 60), (20, 20), 0, PICTURE_FLAGS["AREA"])
    assert np.abs(engine.see(area, data, PLAIN[:1])[..., 0] + 128.0 - exact).max() <= 1


def test_hostile_numbers_are_refused() -> None:
    good = _frame((20, 16), (0, 0, 20, 16), (5, 4), 1, 0)
    data = bytes(good.bytes)
    engine.see(good, data, PLAIN[:1])
    wrong = [
        *({"width": w} for w in (0, 19, 21, PICTURE_MAX_SIDE + 1, 65535)),
        *({"height": h} for h in (0, 15, 17, 65535)),
        *({k: v} for k in ("x", "y") for v in (1, 65535)),
        *({k: v} for k in ("w", "h", "out_w", "out_h") for v in (0, 65535)),
        *({"format": f} for f in (0, 3, len(PICTURE_FORMATS), 65535)),
        *({"flags": f} for f in (1, 2, 4, 16, 65535)),
    ]
    for change in wrong:
        with pytest.raises(engine.EngineError, match="see:"):
            engine.see(replace(good, **change), data, PLAIN[:1])
    for rows in ((1, 0), (0, 5), (4, 5)):
        with pytest.raises(engine.EngineError, match="see:"):
            engine._engine.see(good, data, PLAIN[:1], *rows)
    for length in (0, 1, good.bytes - 1, good.bytes + 1):
        with pytest.raises(engine.EngineError, match="see:"):
            engine.see(good, bytes(length), PLAIN[:1])
    for size in ((PICTURE_MAX_COVER + 1, 1), (1, PICTURE_MAX_COVER + 1)):
        big = _frame(size, (0, 0, *size), (1, 1), 0, PICTURE_FLAGS["AREA"])
        with pytest.raises(engine.EngineError, match="see:"):
            engine.see(big, bytes(big.bytes), PLAIN[:1])


def test_a_box_of_all_pixels_that_it_may_have() -> None:
    n = PICTURE_MAX_COVER
    frame = _frame((n, n), (0, 0, n, n), (1, 1), 0, PICTURE_FLAGS["AREA"])
    assert engine.see(frame, b"\xff" * frame.bytes, PLAIN[:1]).item() == 127
    for name in ("rgb565le", "rgb888"):
        one = replace(frame, format=PICTURE_FORMATS.index(name), flags=9)
        assert (engine.see(one, b"\xff" * one.bytes, PLAIN) == 127).all()


def test_one_list_of_formats() -> None:
    """C has the same names and numbers as the schema, and so has the board's Python."""
    text = (ROOT / "usermod_c" / "kernels" / "picture.h").read_text()
    names = re.findall(r"MICA_PICTURE_(\w+),\n", text.split("enum {")[1])
    assert [n.lower() for n in names] == [*PICTURE_FORMATS, "formats"]
    assert {a: int(b) for a, b in re.findall(r"MICA_PICTURE_(\w+) = (\d+),", text)} == PICTURE_FLAGS
    assert {int(n) for n in re.findall(r"#define MICA_PICTURE_MAX_\w+ \((\d+)\)", text)} == {
        PICTURE_MAX_SIDE,
        PICTURE_MAX_COVER,
    }
    board: dict[str, object] = {}
    source = (ROOT / "firmware" / "mica" / "pictures.py").read_text()
    (line,) = re.findall(r"^FORMATS: .* = \(.*\)", source, re.M)
    exec(line, board)
    assert board["FORMATS"] == PICTURE_FORMATS


def test_boards_are_told_the_oracles_bytes() -> None:
    """tests/usermod/pictures.py prints a checksum for each format, which pictures.exp says: here are the same
    pictures."""
    folder = ROOT / "tests" / "usermod"
    script, said = (folder / "pictures.py").read_text(), (folder / "pictures.exp").read_text().splitlines()
    board: dict[str, object] = {}
    for name in ("SIZES", "memory", "table"):
        (line,) = re.findall(rf"^{name} = .*", script, re.M)
        exec(line, board)
    sizes, memory = board["SIZES"], board["memory"]
    table = np.frombuffer(board["table"], np.int8).reshape(3, 256)  # type: ignore[call-overload]
    for k, name in enumerate(PICTURE_FORMATS):
        crc = 0
        for size in sizes:  # type: ignore[attr-defined]
            for flags in range(16):
                frame = Frame(*size, k, flags)
                if name == "grey" if frame.has("COLOUR") else flags & 6:
                    continue
                crc = zlib.crc32(oracle.rows(frame, memory[: frame.bytes], table).tobytes(), crc)  # type: ignore[index]
        assert said[k] == f"{name} {crc} True"


def test_what_a_model_wants_is_asked_by_name() -> None:
    desired = Desired("rgb", 96, 96, False, ((1 << 20, -(128 << 20)),) * 3)
    assert desired.frame(320, 240, "rgb565be").flags == PICTURE_FLAGS["COLOUR"] | PICTURE_FLAGS["AREA"]
    assert desired.frame(160, 120, "rgb565be").flags == PICTURE_FLAGS["COLOUR"]
    assert (desired.table == PLAIN).all()
