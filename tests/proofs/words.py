"""Machine words for proofs: a model runs on numpy's arrays, beside the compiled C, and on Z3's terms."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import z3

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "usermod_c" / "kernels"
Word = Any  # a numpy array or a Z3 term


@dataclass(frozen=True)
class Tree:
    """The sources that a theorem is about, with one text planted in a file or none: (path, old, new)."""

    fault: tuple[str, str, str] | None = None
    whole: bool = True  # else a part of what takes long

    def read(self, path: str) -> str:
        text = (ROOT / path).read_text(encoding="utf-8")
        if self.fault and self.fault[0] == path:
            assert text.count(self.fault[1]) >= 1, f"{path} has no '{self.fault[1]}' to plant a fault in"
            text = text.replace(self.fault[1], self.fault[2])
        return text

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """A folder with usermod_c; a copy where a fault is planted."""
        if self.fault is None:
            yield ROOT
            return
        with tempfile.TemporaryDirectory() as name:
            shutil.copytree(ROOT / "usermod_c", Path(name) / "usermod_c")
            (Path(name) / self.fault[0]).write_text(self.read(self.fault[0]), encoding="utf-8")
            yield Path(name)

    def library(self, source: str, to: Path, *flags: str) -> Path:
        """Compile C into a library at `to`, against the kernels' headers."""
        self._compile(source, to, "-shared", "-fPIC", *flags)
        return to

    def program(self, source: str, to: Path, *flags: str) -> None:
        self._compile(source, to, "-ffunction-sections", "-Wl,--gc-sections", *flags)

    def _compile(self, source: str, to: Path, *flags: str) -> None:
        with self.folder() as root:
            c = root / "usermod_c"
            include = [f"-I{c / part}" for part in ("include", "kernels", "kernels/ref", "runtime", "kernels/isa/x86")]
            command = [os.environ.get("CC", "gcc"), "-O3", "-w", "-xc", "-", *include, *flags, "-o", str(to)]
            subprocess.run(command, input=source, text=True, check=True)


class Arrays:
    """Operations on numpy's integers, which wrap as the processor's do."""

    @staticmethod
    def low(v: Word) -> Word:
        return v.astype(np.int32)

    @staticmethod
    def wide(v: Word) -> Word:
        return v.astype(np.int64)

    @staticmethod
    def choose(condition: Word, a: Word, b: Word) -> Word:
        return np.where(condition, a, b)


class Terms:
    """The same operations on Z3's bit vectors; >> is the arithmetic shift, < compares with signs."""

    @staticmethod
    def low(v: Word) -> Word:
        return z3.Extract(31, 0, v)

    @staticmethod
    def wide(v: Word) -> Word:
        return z3.SignExt(64 - v.size(), v)

    @staticmethod
    def choose(condition: Word, a: Word, b: Word) -> Word:
        return z3.If(condition, a, b)


Operations = type[Arrays] | type[Terms]


def clamp(ops: Operations, v: Word, low: Word, high: Word) -> Word:
    return ops.choose(v < low, low, ops.choose(v > high, high, v))


def rule(product: Word, shift: int, zero: Word, low: Word, high: Word) -> Word:
    """SPEC's requantisation of a product of 64 bits, in 72 bits: nothing is cut. zero, low, high have 32 bits."""
    p, z, a, b = z3.SignExt(8, product), *(z3.SignExt(40, v) for v in (zero, low, high))
    v = ((p + (z3.BitVecVal(1, 72) << (30 + shift))) >> (31 + shift)) + z
    return z3.Extract(31, 0, clamp(Terms, v, a, b))


def int8_range() -> tuple[tuple[Word, Word, Word], list[Word]]:
    """(zero, low, high), and what is known of them."""
    zero, low, high = z3.BitVecs("zero low high", 32)
    return (zero, low, high), [zero >= -128, zero <= 127, low >= -128, low <= high, high <= 127]


def product_of_fast() -> tuple[Word, list[Word]]:
    """A product acc * mult of a step that claims FAST: any number in the bounds, so all products and more."""
    p = z3.BitVec("p", 64)
    return p, [p > -(1 << 60), p < 1 << 60]


def refuted(known: list[Word], claim: Word, seconds: int = 60) -> str | None:
    """None where the claim follows from what is known, else a counterexample, or that there is no answer."""
    solver = z3.Solver()
    solver.set("timeout", 1000 * seconds)
    solver.add(*known, z3.Not(claim))
    found = solver.check()
    if found == z3.unsat:
        return None
    return f"false for {solver.model()}" if found == z3.sat else f"no answer in {seconds} s"


def first(claims: Iterator[str | None]) -> str | None:
    return next((claim for claim in claims if claim), None)


def corners(rng: np.random.Generator, n: int, bits: int, signed: bool = True) -> np.ndarray:
    """n numbers of up to `bits` bits of every size, powers of two and their neighbours among them."""
    size = rng.integers(0, bits, n)
    v = rng.integers(0, 1 << 62, n) & ((np.int64(2) << size) - 1)
    near = (np.int64(1) << size) + rng.integers(-1, 2, n)
    v = np.where(rng.random(n) < 0.3, near, v) & ((1 << bits) - 1)
    return np.where(rng.random(n) < 0.5, ~v, v) if signed else v


Proof = Callable[[Tree], str | None]
