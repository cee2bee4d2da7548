"""Requantisation, against exact rationals: acc * mult / 2**(31 + shift), rounded once, halves up."""

import math
from fractions import Fraction

import numpy as np
import pytest
from case import Case
from one_step import model_of

from mica import engine
from mica.file import codec
from mica.kernels.integers import Output, requantise

LIMIT = 2**31 - 1
MULTS = (0, 1, 2, 3, 2**16, 2**30 - 1, 2**30, 2**30 + 1, 1518500250, LIMIT - 1, LIMIT)


def _exact(acc: int, mult: int, shift: int) -> int:
    return math.floor(Fraction(acc * mult, 2 ** (31 + shift)) + Fraction(1, 2))


def _triples() -> list[tuple[int, int, int]]:
    """Accumulators whose result lies near -300..300, on and beside rounding boundaries; and the ends of int32."""
    rng = np.random.default_rng(5)
    out = []
    for shift in range(-30, 32):
        for mult in (*MULTS, *rng.integers(1, 2**31, 8).tolist()):
            accs = {0, 1, -1, LIMIT, -LIMIT, LIMIT - 1}
            if mult:
                for target in (
                    -128.5,
                    -127.5,
                    -1.5,
                    -0.5,
                    0.5,
                    1.5,
                    126.5,
                    127.5,
                    *rng.integers(-130, 130, 4).tolist(),
                ):
                    near = round(Fraction(target) * 2 ** (31 + shift) / mult)
                    accs |= {near - 1, near, near + 1}
            out += [(a, mult, shift) for a in sorted(accs) if abs(a) <= LIMIT]
    return out


TRIPLES = _triples()


def test_oracle_is_exact() -> None:
    a, m, s = (np.array(column, np.int64) for column in zip(*TRIPLES, strict=True))
    got = requantise(a, m, s)
    assert [int(v) for v in got] == [_exact(*t) for t in TRIPLES]
    print(f"{len(TRIPLES)} triples")


def test_halves_go_up() -> None:
    """Ties, which no other test would tell apart from rounding away from zero or to even."""
    assert requantise(np.array([-3, -1, 1, 3, 5]), 2**30, 0).tolist() == [-1, 0, 1, 2, 3]


@pytest.mark.parametrize("zero", [-128, 0, 127])
def test_c_is_exact(zero: int) -> None:
    """Through fully_connected_s8 with weights 0, so that the accumulator is the bias."""
    assert engine.AVAILABLE, "the C engine is not built: pip install -e ."
    for start in range(0, len(TRIPLES), 60000):
        part = TRIPLES[start : start + 60000]
        a, m, s = zip(*part, strict=True)
        blobs = {
            "weights": np.zeros((len(part), 1), np.int8),
            "bias": np.array(a, np.int32),
            "mult": np.array(m, np.int32),
            "shift": np.array(s, np.int8),
        }
        p, q = {"act_min": -128, "act_max": 127}, Output((1, len(part)), 0, zero)
        x = np.ones((1, 1), np.int8)
        model = engine.NativeModel(codec.encode(model_of(Case("bias", "fully_connected_s8", [x], p, q, blobs))))
        model.set_input(0, x)
        model.run()
        assert model.output(0).ravel().tolist() == [min(127, max(-128, zero + _exact(*t))) for t in part]
