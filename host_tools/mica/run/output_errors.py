"""How far a model's outputs are from what they should be: SQNR of each output, and how often the answers are the same.

SQNR, the signal to quantisation noise ratio: 10 log10(sum of exact**2 / sum of (exact - found)**2) in dB, over all values of
all samples. 6 dB are one bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mica.format.codec import TensorRecord
from mica.format.values import QUANTISED

LARGEST = 120.0  # dB; what is exact


def decibels(signal: float, noise: float) -> float | None:
    """None where there is no signal."""
    if signal <= 0:
        return None
    return LARGEST if noise <= 0 else min(LARGEST, float(10 * np.log10(signal / noise)))


class Sums:
    """Energy of signals and of their errors, by name."""

    def __init__(self) -> None:
        self.signal: dict[str, float] = {}
        self.noise: dict[str, float] = {}

    def add(self, name: str, exact: np.ndarray, found: np.ndarray) -> None:
        expected = exact.reshape(-1).astype(np.float64)
        self.signal[name] = self.signal.get(name, 0.0) + float(np.sum(expected**2))
        self.noise[name] = self.noise.get(name, 0.0) + float(np.sum((found.reshape(-1) - expected) ** 2))

    def db(self, name: str) -> float | None:
        return decibels(self.signal.get(name, 0.0), self.noise.get(name, 0.0))


class ChannelSums:
    """As `Sums`, but each channel (last axis) may differ by a factor: packing makes the channels of a layer alike and takes
    that back in the next one, which is no error."""

    def __init__(self) -> None:
        self.sums: dict[str, np.ndarray] = {}  # name -> [3, channels]: exact**2, exact * found, found**2

    def add(self, name: str, exact: np.ndarray, found: np.ndarray) -> None:
        channels = exact.shape[-1] if exact.ndim else 1
        a, b = (x.reshape(-1, channels).astype(np.float64) for x in (exact, found))
        now = np.array([np.sum(a * a, axis=0), np.sum(a * b, axis=0), np.sum(b * b, axis=0)])
        self.sums[name] = self.sums[name] + now if name in self.sums else now

    def db(self, name: str) -> float | None:
        aa, ab, bb = self.sums[name]
        explained = np.where(bb > 0, np.maximum(ab, 0) ** 2 / np.maximum(bb, 1e-300), 0.0)
        return decibels(float(np.sum(aa)), float(np.sum(np.maximum(aa - explained, 0.0))))


class OutputErrors:
    """Sums over samples of what a model gives beside what it should give. outputs: the tensors, in their order."""

    def __init__(self, outputs: Sequence[TensorRecord], answers: bool = True) -> None:
        """answers: whether the first output may be one; False where it is a part of an output."""
        self.outputs, self.answers = outputs, answers
        self.sums = Sums()
        self.samples = self.alike = 0

    def add(self, exact: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> None:
        """One sample: real numbers, an array an output."""
        for t, a, b in zip(self.outputs, exact, found, strict=True):
            if t.dtype in QUANTISED:
                self.sums.add(t.name, a, b)
        self.samples += 1
        if self.outputs and (expected := answer(self.outputs[0], exact[0])) is not None:
            self.alike += expected == answer(self.outputs[0], found[0])

    @property
    def agreement(self) -> float | None:
        """Share of samples with the same answer; None where the first output is none."""
        known = self.answers and self.samples and self.outputs and _is_answer(self.outputs[0])
        return self.alike / self.samples if known else None

    def each(self) -> dict[str, float]:
        """SQNR of each output that has one, by name."""
        found = {t.name: self.sums.db(t.name) for t in self.outputs}
        return {name: db for name, db in found.items() if db is not None}

    @property
    def sqnr_db(self) -> float | None:
        """Mean over the outputs."""
        found = list(self.each().values())
        return float(np.mean(found)) if found else None

    @property
    def worst(self) -> dict[str, float | str] | None:
        """The output with the lowest SQNR: its name and sqnr_db."""
        found = self.each()
        name = min(found, key=found.__getitem__, default=None)
        return None if name is None else {"name": name, "sqnr_db": found[name]}


def _is_probability(t: TensorRecord) -> bool:
    return math.prod(t.dims) == 1 and t.scale == 1 / 256 and t.zero_point == -128


def _is_answer(t: TensorRecord) -> bool:
    """Whether an output says a class: a vector, one probability, or the class itself."""
    return t.dtype == "int32" or sum(d > 1 for d in t.dims) == 1 or _is_probability(t)


def answer(t: TensorRecord, y: np.ndarray) -> tuple[int, ...] | None:
    """The class that an output says, None where it says none."""
    if not _is_answer(t):
        return None
    if t.dtype == "int32":
        return tuple(int(v) for v in y.reshape(-1))
    return (int(y.reshape(-1)[0] >= 0.5),) if _is_probability(t) else (int(np.argmax(y)),)
