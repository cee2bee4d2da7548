"""The codec reads again what it writes, and refuses other models with an error that names the fault."""

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from models import MODELS
from rich_model import rich_model

from mica.errors import MicaError
from mica.file import check, codec
from mica.file.codec import FormatError, GoldenVector, ModelFile, StepRecord, TensorRecord
from mica.format import schema
from mica.kernels import KERNELS, base


def test_every_kernel_is_in_a_model() -> None:
    assert {s.kernel for make in MODELS for s in make().steps} == {k.name for k in KERNELS}


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_round_trip(make: Callable[[], ModelFile]) -> None:
    model = make()
    data = codec.encode(model)
    back = codec.decode(data)
    assert codec.encode(back) == data
    assert back.file_bytes == len(data)
    assert (back.inputs, back.outputs, back.metadata) == (model.inputs, model.outputs, model.metadata)
    assert back.kernels == [k.name for k in KERNELS if any(s.kernel == k.name for s in model.steps)]
    for a, b in zip(model.tensors, back.tensors, strict=True):
        assert (a.name, a.dtype, a.dims, np.float32(a.scale), a.zero_point, a.space, a.bytes) == (
            *(b.name, b.dtype, b.dims, np.float32(b.scale), b.zero_point, b.space, b.bytes),
        )
        assert a.space == "data" or a.offset == b.offset
        assert (a.values is None) == (b.values is None)
        if a.values is not None and b.values is not None:
            np.testing.assert_array_equal(a.values, b.values)
    for s, t in zip(model.steps, back.steps, strict=True):
        assert replace(s, blobs={}, params={}) == replace(t, blobs={}, params={})
        assert {k: s.params.get(k, 0) for k in t.params} == t.params
        for name, blob in s.blobs.items():
            np.testing.assert_array_equal(blob, t.blobs[name])
            assert blob.shape == t.blobs[name].shape
    for g, h in zip(model.golden, back.golden, strict=True):
        for x, y in zip([*g.inputs, *g.outputs], [*h.inputs, *h.outputs], strict=True):
            np.testing.assert_array_equal(x, y)
        assert g.layer_crcs == h.layer_crcs and len(g.layer_crcs) in (0, len(model.steps))


def test_layout() -> None:
    """Sections on 16, weights on 16, equal constants once, constants shared by two steps too."""
    data = codec.encode(rich_model())
    h = codec.unpack_record(schema.HEADER, data, 0)
    sections = codec._sections(data, h)
    assert all(s.offset % schema.ALIGN == 0 for s in sections.values())
    assert len(data) % schema.ALIGN == 0 and h["file_bytes"] == len(data)
    model = rich_model()
    before = len(codec.decode(data).data)
    model.golden = []
    model.steps.append(replace(model.steps[6], name="again", inputs=(11,), outputs=(11,)))
    assert len(codec.decode(codec.encode(model)).data) == before


def test_other_types_and_no_steps() -> None:
    """A model of a Reshape only, with a tensor of each type."""
    tensors = [
        TensorRecord("in", "int16", (2, 3), 0.5, 300, offset=0),
        TensorRecord("out", "int16", (6,), 0.5, 300, offset=0),
        TensorRecord("f", "float32", (), 1.0, 0, "data", values=np.array(1.5, np.float32)),
        TensorRecord("u", "uint8", (3,), 1.0, 255, "state"),
        TensorRecord("i", "int32", (1, 1, 1, 1, 1, 2), 1.0, -(2**31), "state", offset=16),
    ]
    back = codec.decode(codec.encode(ModelFile(tensors, [], [0], [1])))
    assert back.arena_bytes == 16 and back.state_bytes == 24 and back.steps == []
    assert back.tensors[2].values == np.float32(1.5)


def test_step_flags() -> None:
    model = rich_model()
    assert [s.flags for s in model.steps] == [1, 1, 0, 0, 0, 0, 0, 1, 0]
    w = np.zeros((1, 1024), np.int8)
    blobs = {"weights": w, "bias": np.array([2**29 - 1]), "mult": np.array([1]), "shift": np.array([1])}
    assert check.fast_is_true(blobs)
    assert not check.fast_is_true(blobs | {"bias": np.array([-(2**29)])})
    assert not check.fast_is_true(blobs | {"shift": np.array([0])})
    assert not check.fast_is_true(blobs | {"shift": np.array([23])})
    assert not check.fast_is_true(blobs | {"weights": np.full((1, 1), -128, np.int8)})


def _step(model: ModelFile, i: int) -> StepRecord:
    return model.steps[i]


