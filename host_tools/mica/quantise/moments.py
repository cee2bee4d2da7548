"""Statistics of the inputs of convolutions and matrix products: mean and second moments of their patches.

A patch is the part of x that one output value of a channel is a dot product with: K numbers, in the order of the
weights. With its mean m and covariance C the effect of any change d [K] of a channel's weights is known without
running anything: the output shifts by d @ m and gets noise of variance d @ C @ d.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mica.ir.graph import Graph, Node, Quant
from mica.quantise.calibrate import Runs, Samples
from mica.quantise.equalise import LINEAR

MAX_PATCHES = 512  # of one sample and layer; at even distances over the picture
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

    def merged(self, other: Moments) -> Moments:
        """Return the moments of both sets of samples."""
        assert self.quant == other.quant
        result = Moments(self.groups, self.taps, self.quant, self.with_covariance, self.count + other.count)
        for name in ("exact", "integers", "products"):
            setattr(result, name, getattr(self, name) + getattr(other, name))
        return result

    @property
    def mean(self) -> np.ndarray:
        """Return the mean of x [groups, K]."""
        return self.exact * (self.quant.scale / (FINE * max(self.count, 1)))

    @property
    def mean_rounded(self) -> np.ndarray:
        """Return the mean of rounded x [groups, K]."""
        return (self.integers / max(self.count, 1) - self.quant.zero_point) * self.quant.scale

    @property
    def covariance(self) -> np.ndarray:
        """Return the covariance of rounded x [groups, K, K]; positive definite, by a millionth of the mean square."""
        n, zero = max(self.count, 1), self.quant.zero_point
        m = self.integers / n
        of_each = np.diagonal(self.products, axis1=1, axis2=2) / n - 2 * zero * m + zero * zero
        noise = (1e-6 * of_each.mean(axis=1))[:, None, None] * np.eye(self.taps)
        return np.asarray((self.products / n - m[:, :, None] * m[:, None, :] + noise) * self.quant.scale**2)


class Adder:
    """Adds up what one linear node reads. Several patches have most of their numbers in common,
    so these are rounded first."""

    def __init__(self, places: Places | Rows, quant: Quant, with_covariance: bool) -> None:
        self.places = places
        self.result = Moments(places.groups, places.taps, quant, with_covariance)
        self.waiting: list[np.ndarray] = []

    def add(self, x: np.ndarray) -> None:
        """x float32 [n, *shape] of n samples."""
        places, m = self.places, self.result
        steps = x.reshape(len(x), -1, places.channels) / np.float32(m.quant.scale)
        integers = np.rint(steps)
        integers += m.quant.zero_point
        np.clip(integers, *m.quant.limits, out=integers)
        m.count += len(x) * len(places.at)
        steps *= FINE
        m.exact += places.sums(np.rint(steps, out=steps), 0)
        m.integers += places.sums(integers, m.quant.zero_point)
        if m.with_covariance:
            for one in integers:
                # Many small matrices are multiplied while they still are in a cache.
                if m.groups > 1 or (len(self.waiting) + 1) * len(places.at) > MAX_PATCHES:
                    self.flush()
                self.waiting.append(places.patches(one, m.quant.zero_point))

    def flush(self) -> None:
        """Multiplies what waits."""
        if self.waiting:
            patches = self.waiting[0] if len(self.waiting) == 1 else np.concatenate(self.waiting, axis=1)
            # MAX_PATCHES * 128 * 128 is below 2**24: exact in float32.
            self.result.products += np.matmul(patches.transpose(0, 2, 1), patches)
            self.waiting = []

    def done(self) -> Moments:
        """The sums."""
        self.flush()
        return self.result


class Rows:
    """An array whose rows [n, K] are the patches."""

    groups = 1

    def __init__(self, n: int, taps: int) -> None:
        self.channels = self.taps = taps
        self.at = np.arange(n)

    def patches(self, x: np.ndarray, outside: int) -> np.ndarray:
        """x [n, K] -> [1, n, K]."""
        return x[None]

    def sums(self, x: np.ndarray, outside: int) -> np.ndarray:
        """Sum x [samples, n, K]: [1, K]."""
        return np.asarray(x.sum(axis=(0, 1), dtype=np.float64)[None])


class Places:
    """Places of the patches of a linear node in its input, MAX_PATCHES at most, at even distances over the picture."""

    def __init__(self, g: Graph, node: Node) -> None:
        self.groups, self.taps = shape(g, node)
        taps = self.taps
        x = g.value(node.inputs[0]).shape
        if node.op == "FullyConnected":
            self.channels, self.inputs = taps, int(np.prod(x, dtype=np.int64)) // taps
            self.at = np.arange(self.inputs)[:: _every(self.inputs)]
            rows = self.at[:, None]
        else:
            kh, kw = g.value(node.inputs[1]).shape[1:3]
            _, oh, ow, _ = g.value(node.outputs[0]).shape
            _, h, w, self.channels = x
            self.inputs = h * w
            self.at = np.arange(oh * ow)[:: _every(oh * ow)]
            (sh, sw), (dh, dw), (top, left) = (node.attrs[k][:2] for k in ("strides", "dilations", "pads"))
            row = (self.at // ow * sh - top)[:, None, None] + (np.arange(kh) * dh)[:, None]
            col = (self.at % ow * sw - left)[:, None, None] + np.arange(kw) * dw
            inside = (row >= 0) & (row < h) & (col >= 0) & (col < w)
            rows = np.where(inside, row * w + col, h * w).reshape(len(self.at), -1)
        self.rows = rows  # place of x for each patch and tap [n, KH*KW]; `inputs` is outside
        self.all = rows.shape == (self.inputs, 1) and np.array_equal(rows[:, 0], np.arange(self.inputs))
        self.times = np.zeros((0, self.inputs + 1))  # how often a tap meets a place [KH*KW, inputs + 1]
        if not self.all:
            self.times = np.stack([np.bincount(r, minlength=self.inputs + 1) for r in rows.T]).astype(np.float64)

    def patches(self, x: np.ndarray, outside: int) -> np.ndarray:
        """x [inputs, channels] -> [groups, n, K]; what lies outside of it is `outside`."""
        if self.all and self.groups == 1:
            return x[None]
        if self.groups == self.channels:  # a matrix a channel
            wide = np.full((self.channels, self.inputs + 1), outside, x.dtype)
            wide[:, :-1] = x.T
            return wide[:, self.rows]
        wide = np.full((self.inputs + 1, self.channels), outside, x.dtype)
        wide[:-1] = x
        return self.grouped(wide[self.rows])

    def grouped(self, x: np.ndarray) -> np.ndarray:
        """[..., KH*KW, channels] -> [groups, ..., K]."""
        parts = x.reshape(*x.shape[:-1], self.groups, -1)
        return np.moveaxis(parts, -2, 0).reshape(self.groups, *x.shape[:-2], -1)

    def sums(self, x: np.ndarray, outside: int) -> np.ndarray:
        """Over all patches of some samples, of x [n, inputs, channels], whole numbers: [groups, K]."""
        if self.all:
            return self.grouped(x.sum(axis=(0, 1), dtype=np.float64)[None])
        total = self.times[:, :-1] @ x.sum(axis=0, dtype=np.float64)
        total += self.times[:, -1:] * (len(x) * outside)
        return self.grouped(total)


def measure(
    g: Graph,
    samples: Samples,
    quants: Mapping[str, Quant],
    runs: Runs | None = None,
    known: dict[tuple[str, Quant], Moments] | None = None,
    later: Sequence[Mapping[str, Quant]] = (),
) -> dict[str, Moments]:
    """Moments of what every linear node reads: its output's name -> Moments.

    runs: of g, where there are some. known: of the same samples, by output and scale of the input; new ones come to
    them, and those with the scales of calls that come later.
    """
    known = {} if known is None else known
    adders: dict[tuple[str, Quant], Adder] = {}
    readers: dict[str, list[Adder]] = {}
    left = MAX_ENTRIES
    nodes = [n for n in g.nodes if n.op in LINEAR and all(g.is_const(i) for i in n.inputs[1:])]
    for node in nodes:
        groups, taps = shape(g, node)
        entries = groups * taps * taps
        name, read = node.outputs[0], node.inputs[0]
        for quant in {q[read]: 0 for q in (quants, *later)}:
            if (name, quant) not in known:
                adders[name, quant] = Adder(Places(g, node), quant, entries <= left)
                readers.setdefault(read, []).append(adders[name, quant])
        left -= entries if entries <= left else 0
    for _, values in (runs or Runs(g, room=0)).streams(samples, None, readers) if readers else ():
        for name, x in values:
            for adder in readers[name]:
                adder.add(x)
    known |= {key: adder.done() for key, adder in adders.items()}
    return {node.outputs[0]: known[node.outputs[0], quants[node.inputs[0]]] for node in nodes}


def shape(g: Graph, node: Node) -> tuple[int, int]:
    """(groups, K) of a linear node."""
    w = g.value(node.inputs[1]).shape
    taps = int(np.prod(w[1:], dtype=np.int64))
    if node.op == "DepthwiseConv2d":
        return g.value(node.inputs[0]).shape[3], taps
    return int(node.attrs.get("groups", 1)), taps


def _every(n: int) -> int:
    return -(-n // MAX_PATCHES)
