"""Operators that newer converters write: TOPK_V2, composites, plain uint8, sizes that a graph computes from shapes.

LiteRT gives the expected values; files of ../shared/trials come from Keras 3.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import litert
import numpy as np
import pytest
from test_tflite_graphs import Q, packed, refused
from tflite_files import TYPE, Table, Tflite
from tflite_nets import CONV, composites, sums

from mica import engine
from mica.cli.main import main
from mica.compile import Compiled, compile_file
from mica.format.values import dequantise_output, quantise_input

TRIALS = Path(__file__).resolve().parents[2].parent / "shared" / "trials"
with_trials = pytest.mark.skipif(not TRIALS.is_dir(), reason="the folder ../shared/trials is missing")
RNG = np.random.default_rng(3)
PLUS = {"activation": 0}
INT32_SHAPE = (55, Table({0: ("b", TYPE["int32"])}))  # ShapeOptions of LiteRT: the output's type


def ints(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


def answers(compiled: Compiled, samples: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
    """All outputs of each sample; integers as integers, real numbers for a float file's."""
    loaded, model, found = engine.load(compiled.data), compiled.model, []
    tensor = model.tensors[model.inputs[0]]
    for x in samples:
        plain = x.dtype in (np.int8, np.int32)
        loaded.set_input(0, x.reshape(tensor.dims) if plain else quantise_input(x.astype(np.float32), tensor))
        loaded.run()
        ys = [(loaded.output(k).copy(), model.tensors[t]) for k, t in enumerate(model.outputs)]
        found.append([y if plain or y.dtype == np.int32 else dequantise_output(y, t) for y, t in ys])
    return found


def same(content: bytes, folder: Path, samples: Sequence[np.ndarray]) -> Compiled:
    """Packs a file, and compares all outputs with LiteRT's: integers are equal,
    real numbers within 2 % of their range."""
    path = folder / "net.tflite"
    path.write_bytes(content)
    data = {"t0": np.stack(samples)} if samples[0].dtype == np.float32 else None
    compiled, made = compile_file(path, data, warn=lambda text: None, plain=True), litert.interpreter(content)
    expected = [litert.run(made, [x]) for x in samples]
    for ys, given in zip(answers(compiled, samples), expected, strict=True):
        for k, (y, z) in enumerate(zip(ys, given, strict=True)):
            assert y.size == z.size
            if z.dtype == np.float32:
                reach = max(float(np.abs(w[k]).max()) for w in expected)
                np.testing.assert_allclose(y.reshape(-1), z.reshape(-1), atol=0.02 * reach)
            else:
                np.testing.assert_array_equal(y.reshape(-1), z.reshape(-1))
    return compiled


def eights(*shape: int, n: int = 8) -> list[np.ndarray]:
    return [RNG.integers(-128, 128, shape).astype(np.int8) for _ in range(n)]


# The largest values


def top(k: int, dtype: str = "int8", places: str = "int32") -> bytes:
    net, grid = Tflite(), Q if dtype == "int8" else {}
    x, values, at = net.tensor([2, 9], dtype, **grid), net.tensor([2, k], dtype, **grid), net.tensor([2, k], places)
    net.operator("TOPK_V2", [x, net.constant(np.array(k, np.int32))], [values, at])
    return net.bytes([x], [at, values])


def test_top_k(tmp_path: Path) -> None:
    """Values and their places, both outputs; the first of equal values, as LiteRT."""
    for k in (1, 4, 9):
        compiled = same(top(k), tmp_path, [*eights(2, 9), np.zeros((2, 9), np.int8)])
        assert compiled.model.steps[0].kernel == ("top_k_s8" if k > 1 else "reduce_s8")
    floats = [RNG.permutation(18).reshape(2, 9).astype(np.float32) for _ in range(8)]
    same(top(3, "float32"), tmp_path, floats)


def test_refused_top_k(tmp_path: Path) -> None:
    assert "(TOPK_V2): the 10 largest values of [2, 9]" in refused(top(10), tmp_path)
    assert "(TOPK_V2): [3] values, and places of int16" in refused(top(3, places="int16"), tmp_path)


# Spectra


