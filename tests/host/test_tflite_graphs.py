"""TensorFlow Lite files of several operators: constant folding, states, logic, integers, names, and refusals."""

from __future__ import annotations

from pathlib import Path

import litert
import numpy as np
import pytest
from tflite_files import Tflite
from tflite_nets import CONV, NETS, lstm, svdf

from mica import engine
from mica.compile import Compiled, compile_file
from mica.errors import MicaError, Unsupported
from mica.format.values import dequantise_output, quantise_input
from mica.importer import import_tflite
from mica.importer.tflite.names import shortened

Q = {"scale": 0.05, "zero": 3}


def no_warning(text: str) -> None:
    raise AssertionError(f"a quantised model should need nothing, and warns: {text}")


def packed(content: bytes, folder: Path, calibration: dict[str, np.ndarray] | None = None) -> Compiled:
    path = folder / "net.tflite"
    path.write_bytes(content)
    return compile_file(path, calibration, warn=no_warning)


def refused(content: bytes, folder: Path) -> str:
    with pytest.raises(MicaError) as e:
        packed(content, folder)
    return str(e.value).removeprefix(f"{folder / 'net.tflite'}: ")


def kernels(compiled: Compiled) -> list[str]:
    return [s.kernel for s in compiled.model.steps]


def run(compiled: Compiled, samples: list[np.ndarray]) -> list[np.ndarray]:
    """First output for each sample, in one go: states live on."""
    loaded, tensor = engine.load(compiled.data), compiled.model.tensors[compiled.model.inputs[0]]
    found = []
    for x in samples:
        loaded.set_input(0, quantise_input(x, tensor) if x.dtype == np.float32 else x.reshape(tensor.dims))
        loaded.run()
        found.append(loaded.output(0).copy())
    return found


def eights(*shape: int, n: int = 8) -> list[np.ndarray]:
    rng = np.random.default_rng(2)
    return [rng.integers(-128, 128, shape).astype(np.int8) for _ in range(n)]


def same_as_litert(content: bytes, folder: Path, samples: list[np.ndarray], steps: int = 1) -> Compiled:
    compiled, made = packed(content, folder), litert.interpreter(content)
    for x, q in zip(samples, run(compiled, samples), strict=True):
        expected = litert.run(made, [x])[0].astype(int)
        assert np.abs(q.reshape(-1) - expected.reshape(-1)).max() <= steps
    return compiled


# What folds


def padded_conv(value: int | None = None, padding: int = 1, scale: float = 0.05) -> bytes:
    """PAD by a zero point (PADV2 by `value`), CONV_2D."""
    rng, net = np.random.default_rng(0), Tflite()
    x = net.tensor([1, 5, 5, 2], **Q)
    pads = net.constant(np.array([[0, 0], [1, 2], [0, 1], [0, 0]], np.int32))
    p = net.tensor([1, 8, 6, 2], scale=scale, zero=3)
    if value is None:
        net.operator("PAD", [x, pads], [p])
    else:
        net.operator("PADV2", [x, pads, net.constant(np.array([value], np.int8), 0.05, 3)], [p])
    w = net.constant(rng.integers(-127, 128, (3, 3, 3, 2)).astype(np.int8), 0.01)
    y = net.tensor([1, 8, 6, 3] if padding == 0 else [1, 6, 4, 3], scale=0.1, zero=-7)
    b = net.constant(np.array([5, -9, 0], np.int32), 0.0005)
    net.operator("CONV_2D", [p, w, b], [y], "Conv2DOptions", {**CONV, "padding": padding})
    return net.bytes([x], [y])


@pytest.mark.parametrize("padding", (0, 1))
def test_a_pad_folds_into_the_convolution(tmp_path: Path, padding: int) -> None:
    compiled = same_as_litert(padded_conv(padding=padding), tmp_path, eights(1, 5, 5, 2))
    assert kernels(compiled) == ["conv2d_s8"]


