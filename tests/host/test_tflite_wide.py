"""Networks of 16 by 8 bits (int16 activations, int8 weights, int64 biases) beside LiteRT, and their int8 parts."""

from __future__ import annotations

from pathlib import Path

import litert
import numpy as np
import pytest
from tflite_files import Tflite, cut_out
from tflite_nets import CONV, NETS

from mica import engine
from mica.compile import Compiled, compile_file
from mica.importer.tflite.model import Model, read

SHAPES = ([1, 12, 12, 2], [1, 12, 12, 8], [1, 6, 6, 8], [1, 6, 6, 16], [1, 3, 3, 16], [1, 144], [1, 10])
SAMPLES = 16
# LiteRT's own functions of int16 come from tables with lines between their entries,
# rounded several times: softmax is up to two steps off the exact one, and mica's up to half a step.
# So answers differ more often; those of all others are LiteRT's.
ROUGH = {"SOFTMAX": 3, "TANH": 2, "LOGISTIC": 2}


def network(reach: list[float] | None = None) -> bytes:
    """CONV_2D, DEPTHWISE_CONV_2D, CONV_2D, AVERAGE_POOL_2D, RESHAPE, FULLY_CONNECTED: float32,
    or int16 where tensor k reaches to reach[k]."""
    rng, net = np.random.default_rng(4), Tflite()
    steps = [] if reach is None else [r / 32767 for r in reach]
    ids = [
        net.tensor(s, "float32" if reach is None else "int16", steps[k] if steps else None)
        for k, s in enumerate(SHAPES)
    ]

    def layer(k: int, kind: str, shape: tuple[int, ...], axis: int, options: str, values: dict[str, object]) -> None:
        channels, inputs = shape[axis], int(np.prod(shape)) // shape[axis]
        w = rng.standard_normal(shape) / np.sqrt(inputs)
        bias = 0.3 * rng.standard_normal(channels)
        if reach is None:
            constants = [net.constant(w.astype(np.float32)), net.constant(bias.astype(np.float32))]
        else:
            scale = np.abs(w).max(tuple(a for a in range(w.ndim) if a != axis)) / 127
            at = [-1 if a == axis else 1 for a in range(w.ndim)]
            q = np.rint(w / scale.reshape(at)).astype(np.int8)
            whole = np.rint(bias / (scale * steps[k])).astype(np.int64)
            constants = [net.constant(q, scale, 0, axis), net.constant(whole, scale * steps[k], 0)]
        net.operator(kind, [ids[k], *constants], [ids[k + 1]], options, values)

    window = {**CONV, "padding": 0}
    halved = {**window, "stride_w": 2, "stride_h": 2}
    layer(0, "CONV_2D", (8, 3, 3, 2), 0, "Conv2DOptions", window)
    layer(1, "DEPTHWISE_CONV_2D", (1, 3, 3, 8), 3, "DepthwiseConv2DOptions", {**halved, "depth_multiplier": 1})
    layer(2, "CONV_2D", (16, 1, 1, 8), 0, "Conv2DOptions", window)
    pool = {"padding": 1, "stride_w": 2, "stride_h": 2, "filter_width": 2, "filter_height": 2, "activation": 0}
    net.operator("AVERAGE_POOL_2D", [ids[3]], [ids[4]], "Pool2DOptions", pool)
    net.operator("RESHAPE", [ids[4], net.constant(np.array([1, 144], np.int32))], [ids[5]])
    layer(5, "FULLY_CONNECTED", (10, 144), 0, "FullyConnectedOptions", {"activation": 0})
    return net.bytes([ids[0]], [ids[6]])


def no_warning(text: str) -> None:
    raise AssertionError(text)


def ranges() -> list[float]:
    """Largest absolute value of each tensor of `network` in float."""
    real = litert.interpreter(network(), every=True)
    names = {d["name"]: d["index"] for d in real.get_tensor_details()}
    reach, rng = np.zeros(len(SHAPES)), np.random.default_rng(5)
    for _ in range(SAMPLES):
        litert.run(real, [rng.standard_normal(SHAPES[0]).astype(np.float32)])
        reach = np.maximum(reach, [np.abs(real.get_tensor(names[f"t{k}"])).max() for k in range(len(SHAPES))])
    reach[4] = reach[5] = reach[3]  # as the pool and the reshape demand
    return list(reach)


def packed(content: bytes, folder: Path) -> Compiled:
    path = folder / "net.tflite"
    path.write_bytes(content)
    return compile_file(path, warn=no_warning)


def answers(compiled: Compiled, xs: list[np.ndarray]) -> list[np.ndarray]:
    loaded, found = engine.load(compiled.data), []
    for x in xs:
        loaded.set_input(0, x)
        loaded.run()
        found.append(loaded.output(0).copy())
    return found


def inputs(model: Model) -> list[np.ndarray]:
    rng, t = np.random.default_rng(6), model.tensors[model.inputs[0]]
    return [np.clip(rng.normal(0, 9000, t.shape), -32768, 32767).astype(np.int16) for _ in range(SAMPLES)]


