"""int16 that is moved byte by byte with the kernels of int8, and operators of int16 that are several kernels: beside
numpy, and beside LiteRT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import litert
import numpy as np
import onnxruntime
import pytest
from tflite_files import Tflite
from tflite_nets import NETS

from mica import engine
from mica.compile import Compiled, compile_file
from mica.exporter import export
from mica.importer.tflite.model import read
from mica.reference.executor import ReferenceModel

SCALE = 1e-3
Array = np.ndarray


def ints(*values: Any) -> Array:
    return np.array(values, np.int32)


def compiled(content: bytes, folder: Path, said: list[str] | None = None) -> Compiled:
    path, warnings = folder / "net.tflite", [] if said is None else said
    path.write_bytes(content)
    result = compile_file(path, warn=warnings.append, plain=True)
    assert said is not None or not warnings
    return result


def alone(
    kind: str, xs: Sequence[Sequence[int]], y: Sequence[int], more: Sequence[Array], options: str = "", **values: Any
) -> bytes:
    """An operator of int16 of one scale; `more` are constants, those of int16 with the same scale."""
    net = Tflite()
    ids = [net.tensor(list(shape), "int16", SCALE) for shape in xs]
    constants = [net.constant(c, SCALE if c.dtype == np.int16 else None) for c in more]
    out = net.tensor(list(y), "int16", SCALE)
    net.operator(kind, [*ids, *constants], [out], options, values)
    return net.bytes(ids, [out])


def inputs(model: Any, seed: int = 3) -> list[Array]:
    """Any int16, the least one too."""
    rng = np.random.default_rng(seed)
    found = [rng.integers(-32768, 32768, model.tensors[i].shape).astype(np.int16) for i in model.inputs]
    for x in found:
        x.reshape(-1)[: x.size // 4] = rng.choice([-32768, -32767, -1, 0, 1, 32767], x.size // 4)
    return found


def answers(c: Compiled, xs: Sequence[Array], reference: bool = True) -> list[Array]:
    """The engine's answers, which must equal those of the reference."""
    loaded = [engine.load(c.data), *([ReferenceModel(c.data)] if reference else [])]
    for made in loaded:
        for k, x in enumerate(xs):
            made.set_input(k, x)
        made.run()
    outputs = [[made.output(k).copy() for k in range(len(c.model.outputs))] for made in loaded]
    assert all(np.array_equal(a, b) for a, b in zip(outputs[0], outputs[-1], strict=True))
    return outputs[0]


FILL = np.array([300], np.int16)
FACES = ints([0, 0], [1, 2], [0, 1], [2, 3])
SIX = ints(5, 4, 3, 2, 1, 0)
LONG = 40_000
FEW = np.arange(-6, 6).astype(np.int16).reshape(1, 3, 4)


def padded(x: Array, value: int) -> Array:
    return np.pad(x, FACES, constant_values=value)