def test_a_pad_by_the_zero_point_folds(tmp_path: Path) -> None:
    assert kernels(same_as_litert(padded_conv(3), tmp_path, eights(1, 5, 5, 2))) == ["conv2d_s8"]


def test_a_pad_by_another_number_stays(tmp_path: Path) -> None:
    assert kernels(same_as_litert(padded_conv(4), tmp_path, eights(1, 5, 5, 2))) == ["pad_s8", "conv2d_s8"]


def test_a_small_multiplier_is_zero(tmp_path: Path) -> None:
    """A channel whose sums can never reach half a step: LiteRT shifts by 32 and more."""
    net = Tflite()
    x, y = net.tensor([1, 4], **Q), net.tensor([1, 2], scale=0.5, zero=7)
    w = net.constant(np.full((2, 4), 100, np.int8), [1e-9, 0.01])
    net.operator("FULLY_CONNECTED", [x, w, -1], [y], "FullyConnectedOptions", {"activation": 0})
    compiled = same_as_litert(net.bytes([x], [y]), tmp_path, eights(1, 4))
    assert compiled.model.steps[0].blobs["mult"][0] == 0
    assert {q.reshape(-1)[0] for q in run(compiled, eights(1, 4))} == {7}


def test_means_half_way_between_integers(tmp_path: Path) -> None:
    """With a zero point of -128, means equal LiteRT's; positive ones half way between integers are one less."""
    net, q = Tflite(), {"scale": 0.05, "zero": -128}
    x, y = net.tensor([1, 8, 8, 4], **q), net.tensor([1, 4, 4, 4], **q)
    pool = {"padding": 1, "stride_w": 2, "stride_h": 2, "filter_width": 2, "filter_height": 2, "activation": 0}
    net.operator("AVERAGE_POOL_2D", [x], [y], "Pool2DOptions", pool)
    content = net.bytes([x], [y])
    compiled, made = packed(content, tmp_path), litert.interpreter(content)
    assert kernels(compiled) == ["average_pool2d_s8"]
    for x_ in eights(1, 8, 8, 4):
        expected, found = litert.run(made, [x_])[0].reshape(-1), run(compiled, [x_])[0].reshape(-1)
        sums = x_.reshape(4, 2, 4, 2, 4).astype(int).sum(axis=(1, 3)).reshape(-1)
        tie = (sums % 4 == 2) & (sums > 0)
        assert tie.any()
        assert np.array_equal(found + tie, expected)


def test_scales_are_kept(tmp_path: Path) -> None:
    compiled = packed(NETS["classifier"](), tmp_path)
    ends = [compiled.model.tensors[t] for t in (*compiled.model.inputs, *compiled.model.outputs)]
    assert [(t.name, np.float32(t.scale), t.zero_point) for t in ends] == [
        ("input", np.float32(0.02), 3),
        ("Identity", np.float32(1 / 256), -128),
    ]


# Weights


def fully_connected(w: np.ndarray, scale: float, zero: int, x: str = "int8") -> bytes:
    net = Tflite()
    source = net.tensor([1, w.shape[1]], x, 0.05, 3 if x == "int8" else 131)
    y = net.tensor([1, w.shape[0]], x, 0.3, 1 if x == "int8" else 129)
    b = net.constant(np.arange(w.shape[0], dtype=np.int32) * 100, 0.05 * scale)
    net.operator(
        "FULLY_CONNECTED", [source, net.constant(w, scale, zero), b], [y], "FullyConnectedOptions", {"activation": 0}
    )
    return net.bytes([source], [y])


@pytest.mark.parametrize("zero", (128, 120, 3))
def test_uint8_weights(tmp_path: Path, zero: int) -> None:
    """Weights that, less the zero point, exceed int8 get a step of their own, for less than a step of the output."""
    w = np.random.default_rng(0).integers(0, 256, (5, 12)).astype(np.uint8)
    content = fully_connected(w, 0.01, zero, "uint8")
    compiled, made = packed(content, tmp_path), litert.interpreter(content)
    xs = eights(1, 12)
    for x, q in zip(xs, run(compiled, xs), strict=True):
        expected = litert.run(made, [(x.astype(int) + 128).astype(np.uint8)])[0].astype(int) - 128
        assert np.abs(q - expected).max() <= 1
    stored = compiled.model.steps[0].blobs["weights"].reshape(5, 12).astype(int)
    assert np.array_equal(stored, w.astype(int) - zero) == (zero == 128)


