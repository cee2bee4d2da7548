"""Sums of kernels that are more than a loop of products: Winograd's transforms, and the means of pictures."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable
from types import SimpleNamespace

import numpy as np
from assembly import expand, macros
from requantisation import library
from words import Tree

# --- Winograd on RV32 ---------------------------------------------------------------------------------------

TRANSFORMS = """
#include "isa/rv32imc/conv2d_winograd.c"
void mica_rv32_winograd(mica_rv32_winograd_t *args) { (void)args; }
void run_input(const int8_t *x, int16_t *to) { input(x, 4, 1, to); }
void run_weights(const int8_t *w, int16_t *to) { weights(w, 1, to); }
"""
POSITIONS = 16
RESULTS = ("a4", "t6", "a6", "t1")  # of a tile's outputs (0, 0), (0, 1), (1, 0) and (1, 1)


def transformed(functions: ctypes.CDLL, name: str, values: np.ndarray) -> np.ndarray:
    """Run the C on rows of int8; return the 16 positions of each."""
    found = []
    for row in values.astype(np.int8):
        to = np.zeros(64, np.int16)
        getattr(functions, name)(row.ctypes.data_as(ctypes.c_void_p), to.ctypes.data_as(ctypes.c_void_p))
        found.append(to[::4].astype(np.int64))
    return np.array(found)


def ended(text: str, sums: np.ndarray) -> dict[str, np.ndarray]:
    """Return the registers before the requantisation: the lines behind the label `tile`, of sums by position."""
    body = text[text.index("\ntile:") : text.index("STORE a4, a1")]
    registers: dict[str, np.ndarray] = {"t2": np.zeros(sums.shape[1:], np.int64)}  # the bias
    known = macros(text)
    for raw in body.splitlines()[2:]:
        op, _, rest = raw.split("//")[0].strip().partition(" ")
        args = [a.strip() for a in rest.split(",")]
        for line in expand(known, op, *args) if op in known else [SimpleNamespace(op=op, args=args)]:
            to, *given = line.args
            if line.op == "lw" and (place := re.fullmatch(r"256\*(\d)\+64\*(\d)\(a0\)", given[0])):
                registers[to] = sums[4 * int(place[1]) + int(place[2])]
            elif line.op == "slli":
                registers[to] = registers[given[0]] << int(given[1])
            elif line.op in ("add", "sub") and given[-1] in registers and given[0] in registers:
                sign = 1 if line.op == "add" else -1
                registers[to] = registers[given[0]] + sign * registers[given[1]]
    return registers


def winograd(tree: Tree) -> str | None:
    """Both transforms are linear and their product bilinear, so unit tiles and weights stand for all."""
    built = library(tree, TRANSFORMS, "-O1", "-Wl,--unresolved-symbols=ignore-all")
    functions = ctypes.CDLL(str(built))
    tiles, taps = (transformed(functions, f"run_{n}", np.eye(k)) for n, k in (("input", 16), ("weights", 9)))
    rng = np.random.default_rng(7)
    for name, unit, low in (("run_input", tiles, -128), ("run_weights", taps, -127)):
        some = rng.integers(low, 128, (2000, len(unit)))
        some[0], some[1] = low, 127
        if np.abs(unit).sum(axis=0).max() * 128 > 32767 or not np.array_equal(
            transformed(functions, name, some), some @ unit
        ):
            return f"{name} is not linear, or passes an int16"
    products = tiles.T[:, :, None] * taps.T[:, None, :]  # [position, pixel, tap]
    sums = (
        products.reshape(4, 4, 16, 9).cumsum(axis=1).reshape(POSITIONS, 16, 9)
    )  # they go on from one another in a column
    found = ended(tree.read("usermod_c/kernels/isa/rv32imc/winograd.S"), sums)
    return four_times(found[name] for name in RESULTS)


def four_times(outputs: Iterable[np.ndarray]) -> str | None:
    """outputs: what [pixel, tap] of a tile is in each of its outputs (0, 0), (0, 1), (1, 0) and (1, 1)."""
    for k, found in enumerate(outputs):
        wanted = np.zeros((16, 9), np.int64)
        for tap in range(9):
            wanted[4 * (k // 2 + tap // 3) + k % 2 + tap % 3, tap] = 4
        if not np.array_equal(found, wanted):
            return f"output {k} of a tile is not four times the sum"
    return None


# --- pictures -----------------------------------------------------------------------------------------------

LARGEST = {"bytes": (255, 255, 255), "triples": (255, 255, 255), "packed": (31, 63, 31)}  # colours of one pixel


def pictures(tree: Tree) -> str | None:
    """Every S is at most 32 times the largest colour, in 32 bits, and its byte at most 255: all counts and weights."""
    names = ("picture_pixels.h", "picture_area.c", "picture_means.c")
    pixels, area, means = (tree.read(f"usermod_c/kernels/{name}") for name in names)
    bits = re.search(r"\(1u << (\d+)\) / ", area)
    shifts = {int(n) for n in re.findall(r"\* reciprocal >> (\d+)", means)}
    assert bits and shifts
    count = np.arange(1, 128 * 128 + 1, dtype=np.uint64)
    for most in (31, 63, 255):
        product = most * count * ((1 << int(bits[1])) // count)
        if (product >> 32).any() or any((product >> n > 32 * most).any() for n in shifts):
            return f"the mean of colours up to {most}"
    f, g = np.mgrid[:32, :32]
    k = f * g >> 5
    if min(w.min() for w in (32 - f - g + k, f - k, g - k, k)) < 0:
        return "a weight of the bilinear method"
    greys, colours = (re.findall(p, pixels, flags=re.M) for p in (r"^ +grey = (.+);", r"^ +[rgb] = (?!limited)(.+);"))
    assert len(greys) == 3 and len(colours) == 6
    for kind, formulas in zip(LARGEST, ([greys[0]], [greys[1], *colours[:3]], [greys[2], *colours[3:]]), strict=True):
        s = SimpleNamespace(**{n: 32 * most for n, most in zip("abc", LARGEST[kind], strict=True)})
        for formula in formulas:
            assert (
                not set(re.findall(r"[a-z]\w*", formula)) - set("sabc") and "-" not in formula
            )  # so it rises with each
            if not 0 <= eval(formula, {"s": s}) <= 255:
                return f"{kind}: {formula} passes 255"
    return None