def test_a_network_of_16_by_8_bits(tmp_path: Path) -> None:
    """Its scales, and LiteRT's integers."""
    content = network(ranges())
    compiled = packed(content, tmp_path)
    model = read(tmp_path / "net.tflite")
    for theirs, ours in ((model.inputs[0], compiled.model.inputs[0]), (model.outputs[0], compiled.model.outputs[0])):
        t, grid = compiled.model.tensors[ours], model.tensors[theirs].grid
        assert grid is not None
        assert (t.dtype, t.scale, t.zero_point) == ("int16", grid.scale[0], 0)
    assert {s.kernel for s in compiled.model.steps} == {"conv2d_s16", "pool_s16"}
    made, xs = litert.interpreter(content), inputs(model)
    d = np.array(answers(compiled, xs)).astype(int) - np.array([litert.run(made, [x])[0] for x in xs])
    assert np.abs(d).max() <= 1 and np.mean(d == 0) >= 0.995


@pytest.mark.parametrize("name", ("network", "int16"))
def test_each_layer(name: str, tmp_path: Path) -> None:
    """A layer is fed LiteRT's own input tensors."""
    whole = tmp_path / "whole.tflite"
    whole.write_bytes(network(ranges()) if name == "network" else NETS[name]())
    model, values = read(whole), []
    made = litert.interpreter(whole.read_bytes(), every=True)
    places = {d["name"]: d["index"] for d in made.get_tensor_details()}
    for x in inputs(model):
        litert.run(made, [x])
        values.append({i: made.get_tensor(places[t.name]) for i, t in enumerate(model.tensors) if t.data is None})
    for k, op in enumerate(model.operators):
        if op.kind == "QUANTIZE":
            continue  # alone it would have an int8 input; the file as a whole has it in `test_back_to_int8`
        one, sources, results = cut_out(model, k, k)
        compiled, differences = packed(one, tmp_path), []
        loaded = engine.load(compiled.data)
        for tensors in values:
            for j, i in enumerate(sources):
                loaded.set_input(j, tensors[i])
            loaded.run()
            differences.append(loaded.output(0).reshape(-1).astype(int) - tensors[results[0]].reshape(-1))
        d = np.concatenate(differences)
        print(f"{k} {op.kind}: {np.mean(d == 0):.4f} equal, {np.abs(d).max()} steps at most")
        assert np.abs(d).max() <= ROUGH.get(op.kind, 1), (k, op.kind)
        assert op.kind in ROUGH or np.mean(d == 0) >= 0.995, (k, op.kind, np.mean(d == 0))


def test_back_to_int8(tmp_path: Path) -> None:
    """The second output is the first one as int8."""
    compiled = packed(NETS["int16"](), tmp_path)
    assert compiled.model.steps[-1].kernel == "narrow_s8"
    loaded, tensors = engine.load(compiled.data), [compiled.model.tensors[t] for t in compiled.model.outputs]
    for x in inputs(read(tmp_path / "net.tflite")):
        loaded.set_input(0, x)
        loaded.run()
        real = loaded.output(0) * tensors[0].scale
        assert np.array_equal(loaded.output(1), np.clip(np.floor(real / tensors[1].scale + 0.5) - 128, -128, 127))


def unary(kind: str, scale: float, options: tuple[str, dict[str, float]] | None = None) -> bytes:
    net = Tflite()
    x, y = net.tensor([1, 2048], "int16", scale), net.tensor([1, 2048], "int16", 2.0**-15)
    net.operator(kind, [x], [y], *(options or ()))
    return net.bytes([x], [y])


@pytest.mark.parametrize("kind", ("TANH", "LOGISTIC", "SOFTMAX"))
@pytest.mark.parametrize("scale", (2.0**-12, 1e-5, 2.0**-10))
def test_functions_are_exact_within_a_step(kind: str, scale: float, tmp_path: Path) -> None:
    """Over the whole range of int16, fine scales and coarse ones."""
    options = ("SoftmaxOptions", {"beta": 1.0}) if kind == "SOFTMAX" else None
    xs = [np.arange(-32768, 32768, 32).astype(np.int16).reshape(1, 2048) + np.int16(k) for k in range(0, 32, 11)]
    if kind == "SOFTMAX":
        xs += [np.full((1, 2048), -5, np.int16), np.where(np.arange(2048) == 7, 3000, -3000).astype(np.int16)[None]]
    for x, y in zip(xs, answers(packed(unary(kind, scale, options), tmp_path), xs), strict=True):
        real = x.astype(np.float64) * np.float64(np.float32(scale))
        e = np.exp(real - real.max())
        exact = {"TANH": np.tanh(real), "LOGISTIC": 1 / (1 + np.exp(-real)), "SOFTMAX": e / e.sum()}[kind]
        assert np.abs(y - np.minimum(exact * 2**15, 32767)).max() <= 1.25, kind


