"""Bytes of a .mica file <-> ModelFile. The layout comes from `schema`; this module holds no offset of its own.

`encode` lets `writer` lay the file out and ends by decoding it, so that it cannot write a file that the loader
refuses.  `decode` validates everything, as `usermod_c/runtime/load.c` does.
"""

import math
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from mica.file import check, order, tokens, writer
from mica.file.model_file import Array, FormatError, GoldenVector, ModelFile, StepRecord, TensorRecord
from mica.format import names, schema
from mica.format.records import DTYPE_NUMPY, NUMPY_TYPE, crc_of, field_offset, pack_record, unpack_record, with_crc
from mica.format.weights import LAYOUT_BY_CODE
from mica.kernels import IN_PLACE, KERNEL_BY_ID, KERNEL_BY_NAME
from mica.kernels.rules import ANY_LENGTH, Broken
from mica.kernels.scratch import scratch_min

_DTYPE_NAME = {v: k for k, v in schema.DTYPES.items()}
_SPACE_NAME = {v: k for k, v in schema.SPACES.items()}
_SECTION_NAME = {v: k for k, v in schema.SECTIONS.items()}
_DAMAGED = "the file is damaged or was made by another program: pack or copy it again"


def step_flags(step: StepRecord) -> int:
    """The flags that are true of a step's constants: FAST where the fast kernels may take it."""
    fast = KERNEL_BY_NAME[step.kernel].x_type == "int8" and check.fast_is_true(step.blobs)
    return schema.STEP_FLAGS["FAST"] if fast else 0


def encode(model: ModelFile) -> bytes:
    """Bytes of the file. Raises FormatError, naming tensor or step, where `decode` would refuse the result."""
    data = writer.write(model)
    try:
        decode(data)
    except FormatError as e:
        raise FormatError(e.found) from None  # what to do about a file that somebody else made is no help here
    return data


def without_golden(data: bytes) -> bytes:
    """Bytes of a file without its golden vectors, which are its last sections. Raises FormatError."""
    header = _whole(data)[1]
    _sections(data, header)
    at, size = header["header_bytes"], header["section_bytes"]
    rows = [data[at + i * size : at + (i + 1) * size] for i in range(header["n_sections"])]
    parsed = [unpack_record(schema.SECTION, row, 0) for row in rows]
    kept = len(rows)
    while kept and _SECTION_NAME.get(parsed[kept - 1]["kind"]) in ("GOLDEN", "LAYER_CRCS"):
        kept -= 1
    if kept == len(rows):
        return data
    out = bytearray(data[: parsed[kept]["offset"]])
    out[at + kept * size : at + len(rows) * size] = bytes((len(rows) - kept) * size)
    header |= {"n_sections": kept, "file_bytes": len(out)}
    out[: schema.record_bytes(schema.HEADER)] = pack_record(schema.HEADER, header)
    return with_crc(bytes(out))


def _bad(text: str, remedy: str = _DAMAGED) -> NoReturn:
    raise FormatError(text, todo=remedy)


@dataclass
class _Section:
    offset: int
    bytes: int
    record_bytes: int
    count: int


def _sections(data: bytes, header: dict[str, Any]) -> dict[str, _Section]:
    """The sections this reader knows, checked against each other and the file's length."""
    out: dict[str, _Section] = {}
    end = header["header_bytes"] + header["n_sections"] * header["section_bytes"]
    if end > header["file_bytes"]:
        _bad(f"byte {header['header_bytes']}: the section table ends at {end}, the file at {header['file_bytes']}")
    for i in range(header["n_sections"]):
        at = header["header_bytes"] + i * header["section_bytes"]
        s = unpack_record(schema.SECTION, data, at)
        name = _SECTION_NAME.get(s["kind"], "")
        what = f"byte {at}: section {i} ({name or 'unknown kind ' + str(s['kind'])})"
        if s["offset"] % schema.ALIGN:
            _bad(f"{what} begins at {s['offset']}, not on a multiple of {schema.ALIGN}")
        if s["offset"] < end:
            _bad(f"{what} begins at {s['offset']}, inside what stands before it, which ends at {end}")
        end = s["offset"] + s["bytes"]
        if end > header["file_bytes"]:
            _bad(f"{what} ends at {end}, the file at {header['file_bytes']}")
        if not name:
            continue
        if name in out:
            _bad(f"{what} stands in the file twice")
        if name in schema.TABLES:
            known = schema.record_bytes(schema.TABLES[name])
            if s["record_bytes"] < known:
                _bad(f"{what} has records of {s['record_bytes']} bytes; expected {known} or more")
            if s["record_bytes"] * s["count"] != s["bytes"]:
                _bad(f"{what} has {s['count']} records of {s['record_bytes']} bytes in {s['bytes']} bytes")
        out[name] = _Section(s["offset"], s["bytes"], s["record_bytes"], s["count"])
    if missing := [n for n in schema.REQUIRED_SECTIONS if n not in out]:
        _bad(f"section {missing[0]} is missing")
    return out


