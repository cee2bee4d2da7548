"""Passes that merge several exported operators into one: the result, the same numbers, and values that others read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from nets import Net, assert_same, core, ops

from mica.ir.graph import Graph
from mica.passes.recognise_activations import name_of

Wave = Callable[[Net, str], str]


def number(net: Net, v: float) -> str:
    return net.const(np.float32(v))


def hard_swish(net: Net, x: str) -> str:
    y = net.add("Clip", net.add("Add", x, number(net, 3)), number(net, 0), number(net, 6))
    return net.add("Div", net.add("Mul", x, y), number(net, 6))


def gelu(net: Net, x: str) -> str:
    y = net.add("Add", net.add("Erf", net.add("Div", x, number(net, 2**0.5))), number(net, 1))
    return net.add("Mul", net.add("Mul", x, y), number(net, 0.5))


def gelu_tanh(net: Net, x: str) -> str:
    cube = net.add("Mul", net.add("Pow", x, number(net, 3)), number(net, 0.044715))
    y = net.add("Tanh", net.add("Mul", net.add("Add", x, cube), number(net, (2 / np.pi) ** 0.5)))
    return net.add("Mul", net.add("Mul", number(net, 0.5), x), net.add("Add", number(net, 1), y))


ACTIVATIONS: dict[str, tuple[Wave, str]] = {
    "relu6": (lambda n, x: n.add("Min", n.add("Relu", x), number(n, 6)), "clip"),
    "silu": (lambda n, x: n.add("Mul", x, n.add("Sigmoid", x)), "swish"),
    "hard swish": (hard_swish, "hard_swish"),
    "hard swish by HardSigmoid": (
        lambda n, x: n.add("Mul", x, n.add("HardSigmoid", x, alpha=1 / 6, beta=0.5)),
        "hard_swish",
    ),
    "gelu": (gelu, "gelu"),
    "gelu by tanh": (gelu_tanh, "gelu_tanh"),
    "mish": (lambda n, x: n.add("Mul", x, n.add("Tanh", n.add("Softplus", x))), "mish"),
    "leaky relu": (lambda n, x: n.add("Where", n.add("Less", x, number(n, 0)), n.add("Mul", x, number(n, 0.1)), x),
                   "leaky_relu"),
    "chain": (lambda n, x: n.add("Exp", n.add("Neg", n.add("Abs", x))), "composed"),
    "square": (lambda n, x: n.add("Mul", x, x), "composed"),
    "quotient": (lambda n, x: n.add("Div", x, n.add("Add", n.add("Abs", x), number(n, 1))), "composed"),
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(tmp_path: Path, name: str) -> None:
    """One table behind the convolution, with the name of its function."""
    build, function = ACTIVATIONS[name]
    net = Net()
    net.output(build(net, net.conv(net.input([1, 3, 6, 6]), 3, 4)))
    g = core(net, tmp_path)
    assert_same(net, g, 2e-5)
    unary = [n for n in g.nodes if n.op == "Unary"]
    if name == "relu6":  # it vanishes in the convolution
        assert unary == []
    elif name == "square":
        assert [n.op for n in g.nodes if n.op in ("Mul", "Unary")] == ["Mul"]  # one operator is no region
    else:
        assert [n.attrs["function"] for n in unary] == [function]


def test_composed_of_composed(tmp_path: Path) -> None:
    """Longer than one turn takes, and with branches inside."""
    net = Net()
    y = net.input([1, 20])
    for k in range(30):
        y = net.add("Mul", net.add("Tanh", y), net.add("Add", net.add("Cos", y), number(net, 1 + k / 9)))
    net.output(y)
    g = core(net, tmp_path)
    assert_same(net, g, 1e-4)
    assert len(g.nodes) <= 3


def test_others_read_the_middle(tmp_path: Path) -> None:
    """A value with other readers, or an output of the model, is not merged away; all results stay the same."""
    net = Net()
    x = net.input([1, 6])
    s = net.add("Sigmoid", x)
    net.output(net.add("Mul", x, s, outputs=["a"]))
    net.output(net.add("MatMul", s, net.random(6, 3), outputs=["b"]))
    g = core(net, tmp_path)
    assert_same(net, g)
    assert sorted(ops(g)) == ["FullyConnected", "Mul", "Unary"]
    net = Net()
    x = net.input([1, 6])
    net.output(net.add("Sigmoid", x, outputs=["s"]))
    net.output(net.add("Exp", "s", outputs=["y"]))
    assert_same(net, core(net, tmp_path))


def test_two_inputs_are_no_table(tmp_path: Path) -> None:
    net = Net()
    a, b = net.input([1, 6], "a"), net.input([1, 6], "b")
    net.output(net.add("Exp", net.add("Mul", net.add("Tanh", a), net.add("Abs", b))))
    g = core(net, tmp_path)
    assert_same(net, g)
    assert ops(g) == ["Unary", "Unary", "Mul", "Unary"]


def test_broadcasting_is_no_table(tmp_path: Path) -> None:
    """x times the mean of x, which has another shape."""
    net = Net()
    x = net.input([1, 6])
    m = net.add("ReduceMean", x, axes=[1])
    net.output(net.add("Mul", net.add("Tanh", m), net.add("Exp", m)))
    net.output(net.add("Mul", x, net.add("Tanh", m)))
    assert_same(net, core(net, tmp_path))


# Normalisation


def layer_norm(net: Net, x: str, form: str, axes: list[int]) -> str:
    mean = net.add("ReduceMean", x, axes=axes)
    d = net.add("Sub", x, mean)
    if form == "moments":
        square = net.add("ReduceMean", net.add("Mul", x, x), axes=axes)
        variance = net.add("Sub", square, net.add("Mul", mean, mean))
    elif form == "rms":
        variance, d = net.add("ReduceMean", net.add("Pow", x, number(net, 2)), axes=axes), x
    else:
        square = net.add("Mul", d, d) if form == "keras" else net.add("Pow", d, number(net, 2))
        variance = net.add("ReduceMean", square, axes=axes)
    deviation = net.add("Sqrt", net.add("Add", variance, number(net, 1e-3)))
    if form == "keras":
        r = net.add("Mul", net.add("Reciprocal", deviation), net.random(8))
        shift = net.add("Add", net.add("Mul", net.add("Neg", mean), r), net.random(8))
        return net.add("Add", net.add("Mul", x, r), shift)
    if form == "power":
        return net.add("Mul", d, net.add("Pow", net.add("Add", variance, number(net, 1e-3)), number(net, -0.5)))
    y = net.add("Div", d, deviation)
    return net.add("Add", net.add("Mul", y, net.random(8)), net.random(8)) if form == "torch" else y


@pytest.mark.parametrize("form", ["torch", "plain", "keras", "power", "moments", "rms"])
@pytest.mark.parametrize("axes", [[-1], [1, 2]], ids=str)
def test_layer_norm(tmp_path: Path, form: str, axes: list[int]) -> None:
    net = Net()
    net.output(layer_norm(net, net.input([2, 4, 8]), form, axes))
    g = core(net, tmp_path)
    assert_same(net, g, 2e-5)
    if form in ("torch", "keras") and axes == [1, 2]:
        # The scale of a row of 8 behind rows of 32: a constant for each element, or one that is left outside.
        assert ops(g)[0] == "LayerNorm"
    else:
        assert ops(g) == ["LayerNorm"]


def test_layer_norm_with_other_readers(tmp_path: Path) -> None:
    """The mean is expected elsewhere too."""
    net = Net()
    x = net.input([2, 8])
    mean = net.add("ReduceMean", x, axes=[-1])
    d = net.add("Sub", x, mean)
    v = net.add("ReduceMean", net.add("Mul", d, d), axes=[-1])
    net.output(net.add("Div", d, net.add("Sqrt", net.add("Add", v, number(net, 1e-5)))))
    net.output(mean)
    net.output(v)
    g = core(net, tmp_path)
    assert_same(net, g, 2e-5)
    assert ops(g).count("LayerNorm") == 1


def test_what_looks_like_a_layer_norm(tmp_path: Path) -> None:
    """Other axes, no kept dimension, the mean of something else: left alone."""
    for kind in ("axes", "mean", "first axis"):
        net = Net()
        x = net.input([4, 4, 4])
        mean = net.add(
            "ReduceMean", net.add("Relu", x) if kind == "mean" else x, axes=[0 if kind == "first axis" else 2]
        )
        d = net.add("Sub", x, mean)
        v = net.add(
            "ReduceMean", net.add("Mul", d, d), axes=[1 if kind == "axes" else 0 if kind == "first axis" else 2]
        )
        net.output(net.add("Div", d, net.add("Sqrt", net.add("Add", v, number(net, 1e-2)))))
        g = core(net, tmp_path)
        assert_same(net, g, 2e-5)
        modes = {n.attrs["mode"] for n in g.nodes if n.op == "LayerNorm"}
        assert modes <= ({"squares"} if kind == "mean" else set())  # of the difference from that other mean, rightly


def test_scale_behind_norms(tmp_path: Path) -> None:
    """Scale and shift go into the norm, also through PyTorch's way to write GroupNorm."""
    net = Net()
    x = net.conv(net.input([1, 3, 5, 5]), 3, 6)
    rows = net.add("Reshape", x, net.const([1, 2, -1]))
    y = net.add("InstanceNormalization", rows, net.const(np.ones(2, np.float32)), net.const(np.zeros(2, np.float32)))
    y = net.add("Reshape", y, net.const([1, 6, 3, 3]))
    y = net.add("Add", net.add("Mul", y, net.random(6, 1, 1)), net.random(6, 1, 1))
    net.output(net.add("Relu", y))
    g = core(net, tmp_path)
    assert_same(net, g, 2e-5)
    assert [o for o in ops(g) if o not in ("Conv2d", "Transpose")] == ["LayerNorm"]
    net = Net()
    y = net.add("LayerNormalization", net.input([2, 8]), net.random(8), net.random(8))
    net.output(net.add("Sub", net.add("Div", y, net.random(8)), number(net, 3)))
    g = core(net, tmp_path)
    assert_same(net, g, 1e-4)
    assert ops(g) == ["LayerNorm"]


