"""Masked attention, as exporters write the mask: probabilities as good as those of the same scores without one."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from nets import Net, core, ops, truth
from onnx import TensorProto, helper, numpy_helper

from mica.compile import compile_file
from mica.errors import Unsupported
from mica.format.values import dequantise_output
from mica.run.host import HostRunner

T, D = 12, 8
CAUSAL = np.triu(np.ones((T, T), bool), 1)
LOWEST = float(np.finfo(np.float32).min)

Mask = Callable[[Net, str], str]


def attention(mask: Mask, heads: int = 2) -> Net:
    """Scores of a sequence with itself, masked, softmax, and what they weigh."""
    net = Net(seed=5)
    x = net.input([1, T, D * heads])
    q, k, v = (net.add("MatMul", x, net.random(D * heads, D * heads, scale=0.4)) for _ in range(3))
    split = net.const(np.array([1, T, heads, D]))
    q, v = (net.add("Transpose", net.add("Reshape", a, split), perm=[0, 2, 1, 3]) for a in (q, v))
    k = net.add("Transpose", net.add("Reshape", k, split), perm=[0, 2, 3, 1])
    scores = net.add("Mul", net.add("MatMul", q, k), net.const(np.float32(D**-0.5)))
    p = net.add("Softmax", mask(net, scores), axis=-1)
    net.output(p, [1, heads, T, T])
    net.output(net.add("MatMul", p, v), [1, heads, T, D])
    return net


def added(low: float) -> Mask:
    """scaled_dot_product_attention(is_causal=True), torch.onnx.export(dynamo=False)."""
    return lambda net, s: net.add("Add", s, net.const(np.where(CAUSAL, low, 0).astype(np.float32)))


def filled(low: float) -> Mask:
    """scores.masked_fill(mask, -inf)."""
    return lambda net, s: net.add("Where", net.const(CAUSAL[None, None]), net.const(np.float32(low)), s)


def kept(low: float) -> Mask:
    return lambda net, s: net.add("Where", net.const(~CAUSAL), s, net.const(np.float32([low])))


def with_bias(net: Net, s: str) -> str:
    """ALiBi: a bias by distance, and the mask, in one constant."""
    distance = -0.1 * np.abs(np.arange(T)[:, None] - np.arange(T))
    return net.add("Add", s, net.const(np.where(CAUSAL, -np.inf, distance).astype(np.float32)))


def twice(net: Net, s: str) -> str:
    return filled(-np.inf)(net, added(LOWEST)(net, s))


def given(low: float, how: str) -> Mask:
    """A mask of which tokens are there, an input, as BERT has it; the first 9 tokens at least are."""

    def write(net: Net, s: str) -> str:
        there = net.add("Unsqueeze", net.input([1, T], "there"), net.const(np.array([1, 2])))
        if how == "product":
            gone = net.add("Mul", net.add("Sub", net.const(np.float32(1)), there), net.const(np.float32(low)))
            return net.add("Add", s, gone)
        truth = net.add("Cast", there, to=TensorProto.BOOL)
        if how == "filled":
            return net.add("Where", truth, s, net.const(np.float32(low)))
        zeros, lows = net.const(np.zeros((), np.float32)), net.const(np.float32(low))
        return net.add("Add", s, net.add("Where", truth, zeros, lows))

    return write


MASKS: dict[str, Mask] = {
    "add -inf": added(-np.inf),
    "add lowest": added(LOWEST),
    "add -1e9": added(-1e9),
    "add -65504": added(-65504.0),
    "where -inf": filled(-np.inf),
    "where lowest": filled(LOWEST),
    "where keeps": kept(-np.inf),
    "with a bias": with_bias,
    "twice": twice,
    "given, product": given(LOWEST, "product"),
    "given, product, -1e4": given(-10000.0, "product"),
    "given, filled": given(-np.inf, "filled"),
    "given, where": given(-np.inf, "where"),
}


def samples(net: Net, n: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    found = {"x": rng.standard_normal((n, 1, T, 2 * D)).astype(np.float32)}
    if len(net.inputs) > 1:
        found["there"] = (np.arange(T) < rng.integers(9, T + 1, (n, 1, 1))).astype(np.float32)
    return found


def run(net: Net, folder: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """(ONNX Runtime's, int8's) of both outputs, over 8 samples."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = compile_file(net.save(folder), {k: a[:, 0] for k, a in samples(net, 32, 1).items()}, plain=True)
    feeds = samples(net, 8, 2)
    expected, found = [], []
    with HostRunner(compiled.data) as runner:
        for k in range(8):
            one = {name: a[k] for name, a in feeds.items()}
            expected.append(list(truth(net, one).values()))
            names = [runner.model.tensors[t].name for t in runner.model.inputs]
            y = runner.run([runner.quantise([one[name] for name in names])])[0]
            found.append(
                [dequantise_output(a, runner.model.tensors[t]) for a, t in zip(y, runner.model.outputs, strict=True)]
            )
    return [(np.stack([w[i] for w in expected]), np.stack([f[i] for f in found])) for i in range(2)]


