"""Every distinct layer of the four MLPerf Tiny models, each as a .mica file of one step with random constants.

A layer is written down once, with how often each model has it;
data and weights are full-range and seeded, so that a count can be repeated anywhere.
What the peers and trials cost, per MAC, stands beside it where it is known.
"""

import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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
    """One layer. `x` is [H, W, C], or [K] of a fully connected one; `out` its channels;
    `times`: how often, by model."""

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

# Cycles of other libraries on the same layers and data, by core. "layers": cycles a MAC (an element of pool, add and
# softmax) of three: the best library in use today, TFLite Micro's reference, the first trial kernels. null is not
# measured. "models", in millions: best library, trial, goal. On the m55: CMSIS-NN 99f736a with MVE, -Ofast, single
# rounding.
PEERS = json.loads(Path(__file__).with_name("peers.json").read_text(encoding="utf-8"))


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
