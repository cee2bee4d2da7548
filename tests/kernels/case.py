"""One call of a kernel, and the seeded data that the files of cases share."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

import numpy as np

from mica.kernels.integers import Output

Array = np.ndarray
Rng = np.random.Generator


@dataclass
class Case:
    """One call of a kernel. rows: into how many the output can be cut, where the case knows."""

    name: str
    kernel: str
    xs: list[Array]
    p: dict[str, int]
    q: Output
    blobs: dict[str, Array] = field(default_factory=dict)
    rows: int | None = None


def _rng(name: str) -> Rng:
    return np.random.default_rng(zlib.crc32(name.encode()))


def _data(rng: Rng, shape: tuple[int, ...], kind: str) -> Array:
    if kind == "extreme":
        return rng.choice(np.array([-128, 127], np.int8), shape)
    if kind == "lowest":
        return np.full(shape, -128, np.int8)
    return rng.integers(-128, 128, shape, dtype=np.int8)