# Reductions


def total(net: Net, x: str, keepdims: int = 1) -> str:
    return net.add("ReduceSum", x, net.const([-1]), keepdims=keepdims)


REDUCTIONS: dict[str, tuple[Wave, list[str]]] = {
    "squares": (lambda n, x: total(n, n.add("Mul", x, x)), ["Reduce"]),
    "absolute": (lambda n, x: total(n, n.add("Abs", x), 0), ["Reduce"]),
    "norm": (lambda n, x: n.add("Sqrt", total(n, n.add("Pow", x, number(n, 2)), 0)), ["Reduce"]),
    "log": (lambda n, x: n.add("Log", total(n, n.add("Sigmoid", x))), ["Unary", "Reduce"]),
    "log sum exp": (lambda n, x: n.add("Log", total(n, n.add("Exp", x))), ["LogSumExp"]),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(tmp_path: Path, name: str) -> None:
    build, expected = REDUCTIONS[name]
    net = Net()
    net.output(build(net, net.input([2, 3, 8])))
    g = core(net, tmp_path)
    assert_same(net, g, 2e-5)
    assert ops(g) == expected


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("log", [False, True])
def test_softmax_in_pieces(tmp_path: Path, shifted: bool, log: bool) -> None:
    net = Net()
    x = net.input([2, 3, 8])
    d = net.add("Sub", x, net.add("ReduceMax", x, axes=[-1])) if shifted else x
    e = net.add("Exp", d)
    net.output(net.add("Sub", d, net.add("Log", total(net, e))) if log else net.add("Div", e, total(net, e)))
    g = core(net, tmp_path)
    assert_same(net, g, 2e-5)
    assert ops(g) == ["LogSoftmax" if log else "Softmax"]


# Constants and transposes find their way


def test_bias_behind_a_reshape(tmp_path: Path) -> None:
    """Keras' dense layers of several axes: heads of a projection."""
    net = Net()
    x = net.input([1, 5, 6])
    y = net.add("Reshape", net.add("MatMul", x, net.random(6, 8)), net.const([1, 5, 2, 4]))
    net.output(net.add("Add", y, net.random(2, 4)))
    g = core(net, tmp_path)
    assert_same(net, g)
    assert ops(g) == ["FullyConnected"]


def images(net: Net) -> tuple[str, str]:
    x = net.input([1, 3, 8, 8])
    return net.conv(x, 3, 4), net.conv(x, 3, 4)


@pytest.mark.parametrize("op", ["Mul", "Div", "Max", "Sub"])
def test_pointwise_in_nhwc(tmp_path: Path, op: str) -> None:
    """Between convolutions there is no transpose: two images, an image and its channels' gates, and constants."""
    for kind in ("image", "gate", "constant"):
        net = Net()
        a, b = images(net)
        if kind == "gate":
            b = net.add("Sigmoid", net.conv(net.add("GlobalAveragePool", a), 4, 4, 1))
        elif kind == "constant":
            b = net.const((np.abs(net.rng.standard_normal((4, 6, 6))) + 0.5).astype(np.float32))
        else:
            b = net.add("Exp", b)
        net.output(net.conv(net.add(op, a, b), 4, 2))
        g = core(net, tmp_path)
        assert_same(net, g, 1e-4)
        assert transposes(g) <= 2


def test_reductions_in_nhwc(tmp_path: Path) -> None:
    """Over channels, rows or columns: the transposes that are left move less, or nothing."""
    for axis in (1, 2, 3):
        net = Net()
        a, _ = images(net)
        net.output(net.add("Mul", a, net.add("Sigmoid", net.add("ReduceMax", a, axes=[axis]))))
        g = core(net, tmp_path)
        assert_same(net, g, 1e-4)
        assert transposes(g) <= 2
    net = Net()
    a, _ = images(net)
    net.output(net.add("ArgMax", a, axis=1, outputs=["label"]), dtype=7)
    g = core(net, tmp_path)
    assert_same(net, g)
    assert transposes(g) == 1


def transposes(g: Graph) -> int:
    return sum(n.op == "Transpose" for n in g.nodes)


@pytest.mark.parametrize("at", (0.3, 50.0, -2000.0))
def test_a_comparison_is_no_constant(at: float) -> None:
    """It changes at one number, or beyond it: no name may be taken for one that does not."""
    equal = (
        ("Unary", {"function": "equal", "arguments": (at,)}, ("v0",)),
        ("Unary", {"function": "not", "arguments": ()}, ("v1",)),
    )
    assert name_of(equal) is None
    above = (
        ("Unary", {"function": "greater", "arguments": (at,)}, ("v0",)),
        ("Mul", {"clip": (None, None)}, ("v1", 2.0)),
    )
    assert name_of(above) is None
