"""Operators of arithmetic, reduction and normalisation: each within 1.5 steps of the float operator.

The truth is ONNX Runtime on the dequantised inputs, so the error is that of the operator's kernels alone.
"""

from __future__ import annotations

import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nets import Net, assert_same, core, float_outputs, ops, refusal_of, truth
from onnx import TensorProto
from quantisation_steps import MOST, compiled, quantisation_steps

from mica.compile import compile_file
from mica.ir.ops import UNARY_FUNCTIONS
from mica.passes.lower import unary as lower_unary
from mica.passes.supported import ONNX_OPS
from mica.reference import unary
from mica.run.host import HostRunner

BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64
TMP = Path(tempfile.mkdtemp())


def data(name: str, shape: tuple[int, ...], low: float = -3.0, high: float = 3.0) -> np.ndarray:
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return rng.uniform(low, high, shape).astype(np.float32)


def node(op: str, *inputs: Any, opset: int = 17, out: int = 1, dtype: int = 1, **attrs: Any) -> Net:
    """One node. An input is a shape (data) or an array (a constant)."""
    net = Net(opset)
    names = []
    for k, i in enumerate(inputs):
        is_shape = isinstance(i, tuple)
        names.append(net.input(i, f"x{k}") if is_shape else "" if i is None else net.const(i))
    outputs = [f"y{k}" for k in range(out)]
    net.add(op, *names, outputs=outputs, name="it", **attrs)
    for o in outputs:
        net.output(o, dtype=dtype)
    return net


def feeds(net: Net, low: float = -3.0, high: float = 3.0) -> dict[str, np.ndarray]:
    return {
        i.name: data(f"{i.name} {low}", tuple(d.dim_value for d in i.type.tensor_type.shape.dim), low, high)
        for i in net.inputs
    }


# Functions of one variable

DOMAIN = {
    "Acos": (-1.0, 1.0),
    "Acosh": (1.0, 9.0),
    "Asin": (-1.0, 1.0),
    "Atanh": (-0.95, 0.95),
    "Log": (0.01, 9.0),
    "Sqrt": (0.0, 9.0),
    "Tan": (-1.4, 1.4),
    "Reciprocal": (0.1, 3.0),
}
LATER = {"Gelu": 20, "Mish": 18, "HardSwish": 14, "Swish": 24}
TABLES = [*sorted(set(lower_unary.LOWERINGS) - {"Cast", "Clip"}), "Neg"]


@pytest.mark.parametrize("op", [op for op in TABLES if op != "Swish"])
def test_functions(op: str) -> None:
    net = node(op, (1, 3, 50), opset=LATER.get(op, 17))
    low, high = DOMAIN.get(op, (-4.0, 4.0))
    assert quantisation_steps(net, feeds(net, low, high)) <= 0.51  # a table rounds once; the rest is float32


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("LeakyRelu", {"alpha": 0.3}), ("Elu", {"alpha": 2.0}), ("Celu", {"alpha": 0.5}),
        ("Shrink", {"bias": 0.3, "lambd": 1.1}),
        ("Selu", {"alpha": 2.0, "gamma": 0.7}), ("ThresholdedRelu", {"alpha": 0.4}), ("HardSigmoid",
            {"alpha": 0.3, "beta": 0.4}),
    ],
)  # fmt: skip
def test_functions_with_arguments(op: str, attrs: dict[str, float]) -> None:
    net = node(op, (1, 150), **attrs)
    assert quantisation_steps(net, feeds(net)) <= 0.51


def test_every_function_is_known() -> None:
    assert set(UNARY_FUNCTIONS) == set(unary.FUNCTIONS)
    assert set(TABLES) <= ONNX_OPS


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(approximate: str) -> None:
    net = node("Gelu", (1, 300), opset=20, approximate=approximate)
    assert quantisation_steps(net, feeds(net)) <= 0.51


@pytest.mark.parametrize("op", ["Log", "Sqrt", "Reciprocal", "Atanh", "Acosh", "Acos"])
def test_poles_saturate(op: str) -> None:
    """Infinity in float becomes the end of the int8 range, and NaN becomes 0. The range is that of finite results."""
    net = node(op, (1, 101))
    x = {"x0": np.linspace(-2, 2, 101, dtype=np.float32)[None]}
    c = compiled(net, x)
    assert quantisation_steps(net, x, c) <= 0.51
    real = (np.arange(-128, 128) - c.model.tensors[0].zero_point) * c.model.tensors[0].scale
    with np.errstate(all="ignore"):
        y = unary.apply(UNARY_OF[op][0], real, UNARY_OF[op][1])
    (step,) = c.model.steps
    table, zero = step.blobs["table"], c.model.tensors[step.outputs[0]].zero_point
    assert (table[np.isnan(y)] == zero).all()
    assert (table[y == np.inf] == 127).all()
    assert (table[y == -np.inf] == -128).all()


