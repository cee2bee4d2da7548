"""UNIDIRECTIONAL_SEQUENCE_LSTM of int16 runs in int8; a state of int16 beside other operators stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from test_tflite_wide import answers, no_warning
from tflite_files import Tflite
from tflite_lstm import HIDDEN, Layer

from mica.compile import Compiled, compile_file


def packed(layer: Layer, folder: Path, warn: Callable[[str], None] = no_warning) -> Compiled:
    path = folder / "net.tflite"
    path.write_bytes(layer.content())
    return compile_file(path, warn=warn)


@pytest.mark.parametrize(
    "layer",
    (
        Layer(time=2),
        Layer(time=2, peepholes=True),
        Layer(time=2, hidden=HIDDEN / 2),
        Layer(time=2, bias=2**40),
    ),
    ids=("as converters write it", "peepholes", "another scale of its state", "large biases"),
)
def test_what_stays_int8(layer: Layer, tmp_path: Path) -> None:
    said: list[str] = []
    compiled = packed(layer, tmp_path, said.append)
    text = "int16 tensors become int8, the same range in steps 256 times larger: {}; see the quality line"
    assert said in ([text.format("'x', 'layer'")], [text.format("'layer', 'x'")])
    steps, carried = compiled.model.steps, ("hidden", "cell")  # states keep 16 bits where the layer is one of int8
    assert {s.kernel for s in steps if not s.name.endswith((".take", ".keep"))} <= {"recurrent_s8", "lut_s8"}
    assert {t.dtype for t in compiled.model.tensors if not any(word in t.name for word in carried)} == {"int8"}


def test_a_state_of_int16_on_another_scale(tmp_path: Path) -> None:
    """`--state` rescales the kept values, here by 2 / 3."""
    net = Tflite()
    x, h, y = (net.tensor([1, 8], "int16", scale, name=name) for name, scale in (("x", 1e-3), ("h", 3e-3), ("y", 2e-3)))
    net.operator("SUB", [x, h], [y], "SubOptions", {"activation": 0})
    path = tmp_path / "net.tflite"
    path.write_bytes(net.bytes([x, h], [y]))
    compiled = compile_file(path, warn=no_warning, states=[("h", "y")])
    assert [s.kernel for s in compiled.model.steps] == ["binary_s16"] * 3
    rng = np.random.default_rng(12)
    xs, kept = [rng.integers(-8000, 8000, (1, 8)).astype(np.int16) for _ in range(6)], np.zeros((1, 8))
    for v, found in zip(xs, answers(compiled, xs), strict=True):
        expected = np.floor((v - 3 * kept) / 2 + 0.5)
        assert np.abs(found - expected).max() <= 1
        kept = np.floor(found * 2 / 3 + 0.5)