# name: the file, what numpy makes of its inputs
MOVED: dict[str, tuple[bytes, Callable[..., Array]]] = {
    "transpose of rows": (
        alone("TRANSPOSE", [(2, 3, 4, 5)], (3, 2, 4, 5), [ints(1, 0, 2, 3)]),
        lambda x: x.transpose(1, 0, 2, 3),
    ),
    "transpose of five": (
        alone("TRANSPOSE", [(2, 3, 4, 5, 6)], (6, 5, 4, 3, 2), [ints(4, 3, 2, 1, 0)]),
        lambda x: x.transpose(4, 3, 2, 1, 0),
    ),
    "pad": (alone("PAD", [(1, 3, 4, 2)], (1, 6, 5, 7), [FACES]), lambda x: padded(x, 0)),
    "pad with -1": (
        alone("PADV2", [(1, 3, 4, 2)], (1, 6, 5, 7), [FACES, np.array([-1], np.int16)]),
        lambda x: padded(x, -1),
    ),
    "pad with 300": (alone("PADV2", [(1, 3, 4, 2)], (1, 6, 5, 7), [FACES, FILL]), lambda x: padded(x, 300)),
    "mirror": (
        alone("MIRROR_PAD", [(1, 3, 4, 4)], (1, 6, 5, 9), [FACES], "MirrorPadOptions", mode=0),
        lambda x: np.pad(x, FACES, "reflect"),
    ),
    "concat of six": (
        alone("CONCATENATION", [(1, 3, k + 1) for k in range(5)], (1, 3, 19), [FEW], "ConcatenationOptions", axis=2),
        lambda *xs: np.concatenate([*xs, FEW], 2),
    ),
    "concat, long": (
        alone("CONCATENATION", [(1, LONG), (1, 20_000)], (1, 60_000), [], "ConcatenationOptions", axis=1),
        lambda a, b: np.concatenate([a, b], 1),
    ),
    "gather of channels": (
        alone("GATHER", [(2, 3, 5)], (2, 3, 3), [ints(4, 0, 3)], "GatherOptions", axis=2),
        lambda x: x[..., [4, 0, 3]],
    ),
    "slice, long": (alone("SLICE", [(1, LONG)], (1, 39_990), [ints(0, 7), ints(1, 39_990)]), lambda x: x[:, 7:39_997]),
    "backwards": (
        alone(
            "STRIDED_SLICE",
            [(3, 7)],
            (3, 3),
            [ints(0, 6), ints(3, 0), ints(1, -2)],
            "StridedSliceOptions",
            begin_mask=1,
        ),
        lambda x: x[:, 6:0:-2],
    ),
    "tile": (
        alone("TILE", [(2, 1, 2, 3)], (4, 2, 4, 6), [ints(2, 2, 2, 2)]),
        lambda x: np.tile(x, (2, 2, 2, 2)),
    ),
    "space to depth": (
        alone("SPACE_TO_DEPTH", [(1, 4, 6, 2)], (1, 2, 3, 8), [], "SpaceToDepthOptions", block_size=2),
        lambda x: x.reshape(1, 2, 2, 3, 2, 2).transpose(0, 1, 3, 2, 4, 5).reshape(1, 2, 3, 8),
    ),
    "depth to space": (
        alone("DEPTH_TO_SPACE", [(1, 2, 3, 8)], (1, 4, 6, 2), [], "DepthToSpaceOptions", block_size=2),
        lambda x: x.reshape(1, 2, 3, 2, 2, 2).transpose(0, 1, 3, 2, 4, 5).reshape(1, 4, 6, 2),
    ),
    "maximum": (alone("MAXIMUM", [(3, 4, 5), (4, 1)], (3, 4, 5), []), np.maximum),
    "minimum": (alone("MINIMUM", [(3, 4, 5), (3, 4, 5)], (3, 4, 5), []), np.minimum),
    "least of numbers": (alone("MINIMUM", [(2, 3, 4)], (2, 3, 4), [FEW]), lambda x: np.minimum(x, FEW)),
    "largest of rows": (alone("REDUCE_MAX", [(3, 4, 5)], (3, 5), [ints(1)], "ReducerOptions"), lambda x: x.max(1)),
    "least of all": (
        alone("REDUCE_MIN", [(3, 4, 5)], (1, 1, 1), [ints(0, 1, 2)], "ReducerOptions", keep_dims=True),
        lambda x: x.min(keepdims=True),
    ),
    "negative": (alone("NEG", [(1, 99)], (1, 99), []), lambda x: np.clip(-x.astype(int), -32768, 32767)),
}


@pytest.mark.parametrize("name", MOVED)
def test_no_element_changes(name: str, tmp_path: Path) -> None:
    content, expected = MOVED[name]
    c = compiled(content, tmp_path)
    xs = inputs(read(tmp_path / "net.tflite"))
    y = expected(*xs)
    (found,) = answers(c, xs, reference=y.size < 10_000)
    assert np.array_equal(found.reshape(y.shape), y)