UNARY_OF: dict[str, tuple[str, tuple[Any, ...]]] = {
    "Log": ("log", ()), "Sqrt": ("sqrt", ()), "Reciprocal": ("reciprocal", (1.0,)), "Atanh": ("atanh", ()),
    "Acosh": ("acosh", ()), "Acos": ("acos", ()),
}  # fmt: skip


@pytest.mark.parametrize("exponent", [2.0, 3.0, 0.5, -1.0, 1.0, 0.0, 1.7])
def test_power(exponent: float) -> None:
    net = node("Pow", (1, 90), np.float32(exponent))
    assert quantisation_steps(net, feeds(net, 0.2, 3.0)) <= 0.51
    net = node("Pow", np.float32(1.5), (1, 90))
    assert quantisation_steps(net, feeds(net)) <= 0.51


def test_casts() -> None:
    net = node("Cast", (1, 60), dtype=BOOL, to=BOOL)
    assert quantisation_steps(net, {"x0": np.tile(np.float32([0, 1, -2]), 20)[None]}) == 0
    net = Net()
    whole = net.add("Cast", net.input([1, 60]), to=INT64)
    net.output(net.add("Mul", net.add("Cast", whole, to=1), net.const(np.float32(0.3))))
    assert quantisation_steps(net, feeds(net, -30, 30)) <= 0.51
    with pytest.raises(AssertionError, match="gives an output"):
        refusal_of(node("Cast", (1, 60), dtype=INT64, to=INT64))


# Two tensors

SHAPES = [
    ((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (4,)), ((2, 3, 4), (3, 1)), ((5,), (2, 1, 5)), ((2, 1, 3), (1, 4, 1)),
    ((), (3,)),
    ((2, 1, 3, 1, 2, 1), (1, 2, 1, 3, 1, 2)), ((1, 6, 5, 5), (1, 6, 1, 1)), ((), ()),
]  # fmt: skip


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Max", "Min"])
@pytest.mark.parametrize(("a", "b"), SHAPES, ids=str)
def test_two_tensors(op: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    net = node(op, a, b)
    x = feeds(net)
    if op == "Div":
        x["x1"] = np.abs(x["x1"]) + np.float32(0.3)
    assert quantisation_steps(net, x) <= MOST
    constant = data("constant", b, 0.5, 2.5)
    assert quantisation_steps(node(op, a, constant), {"x0": x["x0"]}) <= MOST
    assert quantisation_steps(node(op, constant, a), {"x1": np.abs(x["x0"]) + np.float32(0.3)}) <= MOST


def test_division_by_zero() -> None:
    """0 / 0 is 0, the rest saturates on the side of its sign."""
    net = node("Div", (1, 6), (1, 6))
    x = {"x0": np.float32([[1, -1, 0, 2, 1, -2]]), "x1": np.float32([[0, 0, 0, 1, 2, 2]])}
    c = compiled(net, x)
    assert quantisation_steps(net, x, c) <= MOST
    with pytest.raises(AssertionError, match="division by zero"):
        refusal_of(node("Div", (1, 3), np.zeros(3, np.float32)))


@pytest.mark.parametrize("op", ["Sum", "Mean", "Max", "Min"])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_many_tensors(op: str, n: int) -> None:
    net = node(op, *[(2, 3, 4), (3, 1), (4,), (2, 1, 1)][:n])
    assert quantisation_steps(net, feeds(net)) <= MOST


def test_extremes_with_numbers() -> None:
    """A constant number is a clamp; others stay."""
    net = node("Max", (2, 3), np.float32(0.5))
    assert quantisation_steps(net, feeds(net)) <= 0.51
    net = node("Min", np.float32([[0.5]]), (3,))
    assert quantisation_steps(net, feeds(net)) <= 0.51
    net = node("Min", (2, 3), np.float32(0.5), (3,), np.float32([1, -1, 1]))
    assert quantisation_steps(net, feeds(net)) <= MOST


@pytest.mark.parametrize("slopes", ["one", "small", "large", "mixed", "computed"])
def test_prelu(slopes: str) -> None:
    shape = (1, 4, 3, 5)
    values = {
        "one": [0.25],
        "small": [0.1, 0.5, -0.3, 1.0],
        "large": [1.0, 1.5, 2.0, 3.0],
        "mixed": [0.1, 2.0, -1.0, 0.5],
    }
    if slopes == "computed":
        net = node("PRelu", shape, (4, 1, 1))
    else:
        net = node("PRelu", shape, np.float32(values[slopes]).reshape(-1, 1, 1))
    assert quantisation_steps(net, feeds(net)) <= MOST
    steps = [s.kernel for s in compiled(net, feeds(net)).model.steps]
    assert steps == {"one": ["lut_s8"], "small": ["mul_s8", "minmax_s8"], "large": ["mul_s8", "minmax_s8"]}.get(
        slopes, ["lut_s8", "mul_s8", "lut_s8", "add_s8"]
    )


def test_clip_with_computed_bounds() -> None:
    net = node("Clip", (2, 30), (), ())
    assert quantisation_steps(net, feeds(net) | {"x1": np.float32(-1), "x2": np.float32(2)}) <= MOST
    net = node("Clip", (2, 30), None, ())
    assert quantisation_steps(net, feeds(net) | {"x2": np.float32(1)}) <= MOST


# Matrix products

PRODUCTS = [
    ((2, 3), (3, 4)), ((3,), (3, 4)), ((2, 3), (3,)), ((3,), (3,)), ((5, 2, 3), (5, 3, 4)), ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)), ((2, 1, 2, 3), (1, 5, 3, 2)), ((2, 2, 1, 2, 2, 3), (1, 2, 2, 1, 3, 2)), ((3,), (5, 3, 4)),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), PRODUCTS, ids=str)
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    assert quantisation_steps(node("MatMul", a, b), feeds(node("MatMul", a, b))) <= MOST
    for net in (node("MatMul", a, data("b", b)), node("MatMul", data("a", a), b)):
        # int8 weights are another network: the float model is right to the last bit, and what is packed runs.
        assert_same(net, core(net, TMP))


