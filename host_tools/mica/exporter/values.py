"""The value of the ONNX graph that holds the bytes of a tensor of the file.

A file's tensors are places in memory. A reshape is another tensor at the same place; a part of a concatenation lies
within the whole; int16 can be the bytes that were moved. If no step wrote a tensor under its own name, the value is put
together from the tensors that were written at its place.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper

from mica.exporter import byte_pairs
from mica.exporter.builder import Builder
from mica.file.codec import ModelFile, TensorRecord
from mica.format.schema import DTYPE_BYTES

_TYPE = {"int8": TensorProto.INT8, "int16": TensorProto.INT16, "int32": TensorProto.INT32, "float32": TensorProto.FLOAT}
Key = tuple[int, bool]  # tensor, whether as NCHW


class Values:
    def __init__(self, b: Builder, model: ModelFile) -> None:
        self.b, self.model = b, model
        self._integers: dict[Key, str] = {}
        self._real: dict[Key, str] = {}
        self._made_at: list[tuple[int, dict[Key, str], Key]] = []  # for `forget`
        self._written: list[int] = []  # tensors, in order
        self._inputs: list[onnx.ValueInfoProto] = []
        self._states: dict[int, str] = {}
        for t in model.inputs:
            record = model.tensors[t]
            name = b.fresh(record.name)
            kind = TensorProto.FLOAT if record.dtype == "int8" else _TYPE[record.dtype]
            self._inputs.append(helper.make_tensor_value_info(name, kind, record.dims))
            if record.dtype == "int8":
                name = b.node("QuantizeLinear", name, *self.grid(t), base=f"{name}.q")
            self.put(t, name)
        self._desired = [b.fresh(model.tensors[t].name) for t in model.outputs]

    def put(self, t: int, name: str, nchw: bool = False) -> None:
        """Tensor t was written: its value."""
        for known in (self._integers, self._real):
            for layout in (False, True):
                known.pop((t, layout), None)
        self._set(self._integers, (t, nchw), name)
        self._written = [*(k for k in self._written if k != t), t]

    def integers(self, t: int, nchw: bool = False) -> str:
        """The value that holds tensor t now; nchw: [1,C,H,W] of a tensor [1,H,W,C]."""
        if (t, nchw) not in self._integers:
            if (t, not nchw) in self._integers:
                perm = (0, 3, 1, 2) if nchw else (0, 2, 3, 1)
                name = self.b.node("Transpose", self._integers[t, not nchw], base=self._base(t), perm=perm)
            elif nchw:
                self.integers(t)
                return self.integers(t, nchw)
            else:
                name = self._put_together(t)
            if (t, nchw) not in self._integers:
                self._set(self._integers, (t, nchw), name)
        return self._integers[t, nchw]

    def real(self, t: int, nchw: bool = False) -> str:
        if (t, nchw) not in self._real:
            record = self.model.tensors[t]
            integers = self.integers(t, nchw)
            if record.dtype == "int8":
                name = self.b.node("DequantizeLinear", integers, *self.grid(t), base=f"{record.name}.real")
            else:
                name = self.b.node("Cast", integers, to=TensorProto.FLOAT, base=f"{record.name}.real")
            self._set(self._real, (t, nchw), name)
        return self._real[t, nchw]

    def as_nchw(self, *tensors: int) -> bool:
        """True if all of these are there as NCHW, so that an operator for any order needs no transposes."""
        return all((t, True) in self._integers for t in tensors)

    def forget(self, begun: int) -> None:
        """Forget as `Builder.forget` does: what was made by nodes from number `begun` on is gone."""
        for at, known, key in self._made_at:
            if at > begun:
                known.pop(key, None)
        self._made_at = [m for m in self._made_at if m[0] <= begun]

    def inputs(self) -> list[onnx.ValueInfoProto]:
        """Return those of the graph: the model's, then the states as they were."""
        states = [(self.model.tensors[t], name) for t, name in self._states.items()]
        return [*self._inputs, *(helper.make_tensor_value_info(n, _TYPE[s.dtype], s.dims) for s, n in states)]

    def outputs(self) -> list[onnx.ValueInfoProto]:
        """Return those of the graph: the model's, then the states as they are."""
        result = []
        for t, name in zip(self.model.outputs, self._desired, strict=True):
            record = self.model.tensors[t]
            real = record.dtype == "int8"
            self._named(self.real(t) if real else self.integers(t), name)
            kind = TensorProto.FLOAT if real else _TYPE[record.dtype]
            result.append(helper.make_tensor_value_info(name, kind, record.dims))
        for t in self._states:
            record = self.model.tensors[t]
            name = self.b.fresh(f"{record.name}.next")
            self._named(self.integers(t), name)
            result.append(helper.make_tensor_value_info(name, _TYPE[record.dtype], record.dims))
        return result

    def _named(self, value: str, name: str) -> None:
        """Gives a value the name of an output: to the node that makes it where nobody else reads it."""
        maker = next((n for n in self.b.nodes if value in n.output), None)
        if maker is not None and not any(value in n.input for n in self.b.nodes):
            maker.output[0] = name
            return
        self.b.nodes.append(helper.make_node("Identity", [value], [name], name=self.b.fresh_node(f"{name}/Identity")))

    def _set(self, known: dict[Key, str], key: Key, name: str) -> None:
        known[key] = name
        self._made_at.append((len(self.b.nodes), known, key))

    def _base(self, t: int) -> str:
        return f"{self.model.tensors[t].name}.q"

    def grid(self, t: int) -> tuple[str, str]:
        """Scale and zero point of tensor t. Each node has its own: ONNX Runtime's optimiser changes them in place."""
        r = self.model.tensors[t]
        scale = self.b.const(np.asarray(np.float32(r.scale)), f"{r.name}.scale", apart=True)
        return scale, self.b.const(np.asarray(np.int8(r.zero_point)), f"{r.name}.zero_point", apart=True)

    def _put_together(self, t: int) -> str:
        record = self.model.tensors[t]
        if record.values is not None:
            return self.b.const(np.asarray(record.values).reshape(record.dims), self._base(t))
        if t in self._states:
            return self._states[t]
        pieces = self._pieces(record)
        source = pieces[0][0] if len(pieces) == 1 else None
        if record.space == "state" and any(k is None for k, _, _ in pieces):
            name = self._states[t] = self.b.fresh(record.name)
            self._written = [t, *self._written]
            return name
        made = None if source is None else self.model.tensors[source]
        if source is not None and made is not None and (made.dims, made.dtype) == (record.dims, record.dtype):
            for layout in (False, True):
                if (source, layout) in self._integers:
                    self._set(self._integers, (t, layout), self._integers[source, layout])
            return self.integers(source)
        shape = self.b.const(np.array(record.dims, np.int64))
        flat = [self._flat(k, first, last, record) for k, first, last in pieces]
        if source is not None and made is not None and (made.bytes, made.dtype) == (record.bytes, record.dtype):
            return self.b.node("Reshape", self.integers(source), shape, base=self._base(t))
        whole = flat[0] if len(flat) == 1 else self.b.node("Concat", *flat, base=self._base(t), axis=0)
        return self.b.node("Reshape", whole, shape, base=self._base(t))

    def _pieces(self, t: TensorRecord) -> list[tuple[int | None, int, int]]:
        """(tensor, first element, element behind the last) of what lies in t's place, in order;
        None where nothing was written."""
        size = DTYPE_BYTES[t.dtype]
        left = [(t.offset, t.offset + t.bytes)]
        found: list[tuple[int, int, int | None]] = []  # begin, end, tensor
        for k in reversed(self._written):
            w = self.model.tensors[k]
            if w.space != t.space:
                continue
            rest = []
            for begin, end in left:
                low, high = max(begin, w.offset), min(end, w.offset + w.bytes)
                if low >= high:
                    rest.append((begin, end))
                    continue
                found.append((low, high, k))
                rest += [(a, b) for a, b in ((begin, low), (high, end)) if a < b]
            left = rest
        found += [(begin, end, None) for begin, end in left]
        offset = {k: self.model.tensors[k].offset if k is not None else 0 for _, _, k in found}
        return [
            (k, (begin - offset[k]) // size, (end - offset[k]) // size)
            for begin, end, k in sorted(found, key=lambda f: f[0])
        ]

    def _flat(self, k: int | None, first: int, last: int, t: TensorRecord) -> str:
        if k is None:
            return self.b.const(np.zeros(last - first, np.dtype(t.dtype)))
        name = self.b.node("Reshape", self.integers(k), self.b.const(np.array([-1], np.int64)), base=self._base(k))
        if self.model.tensors[k].dtype != t.dtype:
            view = byte_pairs.apart if t.dtype == "int8" else byte_pairs.joined
            name = view(self.b, name, self._base(k))
        if (first, last) != (0, self.model.tensors[k].bytes // DTYPE_BYTES[t.dtype]):
            ends = (self.b.const(np.array([v], np.int64)) for v in (first, last, 0))
            name = self.b.node("Slice", name, *ends, base=self._base(k))
        return name
