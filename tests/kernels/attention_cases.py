"""Seeded cases for attention and rotations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from case import Case, _data, _rng

from mica.kernels.integers import Output


def attend(name: str, shape: tuple[tuple[int, ...], int, int, int, int], data: str, asked: int, more: int = 0) -> Case:
    """m queries of width d over a cache of t rows with values of width e, for each head;
    the length asked for, less `more`."""
    lead, m, t, d, e = shape
    rng = _rng(name)
    shapes = ((*lead, m, d), (*lead, t, d), (*lead, t, e))
    xs = [*(_data(rng, s, data) for s in shapes), np.array([asked], np.int32)]
    first = min(1 << 15, (2**31 - 1) // (255 * t))
    table = np.rint(first * np.exp(-np.arange(257) * 11 / 256)).astype(np.uint16)
    limit = int(rng.integers(1, 65025 * d + 1))
    zeros = rng.integers(-128, 128, 4)
    if data == "inside":  # no query is further than 127 from its zero point
        zeros[0], xs[0] = 0, np.maximum(xs[0], -127)
    if data == "near":  # a score off by one is a weight off by much
        zeros[0], limit = 0, 40 + 2 * d
        xs[0], xs[1] = xs[0] // 32, xs[1] // 32
    fall = min((65535 << 12) // limit, 2**31 - 1)
    p = {"rows": t, "width": d, "k_zero": int(zeros[1]), "v_zero": int(zeros[2])}
    p |= {
        "limit": limit,
        "fall": fall,
        "fall_shift": 12,
        "mult": int(rng.integers(2**30, 2**31)),
        "shift": int(rng.integers(-3, 9)),
    }
    p |= {"act_min": -128, "act_max": 127, "more": more}
    q = Output((*lead, m, e), int(zeros[0]), int(zeros[3]))
    return Case(name, "attend_s8", xs, p, q, {"table": table}, rows=int(np.prod(lead)) * m)


def attention() -> Iterator[Case]:
    """One row and many, shared heads, widths around what is summed at once, lengths inside and outside,
    scores at their ends, queries of eight bits and of nine."""
    for lead, m, t, d, e in (
        ((), 1, 1, 1, 1),
        ((1, 2), 1, 7, 8, 8),
        ((1, 4), 2, 33, 8, 8),
        ((3,), 5, 12, 3, 17),
        ((1, 2), 1, 128, 12, 12),
        ((2, 1, 2, 1), 2, 9, 40, 5),
        ((2,), 3, 20, 36, 12),
        ((1,), 1, 6, 100, 20),
    ):
        for data in ("", "extreme", "lowest", "inside", "near"):
            for asked in sorted({-(2**31), 0, 1, t // 2, t, 2**31 - 1}):
                name = f"attend {lead} {m} {t} {d} {e} {data} {asked}"
                yield attend(name, (lead, m, t, d, e), data, asked)
            for asked in sorted({-(2**31), -1, 0, 1, t - 1, t, 2**31 - 1} if data == "inside" else ()):
                name = f"attend {lead} {m} {t} {d} {e} place {asked}"
                yield attend(name, (lead, m, t, d, e), data, asked, more=1)


def rotations() -> Iterator[Case]:
    """One angle for all rows, one for each and for several; ends of the range, multipliers and shifts at their limits,
    clamps."""
    for dims, angles, inner in (
        ((1, 1, 8, 8), (1, 1, 1, 4), 8),
        ((2, 3, 5, 6), (5, 3), 1),
        ((2, 3, 4, 2), (3, 1, 1), 4),
        ((7, 30), (7, 15), 1),
        ((2,), (1,), 1),
    ):
        for data in ("", "extreme", "lowest"):
            for mult_c, mult_s, shift, low, high in (
                (8321, 8190, 20, -128, 127),
                (16383, 16383, 25, -100, 90),
                (0, 33000, 12, -128, 127),
                (1, 1, 1, -128, 127),
                (5, 0, 30, -128, 127),
            ):
                name = f"rotate {dims} {angles} {data} {mult_c} {mult_s} {shift}"
                rng = _rng(name)
                xs = [_data(rng, shape, data) for shape in (dims, angles, angles)]
                zeros = [int(z) for z in rng.integers(-128, 128, 4)]
                if data == "extreme":
                    zeros = [127, -128, 127, -128]
                p = {"inner": inner, "c_zero": zeros[1], "s_zero": zeros[2], "mult_c": mult_c, "mult_s": mult_s}
                p |= {"shift": shift, "act_min": low, "act_max": high}
                q = Output(dims, zeros[0], zeros[3])
                yield Case(name, "rotate_s8", xs, p, q, rows=int(np.prod(dims[:-1])))
