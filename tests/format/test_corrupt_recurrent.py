"""Transposed convolution and recurrent layers in damaged files; the ways of damaging are those of test_corrupt.py."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from recurrent_model import recurrent_model
from test_corrupt import EDGES, OK, compare, driver, places, put  # noqa: F401 - driver is a fixture

from mica import engine
from mica.format import codec
from mica.reference.executor import ReferenceModel


@pytest.fixture(scope="module")
def good() -> bytes:
    return codec.encode(recurrent_model())


def test_runs_alike(good: bytes) -> None:
    assert engine.AVAILABLE
    native, reference = engine.load(good), ReferenceModel(good)
    file = codec.decode(good)
    rng = np.random.default_rng(5)
    seen = set()
    for _ in range(10):
        inputs = [rng.integers(-128, 128, file.tensors[t].dims).astype(np.int8) for t in file.inputs]
        for m in (native, reference):
            for i, x in enumerate(inputs):
                m.set_input(i, x)
        for i, s in enumerate(file.steps):
            native.run_step(i)
            reference.run_step(i)
            np.testing.assert_array_equal(native.tensor(s.outputs[0]), reference.tensor(s.outputs[0]), s.name)
        seen.update(native.output(2).reshape(-1).tolist())
    assert len(seen) > 10


def test_every_field_at_its_edges(driver: Path, good: bytes) -> None:  # noqa: F811
    files = [("good", good)]
    for name, at, kind in places(good):
        if not name.startswith(("HEADER", "STEPS", "TENSORS")):
            continue
        here = struct.unpack_from("<" + codec._STRUCT[kind], good, at)[0]
        values: set[float] = set(EDGES[kind])
        if kind != "f32":
            unsigned = 0, 2 ** (8 * struct.calcsize(codec._STRUCT[kind])) - 1
            low, high = (-(2**31), 2**31 - 1) if kind == "i32" else unsigned
            values |= {v for v in (here + d for d in (-16, -4, -1, 1, 4, 16)) if low <= v <= high}
        files += [(f"{name} = {v}", codec.with_crc(put(good, at, kind, v))) for v in values]
    assert compare(driver, files)[OK] >= 1


def test_constants_at_their_edges(driver: Path, good: bytes) -> None:  # noqa: F811
    """Factors, shifts, biases, tables: aligned words at the ends of their range, some bytes too."""
    files = []
    h = codec.unpack_record(codec.schema.HEADER, good, 0)
    data = codec._sections(good, h)["DATA"]
    tables = ("gate", "candidate", "output")
    constants = [b for s in codec.decode(good).steps for n, b in s.blobs.items() if n not in tables]
    most = sum(b.nbytes + 16 for b in constants)  # behind them come the tables, which say little
    words = range(data.offset, data.offset + data.bytes - 3, 4)
    for k, at in enumerate(words):
        if k % (3 if 4 * k < most else 16):
            continue
        files += [(f"word {at} = {v}", codec.with_crc(put(good, at, "u32", v))) for v in EDGES["u32"]]
        files += [(f"byte {at} = {v}", codec.with_crc(good[:at] + bytes([v]) + good[at + 1 :])) for v in (0x7F, 0x80)]
    compare(driver, files)


def test_random_changes(driver: Path, good: bytes) -> None:  # noqa: F811
    rng = np.random.default_rng(2)
    fields = list(places(good))
    files = []
    for i in range(2000):
        data = bytearray(good)
        for _ in range(int(rng.integers(1, 4))):
            if rng.integers(2):
                bit = int(rng.integers(len(data) * 8))
                data[bit // 8] ^= 1 << bit % 8
            else:
                _, at, kind = fields[int(rng.integers(len(fields)))]
                raw = struct.pack("<" + codec._STRUCT[kind], type(EDGES[kind][0])(rng.choice(EDGES[kind])))
                data[at : at + len(raw)] = raw
        files.append((f"random {i}", codec.with_crc(bytes(data))))
    compare(driver, files)