@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("c", [None, (), (5,), (4, 1), (4, 5)])
@pytest.mark.parametrize("alpha", [1.0, -0.5])
def test_gemm(trans_a: int, trans_b: int, c: tuple[int, ...] | None, alpha: float) -> None:
    a, b = ((3, 4) if trans_a else (4, 3)), ((5, 3) if trans_b else (3, 5))
    attrs = {"transA": trans_a, "transB": trans_b, "alpha": alpha, "beta": 0.5}
    net = node("Gemm", a, b, *([] if c is None else [c]), **attrs)
    assert quantisation_steps(net, feeds(net)) <= MOST
    constant = node("Gemm", a, data("b", b), *([] if c is None else [data("c", c)]), **attrs)
    assert_same(constant, core(constant, TMP))


def test_scaled_product() -> None:
    """Attention's 1 / sqrt(d) is a factor of the product; a transposed operand is read as it lies."""
    net = Net()
    a, b = net.input([2, 4, 8], "a"), net.input([2, 4, 8], "b")
    y = net.add("MatMul", a, net.add("Transpose", b, perm=[0, 2, 1]))
    net.output(net.add("Div", y, net.const(np.float32(2.5))))
    g = core(net, TMP)
    assert ops(g) == ["MatMul"]
    assert g.nodes[-1 if g.nodes[-1].op == "MatMul" else 0].attrs["transpose_b"] is True
    assert_same(net, g)


# Reductions

REDUCTIONS = ["ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin"]
REDUCTIONS += ["ReduceSum", "ReduceSumSquare"]


@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("axes", [None, [0], [1], [-1], [0, 2], [1, 2], [0, 1, 2, 3], [3, 1]], ids=str)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_reductions(op: str, axes: list[int] | None, keepdims: int) -> None:
    low = 0.0 if op == "ReduceLogSum" else -3.0
    shape = (2, 3, 4, 5)
    by_input = op == "ReduceSum" or (axes is not None and 2 in axes)
    if axes is None:
        net = node(op, shape, keepdims=keepdims)
    elif by_input:
        net = node(op, shape, np.array(axes), opset=18, keepdims=keepdims)
    else:
        net = node(op, shape, opset=13, keepdims=keepdims, axes=axes)
    assert quantisation_steps(net, feeds(net, low, 3.0)) <= MOST


def test_reduction_over_nothing() -> None:
    net = node("ReduceSum", (2, 3), np.zeros(0, np.int64), noop_with_empty_axes=1)
    assert quantisation_steps(net, feeds(net)) <= 0.51
    net = node("ReduceMax", (2, 1, 3), opset=13, axes=[1])
    assert ops(core(net, TMP)) == []


