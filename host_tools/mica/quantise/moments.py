"""What the inputs of convolutions and matrix products look like: mean and second moments of the patches they multiply.

A patch is the part of x that one output value of a channel is a dot product with: K numbers, in the order of the
weights. With its mean m and covariance C the effect of any change d [K] of a channel's weights is known without
running anything: the output shifts by d @ m and gets noise of variance d @ C @ d.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from mica.format.values import HIGH, LOW
from mica.ir.graph import Graph, Node, Quant
from mica.quantise.calibrate import Samples, runs
from mica.quantise.equalise import LINEAR

MAX_PATCHES = 512  # of one sample and layer; evenly spread over the picture
FINE = 2.0**16
MAX_ENTRIES = 4_000_000  # of all covariances of a network together, 8 bytes each


@dataclass
class Moments:
    """Sums over the patches that a linear node reads. Groups: 1, or those of the convolution, or one a channel.

    What is added up are whole numbers, so that no sum is rounded and their order does not matter: the integers that
    stand for rounded x, as the file has them, and x itself in FINE-ths of their step.
    """

    groups: int
    taps: int  # K
    quant: Quant  # of x
    with_covariance: bool = True
    count: int = 0

    def __post_init__(self) -> None:
        self.exact = np.zeros((self.groups, self.taps))  # of x, in FINE-ths of a step
        self.integers = np.zeros((self.groups, self.taps))  # that stand for x
        self.products = np.zeros((self.groups, self.taps, self.taps) if self.with_covariance else (0, 0, 0))
        self.waiting: list[np.ndarray] = []

    def add(self, patches: np.ndarray) -> None:
        """patches: float32 [groups, n, K] of one sample, n at most MAX_PATCHES. Few of them wait for more."""
        if sum(p.shape[1] for p in self.waiting) + patches.shape[1] > MAX_PATCHES:
            self.flush()
        self.waiting.append(patches)

    def flush(self) -> None:
        """Add up what waits."""
        if not self.waiting:
            return
        patches = self.waiting[0] if len(self.waiting) == 1 else np.concatenate(self.waiting, axis=1)
        self.waiting = []
        steps = patches / np.float32(self.quant.scale)
        integers = np.rint(steps)
        integers += self.quant.zero_point
        np.clip(integers, LOW, HIGH, out=integers)
        self.count += patches.shape[1]
        steps *= FINE
        self.exact += np.rint(steps, out=steps).sum(axis=1, dtype=np.float64)
        # MAX_PATCHES * 128 * 128 is below 2**24: exact in float32.
        self.integers += integers.sum(axis=1)
        if self.with_covariance:
            self.products += np.matmul(integers.transpose(0, 2, 1), integers)

    def merged(self, other: Moments) -> Moments:
        """Of both sets of samples."""
        assert self.quant == other.quant
        result = Moments(self.groups, self.taps, self.quant, self.with_covariance, self.count + other.count)
        for name in ("exact", "integers", "products"):
            setattr(result, name, getattr(self, name) + getattr(other, name))
        return result

    @property
    def mean(self) -> np.ndarray:
        """Of x [groups, K]."""
        return self.exact * (self.quant.scale / (FINE * max(self.count, 1)))

    @property
    def mean_rounded(self) -> np.ndarray:
        """Of rounded x [groups, K]."""
        return (self.integers / max(self.count, 1) - self.quant.zero_point) * self.quant.scale

    @property
    def covariance(self) -> np.ndarray:
        """Of rounded x [groups, K, K]; positive definite, by a millionth of the mean square."""
        n, zero = max(self.count, 1), self.quant.zero_point
        m = self.integers / n
        of_each = np.diagonal(self.products, axis1=1, axis2=2) / n - 2 * zero * m + zero * zero
        noise = (1e-6 * of_each.mean(axis=1))[:, None, None] * np.eye(self.taps)
        return np.asarray((self.products / n - m[:, :, None] * m[:, None, :] + noise) * self.quant.scale**2)


def measure(g: Graph, samples: Samples, quants: Mapping[str, Quant]) -> dict[str, Moments]:
    """Moments of what every linear node reads: its output's name -> Moments."""
    result: dict[str, Moments] = {}
    left = MAX_ENTRIES
    nodes = [n for n in g.nodes if n.op in LINEAR and all(g.is_const(i) for i in n.inputs[1:])]
    for node in nodes:
        groups, taps = shape(g, node)
        entries = groups * taps * taps
        result[node.outputs[0]] = Moments(groups, taps, quants[node.inputs[0]], entries <= left)
        left -= entries if entries <= left else 0
    for values in runs(g, samples):
        for node in nodes:
            result[node.outputs[0]].add(patches(g, node, values[node.inputs[0]]))
    for m in result.values():
        m.flush()
    return result


def shape(g: Graph, node: Node) -> tuple[int, int]:
    """(groups, K) of a linear node."""
    w = g.value(node.inputs[1]).shape
    taps = int(np.prod(w[1:], dtype=np.int64))
    if node.op == "DepthwiseConv2d":
        return g.value(node.inputs[0]).shape[3], taps
    return int(node.attrs.get("groups", 1)), taps


def patches(g: Graph, node: Node, x: np.ndarray) -> np.ndarray:
    """x of a linear node -> [groups, n, K]; outside of x is zero."""
    groups, taps = shape(g, node)
    if node.op == "FullyConnected":
        return x.reshape(1, -1, taps)[:, :: _every(x.size // taps)]
    kh, kw = g.value(node.inputs[1]).shape[1:3]
    _, oh, ow, _ = g.value(node.outputs[0]).shape
    _, h, w, c = x.shape
    at = np.arange(oh * ow)[:: _every(oh * ow)]
    y0 = at // ow * node.attrs["strides"][0] - node.attrs["pads"][0]
    x0 = at % ow * node.attrs["strides"][1] - node.attrs["pads"][1]
    result = np.zeros((len(at), kh * kw, c), np.float32)
    for k, (ky, kx) in enumerate(_taps(kh, kw)):
        row, col = y0 + ky * node.attrs["dilations"][0], x0 + kx * node.attrs["dilations"][1]
        inside = (row >= 0) & (row < h) & (col >= 0) & (col < w)
        result[inside, k] = x[0, row[inside], col[inside]]
    return result.reshape(len(at), kh * kw, groups, -1).transpose(2, 0, 1, 3).reshape(groups, len(at), taps)


def _taps(kh: int, kw: int) -> Iterator[tuple[int, int]]:
    return ((ky, kx) for ky in range(kh) for kx in range(kw))


def _every(n: int) -> int:
    return -(-n // MAX_PATCHES)
