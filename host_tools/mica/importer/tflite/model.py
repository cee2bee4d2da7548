"""A .tflite file as tensors and operators, validated: shapes, types, lengths of constants, scales, who makes what."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from mica.importer.tflite import schema
from mica.importer.tflite.flatbuffer import Damaged, Flat, NotForUs, Table

# Far above any network for a microcontroller; they bound what a damaged file can cost.
MOST_OPERATORS = 4096
MOST_TENSORS = 32768
MOST_ELEMENTS = 1 << 24  # of a tensor that is no constant
MOST_RANK = 8
LARGEST_SCALE = 1e9  # what it stands for, and sums of products of it, are far from float32's end
MOST_ENDS = 1024  # inputs, or outputs, of one operator or of the graph
MOST_ONCE = 4  # graphs that run once, before the first run
MOST_SHARING = 8  # times the file's length: what all constants may take together; tensors may share a buffer


@dataclass(frozen=True)
class Grid:
    """real = scale * (integer - zero_point): float64 and int64 [1], or one for each index along `axis`."""

    scale: np.ndarray
    zero_point: np.ndarray
    axis: int


@dataclass(frozen=True)
class Tensor:
    """`data` is a constant's array, in the file's own type; int4 is int8 here.
    signature: its shape, -1 where that is open."""

    index: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    data: np.ndarray | None
    grid: Grid | None
    variable: bool
    signature: tuple[int, ...] = ()


@dataclass(frozen=True)
class Operator:
    """Inputs and outputs are numbers of tensors, -1 where an input is absent."""

    index: int
    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options_type: int
    options: Table | None
    custom: bytes = b""  # options of an operator that TensorFlow Lite itself has not: a flexbuffer
    graph: int = 0  # of the file, which computes what a STABLEHLO_COMPOSITE does


@dataclass(frozen=True)
class Model:
    """A graph of a file, operators in order of execution. once: the graphs that its CALL_ONCE run before its first run.

    parts: the graphs of its STABLEHLO_COMPOSITE, by their number in the file; loops: those of its WHILE.
    """

    tensors: list[Tensor]
    operators: list[Operator]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    once: tuple[Model, ...] = ()
    parts: Mapping[int, Model] = field(default_factory=dict)
    loops: Mapping[int, Model] = field(default_factory=dict)


def read(path: Path) -> Model:
    """Raises Damaged where the file contradicts itself, NotForUs, OSError where it cannot be read."""
    data = path.read_bytes()
    if data[4:8] != schema.IDENTIFIER:
        raise Damaged("it does not begin as a TensorFlow Lite file")
    return _Reader(data).model()


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.root = Flat(data).root()

    def model(self) -> Model:
        s = schema.MODEL
        version = self.root.integer(s["version"], "I")
        if version != schema.VERSION:
            raise Damaged(f"version {version} of the format; mica reads {schema.VERSION}")
        self.kinds = [_kind(t) for t in self.root.tables(s["operator_codes"], MOST_OPERATORS, "operator codes")]
        self.buffers = self.root.tables(s["buffers"], 4 * MOST_TENSORS, "buffers")
        graphs = self.root.tables(s["subgraphs"], MOST_OPERATORS, "subgraphs")
        if not graphs:
            raise Damaged("it holds no graph")
        model = self._graph(graphs[0])
        calls = [op for op in model.operators if op.kind == "CALL_ONCE"]
        if len(calls) > MOST_ONCE:
            raise Damaged(f"{len(calls)} operators CALL_ONCE; mica reads up to {MOST_ONCE}")
        once = []
        for op in calls:
            index = op.options.integer(schema.CALL_ONCE["init_subgraph_index"], "i") if op.options else 0
            if not 0 < index < len(graphs):
                raise Damaged(f"operator {op.index} (CALL_ONCE) runs graph {index} of {len(graphs)}")
            once.append(self._graph(graphs[index]))
        loops: dict[int, Model] = {}
        for op in model.operators:
            for slot, _, _ in schema.OPTIONS["WhileOptions"][1].values() if op.kind == "WHILE" and op.options else ():
                index = op.options.integer(slot, "i") if op.options else 0
                if not 0 < index < len(graphs):
                    raise Damaged(f"operator {op.index} (WHILE) runs graph {index} of {len(graphs)}")
                loops[index] = loops.get(index) or self._graph(graphs[index])
        self._check_sharing([t for part in (model, *loops.values()) for t in part.tensors])
        return replace(model, once=tuple(once), parts=self._parts(model, graphs), loops=loops)

    def _parts(self, model: Model, graphs: Sequence[Table]) -> dict[int, Model]:
        """The graphs that composites name, also inside of each other."""
        found: dict[int, Model] = {}
        todo, tensors = list(model.operators), list(model.tensors)
        while todo:
            op = todo.pop()
            if op.kind != schema.COMPOSITE_KIND or op.graph in found:
                continue
            if not 0 < op.graph < len(graphs):
                raise Damaged(f"operator {op.index} ({op.kind}) is computed by graph {op.graph} of {len(graphs)}")
            found[op.graph] = part = self._graph(graphs[op.graph])
            todo += part.operators
            tensors += part.tensors
            if len(tensors) > MOST_TENSORS or len(todo) > MOST_OPERATORS:
                raise Damaged("the graphs of its composites are many times larger than a network for a board")
            self._check_sharing(tensors)
        return found

    def _check_sharing(self, tensors: Sequence[Tensor]) -> None:
        if sum(t.data.nbytes for t in tensors if t.data is not None) > MOST_SHARING * len(self.data):
            raise Damaged("its constants take many times more than the file holds")

    def _graph(self, table: Table) -> Model:
        g = schema.SUBGRAPH
        tables = table.tables(g["tensors"], MOST_TENSORS, "tensors")
        tensors = [self._tensor(k, t) for k, t in enumerate(tables)]
        self._check_sharing(tensors)
        operators = [
            _operator(k, t, self.kinds) for k, t in enumerate(table.tables(g["operators"], MOST_OPERATORS, "operators"))
        ]
        inputs, outputs = (
            tuple(int(i) for i in table.numbers(g[role], "i", MOST_ENDS)) for role in ("inputs", "outputs")
        )
        model = Model(tensors, operators, inputs, outputs)
        _check_order(model)
        return model

    def _tensor(self, index: int, t: Table) -> Tensor:
        s = schema.TENSOR
        name = t.text(s["name"])
        where = f"tensor {index} '{name}'" if name else f"tensor {index}"
        code = t.integer(s["type"], "b")
        if code not in schema.TYPES:
            raise Damaged(f"{where} is of the type {code}, which mica does not know")
        dtype = schema.TYPES[code]
        shape = tuple(int(d) for d in t.numbers(s["shape"], "i", MOST_RANK))
        if min(shape, default=1) < 0:
            raise Damaged(f"{where} has the shape {list(shape)}")
        if t.place(s["sparsity"]):
            raise Damaged(f"{where} is sparse; convert the model without sparsity")
        data = self._constant(where, t.integer(s["buffer"], "I"), dtype, shape)
        if data is None and math.prod(shape) > MOST_ELEMENTS:
            raise Damaged(f"{where} has {math.prod(shape)} elements; mica takes up to {MOST_ELEMENTS}")
        grid = _grid(where, t.table(s["quantization"]), dtype, shape, data is not None)
        signature = tuple(int(d) for d in t.numbers(s["shape_signature"], "i", MOST_RANK))
        return Tensor(index, name, shape, dtype, data, grid, bool(t.number(s["is_variable"], "?")), signature)

    def _constant(self, where: str, index: int, dtype: str, shape: tuple[int, ...]) -> np.ndarray | None:
        """Values of a buffer; None if it is empty, because the tensor is computed or has no elements."""
        if index >= len(self.buffers):
            raise Damaged(f"{where} is in buffer {index} of {len(self.buffers)}")
        s = schema.BUFFER
        raw = self.buffers[index].numbers(s["data"], "B")
        offset, size = (self.buffers[index].integer(s[end], "Q") for end in ("offset", "size"))
        if offset > 1:  # of files of more than 2 GB: behind the flatbuffer
            if offset + size > len(self.data):
                raise Damaged(f"{where} lies behind the end of the file")
            raw = np.frombuffer(self.data, np.uint8, size, offset)
        if not raw.size:
            return None
        elements = math.prod(shape)
        if dtype == "int4":
            expected = (elements + 1) // 2
        elif dtype in ("string", "resource", "variant", "complex64", "complex128", "bfloat16"):
            remedy = "; convert the model behind what makes numbers of texts" if dtype == "string" else ""
            raise NotForUs(f"{where} is a constant of the type {dtype}{remedy}")
        else:
            expected = elements * np.dtype(dtype).itemsize
        if raw.size != expected:
            raise Damaged(f"{where} holds {raw.size} bytes; {dtype} {list(shape)} takes {expected}")
        if dtype == "int4":
            halves = np.stack([raw << 4, raw & 0xF0], axis=1).reshape(-1).view(np.int8) >> 4
            return halves[:elements].reshape(shape)
        array = raw.view(np.dtype(dtype).newbyteorder("<")).reshape(shape)
        if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
            raise Damaged(f"{where} holds NaN or infinity")
        return array


def _kind(t: Table) -> str:
    """The name of an operator code."""
    s = schema.OPERATOR_CODE
    code = max(t.integer(s["deprecated_builtin_code"], "b"), t.integer(s["builtin_code"], "i"))
    if code == schema.CUSTOM:
        return t.text(s["custom_code"]) or "CUSTOM"
    return schema.OPERATORS.get(code, f"operator code {code}")


def _operator(index: int, t: Table, kinds: list[str]) -> Operator:
    s = schema.OPERATOR
    code = t.integer(s["opcode_index"], "I")
    if code >= len(kinds):
        raise Damaged(f"operator {index} has the operator code {code} of {len(kinds)}")
    if kinds[code] in schema.COMPILED:
        by = schema.COMPILED[kinds[code]]
        raise NotForUs(f"operator {index} ({kinds[code]}) was compiled by {by}; pack the file from before that")
    inputs, outputs = (tuple(int(i) for i in t.numbers(s[role], "i", MOST_ENDS)) for role in ("inputs", "outputs"))
    options_type = t.integer(s["builtin_options_type"], "B")
    custom = t.numbers(s["custom_options"], "B").tobytes()
    more, graph = t.table(s["builtin_options_2"]), 0
    if more is not None and t.integer(s["builtin_options_2_type"], "B") == schema.COMPOSITE_OPTIONS:
        graph = more.integer(schema.COMPOSITE["decomposition_subgraph_index"], "i")
    return Operator(index, kinds[code], inputs, outputs, options_type, t.table(s["builtin_options"]), custom, graph)


def _grid(where: str, t: Table | None, dtype: str, shape: tuple[int, ...], constant: bool) -> Grid | None:
    """Scales of a tensor of integers; None where it has none."""
    if t is None or dtype not in ("int4", "int8", "uint8", "int16", "int32", "int64"):
        return None
    s = schema.QUANTIZATION
    most = max(shape, default=1) if constant else 1
    scale = t.numbers(s["scale"], "f", max(most, 1)).astype(np.float64)
    zero = t.numbers(s["zero_point"], "q", max(most, 1)).astype(np.int64)
    if not scale.size:
        return None
    if dtype in ("int32", "int64") and not np.all(scale > 0):
        return None  # plain integers
    known = (scale > 0) & (scale <= LARGEST_SCALE)
    if not np.all(known):
        raise Damaged(f"{where} has the scale {scale[~known][0]:g}")
    if zero.size not in (0, 1, scale.size):
        raise Damaged(f"{where} has {scale.size} scales and {zero.size} zero points")
    zero = np.broadcast_to(zero if zero.size else np.zeros(1, np.int64), scale.shape)
    axis = t.integer(s["quantized_dimension"], "i") if scale.size > 1 and len(shape) > 1 else 0
    if scale.size > 1 and not (0 <= axis < len(shape) and shape[axis] == scale.size):
        raise Damaged(f"{where} has {scale.size} scales along dimension {axis} of {list(shape)}")
    limits = np.iinfo("int8" if dtype == "int4" else dtype)
    if zero.min() < limits.min or zero.max() > limits.max:
        raise Damaged(f"{where} has a zero point that {dtype} cannot hold")
    return Grid(scale, zero, axis)


def _check_order(model: Model) -> None:
    """Each tensor has one source, and is there before it is read."""
    n = len(model.tensors)
    known = {k for k, t in enumerate(model.tensors) if t.data is not None or t.variable}
    for i in model.inputs:
        if not 0 <= i < n:
            raise Damaged(f"its input is tensor {i} of {n}")
        if i in known:
            raise Damaged(f"its input, tensor {i}, has another source")
        known.add(i)
    for op in model.operators:
        where = f"operator {op.index} ({op.kind})"
        for i in op.inputs:
            if i != -1 and (not -1 <= i < n or not (i in known or math.prod(model.tensors[i].shape) == 0)):
                raise Damaged(f"{where} reads tensor {i}, which nothing has made")
        for i in op.outputs:
            if not 0 <= i < n or i in known:
                raise Damaged(f"{where} makes tensor {i}, which " + ("is there already" if i in known else "is none"))
            known.add(i)
    for i in model.outputs:
        if not 0 <= i < n or i not in known:
            raise Damaged(f"its output, tensor {i}, is made by no operator")