def test_long_sums() -> None:
    """The sums that 32 bits hold are exact; longer ones are refused."""
    net = node("ReduceMean", (2, 30000), opset=13, axes=[1])
    assert quantisation_steps(net, feeds(net)) <= 0.51
    net = node("ReduceL2", (2, 40000), opset=13, axes=[1])
    with pytest.raises(AssertionError, match="40000 numbers"):
        refusal_of(net)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("last", [0, 1])
def test_argmax(op: str, axis: int, keepdims: int, last: int) -> None:
    net = node(op, (3, 4, 5), dtype=INT64, axis=axis, keepdims=keepdims, select_last_index=last)
    x = np.random.default_rng(axis + 9).integers(-2, 3, (3, 4, 5)).astype(np.float32)
    assert quantisation_steps(net, {"x0": x}) == 0
    assert compiled(net, {"x0": x}).model.tensors[-1].dtype == "int32"


def test_places_become_numbers(tmp_path: Path) -> None:
    net = Net()
    y = net.add("Cast", net.add("ArgMax", net.input([2, 5]), axis=1), to=1)
    net.output(net.add("Mul", y, net.const(np.float32(2))))
    x = np.random.default_rng(0).normal(size=(16, 2, 5)).astype(np.float32)
    made = compile_file(net.save(tmp_path), {"x": x}, plain=True)
    with HostRunner(made.data) as runner:
        np.testing.assert_allclose(runner.predict(x[:1]).ravel(), 2 * x[0].argmax(axis=1), atol=0.05)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("opset", [11, 13])
def test_softmax(op: str, axis: int, opset: int) -> None:
    net = node(op, (2, 3, 4), axis=axis, opset=opset)
    assert quantisation_steps(net, feeds(net)) <= MOST


def test_log_softmax_far_from_zero() -> None:
    net = node("LogSoftmax", (2, 4))
    x = np.float32([[0, 1, 2, 3], [10000, 10001, 10002, 10003]])
    assert quantisation_steps(net, {"x0": x}) <= MOST
    net = node("ReduceLogSumExp", (8, 300), opset=13, axes=[1])
    assert quantisation_steps(net, feeds(net, -9, 9)) <= MOST


@pytest.mark.parametrize("p", [1, 2])
def test_global_lp_pool(p: int) -> None:
    net = node("GlobalLpPool", (1, 3, 5, 4), p=p)
    assert quantisation_steps(net, feeds(net)) <= MOST


# Normalisation


@pytest.mark.parametrize("shape", [(2, 8), (2, 3, 16), (4, 2, 5, 3)], ids=str)
@pytest.mark.parametrize("axis", [-1, 1])
def test_layer_normalisation(shape: tuple[int, ...], axis: int) -> None:
    inner = shape[axis:]
    net = node("LayerNormalization", shape, data("g", inner, 0.5, 2.0), data("b", inner), axis=axis, epsilon=1e-3)
    assert quantisation_steps(net, feeds(net)) <= MOST
    assert quantisation_steps(node("LayerNormalization", shape, np.float32([1.5]), axis=axis), feeds(net)) <= MOST
    assert len(compiled(net, feeds(net)).model.steps) == 1


def test_layer_normalisation_of_flat_rows() -> None:
    """Rows that hardly vary: epsilon decides. Rows that do not: beta."""
    net = node("LayerNormalization", (4, 8), data("g", (8,)), data("b", (8,)), epsilon=1e-2)
    x = np.float32([[1] * 8, [1] * 7 + [1.02], [1, 0.99] * 4, list(range(8))])
    assert quantisation_steps(net, {"x0": x}) <= MOST


def test_long_rows() -> None:
    net = node("LayerNormalization", (2, 60000), np.float32([2.0]), np.float32([0.5]))
    x = data("long", (2, 60000)) ** 3
    x[0, 7] = 200  # far from the mean, as far as sqrt(n) allows
    assert quantisation_steps(net, {"x0": x}) <= MOST
    with pytest.raises(AssertionError, match="70000 elements"):
        refusal_of(node("LayerNormalization", (1, 70000), np.float32([2.0])))


@pytest.mark.parametrize("shape", [(1, 4, 5, 6), (2, 3, 7)], ids=str)
def test_instance_normalisation(shape: tuple[int, ...]) -> None:
    c = shape[1]
    net = node("InstanceNormalization", shape, data("g", (c,), 0.5, 2.0), data("b", (c,)))
    assert quantisation_steps(net, feeds(net)) <= MOST