@pytest.mark.parametrize(
    ("dtypes", "kernels"),
    [
        (("int16", "int16"), ["conv2d_s16", "binary_s16", "binary_s16"]),
        (("int8", "int16"), ["conv2d_s16", "narrow_s8", "widen_s16"]),
        (("int8", "int8"), ["conv2d_s16", "narrow_s8", "lut_s8"]),
    ],
)
def test_several_scales_in_a_row(dtypes: tuple[str, str], kernels: list[str], tmp_path: Path) -> None:
    """FULLY_CONNECTED, QUANTIZE, QUANTIZE: each rounds as the file says."""
    rng, net, shape = np.random.default_rng(8), Tflite(), [1, 20]
    x, y = net.tensor([1, 9], "int16", 1e-3), net.tensor(shape, "int16", 2e-3)
    first, second = (
        net.tensor(shape, dtype, scale * (256 if dtype == "int8" else 1))
        for dtype, scale in zip(dtypes, (3e-3, 1e-3), strict=True)
    )
    w = net.constant(rng.integers(-127, 128, (20, 9)).astype(np.int8), 0.02)
    b = net.constant(rng.integers(-(2**16), 2**16, 20).astype(np.int64), 2e-5)
    net.operator("FULLY_CONNECTED", [x, w, b], [y], "FullyConnectedOptions", {"activation": 0})
    net.operator("QUANTIZE", [y], [first])
    net.operator("QUANTIZE", [first], [second])
    content = net.bytes([x], [second])
    compiled = packed(content, tmp_path)
    assert [s.kernel for s in compiled.model.steps] == kernels
    made, xs = litert.interpreter(content), inputs(read(tmp_path / "net.tflite"))
    d = np.array(answers(compiled, xs)).astype(int) - np.array([litert.run(made, [v])[0] for v in xs])
    assert np.abs(d).max() <= 3  # a step of the scale in the middle, where LiteRT rounds twice


def mixed(bias: int = 1000) -> bytes:
    """CONV_2D, BATCH_MATMUL with itself, CONV_2D: there is no kernel of int16 for the one in the middle."""
    rng, net, shapes = np.random.default_rng(2), Tflite(), ([1, 4, 4, 2], [1, 4, 4, 4], [1, 4, 4, 2])
    ids = [
        net.tensor(shapes[k], "int16", scale) for k, scale in zip((0, 0, 1, 2), (1e-4, 2e-4, 3e-3, 2e-2), strict=True)
    ]

    def conv(x: int, y: int, scale: float, bias: int, cin: int) -> None:
        w = net.constant(rng.integers(-127, 128, (2, 3, 3, cin)).astype(np.int8), 0.01)
        b = net.constant(np.array([bias, -5], np.int64), scale * 0.01)
        net.operator("CONV_2D", [x, w, b], [y], "Conv2DOptions", {**CONV, "activation": 0})

    conv(ids[0], ids[1], 1e-4, bias, 2)
    net.operator("BATCH_MATMUL", [ids[1], ids[1]], [ids[2]], "BatchMatMulOptions", {"adj_y": True})
    conv(ids[2], ids[3], 3e-3, 7, 4)
    return net.bytes([ids[0]], [ids[3]])


@pytest.mark.parametrize("bias", (1000, 2**31 - 1))
def test_what_has_no_kernel_of_int16_is_int8(bias: int, tmp_path: Path) -> None:
    """Between layers of int16, with a warning that names it; a bias of 31 bits is exact."""
    path, said = tmp_path / "net.tflite", []
    path.write_bytes(mixed(bias))
    compiled = compile_file(path, warn=said.append)
    assert said == ["int16 tensors become int8, the same range in steps 256 times larger: 't2'; see the quality line"]
    kernels = ["conv2d_s16", "narrow_s8", "matmul_s8", "widen_s16", "conv2d_s16"]
    assert [s.kernel for s in compiled.model.steps] == kernels
    assert compiled.model.steps[0].blobs["bias"].tolist() == [bias, -5]
    made, xs = litert.interpreter(path.read_bytes()), inputs(read(path))
    expected = np.array([litert.run(made, [x])[0] for x in xs]).astype(int)
    d = np.array(answers(compiled, xs)) - expected
    # A square has twice the error of what is squared.
    assert np.sqrt(np.mean(d**2)) < 0.04 * np.sqrt(np.mean(expected**2)) or bias > 1000


def test_a_bias_that_32_bits_do_not_hold(tmp_path: Path) -> None:
    """Its layer computes in int8, as all of them once did."""
    path, said = tmp_path / "net.tflite", []
    path.write_bytes(mixed(2**33))
    compiled = compile_file(path, warn=said.append)
    assert [s.kernel for s in compiled.model.steps] == ["conv2d_s8", "matmul_s8", "widen_s16", "conv2d_s16"]
    assert len(said) == 1 and said[0].startswith("int16 tensors become int8")
