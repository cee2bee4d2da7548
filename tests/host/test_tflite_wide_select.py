"""Comparisons of int16 and choices between int16, beside LiteRT and numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import litert
import numpy as np
import pytest
from tflite_files import Tflite

from mica import engine
from mica.compile import Compiled, compile_file
from mica.exporter import export
from mica.reference.executor import ReferenceModel

Array = np.ndarray
SCALE = 1e-3
SHAPE = [1, 400]
KINDS = ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
NUMPY = dict(zip(KINDS, (np.equal, np.not_equal, np.greater, np.greater_equal, np.less, np.less_equal), strict=True))


def no_warning(text: str) -> None:
    raise AssertionError(text)


def compiled(content: bytes, folder: Path, warn: Callable[[str], None] = no_warning) -> Compiled:
    path = folder / "net.tflite"
    path.write_bytes(content)
    c = compile_file(path, warn=warn, plain=True)
    export(c.model)  # what `info --onnx` does
    return c


def answer(c: Compiled, xs: Sequence[Array]) -> Array:
    """The engine's answer, which must equal that of the oracle."""
    found = []
    for made in (engine.load(c.data), ReferenceModel(c.data)):
        for k, x in enumerate(xs):
            made.set_input(k, x)
        made.run()
        found.append(made.output(0).copy())
    assert np.array_equal(*found)
    return found[0]


def numbers(n: int, seed: int = 0, around: Sequence[int] = ()) -> list[Array]:
    """Any int16, those at the ends, and those beside a number; a third of the second tensor is the first one's."""
    rng = np.random.default_rng(seed)
    found = [rng.integers(-32768, 32768, SHAPE).astype(np.int16) for _ in range(n)]
    for x in found:
        x[0, :90] = rng.choice([-32768, -32767, -1, 0, 1, 32767, *(a + d for a in around for d in (-1, 0, 1))], 90)
    for x in found[1:]:
        x[0, 50:180] = found[0][0, 50:180]
        x[0, 100:140] += (x[0, 100:140] < 32767).astype(np.int16)
    return found


def net_of(kind: str, number: int | None, chooses: bool, scales: tuple[float, float] = (SCALE, SCALE)) -> bytes:
    """A comparison of x with a number, or with another tensor; its truths, or the choice by them between two more."""
    net = Tflite()
    inputs = [net.tensor(SHAPE, "int16", SCALE)]
    if number is None:
        inputs.append(net.tensor(SHAPE, "int16", scales[1]))
        other = inputs[1]
    else:
        other = net.constant(np.array([number], np.int16), SCALE)
    truth = net.tensor(SHAPE, "bool")
    net.operator(kind, [inputs[0], other], [truth])
    if not chooses:
        return net.bytes(inputs, [truth])
    inputs += [net.tensor(SHAPE, "int16", SCALE) for _ in range(2)]
    y = net.tensor(SHAPE, "int16", SCALE)
    net.operator("SELECT_V2", [truth, *inputs[-2:]], [y])
    return net.bytes(inputs, [y])


@pytest.mark.parametrize("number", (None, 300, 0, -32768, 32767))
@pytest.mark.parametrize("kind", KINDS)
def test_comparisons(kind: str, number: int | None, tmp_path: Path) -> None:
    c = compiled(net_of(kind, number, False), tmp_path)
    xs = numbers(1 if number is not None else 2, around=() if number is None else [min(max(number, -32767), 32766)])
    expected = NUMPY[kind](xs[0], xs[1] if number is None else number)
    assert 0 < expected.sum() < expected.size or number in (-32768, 32767)
    assert np.array_equal(answer(c, xs), expected)


@pytest.mark.parametrize("number", (None, 300))
@pytest.mark.parametrize("kind", KINDS)
def test_choices(kind: str, number: int | None, tmp_path: Path) -> None:
    c = compiled(net_of(kind, number, True), tmp_path)
    xs = numbers(3 if number is not None else 4, around=[] if number is None else [number])
    truth = NUMPY[kind](xs[0], xs[1] if number is None else number)
    assert np.array_equal(answer(c, xs), np.where(truth, xs[-2], xs[-1]))


