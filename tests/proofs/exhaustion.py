"""Claims about the real C functions, checked for every input by exhaust.c; and about their tables, entry by entry."""

from __future__ import annotations

import math
import os
import re
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from words import Tree

HERE = Path(__file__).parent
UNDEFINED_TRAPS = ("-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")  # overflows end the program


def log_bounds() -> bytes:
    """The tables log_low and log_high of exhaust.c."""
    f = np.arange(65536, dtype=np.longdouble)
    low = np.exp2(f / 65536 + 31)
    high = np.exp2((f + 1) / 65536 + np.longdouble(2) ** -27 + 31)
    assert np.all(np.abs(low[1:] - np.rint(low[1:])) > 2.0**-28), "64 bits do not decide here"
    assert np.all(np.abs(high - np.rint(high)) > 2.0**-28), "64 bits do not decide here"
    tables = (np.ceil(low), np.minimum(np.floor(high), 2**32 - 1))
    return b"".join(t.astype(np.uint64).astype("<u4").tobytes() for t in tables)


def exhausted(tree: Tree, claim: str, begin: int, end: int, *flags: str, step: int = 1) -> str | None:
    """Run a claim of exhaust.c on all numbers of [begin, end), on every core."""
    with tempfile.TemporaryDirectory() as name:
        program = Path(name) / "exhaust"
        source = (HERE / "exhaust.c").read_text(encoding="utf-8")
        tree.program(source, program, *flags)
        parts = max(1, len(os.sched_getaffinity(0)))
        edges = [begin + (end - begin) * k // parts // step * step for k in range(parts)] + [end]
        given = log_bounds() if claim == "log2" else b""

        def run(k: int) -> str | None:
            command = [str(program), claim, str(edges[k]), str(edges[k + 1]), str(step)]
            result = subprocess.run(command, input=given, capture_output=True, check=False)
            said = result.stdout.decode().strip() or f"{claim} ends with {result.returncode}"
            return said if result.returncode else None

        with ThreadPoolExecutor(parts) as pool:
            return next((found for found in pool.map(run, range(parts)) if found), None)


def root(tree: Tree) -> str | None:
    return exhausted(tree, "root", 0, 1 << 32 if tree.whole else 1 << 22)


def log2(tree: Tree) -> str | None:
    return exhausted(tree, "log2", 1, 1 << 32 if tree.whole else 1 << 21)


def inverse_root(tree: Tree) -> str | None:
    return exhausted(tree, "inverse_root", 1 << 30, 1 << 32, step=1 if tree.whole else 1 << 10)


def newton(tree: Tree) -> str | None:
    """m has the upper bits of w alone, so each m is met once."""
    return exhausted(tree, "newton", 1 << 30, 1 << 32, "-DPROVE_NORM", *UNDEFINED_TRAPS, step=1 << 16)


def quotient(tree: Tree) -> str | None:
    flags = ("-DPROVE_ATTEND", *UNDEFINED_TRAPS)
    step = 1 if tree.whole else 1 << 12
    return exhausted(tree, "quotient", 1 << 31, 1 << 32, *flags, step=step)


def quotient_bits(tree: Tree) -> str | None:
    step = 1 if tree.whole else 1 << 14
    return exhausted(tree, "quotient", 1 << 31, 1 << 32, "-DPROVE_ATTEND", "-D__ARM_ARCH_6M__", step=step)


def bits(tree: Tree) -> str | None:
    return exhausted(tree, "bits", 0, 1 << 32, "-DPROVE_BITS", step=1 if tree.whole else 255)


def numbers(text: str, name: str) -> list[int]:
    found = re.search(rf"\b{name}\[\d+\] = \{{(.*?)\}}", text, flags=re.S)
    assert found, name
    return [int(n) for n in found[1].split(",") if n.strip()]


def squarings(m: int) -> int:
    """2^16 * log2(m / 2^31) by 16 squarings of a mantissa of 32 bits that are cut to 32 bits."""
    log = 0
    for _ in range(16):
        two, m = m * m >> 63, m * m
        m >>= 31 + two
        log = log << 1 | two
    return log


def tables(tree: Tree) -> str | None:
    text = tree.read("usermod_c/kernels/bins.c")
    roots = [math.isqrt(4 * (32 + h) << 41) for h in range(97)]
    found = numbers(text, "roots"), numbers(text, "mica_spectrum_logs")
    logs = [squarings((64 + h) << 25) for h in range(64)] + [65536]
    for name, got, wanted in (("roots", found[0], [(r + 1) // 2 for r in roots]), ("logs", found[1], logs)):
        if got != wanted:
            return (
                f"{name} differs from SPEC at {[i for i, (a, b) in enumerate(zip(got, wanted, strict=True)) if a != b]}"
            )
    return None
