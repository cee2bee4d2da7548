"""Functions of int16 that are steep somewhere, at every int16, beside the exact ones in float64."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tflite_files import Tflite

from mica import engine
from mica.compile import Compiled, compile_file
from mica.exporter import export
from mica.reference.executor import ReferenceModel

Array = np.ndarray
EVERY = np.arange(-32768, 32768).astype(np.int16).reshape(2, -1)


def no_warning(text: str) -> None:
    raise AssertionError(text)


def function(kind: str, sx: float, sy: float, folder: Path) -> Compiled:
    net, path = Tflite(), folder / "net.tflite"
    x, y = net.tensor(EVERY.shape, "int16", sx), net.tensor(EVERY.shape, "int16", sy)
    net.operator(kind, [x], [y])
    path.write_bytes(net.bytes([x], [y]))
    return compile_file(path, warn=no_warning, plain=True)


def run(c: Compiled, x: Array) -> Array:
    loaded = engine.load(c.data)
    loaded.set_input(0, x)
    loaded.run()
    return loaded.output(0).copy()


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "SQRT": np.sqrt,
    "RSQRT": lambda x: 1 / np.sqrt(x),
    "LOG": np.log,
    "EXP": np.exp,
}


# scales of x and y, the windows beside the one table: one next to 0, one where int16 ends
@pytest.mark.parametrize(
    ("kind", "sx", "sy", "windows"),
    [
        ("SQRT", 2.0**-15, 2.0**-15, 1),
        ("SQRT", 1e-3, 2e-4, 1),
        ("SQRT", 1e-3, 1e-4, 2),
        ("RSQRT", 1e-3, 1e-3, 1),
        ("RSQRT", 1e-3, 1e-4, 1),
        ("RSQRT", 1e-3, 1e-5, 2),
        ("LOG", 1e-3, 3e-4, 1),
        ("LOG", 1e-4, 3e-4, 1),
        ("EXP", 1e-3, 1e-3, 1),
        ("EXP", 1e-4, 1e-3, 0),
    ],
)
def test_close_at_every_int16(kind: str, sx: float, sy: float, windows: int, tmp_path: Path) -> None:
    """Results are exact within 1.45 steps; those of SQRT, RSQRT and LOG for positive x, as others have no value."""
    c = function(kind, sx, sy, tmp_path)
    found = run(c, EVERY).reshape(-1)
    assert [s.kernel for s in c.model.steps].count("lut_s16") == 1 + windows
    positive = slice(32769 if kind in ("SQRT", "RSQRT", "LOG") else 0, None)
    x = EVERY.reshape(-1)[positive] * np.float64(np.float32(sx))
    exact = np.clip(FUNCTIONS[kind](x) / np.float64(np.float32(sy)), -32768, 32767)
    d = np.abs(found[positive] - exact)
    print(
        f"{kind} {sx:g} {sy:g}: {d.max():.2f} steps, {sum(b.nbytes for s in c.model.steps for b in s.blobs.values())} "
        "bytes of tables"
    )
    assert d.max() <= 1.45
    if kind in ("SQRT", "RSQRT"):
        assert not found[:32768].any()  # of what is not a number


def test_engine_and_oracle(tmp_path: Path) -> None:
    """The same integers, and `info --onnx` has a model to write."""
    c = function("RSQRT", 1e-3, 1e-5, tmp_path)
    slow = ReferenceModel(c.data)
    slow.set_input(0, EVERY)
    slow.run()
    assert np.array_equal(slow.output(0), run(c, EVERY))
    assert [n.op_type for n in export(c.model).graph.node].count("lut_s16") == 3
