"""The network in the making: ONNX nodes over the real numbers of each tensor, rounded where the file's integers round.

Tensor i of the file stands for the ONNX value `x(i)`:

    computed, int8 or uint8   Dequantize(Quantize(y, s, z), s, z), the s and z of the file
    computed, int16           likewise; in int8 where its operator has no kernel of int16: the same range,
                              in steps that are 256 times larger
    a constant of integers    Dequantize(the integers), so that the compiler finds them again
    float                     as it is

This is the form that ONNX's quantised models have, so every pass behind the importer serves both.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from mica.format.values import saturate
from mica.importer.tflite import schema
from mica.importer.tflite.computed import Computed
from mica.importer.tflite.model import Model, Operator, Tensor
from mica.importer.tflite.names import Names
from mica.importer.tflite.signal import Found

OPSET = 20
OPSET16 = 21  # the first whose QuantizeLinear knows int16
# Operators that may have kernels of int16: their int16 stay so. What becomes of them is for passes/wide.py to say.
_WIDE = """
ABS ADD AVERAGE_POOL_2D BATCH_TO_SPACE_ND BROADCAST_TO CONCATENATION CONV_2D COS DEPTHWISE_CONV_2D DEPTH_TO_SPACE
DEQUANTIZE DYNAMIC_UPDATE_SLICE ELU EQUAL EXP EXPAND_DIMS FULLY_CONNECTED GATHER GATHER_ND GELU GREATER GREATER_EQUAL
HARD_SWISH LEAKY_RELU
LESS LESS_EQUAL LOG LOGISTIC MAXIMUM MAX_POOL_2D MEAN MINIMUM MIRROR_PAD MUL NEG NOT_EQUAL PACK PAD PADV2 PRELU
QUANTIZE REDUCE_MAX REDUCE_MIN RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 RESHAPE RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR
REVERSE_SEQUENCE REVERSE_V2 RSQRT SELECT SELECT_V2 SIN SLICE SOFTMAX SPACE_TO_BATCH_ND SPACE_TO_DEPTH SPLIT SPLIT_V
SQRT SQUARE SQUARED_DIFFERENCE SQUEEZE STRIDED_SLICE SUB SUM TANH TILE TRANSPOSE TRANSPOSE_CONV
UNIDIRECTIONAL_SEQUENCE_LSTM UNPACK
"""
WIDE = frozenset(_WIDE.split())
TO_NCHW, TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)


@dataclass(frozen=True)
class Grid8:
    """Scale and zero point of a tensor: real = scale * (q - zero_point), q of dtype int8 or uint8."""

    scale: float
    zero_point: int
    dtype: str = "int8"

    @property
    def low(self) -> float:
        return self.scale * (int(np.iinfo(self.dtype).min) - self.zero_point)

    @property
    def high(self) -> float:
        return self.scale * (int(np.iinfo(self.dtype).max) - self.zero_point)


@dataclass
class Variable:
    """A variable that an operator keeps from run to run. now: its real numbers at this place of the graph, "" before
    the first read or assignment. behind: its name after the run, "" if nothing reads the value of the run before.
    """

    shape: tuple[int, ...]
    dtype: str
    grid: Grid8 | None
    now: str = ""
    behind: str = ""


class Net:
    """Nodes and constants so far. `states` are pairs of an input and an output that are one tensor."""

    def __init__(self, model: Model, front_end_found: Found | None = None) -> None:
        self.model = model
        self.front_end_found = front_end_found  # what makes features of sound; they are an input here
        self.features = ""  # the name of that
        self.names = Names()
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[str] = []
        self.computed = Computed(self.nodes, self.constants, OPSET)
        self.states: list[tuple[str, str]] = []
        self.real: dict[int, str] = {}  # tensor -> value of its real numbers
        self.grids: dict[int, Grid8] = {}
        self.pads: dict[int, tuple[int, list[int]]] = {}  # made by padding with zeros: tensor -> (padded tensor, pads)
        self.shapes: dict[str, tuple[int, ...]] = {}  # of values that stand for tensors, as the file says
        self.coarser: dict[int, str] = {}  # int16 tensors that become int8
        self.handles: dict[int, str] = {}  # tensor -> the variable that it stands for
        self.variables: dict[str, Variable] = {}
        self.wide = False  # whether the operator that is being written has kernels of int16, and int16 alone to read
        self.opset = OPSET
        self.write: Callable[[Net, Operator], str] | None = None  # one operator of a graph inside of this one
        self.label = "input"  # of the operator that is being written
        self.labels: dict[int, str] = {}

    # Values of the file

    def tensor(self, i: int) -> Tensor:
        return self.model.tensors[i]

    def shape(self, i: int) -> tuple[int, ...]:
        return self.tensor(i).shape

    def name(self, i: int) -> str:
        """Name of tensor i in reports, and of the operator that makes it."""
        if i not in self.labels:
            self.labels[i] = self.names.short(self.tensor(i).name, f"t{i}")
        return self.labels[i]

    def known(self, i: int) -> np.ndarray | None:
        """A constant, or integers that follow from constants; int64 where it is one of integers.
        None if it depends on data."""
        t = self.tensor(i)
        data = t.data
        if data is None and math.prod(t.shape) == 0:
            return np.zeros(t.shape, np.int64)
        if data is None and t.grid is None and t.dtype in ("int32", "int64"):
            data = self.computed.get(self.real.get(i, ""))
        return data.astype(np.int64) if data is not None and data.dtype.kind in "iu" else data

    def data(self, i: int, what: str) -> np.ndarray:
        """A constant that has to be known, as of `known`. Raises ValueError."""
        data = self.known(i)
        if data is None:
            raise ValueError(f"{what} that depends on data")
        return data

    def x(self, i: int) -> str:
        """The value of a tensor's real numbers, constant or not."""
        if i not in self.real:
            t = self.tensor(i)
            if t.data is None:
                raise ValueError(f"tensor {i} has no value")
            self.real[i] = self._constant(t)
        return self.real[i]

    def _constant(self, t: Tensor) -> str:
        assert t.data is not None
        if t.grid is None or t.dtype in ("int32", "int64"):
            return self.const(t.data.astype(np.float32) if t.dtype in ("float16", "float64") else t.data, t.name)
        if t.dtype == "int16":  # finer than mica's integers
            shape = [-1 if k == t.grid.axis else 1 for k in range(t.data.ndim)]
            real = (t.data.astype(np.int64) - t.grid.zero_point.reshape(shape)) * t.grid.scale.reshape(shape)
            return self.const(real.astype(np.float32), t.name)
        return self.integers(t.data, t.grid.scale, t.grid.zero_point, t.grid.axis)

    def integers(self, q: np.ndarray, scale: np.ndarray, zero: np.ndarray, axis: int) -> str:
        """Real numbers of constant integers: scale and zero point float64 and int64 [1], or one each along `axis`."""
        one = scale.size == 1
        parts = [
            self.const(q),
            *(self.const(p[0] if one else p) for p in (scale.astype(np.float32), zero.astype(q.dtype))),
        ]
        return self.node("DequantizeLinear", parts, **({} if one else {"axis": axis}))

    # Writing

    def node(self, op: str, inputs: Sequence[str], **attrs: Any) -> str:
        y = self.names.unique(f"{self.label}.{op}")
        self.nodes.append(helper.make_node(op, list(inputs), [y], name=self.label, **attrs))
        return y

    def several(self, op: str, inputs: Sequence[str], outputs: int, **attrs: Any) -> list[str]:
        """A node of several outputs."""
        ys = [self.names.unique(f"{self.label}.{op}") for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), ys, name=self.label, **attrs))
        return ys

    def const(self, array: Any, name: str = "") -> str:
        name = self.names.short(name, f"{self.label}.const")
        self.constants.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def numbers(self, values: Sequence[int] | np.ndarray) -> str:
        return self.const(np.asarray(values, np.int64))

    def real_number(self, value: float) -> str:
        return self.const(np.float32(value))

    def transpose(self, x: str, perm: Sequence[int]) -> str:
        return self.node("Transpose", [x], perm=list(perm))

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        return self.node("Reshape", [x, self.numbers(shape)])

    def activation(self, y: str, code: int | float) -> str:
        """The function that a kernel applies to its sums."""
        name = schema.ACTIVATIONS.get(int(code))
        if name is None:
            raise ValueError(f"activation function {int(code)}")
        return self.function(y, name)

    def function(self, y: str, name: str) -> str:
        limits = {"RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1), "RELU_0_TO_1": (0, 1)}
        if name in limits:
            return self.node("Clip", [y, *(self.real_number(v) for v in limits[name])])
        return self.node({"RELU": "Relu", "TANH": "Tanh"}[name], [y]) if name else y

    # Rounding

    def grid(self, i: int, like: int | None = None, positive: bool = False) -> Grid8 | None:
        """Scale and zero point of tensor i in 8 bits; None if it has none. like: the tensor whose elements it has."""
        t = self.tensor(i)
        if t.grid is None or t.dtype not in ("int8", "uint8", "int16"):
            return None
        scale, zero = float(t.grid.scale[0]), int(t.grid.zero_point[0])
        if t.dtype != "int16":
            return Grid8(scale, zero, t.dtype)
        if like is not None and like in self.grids and _same(self.tensor(like), t):
            return self.grids[like]
        if positive and zero == 0:  # none of the 256 integers goes to numbers that never come
            return Grid8(float(np.float32(scale * 32768 / 256)), -128)
        return Grid8(float(np.float32(scale * 256)), int(saturate(np.rint(zero / 256))))

    def grid16(self, i: int) -> Grid8 | None:
        """Scale of tensor i if its integers stay int16, else None."""
        t = self.tensor(i)
        if not self.wide or t.dtype != "int16" or t.grid is None or t.grid.zero_point.any():
            return None
        self.opset = OPSET16
        return Grid8(float(t.grid.scale[0]), 0, "int16")

    def rounded(self, y: str, grid: Grid8 | None) -> str:
        if grid is None:
            return y
        parts = [self.const(np.float32(grid.scale)), self.const(np.dtype(grid.dtype).type(grid.zero_point))]
        return self.node("DequantizeLinear", [self.node("QuantizeLinear", [y, *parts]), *parts])

    def done(self, i: int, y: str, like: int | None = None, positive: bool = False) -> None:
        """Tensor i is y, rounded as the file says."""
        t = self.tensor(i)
        moved = self.grids.get(like) if like is not None and _same(self.tensor(like), t) else None
        stays = moved is None or moved.dtype == "int16"  # elements of what became int8 are that
        grid = self.grid16(i) if stays else None
        if grid is None:
            grid = self.grid(i, like, positive)
            if grid is not None and grid.dtype == "int16":  # elements of what is int16
                self.opset = OPSET16
            elif grid is not None and t.dtype == "int16":
                self.coarser[i] = self.name(i)
        if grid is not None:
            self.grids[i] = grid
        self.real[i] = self.rounded(y, grid)
        self.shapes[self.real[i]] = self.shape(i)

    # The ends of the graph

    def add_inputs(self) -> None:
        for i in self.model.inputs:
            t = self.tensor(i)
            if t.dtype == "string":
                raise ValueError(
                    f"input {i} '{t.name}' takes texts; convert the model behind what makes numbers of them"
                )
            if not t.shape or min(t.shape) < 1:
                raise ValueError(
                    f"input {i} '{t.name}' has the shape {list(t.shape)}; convert the model with fixed shapes"
                )
            name = self.name(i)
            whole = t.dtype in ("int32", "int64", "bool") or self._is_raw(i)
            if not whole and t.dtype not in ("float32", "int8", "uint8", "int16"):
                raise ValueError(f"input '{name}' is {t.dtype}; mica takes float32, int8, uint8, int16 and row numbers")
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(t.dtype)) if whole else TensorProto.FLOAT
            if self.front_end_found is not None and i == self.front_end_found.samples:
                continue
            self.inputs.append(helper.make_tensor_value_info(name, kind, t.shape))
            self.label = name
            if t.dtype == "int16" and all(op.kind == "QUANTIZE" for op in self._readers(i)):
                self.real[i] = name  # rounded once, by them
            else:
                self.wide = any(self.is_wide(op) for op in self._readers(i))
                self.done(i, name)
        if self.front_end_found is not None:
            self._add_features(self.front_end_found.result)

    def _add_features(self, i: int) -> None:
        t = self.tensor(i)
        self.features = self.names.unique(f"{self.name(i)}.features")
        self.inputs.append(helper.make_tensor_value_info(self.features, TensorProto.FLOAT, t.shape))
        self.real[i], self.shapes[self.features] = self.features, t.shape
        if (grid := self.grid(i)) is not None:
            self.grids[i] = grid

    def is_wide(self, op: Operator) -> bool:
        """True if an operator may have a kernel of int16, by its kind and the types of its inputs and outputs."""
        ends = [self.tensor(i) for i in (*op.inputs, *op.outputs) if i >= 0 and self.tensor(i).data is None]
        ends += [self.tensor(i) for i in op.inputs if i >= 0 and op.kind in ("ADD", "MUL", "SUB")]
        converts = op.kind in ("QUANTIZE", "DEQUANTIZE")
        return op.kind in WIDE and (converts or all(t.dtype in ("bool", "int16") for t in ends))

    def _is_raw(self, i: int) -> bool:
        """True for an input of 8 bits without a scale that is read as plain numbers only."""
        t, readers = self.tensor(i), self._readers(i)
        raw = t.dtype in ("int8", "uint8") and t.grid is None and i not in self.model.outputs
        return raw and bool(readers) and all(op.kind == "CAST" for op in readers)

    def _readers(self, i: int) -> list[Operator]:
        return [op for op in self.model.operators if i in op.inputs]

    def keep_variables(self) -> None:
        for variable in self.variables.values():
            if variable.behind:
                self.keep(variable.behind, variable.now)

    def add_outputs(self) -> None:
        for i in self.model.outputs:
            name = self.name(i)
            if i in self.model.inputs or name in self.outputs:
                name = self.names.unique(f"{name}.output")
            self.label = name
            self.nodes.append(helper.make_node("Identity", [self.x(i)], [name], name=name))
            self.outputs.append(name)

    def add_state(self, name: str, shape: Sequence[int], grid: Grid8 | None) -> tuple[str, str]:
        """A tensor that lives from run to run, 0 at first: (its numbers before a run, a name for those behind)."""
        before, behind = self.names.unique(name), self.names.unique(f"{name}.next")
        self.inputs.append(helper.make_tensor_value_info(before, TensorProto.FLOAT, list(shape)))
        self.outputs.append(behind)
        self.states.append((before, behind))
        return self.rounded(before, grid), behind

    def keep(self, behind: str, y: str) -> None:
        """The state is y after the run."""
        self.nodes.append(helper.make_node("Identity", [y], [behind], name=behind))

    def proto(self, name: str) -> onnx.ModelProto:
        outputs = [helper.make_empty_tensor_value_info(o) for o in self.outputs]
        graph = helper.make_graph(self.nodes, name, self.inputs, outputs, self.constants)
        imports = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=imports, ir_version=9 if self.opset == OPSET else 10)


def _same(a: Tensor, b: Tensor) -> bool:
    if a.grid is None or b.grid is None or a.dtype != b.dtype:
        return False
    return bool(a.grid.scale[0] == b.grid.scale[0] and a.grid.zero_point[0] == b.grid.zero_point[0])
