"""Checks that the loader makes a word at a time: the checksum, and that no weight of a FAST step is -128."""

from __future__ import annotations

import ctypes
import subprocess
import zlib
from pathlib import Path

import c_build
import numpy as np
import pytest

from mica import engine
from mica.errors import MicaError
from mica.file import codec
from mica.file.codec import FormatError, ModelFile, StepRecord, TensorRecord
from mica.format.schema import HEADER, STEP, TENSOR
from mica.format.weights import CODES, CODES4, LAYOUTS, Layout
from mica.format.weights import ROWS as ROWS_LAYOUT

ROOT = Path(__file__).resolve().parents[2]
ROWS = 3
MARK = 7654321  # a bias, to find its place


def test_crc32_is_zlibs() -> None:
    """At every alignment and length, in one piece and going on; and with every byte in each place of a word."""
    assert engine._engine is not None
    crc32 = c_build.whole_engine().mica_crc32
    crc32.restype, crc32.argtypes = ctypes.c_uint32, (ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t)
    data = np.random.default_rng(1).integers(0, 256, 64, dtype=np.uint8)
    for begin in range(5):
        for end in range(begin, 40):
            part = data[begin:end]
            assert crc32(0, part.ctypes.data, part.size) == zlib.crc32(part.tobytes())
            assert crc32(12345, part.ctypes.data, part.size) == zlib.crc32(part.tobytes(), 12345)
    for byte in range(256):
        for place in range(4):
            word = np.zeros(1, np.uint32)
            word.view(np.uint8)[place] = byte
            assert crc32(0, word.ctypes.data, 4) == zlib.crc32(word.tobytes())


def test_crc32_reads_words_where_words_are(tmp_path: Path) -> None:
    """A Cortex-M0+ has no others. What the compiler's check of alignment sees, this processor would bear."""
    lines = (
        "#include <stdalign.h>",
        '#include "mica.h"',
        "int main(void) {",
        "    static alignas(16) const unsigned char data[32] = {1, 2, 3};",
        "    for (int i = 0; i < 16; ++i) { if (mica_crc32(0, data + i, 16) == 0) { return 1; } }",
        "    return 0;",
        "}",
    )
    source, program = tmp_path / "main.c", tmp_path / "main"
    source.write_text("\n".join(lines), encoding="utf-8")
    c = ROOT / "usermod_c"
    flags = ("-std=c11", "-O1", "-fsanitize=alignment", "-fno-sanitize-recover=all", f"-I{c / 'include'}")
    subprocess.run([c_build.gcc(), *flags, source, c / "runtime" / "crc32.c", "-o", program], check=True)
    subprocess.run([program], check=True)


def test_another_kind_of_file() -> None:
    """A file of another kind is recognised by its first word, at any alignment."""
    with pytest.raises(FormatError, match=r"^not a .mica file; give a file"):
        engine.load(b"\x7fELF" + bytes(200))


def layer(layout: Layout, k: int, bias: int = 0, flags: int = 1) -> tuple[bytearray, int]:
    """A file of one layer with ROWS outputs that claims FAST, and where its weights begin: 1, 2, 3 and so on."""
    dense = layout is not ROWS_LAYOUT
    weights = (
        (np.arange(ROWS * k) % (13 if layout is CODES4 else 100) + 1)
        .astype(np.int8)
        .reshape((ROWS, k) if dense else (ROWS, 1, 1, k))
    )
    blobs = {
        "weights": weights,
        "bias": np.full(ROWS, MARK, np.int32),
        "mult": np.full(ROWS, 2**30, np.int32),
        "shift": np.full(ROWS, 9, np.int8),
    }
    shapes = [(1, k), (1, ROWS)] if dense else [(1, 1, 1, k), (1, 1, 1, ROWS)]
    tensors = [TensorRecord(f"t{i}", "int8", dims, 0.05, 0, offset=64 * i) for i, dims in enumerate(shapes)]
    params = {"act_min": -128, "act_max": 127}
    if not dense:
        params |= dict.fromkeys(
            ("kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w", "groups"), 1
        )
    kernel = "fully_connected_s8" if dense else "conv2d_s8"
    step = StepRecord("layer", kernel, (0,), (1,), params, blobs, layout.code)
    data = bytearray(codec.encode(ModelFile(tensors, [step], [0], [1], {})))
    data[_record(data)] = flags  # what encode() would not write
    place = data.index(np.full(ROWS, MARK, np.int32).tobytes())
    data[place : place + 4 * ROWS] = np.full(ROWS, bias, np.int32).tobytes()
    return data, data.index(layout.stored(weights.tobytes(), ROWS))