def sqnr(expected: np.ndarray, found: np.ndarray) -> float:
    return float(10 * np.log10(np.sum(expected.astype(np.float64) ** 2) / np.sum((expected - found) ** 2)))


@pytest.mark.parametrize("name", MASKS)
def test_masked(tmp_path: Path, name: str) -> None:
    """Masked scores get a probability of 0. The others are within 3 dB of those without a mask."""
    plain = run(attention(lambda net, s: net.add("Identity", s)), tmp_path)
    found = run(attention(MASKS[name]), tmp_path)
    out = found[0][0] == 0
    assert out.mean() > 0.05
    assert not found[0][1][out].any()
    for (w, f), (w0, f0) in zip(found, plain, strict=True):
        assert sqnr(w, f) > sqnr(w0, f0) - 3


@pytest.mark.parametrize("name", MASKS)
def test_what_it_becomes(tmp_path: Path, name: str) -> None:
    """A mask becomes one Mask, with any number for infinity. A mask that is an input costs at most one table more."""
    g = core(attention(MASKS[name]), tmp_path)
    assert [n.op for n in g.nodes].count("Mask") == (2 if name == "twice" else 1)
    assert ops(g).count("Unary") <= ("given" in name)


def test_infinity_elsewhere_is_refused(tmp_path: Path) -> None:
    """Without a Softmax behind it, -inf has no meaning in int8."""
    net = Net()
    x = net.input([1, 4])
    net.output(net.add("Add", x, net.const(np.float32([[0, -np.inf, 0, 0]]))), [1, 4])
    with pytest.raises(Unsupported, match=r"\(Add\): its constant 'c0' holds infinity \(1 of 4 values\)"):
        core(net, tmp_path)


def test_scores_that_are_an_output_keep_their_mask(tmp_path: Path) -> None:
    """Somebody else reads what is masked: the numbers stay those of the file."""
    net = Net()
    m = net.add("Add", net.input([1, 4]), net.const(np.float32([[0, -2000, 0, 0]])))
    net.output(m, [1, 4])
    net.output(net.add("Softmax", m), [1, 4])
    assert "Mask" not in ops(core(net, tmp_path))


def test_float16_mask(tmp_path: Path) -> None:
    """The lowest float16, -65504, as exporters of half models write it."""
    net = attention(added(-65504.0))
    model = net.model()
    for t in model.graph.initializer:
        if t.data_type == TensorProto.FLOAT:
            t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t).astype(np.float16), t.name))
    for info in (*model.graph.input, *model.graph.output):
        info.type.tensor_type.elem_type = TensorProto.FLOAT16
    onnx.save(model, str(tmp_path / "half.onnx"))
    assert compile_file(tmp_path / "half.onnx", plain=True).data
    assert helper.tensor_dtype_to_np_dtype(TensorProto.FLOAT16) == np.float16
