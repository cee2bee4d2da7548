"""Networks on four data sets: within a point of PyTorch from the same weights and batches, and of what is packed.

Words of ../shared; digits and a table that scikit-learn ships; a motion that aeon ships. Half of each set judges.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from targets import nightly

import mica
from mica.training import onnx_file
from mica.training.families import Plan
from mica.training.layers import Array, Conv, Dense, Depthwise, Dropout, Flat, Network, Norm, Pool, pads
from mica.training.optimise import WARM_UP, Settings, Training

SHARED = Path(__file__).resolve().parents[3] / "shared" / "models"
SEEDS = 2  # whose mean is compared: one sample of these sets is up to half a point


def words() -> tuple[Array, Array]:
    path = SHARED / "kws" / "eval.npz"
    if not path.is_file():
        pytest.skip("../shared is not there")
    found = np.load(path)
    x = found["x"][..., 0] * found["scale"] + found["offset"]
    return (x - x.mean(axis=(0, 1))) / x.std(axis=(0, 1)), found["y"].astype(np.int64)


def of_sklearn(name: str) -> tuple[Array, Array]:
    found = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed").__dict__[f"load_{name}"]()
    return found.data, found.target


def digits() -> tuple[Array, Array]:
    x, y = of_sklearn("digits")
    return x.reshape(-1, 8, 8, 1) / 8 - 1, y


def table() -> tuple[Array, Array]:
    x, y = of_sklearn("breast_cancer")
    return (x - x.mean(axis=0)) / x.std(axis=0), y


def motion() -> tuple[Array, Array]:
    """Return GunPoint: a hand that points, or draws; 150 moments of a marker on it."""
    package = importlib.util.find_spec("aeon")
    if package is None or not package.submodule_search_locations:
        pytest.skip("aeon is not installed")
    folder = Path(next(iter(package.submodule_search_locations))) / "datasets" / "data" / "GunPoint"
    text = "".join((folder / f"GunPoint_{part}.ts").read_text() for part in ("TRAIN", "TEST"))
    rows = [line.split(":") for line in text.splitlines() if line[:1] not in ("", "#", "@")]
    x = np.array([values.split(",") for values, _ in rows], float)
    return x[..., None], np.array([int(label) - 1 for _, label in rows])


# The larger layers have 512 weights or more: smaller ones keep their 8 bits.
SETS: dict[Callable[[], tuple[Array, Array]], tuple[Plan, int]] = {
    words: (Plan("depthwise", (16, 32, 48), (2, 2, 1)), 500),
    digits: (Plan("depthwise", (16, 32, 48), (1, 2, 2)), 300),
    motion: (Plan("steps", (12, 16, 24), (2, 2, 2)), 400),
    table: (Plan("dense", (32, 16)), 400),
}


def by_torch(torch: Any, net: Network, batch: Any, settings: Settings) -> Callable[[Array], Array]:
    """Train with PyTorch's layers, gradients and AdamW, from the weights of `net`."""
    f = torch.nn.functional
    values = [{n: torch.tensor(v.copy(), requires_grad=True) for n, v in layer.values.items()} for layer in net.layers]
    kept = [{n: torch.tensor(v.copy()) for n, v in layer.kept.items()} for layer in net.layers]

    def forward(x: Array, learns: bool) -> Any:
        t = torch.tensor(((x - net.mean) / net.spread).reshape(len(x), *net.view).astype(np.float32))
        t = t.permute(0, 3, 1, 2) if t.ndim == 4 else t
        for layer, v, k in zip(net.layers, values, kept, strict=True):
            if isinstance(layer, Conv | Depthwise):
                (_, top, bottom), (_, left, right) = (
                    pads(*side) for side in zip(t.shape[2:], layer.kernel, layer.stride, strict=True)
                )
                w, groups = v["w"].reshape(*layer.kernel, -1, 1), t.shape[1]
                if isinstance(layer, Conv):
                    w, groups = v["w"].reshape(*layer.kernel, layer.channels, -1).transpose(2, 3), 1
                t = f.conv2d(
                    f.pad(t, (left, right, top, bottom)), w.permute(2, 3, 0, 1), None, layer.stride, 0, 1, groups
                )
            elif isinstance(layer, Norm):
                t = f.relu(f.batch_norm(t, k["mean"], k["variance"], v["scale"], v["bias"], learns, 0.1, 1e-3))
            elif isinstance(layer, Pool):
                t = t.mean((2, 3))
            elif isinstance(layer, Flat):
                t = t.permute(0, 2, 3, 1).flatten(1)
            elif isinstance(layer, Dropout):
                t = f.dropout(t, layer.share, learns)
            else:
                assert isinstance(layer, Dense)
                t = t @ v["w"] + v["b"]
                t = f.relu(t) if layer.relu else t
        return t

    every = [t for v in values for t in v.values()]
    parts = [
        {"params": [t for t in every if (t.ndim > 1) == decays], "weight_decay": 0.02 * decays} for decays in (0, 1)
    ]
    adam = torch.optim.AdamW(parts, lr=settings.rate)
    for n in range(1, settings.steps + 1):
        x, y = batch(np.random.default_rng((settings.seed, n)), settings.batch)
        cosine = 0.5 + 0.5 * np.cos(np.pi * (n - 1) / settings.steps)
        for part in adam.param_groups:
            part["lr"] = settings.rate * min(1, n / WARM_UP) * cosine + 1e-5
        adam.zero_grad()
        f.cross_entropy(forward(x, True), torch.tensor(y)).backward()
        adam.step()
    return lambda x: forward(x, False).detach().numpy()


