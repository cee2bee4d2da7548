"""Every distinct layer of the four MLPerf Tiny models, each as a .mica file of one step with random constants.

A layer is written down once, with how often each model has it; data and weights are full-range and seeded, so that a count
can be repeated anywhere. What the peers and trials cost, per MAC, stands beside it where it is known.
"""

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from bare_metal import Job, for_board, random_input

from mica.file import codec
from mica.file.codec import ModelFile, StepRecord, TensorRecord
from mica.kernels import KERNEL_BY_NAME

Array = np.ndarray
ACT = {"act_min": -128, "act_max": 127}
MODELS = ("kws", "res", "vww", "ad")
TIMES = 64  # that a layer of a few hundred instructions is run


@dataclass(frozen=True)
class Layer:
    """One layer. `x` is [H, W, C], or [K] of a fully connected one; `out` its channels; `times`: how often, by model."""

    name: str
    kind: str  # conv, dw, fc, avg, add, softmax
    x: tuple[int, ...]
    out: int
    times: Mapping[str, int]
    kernel: tuple[int, int] = (1, 1)
    stride: int = 1

    @property
    def y(self) -> tuple[int, ...]:
        """Output [H, W, C] or [N]."""
        if len(self.x) == 1:
            return (self.out,)
        if self.kind == "avg":
            return (1, 1, self.out)
        return (*(-(-n // self.stride) for n in self.x[:2]), self.out)

    @property
    def k(self) -> int:
        """Length of a dot product."""
        return math.prod(self.kernel) * (self.x[-1] if self.kind in ("conv", "fc") else 1)

    @property
    def macs(self) -> int:
        """Multiply-accumulates; 0 for layers that have none."""
        return math.prod(self.y) * self.k if self.kind in ("conv", "dw", "fc") else 0

    @property
    def work(self) -> int:
        """Return the number by which a cost is divided: MACs, or else elements read."""
        return self.macs or math.prod(self.x)


def _vww() -> list[Layer]:
    rows = [Layer("vww.conv1 3x3s2 3-8 96x96", "conv", (96, 96, 3), 8, {"vww": 1}, (3, 3), 2)]
    # side, channels in, stride, channels out, how often
    for side, c, stride, out, times in (
        (48, 8, 1, 16, 1), (48, 16, 2, 32, 1), (24, 32, 1, 32, 1), (24, 32, 2, 64, 1), (12, 64, 1, 64, 1),
        (12, 64, 2, 128, 1), (6, 128, 1, 128, 5), (6, 128, 2, 256, 1), (3, 256, 1, 256, 1),
    ):  # fmt: skip
        small = side // stride
        mark = f"s{stride}" if stride > 1 else ""
        rows.append(Layer(f"vww.dw{mark} {side}x{side}x{c}", "dw", (side, side, c), c, {"vww": times}, (3, 3), stride))
        rows.append(Layer(f"vww.pw {c}-{out} {small}x{small}", "conv", (small, small, c), out, {"vww": times}))
    return rows


LAYERS = [
    Layer("kws.conv1 10x4s2 1-64", "conv", (49, 10, 1), 64, {"kws": 1}, (10, 4), 2),
    Layer("kws.dw3x3 25x5x64", "dw", (25, 5, 64), 64, {"kws": 4}, (3, 3)),
    Layer("kws.pw 64-64 25x5", "conv", (25, 5, 64), 64, {"kws": 4}),
    Layer("kws.avg 25x5x64", "avg", (25, 5, 64), 64, {"kws": 1}),
    Layer("kws.fc 64-12", "fc", (64,), 12, {"kws": 1}),
    Layer("softmax 12", "softmax", (12,), 12, {"kws": 1}),
    Layer("res.conv1 3x3 3-16 32x32", "conv", (32, 32, 3), 16, {"res": 1}, (3, 3)),
    Layer("res.conv 3x3 16-16 32x32", "conv", (32, 32, 16), 16, {"res": 2}, (3, 3)),
    Layer("res.add 32x32x16", "add", (32, 32, 16), 16, {"res": 1}),
    Layer("res.conv 3x3s2 16-32 32x32", "conv", (32, 32, 16), 32, {"res": 1}, (3, 3), 2),
    Layer("res.pw s2 16-32 32x32", "conv", (32, 32, 16), 32, {"res": 1}, (1, 1), 2),
    Layer("res.conv 3x3 32-32 16x16", "conv", (16, 16, 32), 32, {"res": 1}, (3, 3)),
    Layer("res.add 16x16x32", "add", (16, 16, 32), 32, {"res": 1}),
    Layer("res.conv 3x3s2 32-64 16x16", "conv", (16, 16, 32), 64, {"res": 1}, (3, 3), 2),
    Layer("res.pw s2 32-64 16x16", "conv", (16, 16, 32), 64, {"res": 1}, (1, 1), 2),
    Layer("res.conv 3x3 64-64 8x8", "conv", (8, 8, 64), 64, {"res": 1}, (3, 3)),
    Layer("res.add 8x8x64", "add", (8, 8, 64), 64, {"res": 1}),
    Layer("res.avg 8x8x64", "avg", (8, 8, 64), 64, {"res": 1}),
    Layer("res.fc 64-10", "fc", (64,), 10, {"res": 1}),
    Layer("softmax 10", "softmax", (10,), 10, {"res": 1}),
    *_vww(),
    Layer("vww.avg 3x3x256", "avg", (3, 3, 256), 256, {"vww": 1}),
    Layer("vww.fc 256-2", "fc", (256,), 2, {"vww": 1}),
    Layer("softmax 2", "softmax", (2,), 2, {"vww": 1}),
    Layer("ad.fc 640-128", "fc", (640,), 128, {"ad": 1}),
    Layer("ad.fc 128-128", "fc", (128,), 128, {"ad": 6}),
    Layer("ad.fc 128-8", "fc", (128,), 8, {"ad": 1}),
    Layer("ad.fc 8-128", "fc", (8,), 128, {"ad": 1}),
    Layer("ad.fc 128-640", "fc", (128,), 640, {"ad": 1}),
]

# Counts per MAC (per element of pool, add and softmax) of others on the same layers and data: the best library that is in
# use today, TFLite Micro's reference, and the trial kernels from before the library had its own. None: not measured.
PEERS: dict[str, dict[str, tuple[float | None, float | None, float | None]]] = {
    "m0plus": {
        "kws.conv1 10x4s2 1-64": (11.29, 79.98, 4.25),
        "kws.dw3x3 25x5x64": (30.56, 73.87, 10.52),
        "kws.pw 64-64 25x5": (9.54, 26.34, 3.38),
        "kws.fc 64-12": (10.64, 13.39, 6.02),
        "res.conv1 3x3 3-16 32x32": (13.85, 50.69, 5.56),
        "res.conv 3x3 16-16 32x32": (8.75, 25.86, 3.46),
        "res.conv 3x3s2 32-64 16x16": (7.71, 22.10, 3.09),
        "vww.conv1 3x3s2 3-8 96x96": (14.83, 51.78, 7.10),
        "vww.dw 48x48x8": (25.81, 77.12, 9.68),
        "vww.pw 8-16 48x48": (24.26, 64.09, 7.94),
        "vww.pw 128-128 6x6": (8.47, 23.66, 3.02),
        "ad.fc 640-128": (8.26, 11.23, 4.43),
        "ad.fc 128-128": (9.11, 12.13, 4.78),
        "kws.avg 25x5x64": (11.55, 18.11, 4.60),
        "res.add 32x32x16": (320.89, 364.94, 70.37),
        "softmax 12": (451.42, 1985.50, None),
    },
    "m3": {
        "kws.conv1 10x4s2 1-64": (3.79, 36.39, None),
        "kws.dw3x3 25x5x64": (9.37, 33.06, None),
        "kws.pw 64-64 25x5": (3.11, 8.91, None),
        "kws.fc 64-12": (4.17, 6.82, None),
        "res.conv1 3x3 3-16 32x32": (4.49, 20.26, None),
        "res.conv 3x3 16-16 32x32": (3.33, 9.25, None),
        "res.conv 3x3s2 32-64 16x16": (2.76, 7.68, None),
        "vww.conv1 3x3s2 3-8 96x96": (4.98, 20.69, None),
        "vww.dw 48x48x8": (5.39, 34.51, None),
        "vww.pw 8-16 48x48": (5.94, 22.43, None),
        "vww.pw 128-128 6x6": (2.88, 7.95, None),
        "ad.fc 640-128": (3.44, 6.08, None),
        "ad.fc 128-128": (3.67, 6.41, None),
        "kws.avg 25x5x64": (8.03, 8.87, None),
        "res.add 32x32x16": (84.01, 90.63, None),
        "softmax 12": (253.33, 383.33, None),
    },
    "m33": {
        "kws.conv1 10x4s2 1-64": (3.10, 36.39, 1.43),
        "kws.dw3x3 25x5x64": (8.25, 33.06, 4.89),
        "kws.pw 64-64 25x5": (2.08, 8.91, 1.05),
        "kws.fc 64-12": (2.86, 6.84, None),
        "res.conv1 3x3 3-16 32x32": (3.89, 20.26, 2.07),
        "res.conv 3x3 16-16 32x32": (2.33, 9.25, 1.14),
        "res.conv 3x3s2 32-64 16x16": (1.86, 7.68, 0.92),
        "vww.conv1 3x3s2 3-8 96x96": (4.39, 20.69, 2.77),
        "vww.dw 48x48x8": (6.45, 34.51, 3.78),
        "vww.pw 8-16 48x48": (5.66, 22.43, 3.02),
        "vww.pw 128-128 6x6": (1.83, 7.95, 0.93),
        "ad.fc 640-128": (1.95, 6.08, None),
        "ad.fc 128-128": (2.27, 6.41, None),
        "kws.avg 25x5x64": (6.38, 8.86, None),
        "res.add 32x32x16": (16.25, 90.64, None),
        "softmax 12": (50.00, 383.33, None),
    },
    "rv32": {
        "kws.conv1 10x4s2 1-64": (5.26, 28.96, 3.24),
        "kws.dw3x3 25x5x64": (12.51, 28.04, None),
        "kws.pw 64-64 25x5": (4.70, 9.94, 2.72),
        "kws.fc 64-12": (6.11, 8.93, None),
        "res.conv1 3x3 3-16 32x32": (6.41, 18.51, 4.24),
        "res.conv 3x3 16-16 32x32": (4.74, 9.70, 2.73),
        "res.conv 3x3s2 32-64 16x16": (4.24, 8.35, 2.35),
        "vww.conv1 3x3s2 3-8 96x96": (7.00, 18.92, 5.20),
        "vww.dw 48x48x8": (6.73, 29.33, None),
        "vww.pw 8-16 48x48": (8.44, 23.74, 6.05),
        "vww.pw 128-128 6x6": (4.39, 8.97, 2.42),
        "ad.fc 640-128": (5.14, 8.09, None),
        "ad.fc 128-128": (5.64, 8.43, None),
        "kws.avg 25x5x64": (6.59, 6.59, None),
        "res.add 32x32x16": (73.73, 108.95, None),
        "softmax 12": (9.67, 507.75, None),
    },
}
# Whole models, in millions: best library, trial, goal. On the m55: CMSIS-NN 99f736a with MVE, -Ofast, single rounding.
WHOLE: dict[str, dict[str, tuple[float, float | None, float | None]]] = {
    "m0plus": {
        "kws": (37.2, 11.36, 11.0),
        "res": (136.7, 44.68, 42),
        "vww": (109.8, 36.34, 33),
        "ad": (2.10, 1.24, 1.25),
    },
    "m3": {
        "kws": (10.54, None, None),
        "res": (41.76, None, None),
        "vww": (32.08, None, None),
        "ad": (0.95, None, None),
    },
    "m33": {"kws": (7.80, 4.07, 3.5), "res": (29.92, 14.0, 13), "vww": (24.54, 12.62, 10), "ad": (0.58, None, 0.40)},
    "m55": {"kws": (1.74, None, None), "res": (4.72, None, None), "vww": (6.30, None, None), "ad": (0.15, None, None)},
    "rv32": {"kws": (16.27, 10.26, 8.5), "res": (63.66, 34.76, 33), "vww": (47.48, 28.07, 24), "ad": (1.47, None, 0.9)},
}


def weights(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> Array:
    """Random in -127..127; "extreme": only the ends, mostly negative, so that sums are as large as they can be."""
    if kind == "extreme":
        return rng.choice(np.array([-127, -127, -127, 127], np.int8), shape)
    return rng.integers(-127, 128, shape, dtype=np.int8)


def channels(rng: np.random.Generator, n: int, k: int) -> dict[str, Array]:
    """bias, mult and shift that spread the outputs over the int8 range."""
    return {
        "bias": rng.integers(-2000, 2000, n).astype(np.int32),
        "mult": rng.integers(2**30, 2**31, n).astype(np.int32),
        "shift": np.full(n, round(6 + math.log2(math.sqrt(k))), np.int8),
    }


def window(layer: Layer) -> dict[str, int]:
    """Kernel, stride and TFLite's SAME padding; a pool covers its whole input."""
    kernel = layer.x[:2] if layer.kind == "avg" else layer.kernel
    stride = max(layer.x[:2]) if layer.kind == "avg" else layer.stride
    p = {"kernel_h": kernel[0], "kernel_w": kernel[1], "stride_h": stride, "stride_w": stride}
    p |= {"dilation_h": 1, "dilation_w": 1}
    for i, name in enumerate(("pad_top", "pad_left")):
        p[name] = max((layer.y[i] - 1) * stride + kernel[i] - layer.x[i], 0) // 2 if layer.kind != "avg" else 0
    return p


def model(layer: Layer, kind: str = "") -> ModelFile:
    """The layer as a file of one step."""
    rng = np.random.default_rng(zlib.crc32(layer.name.encode()))
    x_dims, y_dims = (1, *layer.x), (1, *layer.y)
    x_bytes = -(-math.prod(x_dims) // 16) * 16
    tensors = [TensorRecord("x", "int8", x_dims, 0.05, -3, offset=0)]
    k = layer.k
    if layer.kind == "softmax":
        tensors.append(TensorRecord("y", "int8", y_dims, 1 / 256, -128, offset=x_bytes))
        table = np.round(2.0**23 * np.exp(-0.05 * np.arange(256))).astype(np.uint32)
        step = StepRecord(layer.name, "softmax_s8", (0,), (1,), {}, {"table": table})
    elif layer.kind == "add":
        tensors.append(TensorRecord("b", "int8", x_dims, 0.07, 5, offset=x_bytes))
        tensors.append(TensorRecord("y", "int8", y_dims, 0.09, 4, offset=2 * x_bytes))
        p = ACT | {"mult_a": 582542, "mult_b": 815559, "offset": 1 << 19, "shift": 20}
        step = StepRecord(layer.name, "add_s8", (0, 1), (2,), p)
    elif layer.kind == "avg":
        tensors.append(TensorRecord("y", "int8", y_dims, 0.05, -3, offset=x_bytes))
        taps = math.prod(layer.x[:2])
        shift = math.floor(math.log2(taps))
        blobs = {
            "mult": np.array([min(round(2.0 ** (31 + shift) / taps), 2**31 - 1)], np.int32),
            "shift": np.array([shift], np.int8),
        }
        step = StepRecord(layer.name, "average_pool2d_s8", (0,), (1,), window(layer) | ACT, blobs)
    else:
        tensors.append(TensorRecord("y", "int8", y_dims, 0.05, 4, offset=x_bytes))
        shape = {
            "conv": (layer.out, *layer.kernel, layer.x[-1]),
            "dw": (layer.out, *layer.kernel),
            "fc": (layer.out, k),
        }
        blobs = {"weights": weights(rng, shape[layer.kind], kind)} | channels(rng, layer.out, k)
        p = dict(ACT)
        if layer.kind != "fc":
            p |= window(layer) | ({"groups": 1} if layer.kind == "conv" else {})
        name = {"conv": "conv2d_s8", "dw": "depthwise_conv2d_s8", "fc": "fully_connected_s8"}[layer.kind]
        step = StepRecord(layer.name, name, (0,), (1,), p, blobs, macs=layer.macs)
    inputs = list(range(len(tensors) - 1))
    return ModelFile(tensors, [step], inputs, [len(tensors) - 1], {"name": layer.name})


def job(layer: Layer, kind: str = "", board: str = "MPS2_AN385", scratch: int | None = None) -> Job:
    """The layer with its data, as `pack` would write it for a board."""
    m = model(layer, kind)
    step = m.steps[0]
    step.flags = codec.step_flags(step)
    step.layout = KERNEL_BY_NAME[step.kernel].layout.code
    rng = np.random.default_rng(zlib.crc32(f"{layer.name} {kind}".encode()))
    inputs = [random_input(m.tensors[i], rng, kind) for i in m.inputs]
    name = f"{layer.name}{f' ({kind})' if kind else ''}"
    return Job(name, for_board(m, board), inputs, scratch, times=TIMES if layer.kind == "softmax" else 1)
