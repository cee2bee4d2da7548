"""Each choice of kernels that this computer has (AVX-512 VNNI, AVX2, the compiler's vectors)
equals the numpy oracle byte for byte.

`_engine.isa(n)` chooses, so one computer with all three tests all three. Choices that the processor lacks are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from case import Case, _data, _rng
from cases import CASES, _channels, _outs, _weights, _window
from one_step import model_of, with_few_weights

from mica import engine
from mica.file import codec
from mica.format.weights import CODES4
from mica.kernels import KERNEL_BY_NAME
from mica.kernels.integers import Output

CHOICES = ("vector", "avx2", "avx512vnni")
KINDS = ("conv2d_s8", "depthwise_conv2d_s8", "fully_connected_s8", "add_s8")
SWEEP = 120  # of each kind
SCRATCH = (-1, 0, 200, 1500, 6000)


@pytest.fixture(params=range(len(CHOICES)), ids=CHOICES)
def choice(request: pytest.FixtureRequest) -> Iterator[str]:
    """Kernels that the engine uses meanwhile."""
    found = engine._engine.isa(request.param)
    if found == CHOICES[request.param]:
        yield found
    engine._engine.isa(len(CHOICES) - 1)
    if found != CHOICES[request.param]:
        pytest.skip(f"this processor has no more than {found}")


def _equal(c: Case) -> None:
    kernel = KERNEL_BY_NAME[c.kernel]
    for layout in kernel.layouts:
        case = with_few_weights(c) if layout is CODES4 else c
        expected = kernel.oracle(case.xs, case.blobs, case.p, case.q)
        data = codec.encode(model_of(case, layout))
        for scratch in SCRATCH:
            model = engine.NativeModel(data, scratch)
            for i, x in enumerate(case.xs):
                model.set_input(i, x)
            model.run()
            np.testing.assert_array_equal(model.output(0), expected, f"{case.name}, {layout}, scratch {scratch}")


def test_cases(choice: str) -> None:
    assert engine._engine.isa() == choice
    for c in CASES:
        if c.kernel in KINDS:
            _equal(c)


def _picked(rng: np.random.Generator, *of: int) -> int:
    return int(rng.choice(of))


def _image(rng: np.random.Generator, name: str, depthwise: bool) -> Case:
    k = (_picked(rng, 1, 1, 2, 3, 3, 5), _picked(rng, 1, 1, 2, 3, 3, 4))
    s, dil = (_picked(rng, 1, 1, 2), _picked(rng, 1, 1, 2)), (_picked(rng, 1, 1, 2), _picked(rng, 1, 1, 1, 3))
    pad, end = (_picked(rng, 0, 1, 2), _picked(rng, 0, 1, 2)), (_picked(rng, 0, 1, 2), _picked(rng, 0, 1, 2))
    h, w = (int(rng.integers((k[i] - 1) * dil[i] + 1, 12 + (k[i] - 1) * dil[i])) for i in (0, 1))
    c = int(rng.integers(1, 80 if depthwise else 40))
    out = c if depthwise else int(rng.integers(1, 40))
    data, constants = str(rng.choice(["", "extreme", "lowest"])), str(rng.choice(["", "", "limits"]))
    weights = _weights(rng, (out, *k) if depthwise else (out, *k, c), data)
    p = _window(k, s, pad, dil) | {"act_min": _picked(rng, -128, -90), "act_max": _picked(rng, 127, 70)}
    if not depthwise:
        p["groups"] = 1
    dims = (1, _outs(h, k[0], s[0], pad[0], end[0], dil[0]), _outs(w, k[1], s[1], pad[1], end[1], dil[1]), out)
    q = Output(dims, int(rng.integers(-128, 128)), int(rng.integers(-128, 128)))
    blobs = {"weights": weights} | _channels(rng, weights, constants)
    return Case(
        name, "depthwise_conv2d_s8" if depthwise else "conv2d_s8", [_data(rng, (1, h, w, c), data)], p, q, blobs
    )


def _dense(rng: np.random.Generator, name: str) -> Case:
    rows, k, n = int(rng.integers(1, 14)), int(rng.integers(1, 300)), int(rng.integers(1, 40))
    data = str(rng.choice(["", "extreme", "lowest"]))
    weights = _weights(rng, (n, k), data)
    blobs = {"weights": weights} | _channels(rng, weights, str(rng.choice(["", "", "limits"])))
    p = {"act_min": -128, "act_max": _picked(rng, 127, 50)}
    return Case(name, "fully_connected_s8", [_data(rng, (rows, k), data)], p, Output((rows, n), 5, -10), blobs)


def _sum(rng: np.random.Generator, name: str) -> Case:
    n = int(rng.integers(1, 70))
    a, b = int(rng.integers(-(2**22), 2**22)), int(rng.integers(-(2**22), 2**22))
    p = {"mult_a": a, "mult_b": b, "offset": int(rng.integers(-(2**29), 2**29)), "shift": int(rng.integers(0, 31))}
    clamp = {"act_min": _picked(rng, -128, -3), "act_max": _picked(rng, 127, 3)}
    xs = [_data(rng, (2, n), "") for _ in range(2)]
    return Case(name, "add_s8", xs, p | clamp, Output((2, n), 0, int(rng.integers(-128, 128))))


@pytest.mark.parametrize("kind", KINDS)
def test_swept_shapes(choice: str, kind: str) -> None:
    """Odd sizes, edges on every side, strides, dilations, long and short sums, extremes of data and of constants."""
    for i in range(SWEEP):
        name = f"{kind} {i}"
        rng = _rng(name)
        if kind == "fully_connected_s8":
            _equal(_dense(rng, name))
        elif kind == "add_s8":
            _equal(_sum(rng, name))
        else:
            _equal(_image(rng, name, kind.startswith("depthwise")))
    assert engine._engine.isa() == choice