def test_group_normalisation() -> None:
    """ONNX Runtime has no kernel for it: spelled out here."""
    c, groups = 6, 3
    scale, shift = (data(n, (c,), 0.5, 2.0) for n in "gb")
    net = node("GroupNormalization", (1, c, 4, 5), scale, shift, opset=21, num_groups=groups)
    g = core(net, TMP)
    x = feeds(net)["x0"]
    rows = x.reshape(groups, -1).astype(np.float64)
    normal = ((rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + 1e-5)).reshape(c, -1)
    expected = (normal * scale[:, None] + shift[:, None]).reshape(x.shape)
    np.testing.assert_allclose(float_outputs(g, {"x0": x})["y0"], expected, atol=1e-4)
    assert ops(g) == ["LayerNorm"]


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("p", [1, 2])
def test_lp_normalisation(axis: int, p: int) -> None:
    net = node("LpNormalization", (3, 4, 5), axis=axis, p=p)
    assert quantisation_steps(net, feeds(net)) <= MOST


def test_mean_variance_normalisation() -> None:
    net = node("MeanVarianceNormalization", (2, 3, 4, 5))
    assert quantisation_steps(net, feeds(net)) <= MOST
    net = node("MeanVarianceNormalization", (2, 3, 4), axes=[2])
    assert quantisation_steps(net, feeds(net)) <= MOST


# Truth


@pytest.mark.parametrize("op", ["Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal"])
def test_comparisons(op: str) -> None:
    net = node(op, (4, 50), (4, 50), dtype=BOOL)
    x = np.random.default_rng(1).integers(-5, 6, (2, 4, 50)).astype(np.float32)
    assert quantisation_steps(net, {"x0": x[0], "x1": x[1]}) == 0  # equal as booleans: quantisation_steps compares them
    for net in (node(op, (4, 50), np.float32(1), dtype=BOOL), node(op, np.float32(1), (4, 50), dtype=BOOL)):
        assert quantisation_steps(net, {net.inputs[0].name: x[0]}) == 0


@pytest.mark.parametrize("op", ["And", "Or", "Xor"])
def test_logic(op: str) -> None:
    net = Net()
    a, b = net.input([2, 4], "a", BOOL), net.input([2, 4], "b", BOOL)
    net.output(net.add("Not", net.add(op, a, b)), dtype=BOOL)
    bits = np.arange(16).reshape(2, 8)
    assert quantisation_steps(net, {"a": bits[:, :4] % 2 == 0, "b": bits[:, 4:] % 4 < 2}) == 0


def test_where() -> None:
    net = Net()
    a, b = net.input([2, 3, 4], "a"), net.input([3, 1], "b")
    net.output(net.add("Where", net.add("Greater", a, b), a, b))
    assert quantisation_steps(net, feeds(net)) <= MOST
    net = Net()
    c, b = net.input([2, 3, 4], "c", BOOL), net.input([3, 1], "b")
    net.output(net.add("Where", c, b, net.const(np.float32(0.7))))
    x = {"c": data("c", (2, 3, 4)) > 0, "b": data("b", (3, 1))}
    assert quantisation_steps(net, x) <= MOST


def test_quantised_scale_of_a_product() -> None:
    """Operators of two tensors take the scales of a quantised model, as all others do."""
    net = Net(seed=3)
    a, b = net.input([1, 4, 6], "a"), net.input([1, 4, 6], "b")
    real = []
    for x, s in ((a, 0.03), (b, 0.05)):
        q = net.add("QuantizeLinear", x, net.const(np.float32(s)), net.const(np.int8(3)))
        real.append(net.add("DequantizeLinear", q, net.const(np.float32(s)), net.const(np.int8(3))))
    q = net.add("QuantizeLinear", net.add("Mul", *real), net.const(np.float32(0.11)), net.const(np.int8(-7)))
    net.output(net.add("DequantizeLinear", q, net.const(np.float32(0.11)), net.const(np.int8(-7))))
    x = feeds(net)
    c = compiled(net, x)
    assert [s.kernel for s in c.model.steps] == ["mul_s8"]
    expected = truth(net, x)
    assert quantisation_steps(net, x, c) <= 1.01, expected.keys()


@pytest.mark.parametrize("op", ["Mul", "Div", "Max", "MatMul"])
@pytest.mark.parametrize("seed", range(12))
def test_random_scales(op: str, seed: int) -> None:
    """Operands whose ranges differ by up to 10**4, off centre."""
    rng = np.random.default_rng(seed)
    net = node(op, (6, 6), (6, 6))
    sizes = 10.0 ** rng.uniform(-2, 2, 2)
    x = {f"x{k}": ((rng.random((6, 6)) + rng.uniform(-1, 0.3)) * sizes[k]).astype(np.float32) for k in range(2)}
    if op == "Div":
        x["x1"] = np.abs(x["x1"]) + np.float32(sizes[1] / 4)
    assert quantisation_steps(net, x) <= MOST