def heard(frames: int, logarithm: bool = True) -> bytes:
    """A small YAMNet: samples in frames as tf.signal.frame writes them, window, spectrum, bands, logarithm,
    dense layer."""
    net = Tflite()
    x, shapes = net.tensor([4000], "float32"), [[50, 80], [frames, 5, 80], *[[frames, 400]] * 2, [frames, 512]]
    parts, gathered, rows, windowed, padded = (net.tensor(shape, "float32") for shape in shapes)
    net.operator("RESHAPE", [x, net.constant(ints(50, 80))], [parts])
    net.operator("GATHER", [parts, net.constant(ints(*(2 * np.arange(frames)[:, None] + np.arange(5))))], [gathered])
    net.operator("RESHAPE", [gathered, net.constant(ints(frames, 400))], [rows])
    hann = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)).astype(np.float32)
    net.operator("MUL", [rows, net.constant(hann)], [windowed], "MulOptions", PLUS)
    net.operator("PAD", [windowed, net.constant(ints([0, 0], [0, 112]))], [padded])
    row, lines = net.tensor([frames, 1, 512], "float32"), net.tensor([frames, 1, 257], "complex64")
    net.operator("RESHAPE", [padded, net.constant(ints(frames, 1, 512))], [row])
    net.operator("RFFT2D", [row, net.constant(ints(1, 512))], [lines])
    sizes, flat = net.tensor([frames, 1, 257], "float32"), net.tensor([frames, 257], "float32")
    net.operator("COMPLEX_ABS", [lines], [sizes])
    net.operator("RESHAPE", [sizes, net.constant(ints(frames, 257))], [flat])
    if not logarithm:
        return net.bytes([x], [flat])
    edges, k = np.linspace(4, 250, 22)[:, None], np.arange(257)
    up, down = (k - edges[:-2]) / np.diff(edges, axis=0)[:-1], (edges[2:] - k) / np.diff(edges, axis=0)[1:]
    bands, logs = [net.tensor([frames, 20], "float32") for _ in "ab"], net.tensor([frames, 20], "float32")
    mel = net.constant(np.maximum(0, np.minimum(up, down)).astype(np.float32))
    net.operator("FULLY_CONNECTED", [flat, mel], [bands[0]], "FullyConnectedOptions", PLUS)
    net.operator("ADD", [bands[0], net.constant(np.float32(0.001))], [bands[1]], "AddOptions", PLUS)
    net.operator("LOG", [bands[1]], [logs])
    y, w = net.tensor([frames, 4], "float32"), net.constant(RNG.normal(0, 0.3, (4, 20)).astype(np.float32))
    net.operator("FULLY_CONNECTED", [logs, w], [y], "FullyConnectedOptions", PLUS)
    return net.bytes([x], [y])


def test_spectrum(tmp_path: Path) -> None:
    """A front end of its own; LiteRT's answers within 30 dB."""
    pitch = RNG.uniform(200, 6000, (24, 1)) * 2 * np.pi / 16000
    xs = (0.3 * np.sin(np.arange(4000) * pitch) + RNG.normal(0, 0.02, (24, 4000))).astype(np.float32)
    path = tmp_path / "net.tflite"
    path.write_bytes(heard(23))
    compiled = compile_file(path, {"t0": xs[:16]}, warn=lambda text: None, plain=True)
    assert compiled.model.steps[0].kernel == "log_mel_s8"
    made, error, size = litert.interpreter(path.read_bytes()), 0.0, 0.0
    loaded, out = engine.load(compiled.data), compiled.model.tensors[compiled.model.outputs[0]]
    for x in xs[16:]:
        loaded.set_input(0, np.rint(x * 2**15).clip(-(2**15), 2**15 - 1).astype(np.int16).reshape(1, -1))
        loaded.run()
        expected = litert.run(made, [x])[0].reshape(-1)
        error += float(np.sum((dequantise_output(loaded.output(0), out).reshape(-1) - expected) ** 2))
        size += float(np.sum(expected**2))
    assert 10 * np.log10(size / error) > 30


def test_refused_spectrum(tmp_path: Path) -> None:
    """Without a logarithm: told how to go on."""
    text = refused(heard(23, logarithm=False), tmp_path)
    assert "(DFT)" in text and "--frontend" in text


# Plain integers


