"""Kernels of networks in MicroPython give the host's bytes and refuse steps that would fail; others are named."""

from __future__ import annotations

import re
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import usermod_models
from models import MODELS
from odd_firmware import odd_settings

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "kernels"))
from case import Case
from cases import CASES
from one_step import model_of
from test_corrupt import EDGES, places

from mica.boards import load_board
from mica.cli.verify import inputs_for
from mica.file import codec
from mica.file.codec import ModelFile
from mica.format import records, schema
from mica.kernels import FAMILIES, KERNEL_BY_NAME
from mica.link.board import BoardError, Link
from mica.link.unix_board import UnixBoard
from mica.resources import data_dir
from mica.run.host import HostRunner
from mica.toolchain.build import build

BATCH = 64 << 10  # bytes that go to the board at a time
RUN = """
import gc
import mica
from binascii import crc32
def parts(data):
    at = 0
    while at < len(data):
        n = int.from_bytes(data[at : at + 4], "little")
        yield data[at + 4 : at + 4 + n]
        at += 4 + n
def run(data):
    at = parts(memoryview(data))
    for file in at:
        m = mica.Model(file)
        assert [l.runs_in for l in m.layers] == ["Python"], m.layers
        for i in range(len(m.input_shape)):
            m._m.write(i, mica.Quantised(next(at)))
        m.run()
        print(crc32(m.output(0)))
"""


@pytest.fixture(scope="module")
def board_of_module() -> Iterator[Link]:
    """MicroPython on this computer with a firmware that has no kernel in C at all."""
    facts = load_board("UNIX")
    with odd_settings() as settings:
        image = build(facts, **settings).image
    with UnixBoard(facts, image) as board:
        yield board


@pytest.fixture
def bare_board(board_of_module: Link) -> Link:
    """With an empty heap."""
    board_of_module.soft_reset()
    return board_of_module


def _framed(parts: list[bytes]) -> bytes:
    return b"".join(struct.pack("<I", len(p)) + p for p in parts)


def _batches(cases: list[Case]) -> Iterator[list[Case]]:
    """Some cases at a time, so that neither board nor wire has to hold all of them."""
    batch: list[Case] = []
    for c in cases:
        batch.append(c)
        if sum(x.nbytes for c in batch for x in [*c.xs, *c.blobs.values()]) > BATCH:
            yield batch
            batch = []
    yield batch


def _check(board: Link, cases: list[Case]) -> None:
    board.exec(RUN)
    for batch in _batches(cases):
        parts, expected = [], []
        for c in batch:
            parts += [codec.encode(model_of(c)), *(np.ascontiguousarray(x).tobytes() for x in c.xs)]
            expected.append(
                zlib.crc32(np.ascontiguousarray(KERNEL_BY_NAME[c.kernel].oracle(c.xs, c.blobs, c.p, c.q)).tobytes())
            )
        board.put(_framed(parts), "data")
        found = [int(line) for line in board.exec("run(data)", timeout=60).split()]
        assert len(found) == len(batch)
        wrong = [c.name for c, a, b in zip(batch, found, expected, strict=True) if a != b]
        assert not wrong


IN_PYTHON = {
    k.name
    for family, rows in FAMILIES.items()
    for k in rows
    if (data_dir("firmware") / "mica" / "fallback" / f"{family}.py").exists()
}
NETWORKS = [make for make in MODELS if {s.kernel for s in make().steps} <= IN_PYTHON]


@pytest.mark.parametrize("kernel", sorted(IN_PYTHON))
def test_equals_oracle(kernel: str, bare_board: Link) -> None:
    """All cases that the C kernel is tested with, but for the largest."""
    cases = [c for c in CASES if c.kernel == kernel and sum(x.size for x in c.xs) + np.prod(c.q.dims) < 20000]
    assert cases
    _check(bare_board, cases)


@pytest.mark.parametrize("make", NETWORKS, ids=lambda m: m.__name__)
def test_models(make: Callable[[], ModelFile], bare_board: Link) -> None:
    """Whole models, layer by layer: in place, states that live on, shapes of one tensor,
    outputs at the end of the run."""
    data = codec.encode(make())
    bare_board.put(data, "data")
    bare_board.exec("from mica import Model, remote\nremote.model = Model(data)")
    with HostRunner(data) as host:
        for inputs in inputs_for(host, None, 3):
            for i, x in enumerate(inputs):
                bare_board.put(np.ascontiguousarray(x).tobytes(), f"x{i}")
            args = ", ".join(f"x{i}" for i in range(len(inputs)))
            lines = bare_board.exec(f"remote.layer_hashes({args})").decode().splitlines()
            assert [int(line.split()[2], 16) for line in lines] == host.layer_hashes(inputs)


