"""Quantisation: each number against the exact one, by fractions where rounding decides."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nets import Net, core, imported, single, truth

from mica import engine
from mica.compile import Compiled, compile_file
from mica.data.calibration import default_samples, load_calibration, samples_for
from mica.errors import MicaError, Unsupported
from mica.file.codec import StepRecord
from mica.format.schema import SHIFT_MAX, SHIFT_MIN, STEP_FLAGS
from mica.format.values import dequantise_output, quantise_input
from mica.ir.graph import Graph, Node, Quant
from mica.passes import pipeline
from mica.quantise import ranges
from mica.quantise.calibrate import Range, calibrate
from mica.quantise.kernels import STEPS
from mica.quantise.kernels.softmax import softmax_table
from mica.quantise.params import from_range, quantise_multiplier
from mica.quantise.quantise import quantise
from mica.reference import unary
from mica.reference.float_ops import pool_counts


def half_even(x: Fraction) -> int:
    return round(x)  # Python rounds halves of a Fraction to even


def run(compiled: Compiled, *xs: np.ndarray) -> np.ndarray:
    """The first output, as real numbers, of float inputs."""
    model, loaded = compiled.model, engine.load(compiled.data)
    for i, x in enumerate(xs):
        loaded.set_input(i, quantise_input(x, model.tensors[model.inputs[i]]))
    loaded.run()
    return dequantise_output(loaded.output(0), model.tensors[model.outputs[0]])


def step(compiled: Compiled, kernel: str) -> StepRecord:
    (found,) = [s for s in compiled.model.steps if s.kernel == kernel]
    return found


# Multipliers


def test_multipliers_against_fractions() -> None:
    """mult * 2**-(31 + shift) is the factor, rounded once to 31 bits."""
    rng = np.random.default_rng(0)
    factors = np.concatenate(
        [2.0 ** rng.uniform(-31.5, 29.9, 4000), [1.0, 0.5, 2.0, 1 - 2.0**-53, 1 - 2.0**-33, 1 / 3]]
    )
    mult, shift = quantise_multiplier(factors)
    assert mult.dtype == np.int32
    assert shift.dtype == np.int8
    for f, m, s in zip(factors, mult.tolist(), shift.tolist(), strict=True):
        assert 2**30 <= m < 2**31
        assert SHIFT_MIN <= s <= SHIFT_MAX
        exact = Fraction(float(f)) * Fraction(2) ** (31 + s)
        assert m == half_even(exact) or (
            m == 2**30 and half_even(2 * exact) == 2**31
        )  # rounded up into the next binade


def test_multipliers_at_the_edges() -> None:
    mult, shift = quantise_multiplier(np.array([0.0, 1e-300, 2.0**-33, 2.0**-32, 2.0**-32 * 1.001, 2.0**30 - 1]))
    assert mult.tolist()[:3] == [0, 0, 0]
    assert shift.tolist()[:3] == [0, 0, 0]
    assert (mult[3], shift[3]) == (2**30, 31)
    assert shift[4] == 31
    assert (mult[5], shift[5]) == (2**31 - 2, -30)
    with pytest.raises(ValueError, match="too large"):
        quantise_multiplier(np.array([2.0**30]))
    # The largest there is rounds up into a binade that does not exist.
    with pytest.raises(ValueError, match="too large"):
        quantise_multiplier(np.array([2.0**30 * (1 - 2.0**-40)]))


# Scales


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 255.0, Quant(1.0, -128)),
        (-255.0, 0.0, Quant(1.0, 127)),
        (-128.0, 127.0, Quant(1.0, 0)),
        (10.0, 255.0, Quant(1.0, -128)),  # zero is one of the integers, always
        (-255.0, -10.0, Quant(1.0, 127)),
        (0.0, 0.0, Quant(1.0, 0)),
        (-1e-40, 1e-40, Quant(1.0, 0)),
        (5.0, 5.0, Quant(float(np.float32(5 / 255)), -128)),
    ],
)
def test_from_range(low: float, high: float, expected: Quant) -> None:
    assert from_range(Range(low, high)) == expected


def test_from_range_everywhere() -> None:
    """Scale a positive float32; zero an integer; both ends within half a step of an integer that exists."""
    rng = np.random.default_rng(0)
    for _ in range(500):
        a, b = sorted((rng.standard_normal(2) * 10.0 ** rng.uniform(-25, 37)).astype(np.float32).tolist())
        q = from_range(Range(a, b))
        assert q.scale == np.float32(q.scale)
        assert 0 < q.scale < np.inf
        assert -128 <= q.zero_point <= 127
        low, high = q.dequantise(np.array([-128, 127]))
        assert low - 0.51 * q.scale <= min(a, 0)
        assert max(b, 0) <= high + 0.51 * q.scale
        assert q.dequantise(q.quantise(np.zeros(1))) == 0


def test_fixed_scales_and_kept_scales(tmp_path: Path) -> None:
    net = Net()
    x = net.input([1, 2, 4, 4])
    y = net.add("MaxPool", net.add("Sigmoid", x), kernel_shape=[2, 2])
    net.output(net.add("Reshape", net.add("Transpose", y, perm=[0, 2, 3, 1]), net.const([18])))
    net.output(net.add("Tanh", x))
    net.output(net.add("Softmax", x))
    model = compile_file(net.save(tmp_path)).model
    found = [(model.tensors[t].scale, model.tensors[t].zero_point) for t in model.outputs]
    assert found == [(1 / 256, -128), (1 / 128, 0), (1 / 256, -128)]


# Convolutions and matrix products


def dense(tmp_path: Path, w: np.ndarray, b: np.ndarray, x: np.ndarray) -> Compiled:
    net = Net()
    net.output(net.add("Gemm", net.input([1, w.shape[1]]), net.const(w), net.const(b), transB=1))
    return compile_file(net.save(tmp_path), {"x": x})


def test_weights_by_hand(tmp_path: Path) -> None:
    w = np.array([[1.27, -0.5, 0.0], [0.0, 0.254, -0.1]], np.float32)
    b = np.array([1.0, -2.0], np.float32)
    x = np.array([[0, 0, 0], [2.55, 2.55, 2.55]], np.float32)  # scale 0.01, zero point -128
    compiled = dense(tmp_path, w, b, x)
    blobs = step(compiled, "fully_connected_s8").blobs
    assert blobs["weights"].tolist() == [[127, -50, 0], [0, 127, -50]]
    scale_x, scale_w = float(np.float32(0.01)), [float(w[0, 0]) / 127, float(w[1, 1]) / 127]
    for k, total in enumerate((77, 77)):
        assert blobs["bias"][k] == round(float(b[k]) / (scale_x * scale_w[k])) + 128 * total
        factor = blobs["mult"][k] * 2.0 ** -(31 + int(blobs["shift"][k]))
        scale_y = compiled.model.tensors[compiled.model.outputs[0]].scale
        assert factor == pytest.approx(scale_x * scale_w[k] / scale_y, rel=2**-30)


@pytest.mark.parametrize("op", ["Conv", "depthwise", "Gemm"])
@pytest.mark.parametrize("dead", [0.0, 1e-30, 1e-12])
@pytest.mark.parametrize("live_bias", [3.0, -7.5, 1e-3, 0.0])
def test_dead_channels_keep_their_bias(tmp_path: Path, op: str, dead: float, live_bias: float) -> None:
    """A batch normalisation that died leaves weights near 1e-30 and a bias: the output is the bias within a step."""
    net = Net()
    n = 6
    b = net.rng.standard_normal(n).astype(np.float32)
    b[[1, 4]] = live_bias
    shape = {"Conv": (n, 3, 3, 3), "depthwise": (n, 1, 3, 3), "Gemm": (n, 20)}[op]
    w = net.rng.standard_normal(shape).astype(np.float32)
    w[[1, 4]] *= dead
    x = net.input([1, 20] if op == "Gemm" else [1, 3, 5, 5])
    if op == "Gemm":
        net.output(net.add("Gemm", x, net.const(w), net.const(b), transB=1))
    else:
        net.output(net.add("Conv", x, net.const(w), net.const(b), group=3 if op == "depthwise" else 1))
    samples = net.samples(16)
    compiled = compile_file(net.save(tmp_path), {"x": np.concatenate([s["x"] for s in samples])})
    kernel = {"Conv": "conv2d_s8", "depthwise": "depthwise_conv2d_s8", "Gemm": "fully_connected_s8"}[op]
    record = step(compiled, kernel)
    assert record.flags & STEP_FLAGS["FAST"]
    scale = compiled.model.tensors[compiled.model.outputs[0]].scale
    for s in samples[:4]:
        y = run(compiled, s["x"]).reshape(n, -1)
        assert np.abs(y[[1, 4]] - live_bias).max() <= scale
        assert np.abs(y - truth(net, s)[net.outputs[0].name].reshape(n, -1)).max() < 0.1 * max(256 * scale / 10, 1)


def test_every_weight_zero(tmp_path: Path) -> None:
    compiled = dense(tmp_path, np.zeros((2, 3), np.float32), np.zeros(2, np.float32), np.ones((4, 3), np.float32))
    assert run(compiled, np.ones((1, 3), np.float32)).tolist() == [[0, 0]]
    assert step(compiled, "fully_connected_s8").flags & STEP_FLAGS["FAST"]


def test_huge_and_tiny_channels_side_by_side(tmp_path: Path) -> None:
    """Channels have their own scales: 12 decades apart, the large one still within a step."""
    w = np.array([[1e6, -2e6], [1e-6, 1e-6]], np.float32)
    x = np.random.default_rng(0).standard_normal((16, 2)).astype(np.float32)
    compiled = dense(tmp_path, w, np.array([0.0, 5e5], np.float32), x)
    scale = compiled.model.tensors[compiled.model.outputs[0]].scale
    y = run(compiled, x[:1])
    # Half a step of the input, times both weights, and one of the output.
    x_scale = compiled.model.tensors[compiled.model.inputs[0]].scale
    assert abs(y[0, 0] - x[0] @ w[0]) <= scale + 3e6 * x_scale / 2 + 3e6 / 127
    assert abs(y[0, 1] - 5e5) <= scale


def test_weights_that_are_no_numbers(tmp_path: Path) -> None:
    for bad in (np.nan, np.inf):
        with pytest.raises(MicaError, match=r"its constant .* holds (NaN|infinity)"):
            dense(tmp_path, np.array([[bad, 1.0]], np.float32), np.zeros(1, np.float32), np.ones((2, 2), np.float32))


def test_a_sum_too_long_for_32_bits_is_refused() -> None:
    """Constructed without the importer: 70,000 weights of 127 on an input with zero point 127."""
    g = Graph("g", ["x"], ["y"])
    g.new_value("x", (1, 70000))
    g.new_value("y", (1, 1))
    w, b = g.new_const("w", np.ones((1, 70000), np.float32)), g.new_const("b", np.zeros(1, np.float32))
    g.nodes = [Node("FullyConnected", "long", ["x", w, b], ["y"], {"clip": (None, None)})]
    with pytest.raises(Unsupported, match=r"node 'long' \(FullyConnected\): sums of channel 0 do not fit 32 bits"):
        quantise(g, {"x": Range(-1.0, 0.0), "y": Range(-70.0, 0.0)})


def test_clamp_is_the_real_one_rounded(tmp_path: Path) -> None:
    net = Net()
    y = net.add("MatMul", net.input([1, 4]), net.random(4, 64, scale=3.0))
    net.output(net.add("Clip", y, net.const(-1.0), net.const(2.0)))
    compiled = compile_file(net.save(tmp_path), {"x": net.rng.standard_normal((64, 4)).astype(np.float32)})
    t = compiled.model.tensors[compiled.model.outputs[0]]
    p = step(compiled, "fully_connected_s8").params
    assert t.scale == pytest.approx(3 / 255)
    assert (p["act_min"], p["act_max"]) == (-128, 127)


# Sums


def test_add_parameters_never_overflow() -> None:
    """Any scales, any zero points, any clamps: the bounds of the format hold, or the node is refused."""
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(3000):
        scales = (
            np.float32(10.0 ** rng.uniform(-12, 12, 3)) if rng.random() < 0.5 else np.float32(rng.uniform(0.01, 1, 3))
        )
        zeros = rng.choice([-128, 127, 0, int(rng.integers(-128, 128))], 3)
        if rng.random() < 0.1:
            scales = np.full(3, 2.0 ** rng.integers(-20, 20), np.float32)
        quants = [Quant(float(s), int(z)) for s, z in zip(scales, zeros, strict=True)]
        g, out = Graph("g", ["a", "b"], ["y"]), Graph("g", ["a", "b"], ["y"])
        for name, q in zip("aby", quants, strict=True):
            for h in (g, out):
                h.new_value(name, (1,))
                h.value(name).quant = q
        signs = (1, int(rng.choice([-1, 1])))
        node = Node("Add", "sum", ["a", "b"], ["y"], {"signs": signs, "clip": (None, None)})
        try:
            STEPS["Add"](g, out, node)
        except ValueError:
            refused += 1
            continue
        p = out.nodes[0].attrs
        assert 128 * (abs(p["mult_a"]) + abs(p["mult_b"])) + abs(p["offset"]) < 2**31
        assert 0 <= p["shift"] <= 30
        # The integers mean what they should: within half a step of the real sum, or, where one step of an operand is
        # thousands of steps of the result, a small part of that.
        qa, qb, qy = quants
        for a in (-128, 0, 127):
            for b in (-128, 5, 127):
                real = (qa.scale * (a - qa.zero_point) + signs[1] * qb.scale * (b - qb.zero_point)) / qy.scale
                found = (a * p["mult_a"] + b * p["mult_b"] + p["offset"]) >> p["shift"]
                if abs(real) < 1000:
                    assert abs(found - real) <= 0.51 + max(qa.scale, qb.scale) / qy.scale * 2.0**-11
    assert 0 < refused < 2500


@pytest.mark.parametrize("op", ["Add", "Sub"])
def test_sum_of_scales_far_apart(tmp_path: Path, op: str) -> None:
    net = Net()
    net.output(net.add(op, net.input([1, 50], "a"), net.input([1, 50], "b")))
    a, b = net.rng.standard_normal((2, 16, 50)).astype(np.float32)
    for factor in (1e-9, 1e-3, 1.0, 1e3, 1e9):
        compiled = compile_file(net.save(tmp_path), {"a": a, "b": b * np.float32(factor)})
        y = run(compiled, a[:1], b[:1] * np.float32(factor))
        scales = [t.scale for t in compiled.model.tensors]
        expected = a[:1] + (1 if op == "Add" else -1) * b[:1] * np.float32(factor)
        assert np.abs(y - expected).max() <= 0.51 * sum(scales)


# Pools


@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("ceil_mode", [0, 1])
def test_average_pool_counts(tmp_path: Path, include: int, ceil_mode: int) -> None:
    """The divisors are ONNX Runtime's: an image of ones gives (taps inside) / divisor."""
    rng = np.random.default_rng(include)
    for _ in range(30):
        h, w = (int(v) for v in rng.integers(3, 9, 2))
        k = [int(v) for v in rng.integers(1, 4, 2)]
        pads = [int(rng.integers(0, k[i % 2])) for i in range(4)]
        attrs: dict[str, Any] = {"kernel_shape": k, "strides": [int(v) for v in rng.integers(1, 3, 2)], "pads": pads}
        net = single("AveragePool", 1, 1, h, w, **attrs, ceil_mode=ceil_mode, count_include_pad=include)
        g = core(net, tmp_path)
        (node,) = [n for n in g.nodes if n.op == "AveragePool2d"]
        x, y = g.value(node.inputs[0]).shape, g.value(node.outputs[0]).shape
        ones = truth(net, {"x": np.ones((1, 1, h, w), np.float32)})[net.outputs[0].name][0, 0]
        node.attrs["count_include_pad"] = 0
        inside = pool_counts(node, x, y)
        node.attrs["count_include_pad"] = include
        np.testing.assert_allclose(inside / pool_counts(node, x, y), ones, rtol=1e-6)


