"""Training of one network: Adam, a warm-up, a cosine, and a loop that can be stopped and goes on where it was.

All chance of step k comes from (seed, k), so a run that goes on makes the same network as one that was never stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from mica.training.layers import Array, Layer, Network, cross_entropy

WARM_UP = 50  # steps
EASY = 0.01  # mean loss of the last LATEST steps from which on, behind half of them, there is nothing to learn
LATEST = 50

Batch = Callable[[np.random.Generator, int], tuple[Array, Array]]


class Adam:
    """Kingma and Ba's optimiser, with weights that decay apart from it (Loshchilov and Hutter), of matrices alone."""

    def __init__(self, network: Network, decay: float) -> None:
        learning = network.layers[network.fixed :]
        self._places: list[tuple[Layer, str]] = [(layer, n) for layer in learning for n in layer.values]
        self._decay = decay
        self.means = [np.zeros_like(layer.values[n]) for layer, n in self._places]
        self.squares = [np.zeros_like(m) for m in self.means]

    def step(self, number: int, rate: float) -> None:
        """Take one step; number: from 1 on."""
        rate_now = np.float32(rate * np.sqrt(1 - 0.999**number) / (1 - 0.9**number))
        for (layer, name), mean, square in zip(self._places, self.means, self.squares, strict=True):
            gradient, value = layer.gradients[name], layer.values[name]
            mean += np.float32(0.1) * (gradient - mean)
            square += np.float32(0.001) * (gradient * gradient - square)
            if value.ndim > 1:
                value *= np.float32(1 - rate * self._decay)
            value -= rate_now * mean / (np.sqrt(square) + np.float32(1e-8))


@dataclass(frozen=True)
class Settings:
    """steps: of `batch` examples each. rate: the largest, behind the warm-up. smooth: of targets. cycle: steps until
    the rate is as at the beginning again, by default all."""

    steps: int
    cycle: int | None = None
    rate: float = 0.004
    decay: float = 0.02
    batch: int = 32
    smooth: float = 0.0
    seed: int = 0


@dataclass
class Training:
    """A network on its way. done: steps that were taken; losses: of each of them."""

    network: Network
    settings: Settings
    done: int = 0
    losses: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._adam = Adam(self.network, self.settings.decay)

    @property
    def finished(self) -> bool:
        """Say if all steps are taken, or the rest would teach nothing."""
        s = self.settings
        easy = self.done >= s.steps // 2 + LATEST and float(np.mean(self.losses[-LATEST:])) < EASY
        return self.done >= s.steps or easy

    def step(self, batch: Batch) -> None:
        """Take one step. An exception leaves network and count as they were before it, or as they are behind it."""
        s = self.settings
        number = self.done + 1
        rng = np.random.default_rng((s.seed, number))
        x, y = batch(rng, s.batch)
        logits = self.network.forward(x, rng)
        y = np.concatenate([y, np.full(len(logits) - len(y), self.network.of_bank)])
        loss, d = cross_entropy(logits, y, s.smooth)
        self.network.backward(d)
        cycle = s.cycle or s.steps
        place = (number - 1) % cycle / cycle
        rate = s.rate * min(1, number / WARM_UP) * (0.5 + 0.5 * np.cos(np.pi * place)) + 1e-5
        self._adam.step(number, rate)
        self.done = number
        self.losses.append(loss)

    def run(self, batch: Batch, until: int, go_on: Callable[[Training], bool] = lambda _: True) -> None:
        """Train up to step `until`, as long as `go_on` says so, which is asked before each step."""
        while self.done < until and not self.finished and go_on(self):
            self.step(batch)

    def arrays(self) -> dict[str, Array]:
        """Return all that a run needs to go on, for a file."""
        state = {f"n.{name}": a for name, a in self.network.arrays().items()}
        for letter, arrays in (("m", self._adam.means), ("s", self._adam.squares)):
            state |= {f"{letter}.{k}": a for k, a in enumerate(arrays)}
        return {**state, "losses": np.array(self.losses)}

    def restore(self, state: dict[str, Array]) -> None:
        """Go on from what `arrays` gave."""
        self.network.restore({name[2:]: a for name, a in state.items() if name.startswith("n.")})
        for letter, arrays in (("m", self._adam.means), ("s", self._adam.squares)):
            for k, a in enumerate(arrays):
                a[...] = state[f"{letter}.{k}"]
        self.losses = [float(v) for v in state["losses"]]
        self.done = len(self.losses)

    def history(self, points: int = 200) -> tuple[tuple[int, float], ...]:
        """Return the mean loss of parts of the run: (its last step, mean)."""
        parts = np.array_split(np.array(self.losses), max(1, min(points, len(self.losses))))
        ends = np.cumsum([len(p) for p in parts])
        return tuple((int(e), float(p.mean())) for e, p in zip(ends, parts, strict=True) if len(p))
