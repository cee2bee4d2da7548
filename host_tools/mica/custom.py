"""Operators of the user's own: what a Python file says about them, for `--custom FILE.py`.

    def cube(x, gain=1.0):                       # float32 arrays, one for each input, and the node's attributes by name
        return gain * x**3                       # one float32 array

    OPERATORS = {"Cube": cube}                   # by the node's op_type, in any domain but ONNX's own
    SHAPES = {"Cube": lambda x, gain=1.0: x}     # optional: shapes in, shape out; else the function says it, on zeros
    BOARD = "import mica; mica.register(...)"    # optional: MicroPython that a board executes before it loads a model

On the host such a step computes in real numbers: inputs dequantised, the result quantised with the output's scale, as a
model's inputs are. A board runs what `mica.register` was given, which `mica verify` compares with that.

In Python, the operators are a value that is handed to whatever compiles or runs a model that has them:

    ops = CustomOps.read(["ops.py"])            # or CustomOps({"Cube": Operator("Cube", cube)}, "import mica; ...")
    compiled = compile_file("net.onnx", samples, custom=ops)
    with open_runner(compiled.data, "UNIX", custom=ops) as runner: ...
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from mica.errors import MicaError, Unsupported
from mica.format.values import dequantise_f32, quantise_f32
from mica.kernels.custom import custom_definition

Shape = tuple[int, ...]


class Tensor(Protocol):
    """Facts of a tensor that quantising needs."""

    dims: Shape
    scale: float
    zero_point: int


@dataclass(frozen=True)
class Operator:
    """`compute`: float32 arrays and attributes -> float32 array. `shape`: shapes and attributes -> shape."""

    name: str
    compute: Callable[..., Any]
    shape: Callable[..., Any] | None = None

    def output_shape(self, attributes: Mapping[str, Any], shapes: Sequence[Shape]) -> Shape:
        """The shape that inputs of these shapes give. Raises ValueError where the user's function cannot say."""
        if self.shape is not None:
            shape = self._call(self.shape, shapes, attributes)
            if not isinstance(shape, tuple | list) or not all(isinstance(n, int) and n > 0 for n in shape):
                raise ValueError(f"the shape of {self.name} is {shape!r}; expected a tuple of dimensions")
            return tuple(shape)
        zeros = [np.zeros(s, np.float32) for s in shapes]
        return tuple(np.shape(self._call(self.compute, zeros, attributes)))

    def values(self, attributes: Mapping[str, Any], arrays: Sequence[np.ndarray], shape: Shape) -> np.ndarray:
        """float32 arrays -> float32 array of `shape`. Raises MicaError where the user's function fails."""
        floats = [np.asarray(a, np.float32) for a in arrays]
        try:
            y = np.asarray(self._call(self.compute, floats, attributes), np.float32)
        except ValueError as e:
            raise MicaError(str(e)) from None
        if y.shape != shape or not np.isfinite(y).all():
            what = (
                f"shape {list(y.shape)}, expected {list(shape)}" if y.shape != shape else "a number that is not finite"
            )
            raise MicaError(f"operator {self.name} gave {what}")
        return y

    def _call(self, f: Callable[..., Any], arguments: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        try:
            return f(*arguments, **attributes)
        except Exception as e:  # whatever the user's function raises
            raise ValueError(f"operator {self.name}: {type(e).__name__}: {e}") from None


@dataclass(frozen=True)
class CustomOps:
    """Operators by name, and what a board executes before it loads a model."""

    operators: Mapping[str, Operator] = field(default_factory=dict)
    board_source: str = ""

    @classmethod
    def read(cls, paths: Sequence[str | Path]) -> CustomOps:
        """The operators of all files; the last one has a name. Raises MicaError where a file cannot be executed,
        or says nothing."""
        operators: dict[str, Operator] = {}
        sources = []
        for path in paths:
            module = _module(Path(path))
            functions = getattr(module, "OPERATORS", None)
            shapes = getattr(module, "SHAPES", {})
            source = getattr(module, "BOARD", "")
            if not isinstance(functions, dict) or not all(callable(f) for f in functions.values()) or not functions:
                raise MicaError(f"{path}: expected OPERATORS = {{'Name': function}}")
            if not isinstance(shapes, dict) or set(shapes) - set(functions) or not isinstance(source, str):
                raise MicaError(f"{path}: expected SHAPES = {{'Name': function}} of its OPERATORS, and BOARD a str")
            operators.update({name: Operator(name, f, shapes.get(name)) for name, f in functions.items()})
            sources.append(source)
        return cls(operators, "\n".join(sources))

    def values_s8(self, definition: bytes, xs: Sequence[np.ndarray], x: Sequence[Tensor], y: Tensor) -> np.ndarray:
        """A step: int8 inputs -> int8 output, by way of real numbers.
        Raises Unsupported where the operator is not among these."""
        name, attributes = custom_definition(definition)
        if name not in self.operators:
            raise Unsupported(f"operator {name} is the user's own", todo="give the file that has it: --custom FILE.py")
        reals = [dequantise_f32(a, t.scale, t.zero_point) for a, t in zip(xs, x, strict=True)]
        return quantise_f32(self.operators[name].values(attributes, reals, tuple(y.dims)), y.scale, y.zero_point)


NO_CUSTOM = CustomOps()


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


def define(op: str, attributes: Mapping[str, Any]) -> str:
    """The definition of a step. Raises ValueError for attributes that JSON cannot hold."""
    try:
        return json.dumps({"op": op, "attributes": dict(attributes)}, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError("an attribute that is neither a number, a string nor a list of these") from None
