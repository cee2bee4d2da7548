"""Seeded cases for the kernels that hold rows of features against constant vectors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from case import Case, _rng
from tabular_cases import _floats

from mica.kernels import vectors
from mica.kernels.integers import Output


def vector_cases() -> Iterator[Case]:
    """All of them."""
    yield from distances()
    yield from nearest()
    yield from machines()


def distances() -> Iterator[Case]:
    """Every kind at its largest bound, points at their ends, features of every bit pattern."""
    for dims, points, kind in (((1, 7), 5, ""), ((3,), 1, ""), ((2, 3, 20), 9, "bits"), ((8, 12), 40, "edges")):
        n = dims[-1]
        for measure in (vectors.SUM, vectors.SQUARES, vectors.PRODUCTS):
            bound = 32767
            while vectors.largest(measure, n, bound) >= 2**31:
                bound -= 1
            name = f"distances {dims} {points} {kind} {measure}"
            rng = _rng(name)
            x = _floats(rng, dims, kind)
            rows = np.nan_to_num(np.abs(x.reshape(-1, n)), nan=1.0, posinf=1.0).astype(np.float64)
            size = rows.max(axis=0)
            power = np.clip(np.frexp(size)[1], -80, 80)
            missing = rng.choice(np.array([-bound, bound, 0, 5]), n)
            blobs = {
                "points": rng.choice(np.array([-bound, bound, 0, 1, *rng.integers(-bound, bound, 9)]), (n, points)),
                "scale": rng.integers(-(2**31) + 1, 2**31, n),
                "exponent": -8 - power,
                "offset": rng.integers(-(2**20), 2**20, n),
                "missing": missing,
            }
            types = {
                "points": np.int16,
                "scale": np.int32,
                "exponent": np.int8,
                "offset": np.int32,
                "missing": np.int16,
            }
            blobs = {k: v.astype(types[k]) for k, v in blobs.items()}
            p = {"kind": measure, "bound": bound}
            yield Case(name, "distances_s8", [x], p, Output((*dims[:-1], points)), blobs, rows=len(rows))


def nearest() -> Iterator[Case]:
    """Equal distances, none at all, those that no distance can be, one neighbour and all."""
    for dims, results, k, data in (
        ((1, 9), 3, 4, ""),
        ((1,), 1, 1, ""),
        ((2, 3, 20), 2, 20, "few"),
        ((4, 50), 5, 7, "few"),
        ((6, 8), 1, 3, "ends"),
        ((2, 300), 40, 64, ""),
    ):
        name = f"nearest {dims} {results} {k} {data}"
        rng, n = _rng(name), dims[-1]
        x = rng.integers(0, 2**31, dims)
        if data == "few":
            x = rng.integers(0, 4, dims)
        elif data == "ends":
            x = rng.choice(np.array([2**31 - 1, -(2**31), 0, 1, -1, 2]), dims)
        blobs = {
            "target": rng.integers(0, results, n).astype(np.uint16),
            "value": rng.choice(np.array([-32768, 32767, 1, 0, 500]), n).astype(np.int16),
        }
        for kind in (vectors.UNIFORM, vectors.BY_ROOT, vectors.BY_VALUE, vectors.REACH):
            for act, mult, shift in (((-128, 127), 2**30 + 12345, 16), ((-9, 70), 2**31 - 1, 14)):
                p = {"k": k, "kind": kind, "mult": mult, "shift": shift, "act_min": act[0], "act_max": act[1]}
                q = Output((*dims[:-1], results), 0, -7)
                yield Case(
                    f"{name} {kind} {act}", "nearest_s8", [x.astype(np.int32)], p, q, dict(blobs), rows=x.size // n
                )


def machines() -> Iterator[Case]:
    """Inputs beyond both ends of the table, tables that jump, sums as large as they may be."""
    for dims, results, data in (((1, 9), 3, ""), ((1,), 1, "ends"), ((2, 3, 40), 2, ""), ((5, 64), 6, "ends")):
        name = f"machine {dims} {results} {data}"
        rng, n = _rng(name), dims[-1]
        x = rng.integers(-(2**31), 2**31, dims).astype(np.int32)
        for in_mult, in_shift, in_offset, down in (
            (2**30 + 77, 15, 32768, 15),
            (2**31 - 1, -30, -(2**31), 30),
            (2**30, 31, 2**31 - 1, 40),
            (12345, 3, -20, 20),
        ):
            table = rng.integers(-(2**22), 2**22 + 1, vectors.PARTS + 1)
            if data == "ends":
                table = rng.choice(np.array([-(2**22), 2**22]), vectors.PARTS + 1)
            weights = rng.integers(-32768, 32768, (n, results))
            if down < 20:
                weights = weights // 256
            blobs = {
                "table": table.astype(np.int32),
                "factors": weights.astype(np.int16),
                "bias": rng.integers(-(2**20), 2**20, results).astype(np.int32),
            }
            p = {"in_mult": in_mult, "in_shift": in_shift, "in_offset": in_offset, "down": down}
            p |= {"mult": 2**30 + 321, "shift": int(rng.integers(0, 16)), "act_min": -100, "act_max": 127}
            q = Output((*dims[:-1], results), 0, 11)
            yield Case(f"{name} {in_shift} {down}", "machine_s8", [x], p, q, blobs, rows=x.size // n)
    # One input, below, within and above the table, whose last two entries are so far apart that 1 of 65,536 between
    # them counts.
    table = np.zeros(vectors.PARTS + 1, np.int32)
    table[-1] = 2**22
    blobs = {"table": table, "factors": np.ones((1, 1), np.int16), "bias": np.zeros(1, np.int32)}
    p = {
        "in_mult": 2**30,
        "in_shift": 0,
        "in_offset": 0,
        "down": 8,
        "mult": 1679256978,
        "shift": 6,
        "act_min": -128,
        "act_max": 127,
    }
    x = np.array([[-5], [0], [2 * 65280], [2 * 65408], [2 * 65535], [2 * 65536], [2 * 70000], [2**31 - 1]], np.int32)
    yield Case("machine ends", "machine_s8", [x], p, Output((8, 1), 0, -100), blobs, rows=8)