def _record(data: bytearray) -> int:
    """Offset of the flags of the only step, in bytes."""
    header = codec.unpack_record(HEADER, bytes(data), 0)
    return codec._sections(bytes(data), header)["STEPS"].offset + codec.field_offset(STEP, "flags")


def verdicts(data: bytes) -> tuple[str, str]:
    """Objections of the engine and of the decoder to a file; "" for none."""
    said = []
    for load, error in ((engine.load, MicaError), (codec.decode, FormatError)):
        try:
            load(data)
            said.append("")
        except error as e:
            said.append(str(e))
    return said[0], said[1]


def judged(data: bytearray) -> str:
    """The engine's verdict, which is the decoder's."""
    c, python = verdicts(codec.with_crc(bytes(data)))
    assert bool(c) == bool(python), (c, python)
    return c


@pytest.mark.parametrize("layout", [v for v in LAYOUTS if v is not CODES4], ids=lambda layout: layout.name)
def test_minus_128_in_every_place(layout: Layout) -> None:
    """A weight of -128 is found at every place, except in the padding of a row. -127 and other bytes like it pass."""
    for k in (1, 2, 3, 4, 5, 7, 8, 9, 17):
        data, at = layer(layout, k)
        assert not judged(data)
        row = layout.row_bytes(k)
        for i in range(ROWS * row):
            data, _ = layer(layout, k)
            data[at + i] = -128 + layout.offset & 255
            assert ("claims FAST" in judged(data)) == (i % row < k), (k, i)
            for value in (-127, 127, 0, -1):
                data[at + i] = value + layout.offset & 255
                assert not judged(data), (k, i, value)


def test_minus_128_in_a_table() -> None:
    """A value of -128 counts if a row uses its number; in the table alone, or in the padding of a row, it does not."""
    for k in (1, 2, 3, 4, 5, 7, 8, 9, 17):
        clean, at = layer(CODES4, k)
        clean[at + CODES - 1] = 128  # nobody has the last number yet
        assert not judged(clean), k
        for i in range(2 * ROWS * CODES4.row_bytes(k)):
            data, half = clean.copy(), i // 2 % 2  # of each four weights, the first byte has 0 and 2
            place = at + CODES + i // 4 * 2 + i % 2
            data[place] |= 15 << 4 * half
            assert ("claims FAST" in judged(data)) == (i % (2 * CODES4.row_bytes(k)) < k), (k, i)


def test_codes_can_overflow() -> None:
    """The sum that counts is that of the weights, not of the codes."""
    k = 8
    data, at = layer(CODES4, k, bias=2**31 - 1 - 128 * 100 * k, flags=0)
    data[at : at + CODES] = bytes([100] * CODES)
    assert not judged(data)
    data[at + 3] = 101
    assert "overflow" in judged(data)


@pytest.mark.parametrize("flags", [1, 0])
def test_the_bound_is_exact(flags: int) -> None:
    """|bias| + 128 * sum|w| may reach the limit less 1, also where 16,384 * K would pass it."""
    limit = 2**29 if flags else 2**31
    k, largest = 3, 7 + 8 + 9  # of the last row
    for sign in (1, -1):
        assert not judged(layer(LAYOUTS[0], k, sign * (limit - 128 * largest - 1), flags)[0])
        assert judged(layer(LAYOUTS[0], k, sign * (limit - 128 * largest), flags)[0])


@pytest.mark.parametrize("flags", [1, 0])
@pytest.mark.parametrize("shift", [0, 1, 22, 23])
def test_the_shifts_of_fast(flags: int, shift: int) -> None:
    data, _ = layer(LAYOUTS[0], 4, MARK, flags)
    place = data.index(np.full(ROWS, 9, np.int8).tobytes(), data.index(np.full(ROWS, 2**30, np.int32).tobytes()))
    data[place + ROWS - 1] = shift
    assert ("claims FAST" in judged(data)) == (flags == 1 and shift in (0, 23))


def test_dimensions_beyond_the_rank() -> None:
    """Are 1, and the message says so, for the first of them as well."""
    data, _ = layer(ROWS_LAYOUT, 4)
    sections = codec._sections(bytes(data), codec.unpack_record(HEADER, bytes(data), 0))
    dims = sections["TENSORS"].offset + codec.field_offset(TENSOR, "dims")
    for k in (4, 5):
        changed = bytearray(data)
        changed[dims + 4 * k] = 2
        with pytest.raises(FormatError, match=r"a dimension: found 2, expected 1 \("):
            engine.load(codec.with_crc(bytes(changed)))