def test_average_pool_table_has_one_entry_where_all_windows_are_whole(tmp_path: Path) -> None:
    whole = compile_file(single("AveragePool", 1, 1, 6, 6, kernel_shape=[2, 3]).save(tmp_path))
    padded = compile_file(single("AveragePool", 1, 1, 6, 6, kernel_shape=[2, 3], pads=[1, 1, 1, 1]).save(tmp_path))
    assert len(step(whole, "average_pool2d_s8").blobs["mult"]) == 1
    assert len(step(padded, "average_pool2d_s8").blobs["mult"]) == 6


# Tables


@pytest.mark.parametrize("length", [1, 2, 3, 10, 256, 257, 1000, 32768, 65535])
@pytest.mark.parametrize("scale", [1e-6, 0.01, 0.1, 1.0, 100.0])
def test_softmax_tables(length: int, scale: float) -> None:
    t = softmax_table(scale, length)
    assert t.dtype == np.uint32
    assert 1 <= t[0] <= 2**23
    assert length * int(t.max()) <= 2**31
    assert (np.diff(t.astype(np.int64)) <= 0).all()
    np.testing.assert_allclose(t / float(t[0]), np.exp(-np.arange(256) * scale), atol=0.5 / t[0] + 1e-12)


def test_softmax_is_within_a_step(tmp_path: Path) -> None:
    net = single("Softmax", 4, 17)
    compiled = compile_file(net.save(tmp_path), {"x": net.rng.uniform(-8, 8, (16, 4, 17)).astype(np.float32)})
    t = compiled.model.tensors[compiled.model.inputs[0]]
    for _ in range(20):
        q = net.rng.integers(-128, 128, (4, 17)).astype(np.int8)
        x = dequantise_output(q, t)
        y = run(compiled, x)
        assert np.abs(y - truth(net, {"x": x})[net.outputs[0].name]).max() <= 1.01 / 256


