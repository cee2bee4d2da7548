"""Operators of the user's own: what a Python file says about them, for `--custom FILE.py`.

    def cube(x, gain=1.0):                       # float32 arrays, one for each input, and the node's attributes by name
        return gain * x**3                       # one float32 array

    OPERATORS = {"Cube": cube}                   # by the node's op_type, in any domain but ONNX's own
    SHAPES = {"Cube": lambda x, gain=1.0: x}     # optional: shapes in, shape out; else the function says it, on zeros
    BOARD = "import mica; mica.register(...)"    # optional: MicroPython that a board executes before it loads a model

On the host such a step computes in real numbers: inputs dequantised, the result quantised with the output's scale, as a
model's inputs are. A board runs what `mica.register` was given, which `mica verify` compares with that.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from mica.errors import MicaError, Unsupported
from mica.format.values import dequantise_f32, quantise_f32
from mica.kernels import CUSTOM
from mica.kernels.custom import custom_definition

KERNEL = CUSTOM.name


@dataclass(frozen=True)
class Operator:
    """`compute`: float32 arrays and attributes -> float32 array. `shape`: shapes and attributes -> shape."""

    compute: Callable[..., Any]
    shape: Callable[..., Any] | None


OPERATORS: dict[str, Operator] = {}  # what load() has read
_board: list[str] = []


class Tensor(Protocol):
    """What quantising needs to know."""

    dims: tuple[int, ...]
    scale: float
    zero_point: int


def load(paths: Sequence[str]) -> None:
    """Read files of operators. Raises MicaError where one cannot be executed, or says nothing."""
    for path in paths:
        module = _module(Path(path))
        operators = getattr(module, "OPERATORS", None)
        shapes = getattr(module, "SHAPES", {})
        board = getattr(module, "BOARD", "")
        if not isinstance(operators, dict) or not all(callable(f) for f in operators.values()) or not operators:
            raise MicaError(f"{path}: expected OPERATORS = {{'Name': function}}")
        if not isinstance(shapes, dict) or set(shapes) - set(operators) or not isinstance(board, str):
            raise MicaError(f"{path}: expected SHAPES = {{'Name': function}} of its OPERATORS, and BOARD a str")
        OPERATORS.update({name: Operator(f, shapes.get(name)) for name, f in operators.items()})
        _board.append(board)


def clear() -> None:
    """Forget all of them."""
    OPERATORS.clear()
    _board.clear()


def board_source() -> str:
    """What a board executes before it loads a model."""
    return "\n".join(_board)


def _module(path: Path) -> ModuleType:
    if not path.is_file():
        raise MicaError(f"{path}: no such file")
    spec = importlib.util.spec_from_file_location(f"mica_custom_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise MicaError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as e:  # whatever the user's file raises
        raise MicaError(f"{path}: {type(e).__name__}: {e}") from None
    return module


# ---- what a step says: JSON in the file


def define(op: str, attributes: Mapping[str, Any]) -> str:
    """The definition of a step. Raises ValueError for attributes that JSON cannot hold."""
    try:
        return json.dumps({"op": op, "attributes": dict(attributes)}, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError("an attribute that is neither a number, a string nor a list of these") from None


# ---- what it computes


def output_shape(op: str, attributes: Mapping[str, Any], shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that inputs of these shapes give. Raises ValueError where the user's function cannot say."""
    operator = OPERATORS[op]
    if operator.shape is not None:
        shape = _call(op, operator.shape, shapes, attributes)
        if not isinstance(shape, tuple | list) or not all(isinstance(n, int) and n > 0 for n in shape):
            raise ValueError(f"the shape of {op} is {shape!r}; expected a tuple of dimensions")
        return tuple(shape)
    zeros = [np.zeros(s, np.float32) for s in shapes]
    return tuple(np.shape(_call(op, operator.compute, zeros, attributes)))


def compute(definition: bytes, arrays: Sequence[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """float32 arrays -> float32 array of `shape`. Raises MicaError where the user's function fails."""
    op, attributes = custom_definition(definition)
    if op not in OPERATORS:
        raise Unsupported(f"operator {op} is the user's own; give the file that has it: --custom FILE.py")
    floats = [np.asarray(a, np.float32) for a in arrays]
    try:
        y = np.asarray(_call(op, OPERATORS[op].compute, floats, attributes), np.float32)
    except ValueError as e:
        raise MicaError(str(e)) from None
    if y.shape != shape or not np.isfinite(y).all():
        what = f"shape {list(y.shape)}, expected {list(shape)}" if y.shape != shape else "a number that is not finite"
        raise MicaError(f"operator {op} gave {what}")
    return y


def compute_s8(definition: bytes, xs: Sequence[np.ndarray], x: Sequence[Tensor], y: Tensor) -> np.ndarray:
    """int8 inputs -> int8 output, by way of real numbers."""
    reals = [dequantise_f32(a, t.scale, t.zero_point) for a, t in zip(xs, x, strict=True)]
    return quantise_f32(compute(definition, reals, tuple(y.dims)), y.scale, y.zero_point)


def _call(op: str, f: Callable[..., Any], arguments: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    try:
        return f(*arguments, **attributes)
    except Exception as e:  # whatever the user's function raises
        raise ValueError(f"operator {op}: {type(e).__name__}: {e}") from None