@pytest.mark.parametrize("kind", KINDS)
def test_beside_litert(kind: str, tmp_path: Path) -> None:
    """LiteRT's EQUAL of int16 is true of many that are a step or two apart; all others are exact."""
    content = net_of(kind, None, True)
    c, made = compiled(content, tmp_path), litert.interpreter(content)
    for seed in range(4):
        xs = numbers(4, seed)
        same = answer(c, xs) == litert.run(made, xs)[0]
        apart = np.abs(xs[0].astype(int) - xs[1])
        assert same[(apart == 0) | (apart > 2)].all()
        assert same.all() or kind in ("EQUAL", "NOT_EQUAL")


@pytest.mark.parametrize(("scale", "most"), [(2 * SCALE, 0), (0.37 * SCALE, 0)])
def test_operands_of_two_scales(scale: float, most: int, tmp_path: Path) -> None:
    """Products of int16 with the scales, as float64 has them."""
    c = compiled(net_of("GREATER", None, False, (SCALE, scale)), tmp_path)
    xs = numbers(2)
    real = [x * np.float64(np.float32(s)) for x, s in zip(xs, (SCALE, scale), strict=True)]
    assert np.sum(answer(c, xs) != (real[0] > real[1])) <= most


def test_logic_between_comparisons(tmp_path: Path) -> None:
    """Truths are int8: kernels of int8 join them. x beside two numbers is one function of x."""
    net = Tflite()
    x, a, y = (net.tensor(SHAPE, "int16", SCALE) for _ in range(3))
    above, below, both, greater, either = (net.tensor(SHAPE, "bool") for _ in range(5))
    net.operator("GREATER", [x, net.constant(np.array([-900], np.int16), SCALE)], [above])
    net.operator("LESS", [x, net.constant(np.array([4000], np.int16), SCALE)], [below])
    net.operator("LOGICAL_AND", [above, below], [both])
    net.operator("LESS_EQUAL", [a, x], [greater])
    net.operator("LOGICAL_OR", [both, greater], [either])
    net.operator("SELECT", [either, x, net.constant(np.full(SHAPE, 300, np.int16), SCALE)], [y])
    c = compiled(net.bytes([x, a], [y]), tmp_path)
    xs = numbers(2, around=[-900, 4000])
    expected = np.where(((xs[0] > -900) & (xs[0] < 4000)) | (xs[1] <= xs[0]), xs[0], 300)
    assert np.array_equal(answer(c, xs), expected)
    assert sum(s.kernel == "narrow_s8" for s in c.model.steps) == 2


def test_a_choice_by_x_itself(tmp_path: Path) -> None:
    """One table, and one for where it jumps: no integer differs."""
    net = Tflite()
    x, y, truth = net.tensor(SHAPE, "int16", SCALE), net.tensor(SHAPE, "int16", SCALE), net.tensor(SHAPE, "bool")
    net.operator("GREATER", [x, net.constant(np.array([900], np.int16), SCALE)], [truth])
    net.operator("SELECT_V2", [truth, x, net.constant(np.full(SHAPE, -50, np.int16), SCALE)], [y])
    c = compiled(net.bytes([x], [y]), tmp_path)
    (x_,) = numbers(1, around=[900])
    assert np.array_equal(answer(c, [x_]), np.where(x_ > 900, x_, -50))


def test_a_comparison_of_what_is_int8(tmp_path: Path) -> None:
    """Nothing is widened for it."""
    net, said = Tflite(), []
    x, y = net.tensor([1, 3, 4], "int16", SCALE), net.tensor([1, 3, 4], "int16", SCALE)
    truth = net.tensor([1, 3, 4], "bool")
    net.operator("CUMSUM", [x, net.constant(np.array(1, np.int32))], [y], "CumsumOptions", {})
    net.operator("GREATER", [y, net.constant(np.array([900], np.int16), SCALE)], [truth])
    c = compiled(net.bytes([x], [truth]), tmp_path, said.append)
    assert len(said) == 1 and not any("16" in s.kernel for s in c.model.steps)
