"""A .tflite file with an LSTM of int16 activations and int8 weights, and its answers in float64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tflite_files import Tflite

X = float(np.float32(1e-4))  # scale of the input
HIDDEN = 2.0**-15


@dataclass
class Layer:
    """UNIDIRECTIONAL_SEQUENCE_LSTM with its integers. rows: a scale for each row of the weights;
    last: STRIDED_SLICE and FULLY_CONNECTED behind it; hidden: scale of that state; bias: the largest.
    """

    time: int = 5
    units: int = 8
    inputs: int = 4
    batch: int = 1
    time_major: bool = False
    cell: float = 2.0**-12
    seed: int = 0
    rows: bool = False
    last: bool = False
    hidden: float = HIDDEN
    peepholes: bool = False
    bias: int = 60000

    def __post_init__(self) -> None:
        """Gates stand in the file's order: input, forget, cell, output."""
        rng = np.random.default_rng(self.seed)
        widths = (self.inputs, self.units)
        self.weights = [[rng.integers(-127, 128, (self.units, n)).astype(np.int8) for _ in range(4)] for n in widths]
        rows = self.units if self.rows else 1
        self.scales = [
            [(rng.uniform(0.025, 0.05, rows) / n**0.5).astype(np.float32).astype(np.float64) for _ in range(4)]
            for n in widths
        ]
        self.biases = [rng.integers(-self.bias, self.bias + 1, self.units) for _ in range(4)]
        self.head = rng.integers(-127, 128, (3, self.units)).astype(np.int8)

    @property
    def sequence(self) -> tuple[int, int]:
        """Its shape without features."""
        return (self.time, self.batch) if self.time_major else (self.batch, self.time)

    def content(self) -> bytes:
        net = Tflite()
        x = net.tensor([*self.sequence, self.inputs], "int16", X, name="x")
        weights = [
            net.constant(q, s)
            for qs, scales in zip(self.weights, self.scales, strict=True)
            for q, s in zip(qs, scales, strict=True)
        ]
        peepholes = [-1] * 3
        if self.peepholes:
            peepholes = [net.constant(np.full(self.units, 500, np.int16), 1e-3) for _ in range(3)]
        biases = [net.constant(q, X * s) for q, s in zip(self.biases, self.scales[0], strict=True)]
        states = [
            net.tensor([self.batch, self.units], "int16", scale, variable=True) for scale in (self.hidden, self.cell)
        ]
        y = net.tensor([*self.sequence, self.units], "int16", HIDDEN, name="layer")
        ends = [x, *weights, *peepholes, *biases, -1, -1, *states, -1, -1, -1, -1]
        options = {"activation": 4, "cell_clip": 10.0, "time_major": self.time_major}
        net.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", ends, [y], "UnidirectionalSequenceLSTMOptions", options)
        return net.bytes([x], [self._behind(net, y) if self.last else y])

    def _behind(self, net: Tflite, y: int) -> int:
        last, z = net.tensor([1, self.units], "int16", HIDDEN), net.tensor([1, 3], "int16", 2e-4, name="head")
        ends = [net.constant(np.array(v, np.int32)) for v in ([0, -1, 0], [1, 0, self.units], [1, 1, 1])]
        masks = {"begin_mask": 5, "end_mask": 7, "shrink_axis_mask": 2}
        net.operator("STRIDED_SLICE", [y, *ends], [last], "StridedSliceOptions", masks)
        head = [net.constant(self.head, 0.01), net.constant(np.arange(3) * 10**6, HIDDEN * 0.01)]
        net.operator("FULLY_CONNECTED", [last, *head], [z], "FullyConnectedOptions", {"activation": 0})
        return z

    def samples(self, runs: int = 12) -> list[np.ndarray]:
        rng, shape = np.random.default_rng(9), (*self.sequence, self.inputs)
        return [np.clip(rng.normal(0, 9000, shape), -32768, 32767).astype(np.int16) for _ in range(runs)]

    def real(self, xs: list[np.ndarray]) -> np.ndarray:
        """Outputs of the network in real numbers, float64; states live on from run to run."""
        (w, r) = (
            [q * s[:, None] for q, s in zip(qs, scales, strict=True)]
            for qs, scales in zip(self.weights, self.scales, strict=True)
        )
        bias = [q * s * X for q, s in zip(self.biases, self.scales[0], strict=True)]
        h, c = np.zeros((2, self.batch, self.units))
        found = []
        for x in xs:
            steps = []
            for v in x * X if self.time_major else np.swapaxes(x, 0, 1) * X:
                i, f, n, o = (v @ a.T + h @ b.T + k for a, b, k in zip(w, r, bias, strict=True))
                i, f, o = (1 / (1 + np.exp(-z)) for z in (i, f, o))
                c = f * c + i * np.tanh(n)
                h = o * np.tanh(c)
                steps.append(h)
            found.append(np.stack(steps, 0 if self.time_major else 1))
        if self.last:
            return np.array([y[:, -1] @ (self.head * 0.01).T + np.arange(3) * 1e6 * HIDDEN * 0.01 for y in found])
        return np.array(found)
