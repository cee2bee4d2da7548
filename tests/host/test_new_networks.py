"""Pieces of networks of 2024 to 2026: recurrences in logarithms, masks in front of Exp, sums at constant places,
spectra, many parts, experts, outputs of two kinds. ONNX Runtime gives the expected values.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from nets import Net, assert_same, core, ops, truth

import mica
from mica.compile import compile_file
from mica.errors import Unsupported
from mica.format import output_groups
from mica.run.host import HostRunner

TRIALS = Path(__file__).resolve().parents[2].parent / "shared" / "trials"
with_trials = pytest.mark.skipif(not TRIALS.is_dir(), reason="the folder ../shared/trials is missing")
RNG = np.random.default_rng(8)


def integers(net: Net, *values: int) -> str:
    return net.const(np.array(values, np.int64))


def sqnr(exact: np.ndarray, found: np.ndarray) -> float:
    """In dB, the mean of each element taken off."""
    varies = np.sum((exact - exact.mean(axis=0)) ** 2, dtype=np.float64)
    return float(10 * np.log10(varies / max(np.sum((exact - found) ** 2, dtype=np.float64), 1e-30)))


def found_by(packed: bytes, x: np.ndarray) -> np.ndarray:
    with HostRunner(packed) as runner:
        group = output_groups.read(runner.model)[0]
        results = [
            runner.run([runner.quantise([row.reshape(runner.model.tensors[runner.model.inputs[0]].dims)])])[0]
            for row in x
        ]
        return np.stack([output_groups.joined(runner.model, group, r).reshape(-1) for r in results])


# ---- recurrences in logarithms


def gates(net: Net, rows: int) -> tuple[str, str]:
    """Logarithms of a share that is kept, and of what is added, [1, rows, 8]."""
    x = net.input([1, rows, 8])
    kept = net.add("Neg", net.add("Softplus", net.add("MatMul", x, net.random(8, 8))))
    added = net.add("Neg", net.add("Softplus", net.add("MatMul", x, net.random(8, 8))))
    return kept, added


def summed(net: Net, x: str) -> str:
    return net.add("CumSum", x, integers(net, 1))


def padded(net: Net, x: str, value: float) -> str:
    return net.add("Pad", x, integers(net, 0, 1, 0, 0, 0, 0), net.const(np.float32(value)))


def without_maximum(net: Net) -> str:
    """As minGRU's paper has it, with a first state and the largest number taken off."""
    kept, added = gates(net, 11)
    a, b = padded(net, summed(net, kept), 0.0), padded(net, added, -0.7)
    d = net.add("Sub", b, a)
    most = net.add("ReduceMax", d, axes=[1], keepdims=1)
    log = net.add("Log", summed(net, net.add("Exp", net.add("Sub", d, most))))
    return net.add("Exp", net.add("Add", net.add("Add", a, most), log))


def plain(net: Net) -> str:
    kept, added = gates(net, 8)
    a = summed(net, kept)
    return net.add("Exp", net.add("Add", a, net.add("Log", summed(net, net.add("Exp", net.add("Sub", added, a))))))


def concatenated(net: Net) -> str:
    """A first row of zeros, and a first state that is constant."""
    kept, added = gates(net, 5)
    zero, first = net.const(np.zeros((1, 1, 8), np.float32)), net.const(np.full((1, 1, 8), -0.7, np.float32))
    a = net.add("Concat", zero, summed(net, kept), axis=1)
    b = net.add("Concat", first, added, axis=1)
    return net.add("Exp", net.add("Add", a, net.add("Log", summed(net, net.add("Exp", net.add("Sub", b, a))))))


def selective(net: Net) -> str:
    """Mamba's, with quotients in place of logarithms."""
    kept, added = gates(net, 9)
    e = net.add("Exp", summed(net, kept))
    return net.add("Mul", e, summed(net, net.add("Div", net.add("Tanh", added), e)))


SCANS: dict[str, Callable[[Net], str]] = {f.__name__: f for f in (without_maximum, plain, concatenated, selective)}


@pytest.mark.parametrize("name", SCANS)
def test_running_sums_of_logarithms_are_gone(name: str, tmp_path: Path) -> None:
    net = Net()
    net.output(SCANS[name](net))
    g = core(net, tmp_path)
    assert_same(net, g)
    assert not any(n.op == "Unary" and n.attrs["function"] == "log" for n in g.nodes)
    assert "FullyConnected" in ops(g) and sum(n.op == "FullyConnected" for n in g.nodes) == 2  # those of the gates


def test_a_running_sum_of_something_else_stays(tmp_path: Path) -> None:
    """exp(c) times a sum in which c is not taken off."""
    net = Net()
    kept, added = gates(net, 6)
    net.output(net.add("Mul", net.add("Exp", summed(net, kept)), summed(net, net.add("Exp", added))))
    g = core(net, tmp_path)
    assert_same(net, g)
    assert sum(n.op == "FullyConnected" for n in g.nodes) == 4


