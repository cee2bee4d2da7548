"""Damaged sections ORDER: the C loader and the host's check agree, nothing outside is read, and a file that loads runs.

The runs of driver.c, once in whole strips and once in ranges of rows, have to leave the same bytes.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import c_build
import numpy as np
import pytest
from test_corrupt import OK, build, compare, places, put
from usermod_models import by_rows, fed

from mica import engine
from mica.file import codec
from mica.file.codec import FormatError, ModelFile
from mica.file.order import Call, Strip
from mica.format import schema
from mica.reference.executor import ReferenceModel


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("driver")
    return [build(folder, b) for b in c_build.BUILDS]


@cache
def model(feeds: bool = False) -> ModelFile:
    """A model without vectors and labels, so that most of its file matters here. feeds: the picture comes by rows."""
    return replace(fed() if feeds else by_rows(), golden=[], metadata={})


def calls_changed(rng: random.Random, calls: list[Call]) -> list[Call]:
    """One to three calls changed, moved, dropped, doubled."""
    out = list(calls)
    for _ in range(rng.randint(1, 3)):
        i = rng.randrange(len(out))
        c = out[i]
        change: list[Callable[[], None]] = [
            lambda c=c, i=i: out.__setitem__(i, replace(c, step=rng.choice((0, 1, 2, 3, 4, schema.FEED, 65533)))),
            lambda c=c, i=i: out.__setitem__(i, replace(c, rows=rng.choice((0, 1, 2, 3, 7, 8, 65535)))),
            lambda c=c, i=i: out.__setitem__(i, replace(c, drop=rng.choice((0, 1, 2, 3, 4, 65535)))),
            lambda c=c, i=i: out.insert(rng.randrange(len(out) + 1), out.pop(i)),
            lambda c=c, i=i: out.insert(i, c),
            lambda c=c, i=i: out.__delitem__(i),
        ]
        rng.choice(change)()
        if not out:
            return list(calls)
    return out


def raw(m: ModelFile, good: bytes) -> bytes:
    """The file of a model that `encode` itself may refuse: a good one with its section ORDER replaced,
    checksum right."""
    section = _order(good)[0]
    records = b"".join(codec.pack_record(schema.ORDER, r) for r in codec.order.to_records(m.strips))
    size = len(records)
    if size > section[2]:  # no room: what does not fit is left out
        records = records[: section[2]]
        size = len(records)
    at, offset, _ = section
    changed = put(put(good, at + 8, "u32", size), at + 12, "u32", size // schema.record_bytes(schema.ORDER))
    return codec.with_crc(changed[:offset] + records + changed[offset + size :])


def _order(data: bytes) -> list[tuple[int, int, int]]:
    """(place of its record in the section table, offset, bytes) of ORDER."""
    h = codec.unpack_record(schema.HEADER, data, 0)
    found = []
    for i in range(h["n_sections"]):
        at = h["header_bytes"] + i * h["section_bytes"]
        s = codec.unpack_record(schema.SECTION, data, at)
        if s["kind"] == schema.SECTIONS["ORDER"]:
            found.append((at, s["offset"], s["bytes"]))
    return found


def damaged(seed: int, n: int) -> list[tuple[str, bytes]]:
    """n files whose ORDER is another, or whose tensors lie elsewhere; every second one is fed.
    (scripts/soak asks for many more.)"""
    return _damaged(seed, n // 2, False) + _damaged(seed, n - n // 2, True)


def _damaged(seed: int, n: int, feeds: bool) -> list[tuple[str, bytes]]:
    rng = random.Random(seed)
    files = []
    good = codec.encode(model(feeds))
    numbers = [
        (name, at, kind)
        for name, at, kind in places(good)
        if name.startswith("TENSORS") and (".dims" in name or ".offset" in name or ".space" in name)
    ]
    for i in range(n):
        m = copy.copy(model(feeds))
        strip = m.strips[0]
        first, steps = strip.first, strip.steps
        if rng.random() < 0.1:
            first, steps = rng.randrange(6), rng.randrange(7)
        m.strips = [Strip(first, steps, tuple(calls_changed(rng, list(strip.calls))))]
        if rng.random() < 0.1:
            m.strips = [*m.strips, Strip(rng.randrange(6), rng.randrange(3), ())]
        data = raw(m, good) if rng.random() < 0.8 else good
        if data is good or rng.random() < 0.3:
            _, at, kind = rng.choice(numbers)
            data = codec.with_crc(put(data, at, kind, rng.choice((0, 1, 2, 3, 4, 8, 16, 32, 64, 96, 160, 224, 255))))
        files.append((f"seed {seed}, file {i}{', fed' * feeds}", data))
    return files


@pytest.mark.parametrize("feeds", [False, True])
def test_fields_of_the_order_at_their_edges(driver: list[Path], feeds: bool) -> None:
    good = codec.encode(model(feeds))
    values = (0, 1, 2, 3, 4, 8, 255, 65534, 65535)
    files = [
        (f"{name} = {v}", codec.with_crc(put(good, at, kind, v)))
        for name, at, kind in places(good)
        if name.startswith("ORDER")
        for v in values
    ]
    files += [
        (f"features {v}", codec.with_crc(put(good, codec.field_offset(schema.HEADER, "features"), "u32", v)))
        for v in range(9)
    ]
    files += [
        (f"{name} = {v}", codec.with_crc(put(good, at, kind, v)))
        for name, at, kind in places(good)
        if name.startswith("IO") or (name.startswith("TENSORS") and ".space" in name)
        for v in (0, 1, 2, 3, 5)
    ]
    files += [
        (f"arena {v}", codec.with_crc(put(good, codec.field_offset(schema.HEADER, "arena_bytes"), "u32", v)))
        for v in range(0, 400, 16)
    ]
    statuses = compare(driver, files)
    assert len(statuses) >= 4 and statuses[OK] > 10


def test_damaged_orders(driver: list[Path]) -> None:
    statuses = compare(driver, damaged(1, 1000))
    assert statuses[OK] > 20, "some of them are sound"


def test_what_is_wrong_is_said() -> None:
    good = model()
    calls = good.strips[0].calls
    wrong = [
        ([Strip(0, 3, calls[1:])], "call 0 of the strip from step 0 on, step 0|reads rows"),
        ([Strip(0, 3, calls[:-1])], "3 of 4 rows of step 2"),
        ([Strip(0, 6, calls)], "the model has 5"),
        ([Strip(0, 3, calls), Strip(2, 1, ())], "behind step 3"),
        ([Strip(0, 4, calls)], "step 3 .fully_connected_s8. cannot be part of a strip"),
        ([Strip(0, 3, tuple(replace(c, drop=0) for c in calls))], "reads bytes|behind the arena"),
        ([Strip(0, 3, tuple(replace(c, drop=c.drop + 1) for c in calls))], "drops"),
    ]
    for strips, text in wrong:
        with pytest.raises(FormatError, match=text):
            codec.encode(replace(good, strips=strips))
    with pytest.raises(FormatError, match="kept by rows"):
        codec.encode(replace(good, strips=[]))


def oblong() -> ModelFile:
    """by_rows() with windows that are not square, along either axis: counts of rows and of columns differ."""
    m = model()
    rng = np.random.default_rng(3)
    tensors = [replace(t) for t in m.tensors]
    steps = [replace(s, params=dict(s.params), blobs=dict(s.blobs)) for s in m.steps]
    conv, dw, pool, dense, _ = steps
    conv.params |= {"kernel_w": 5, "pad_left": 2}
    conv.blobs["weights"] = rng.integers(-127, 128, (4, 3, 5, 1), dtype=np.int8)
    dw.params |= {"kernel_w": 5, "dilation_w": 2, "pad_left": 4}
    dw.blobs["weights"] = rng.integers(-127, 128, (4, 3, 5), dtype=np.int8)
    pool.params |= {"stride_w": 1}
    dense.blobs["weights"] = rng.integers(-127, 128, (10, 4 * 7 * 4), dtype=np.int8)
    for s in (conv, dw, dense):
        s.blobs["bias"], s.blobs["shift"] = s.blobs["bias"].copy(), s.blobs["shift"] + 1
    for s in steps[:4]:
        s.flags = codec.step_flags(s) if s.blobs else 0
    for t in tensors:
        t.dims = {"pool": (1, 4, 7, 4), "flat": (1, 112)}.get(t.name, t.dims)
        t.offset += 48 if t.name in ("logits", "probabilities") else 0
    return replace(m, tensors=tensors, steps=steps, arena_bytes=None)


def test_windows_that_are_not_square(driver: list[Path]) -> None:
    """Every build makes the rows that numpy makes of the whole pictures."""
    data = codec.encode(oblong())
    assert compare(driver, [("oblong", data)], share=1) == {OK: 1}
    native, reference = engine.load(data), ReferenceModel(data)
    for seed in range(5):
        x = np.random.default_rng(seed).integers(-128, 128, (1, 8, 8, 1), dtype=np.int8)
        for m in (native, reference):
            m.set_input(0, x)
            m.run()
        np.testing.assert_array_equal(native.output(0), reference.output(0))