def decode(data: bytes) -> ModelFile:
    """A ModelFile from bytes. Raises FormatError, and nothing else, where they break a rule."""
    data, header = _whole(bytes(data))
    sections = _sections(data, header)
    return _Reader(data, header, sections).model()


def _whole(data: bytes) -> tuple[bytes, dict[str, Any]]:
    """A file without bytes behind its end, and its header. Raises FormatError for a file that is cut or damaged."""
    known = schema.record_bytes(schema.HEADER)
    if data[:4] != schema.MAGIC:
        _bad(f"byte 0: found {data[:4]!r}, expected {schema.MAGIC!r}", "this is not a .mica file")
    if len(data) < known:
        _bad(f"the file has {len(data)} bytes, its header {known}", "it was cut short: copy it again")
    h = unpack_record(schema.HEADER, data, 0)
    if h["version_major"] != schema.VERSION_MAJOR:
        _bad(
            f"byte 4: format version {h['version_major']}.{h['version_minor']}, expected {schema.VERSION_MAJOR}.x",
            "update mica, or pack the model again",
        )
    if h["header_bytes"] < known or h["section_bytes"] < schema.record_bytes(schema.SECTION):
        _bad(f"header of {h['header_bytes']} bytes, section records of {h['section_bytes']} bytes: too small")
    if h["file_bytes"] > len(data):
        _bad(f"the file has {len(data)} bytes and should have {h['file_bytes']}", "it was cut short: copy it again")
    if h["file_bytes"] < known:
        _bad(f"byte 8: a file of {h['file_bytes']} bytes has no room for its header")
    data = data[: h["file_bytes"]]
    if (crc := crc_of(data)) != h["crc32"]:
        _bad(f"the checksum is {crc:08x} and should be {h['crc32']:08x}", "the file is damaged: copy it again")
    if unknown := h["features"] & ~sum(schema.FEATURES.values()):
        _bad(f"the file needs features {unknown:#x} that this version lacks", "update mica, or pack the model again")
    for name in ("file_bytes", "arena_bytes", "scratch_min", "scratch_want", "state_bytes"):
        if h[name] > schema.MAX_BYTES:
            _bad(f"byte {field_offset(schema.HEADER, name)}: {name} is {h[name]}; the limit is {schema.MAX_BYTES}")
    if h["arena_bytes"] % schema.ALIGN:
        _bad(f"the arena of {h['arena_bytes']} bytes is no multiple of {schema.ALIGN}")
    return data, h