# ---- masks


@pytest.mark.parametrize("largest", [True, False])
def test_a_mask_in_front_of_an_exponential(largest: bool, tmp_path: Path) -> None:
    """-1e9 does not take the range of int8: the answers are float's."""
    net = Net()
    x = net.input([1, 6, 6])
    mask = net.const(np.triu(np.ones((6, 6), bool), 1))
    d = net.add("Where", mask, net.const(np.float32(-1e9)), x)
    if largest:
        d = net.add("Sub", d, net.add("ReduceMax", d, axes=[2], keepdims=1))
    net.output(net.add("Exp", d))
    assert "Mask" in ops(core(net, tmp_path))
    samples = RNG.uniform(-3, 0, (64, 6, 6)).astype(np.float32)
    found = found_by(compile_file(net.save(tmp_path), {"x": samples}).data, samples[:20])
    exact = np.stack([truth(net, {"x": s[None]})[net.outputs[0].name].reshape(-1) for s in samples[:20]])
    assert np.abs(found - exact).max() < 0.06


# ---- sums at constant places


def scattered(op: str, shape: list[int], where: np.ndarray, news: list[int], base: float = 0.0, **attrs: object) -> Net:
    net = Net(18)
    x = net.const(np.full(shape, base, np.float32))
    net.output(net.add(op, x, net.const(where.astype(np.int64)), net.input(news), reduction="add", **attrs))
    return net


EDGES = RNG.integers(0, 5, 12)
SUMS: dict[str, Callable[[], Net]] = {
    "rows": lambda: scattered("ScatterND", [5, 4], EDGES[:, None], [12, 4]),
    "on top of others": lambda: scattered("ScatterND", [5, 4], EDGES[:, None] - 5, [12, 4], 1.5),
    "places in two axes": lambda: scattered("ScatterND", [3, 5, 4], np.stack([EDGES % 3, EDGES], 1), [12, 4]),
    "along an axis": lambda: scattered(
        "ScatterElements", [2, 5, 4], np.broadcast_to(EDGES[None, :, None], (2, 12, 4)), [2, 12, 4], axis=1
    ),
}


def test_constant_updates_are_added(tmp_path: Path) -> None:
    net = Net(18)
    net.output(
        net.add("ScatterND", net.input([4, 3]), net.const(np.array([[1], [3], [1]])), net.random(3, 3), reduction="add")
    )
    assert_same(net, core(net, tmp_path))


@pytest.mark.parametrize("name", SUMS)
def test_sums_at_constant_places(name: str, tmp_path: Path) -> None:
    net = SUMS[name]()
    assert_same(net, core(net, tmp_path))


def test_other_reductions_name_a_remedy(tmp_path: Path) -> None:
    net = Net(18)
    x = net.const(np.zeros((5, 4), np.float32))
    net.output(net.add("ScatterND", x, net.const(EDGES[:, None]), net.input([12, 4]), reduction="max"))
    with pytest.raises(Unsupported, match=r"reduction 'max'.*ReduceMax"):
        core(net, tmp_path)


# ---- spectra


@pytest.mark.parametrize(
    ("shape", "attrs", "length", "axis"),
    [
        ([1, 4, 16, 1], {"onesided": 1}, 0, 2),
        ([1, 4, 16, 2], {}, 0, 2),
        ([1, 16, 4, 1], {"inverse": 1}, 12, 1),
    ],
)  # fmt: skip
def test_a_spectrum_inside_a_network(
    shape: list[int], attrs: dict[str, int], length: int, axis: int, tmp_path: Path
) -> None:
    net = Net(20)
    y = net.add(
        "DFT",
        net.add("Tanh", net.input(shape)),
        net.const(np.int64(length)) if length else "",
        net.const(np.int64(axis)),
        **attrs,
    )
    net.output(net.add("Relu", y))
    assert_same(net, core(net, tmp_path), tolerance=2e-4)


def test_a_spectrum_that_is_too_large(tmp_path: Path) -> None:
    net = Net(17)
    net.output(net.add("DFT", net.add("Relu", net.input([1, 4096, 1])), axis=1, onesided=1))
    with pytest.raises(Unsupported, match="--frontend"):
        core(net, tmp_path)


# ---- many parts


def test_parts_of_several_kinds_become_a_few_steps(tmp_path: Path) -> None:
    """Ninety parts, a factor each, of three functions: a step for each function and not for each part."""
    net = Net()
    parts = net.add("Split", net.input([1, 180]), outputs=[f"s{k}" for k in range(90)], axis=1)
    assert parts
    made = []
    for k in range(90):
        scaled = net.add("Mul", f"s{k}", net.const(RNG.uniform(0.5, 2, (1, 2 if k % 2 else 1)).astype(np.float32)))
        made.append(net.add(("Relu", "Tanh", "Neg")[k % 3], scaled))
    net.output(net.add("Concat", *made, axis=1))
    g = core(net, tmp_path)
    assert_same(net, g)
    assert len(g.nodes) < 20