@pytest.mark.parametrize(("function", "arguments"), [
    ("clip", (-0.7, 0.9)), ("clip", (None, 0.3)), ("affine", (-2.5, 1.25)), ("sigmoid", ()), ("tanh", ()),
    ("leaky_relu", (0.25,)), ("hard_sigmoid", (0.2, 0.5)), ("hard_swish", ()),
])  # fmt: skip
def test_tables_are_the_function_rounded_half_to_even(function: str, arguments: tuple) -> None:
    """Against rational arithmetic on the float64 value of the function; scales that make halves are among them."""
    rng = np.random.default_rng(0)
    odd = rng.uniform(0.001, 0.1, (20, 2)).astype(np.float32).tolist()
    pairs = [(0.5, 0.25), (0.25, 0.5), (1.0, 1.0), *odd]
    for scale_x, scale_y in pairs:
        qx, qy = Quant(scale_x, int(rng.integers(-128, 128))), Quant(scale_y, int(rng.integers(-128, 128)))
        g, out = Graph("g", ["x"], ["y"]), Graph("g", ["x"], ["y"])
        for name, quant in (("x", qx), ("y", qy)):
            for h in (g, out):
                h.new_value(name, (1,))
                h.value(name).quant = quant
        STEPS["Unary"](g, out, Node("Unary", "f", ["x"], ["y"], {"function": function, "arguments": arguments}))
        table = np.asarray(out.data(out.nodes[0].inputs[1]))
        assert table.shape == (256,)
        assert table.dtype == np.int8
        for q in range(-128, 128):
            x = float(Fraction(scale_x) * (q - qx.zero_point))
            real = Fraction(float(unary.apply(function, np.array(x), arguments)))
            near = real / Fraction(scale_y)
            expected = min(127, max(-128, half_even(near) + qy.zero_point))
            from_half = abs(abs(near - half_even(near)) - Fraction(1, 2))
            if from_half == 0 or from_half > 1e-9:  # nearer than that, float64 may have rounded to the other side
                assert table[q + 128] == expected, (function, q, float(near))


