"""Models of every other kernel in damaged files, by the ways of damaging of test_corrupt.py."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from arithmetic_model import arithmetic_model
from attention_model import attention_model
from audio_model import audio_model
from axes_model import axes_model
from codes_model import codes_model
from movement_model import movement_model
from recurrent_model import recurrent_model
from tabular_model import tabular_model
from targets import sampled
from test_corrupt import EDGES, OK, compare, driver, places, put  # noqa: F401 - driver is a fixture
from vector_model import vector_model
from wide_model import wide_model

from mica import engine
from mica.file import codec
from mica.format import records
from mica.reference.executor import ReferenceModel

MODELS = {
    "arithmetic": arithmetic_model,
    "attention": attention_model,
    "movement": movement_model,
    "recurrent": recurrent_model,
    "tabular": tabular_model,
    "vectors": vector_model,
    "codes": codes_model,
    "audio": audio_model,
    "axes": axes_model,
    "wide": wide_model,
}
# Large, and a wrong entry of theirs is only a wrong number: one word in 16 of them is tried.
TABLES = ("gate", "candidate", "output", "window", "twiddles", "tables", "gains", "dct", "exponentials")


@pytest.fixture(scope="module", params=MODELS)
def good(request: pytest.FixtureRequest) -> bytes:
    return codec.encode(MODELS[request.param]())


def test_runs_alike(good: bytes) -> None:
    """C and numpy, on random inputs and on extremes; also where a tensor is a part that no step writes by itself."""
    assert engine.AVAILABLE
    native, reference = engine.load(good), ReferenceModel(good)
    file = codec.decode(good)
    rng = np.random.default_rng(5)
    seen: set[int] = set()
    for k in range(40):
        values = np.arange(-128, 128) if k % 2 else np.array([-128, 127])
        for i, t in enumerate(file.tensors[t] for t in file.inputs):
            x = rng.choice(values, t.dims).astype(np.int8)
            if t.dtype == "int32":
                x = rng.integers(-9, 9, t.dims).astype(np.int32)
            elif t.dtype == "float32":
                x = (4 * rng.standard_normal(t.dims)).astype(np.float32)
            elif t.dtype == "int16":
                x = (10.0 ** rng.uniform(0, 5) * rng.standard_normal(t.dims)).clip(-(2**15), 2**15 - 1).astype(np.int16)
            native.set_input(i, x)
            reference.set_input(i, x)
        for i, s in enumerate(file.steps):
            native.run_step(i)
            reference.run_step(i)
            np.testing.assert_array_equal(native.tensor(s.outputs[0]), reference.tensor(s.outputs[0]), s.name)
        for i in range(len(file.outputs)):
            seen.update(native.output(i).reshape(-1).tolist())
    assert len(seen) > 10


def test_every_field_at_its_edges(driver: list[Path], good: bytes) -> None:  # noqa: F811
    files = [("good", good)]
    for k, (name, at, kind) in enumerate(places(good)):
        if not name.startswith(("HEADER", "STEPS", "TENSORS")):
            continue
        here = struct.unpack_from("<" + records.STRUCT[kind], good, at)[0]
        values: list[float] = [*EDGES[kind]]
        if kind != "f32":
            unsigned = 0, 2 ** (8 * struct.calcsize(records.STRUCT[kind])) - 1
            low, high = (-(2**31), 2**31 - 1) if kind == "i32" else unsigned
            values += [v for v in (here + d for d in (-16, -4, -1, 1, 4, 16)) if low <= v <= high and v not in values]
        share = sampled(1, 6)
        files += [(f"{name} = {v}", codec.with_crc(put(good, at, kind, v))) for v in values[k % share :: share]]
    assert compare(driver, files)[OK] >= 1


def test_constants_at_their_edges(driver: list[Path], good: bytes) -> None:  # noqa: F811
    """Maps, indices, factors, biases, tables: words and bytes at the ends of their range; of a large model some."""
    h = codec.unpack_record(codec.schema.HEADER, good, 0)
    data = codec._sections(good, h)["DATA"]
    blobs = [(n, b.nbytes + 16) for s in codec.decode(good).steps for n, b in s.blobs.items()]
    front = sum(size for n, size in blobs if n not in TABLES)
    large = any(n in TABLES for n, _ in blobs)
    files = []
    for k, at in enumerate(range(data.offset, data.offset + data.bytes - 3, 4)):
        if k % ((3 if 4 * k < front else 16) if large else 1) or k // 16 % sampled(1, 6):
            continue
        files += [(f"word {at} = {v}", codec.with_crc(put(good, at, "u32", v))) for v in EDGES["u32"]]
        for byte in (at,) if large else range(at, at + 4):
            ends = (0x7F, 0x80) if large else (0, 1, 0x7F, 0x80, 0xFF)
            files += [(f"byte {byte} = {v}", codec.with_crc(good[:byte] + bytes([v]) + good[byte + 1 :])) for v in ends]
    compare(driver, files)


def test_random_changes(driver: list[Path], good: bytes) -> None:  # noqa: F811
    rng = np.random.default_rng(2)
    fields = list(places(good))
    files = []
    for i in range(sampled(2000, 200)):
        data = bytearray(good)
        for _ in range(int(rng.integers(1, 4))):
            if rng.integers(2):
                bit = int(rng.integers(len(data) * 8))
                data[bit // 8] ^= 1 << bit % 8
            else:
                _, at, kind = fields[int(rng.integers(len(fields)))]
                raw = struct.pack("<" + records.STRUCT[kind], type(EDGES[kind][0])(rng.choice(EDGES[kind])))
                data[at : at + len(raw)] = raw
        files.append((f"random {i}", codec.with_crc(bytes(data))))
    compare(driver, files)