Change = Callable[[ModelFile], object]
REFUSED: dict[str, tuple[Change, str]] = {
    "unknown kernel": (
        lambda m: setattr(m.steps[0], "kernel", "conv3d"),
        r"step 0 \(conv\): no kernel is called conv3d",
    ),
    "unknown parameter": (lambda m: m.steps[0].params.update(kernel_d=1), r"step 0 \(conv\).*kernel_d"),
    "constant left out": (lambda m: m.steps[1].blobs.pop("bias"), r"step 1 \(dw\).*bias"),
    "weights that do not fit int8": (
        lambda m: m.steps[7].blobs.update(weights=np.full((3, 8), 200)),
        r"step 7 \(fc\), weights: values do not fit int8",
    ),
    "half a weight": (lambda m: m.steps[7].blobs.update(weights=np.full((3, 8), 0.5)), "do not fit int8"),
    "parameter beyond int32": (
        lambda m: m.steps[0].params.update(pad_top=2**40),
        r"step 0 \(conv\): a number does not fit",
    ),
    "tensor id": (lambda m: setattr(m.steps[0], "inputs", (99,)), r"step 0 \(conv\), conv2d_s8, inputs: tensors \[99"),
    "too many tensors": (lambda m: setattr(m.steps[0], "inputs", (0,) * 5), "5 tensors; the format holds 4"),
    "groups": (
        lambda m: m.steps[0].params.update(groups=3),
        r"step 0 \(conv\), conv2d_s8: 3 groups do not divide 2 -> 4",
    ),
    "weights of another shape": (lambda m: m.steps[0].params.update(kernel_h=2), "weights has 48 bytes; expected 32"),
    "clamp": (lambda m: m.steps[0].params.update(act_max=128), r"clamp \[-128, 128\]"),
    "shift": (lambda m: m.steps[0].blobs["shift"].fill(32), r"shift\[0\] is 32; expected -30 to 31"),
    "mult": (lambda m: m.steps[0].blobs["mult"].fill(-5), r"mult\[0\] is -5"),
    "overflow": (lambda m: m.steps[0].blobs["bias"].fill(2**31 - 1), "channel 0 can reach"),
    "false claim": (lambda m: (m.steps[0].blobs["shift"].fill(23), setattr(m.steps[0], "flags", 1)), "FAST"),
    "sharing bytes": (lambda m: setattr(m.tensors[1], "offset", 16), "input image and output conv share bytes"),
    "output is a constant": (lambda m: setattr(m.steps[0], "outputs", (7,)), "which is a constant"),
    "unaligned tensor": (lambda m: setattr(m.tensors[1], "offset", 66), r"tensor 1 \(conv\) lies at 66"),
    "beyond the arena": (lambda m: setattr(m, "arena_bytes", 128), "ends at 184, its space"),
    "scale": (lambda m: setattr(m.tensors[0], "scale", 0.0), r"tensor 0 \(image\) has scale 0"),
    "scale not a number": (lambda m: setattr(m.tensors[0], "scale", float("nan")), "has scale nan"),
    "scale too large": (lambda m: setattr(m.tensors[0], "scale", 1e60), r"tensor 0 \(image\): a number does not fit"),
    "zero point": (lambda m: setattr(m.tensors[0], "zero_point", 128), "zero point 128; expected -128 to 127"),
    "rank": (lambda m: setattr(m.tensors[0], "dims", (1,) * 7), "rank 7"),
    "empty dimension": (lambda m: setattr(m.tensors[0], "dims", (1, 0, 5, 2)), "dimensions"),
    "dtype": (lambda m: setattr(m.tensors[0], "dtype", "float64"), "float64"),
    "input that is not there": (lambda m: setattr(m, "inputs", [99]), "tensor 99 of 13"),
    "input twice": (lambda m: setattr(m, "inputs", [0, 0]), "twice"),
    "no output": (lambda m: setattr(m, "outputs", []), "no input or no output"),
    "softmax to another scale": (lambda m: setattr(m.tensors[12], "scale", 0.5), "expected 2048"),
    "pool to another scale": (lambda m: setattr(m.tensors[3], "scale", 0.5), "another scale or zero point"),
    "layers without a checksum": (
        lambda m: setattr(m, "golden", [GoldenVector([np.zeros((1, 6, 5, 2))], [np.zeros(8), np.zeros(3)], [1, 2])]),
        "2 checksums of layers; expected 9",
    ),
    "golden vectors short": (lambda m: setattr(m, "golden", [GoldenVector([], [])]), "golden vector 0"),
    "zero byte in a name": (lambda m: setattr(m.tensors[0], "name", "a\0b"), "zero byte"),
    "scratch": (lambda m: setattr(m.steps[3], "scratch_min", 100), "scratch 100 to 64"),
    "constant of another shape": (
        lambda m: setattr(m.tensors[7], "values", np.zeros(7, np.int8)),
        r"tensor 7 \(offsets\)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_encode_refuses(name: str) -> None:
    change, text = REFUSED[name]
    model = rich_model()
    model.golden = []
    change(model)
    with pytest.raises(FormatError, match=text) as e:
        codec.encode(model)
    assert isinstance(e.value, MicaError) and e.value.exit_code == 1 and "\n" not in str(e.value)


def test_format_is_a_leaf() -> None:
    """format <- kernels <- file: of the rest of mica, only errors and printable."""
    format_, kernels, file = (Path(m.__file__).parent for m in (schema, base, codec))
    may = {
        "schema": (),
        "weights": (),
        "values": (),
        "format": ("mica.format", "mica.errors", "mica.printable"),
        "kernels": ("mica.errors", "mica.format.schema", "mica.format.values", "mica.format.weights", "mica.kernels"),
        "file": ("mica.file", "mica.format", "mica.kernels", "mica.errors", "mica.printable"),
    }
    for path in (*format_.glob("*.py"), *kernels.glob("*.py"), *file.glob("*.py")):
        room = path.parent.name if path.parent != format_ or path.stem not in may else path.stem
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}: a relative import"
            names = [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            names += [a.name for a in node.names] if isinstance(node, ast.Import) else []
            for name in (n for n in names if n.partition(".")[0] == "mica"):
                assert any(f"{name}.".startswith(f"{m}.") for m in may[room]), f"{path}: {name}"
