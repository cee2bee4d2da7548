"""Writes the sections of a .mica file, from a ModelFile. `codec.encode` reads the result again, as any loader does."""

import hashlib
import math
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from mica.file import order, tokens
from mica.file.model_file import Array, FormatError, ModelFile, StepRecord, TensorRecord
from mica.format import schema
from mica.format.records import DTYPE_NUMPY, NUMPY_TYPE, pack_record
from mica.format.schema import Field
from mica.format.weights import LAYOUT_BY_CODE, OFFSET_ROWS, PLAIN
from mica.kernels import KERNEL_BY_NAME


class _Strings:
    def __init__(self) -> None:
        self.data = bytearray(b"\0")
        self.at = {"": 0}

    def add(self, s: str) -> int:
        if "\0" in s:
            raise FormatError(f"a string with a zero byte cannot be stored: {s!r}")
        if s not in self.at:
            self.at[s] = len(self.data)
            self.data += s.encode() + b"\0"
        return self.at[s]


class _Data:
    """The DATA section: equal constants are stored once."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.at: dict[tuple[bytes, int], int] = {}
        self.shared: list[bytes] = []  # tables that are a step's weights as well: they lie where weights may

    def add(self, b: bytes, align: int) -> int:
        align = schema.ALIGN if b in self.shared else align
        key = (b if len(b) <= 64 else hashlib.blake2b(b).digest(), align)
        if key not in self.at:
            self.data += bytes(-len(self.data) % align)
            self.at[key] = len(self.data)
            self.data += b
        return self.at[key]


def _tables_of_heads(model: ModelFile) -> list[bytes]:
    """Tables of embeddings that are the weights of some step, byte for byte."""
    tables = [np.asarray(s.blobs["table"]) for s in model.steps if s.kernel == "embedding_s8"]
    found = []
    for s in model.steps if tables else ():
        weights = s.blobs.get("weights")
        if weights is None or s.layout != OFFSET_ROWS.code:
            continue
        for table in tables:
            if table.shape == weights.shape and table.dtype == weights.dtype == np.int8:
                b = OFFSET_ROWS.stored(weights.tobytes(), len(weights))
                if b == table.tobytes():
                    found.append(b)
    return found


def _stored(s: StepRecord, name: str, kind: str, what: str) -> bytes:
    """A constant as the file has it."""
    b = _array_bytes(s.blobs[name], NUMPY_TYPE[kind], f"{what}, {name}")
    if name == "weights":
        layout = LAYOUT_BY_CODE.get(s.layout, PLAIN)  # an unknown one is refused by decode
        if fault := layout.fault(s.blobs[name]):
            raise FormatError(f"{what}: {fault}")
        b = layout.stored(b, len(s.blobs[name]))
    return b


def _array_bytes(values: Array, dtype: str, what: str) -> bytes:
    """Values as little-endian bytes; refuses what would not survive."""
    a = np.asarray(values)
    with np.errstate(invalid="ignore"):  # casting NaN: the comparison sees it
        out = a.astype(dtype, order="C")
    if not np.array_equal(out, a):
        raise FormatError(f"{what}: values do not fit {np.dtype(dtype).name}")
    return out.tobytes()


def _fixed(values: tuple[int, ...], n: int, what: str) -> list[int]:
    if len(values) > n:
        raise FormatError(f"{what}: {len(values)} tensors; the format holds {n}")
    return list(values) + [schema.NO_TENSOR] * (n - len(values))


def _packed(what: str, fields: tuple[Field, ...], values: dict[str, Any]) -> bytes:
    try:
        return pack_record(fields, values)
    except (struct.error, OverflowError) as e:
        raise FormatError(f"{what}: a number does not fit its field ({e})") from None


class _Writer:
    """Makes the sections of one model. What comes before STRINGS and DATA in the table adds to these two."""

    def __init__(self, model: ModelFile) -> None:
        self.model = model
        self.strings = _Strings()
        self.constants = _Data()

    def tensors(self) -> bytes:
        return b"".join(self._tensor(f"tensor {i} ({t.name})", t) for i, t in enumerate(self.model.tensors))

    def _tensor(self, what: str, t: TensorRecord) -> bytes:
        if t.dtype not in schema.DTYPES or t.space not in schema.SPACES or len(t.dims) > schema.MAX_RANK:
            raise FormatError(
                f"{what}: dtype {t.dtype}, space {t.space} or rank {len(t.dims)} has no place in the format"
            )
        offset = t.offset
        if t.space == "data":
            if t.values is None or np.asarray(t.values).shape != tuple(t.dims):
                raise FormatError(f"{what}: a constant needs values of shape {list(t.dims)}")
            offset = self.constants.add(_array_bytes(t.values, DTYPE_NUMPY[t.dtype], what), schema.BLOB_ALIGN)
        values = {
            "name": self.strings.add(t.name),
            "dtype": schema.DTYPES[t.dtype],
            "rank": len(t.dims),
            "space": schema.SPACES[t.space],
            "reserved": 0,
            "dims": list(t.dims) + [1] * (schema.MAX_RANK - len(t.dims)),
            "scale": t.scale,
            "zero_point": t.zero_point,
            "offset": offset,
            "bytes": t.bytes,
        }
        return _packed(what, schema.TENSOR, values)

    def steps(self) -> bytes:
        self.constants.shared = _tables_of_heads(self.model)
        return b"".join(self._step(f"step {i} ({s.name})", s) for i, s in enumerate(self.model.steps))

    def _step(self, what: str, s: StepRecord) -> bytes:
        k = KERNEL_BY_NAME.get(s.kernel)
        if k is None:
            raise FormatError(f"{what}: no kernel is called {s.kernel}")
        if unknown := set(s.params) - set(k.params) | (set(s.blobs) ^ {name for name, _ in k.blobs}):
            raise FormatError(f"{what}: {s.kernel} has other parameters or constants: {', '.join(sorted(unknown))}")
        blobs: list[int] = []
        for name, kind in k.blobs:
            b = _stored(s, name, kind, what)
            blobs += [self.constants.add(b, schema.ALIGN if name == "weights" else schema.BLOB_ALIGN), len(b)]
        params = [int(s.params.get(name, 0)) for name in k.params]
        values = {
            "name": self.strings.add(s.name),
            "kernel": k.id,
            "layout": s.layout,
            "flags": s.flags,
            "inputs": _fixed(s.inputs, schema.MAX_INPUTS, what),
            "outputs": _fixed(s.outputs, schema.MAX_OUTPUTS, what),
            "scratch_min": s.scratch_min,
            "scratch_want": s.scratch_want,
            "macs": min(s.macs, 2**32 - 1),
            "blobs": blobs + [0] * (2 * schema.MAX_BLOBS - len(blobs)),
            "params": params + [0] * (schema.MAX_PARAMS - len(params)),
        }
        return _packed(what, schema.STEP, values)

    def io(self) -> bytes:
        return b"".join(
            _packed(f"model {what} {i}", schema.IO, {"tensor": t, "role": role})
            for role, (what, ids) in enumerate((("input", self.model.inputs), ("output", self.model.outputs)))
            for i, t in enumerate(ids)
        )

    def metadata(self) -> bytes:
        add = self.strings.add
        pairs = self.model.metadata.items()
        return b"".join(pack_record(schema.METADATA, {"key": add(k), "value": add(v)}) for k, v in pairs)

    def order(self) -> bytes:
        records = order.to_records(self.model.strips)
        return b"".join(_packed(f"record {i} of ORDER", schema.ORDER, r) for i, r in enumerate(records))

    def tokens(self) -> bytes:
        t = self.model.tokens
        return b"" if t is None else _packed("TOKENS", schema.TOKENS, tokens.head(t)) + tokens.tables(t)

    def golden(self) -> bytes:
        model, out = self.model, bytearray()
        if model.golden and not all(0 <= t < len(model.tensors) for t in (*model.inputs, *model.outputs)):
            raise FormatError(f"model inputs {model.inputs}, outputs {model.outputs}: {len(model.tensors)} tensors")
        for i, g in enumerate(model.golden):
            what = f"golden vector {i}"
            if len(g.inputs) != len(model.inputs) or len(g.outputs) != len(model.outputs):
                raise FormatError(f"{what}: expected {len(model.inputs)} inputs and {len(model.outputs)} outputs")
            for t, values in zip([*model.inputs, *model.outputs], [*g.inputs, *g.outputs], strict=True):
                r, size = model.tensors[t], np.asarray(values).size
                if size != math.prod(r.dims):
                    raise FormatError(f"{what}: {r.name} has {size} elements, not {list(r.dims)}")
                out += _array_bytes(values, DTYPE_NUMPY[r.dtype], what)
                out += bytes(-len(out) % 4)
        return bytes(out)

    def layer_crcs(self) -> bytes:
        crcs, n = [g.layer_crcs for g in self.model.golden], len(self.model.steps)
        if not any(crcs):
            return b""
        for i, found in enumerate(crcs):
            if len(found) != n:
                raise FormatError(f"golden vector {i}: {len(found)} checksums of layers", todo=f"expected {n}")
        return np.array(crcs, "<u4").tobytes()


# In the order of the file: tables, then constants, then golden vectors, which a tool may cut off to save flash.
_SECTIONS: dict[str, Callable[[_Writer], bytes | bytearray]] = {
    "TENSORS": _Writer.tensors,
    "STEPS": _Writer.steps,
    "IO": _Writer.io,
    "METADATA": _Writer.metadata,
    "STRINGS": lambda writer: writer.strings.data,
    "DATA": lambda writer: writer.constants.data,
    "ORDER": _Writer.order,
    "TOKENS": _Writer.tokens,
    "GOLDEN": _Writer.golden,
    "LAYER_CRCS": _Writer.layer_crcs,
}


def write(model: ModelFile) -> bytes:
    """Bytes of the file. Raises FormatError, naming tensor or step, if a field cannot hold its value."""
    writer = _Writer(model)
    contents = {name: make(writer) for name, make in _SECTIONS.items()}
    sections = {name: b for name, b in contents.items() if b or name in schema.REQUIRED_SECTIONS}
    end = schema.record_bytes(schema.HEADER) + len(sections) * schema.record_bytes(schema.SECTION)
    table: list[bytes] = []
    parts: list[bytes | bytearray] = []
    for name, content in sections.items():
        gap = -end % schema.ALIGN
        record = schema.record_bytes(schema.TABLES[name]) if name in schema.TABLES else 0
        values = {
            "kind": schema.SECTIONS[name],
            "record_bytes": record,
            "offset": end + gap,
            "bytes": len(content),
            "count": len(content) // record if record else 0,
        }
        table.append(pack_record(schema.SECTION, values))
        parts += [bytes(gap), content]
        end += gap + len(content)
    parts.append(bytes(-end % schema.ALIGN))
    header = _header(model, end + len(parts[-1]), len(sections))
    crc = 0
    for part in (_packed("header", schema.HEADER, header), *table, *parts):
        crc = zlib.crc32(part, crc)
    return b"".join((_packed("header", schema.HEADER, header | {"crc32": crc}), *table, *parts))


def _header(model: ModelFile, file_bytes: int, n_sections: int) -> dict[str, Any]:
    """The fields of the header, the checksum as zero."""
    ends = {
        space: max((t.offset + t.bytes for t in model.tensors if t.space == space), default=0)
        for space in ("arena", "state")  # a caller with a tensor in "rows" gives arena_bytes
    }
    arena = ends["arena"] if model.arena_bytes is None else model.arena_bytes
    return {
        "magic": schema.MAGIC,
        "version_major": schema.VERSION_MAJOR,
        "version_minor": schema.VERSION_MINOR,
        "file_bytes": file_bytes,
        "crc32": 0,
        "header_bytes": schema.record_bytes(schema.HEADER),
        "section_bytes": schema.record_bytes(schema.SECTION),
        "n_sections": n_sections,
        "reserved": 0,
        "features": model.features
        | (schema.FEATURES["STRIPS"] if model.strips else 0)
        | (schema.FEATURES["FED"] if model.fed is not None else 0)
        | (schema.FEATURES["TOKENS"] if model.tokens is not None else 0),
        "flags": 0,
        "kernels": model.kernel_bits,
        "arena_bytes": arena + -arena % schema.ALIGN,
        "scratch_min": model.scratch_min,
        "scratch_want": model.scratch_want,
        "state_bytes": ends["state"] if model.state_bytes is None else model.state_bytes,
    }