# Calibration


def test_calibration_is_the_smallest_and_largest_seen(tmp_path: Path) -> None:
    g = core(single("Neg", 1, 3), tmp_path)
    samples = samples_for(g, {"x": np.array([[1, 2, 3], [-4, 0, 1]], np.float32)})
    seen: list[tuple[int, int]] = []
    ranges = calibrate(g, samples, lambda done, of: seen.append((done, of)))
    assert ranges == {"x": Range(-4, 3), g.outputs[0]: Range(-3, 4)}
    assert seen == [(1, 2), (2, 2)]


def test_no_range_where_the_activations_end_in_infinity(tmp_path: Path) -> None:
    net = Net()
    net.output(net.add("Mul", net.add("Mul", net.input([1, 2]), net.random(1, 2)), net.const(3e38)))
    with pytest.raises(MicaError, match=r"calibration sample 1: node .* computes NaN or infinity"):
        compile_file(net.save(tmp_path), {"x": np.array([[0, 0], [1e20, 1]], np.float32)})


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"x": np.zeros((4, 3), np.float32)}, r"samples have shape \[4, 3\]; expected \[n, 2\]"),
        ({"x": np.zeros((0, 2), np.float32)}, "holds no samples"),
        ({"x": np.array([[1, np.nan]], np.float32)}, "holds NaN or infinity"),
        ({"x": np.array([[1, np.inf]], np.float32)}, "holds NaN or infinity"),
        ({"x": np.float32(1)}, "samples have shape"),
        ({"other": np.zeros((4, 2), np.float32)}, "holds other"),
    ],
)
def test_calibration_refused(tmp_path: Path, arrays: dict[str, np.ndarray], reason: str) -> None:
    with pytest.raises(MicaError, match=reason):
        compile_file(single("Relu", 1, 2).save(tmp_path), arrays)


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"PK\x03\x04 broken", b"\x93NUMPY\x01\x00v\x00", b"PK\x05\x06" + bytes(18)], ids=range(5)
)
def test_calibration_files_that_are_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c.npz"
    path.write_bytes(content)
    with pytest.raises(MicaError, match=r"c\.npz"):
        load_calibration(path, ["x"])


