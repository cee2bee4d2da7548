"""Limits of a file, by the engine and the decoder alike: a file at a limit loads, a file beyond it is refused.

One file for each, without a sanitizer and so within seconds.
tests/format/test_corrupt.py and the fuzzers try many more.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from attention_model import attention_model
from recurrent_model import recurrent_model
from rich_model import rich_model, window
from test_load_checks import verdicts

from mica import engine
from mica.errors import MicaError
from mica.file import codec
from mica.file.codec import ModelFile, StepRecord, TensorRecord
from mica.format import schema
from mica.reference.executor import ReferenceModel


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Callable[[ModelFile | bytes], str]:
    """The engine's objection to a file that encode() may refuse to make. The decoder must object exactly if it does."""

    def judge(model: ModelFile | bytes) -> str:
        if isinstance(model, ModelFile):
            with monkeypatch.context() as patch:
                patch.setattr(codec, "decode", lambda _: None)
                model = codec.encode(model)
        c, python = verdicts(codec.with_crc(model))
        assert bool(c) == bool(python), (c, python)
        return c

    return judge


def model_of(step: StepRecord, *dims: tuple[int, ...], y_type: str = "int8") -> bytes:
    """A file of one step; its tensors, an input and then the output, lie one behind the other."""
    x, y = dims
    tensors = [TensorRecord("x", "int8", x, 0.05, 0, offset=0)]
    scale = {"scale": 0.05, "zero_point": 0} if y_type == "int8" else {}
    tensors.append(TensorRecord("y", y_type, y, offset=-(-int(np.prod(x)) // 16) * 16, **scale))
    return codec.encode(ModelFile(tensors, [step], [0], [1], {}))


def test_a_tensor_of_a_gigabyte() -> None:
    """2^30 elements are fewer than MICA_MAX_BYTES. (The memory of its arena is never touched.)"""
    axis = {"rows": np.zeros(1, np.uint16), "row_weights": np.full((1, 1), 2048, np.int16)}
    axis |= {"columns": axis["rows"], "column_weights": axis["row_weights"]}
    resize = StepRecord("r", "resize_linear_s8", (0,), (1,), {"row_taps": 1, "column_taps": 1}, axis)
    data = model_of(resize, (1, 2**15, 2**15, 1), (1, 1, 1, 1))
    assert engine.load(data).info["arena_bytes"] > 2**30


def test_rank_6() -> None:
    """The most dimensions that a file has: a loop over them neither reads nor writes another."""
    x = np.random.default_rng(6).integers(-128, 128, 2**6).astype(np.int8)
    begin = {f"begin_{i}": i % 3 for i in range(6)}
    pad = StepRecord("pad", "pad_s8", (0,), (1,), begin | {"mode": 0, "value": 3})
    argmax = StepRecord("argmax", "argmax_s8", (0,), (1,), {"axis": 2, "minimum": 0, "select_last": 0})
    for data in (
        model_of(pad, (2,) * 6, (2, 4, 5, 3, 4, 5)),
        model_of(argmax, (2,) * 6, (2,) * 5, y_type="int32"),
    ):
        results = []
        for m in (engine.load(data), ReferenceModel(data)):
            m.set_input(0, x)
            m.run()
            results.append(m.output(0))
        np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("mult_c", 2**31 // 65025 - 163, "mult_c or mult_s is negative or too large"),
        ("mult_c", 2**31 // 65025 - 164, ""),
        ("inner", 3, "the rotations do not divide the rows"),
        ("act_min", 127, ""),
    ],
)
def test_a_rotation(name: str, value: int, reason: str, judged: Callable[[ModelFile], str]) -> None:
    model = attention_model()
    model.steps[0].params[name] = value
    assert reason in (said := judged(model)) and bool(said) == bool(reason), said


def place(data: bytes, table: str, index: int, field: str) -> int:
    """Offset of a record's field in the file, in bytes."""
    section = codec._sections(data, codec.unpack_record(schema.HEADER, data, 0))[table]
    return section.offset + index * section.record_bytes + codec.field_offset(schema.TABLES[table], field)


def with_word(data: bytes, at: int, change: Callable[[int], int]) -> bytes:
    value = change(int.from_bytes(data[at : at + 4], "little"))
    return data[:at] + value.to_bytes(4, "little") + data[at + 4 :]


@pytest.mark.parametrize("beyond", [0, 1])
def test_the_end_of_data(beyond: int, judged: Callable[[bytes], str]) -> None:
    """The last constant may end where DATA does: the table of softmax, and as one that begins 16 bytes later."""
    data = codec.encode(rich_model())
    bytes_of_data = codec._sections(data, codec.unpack_record(schema.HEADER, data, 0))["DATA"].bytes
    at = place(data, "STEPS", 8, "blobs")
    last = bytes_of_data - int.from_bytes(data[at + 4 : at + 8], "little")
    said = judged(with_word(data, at, lambda _: last // 16 * 16 + 16 * beyond))
    assert bool(said) == bool(beyond), said


def test_alignment_of_a_constant_tensor(judged: Callable[[bytes], str]) -> None:
    data = codec.encode(rich_model())
    at = place(data, "TENSORS", 7, "offset")
    assert not judged(data) and judged(with_word(data, at, lambda offset: offset + 2))


@pytest.mark.parametrize(("at", "fine"), [(0, False), (52, False), (56, True), (60, True), (64, True)])
def test_input_and_output_share_no_byte(at: int, fine: bool, judged: Callable[[ModelFile], str]) -> None:
    """The input has 56 bytes at 0, the output lies 32 bytes after it. A padding moves bytes, so it needs them apart."""
    x = TensorRecord("x", "int8", (7, 8), 0.05, 0, offset=0)
    y = TensorRecord("y", "int8", (7, 8), 0.05, 0, offset=at)
    pad = StepRecord("pad", "pad_s8", (0,), (1,), {"mode": 0, "value": 0})
    assert bool(judged(ModelFile([x, y], [pad], [0], [1], {}))) != fine


@pytest.mark.parametrize("less", [0, 1])
def test_scratch_of_a_recurrent_step(less: int, judged: Callable[[ModelFile], str]) -> None:
    """Six bytes for each unit, no fewer."""
    model = recurrent_model()
    for step in model.steps[1:]:
        step.scratch_min -= less
    assert bool(judged(model)) == bool(less)


@pytest.mark.parametrize(("mode", "most"), [(2, 4), (3, 5)])
@pytest.mark.parametrize("end", [False, True])
def test_what_a_padding_repeats(mode: int, most: int, end: bool, judged: Callable[[ModelFile], str]) -> None:
    """Reflected are all but the element at the edge, repeated all."""
    for n in (most, most + 1):
        pad = StepRecord("pad", "pad_s8", (0,), (1,), {"mode": mode, "value": 0, "begin_0": 0 if end else n})
        x = TensorRecord("x", "int8", (5,), 0.05, 0, offset=0)
        y = TensorRecord("y", "int8", (5 + n,), 0.05, 0, offset=16)
        assert bool(judged(ModelFile([x, y], [pad], [0], [1], {}))) == (n > most)


@pytest.mark.parametrize(("pad", "fine"), [(1, True), (2, False)])
def test_a_window_of_padding_alone(pad: int, fine: bool, judged: Callable[[ModelFile], str]) -> None:
    """The average of nothing."""
    x = TensorRecord("x", "int8", (1, 4, 4, 1), 0.05, 0, offset=0)
    y = TensorRecord("y", "int8", (1, 2, 2, 1), 0.05, 0, offset=16)
    p = window(2, 2, pad) | {"act_min": -128, "act_max": 127, "count_include_pad": 1}
    blobs = {"mult": np.array([2**30] * 4, np.int32), "shift": np.array([-1] * 4, np.int8)}
    step = StepRecord("mean", "average_pool2d_s8", (0,), (1,), p, blobs)
    assert bool(judged(ModelFile([x, y], [step], [0], [1], {}))) != fine


@pytest.mark.parametrize("part", [2, 3])
@pytest.mark.parametrize(("factor", "fine"), [(-1, False), (0, True), (2**30 - 1, True), (2**30, False)])
def test_factors_of_a_recurrent_step(part: int, factor: int, fine: bool, judged: Callable[[ModelFile], str]) -> None:
    """Factors of the input's sum and of the recurrent sum have at most 30 bits."""
    model = recurrent_model()
    step = model.steps[1]
    rows = len(step.blobs["shifts"])
    step.blobs["terms"][part * rows + 1] = factor
    assert bool(judged(model)) != fine


@pytest.mark.parametrize("name", ["\u205f", "\u1680", "\u2029", "\u3000"])
def test_white_space_of_names(name: str, judged: Callable[[ModelFile], str]) -> None:
    for text, fine in ((f"a{name}b", False), (f"a{chr(ord(name) + 1)}b", True), (f"a{chr(ord(name) - 2)}b", True)):
        model = rich_model()
        model.golden = []
        model.steps[1].name = text
        assert bool(judged(model)) != fine, ascii(text)


@pytest.mark.parametrize("n", [0, 3, 63])
def test_a_header_cut_short(n: int) -> None:
    """No byte of the file is to blame, only its length."""
    data = codec.encode(rich_model())
    said = f"the file ends inside its header: found {n}, expected 64; copy the file again"
    with pytest.raises(MicaError, match=f"^{said}$"):
        engine.load(data[:n])
