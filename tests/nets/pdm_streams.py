"""Bits of a PDM microphone: the virtual Pico's modulator in C, and the engine's filter by ctypes."""

from __future__ import annotations

import ctypes
import functools
import tempfile
from pathlib import Path

import c_build
import numpy as np

_SOURCE = Path(__file__).with_name("pdm_microphone.c")
WORDS = 512  # of memory: more than a filter has


@functools.cache
def _modulator() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "microphone.so"
        c_build.run(c_build.gcc(), "-O2", "-shared", "-fPIC", str(_SOURCE), "-o", str(library), "-lm", cwd=Path(folder))
        return ctypes.CDLL(str(library))


def _at(x: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(x.ctypes.data)


def sent(samples: np.ndarray, ratio: int = 64, rate: int = 16000, first: int | None = None) -> np.ndarray:
    """A microphone's bits, packed [n * ratio / 8]; `first`: a bit that comes before them."""
    x = np.ascontiguousarray(samples, np.int16)
    bits = np.zeros(len(x) * ratio // 8, np.uint8)
    late = ctypes.c_int64(first is not None)
    _modulator().sent(_at(x), ctypes.c_int64(len(x)), ctypes.c_int64(ratio), ctypes.c_double(rate), late, _at(bits))
    bits[0] |= first or 0
    return bits


class Filter:
    """The engine's filter. Raises ValueError where it refuses the numbers."""

    def __init__(self, ratio: int = 64, gain: int = 1) -> None:
        self.engine = c_build.whole_engine()
        self.memory = np.full(WORDS, 0xFFFFFFFF, np.uint32)
        self.engine.mica_pdm_begin.restype = ctypes.c_bool
        if not self.engine.mica_pdm_begin(_at(self.memory), ratio, gain):
            raise ValueError((ratio, gain))
        self.ratio = ratio

    def samples(self, bits: np.ndarray) -> np.ndarray:
        out = np.zeros(len(bits) * 8 // self.ratio, np.int16)
        self.engine.mica_pdm(_at(self.memory), _at(bits), _at(out), ctypes.c_size_t(len(out)))
        assert (self.memory[-64:] == 0xFFFFFFFF).all()  # no further than its own memory
        return out
