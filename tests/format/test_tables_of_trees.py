"""Tables of rows of features, each bit of each word changed: C and the host's check give the same verdict."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from tabular_model import INSIDE, LEAF, tabular_model

from mica import engine
from mica.errors import MicaError
from mica.file import codec
from mica.file.codec import FormatError
from mica.format import schema
from mica.kernels import KERNEL_BY_NAME

needs_engine = pytest.mark.skipif(engine._engine is None, reason="the engine is not built here")
GOOD = codec.encode(tabular_model())


def tables() -> Iterator[tuple[str, str, int, np.ndarray]]:
    """Kernel and name of each table, its place in the file, and its words."""
    sections = codec._sections(GOOD, codec.unpack_record(schema.HEADER, GOOD, 0))
    for k, step in enumerate(tabular_model().steps):
        at = sections["STEPS"].offset + k * schema.record_bytes(schema.STEP)
        places = codec.unpack_record(schema.STEP, GOOD, at)["blobs"]
        for i, (name, _) in enumerate(KERNEL_BY_NAME[step.kernel].blobs):
            yield step.kernel, name, sections["DATA"].offset + places[2 * i], step.blobs[name]


TABLES = list(tables())


def verdicts(changed: bytes) -> tuple[bool, bool]:
    """Return whether C and Python take a file."""
    data, taken = codec.with_crc(changed), []
    for load in (engine.NativeModel, codec.decode):
        try:
            load(data)
            taken.append(True)
        except (MicaError, FormatError, ValueError):
            taken.append(False)
    return taken[0], taken[1]


def changed(table: np.ndarray) -> Iterator[np.ndarray]:
    """One bit of one word; one word that is another's; of words of trees also a branch, and where a record begins."""
    bits = table.dtype.itemsize * 8
    words = table.view(f"u{table.dtype.itemsize}")
    for at in range(words.size):
        for other in (*(words[at] ^ words.dtype.type(1 << bit) for bit in range(bits)), *np.unique(words)):
            out = words.copy()
            out[at] = other
            yield out
    if table.dtype != np.uint16 or not any(words & INSIDE):
        return
    # Trees: no branch leads to some record any more, and any word may begin or end one.
    jumps = [at + 2 for at in range(words.size - 2) if words[at] < LEAF and words[at + 1] & words[at + 2] & INSIDE]
    for at, jump, far in itertools.product(range(words.size), jumps, range(words.size - 3)):
        out = words.copy()
        out[jump] = INSIDE | far
        out[at] ^= INSIDE
        yield out


@needs_engine
@pytest.mark.parametrize(("kernel", "name", "at", "table"), TABLES, ids=[f"{k}-{n}" for k, n, *_ in TABLES])
def test_one_verdict(kernel: str, name: str, at: int, table: np.ndarray) -> None:
    end = at + table.nbytes
    assert GOOD[at:end] == table.tobytes() and verdicts(GOOD) == (True, True)
    taken = 0
    for words in changed(table):
        in_c, in_python = verdicts(GOOD[:at] + words.tobytes() + GOOD[end:])
        assert in_c == in_python, f"{kernel} {name}: {words.tolist()}"
        taken += in_c
    assert taken, "no change is taken"