def test_int4_weights(tmp_path: Path) -> None:
    w = np.random.default_rng(0).integers(-8, 8, (3, 4)).astype(np.int8)
    nibbles = w.reshape(-1, 2).astype(np.uint8)
    net = Tflite()
    x, y = net.tensor([1, 4], **Q), net.tensor([1, 3], scale=0.3)
    packed_w = net.tensor([3, 4], "int4", 0.1, data=(nibbles[:, 0] & 15 | nibbles[:, 1] << 4).astype(np.uint8))
    net.operator("FULLY_CONNECTED", [x, packed_w, -1], [y], "FullyConnectedOptions", {"activation": 0})
    compiled = packed(net.bytes([x], [y]), tmp_path)
    assert np.array_equal(compiled.model.steps[0].blobs["weights"].reshape(3, 4), w)


def test_dynamic_range_weights_are_kept(tmp_path: Path) -> None:
    content = NETS["dynamic"]()
    xs = [x.astype(np.float32) / 50 for x in eights(1, 8, n=40)]
    compiled, made = packed(content, tmp_path, {"t0": np.concatenate(xs)}), litert.interpreter(content)
    tensor = compiled.model.tensors[compiled.model.outputs[0]]
    expected = np.array([litert.run(made, [x])[0] for x in xs]).reshape(-1)
    found = np.array([dequantise_output(q, tensor) for q in run(compiled, xs)]).reshape(-1)
    assert np.abs(found - expected).max() < 0.03 * np.ptp(expected)


def test_float_weights_of_half_precision(tmp_path: Path) -> None:
    samples = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    assert kernels(packed(NETS["dynamic"](), tmp_path, {"t0": samples})) == ["fully_connected_s8"] * 2


# States


def times(x: float | np.ndarray, factor: float) -> np.ndarray:
    """x * factor as TensorFlow Lite rounds it: a 31-bit product, then the shift, halves away from zero in both."""
    mantissa, exponent = np.frexp(factor)
    high = np.floor(np.asarray(x, np.float64) * np.rint(mantissa * 2**31) / 2**31 + 0.5)
    scaled = high * 2.0**exponent
    return np.sign(scaled) * np.floor(np.abs(scaled) + 0.5)


def tflite_micro_svdf(content: bytes, folder: Path, samples: list[np.ndarray]) -> list[np.ndarray]:
    """The int8 SVDF of tflite-micro (svdf_common.cc), which LiteRT's interpreter has for int16 states only."""
    from mica.importer.tflite.model import read

    path = folder / "reference.tflite"
    path.write_bytes(content)
    model = read(path)
    op = model.operators[0]
    x, wf, wt, b, s = (model.tensors[i] for i in op.inputs)
    y = model.tensors[op.outputs[0]]
    scale = {t.index: float(t.grid.scale[0]) for t in (x, wf, wt, s, y) if t.grid}
    zero = {t.index: int(t.grid.zero_point[0]) for t in (x, s, y) if t.grid}
    assert wf.data is not None
    assert wt.data is not None
    assert b.data is not None
    state, found = np.full(wt.shape, zero[s.index]), []
    for q in samples:
        sums = wf.data.astype(np.int64) @ (q.reshape(-1).astype(np.int64) - zero[x.index])
        v = times(sums, scale[x.index] * scale[wf.index] / scale[s.index]) + zero[s.index]
        state = np.concatenate([state[:, 1:], np.clip(v, -128, 127)[:, None]], axis=1)
        rows = (wt.data.astype(np.int64) * (state - zero[s.index])).sum(axis=1)
        units = rows.reshape(y.shape[1], -1).sum(axis=1) + b.data
        out = times(units, scale[s.index] * scale[wt.index] / scale[y.index]) + zero[y.index]
        found.append(np.clip(out, zero[y.index], 127))
    return found