@pytest.mark.parametrize("x", [np.array(["a", "b"]), np.array(3.0), np.array([1 + 2j])], ids=["text", "one", "complex"])
@pytest.mark.parametrize("name", ["x", "image"])
def test_calibration_arrays_that_are_no_samples(tmp_path: Path, name: str, x: Any) -> None:
    path = tmp_path / "c.npz"
    arrays: dict[str, Any] = {name: x}
    np.savez(path, **arrays)
    with pytest.raises(MicaError, match="expected samples of numbers"):
        load_calibration(path, [name])


def test_calibration_file_with_scale_and_offset(tmp_path: Path) -> None:
    """The file fits a model's input of any name, also x."""
    path = tmp_path / "c.npz"
    np.savez(path, x=np.array([[0, 2]], np.uint8), scale=0.5, offset=-1.0)
    for name in ("x", "image"):
        assert load_calibration(path, [name])[name].tolist() == [[-1.0, 0.0]]


def test_calibration_of_several_inputs(tmp_path: Path) -> None:
    path = tmp_path / "c.npz"
    np.savez(path, a=np.zeros((2, 3)), b=np.zeros((2, 4)))
    assert set(load_calibration(path, ["a", "b"])) == {"a", "b"}
    with pytest.raises(MicaError, match="expected one array for each of the inputs a, c"):
        load_calibration(path, ["a", "c"])