DAMAGE = """
from struct import pack_into, unpack_from
def damage(file, patches):
    changed = bytearray(file)
    for at in range(0, len(patches), 9):
        kind, where, value = unpack_from("<BII", patches, at)
        n = (1, 2, 4)[kind]
        changed[where : where + n] = value.to_bytes(4, "little")[:n]
        changed[12:16] = bytes(4)
        changed[12:16] = crc32(changed).to_bytes(4, "little")
        try:
            m = mica.Model(bytes(changed))
        except (ValueError, MemoryError):
            print("refused")
        else:
            m.run()
            print("ran")
        changed[where : where + n] = file[where : where + n]
"""
SIZES = {"u8": 0, "i8": 0, "u16": 1, "u32": 2, "i32": 2}
# What keeps sums inside 32 bits, claims of that, and what words of weights want: not for integers and bytes in Python.
EXPECTED_REFUSALS = ("can reach", "FAST", "expected a multiple of 16", "scratch")
DAMAGED = 800  # files made of each model


@pytest.mark.parametrize("make", NETWORKS, ids=lambda m: m.__name__)
def test_damaged_models(make: Callable[[], ModelFile], bare_board: Link) -> None:
    """A file that loads runs without an exception. The host refuses more files only for bounds of sums and scratch."""
    good = codec.encode(make())
    h = codec.unpack_record(schema.HEADER, good, 0)
    sections = codec._sections(good, h)
    patches = []
    for name, at, kind in places(good):
        if name.startswith("STEPS"):
            here = struct.unpack_from("<" + records.STRUCT[kind], good, at)[0]
            wild = [v % 2**32 for v in EDGES[kind]] + [(here + d) % 2**32 for d in (-1, 1, 2, 4)]
            patches += [(SIZES[kind], at, v) for v in wild]
    data = sections["DATA"]
    rng = np.random.default_rng(4)
    patches = [patches[i] for i in rng.permutation(len(patches))[: DAMAGED - 100]]
    for at in rng.integers(data.offset, data.offset + data.bytes, 100):
        patches.append((0, int(at), int(rng.choice([0, 1, 31, 32, 127, 128, 255]))))
    bare_board.exec(RUN + DAMAGE)
    bare_board.put(good, "good")
    bare_board.put(b"".join(struct.pack("<BII", *p) for p in patches), "patches")
    found = bare_board.exec("damage(good, patches)", timeout=120).decode().split()
    assert len(found) == len(patches)
    more, wrong = 0, []
    for (size, at, value), verdict in zip(patches, found, strict=True):
        n = 1 << size
        changed = good[:at] + value.to_bytes(4, "little")[:n] + good[at + n :]
        try:
            codec.decode(codec.with_crc(changed))
            reason = ""
        except codec.FormatError as e:
            reason = str(e)
        if verdict == "refused":
            assert reason, f"byte {at} = {value}: the fallback refuses what the host takes"
        elif reason:
            more += 1
            if not any(text in reason for text in EXPECTED_REFUSALS):
                wrong.append(f"byte {at} = {value}: {reason}")
    print(f"{len(patches)} files: {found.count('ran')} ran, {more} of them beyond the bounds of 32 bits")
    assert not wrong, "the fallback takes what the host refuses"
    assert found.count("ran") > 20


def test_pictures_without_their_code(board_of_module: Link) -> None:
    """A firmware for models without pictures has no _mica.see, and says so."""
    board_of_module.put(usermod_models.build()["seen"], "model")
    board_of_module.exec("import _mica\nimport mica\nm = mica.Model(model)\nassert not hasattr(_mica, 'see')")
    with pytest.raises(BoardError, match="see: this firmware was built for models without pictures"):
        board_of_module.exec("m.see(bytes(600), 20, 15, 'rgb565be')")


@pytest.mark.parametrize("kernel", sorted({k.name for rows in FAMILIES.values() for k in rows} - IN_PYTHON))
def test_those_without_python_are_named(kernel: str, bare_board: Link) -> None:
    """Raise the step, the kernel and the command that helps, for a kernel that is not in MicroPython."""
    model = next(m for m in (make() for make in MODELS) if any(s.kernel == kernel for s in m.steps))
    missing = next(s for s in model.steps if s.kernel not in IN_PYTHON)
    bare_board.put(codec.encode(model), "model")
    line = rf"step \d+ \({re.escape(missing.name)}\): .* no {missing.kernel} in MicroPython; mica build --for MODEL has"
    with pytest.raises(BoardError, match=line):
        bare_board.exec("import mica\nmica.Model(model)")
    own = sorted({s.kernel for s in model.steps} - IN_PYTHON)  # functions of the user's are the other way on
    bare_board.exec(f"ran = []\nfor k in {own}: mica.register(k, lambda x, y, attributes, k=k: ran.append(k))")
    assert bare_board.exec("mica.Model(model).run()\nprint(sorted(set(ran)))").decode().strip() == repr(own)
