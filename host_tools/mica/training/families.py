"""The networks that a search chooses from: a few proven families for each kind of data, in sizes from tiny to large.

sound, picture  a convolution, then pairs of a depthwise and a pointwise one, and the mean of each channel
motion          three convolutions along time; or a dense network on statistics of each axis
table           a dense network, or a forest
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from mica.training.layers import Array, Conv, Dense, Depthwise, Dropout, Flat, Layer, Network, Norm, Pool, Rng

FEATURES = "features"  # the front end of motion that gives statistics
# A network of spoken words, made by scripts/embedding, with SCALE for its features' logarithms.
FILE = Path(__file__).with_name("spoken.npz")
WORDS_RATE, SCALE = 16000, "times=0.2265,plus=0.9216"
SIZES, STRIDES = (32, 64, 96, 128, 128), (2, 2, 2, 1, 1)
FACTOR = ".factor"  # ends the name of what int8 weights are multiplied with
SPOKEN = {"spoken": 1, "spoken, tuned": 6}  # families that begin with a network, and layers at its end that learn
SMALL = 16  # rows or columns of a picture, below which the first convolution keeps them all


def learnt() -> dict[str, Array]:
    """Return what the network of spoken words has learnt, float32 by name; `bank`: embeddings of other words."""
    with np.load(FILE) as f:
        names = [name for name in f.files if not name.endswith(FACTOR)]
        return {n: f[n].astype(np.float32) * (f[n + FACTOR] if n + FACTOR in f.files else 1) for n in names}


class Model(Protocol):
    """A network or a forest: it gives probabilities of the labels."""

    def probabilities(self, x: Array) -> Array:
        """Return float32 [n, labels] of examples as a recipe gives them."""


@dataclass(frozen=True)
class Plan:
    """One candidate before it has learnt.

    family: "depthwise", "steps", "dense", "forest", or one of SPOKEN. sizes: filters of each layer (of a forest its
    trees, and their depth). strides: of each of them. pool: the last layer sees means, not all places. front_end: None
    takes the usual one of the kind. steps: of training.
    """

    family: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...] = ()
    pool: bool = True
    front_end: str | None = None
    steps: int = 500

    @property
    def name(self) -> str:
        """Name it in a table: what it is made of, in its order."""
        if self.family == "forest":
            return f"forest of {self.sizes[0]} trees, depth {self.sizes[1]}"
        if self.family == "dense":
            hidden = ", ".join(map(str, self.sizes)) or "no hidden layer"
            return f"dense {hidden}" + (" on features" if self.front_end else "")
        parts = [f"{n}/{s}" if s > 1 else str(n) for n, s in zip(self.sizes, self.strides, strict=True)]
        kind = "conv" if self.family == "steps" else self.family
        return f"{kind} {', '.join(parts)}" + ("" if self.pool else ", all places")

    def build(self, rng: Rng, shape: Sequence[int], labels: int, mean: Array, spread: Array) -> Network:
        """Return the network with weights by chance. shape: of an example; mean, spread: as of `Network`."""
        make = {"steps": _steps, "dense": _dense}.get(self.family, _depthwise)
        layers, view = make(self, rng, tuple(shape), labels)
        network = Network(layers, view, mean, spread)
        if self.family in SPOKEN:
            network.restore({**network.arrays(), **learnt()})
            network.fixed = len(network.layers) - SPOKEN[self.family]
        return network


def plans(kind: str, shape: Sequence[int]) -> list[Plan]:
    """Return all candidates for a kind of data, whose examples have a shape."""
    if kind == "table":
        dense = [Plan("dense", sizes, steps=1000) for sizes in ((), (8,), (16,), (32,), (16, 16), (64,), (32, 16))]
        return dense + [Plan("forest", (trees, depth), steps=0) for trees in (10, 30) for depth in (5, 8)]
    if kind == "motion":
        shrink = 2 if shape[0] > 40 else 1
        convs = [
            Plan("steps", (n, 3 * n // 2, 2 * n), (2, 2, shrink), pool, steps=600)
            for pool in (False, True)
            for n in (4, 8, 12, 16, 24)
        ]
        return convs + [Plan("dense", (n,), front_end=FEATURES, steps=600) for n in (8, 16)]
    if kind == "sound":
        shapes: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
            ((2, 2, 1, 1), (3, 4, 6, 6)),
            ((2, 2, 2), (3, 4, 6)),
            ((2, 2, 1, 1, 1), (3, 4, 6, 6, 8)),
            ((4, 2, 1), (3, 4, 6)),
        )
        widths = [4, 8, 12, 16, 24, 32, 48]
    else:
        first = 1 if min(shape[:2]) < SMALL else 2
        halves = max(0, int(math.log2(min(shape[:2]))) - 2 - (first == 2))
        strides = [(first, *(2 if k < halves else 1 for k in range(n))) for n in (2, 3, 4)]
        strides += [(4, 2, 1)] if min(shape[:2]) >= 2 * SMALL else []
        shapes = tuple((s, (3, 6, 9, 12, 12)[: len(s)]) for s in strides)
        widths = [4, 8, 12, 16, 24, 32]
    begun = [Plan(f, SIZES, STRIDES, front_end=SCALE, steps=700) for f in SPOKEN if kind == "sound"]
    return begun + [
        Plan("depthwise", tuple(_of_four(w * m / multiples[0]) for m in multiples), strides, steps=1500)
        for strides, multiples in shapes
        for w in widths
    ]


def _of_four(n: float) -> int:
    """Return the next multiple of four, which kernels of all cores are fast for."""
    return max(4, 4 * round(n / 4))


def _depthwise(p: Plan, rng: Rng, shape: tuple[int, ...], labels: int) -> tuple[list[Layer], tuple[int, ...]]:
    """Return the layers, and the form in which the first takes an example: spectra have one channel."""
    view = shape if len(shape) == 3 else (*shape, 1)
    kernel = (10, 4) if len(shape) == 2 else (5, 5) if p.strides[0] > 2 else (3, 3)
    stride = (p.strides[0], min(2, p.strides[0])) if len(shape) == 2 else (p.strides[0],) * 2
    layers: list[Layer] = [Conv(rng, kernel, view[-1], p.sizes[0], stride), Norm(p.sizes[0])]
    for before, after, s in zip(p.sizes, p.sizes[1:], p.strides[1:], strict=False):
        layers += [Depthwise(rng, (3, 3), before, (s, s)), Norm(before)]
        layers += [Conv(rng, (1, 1), before, after, (1, 1)), Norm(after)]
    return [*layers, Pool(), Dense(rng, p.sizes[-1], labels)], view


def _steps(p: Plan, rng: Rng, shape: tuple[int, ...], labels: int) -> tuple[list[Layer], tuple[int, ...]]:
    steps, axes = shape
    layers: list[Layer] = []
    before, kernels = axes, (7, 5, 3)
    for n, s, kernel in zip(p.sizes, p.strides, kernels, strict=True):
        layers += [Conv(rng, (kernel, 1), before, n, (s, 1)), Norm(n)]
        before, steps = n, -(-steps // s)
    if p.pool:
        return [*layers, Pool(), Dense(rng, before, labels)], (shape[0], 1, axes)
    return [*layers, Flat(), Dropout(0.3), Dense(rng, before * steps, labels)], (shape[0], 1, axes)


def _dense(p: Plan, rng: Rng, shape: tuple[int, ...], labels: int) -> tuple[list[Layer], tuple[int, ...]]:
    inputs = int(np.prod(shape))
    layers: list[Layer] = []
    for n in p.sizes:
        layers.append(Dense(rng, inputs, n, relu=True))
        inputs = n
    return [*layers, *([Dropout(0.1)] if p.sizes else []), Dense(rng, inputs, labels)], (int(np.prod(shape)),)