@pytest.mark.parametrize("dtype", ("uint8", "int8"))
@pytest.mark.parametrize("grid", ({}, {"scale": 0.5, "zero": 7}), ids=("plain", "with a scale"))
def test_cast_of_eight_bits(tmp_path: Path, dtype: str, grid: dict[str, Any]) -> None:
    """The integers as numbers, whatever scale they have; every one of them is exact at the input."""
    net = Tflite()
    x, real, y = net.tensor([1, 256], dtype, **grid), net.tensor([1, 256], "float32"), net.tensor([1, 256], "float32")
    net.operator("CAST", [x], [real])
    net.operator("MUL", [real, net.constant(np.float32(1 / 255))], [y], "MulOptions", PLUS)
    path = net.save(tmp_path, [x], [y])
    compiled = compile_file(path, warn=lambda text: None, plain=True)
    low = np.iinfo(dtype).min
    every = np.arange(low, low + 256).astype(dtype)[None]
    (expected,) = litert.run(litert.interpreter(path.read_bytes()), [every])
    loaded, model = engine.load(compiled.data), compiled.model
    (given,), (out,) = ([model.tensors[t] for t in ends] for ends in (model.inputs, model.outputs))
    grid = {"scale": 1.0, "zero": 0} | grid
    numbers = (every.astype(np.float32) - grid["zero"]) * grid["scale"]
    loaded.set_input(0, quantise_input(numbers.reshape(given.dims).astype(np.float32), given))
    loaded.run()
    np.testing.assert_allclose(dequantise_output(loaded.output(0), out).reshape(1, -1), expected, atol=0.6 / 255)


# Composites


def test_composites(tmp_path: Path) -> None:
    """Graphs inside of graphs, one of them twice, with a constant and an output that is an input."""
    same(composites(), tmp_path, eights(1, 6))
    floats = [RNG.uniform(-9, 9, (1, 6)).astype(np.float32) for _ in range(8)]
    same(composites("float32"), tmp_path, floats)


@pytest.mark.parametrize(
    ("graph", "outputs", "text"),
    (
        (0, 2, "damaged: operator 0 (STABLEHLO_COMPOSITE) is computed by graph 0 of 3"),
        (3, 2, "damaged: operator 0 (STABLEHLO_COMPOSITE) is computed by graph 3 of 3"),
        (1, 1, "damaged: operator 0 (STABLEHLO_COMPOSITE) has 2 inputs and 1 outputs; its graph has 2 and 2"),
        (2, 2, "damaged: its composites make far more operators than a network for a board has"),
        (None, 2, "damaged: operator 0 (STABLEHLO_COMPOSITE) is computed by graph 0 of 3"),
    ),
)
def test_composites_that_contradict_themselves(tmp_path: Path, graph: int | None, outputs: int, text: str) -> None:
    net = Tflite()
    x, y, z = (net.tensor([1, 6], **Q) for _ in range(3))
    inner, endless = sums("int8", Q, net, 1), net.graph()
    a, b, s, t = (endless.tensor([1, 6], **Q) for _ in range(4))
    endless.operator("STABLEHLO_COMPOSITE", [a, b], [s, t], graph=2)
    endless.ends = ((a, b), (s, t))
    net.operator("STABLEHLO_COMPOSITE", [x, x], [y, z][:outputs], graph=graph)
    assert refused(net.bytes([x], [y], inner, endless), tmp_path) == text


def test_a_composite_of_another_shape(tmp_path: Path) -> None:
    net = Tflite()
    x, y, z = net.tensor([1, 6], **Q), net.tensor([1, 7], **Q), net.tensor([1, 6], **Q)
    inner = sums("int8", Q, net, 1)
    net.operator("STABLEHLO_COMPOSITE", [x, x], [y, z], graph=1)
    text = "damaged: operator 0 (STABLEHLO_COMPOSITE): tensor 4 of its graph is int8 [1, 6], not int8 [1, 7]"
    assert refused(net.bytes([x], [y], inner), tmp_path) == text


def test_an_operator_inside_a_composite_is_named(tmp_path: Path) -> None:
    net = Tflite()
    x, y = net.tensor([1, 6], **Q), net.tensor([1, 6], **Q)
    inner = net.graph()
    a, b = inner.tensor([1, 6], **Q), inner.tensor([1, 6], **Q)
    inner.operator("UNIQUE", [a], [b])
    inner.ends = ((a,), (b,))
    net.operator("STABLEHLO_COMPOSITE", [x], [y], graph=1)
    assert "operator 0 (UNIQUE): operator not supported" in refused(net.bytes([x], [y], inner), tmp_path)


# Sizes that follow from shapes