def test_few_parts_keep_their_scales(tmp_path: Path) -> None:
    net = Net()
    net.add("Split", net.input([1, 8]), outputs=["a", "b"], axis=1)
    net.output(net.add("Concat", net.add("Relu", "a"), net.add("Relu", "b"), axis=1))
    assert ops(core(net, tmp_path)).count("Unary") == 2


# ---- experts, and places in part of a tensor


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("op", ["Gather", "GatherND"])
def test_the_rows_of_chosen_experts(op: str, k: int, tmp_path: Path) -> None:
    net = Net(18)
    x = net.input([1, 8])
    net.add("TopK", net.add("MatMul", x, net.random(8, 4)), integers(net, k), outputs=["values", "places"], axis=-1)
    at = net.add("Gather", "places", net.const(np.int64(k - 1)), axis=1)
    at = net.add("Unsqueeze", at, integers(net, -1)) if op == "GatherND" else at
    w = net.add(op, net.random(4, 8, 3), at)
    net.output(net.add("MatMul", net.add("Unsqueeze", x, integers(net, 1)), w))
    assert_same(net, core(net, tmp_path))


def test_places_in_the_first_elements_of_other_axes(tmp_path: Path) -> None:
    """Key points: ONNX's GatherElements has the shape of its indices."""
    net = Net(18)
    x = net.input([1, 5, 2, 9])
    first = net.add("Slice", x, integers(net, 0), integers(net, 1), integers(net, 2))
    at = net.add("ArgMax", first, axis=3, keepdims=1)
    net.output(net.add("GatherElements", x, at, axis=3))
    assert_same(net, core(net, tmp_path))


# ---- outputs


def test_scores_and_boxes_of_one_layer_have_scales_of_their_own(tmp_path: Path) -> None:
    net = Net()
    y = net.conv(net.input([1, 3, 8, 8]), 3, 12, 1)
    net.add("Split", y, integers(net, 4, 8), outputs=["scores", "boxes"], axis=1)
    net.output(
        net.add("Concat", net.add("Sigmoid", "scores"), net.add("Mul", "boxes", net.const(np.float32(0.1))), axis=1)
    )
    samples = (0.2 * RNG.standard_normal((48, 3, 8, 8))).astype(np.float32)
    packed = mica.pack(net.save(tmp_path), samples[:32])
    exact = np.stack([truth(net, {"x": s[None]})[net.outputs[0].name].reshape(-1) for s in samples[32:]])
    assert sqnr(exact, found_by(packed.data, samples[32:])) > 20


def test_a_last_tanh_that_hardly_moves(tmp_path: Path) -> None:
    net = Net()
    net.output(
        net.add(
            "Tanh",
            net.add("Gemm", net.input([1, 8]), net.const((0.01 * RNG.standard_normal((8, 2))).astype(np.float32))),
        )
    )
    samples = RNG.standard_normal((96, 8)).astype(np.float32)
    packed = mica.pack(net.save(tmp_path), samples[:64])
    exact = np.stack([truth(net, {"x": s[None]})[net.outputs[0].name].reshape(-1) for s in samples[64:]])
    assert sqnr(exact, found_by(packed.data, samples[64:])) > 30


# ---- what others sent


LEAST = {  # dB on test.npz, share of equal places of the largest
    "concat-of-many": (29.8, 0.0),
    "conformer-quality": (15.0, 0.99),
    "gnn-scatter-add": (25.0, 0.0),
    "mingru-in-logarithms": (13.0, 0.87),
    "nanodet-sigmoid-and-boxes": (13.0, 0.0),
    "nearest-prototype": (26.0, 0.99),
    "softmax-experts-hard": (14.0, 0.99),
    "xlstm-masked-gates": (15.0, 0.92),
}


@with_trials
@pytest.mark.parametrize("name", LEAST)
def test_a_trial(name: str) -> None:
    folder = TRIALS / name
    calib, test = (dict(np.load(folder / f"{part}.npz")) for part in ("calib", "test"))
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    shape = [d if isinstance(d, int) else 1 for d in given.shape]
    exact = np.stack([session.run(None, {given.name: s.reshape(shape)})[0].reshape(-1) for s in test[given.name]])
    packed = mica.pack(folder / "model.onnx", calib)
    found = found_by(packed.data, test[given.name])
    least, alike = LEAST[name]
    assert sqnr(exact, found) > least
    assert np.mean(exact.argmax(axis=1) == found.argmax(axis=1)) >= alike
    if name == "concat-of-many":
        assert len(packed.data) < 20_000