def _padded(size: int) -> int:
    """Bytes that an array of a golden vector takes."""
    return -(-size // 4) * 4


class _Reader:
    """Reads the tables of a file whose header and section table are sound."""

    def __init__(self, data: bytes, header: dict[str, Any], sections: dict[str, _Section]):
        self.data, self.header, self.sections = data, header, sections
        s = sections["DATA"]
        self.constants = data[s.offset : s.offset + s.bytes]
        s = sections["STRINGS"]
        self.strings = data[s.offset : s.offset + s.bytes]
        if not self.strings or self.strings[-1]:
            _bad("section STRINGS does not end in a zero")
        if (at := names.texts_fault(self.strings)) >= 0:
            _bad(f"byte {s.offset + at}: section STRINGS has control characters other than the line feed")
        arena = header["arena_bytes"]
        self.space_bytes = {"arena": arena, "rows": arena, "state": header["state_bytes"], "data": len(self.constants)}
        self.tensors: list[TensorRecord] = []

    def model(self) -> ModelFile:
        """Read and check everything."""
        for table, low, high in (
            ("TENSORS", 1, schema.MAX_TENSORS),
            ("STEPS", 0, schema.MAX_STEPS),
            ("IO", 0, schema.MAX_IO),
        ):
            if not low <= self.sections[table].count <= high:
                _bad(f"section {table} has {self.sections[table].count} records; expected {low} to {high}")
        for i, (at, r) in enumerate(self._records("TENSORS")):
            self.tensors.append(self._tensor(at, i, r))
        inputs, outputs = self._io()
        metadata: dict[str, str] = {}
        for at, r in self._records("METADATA"):
            key = self._name(r["key"], f"byte {at}, metadata key")
            metadata.setdefault(key, self._string(r["value"], f"byte {at}, metadata value"))
        strips = self._strips()
        inside = {i for s in strips for i in range(s.first, s.first + s.steps)}
        steps = [self._step(at, i, r, i in inside) for i, (at, r) in enumerate(self._records("STEPS"))]
        h = self.header
        try:
            fed = next((t for t in inputs if self.tensors[t].space == "rows"), None)
            order.check(strips, self.tensors, steps, h["arena_bytes"], fed)
        except Broken as e:
            _bad(str(e))
        model = ModelFile(
            tensors=self.tensors,
            steps=steps,
            inputs=inputs,
            outputs=outputs,
            metadata=metadata,
            strips=strips,
            arena_bytes=h["arena_bytes"],
            state_bytes=h["state_bytes"],
            features=h["features"],
            version=(h["version_major"], h["version_minor"]),
            data=self.constants,
            file_bytes=h["file_bytes"],
        )
        model.tokens = self._tokens(model)
        model.golden = self._golden(model)
        self._layer_crcs(model)
        if model.kernel_bits != h["kernels"]:
            _bad("the kernels in the header are not those of the steps")
        if (h["scratch_min"], h["scratch_want"]) != (model.scratch_min, model.scratch_want):
            _bad("the scratch sizes in the header are not the largest of the steps")
        return model

    def _strips(self) -> list[order.Strip]:
        if ("ORDER" in self.sections) != bool(self.header["features"] & schema.FEATURES["STRIPS"]):
            _bad("the section ORDER and the feature STRIPS go together")
        try:
            return order.from_records([r for _, r in self._records("ORDER")])
        except Broken as e:
            _bad(str(e))

    def _tokens(self, model: ModelFile) -> tokens.Tokens | None:
        s = self.sections.get("TOKENS")
        if (s is not None) != bool(self.header["features"] & schema.FEATURES["TOKENS"]):
            _bad("the section TOKENS and the feature TOKENS go together")
        if s is None:
            return None
        size = schema.record_bytes(schema.TOKENS)
        if s.bytes < size:
            _bad(f"section TOKENS has {s.bytes} bytes; expected {size} or more")
        kinds = [
            [(self.tensors[t].dtype, math.prod(self.tensors[t].dims)) for t in ids]
            for ids in (model.inputs, model.outputs)
        ]
        try:
            found = tokens.read(
                unpack_record(schema.TOKENS, self.data, s.offset), self.data[s.offset + size : s.offset + s.bytes]
            )
            tokens.check(found, *kinds)
        except Broken as e:
            _bad(f"section TOKENS: {e}")
        return found

    def _records(self, table: str) -> list[tuple[int, dict[str, Any]]]:
        if (s := self.sections.get(table)) is None:
            return []
        places = range(s.offset, s.offset + s.bytes, s.record_bytes)
        return [(at, unpack_record(schema.TABLES[table], self.data, at)) for at in places]

    def _bytes(self, offset: int, what: str) -> bytes:
        if offset >= len(self.strings):
            _bad(f"{what}: string at {offset} of {len(self.strings)}")
        return self.strings[offset : self.strings.index(b"\0", offset)]

    def _string(self, offset: int, what: str) -> str:
        return self._bytes(offset, what).decode(errors="replace")

    def _name(self, offset: int, what: str) -> str:
        name = self._bytes(offset, what)
        if fault := names.fault(name):
            _bad(f"{what}: its name {fault}")
        return name.decode(errors="replace")

    def _tensor(self, at: int, i: int, r: dict[str, Any]) -> TensorRecord:
        name = self._name(r["name"], f"byte {at}: tensor {i}")
        what = f"byte {at}: tensor {i} ({name})"
        if r["dtype"] not in _DTYPE_NAME or r["space"] not in _SPACE_NAME or r["rank"] > schema.MAX_RANK:
            _bad(f"{what} has unknown element type {r['dtype']}, space {r['space']} or rank {r['rank']}")
        dtype, space = _DTYPE_NAME[r["dtype"]], _SPACE_NAME[r["space"]]
        dims = r["dims"]
        if not all(1 <= d <= schema.MAX_DIM for d in dims) or any(d != 1 for d in dims[r["rank"] :]):
            _bad(
                f"{what} has dimensions {list(dims)}, rank {r['rank']}; expected 1 to {schema.MAX_DIM}, "
                "beyond the rank 1"
            )
        if not (math.isfinite(r["scale"]) and r["scale"] > 0):
            _bad(f"{what} has scale {r['scale']}; expected a finite positive number")
        low, high = (0, 0) if dtype == "float32" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        if not low <= r["zero_point"] <= high:
            _bad(f"{what} has zero point {r['zero_point']}; expected {low} to {high}")
        t = TensorRecord(name, dtype, dims[: r["rank"]], r["scale"], r["zero_point"], space, r["offset"])
        if t.bytes != r["bytes"]:
            _bad(f"{what} has shape {list(t.dims)}, which is {t.bytes} bytes, and says {r['bytes']}")
        if t.offset % schema.BLOB_ALIGN:
            _bad(f"{what} lies at {t.offset}; expected a multiple of {schema.BLOB_ALIGN}")
        if space == "rows" and not (order.is_image(t.dims) and "ORDER" in self.sections):
            _bad(f"{what} is kept by rows, has shape {list(t.dims)}; expected [1, H, W, C], and a section ORDER")
        # What is there of a tensor that is kept by rows, the calls of ORDER say.
        if t.offset + (0 if space == "rows" else t.bytes) > self.space_bytes[space]:
            _bad(f"{what} ends at {t.offset + t.bytes}, its space ({space}) at {self.space_bytes[space]}")
        if space == "data":
            t.values = np.frombuffer(self.constants, DTYPE_NUMPY[dtype], math.prod(t.dims), t.offset).reshape(t.dims)
        return t

    def _io(self) -> tuple[list[int], list[int]]:
        lists: tuple[list[int], list[int]] = ([], [])
        feeds, fed = bool(self.header["features"] & schema.FEATURES["FED"]), False
        for at, r in self._records("IO"):
            what = f"byte {at}: model input or output"
            if r["role"] > 1 or r["tensor"] >= len(self.tensors):
                _bad(f"{what} has role {r['role']} and tensor {r['tensor']} of {len(self.tensors)}")
            space = self.tensors[r["tensor"]].space
            if space == "data" or (space == "rows" and (r["role"] or not feeds or fed)):
                _bad(f"{what} is tensor {r['tensor']}, which is a constant, or kept by rows")
            fed = fed or space == "rows"
            if r["tensor"] in lists[r["role"]]:
                _bad(f"{what} names tensor {r['tensor']} twice")
            lists[r["role"]].append(r["tensor"])
        if feeds and not fed:
            _bad("the feature FED, and no input is fed")
        if not lists[0] or not lists[1]:
            _bad("the model has no input or no output")
        return lists

    def _ids(self, what: str, ids: tuple[int, ...], least: int, most: int) -> tuple[int, ...]:
        n = next((i for i in range(least, most) if ids[i] == schema.NO_TENSOR), most)
        if any(t >= len(self.tensors) for t in ids[:n]) or any(t != schema.NO_TENSOR for t in ids[n:]):
            number = f"{least} to {most}" if least < most else f"{least}"
            _bad(f"{what}: tensors {list(ids)}; expected {number} of {len(self.tensors)}")
        return ids[:n]

    def _step(self, at: int, i: int, r: dict[str, Any], strip: bool) -> StepRecord:
        name = self._name(r["name"], f"byte {at}: step {i}")
        what = f"byte {at}: step {i} ({name})"
        k = KERNEL_BY_ID.get(r["kernel"])
        if k is None:
            _bad(
                f"{what} needs kernel {r['kernel']}, which this version does not know",
                "update mica, or pack the model again",
            )
        what = f"{what}, {k.name}"
        layout = LAYOUT_BY_CODE.get(r["layout"])
        if layout is None or layout not in k.layouts:
            _bad(f"{what} has weight layout {r['layout']}, which this version does not know", "update mica")
        s = StepRecord(
            name,
            k.name,
            self._ids(f"{what}, inputs", r["inputs"], k.least_inputs, k.n_inputs),
            self._ids(f"{what}, outputs", r["outputs"], 1, 1),
            dict(zip(k.params, r["params"], strict=False)),
            layout=r["layout"],
            flags=r["flags"],
            scratch_min=r["scratch_min"],
            scratch_want=r["scratch_want"],
            macs=r["macs"],
        )
        x, y = [self.tensors[t] for t in s.inputs], self.tensors[s.outputs[0]]
        if y.space == "data":
            _bad(f"{what} writes tensor {s.outputs[0]}, which is a constant")
        for t, expected in (*zip(x, k.x_types, strict=False), (y, k.y_type)):
            if t.dtype != expected:
                _bad(f"{what}: {t.name} is {t.dtype}; expected {expected}")
        for t in x:
            share = t.space == y.space and t.offset < y.offset + y.bytes and y.offset < t.offset + t.bytes
            exactly = (t.offset, t.bytes, t.dtype) == (y.offset, y.bytes, y.dtype)
            if share and not strip and not (k.name in IN_PLACE and exactly):
                _bad(f"{what}: input {t.name} and output {y.name} share bytes")
        try:
            shapes = check.geometry(k.name, x, y, s.params)
            for b, (blob, kind) in enumerate(k.blobs):
                shape, weights = shapes[blob], blob == "weights"
                if weights:
                    shape = (layout.total(shape[0], math.prod(shape[1:])),)
                read = self._blob(f"{what}, {blob}", r["blobs"][2 * b : 2 * b + 2], kind, shape, weights)
                s.blobs[blob] = layout.read(read, shapes[blob]) if weights else read
            check.constants(k.name, x, y, s.params, s.blobs, s.flags)
        except Broken as e:
            _bad(f"{what}: {e}")
        need = scratch_min(k.name, y.dims[-1] if y.dims else 1, s.params)
        if s.scratch_min < need or s.scratch_want < s.scratch_min:
            _bad(f"{what}: scratch {s.scratch_min} to {s.scratch_want} bytes; expected {need} or more")
        return s

    def _blob(self, what: str, place: tuple[int, int], kind: str, shape: tuple[int, ...], weights: bool) -> Array:
        offset, size = place
        itemsize = np.dtype(NUMPY_TYPE[kind]).itemsize
        lengths = (1, -shape[0]) if shape[0] < 0 else (math.prod(shape),)
        known = not shape or shape[0] != ANY_LENGTH
        if size % itemsize or (known and size // itemsize not in lengths):
            _bad(f"{what} has {size} bytes; expected {' or '.join(str(n * itemsize) for n in lengths)}")
        align = schema.ALIGN if weights else schema.BLOB_ALIGN
        if offset % align:
            _bad(f"{what} lies at {offset} in DATA; expected a multiple of {align}")
        if offset + size > len(self.constants):
            _bad(f"{what} ends at {offset + size}, DATA at {len(self.constants)}")
        a = np.frombuffer(self.constants, NUMPY_TYPE[kind], size // itemsize, offset)
        return a if shape[0] < 0 else a.reshape(shape)

    def _golden(self, model: ModelFile) -> list[GoldenVector]:
        if (s := self.sections.get("GOLDEN")) is None:
            return []
        ids = [*model.inputs, *model.outputs]
        one = sum(_padded(self.tensors[t].bytes) for t in ids)
        if s.bytes % one:
            _bad(f"section GOLDEN has {s.bytes} bytes, which is no multiple of a vector's {one}")
        vectors = []
        at = s.offset
        for _ in range(s.bytes // one):
            arrays = []
            for t in ids:
                r = self.tensors[t]
                arrays.append(np.frombuffer(self.data, DTYPE_NUMPY[r.dtype], math.prod(r.dims), at).reshape(r.dims))
                at += _padded(r.bytes)
            vectors.append(GoldenVector(arrays[: len(model.inputs)], arrays[len(model.inputs) :]))
        return vectors

    def _layer_crcs(self, model: ModelFile) -> None:
        if (s := self.sections.get("LAYER_CRCS")) is None:
            return
        n = len(model.steps)
        if s.bytes != 4 * n * len(model.golden):
            _bad(f"section LAYER_CRCS has {s.bytes} bytes; {len(model.golden)} vectors of {n} steps take 4 each")
        for k, g in enumerate(model.golden):
            g.layer_crcs = np.frombuffer(self.data, "<u4", n, s.offset + 4 * n * k).tolist()