def test_pads_that_follow_from_shapes(tmp_path: Path) -> None:
    """SAME padding of a dilated convolution, computed from SHAPE: block - size mod block behind each dimension."""
    net = Tflite()
    x, y = net.tensor([1, 5, 7, 2], **Q), net.tensor([4, 3, 4, 2], **Q)
    shape, size, rest, behind, pads = (net.tensor(s, "int32") for s in ([4], [2], [2], [2], [2, 2]))
    net.operator("SHAPE", [x], [shape], table=INT32_SHAPE)
    ends = [net.constant(ints(*v)) for v in ([1], [3], [1])]
    net.operator("STRIDED_SLICE", [shape, *ends], [size], "StridedSliceOptions", {"begin_mask": 0})
    net.operator("FLOOR_MOD", [size, net.constant(ints(2, 2))], [rest])
    net.operator("SUB", [net.constant(ints(2, 2)), rest], [behind], "SubOptions", PLUS)
    parts = [net.constant(ints(0, 0)), behind]
    net.operator("PACK", parts, [pads], "PackOptions", {"values_count": 2, "axis": 1})
    net.operator("SPACE_TO_BATCH_ND", [x, net.constant(ints(2, 2)), pads], [y])
    same(net.bytes([x], [y]), tmp_path, eights(1, 5, 7, 2))


def test_sizes_that_a_converter_leaves_open(tmp_path: Path) -> None:
    """Keras with an open batch: the rows of a dense layer over two dimensions,
    and the windows of a dilated convolution."""
    net = Tflite()

    def tensor(*signature: int) -> int:
        return net.tensor([abs(n) for n in signature], "float32", signature=signature)

    def weights(*shape: int) -> int:
        return net.constant(RNG.normal(size=shape).astype(np.float32))

    x, rows, wide, y = tensor(-1, 6, 4), tensor(-1, -1), tensor(-1, 5), tensor(-1, 6, 5)
    net.operator("RESHAPE", [x, net.constant(ints(-1, 4))], [rows])
    net.operator("FULLY_CONNECTED", [rows, weights(5, 4), -1], [wide], "FullyConnectedOptions", {"activation": 1})
    net.operator("RESHAPE", [wide, net.constant(ints(1, 6, 5))], [y])
    split, lines, sums, flat, z = (
        tensor(-1, 4, 5),
        tensor(-1, 1, 4, 5),
        tensor(-1, 1, 3, 2),
        tensor(-1, 3, 2),
        tensor(-1, 6, 2),
    )
    block, axis = net.constant(ints(2)), net.constant(np.int32(1))
    net.operator("SPACE_TO_BATCH_ND", [y, block, net.constant(ints([2, 0]))], [split])
    net.operator("EXPAND_DIMS", [split, axis], [lines])
    net.operator("CONV_2D", [lines, weights(2, 1, 2, 5), weights(2)], [sums], "Conv2DOptions", {**CONV, "padding": 1})
    net.operator("RESHAPE", [sums, net.constant(ints(-1, 3, 2))], [flat])
    net.operator("BATCH_TO_SPACE_ND", [flat, block, net.constant(ints([0, 0]))], [z])
    same(net.bytes([x], [z]), tmp_path, list(RNG.normal(size=(20, 1, 6, 4)).astype(np.float32)))


def test_rank_range_and_product(tmp_path: Path) -> None:
    """y = x in the order that RANGE counts; z = one number of x, at the last place that SHAPE and REDUCE_PROD allow."""
    net = Tflite()
    x, y = net.tensor([3, 4], **Q), net.tensor([3, 4], **Q)
    shape, rank, order, product, last = (net.tensor(s, "int32") for s in ([2], [], [2], [1], [1]))
    flat, z = net.tensor([12], **Q), net.tensor([1], **Q)
    net.operator("RANK", [x], [rank])
    net.operator("RANGE", [net.constant(np.int32(0)), rank, net.constant(np.int32(1))], [order])
    net.operator("TRANSPOSE", [x, order], [y])
    net.operator("SHAPE", [x], [shape], table=INT32_SHAPE)
    axis = net.constant(np.int32(0))
    net.operator("REDUCE_PROD", [shape, axis], [product], "ReducerOptions", {"keep_dims": True})
    net.operator("SUB", [product, net.constant(ints(1))], [last], "SubOptions", PLUS)
    net.operator("RESHAPE", [y, product], [flat])
    net.operator("SLICE", [flat, last, net.constant(ints(1))], [z])
    same(net.bytes([x], [z]), tmp_path, eights(3, 4))


