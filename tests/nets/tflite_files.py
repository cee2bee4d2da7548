"""Small .tflite files, written by the tests themselves; and single operators cut out of larger ones.

net = Tflite(); x = net.tensor([1, 4], scale=0.1); y = net.tensor([1, 4], scale=0.1)
net.operator("RELU", [x], [y]); net.save(folder, [x], [y])
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mica.importer.tflite import schema
from mica.importer.tflite.model import Model
from mica.importer.tflite.operators import OPERATORS

TYPE = {name: code for code, name in schema.TYPES.items()}
CODE = {name: code for code, name in schema.OPERATORS.items()}
INTERMEDIATES = 8  # slot of an operator that LiteRT reads of an LSTM, mica does not
COMPOSITE_ATTRIBUTES = 2  # slot of a composite's options that LiteRT wants, mica does not
NOTHING = b"\0\0\1\0\0\x24\1"  # a flexbuffer that is a map of nothing
# Versions of operators: LiteRT takes the oldest that it knows, whatever the types.
OLDEST = {"BROADCAST_TO": 2}
SIZE = {"b": 1, "B": 1, "?": 1, "h": 2, "i": 4, "I": 4, "f": 4, "q": 8, "Q": 8}


class Table(dict[int, Any]):
    """Slot -> (format character, number), str, array, Table, or a list of them."""


def flatbuffer(root: Table) -> bytes:
    """The bytes of a file: parents before the tables that they refer to."""
    out = bytearray(8)
    out[4:8] = schema.IDENTIFIER
    todo: list[tuple[int, Any]] = [(0, root)]  # where a reference stands, what it refers to
    while todo:
        at, what = todo.pop(0)
        start = _append(out, what, todo)
        out[at : at + 4] = struct.pack("<I", start - at)
    return bytes(out)


def _align(out: bytearray, n: int, ahead: int = 0) -> None:
    out.extend(bytes(-(len(out) + ahead) % n))


def _append(out: bytearray, what: Any, todo: list[tuple[int, Any]]) -> int:
    if isinstance(what, Table):
        return _append_table(out, what, todo)
    if isinstance(what, str):
        _align(out, 4)
        start = len(out)
        out.extend(struct.pack("<I", len(what.encode())) + what.encode() + b"\0")
        return start
    if isinstance(what, list):
        _align(out, 4)
        start = len(out)
        out.extend(struct.pack("<I", len(what)))
        for k, item in enumerate(what):
            todo.append((start + 4 + 4 * k, item))
        out.extend(bytes(4 * len(what)))
        return start
    data = np.ascontiguousarray(what)
    _align(out, 16, 4)
    start = len(out)
    out.extend(struct.pack("<I", data.size) + data.tobytes())
    return start


def _append_table(out: bytearray, table: Table, todo: list[tuple[int, Any]]) -> int:
    places, size = {}, 4
    for slot, value in table.items():
        width = SIZE[value[0]] if isinstance(value, tuple) else 4
        size += -size % width
        places[slot], size = size, size + width
    slots = max(table, default=-1) + 1
    _align(out, 8, 4 + 2 * slots)
    vtable = len(out)
    out.extend(struct.pack(f"<HH{slots}H", 4 + 2 * slots, size, *(places.get(k, 0) for k in range(slots))))
    start = len(out)
    body = bytearray(size)
    struct.pack_into("<i", body, 0, start - vtable)
    for slot, value in table.items():
        if isinstance(value, tuple):
            struct.pack_into("<" + value[0], body, places[slot], value[1])
        else:
            todo.append((start + places[slot], value))
    out.extend(body)
    return start


@dataclass
class Tflite:
    """A file in the making. `tensor` and `constant` return numbers of tensors."""

    tensors: list[Table] = field(default_factory=list)
    buffers: list[np.ndarray] = field(default_factory=lambda: [np.zeros(0, np.uint8)])
    operators: list[Table] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    ends: tuple[Sequence[int], Sequence[int]] = ((), ())  # inputs and outputs of a graph that another one computes by

    def tensor(
        self,
        shape: Sequence[int],
        dtype: str = "int8",
        scale: float | Sequence[float] | np.ndarray | None = None,
        zero: int | Sequence[int] | np.ndarray = 0,
        axis: int = 0,
        name: str | None = None,
        variable: bool = False,
        data: np.ndarray | None = None,
        signature: Sequence[int] | None = None,
    ) -> int:
        s, q = schema.TENSOR, schema.QUANTIZATION
        buffer = 0
        if data is not None:
            buffer = len(self.buffers)
            self.buffers.append(np.ascontiguousarray(data).reshape(-1).view(np.uint8))
        t = Table(
            {
                s["shape"]: np.array(shape, np.int32),
                s["type"]: ("b", TYPE[dtype]),
                s["buffer"]: ("I", buffer),
                s["name"]: f"t{len(self.tensors)}" if name is None else name,
            }
        )
        if scale is not None:
            scales = np.atleast_1d(np.asarray(scale, np.float32))
            zeros = np.broadcast_to(np.asarray(zero, np.int64), scales.shape)
            t[s["quantization"]] = Table(
                {q["scale"]: scales, q["zero_point"]: zeros, q["quantized_dimension"]: ("i", axis)}
            )
        if signature is not None:
            t[s["shape_signature"]] = np.array(signature, np.int32)
        if variable:
            t[s["is_variable"]] = ("?", True)
        self.tensors.append(t)
        return len(self.tensors) - 1

    def constant(self, data: Any, scale: Any = None, zero: Any = 0, axis: int = 0, **more: Any) -> int:
        array = np.asarray(data)
        return self.tensor(array.shape, str(array.dtype), scale, zero, axis, data=array, **more)

    def operator(
        self,
        kind: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: str = "",
        values: Mapping[str, Any] | None = None,
        intermediates: Sequence[int] = (),
        table: tuple[int, Table] | None = None,
        graph: int | None = None,
    ) -> None:
        """options: of schema.OPTIONS, with their `values`; or the `table` itself, with its number in the union.
        graph: of a STABLEHLO_COMPOSITE."""
        s = schema.OPERATOR
        if kind not in self.kinds:
            self.kinds.append(kind)
        op = Table(
            {
                s["opcode_index"]: ("I", self.kinds.index(kind)),
                s["inputs"]: np.array(inputs, np.int32),
                s["outputs"]: np.array(outputs, np.int32),
            }
        )
        if intermediates:
            op[INTERMEDIATES] = np.array(intermediates, np.int32)
        if options:
            code, fields = schema.OPTIONS[options]
            op[s["builtin_options_type"]] = ("B", code)
            op[s["builtin_options"]] = Table(
                {fields[name][0]: (fields[name][1], value) for name, value in (values or {}).items()}
            )
        if table is not None:
            op[s["builtin_options_type"]] = ("B", table[0])
            op[s["builtin_options"]] = table[1]
        if graph is not None:
            c = schema.COMPOSITE
            op[s["builtin_options_2_type"]] = ("B", schema.COMPOSITE_OPTIONS)
            options = Table({c["name"]: "own", c["decomposition_subgraph_index"]: ("i", graph)})
            options[COMPOSITE_ATTRIBUTES] = np.frombuffer(NOTHING, np.uint8)
            op[s["builtin_options_2"]] = options
        self.operators.append(op)

    def graph(self) -> Tflite:
        """A second graph of the same file, for `bytes`."""
        return Tflite(buffers=self.buffers, kinds=self.kinds)

    def _table(self, inputs: Sequence[int], outputs: Sequence[int]) -> Table:
        g = schema.SUBGRAPH
        return Table(
            {
                g["tensors"]: list(self.tensors),
                g["inputs"]: np.array(inputs, np.int32),
                g["outputs"]: np.array(outputs, np.int32),
                g["operators"]: list(self.operators),
            }
        )

    def bytes(self, inputs: Sequence[int], outputs: Sequence[int], *others: Tflite) -> bytes:
        m, c = schema.MODEL, schema.OPERATOR_CODE
        codes = [
            Table(
                {
                    c["deprecated_builtin_code"]: ("b", min(CODE.get(kind, schema.CUSTOM), schema.PLACEHOLDER)),
                    c["version"]: ("i", OLDEST.get(kind, 1)),
                    c["builtin_code"]: ("i", CODE.get(kind, schema.CUSTOM)),
                    **({} if kind in CODE else {c["custom_code"]: kind}),
                }
            )
            for kind in self.kinds
        ]
        graphs = [self._table(inputs, outputs), *(other._table(*other.ends) for other in others)]
        buffers = [Table({schema.BUFFER["data"]: b} if b.size else {}) for b in self.buffers]
        root = {m["version"]: ("I", schema.VERSION), m["operator_codes"]: codes, m["subgraphs"]: graphs}
        return flatbuffer(Table({**root, m["buffers"]: buffers}))

    def save(self, folder: Path, inputs: Sequence[int], outputs: Sequence[int], name: str = "net.tflite") -> Path:
        path = folder / name
        path.write_bytes(self.bytes(inputs, outputs))
        return path


def cut_out(model: Model, first: int, last: int) -> tuple[bytes, list[int], list[int]]:
    """Operators first to last as a file of their own; the tensors that go in and come out, as the model counts them."""
    part, net, ids = model.operators[first : last + 1], Tflite(), {}
    for i in (i for op in part for i in (*op.inputs, *op.outputs)):
        if i >= 0 and i not in ids:
            t = model.tensors[i]
            grid = (None, 0, 0) if t.grid is None else (t.grid.scale, t.grid.zero_point, t.grid.axis)
            ids[i] = net.tensor(t.shape, t.dtype, *grid, name=t.name, variable=t.variable, data=t.data)
    for op in part:
        options = OPERATORS[op.kind].options if op.options is not None else ""
        fields = schema.OPTIONS[options][1] if options else {}
        values = {n: op.options.number(*place) for n, place in fields.items() if op.options is not None}
        net.operator(op.kind, [ids.get(i, -1) for i in op.inputs], [ids[i] for i in op.outputs], options, values)
    made = {i for op in part for i in op.outputs}
    read = list(dict.fromkeys(i for op in part for i in op.inputs if i >= 0))
    sources = [i for i in read if i not in made and model.tensors[i].data is None and not model.tensors[i].variable]
    results = [i for i in made if i not in read]
    return net.bytes([ids[i] for i in sources], [ids[i] for i in results]), sources, results
