"""Real numbers <-> int8: the two rules, and that they are written in one place only."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from mica.format import values
from mica.ir.graph import Quant

PACKAGE = Path(__file__).resolve().parents[2] / "host_tools" / "mica"
# Clamps of kernels, which a file may narrow, and sums in which nothing may be copied.
# tabular: thresholds are rounded down, which no value is. quantise's wide: ends of lines that go on beyond those of
# int16.
ELSEWHERE = {"kernels/integers.py", "kernels/wide.py", "quantise/kernels/tabular.py", "quantise/kernels/wide.py"}


@pytest.mark.parametrize("rule", [values.quantise_f32, values.quantise_f64])
def test_halves_go_to_the_even_integer_and_the_ends_saturate(rule: values.Rule) -> None:
    x = np.array([-1e9, -np.inf, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 1e9, np.inf])
    assert rule(x, 1.0, 0).tolist() == [-128, -128, -2, -2, 0, 0, 2, 2, 127, 127]
    assert rule(x, 1.0, 3).tolist() == [-128, -128, 1, 1, 3, 3, 5, 5, 127, 127]
    assert rule(x, 1.0, 3).dtype == np.int8


def test_the_rules_differ_by_their_precision() -> None:
    """Just above a half: the board's float32 sees the half itself, which goes to the even integer below."""
    x = np.array([0.5 + 1e-12, -0.5 - 1e-12])
    assert values.quantise_f32(x, 1.0, 0).tolist() == [0, 0]
    assert values.quantise_f64(x, 1.0, 0).tolist() == [1, -1]
    q, scale = np.array([127], np.int8), 0.1
    assert values.dequantise_f32(q, scale, -128)[0] == np.float32(255) * np.float32(0.1)
    assert values.dequantise_f64(q, scale, -128)[0] == 255 * 0.1
    assert values.dequantise_f32(q, scale, -128).dtype == np.float32


def test_every_integer_comes_back() -> None:
    for scale, zero in ((1 / 256, -128), (0.1, 7), (3e-7, 127)):
        q = np.arange(-128, 128)
        assert np.array_equal(values.quantise_f64(values.levels(scale, zero), scale, zero), q)
        assert np.array_equal(values.quantise_f32(values.dequantise_f32(q, scale, zero), scale, zero), q)
        assert np.array_equal(Quant(scale, zero).quantise(Quant(scale, zero).levels()), q)


def test_nobody_else_saturates_to_int8() -> None:
    """A clip between -128 and 127 outside of format/values.py is a second place for the rule."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "clip":
                ends = " ".join(ast.unparse(a) for a in node.args[1:])
                if any(end in ends for end in ("127", "128", "LOW", "HIGH")):
                    found.add(path.relative_to(PACKAGE).as_posix())
    assert found == ELSEWHERE | {"format/values.py"}