def test_what_still_depends_on_data(tmp_path: Path) -> None:
    net = Tflite()
    x, place = net.tensor([3, 4], **Q), net.tensor([2], "int32")
    row, y = net.tensor([1, 4], **Q), net.tensor([3, 4], **Q)
    net.operator("DYNAMIC_UPDATE_SLICE", [x, row, place], [y])
    assert "(DYNAMIC_UPDATE_SLICE): a place that depends on data" in refused(net.bytes([x, row, place], [y]), tmp_path)
    net = Tflite()
    x, y = net.tensor([2], "int32"), net.tensor([1], "int32")
    axis = net.constant(np.int32(0))
    net.operator("REDUCE_PROD", [x, axis], [y], "ReducerOptions", {"keep_dims": True})
    assert "(REDUCE_PROD): a product that depends on data" in refused(net.bytes([x], [y]), tmp_path)


def test_rows_of_a_table_by_gather_nd(tmp_path: Path) -> None:
    net, table = Tflite(), RNG.integers(-128, 128, (7, 4)).astype(np.int8)
    rows, y = net.tensor([3, 1], "int32"), net.tensor([3, 4], **Q)
    net.operator("GATHER_ND", [net.constant(table, **Q), rows], [y])
    same(net.bytes([rows], [y]), tmp_path, [ints([6], [0], [2]), ints([1], [1], [5])])


# ../shared/trials


def pictures(n: int, dtype: str) -> list[np.ndarray]:
    q = np.random.default_rng(8).integers(0, 256, (n, 1, 32, 32, 3))
    return list((q / 255).astype(np.float32) if dtype == "float32" else (q - 128 * (dtype == "int8")).astype(dtype))


@with_trials
def test_trial_top_k(tmp_path: Path) -> None:
    """Values of LiteRT within 2 % of their range, and its places but where logits are nearer to each other than
    that."""
    path, xs = TRIALS / "topk-tflite" / "model.tflite", pictures(24, "float32")
    made = litert.interpreter(path.read_bytes(), every=True)
    name = made.get_input_details()[0]["name"].removeprefix("serving_default_").removesuffix(":0")
    compiled = compile_file(path, {name: np.stack(xs[:16])}, warn=lambda text: None)
    outs = [compiled.model.tensors[t] for t in compiled.model.outputs]
    values, places = (next(k for k, t in enumerate(outs) if (t.dtype == "int32") == whole) for whole in (False, True))
    logits = next(d["index"] for d in made.get_tensor_details() if d["name"].endswith("MatMul2"))
    errors, equal, spans = [], 0, []
    for x, ys in zip(xs, answers(compiled, xs), strict=True):
        given = {z.dtype.kind: z.reshape(-1) for z in litert.run(made, [x])}
        full = made.get_tensor(logits).reshape(-1)
        at = ys[places].reshape(-1)
        errors += [np.abs(ys[values].reshape(-1) - given["f"]).max(), np.abs(full[at] - given["f"]).max()]
        spans.append(np.ptp(full))
        equal += int(np.sum(at == given["i"]))
    assert max(errors) < 0.02 * max(spans)
    assert equal >= 0.9 * 3 * len(xs)


@with_trials
def test_trial_uint8_cast(tmp_path: Path) -> None:
    path, xs = TRIALS / "uint8-cast-tflite" / "model.tflite", pictures(32, "uint8")
    made = litert.interpreter(path.read_bytes())
    name = made.get_input_details()[0]["name"].removeprefix("serving_default_").removesuffix(":0")
    compiled = compile_file(path, {name: np.stack(xs[:16])}, warn=lambda text: None)
    y = np.concatenate([ys[0].reshape(1, -1) for ys in answers(compiled, xs)])
    z = np.concatenate([litert.run(made, [x])[0] for x in xs])
    assert 10 * np.log10(np.sum(z**2) / np.sum((y - z) ** 2)) > 40


@with_trials
def test_trial_int8_quality(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every byte is LiteRT's, and without --calib nothing in the line looks like a failure."""
    path = TRIALS / "int8-tflite-quality" / "model.tflite"
    made, compiled = litert.interpreter(path.read_bytes()), packed(path.read_bytes(), tmp_path)
    xs = pictures(32, "int8")
    for x, ys in zip(xs, answers(compiled, xs), strict=True):
        np.testing.assert_array_equal(ys[0].reshape(-1), litert.run(made, [x])[0].reshape(-1))
    assert main(["pack", str(path), "-o", str(tmp_path / "m.mica"), "--json"]) == 0
    out = capsys.readouterr()
    quality = json.loads(out.out)["quality"]
    assert (out.err, quality["warnings"], quality["agreement"] in (None, 1.0)) == ("", [], True)
    assert quality["sqnr_db"] > 30