def test_between_layers(tmp_path: Path) -> None:
    """Nothing becomes int8, each move is made once, and the whole gives LiteRT's integers."""
    c = compiled(NETS["int16 moves"](), tmp_path)
    kernels = ["conv2d_s16", "transpose_s8", "conv2d_s16", "concat_s8", "move_s8", "move_s8", "binary_s16", "move_s8"]
    assert [s.kernel for s in c.model.steps] == [*kernels, "pad_s8", "conv2d_s16"]
    made, model, d = litert.interpreter(NETS["int16 moves"]()), read(tmp_path / "net.tflite"), []
    for seed in range(8):
        xs = [x // 4 for x in inputs(model, seed)]
        d.append(answers(c, xs)[0].astype(int) - litert.run(made, xs)[0])
    assert np.abs(d).max() <= 1 and np.mean(np.array(d) == 0) >= 0.995


def between(kind: str, bias: int) -> bytes:
    """FULLY_CONNECTED, a move, FULLY_CONNECTED; a bias of 33 bits makes the layers int8."""
    rng, net = np.random.default_rng(1), Tflite()
    a, b = ([1, 4, 6], [1, 6, 4]) if kind == "TRANSPOSE" else ([4, 6], [6, 4])
    ids = [net.tensor(shape, "int16", SCALE) for shape in ([*a[:-1], 5], a, b, [*b[:-1], 3])]

    def layer(x: int, y: int, n: int, k: int) -> None:
        w = net.constant(rng.integers(-127, 128, (n, k)).astype(np.int8), 0.01)
        q = net.constant(np.full(n, bias, np.int64), SCALE * 0.01)
        options = {"activation": 0}
        net.operator("FULLY_CONNECTED", [ids[x], w, q], [ids[y]], "FullyConnectedOptions", options)

    layer(0, 1, 6, 5)
    order = ints(0, 2, 1) if kind == "TRANSPOSE" else ints(*b)
    net.operator(kind, [ids[1], net.constant(order)], [ids[2]])
    layer(2, 3, 3, 4)
    return net.bytes([ids[0]], [ids[3]])


@pytest.mark.parametrize(("kind", "moves"), [("TRANSPOSE", ["transpose_s8"]), ("RESHAPE", [])])
def test_a_move_is_made_once(kind: str, moves: list[str], tmp_path: Path) -> None:
    """In int8 where its neighbours are, without a way to int16 and back."""
    wide, said = compiled(between(kind, 9), tmp_path), []
    assert [s.kernel for s in wide.model.steps if "move" not in s.kernel and "transpose" not in s.kernel] == [
        "conv2d_s16"
    ] * 2
    narrow = compiled(between(kind, 2**33), tmp_path, said)
    assert {s.kernel for s in narrow.model.steps} == {"fully_connected_s8", *moves}
    assert len(said) == 1 and said[0].startswith("int16 tensors become int8")


def test_what_no_kernel_of_bytes_can_move(tmp_path: Path) -> None:
    """A transpose of six dimensions whose bytes would be a seventh one becomes int8, with a warning."""
    said: list[str] = []
    c = compiled(alone("TRANSPOSE", [(2,) * 6], (2,) * 6, [SIX]), tmp_path, said)
    assert [s.kernel for s in c.model.steps] == ["transpose_s8"] and c.model.tensors[c.model.inputs[0]].dtype == "int8"
    assert len(said) == 1 and said[0].startswith("int16 tensors become int8")


def test_prelu(tmp_path: Path) -> None:
    """LiteRT has none of int16."""
    slopes = np.array([[[100, -250]]], np.int16)
    c = compiled(alone("PRELU", [(1, 6, 7, 2)], (1, 6, 7, 2), [slopes]), tmp_path)
    (x,) = inputs(read(tmp_path / "net.tflite"))
    real = np.where(x < 0, x * (slopes * SCALE), x)
    assert np.abs(answers(c, [x])[0] - np.clip(real, -32768, 32767)).max() <= 0.51


@pytest.mark.parametrize("name", ("transpose of five", "concat of six", "slice, long", "backwards"))
def test_as_onnx(name: str, tmp_path: Path) -> None:
    """`info --onnx`: the bytes are int16 again at the end."""
    c = compiled(MOVED[name][0], tmp_path)
    xs = inputs(read(tmp_path / "net.tflite"))
    session = onnxruntime.InferenceSession(export(c.model).SerializeToString(), providers=["CPUExecutionProvider"])
    feed = {i.name: x for i, x in zip(session.get_inputs(), xs, strict=True)}
    assert np.array_equal(session.run(None, feed)[0], answers(c, xs, reference=False)[0])
