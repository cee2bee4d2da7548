"""The kernels that move elements, in damaged files: see test_corrupt.py, whose ways of damaging are used here."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from movement_model import movement_model
from test_corrupt import EDGES, OK, compare, driver, places, put  # noqa: F401 - driver is a fixture

from mica import engine
from mica.format import codec
from mica.reference.executor import ReferenceModel


@pytest.fixture(scope="module")
def good() -> bytes:
    return codec.encode(movement_model())


def test_runs_alike(good: bytes) -> None:
    """C and numpy, also where a tensor is a part of another that no step writes by itself."""
    assert engine.AVAILABLE
    native, reference = engine.load(good), ReferenceModel(good)
    file = codec.decode(good)
    rng = np.random.default_rng(5)
    for _ in range(10):
        inputs = [rng.integers(-9, 9, 3).astype(np.int32), rng.integers(-128, 128, (1, 4, 5, 2)).astype(np.int8)]
        for m in (native, reference):
            for i, x in enumerate(inputs):
                m.set_input(i, x)
        for i, s in enumerate(file.steps):
            native.run_step(i)
            reference.run_step(i)
            np.testing.assert_array_equal(native.tensor(s.outputs[0]), reference.tensor(s.outputs[0]), s.name)


def test_every_field_at_its_edges(driver: Path, good: bytes) -> None:  # noqa: F811
    files = [("good", good)]
    for name, at, kind in places(good):
        if not name.startswith(("STEPS", "TENSORS")):
            continue
        here = struct.unpack_from("<" + codec._STRUCT[kind], good, at)[0]
        values: set[float] = set(EDGES[kind])
        if kind != "f32":
            low, high = (
                (-(2**31), 2**31 - 1) if kind == "i32" else (0, 2 ** (8 * struct.calcsize(codec._STRUCT[kind])) - 1)
            )
            values |= {v for v in (here + d for d in (-16, -4, -1, 1, 4, 16)) if low <= v <= high}
        files += [(f"{name} = {v}", codec.with_crc(put(good, at, kind, v))) for v in values]
    assert compare(driver, files)[OK] >= 1


def test_constants_at_their_edges(driver: Path, good: bytes) -> None:  # noqa: F811
    """Maps, indices, positions and weights: each byte, and each aligned word, at the ends of its range."""
    files = []
    h = codec.unpack_record(codec.schema.HEADER, good, 0)
    data = codec._sections(good, h)["DATA"]
    for at in range(data.offset, data.offset + data.bytes):
        files += [
            (f"byte {at} = {v}", codec.with_crc(good[:at] + bytes([v]) + good[at + 1 :]))
            for v in (0, 1, 0x7F, 0x80, 0xFF)
        ]
    for at in range(data.offset, data.offset + data.bytes - 3, 4):
        files += [(f"word {at} = {v}", codec.with_crc(put(good, at, "u32", v))) for v in EDGES["u32"]]
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