def test_made_up_samples(tmp_path: Path) -> None:
    """The same every time; integer inputs see all their integers."""
    g = imported(single("Relu", 1, 50), tmp_path)
    a, b = default_samples(g), default_samples(g)
    assert all(np.array_equal(x["x"], y["x"]) for x, y in zip(a, b, strict=True))
    g.value("x").dtype = "uint8"
    assert max(s["x"].max() for s in default_samples(g)) > 200


def test_integer_graph_keeps_names_and_shapes(tmp_path: Path) -> None:
    net = Net()
    net.output(net.add("Softmax", net.add("Gemm", net.input([1, 4]), net.random(4, 3), net.random(3))))
    g = pipeline.run(imported(net, tmp_path))
    out = quantise(g, calibrate(g, default_samples(g)))
    assert [n.op for n in out.nodes] == ["fully_connected_s8", "softmax_s8"]
    assert out.outputs == g.outputs
    assert all(v.quant is not None for v in out.values.values() if v.data is None)


def test_a_grid_is_of_values_that_come_again() -> None:
    """Integers of a sensor keep their grid; np.linspace's values, which a fine range serves better, are none."""
    integers = np.random.default_rng(0).integers(0, 100, (50, 8)).astype(np.float32) * np.float32(0.25)
    found = ranges.grid(integers)
    assert found is not None and (found.high - found.low) / 255 == pytest.approx(0.125)
    assert ranges.grid(np.linspace(0, 6, 200, dtype=np.float32)[:, None]) is None
    assert ranges.grid([np.arange(5, dtype=np.float32)]) is not None
