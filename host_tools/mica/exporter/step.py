"""One step of the file, as all exporters of kernels use it: its inputs as real numbers or integers, and its result."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from mica.exporter.builder import Builder
from mica.exporter.values import Values
from mica.file.codec import ModelFile, StepRecord
from mica.ir import exact_round

OPSET = 20
HAIR = 1e-10  # relative; multipliers have 31 bits
ALIKE = 1e-4  # factors that differ by less are one: 1 / 40 of a step over all 256


class NoForm(Exception):
    """A step has no form in ONNX's operators."""


class Step:
    """One step: its records, its inputs as real numbers or integers, and where its result goes.

    Tensors of four dimensions are [1,H,W,C] in the file; with `nchw` a value is had or given as [1,C,H,W].
    """

    def __init__(self, b: Builder, values: Values, model: ModelFile, record: StepRecord) -> None:
        self.b, self.values, self.record = b, values, record
        self.p, self.blobs = record.params, record.blobs
        self.x = [model.tensors[t] for t in record.inputs]
        self.y = model.tensors[record.outputs[0]]

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        return self.b.node(op, *inputs, base=self.record.name, **attributes)

    def const(self, array: Any, base: str = "") -> str:
        """float32 where Python numbers or float64 are given; base: what it is, of a constant that is the step's own."""
        a = np.asarray(array)
        name = f"{self.record.name}.{base}" if base else "c"
        return self.b.const(a.astype(np.float32) if a.dtype == np.float64 else a, name, apart=bool(base))

    def shape(self, dims: tuple[int, ...]) -> str:
        return self.const(np.array(dims, np.int64))

    def integers(self, i: int = 0, nchw: bool = False) -> str:
        """Input i as it is."""
        return self.values.integers(self.record.inputs[i], nchw)

    def real(self, i: int = 0, nchw: bool = False) -> str:
        """Input i as real numbers."""
        return self.values.real(self.record.inputs[i], nchw)

    def put_integers(self, name: str, nchw: bool = False) -> None:
        """The result, in the output's type and scale."""
        self.values.put(self.record.outputs[0], name, nchw)

    def put_sum(
        self, name: str, unit: np.ndarray | float, factor: np.ndarray | float, nchw: bool = False, rest: float = 0.0
    ) -> None:
        """The result, of sums as real numbers: unit is what one is worth, factor how many steps of the output, both for
        each channel or for all. float32 is near the sums; the kernel's rounding needs the sums themselves."""
        exact = self.settled(name, unit, nchw, rest, factor, self.y.scale)
        self.put(self.node("Cast", exact, to=TensorProto.FLOAT), nchw)

    def settled(
        self,
        name: str,
        unit: np.ndarray | float,
        nchw: bool = False,
        rest: float = 0.0,
        factor: np.ndarray | float = 1.0,
        step: float | None = None,
    ) -> str:
        """A value near to whole multiples of unit as float64 (`ir/exact_round.py`);
        without factor and step just these multiples."""
        parts = [np.asarray(v, np.float64) for v in (unit, rest, factor, unit if step is None else step)]
        shape = (1, -1, 1, 1) if nchw else (-1,)
        constants = [self.b.const(v.reshape(shape) if v.ndim else v) for v in parts]
        return self.node(exact_round.NAME, name, *constants, domain=exact_round.DOMAIN)

    def put(self, name: str, nchw: bool = False, units: Sequence[float] = ()) -> None:
        """The result as real numbers: clamped as the step says, and rounded.

        Kernels round halves up, ONNX to even. units: what the result is a sum of whole multiples of,
        in steps of the output; where halves are among those sums, they are moved to where the kernel has them,
        by less than would reach the next sum.
        """
        lift, stretch = _moved(units)
        if stretch != 1.0:
            name = self.node("Mul", name, self.const(stretch))
        elif lift:
            name = self.node("Add", name, self.const(lift * self.y.scale))
        low, high = self.p.get("act_min", -128), self.p.get("act_max", 127)
        zero, scale = self.y.zero_point, self.y.scale
        if (low, high) == (zero, 127) and low > -128:
            name = self.node("Relu", name)
        elif low > -128 or high < 127:
            name = self.node("Clip", name, *(self.const((v - zero) * scale) for v in (low, high)))
        y = self.node("QuantizeLinear", name, *self.values.grid(self.record.outputs[0]))
        self.put_integers(y, nchw)

    def times(self, name: str, factor: float) -> str:
        """A value times a number; a factor of 1 makes no node."""
        return name if alike(factor, 1.0) else self.node("Mul", name, self.const(factor))

    def factor(self) -> float:
        """Parameters mult and shift as a number, in steps of the output."""
        return math.ldexp(self.p["mult"], -31 - self.p["shift"])


Form = Callable[[Step], None]


def _moved(units: Sequence[float]) -> tuple[float, float]:
    """Move of the halves where the kernel's own is slightly below or above: the number of steps, and the factor.

    (0, 1) where no sum of whole multiples of the units is a half, or the sums lie too close to tell.
    """
    for k in range(1, 10):
        parts = [u * 2**k for u in units]
        near = [round(v) for v in parts]
        if parts and all(abs(v - n) < 1e-6 * max(1.0, abs(v)) for v, n in zip(parts, near, strict=True)):
            if not any(n % 2 for n in near):
                return 0.0, 1.0
            off = [(v - n) / n for v, n in zip(parts, near, strict=True) if n]
            if len(parts) == 1 and abs(off[0]) > HAIR:
                return 0.0, 1.0 + math.copysign(2.0**-16, off[0])
            return 2.0 ** -(k + 2), 1.0
    return 0.0, 1.0


def alike(a: float, b: float) -> bool:
    return abs(a - b) <= ALIKE * abs(b)


def factors(blobs: dict[str, np.ndarray]) -> np.ndarray:
    """mult and shift of each channel as float64."""
    return np.ldexp(blobs["mult"].astype(np.float64), -31 - blobs["shift"].astype(np.int64))