@dataclass(frozen=True)
class Half:
    """A set whose one half is learnt from; the other judges."""

    x: Array
    y: Array
    learnt: Array
    held: Array

    @classmethod
    def of(cls, data: Callable[[], tuple[Array, Array]]) -> Half:
        x, y = data()
        order = np.random.default_rng(0).permutation(len(x))
        return cls(x.astype(np.float32), y, order[::2], order[1::2])

    def batch(self, rng: np.random.Generator, size: int) -> tuple[Array, Array]:
        rows = rng.choice(self.learnt, size)
        return self.x[rows], self.y[rows]

    def network(self, plan: Plan, seed: int) -> Network:
        labels = int(self.y.max()) + 1
        return plan.build(np.random.default_rng(seed), self.x.shape[1:], labels, np.zeros(1), np.ones(1))

    def right(self, answers: Array) -> float:
        """Return the per cent of what is held out."""
        return 100 * float(np.mean(answers.argmax(axis=1) == self.y[self.held]))


@nightly
@pytest.mark.parametrize("data", SETS, ids=lambda f: f.__name__)
def test_within_a_point_of_pytorch(data: Callable[[], tuple[Array, Array]]) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    torch.set_num_threads(1)
    half, (plan, steps) = Half.of(data), SETS[data]
    right: list[list[float]] = [[], []]
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        settings = Settings(steps, seed=seed)
        net = half.network(plan, seed)
        theirs = by_torch(torch, net, half.batch, settings)
        Training(net, settings).run(half.batch, steps)
        x = half.x[half.held]
        for found, answers in zip(right, (net.probabilities(x), theirs(x)), strict=True):
            found.append(half.right(answers))
    ours, others = map(np.mean, right)
    print(f"{data.__name__}: {plan.name}, here {ours:.2f} %, PyTorch {others:.2f} % ({right})")
    assert ours >= others - 1


@nightly
@pytest.mark.parametrize("data", SETS, ids=lambda f: f.__name__)
def test_packing_loses_hardly_anything(data: Callable[[], tuple[Array, Array]], tmp_path: Path) -> None:
    """At most half a point with weights of 8 bits, and one with 4."""
    half, (plan, steps) = Half.of(data), SETS[data]
    net = half.network(plan, 0)
    Training(net, Settings(steps)).run(half.batch, steps)
    labels = tuple(map(str, range(half.y.max() + 1)))
    (tmp_path / "net.onnx").write_bytes(onnx_file.model(net, half.x.shape[1:], labels))
    x = half.x.transpose(0, 3, 1, 2) if half.x.ndim == 4 else half.x[:, None] if data is words else half.x
    whole = half.right(net.probabilities(half.x[half.held]))
    for weights, most in ((8, 0.5), (4, 1.0)):
        packed = mica.pack(tmp_path / "net.onnx", x[half.learnt][:200], weights=weights)
        found = half.right(np.asarray(mica.load(packed.data).predict(x[half.held])).reshape(len(half.held), -1))
        print(f"{data.__name__}: {plan.name}, float {whole:.2f} %, {weights} bits {found:.2f} %")
        assert found >= whole - most