@pytest.mark.parametrize(("rank", "memory"), ((1, 5), (2, 5), (1, 1)))
def test_svdf(tmp_path: Path, rank: int, memory: int) -> None:
    content, xs = svdf(rank=rank, memory=memory), eights(1, 8, n=60)
    expected = np.array(tflite_micro_svdf(content, tmp_path, xs))
    d = np.array(run(packed(content, tmp_path), xs)).reshape(expected.shape) - expected
    assert np.ptp(expected) > 60
    assert np.abs(d).max() <= 1
    assert np.mean(d == 0) > 0.95


@pytest.mark.parametrize(("rank", "memory"), ((1, 5), (2, 5), (1, 1)))
def test_svdf_with_a_state_of_int16(tmp_path: Path, rank: int, memory: int) -> None:
    """LiteRT's bytes, but for halves of its two roundings, over 32 runs and more."""
    content, xs = svdf(rank=rank, memory=memory, wide=True), eights(1, 8, n=40)
    compiled, made = packed(content, tmp_path), litert.interpreter(content)
    assert {t.dtype for t in compiled.model.tensors if t.space == "state"} == ({"int16"} if memory > 1 else set())
    expected = np.array([litert.run(made, [x])[0].reshape(-1) for x in xs], int)
    d = np.array(run(compiled, xs), int).reshape(expected.shape) - expected
    print(f"of other bytes {np.mean(d != 0):.2%}")
    assert np.ptp(expected) > 60
    assert np.abs(d).max() <= 1
    assert np.mean(d == 0) > 0.98


def test_a_state_begins_at_zero_and_is_one_tensor(tmp_path: Path) -> None:
    compiled = packed(svdf(), tmp_path)
    states = [t for t in compiled.model.tensors if t.space == "state"]
    assert [(t.dims, np.float32(t.scale), t.zero_point) for t in states] == [((1, 4, 1, 4), np.float32(0.06), 5)]
    assert len(compiled.model.inputs) == len(compiled.model.outputs) == 1
    loaded, (x,) = engine.load(compiled.data), eights(1, 8, n=1)
    answers = []
    for _ in range(2):
        loaded.set_input(0, x)
        loaded.run()
        answers.append(loaded.output(0).copy())
    assert not np.array_equal(*answers)


@pytest.mark.parametrize("coupled", (False, True))
def test_lstm(tmp_path: Path, coupled: bool) -> None:
    """Runs follow each other: LiteRT's states live on as well."""
    content = lstm(coupled=coupled)
    xs = [x.astype(np.float32) / 64 for x in eights(1, 6, 3, n=30)]
    compiled, made = packed(content, tmp_path, {"t0": np.stack(xs)}), litert.interpreter(content)
    tensor = compiled.model.tensors[compiled.model.outputs[0]]
    expected = np.array([litert.run(made, [x])[0] for x in xs]).reshape(-1)
    found = np.array([dequantise_output(q, tensor) for q in run(compiled, xs)]).reshape(-1)
    noise = np.sqrt(np.mean((found - expected) ** 2) / np.mean(expected**2))
    assert noise < 0.03
    assert [t.dims for t in compiled.model.tensors if t.space == "state"] == [(1, 1, 4)] * 2


def test_int8_lstm(tmp_path: Path) -> None:
    """No calibration: the file says how far the cell state goes. Its runs begin again, so that errors do not add up."""
    content = NETS["int8 lstm"]()
    compiled = packed(content, tmp_path)
    found, expected = [], []
    for x in eights(1, 6, 3, n=30):
        made = litert.interpreter(content)
        expected.append(litert.run(made, [x])[0].reshape(-1).astype(int))
        found.append(run(compiled, [x])[0].reshape(-1).astype(int))
    d = np.array(found) - np.array(expected)
    assert np.ptp(expected) > 100
    assert np.abs(d).max() <= 3
    assert np.mean(np.abs(d) <= 1) > 0.97


