"""Channels that several layers share are made alike: the same float network, less noise as integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from mica.ir.graph import Graph, Node, Value
from mica.quantise import equalise_shared, room, simulate
from mica.quantise.calibrate import Samples
from mica.quantise.params import choose_quants
from mica.quantise.tune import RECIPES, _Bench, _Floats, _Stages

WIDTH, HEADS, GROUPS, HEAD, ROWS, RUNS = 16, 4, 2, 4, 8, 96
SEED = 2
FACTOR = 0.1
OPEN = {"clip": (None, None)}


class Made:
    """A core graph, layer by layer; weights whose channels differ much in size."""

    def __init__(self, inputs: dict[str, tuple[tuple[int, ...], str]]) -> None:
        self.g, self.rng = Graph("decoder", list(inputs), []), np.random.default_rng(SEED)
        for name, (shape, dtype) in inputs.items():
            self.g.values[name] = Value(name, shape, dtype)

    def add(self, op: str, y: str, inputs: list[str], shape: Sequence[int], **attrs: object) -> str:
        self.g.values[y] = Value(y, tuple(shape), "float32")
        self.g.nodes.append(Node(op, y, inputs, [y], attrs))
        return y

    def constant(self, name: str, data: np.ndarray) -> str:
        return self.g.new_const(name, data.astype(np.float32))

    def uneven(self, n: int) -> np.ndarray:
        return np.exp(self.rng.normal(0, 1, n))

    def product(self, y: str, x: str, n: int, rows: np.ndarray | float = 1.0) -> str:
        k = self.g.value(x).shape[-1]
        w = self.rng.normal(0, 1 / np.sqrt(k), (n, k)) * np.reshape(rows, (-1, 1))
        return self.add(
            "FullyConnected", y, [x, self.constant("w", w), self.constant("b", np.zeros(n))], (1, n), **OPEN
        )

    def norm(self, y: str, x: str, gain: np.ndarray) -> str:
        constants = [self.constant("gain", gain), self.constant("none", np.zeros(WIDTH))]
        attrs = {"mode": "squares", "axis": 1, "inner": 1, "epsilon": 1e-5, **OPEN}
        return self.add("LayerNorm", y, [x, *constants], (1, WIDTH), **attrs)


def decoder() -> tuple[Graph, Samples, list[tuple[str, str]]]:
    """A norm, one head of keys for two of queries that turn with the position, a cache, and a gate behind them."""
    cache = (1, GROUPS, ROWS, HEAD)
    m = Made(
        {"x": ((1, WIDTH), "float32"), "place": ((1,), "int32"), "length": ((1,), "int32"), "k": (cache, "float32")}
    )
    m.g.values["v"] = Value("v", cache, "float32")
    m.g.inputs.append("v")
    h = m.norm("norm", "x", m.uneven(WIDTH))
    turn = np.arange(64)[:, None] * np.array([1.0, 0.1])
    tables = [m.constant(n, f(turn)) for n, f in (("cos", np.cos), ("sin", np.sin))]
    angles = [m.add("Embedding", f"{t}.row", ["place", t], (1, HEAD // 2)) for t in tables]
    parts = {}
    for c, heads in (("q", HEADS), ("key", GROUPS), ("value", GROUPS)):
        size = m.uneven(heads * HEAD // 2).reshape(heads, 1, -1).repeat(2, 1).reshape(-1) if c == "key" else 1.0
        y = m.product(f"{c}.product", h, heads * HEAD, size)
        shape = (1, heads, 1, HEAD)
        y = m.add("Reshape", f"{c}.heads", [y], shape)
        parts[c] = y if c == "value" else m.add("Rotate", f"{c}.turned", [y, *angles], shape, inner=heads)
    after = [
        m.add("ScatterRows", f"{c}.after", [c, parts[p], "place"], cache, axis=2, circular=True)
        for c, p in (("k", "key"), ("v", "value"))
    ]
    q = m.add("Reshape", "q.grouped", [parts["q"]], (1, GROUPS, HEADS // GROUPS, HEAD))
    y = m.add("Attend", "seen", [q, *after, "length"], (1, GROUPS, HEADS // GROUPS, HEAD), factor=FACTOR, more=0)
    y = m.add("Reshape", "joined", [y], (1, WIDTH))
    up, gate = m.product("up", y, 24, m.uneven(24)), m.product("gate", y, 24)
    m.product("out", m.add("Mul", "gated", [gate, up], (1, 24), **OPEN), WIDTH)
    m.g.outputs = ["out", "k.after", "v.after"]
    pairs = [("k", "k.after"), ("v", "v.after")]
    samples: list[dict[str, np.ndarray]] = []
    state = {"k": np.zeros(cache, np.float32), "v": np.zeros(cache, np.float32)}
    for at in range(RUNS):
        numbers = {"place": np.array([at % 64]), "length": np.array([min(at % 64 + 1, ROWS)])}
        numbers = {name: n.astype(np.float32) for name, n in numbers.items()}
        samples.append({"x": m.rng.normal(0, 1, (1, WIDTH)).astype(np.float32), **numbers, **state})
        values = next(iter(equalise_shared.runs(m.g, samples[-1:])))
        state = {source: values[result] for source, result in pairs}
    return m.g, samples, pairs


def noise(g: Graph, samples: Samples) -> float:
    """Noise of the output in dB: calibrated with half of the samples, measured on the other half."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "FULL", 0)  # few samples have room, which hides what equalising wins
        built = _Bench(_Floats(g, samples[0::2], _Stages(None, 1), []), "minmax", RECIPES).build(RECIPES[0])
    quants = choose_quants(built.graph, built.ranges)
    only = Graph(built.exact.name, built.exact.inputs, ["out"])
    only.values, only.nodes = built.exact.values, built.exact.nodes
    return simulate.noise(only, [(built.graph, quants)], samples[1::2])[0]


@pytest.fixture(scope="module")
def before() -> tuple[list[np.ndarray], float]:
    g, samples, _ = decoder()
    return [v["out"] for v in equalise_shared.runs(g, samples)], noise(g, samples)


def test_less_noise_in_the_same_network(before: tuple[list[np.ndarray], float]) -> None:
    expected, noisy = before
    g, samples, pairs = decoder()
    g = equalise_shared.run(g, samples, pairs)
    for y, v in zip(expected, equalise_shared.runs(g, samples), strict=True):
        assert np.abs(v["out"] - y).max() < 1e-4 * np.abs(y).max()
    assert noise(g, samples) < noisy - 1.0


def test_keys_that_someone_sees_stay(before: tuple[list[np.ndarray], float]) -> None:
    """Without state pairs, the caches are inputs and outputs that the user sees, so they stay as they are."""
    g, samples, _ = decoder()
    kept = [s["k"].copy() for s in samples]
    g = equalise_shared.run(g, samples)
    assert all(np.array_equal(s["k"], k) for s, k in zip(samples, kept, strict=True))
    found = list(equalise_shared.runs(g, samples))
    assert all(np.allclose(v["k.after"], s["k"], atol=1e-4) for v, s in zip(found, samples[1:], strict=False))


def test_tokens_above_127() -> None:
    """Row numbers have no scale: a table of 300 rows is read where it says."""
    m = Made({"token": ((1,), "int32")})
    table = m.constant("table", m.rng.normal(0, 1, (300, WIDTH)))
    m.product("out", m.add("Embedding", "row", ["token", table], (1, WIDTH)), 8)
    m.g.outputs = ["out"]
    samples = [{"token": np.array([t], np.float32)} for t in range(0, 300, 7)]
    assert noise(m.g, samples) < -12  # by the rows of the first 128 alone, 0