# Logic, integers, constants


@pytest.mark.parametrize("kind", ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"))
def test_comparisons_choose(tmp_path: Path, kind: str) -> None:
    net = Tflite()
    x, y = net.tensor([1, 40], **Q), net.tensor([1, 40], **Q)
    chosen = net.tensor([1, 40], "bool")
    net.operator(kind, [x, net.constant(np.array([9], np.int8), **Q)], [chosen])
    other = net.constant(np.full((1, 40), -50, np.int8), **Q)
    net.operator("SELECT_V2" if "L" in kind else "SELECT", [chosen, x, other], [y])
    xs = [np.clip(x, -5, 20).astype(np.int8) for x in eights(1, 40)]
    same_as_litert(net.bytes([x], [y]), tmp_path, xs, steps=0)


def test_logic(tmp_path: Path) -> None:
    net = Tflite()
    x, y = net.tensor([1, 40], **Q), net.tensor([1, 40], **Q)
    above, below, no, both, either = (net.tensor([1, 40], "bool") for _ in range(5))
    net.operator("GREATER", [x, net.constant(np.array([-9], np.int8), **Q)], [above])
    net.operator("LESS", [x, net.constant(np.array([40], np.int8), **Q)], [below])
    net.operator("LOGICAL_AND", [above, below], [both])
    net.operator("LOGICAL_NOT", [below], [no])
    net.operator("LOGICAL_OR", [both, no], [either])
    net.operator("SELECT_V2", [either, x, net.constant(np.full((1, 40), 3, np.int8), **Q)], [y])
    same_as_litert(net.bytes([x], [y]), tmp_path, eights(1, 40), steps=0)


@pytest.mark.parametrize("kind", ("ARG_MAX", "ARG_MIN"))
def test_arg(tmp_path: Path, kind: str) -> None:
    net = Tflite()
    x, y = net.tensor([1, 9], **Q), net.tensor([1], "int32")
    option = f"Arg{kind[4:].title()}Options"
    net.operator(kind, [x, net.constant(np.array(1, np.int32))], [y], option, {"output_type": 2})
    same_as_litert(net.bytes([x], [y]), tmp_path, eights(1, 9), steps=0)


def test_embedding(tmp_path: Path) -> None:
    net, table = Tflite(), np.random.default_rng(0).integers(-128, 128, (7, 4)).astype(np.int8)
    rows, y = net.tensor([3], "int32"), net.tensor([3, 4], **Q)
    net.operator("EMBEDDING_LOOKUP", [rows, net.constant(table, **Q)], [y])
    loaded = engine.load(packed(net.bytes([rows], [y]), tmp_path).data)
    loaded.set_input(0, np.array([6, 0, 2], np.int32))
    loaded.run()
    assert np.array_equal(loaded.output(0), table[[6, 0, 2]])


def test_constants_of_shapes(tmp_path: Path) -> None:
    """SHAPE, BROADCAST_ARGS, FILL and ZEROS_LIKE are known when the model is packed."""
    net = Tflite()
    x, y, z, w = (net.tensor([1, 4], **Q) for _ in range(4))
    shape, joint = net.tensor([2], "int32"), net.tensor([2], "int32")
    filled, zeros = net.tensor([1, 4], **Q), net.tensor([1, 4], **Q)
    net.operator("SHAPE", [x], [shape])
    net.operator(
        "BROADCAST_ARGS", [net.constant(np.array([1, 4], np.int32)), net.constant(np.array([4], np.int32))], [joint]
    )
    net.operator("FILL", [net.constant(np.array([1, 4], np.int32)), net.constant(np.array(23, np.int8), **Q)], [filled])
    net.operator("ZEROS_LIKE", [x], [zeros])
    net.operator("RESHAPE", [x, shape], [y])
    net.operator("ADD", [y, filled], [z], "AddOptions", {"activation": 0})
    net.operator("ADD", [z, zeros], [w], "AddOptions", {"activation": 0})
    xs = eights(1, 4)
    for x_, q in zip(xs, run(packed(net.bytes([x], [w]), tmp_path), xs), strict=True):
        assert np.array_equal(q, np.clip(x_.astype(int) + 20, -128, 127))


def test_floats_at_the_ends(tmp_path: Path) -> None:
    """QUANTIZE and DEQUANTIZE round a float model's ends to the file's grids; CAST makes numbers of truths."""
    net = Tflite()
    x, q, r, y = (
        net.tensor([1, 4], "float32"),
        net.tensor([1, 4], **Q),
        net.tensor([1, 4], **Q),
        net.tensor([1, 4], "float32"),
    )
    net.operator("QUANTIZE", [x], [q])
    net.operator("RELU", [q], [r])
    net.operator("DEQUANTIZE", [r], [y])
    compiled = packed(net.bytes([x], [y]), tmp_path)
    ends = [compiled.model.tensors[t] for t in (*compiled.model.inputs, *compiled.model.outputs)]
    assert [(np.float32(t.scale), t.zero_point) for t in ends] == [(np.float32(0.05), 3)] * 2
    net = Tflite()
    x, truth, y = net.tensor([1, 4], **Q), net.tensor([1, 4], "bool"), net.tensor([1, 4], "float32")
    net.operator("GREATER", [x, net.constant(np.array([0], np.int8), **Q)], [truth])
    net.operator("CAST", [truth], [y])
    assert [q.tolist() for q in run(packed(net.bytes([x], [y]), tmp_path), [np.array([[-1, 0, 1, 9]], np.int8)])] == [
        [[0, 0, 1, 1]]
    ]


# Names and refusals


@pytest.mark.parametrize(
    ("name", "short"),
    (
        ("model/batch_normalization/FusedBatchNormV3;model/conv2d/BiasAdd;model/conv2d/Conv2D1", "conv2d/Conv2D1"),
        ("serving_default_input_1:0", "input_1"),
        ("net/dense/BiasAdd/ReadVariableOp", "net/dense"),
        ("StatefulPartitionedCall:0", "StatefulPartitionedCall"),
        ("line\nbreak", "line break"),
        ("x" * 90, "x" * 40),
        ("", ""),
    ),
)
def test_names_are_short(name: str, short: str) -> None:
    assert shortened(name) == short


def relu(**more: object) -> Tflite:
    net = Tflite()
    net.tensor([1, 4], **{**Q, **more})  # type: ignore[arg-type]
    net.tensor([1, 4], **Q)
    net.operator("RELU", [0], [1])
    return net


def test_a_network_compiled_for_an_accelerator(tmp_path: Path) -> None:
    """A file with Vela's operator is refused in one line, which names the accelerator and the remedy."""
    net = Tflite()
    x, y, scratch = (net.tensor([1, 4], **Q) for _ in range(3))
    net.operator("ethos-u", [x, scratch], [y])
    text = refused(net.bytes([x], [y]), tmp_path)
    assert text == "operator 0 (ethos-u) was compiled by Vela for Arm's Ethos-U; pack the file from before that"


def test_unknown_operators_are_named_together(tmp_path: Path) -> None:
    net = relu()
    net.tensor([1, 4], **Q)
    net.tensor([1, 4], **Q)
    net.operator("UNIQUE", [1], [2])
    net.operator("MyOwn", [2], [3])
    assert refused(net.bytes([0], [3]), tmp_path).splitlines() == [
        "cannot be packed:",
        "  operator 1 (UNIQUE): operator not supported (`mica info --ops` lists the supported ones)",
        "  operator 2 (MyOwn): operator not supported (`mica info --ops` lists the supported ones)",
    ]
    with pytest.raises(Unsupported):
        import_tflite(tmp_path / "net.tflite")


def test_text_inside_is_no_damage(tmp_path: Path) -> None:
    """Keras' TextVectorization keeps its vocabulary in the file."""
    net = relu()
    net.tensor([1], dtype="string", data=np.frombuffer(bytes(12), np.uint8))
    expected = "is a constant of the type string; convert the model behind what makes numbers of texts"
    text = refused(net.bytes([0], [1]), tmp_path)
    assert expected in text and "damaged" not in text, text


@pytest.mark.parametrize(
    ("net", "ends", "text"),
    (
        (relu(scale=0.0), ([0], [1]), "damaged: tensor 0 't0' has the scale 0"),
        (relu(scale=float("nan")), ([0], [1]), "damaged: tensor 0 't0' has the scale nan"),
        (relu(zero=300), ([0], [1]), "damaged: tensor 0 't0' has a zero point that int8 cannot hold"),
        (relu(scale=[0.1, 0.2]), ([0], [1]), "damaged: a vector of 2 entries"),
        (
            relu(dtype="string"),
            ([0], [1]),
            "input 0 't0' takes texts; convert the model behind what makes numbers of them",
        ),
        (
            relu(dtype="complex64"),
            ([0], [1]),
            "input 't0' is complex64; mica takes float32, int8, uint8, int16 and row numbers",
        ),
        (relu(), ([0], [2]), "damaged: its output, tensor 2, is made by no operator"),
        (relu(), ([1], [1]), "damaged: operator 0 (RELU) reads tensor 0, which nothing has made"),
        (relu(), ([0, 7], [1]), "damaged: its input is tensor 7 of 2"),
    ),
)
def test_what_contradicts_itself(tmp_path: Path, net: Tflite, ends: tuple[list[int], list[int]], text: str) -> None:
    assert refused(net.bytes(*ends), tmp_path).startswith(text)


def test_a_constant_of_the_wrong_length(tmp_path: Path) -> None:
    net = Tflite()
    x, y = net.tensor([1, 4], **Q), net.tensor([1, 4], **Q)
    b = net.tensor([1, 4], data=np.zeros(3, np.int8), **Q)
    net.operator("ADD", [x, b], [y], "AddOptions", {"activation": 0})
    assert refused(net.bytes([x], [y]), tmp_path) == "damaged: tensor 2 't2' holds 3 bytes; int8 [1, 4] takes 4"


def test_nan_is_blamed_on_its_tensor(tmp_path: Path) -> None:
    net = Tflite()
    x, y = net.tensor([1, 2], "float32"), net.tensor([1, 1], "float32")
    w = net.constant(np.array([[1, np.nan]], np.float32), name="dense/kernel")
    net.operator("FULLY_CONNECTED", [x, w, -1], [y], "FullyConnectedOptions", {"activation": 0})
    assert refused(net.bytes([x], [y]), tmp_path) == "damaged: tensor 2 'dense/kernel' holds NaN or infinity"


def test_a_huge_tensor_is_refused_before_it_is_made(tmp_path: Path) -> None:
    net = Tflite()
    x, y = net.tensor([1, 2**15, 2**15], **Q), net.tensor([1, 2**15, 2**15], **Q)
    net.operator("RELU", [x], [y])
    assert "1073741824 elements; mica takes up to 16777216" in refused(net.bytes([x], [y]), tmp_path)


def test_shapes_that_do_not_follow(tmp_path: Path) -> None:
    net = Tflite()
    x, y = net.tensor([1, 4], **Q), net.tensor([1, 5], **Q)
    net.operator("RELU", [x], [y])
    assert "has the shape [1, 5]; its operator gives [1, 4]" in refused(net.bytes([x], [y]), tmp_path)


def test_shape_options_are_of_onnx_files(tmp_path: Path) -> None:
    path = relu().save(tmp_path, [0], [1])
    with pytest.raises(MicaError, match="--shape N: a"):
        compile_file(path, shapes={"N": 1})
