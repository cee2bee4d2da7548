#!/usr/bin/env python3
"""Small PyTorch networks, exported by both of its ONNX exporters: exports/torchscript_*.onnx and exports/dynamo_*.onnx.

The results are committed; neither mica nor its tests need this script or PyTorch. To run it again (1 minute):

    python3.11 -m venv /tmp/torch
    /tmp/torch/bin/pip install torch==2.13.0 onnxscript==0.7.2 onnx==1.23.2 onnxruntime==1.31.1 numpy==2.4.6
    /tmp/torch/bin/python tests/models/make_torch.py            # all, or: make_torch.py lstm gru

(onnx-ir 1.1.0 came with onnxscript.) Same machine and same versions give the same bytes, except for the one file that
is kept with its source paths in it.
"""

from __future__ import annotations

import argparse
import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import exporting
import numpy as np
import onnx
import torch
from torch import Tensor, nn
from torch.nn import functional

SEED = 3
BATCH = 32
PACKAGES = ("torch", "onnxscript", "onnx-ir", "onnx", "onnxruntime", "numpy")

Data = tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]  # inputs, targets


# --- networks -----------------------------------------------------------------------------------------------------


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 12, 3, padding=1, bias=False),
        nn.BatchNorm2d(12),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(12 * 9, 4),
    )


def conv_norm(cin: int, cout: int, size: int, act: type[nn.Module], stride: int = 1, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(cin, cout, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(cout), act())


class InvertedResidual(nn.Module):
    """MobileNetV2's block, with any activation; as in V3 with squeeze and excite where `squeeze` is given."""

    def __init__(self, c: int, wide: int, act: type[nn.Module], squeeze: nn.Module | None = None) -> None:
        super().__init__()
        self.expand = conv_norm(c, wide, 1, act)
        self.depthwise = conv_norm(wide, wide, 3, act, groups=wide)
        self.squeeze = squeeze or nn.Identity()
        self.project = conv_norm(wide, c, 1, nn.Identity)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.project(self.squeeze(self.depthwise(self.expand(x))))


class SqueezeExcite(nn.Module):
    """x scaled per channel by two 1x1 convolutions of its mean."""

    def __init__(self, c: int, gate: type[nn.Module]) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.gate = nn.Sequential(nn.Conv2d(c, c // 4, 1), nn.ReLU(), nn.Conv2d(c // 4, c, 1), gate())

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(self.pool(x))


def pooled_head(c: int) -> tuple[nn.Module, ...]:
    return nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 4)


def mobilenet_v2() -> nn.Module:
    return nn.Sequential(
        conv_norm(3, 8, 3, nn.ReLU6, stride=2),
        InvertedResidual(8, 24, nn.ReLU6),
        conv_norm(8, 8, 3, nn.ReLU6, stride=2, groups=8),
        conv_norm(8, 10, 1, nn.Identity),
        InvertedResidual(10, 24, nn.ReLU6),
        *pooled_head(10),
    )


def mobilenet_v3() -> nn.Module:
    return nn.Sequential(
        conv_norm(3, 6, 3, nn.Hardswish, stride=2),
        InvertedResidual(6, 16, nn.Hardswish, SqueezeExcite(16, nn.Hardsigmoid)),
        conv_norm(6, 8, 3, nn.Hardswish, stride=2),
        InvertedResidual(8, 20, nn.ReLU, SqueezeExcite(20, nn.Hardsigmoid)),
        *pooled_head(8),
    )


def efficientnet() -> nn.Module:
    return nn.Sequential(
        conv_norm(3, 8, 3, nn.SiLU, stride=2),
        InvertedResidual(8, 24, nn.SiLU, SqueezeExcite(24, nn.Sigmoid)),
        *pooled_head(8),
    )


class PreActivation(nn.Module):
    """ResNet V2's block: normalisations that no convolution before them can take in."""

    def __init__(self, cin: int, cout: int, stride: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(cin), nn.BatchNorm2d(cout)
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.shortcut = nn.Conv2d(cin, cout, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.norm1(x))
        return self.shortcut(x) + self.conv2(functional.relu(self.norm2(self.conv1(y))))


def resnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, bias=False),
        PreActivation(4, 4, 1),
        PreActivation(4, 8, 2),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AvgPool2d(3, 2, padding=1, count_include_pad=False),
        nn.AvgPool2d(2, ceil_mode=True),
        nn.Flatten(),
        nn.Linear(32, 4),
        nn.Softmax(dim=1),
    )


def cnn1d() -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(3, 8, 5, padding=2),
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.MaxPool1d(2),
        nn.Conv1d(8, 16, 3, stride=2),
        nn.BatchNorm1d(16),
        nn.ReLU(),
        nn.AdaptiveMaxPool1d(1),
        nn.Flatten(),
        nn.Linear(16, 4),
        nn.LogSoftmax(dim=1),
    )


class CausalBlock(nn.Module):
    """Dilated convolution that sees only the past: padded on both sides, and the end cut off."""

    def __init__(self, c: int, dilation: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(c, c, 3, padding=2 * dilation, dilation=dilation)
        self.cut = 2 * dilation

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(x + self.conv(x)[:, :, : -self.cut])


class Tcn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(3, 12, 1)
        self.blocks = nn.Sequential(CausalBlock(12, 1), CausalBlock(12, 2), CausalBlock(12, 4))
        self.last = nn.Linear(12, 4)

    def forward(self, x: Tensor) -> Tensor:
        padded = functional.pad(self.first(x), (2, 0))  # causal the other way: padded in front only
        return self.last(self.blocks(padded)[:, :, -1])


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(24, 24),
        nn.LayerNorm(24),
        nn.GELU(),
        nn.Linear(24, 24),
        nn.GELU(approximate="tanh"),
        nn.LayerNorm(24, elementwise_affine=False),
        nn.Linear(24, 4),
    )


class Unet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = conv_norm(1, 4, 3, nn.ReLU), conv_norm(4, 6, 3, nn.ReLU)
        self.bottom = conv_norm(6, 8, 3, nn.ReLU)
        self.up2 = nn.ConvTranspose2d(8, 6, 2, stride=2)
        self.join2 = conv_norm(12, 6, 3, nn.ReLU)
        self.up1 = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.join1 = conv_norm(10, 6, 3, nn.ReLU)
        self.finer = nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, output_padding=1)
        self.head = nn.Conv2d(4, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.down1(x)  # [N,4,12,12]
        b = self.down2(functional.max_pool2d(a, 2))  # [N,6,6,6]
        c = self.bottom(functional.max_pool2d(b, 2))  # [N,8,3,3]
        b = self.join2(torch.cat([self.up2(c), b], 1))
        a = self.join1(torch.cat([self.up1(b), a], dim=1))
        return self.head(functional.avg_pool2d(self.finer(a), 2))


class Fpn(nn.Module):
    """Feature pyramid on an odd size: each level is resized to the size of the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.c1 = conv_norm(3, 6, 3, nn.ReLU, stride=2)
        self.c2 = conv_norm(6, 8, 3, nn.ReLU, stride=2)
        self.c3 = conv_norm(8, 12, 3, nn.ReLU, stride=2)
        self.p1, self.p2, self.p3 = nn.Conv2d(6, 6, 1), nn.Conv2d(8, 6, 1), nn.Conv2d(12, 6, 1)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.head = nn.Conv2d(6, 4, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a = self.c1(x)  # [N,6,5,5]
        b = self.c2(a)  # [N,8,3,3]
        c = self.c3(b)  # [N,12,2,2]
        p2 = self.p2(b) + functional.interpolate(self.p3(c), size=b.shape[-2:], mode="nearest")
        p1 = self.p1(a) + functional.interpolate(p2, size=a.shape[-2:], mode="bilinear", align_corners=True)
        return self.head(self.up(p1)).mean(dim=(2, 3)), self.head(p2).amax(dim=(2, 3))


class Shapes(nn.Module):
    """view, reshape, permute, slice, chunk, cat, squeeze, stack and expand, with sizes taken from the tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 8, 3, padding=1)
        self.last = nn.Linear(8 * 16, 4)

    def forward(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        x = x.view(n, c, h // 2, 2, w // 2, 2).permute(0, 1, 3, 5, 2, 4).reshape(n, c * 4, h // 2, w // 2)
        x = self.conv(x)  # [N,8,4,4]
        a, b = x.chunk(2, dim=1)
        x = torch.cat([b, a * torch.sigmoid(b)], dim=1)
        x = x.view(n, 2, 4, h // 2, w // 2).transpose(1, 2).contiguous().view(n, 8, h // 2, w // 2)  # channel shuffle
        even, odd = x[:, :, :, ::2], x[:, :, :, 1::2]
        x = torch.stack([even, odd], dim=-1).flatten(3)
        first, rest = torch.split(x, [3, x.size(1) - 3], dim=1)
        x = torch.cat([rest, first], 1) + x.mean(dim=(2, 3)).unsqueeze(-1).unsqueeze(-1).expand(-1, -1, h // 2, w // 2)
        return self.last(x.reshape(x.size(0), -1))


class Condition(nn.Module):
    """squeeze of a dimension that the TorchScript exporter does not know becomes an If."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(3, 8, 5)
        self.last = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.conv(x))
        x = functional.max_pool1d(x, x.shape[-1])
        x = x.view(x.shape[0], 8, x.shape[1] // 8)
        return self.last(x.squeeze(2))


class Recurrent(nn.Module):
    """Classifier on the last step, or on the mean over all steps, of a recurrent layer."""

    def __init__(self, layer: nn.RNNBase, *, mean: bool = False) -> None:
        super().__init__()
        self.layer, self.mean = layer, mean
        self.last = nn.Linear(layer.hidden_size * (2 if layer.bidirectional else 1), 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)[0]
        return self.last(y.mean(dim=1) if self.mean else y[:, -1])


class LastHidden(nn.Module):
    """Two layers of LSTM, time first, of which only the last hidden state is used."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(6, 8, num_layers=2, bidirectional=True)
        self.last = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        _, (h, _) = self.layer(x.permute(1, 0, 2))
        return self.last(torch.cat([h[-2], h[-1]], dim=1))


class OneStep(nn.Module):
    """One step of a stream through a trained classifier: the state comes in and goes out as [1,1,16], batch 1."""

    def __init__(self, trained: Recurrent) -> None:
        super().__init__()
        self.layer, self.last = trained.layer, trained.last

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y, (h, c) = self.layer(x, (h, c))
        return self.last(y[:, 0]), h, c


class Encoder(nn.Module):
    """Learnt positions, one transformer encoder layer with nn.MultiheadAttention, mean over the sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(6, 16)
        self.position = nn.Parameter(torch.randn(1, 8, 16) * 0.1)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.wide, self.narrow = nn.Linear(16, 24), nn.Linear(24, 16)
        self.last = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x) + self.position
        x = self.norm1(x + self.attention(x, x, x, need_weights=False)[0])
        x = self.norm2(x + self.narrow(functional.gelu(self.wide(x))))
        return self.last(x.mean(dim=1))


class PlainAttention(nn.Module):
    """Attention as many write it by hand: two dynamic MatMuls and a Softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.qkv, self.out = nn.Linear(6, 16), nn.Linear(16, 48), nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)
        self.last = nn.Linear(16 * 8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-2, -1) * (c // 4) ** -0.5).softmax(dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(b, t, c))
        return self.last(x.flatten(1))


class Embedded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(64, 8)
        self.last = nn.Linear(8, 4)

    def forward(self, token: Tensor) -> Tensor:
        return self.last(self.table(token).mean(dim=1))


class Bag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(64, 8)
        self.last = nn.Linear(8, 4)

    def forward(self, token: Tensor) -> Tensor:
        return self.last(self.bag(token))


class SuperResolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.PReLU(), nn.Conv2d(8, 4, 3, padding=1))
        self.up, self.down = nn.PixelShuffle(2), nn.PixelUnshuffle(2)
        self.gain = nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.up(self.body(x))
        return torch.tanh(y + self.up(self.gain(self.down(y))))


class Activations(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        acts = (nn.PReLU(6), nn.LeakyReLU(0.1), nn.ELU(), nn.SiLU(), nn.Mish(), nn.Softplus(), nn.SELU(), nn.CELU(0.5))
        layers: list[nn.Module] = []
        for k, act in enumerate((*acts, nn.Hardtanh(-1, 1), nn.LogSigmoid(), nn.Softsign(), nn.Tanhshrink())):
            layers += [nn.Conv2d(6 if k else 2, 6, 1 if k % 4 else 3, padding=0 if k % 4 else 1), act]
        self.layers = nn.Sequential(*layers)
        self.last = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers(x)
        return self.last(torch.sqrt(x.pow(2).mean(dim=(2, 3)) + 1e-3) - x.abs().amax(dim=(2, 3)).clamp(max=3))


def norms() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1),
        nn.InstanceNorm2d(6, affine=True),
        nn.ReLU(),
        nn.Conv2d(6, 8, 3, stride=2, padding=1),
        nn.GroupNorm(4, 8),
        nn.ReLU(),
        nn.Conv2d(8, 6, 3, padding=1, padding_mode="reflect"),
        nn.InstanceNorm2d(6),
        nn.ReLU(),
        nn.Conv2d(6, 6, 3, padding=1, padding_mode="replicate"),
        nn.GroupNorm(1, 6),
        *pooled_head(6),
    )


class Argmax(nn.Module):
    """The class alone, and its probability: int64 [N] and float32 [N]."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        probabilities = self.body(x).softmax(dim=-1)
        return probabilities.argmax(dim=1), probabilities.max(dim=1).values


class Segmentation(nn.Module):
    """The class of each pixel."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return torch.argmax(self.body(x), 1, keepdim=True)


def segmenter() -> nn.Module:
    return nn.Sequential(conv_norm(1, 8, 3, nn.ReLU), nn.Conv2d(8, 4, 5, padding=4, dilation=2))


class Fusion(nn.Module):
    """Picture and sensor in, class and one number out."""

    def __init__(self) -> None:
        super().__init__()
        self.see = nn.Sequential(conv_norm(1, 8, 3, nn.ReLU, stride=2), nn.AdaptiveAvgPool2d((2, 2)), nn.Flatten())
        self.feel = nn.Sequential(nn.Conv1d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten())
        self.classes, self.number = nn.Linear(40, 4), nn.Linear(40, 1)

    def forward(self, image: Tensor, sensor: Tensor) -> tuple[Tensor, Tensor]:
        both = torch.cat([self.see(image), self.feel(sensor)], dim=1)
        return self.classes(both), torch.sigmoid(self.number(both))


class Tiny(nn.Module):
    """Operators whose attributes became inputs, or whose meaning moved, from one opset to the next.

    Upsample -> Resize 10, 11, 13, 18, 19; Pad 11; Clip 11; Slice 10; Squeeze, Unsqueeze, ReduceSum, Softmax 13;
    ReduceMean, ReduceMax, Split 18; HardSwish 14; LayerNormalization 17; Gelu 20.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.conv2 = nn.Conv2d(6, 6, 3, groups=2)
        self.norm2 = nn.LayerNorm(6)
        self.last = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu6(self.norm1(self.conv1(x)))
        x = functional.max_pool2d(functional.pad(x, (0, 1, 0, 1)), 2)[:, :, :6, 1:]  # [N,6,6,5]
        x = functional.hardswish(self.conv2(x))  # [N,6,4,3]
        x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
        a, b = x.split([2, 4], dim=1)
        x = torch.cat([b, a.clamp(min=-0.5)], 1)
        x = x * x.softmax(dim=1) + x.amax(dim=3, keepdim=True)
        x = functional.gelu(self.norm2(x.mean(dim=(2, 3)) + x.sum(dim=3)[:, :, 0] / 8))
        return self.last(x.unsqueeze(1)).squeeze(1).softmax(dim=1)


# --- what they learn ----------------------------------------------------------------------------------------------


def classify(outputs: tuple[Tensor, ...], targets: tuple[Tensor, ...]) -> Tensor:
    """Cross entropy of each output, be it logits, log-probabilities or probabilities."""
    return sum((functional.cross_entropy(y, targets[0]) for y in outputs), torch.zeros(()))


def approximate(outputs: tuple[Tensor, ...], targets: tuple[Tensor, ...]) -> Tensor:
    return functional.mse_loss(outputs[0], targets[0])


def classify_and_measure(outputs: tuple[Tensor, ...], targets: tuple[Tensor, ...]) -> Tensor:
    return functional.cross_entropy(outputs[0], targets[0]) + functional.mse_loss(outputs[1], targets[1])


def images(channels: int, size: int) -> Callable[[int, int], Data]:
    def make(n: int, seed: int) -> Data:
        x, y = exporting.pictures(n, channels, size, seed)
        return (x,), (y,)

    return make


def waves(channels: int, length: int, *, last: bool = False, flat: bool = False) -> Callable[[int, int], Data]:
    """[n, channels, length], or with the channels last, or in one dimension."""

    def make(n: int, seed: int) -> Data:
        x, y = exporting.series(n, channels, length, seed)
        if last:
            x = np.ascontiguousarray(x.transpose(0, 2, 1))
        return (x.reshape(n, -1) if flat else x,), (y,)

    return make


def words(n: int, seed: int) -> Data:
    x, y = exporting.tokens(n, 10, 64, seed)
    return (x,), (y,)


def noisy(n: int, seed: int) -> Data:
    """Gratings with noise, and the same without."""
    x, _ = exporting.pictures(n, 1, 12, seed, noise=0)
    rng = np.random.default_rng(seed)
    return (exporting.on_grid(x + rng.normal(0, 0.5, x.shape)),), (x,)


def coarse(n: int, seed: int) -> Data:
    """Gratings at half the resolution, and at the full one."""
    x, _ = exporting.pictures(n, 1, 12, seed, noise=0)
    return (exporting.on_grid(x.reshape(n, 1, 6, 2, 6, 2).mean(axis=(3, 5))),), (x,)


def pixel_classes(n: int, seed: int) -> Data:
    x, y = exporting.pictures(n, 1, 10, seed)
    return (x,), (np.where(x[:, 0] > 0, y[:, None, None] % 2, 2 + y[:, None, None] % 2),)


def two_senses(n: int, seed: int) -> Data:
    image, y = exporting.pictures(n, 1, 12, seed)
    sensor, z = exporting.series(n, 3, 12, seed + 1)
    return (image, sensor), (y, (z[:, None] / 3).astype(np.float32))


def stream(n: int, seed: int) -> Data:
    """A step of a series and states as they may come up."""
    x, y = exporting.series(n, 6, 1, seed)
    rng = np.random.default_rng(seed)
    states = [exporting.on_grid(rng.normal(0, s, (n, 1, 16))) for s in (0.3, 0.6)]
    return (x.transpose(0, 2, 1).copy(), *states), (y,)


# --- cases --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Export:
    """One call of an exporter. `options` go to torch.onnx.export; static: batch 1, as exported by default."""

    exporter: str  # "torchscript" or "dynamo"
    suffix: str = ""
    opset: int | None = None
    static: bool = False
    unnamed: bool = False  # let the exporter invent the names of inputs and outputs
    options: dict[str, object] = field(default_factory=dict)
    note: str = ""


TORCHSCRIPT = Export("torchscript", opset=17)
DYNAMO = Export("dynamo")
BOTH = (TORCHSCRIPT, DYNAMO)
BOTH_STATIC = (Export("torchscript", opset=17, static=True), Export("dynamo", static=True))


@dataclass(frozen=True)
class Case:
    name: str
    network: Callable[[], nn.Module]
    data: Callable[[int, int], Data]
    loss: Callable[[tuple[Tensor, ...], tuple[Tensor, ...]], Tensor] = classify
    inputs: tuple[str, ...] = ("x",)
    outputs: tuple[str, ...] = ("y",)
    head: Callable[[nn.Module], nn.Module] | None = None  # what is added after training
    samples: Callable[[int, int], Data] | None = None  # where calibration and test are not like the training data
    exports: tuple[Export, ...] = BOTH
    steps: int = 80


SEQUENCE = waves(6, 12, last=True)
EIGHT = waves(6, 8, last=True)
LONG = 400  # training steps of those that learn slowly
UNFOLDED = Export(
    "torchscript",
    "_unfolded",
    opset=13,
    options={"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False},
    note="BatchNormalization left in",
)

CASES = (
    Case(
        "cnn",
        cnn,
        images(1, 12),
        exports=(
            TORCHSCRIPT,
            UNFOLDED,
            Export("dynamo"),
            Export("dynamo", "_external", options={"external_data": True}, note="weights as external data"),
            Export("dynamo", "_unoptimised", options={"optimize": False}, note="`optimize=False`"),
        ),
    ),
    Case("mobilenet_v2", mobilenet_v2, images(3, 10), exports=BOTH_STATIC),
    Case("mobilenet_v3", mobilenet_v3, images(3, 10)),
    Case("efficientnet", efficientnet, images(3, 10)),
    Case("resnet", resnet, images(3, 10)),
    Case("cnn1d", cnn1d, waves(3, 32), exports=BOTH_STATIC),
    Case("tcn", Tcn, waves(3, 24)),
    Case("mlp", mlp, waves(2, 12, flat=True)),
    Case("unet", Unet, noisy, approximate),
    Case("fpn", Fpn, images(3, 10), outputs=("fine", "coarse")),
    Case("shapes", Shapes, images(1, 8)),
    Case("condition", Condition, waves(3, 16)),
    Case("lstm", lambda: Recurrent(nn.LSTM(6, 16, batch_first=True)), SEQUENCE, steps=LONG),
    Case("lstm_2layer", LastHidden, SEQUENCE, steps=LONG),
    Case(
        "lstm_step",
        lambda: Recurrent(nn.LSTM(6, 16, batch_first=True)),
        SEQUENCE,
        inputs=("x", "h", "c"),
        outputs=("y", "h_out", "c_out"),
        head=OneStep,
        samples=stream,
        exports=BOTH_STATIC,
        steps=LONG,
    ),
    Case("gru", lambda: Recurrent(nn.GRU(6, 16, batch_first=True)), SEQUENCE, exports=BOTH_STATIC, steps=LONG),
    Case(
        "gru_both",
        lambda: Recurrent(nn.GRU(6, 16, batch_first=True, bidirectional=True), mean=True),
        SEQUENCE,
        steps=LONG,
    ),
    Case("rnn", lambda: Recurrent(nn.RNN(6, 16, batch_first=True)), SEQUENCE, steps=LONG),
    Case(
        "rnn_relu",
        lambda: Recurrent(nn.RNN(6, 16, nonlinearity="relu", batch_first=True), mean=True),
        SEQUENCE,
        exports=(TORCHSCRIPT,),
        steps=LONG,
    ),
    Case("transformer", Encoder, EIGHT, exports=(*BOTH, Export("dynamo", "_opset23", opset=23)), steps=LONG),
    Case("attention", PlainAttention, EIGHT, steps=LONG),
    Case("embedding", Embedded, words, inputs=("token",)),
    Case("embedding_bag", Bag, words, inputs=("token",), exports=BOTH_STATIC),
    Case("pixelshuffle", SuperResolution, coarse, approximate),
    Case("activations", Activations, images(2, 6), steps=LONG),
    Case("norms", norms, images(3, 10)),
    Case("argmax", cnn, images(1, 12), outputs=("label", "probability"), head=Argmax),
    Case("segmentation", segmenter, pixel_classes, outputs=("label",), head=Segmentation, exports=(TORCHSCRIPT,)),
    Case("fusion", Fusion, two_senses, classify_and_measure, ("image", "sensor"), ("class", "number")),
    Case(
        "tiny",
        Tiny,
        images(1, 12),
        exports=(
            Export(
                "torchscript",
                "_opset9",
                opset=9,
                options={"keep_initializers_as_inputs": True},
                note="initializers are graph inputs too",
            ),
            Export("torchscript", "_opset11", opset=11, static=True, unnamed=True, note="names by the exporter"),
            Export("torchscript", "_opset13", opset=13),
            Export("torchscript", "_opset23", opset=23, note="newest of this exporter"),
            Export("dynamo", "_opset18", opset=18, note="oldest of this exporter: 17 and less also give 18"),
            Export("dynamo", "_opset23", opset=23),
            Export("dynamo", "_opset25", opset=25, note="newest of this exporter"),
        ),
    ),
)


# --- work ---------------------------------------------------------------------------------------------------------


def as_tuple(y: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return y if isinstance(y, tuple) else (y,)


def train(case: Case) -> nn.Module:
    """The network of a case in evaluation mode, after a few seconds of training."""
    torch.manual_seed(SEED)
    network = case.network()
    inputs, targets = case.data(BATCH * 16, SEED)
    optimiser = torch.optim.Adam(network.parameters(), lr=5e-3)
    order = torch.Generator().manual_seed(SEED)
    network.train()
    for _ in range(case.steps):
        chosen = torch.randint(0, len(inputs[0]), (BATCH,), generator=order).numpy()
        optimiser.zero_grad()
        outputs = as_tuple(network(*(torch.from_numpy(x[chosen]) for x in inputs)))
        loss = case.loss(outputs, tuple(torch.from_numpy(t[chosen]) for t in targets))
        loss.backward()
        optimiser.step()
    return case.head(network).eval() if case.head else network.eval()


def run(network: nn.Module, inputs: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Outputs of PyTorch itself, sample by sample along axis 0."""
    rows = []
    with torch.no_grad():
        for k in range(len(inputs[0])):
            rows.append([y.numpy() for y in as_tuple(network(*(torch.from_numpy(x[k : k + 1]) for x in inputs)))])
    return tuple(np.concatenate(column) for column in zip(*rows, strict=True))


def write(network: nn.Module, case: Case, how: Export, path: Path, example: tuple[np.ndarray, ...]) -> None:
    """Call the exporter."""
    options: dict[str, object] = {"opset_version": how.opset} if how.opset else {}
    if not how.unnamed:
        options |= {"input_names": list(case.inputs), "output_names": list(case.outputs)}
    tensors = tuple(torch.from_numpy(x[: 1 if how.static else 2]) for x in example)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if how.exporter == "torchscript":
            if not how.static:
                options["dynamic_axes"] = {name: {0: "batch"} for name in (*case.inputs, *case.outputs)}
            torch.onnx.export(network, tensors, str(path), dynamo=False, **(options | how.options))
        else:
            if not how.static:
                options["dynamic_shapes"] = tuple({0: "batch"} for _ in tensors)
            options |= {"external_data": False, "verbose": False, **how.options}
            torch.onnx.export(network, tensors, str(path), dynamo=True, **options)
            strip(path)


def strip(path: Path) -> None:
    """Take the metadata out of nodes and values: half of the file, and different on each machine."""
    model = onnx.load(path, load_external_data=False)
    for part in (*exporting.all_nodes(model.graph), *model.graph.value_info, *model.graph.input, *model.graph.output):
        del part.metadata_props[:]
    for function in model.functions:
        del function.metadata_props[:]
        for part in (*function.node, *function.value_info):
            del part.metadata_props[:]
    del model.graph.metadata_props[:]
    path.write_bytes(model.SerializeToString(deterministic=True))


def make(case: Case, out: Path) -> None:
    network = train(case)
    samples = case.samples or case.data
    calibration, _ = samples(exporting.CALIBRATION_SAMPLES, SEED + 100)
    test, targets = samples(exporting.TEST_SAMPLES, SEED + 200)
    truth = run(network, test)
    right = ""
    if case.loss is not approximate and truth[0].shape[1:] == (4,):
        right = f"{int((truth[0].argmax(1) == targets[0]).sum())} of {exporting.TEST_SAMPLES} right"
    print(f"{case.name}: {sum(p.numel() for p in network.parameters())} parameters {right}", flush=True)
    for how in case.exports:
        path = out / f"{how.exporter}_{case.name}{how.suffix}.onnx"
        for old in (path, path.with_name(path.name + ".data")):
            old.unlink(missing_ok=True)
        write(network, case, how, path, test)
        model = onnx.load(path, load_external_data=False)
        weights = {tensor.name for tensor in model.graph.initializer}
        inputs = [i.name for i in model.graph.input if i.name not in weights]
        about = {
            "exporter": f"torch {version('torch')} {'dynamo' if how.exporter == 'dynamo' else 'TorchScript'}",
            "versions": {package: version(package) for package in PACKAGES},
            "note": how.note,
        }
        exporting.finish(
            path,
            dict(zip(inputs, calibration, strict=True)),
            dict(zip(inputs, test, strict=True)),
            dict(zip((o.name for o in model.graph.output), truth, strict=True)),
            about,
        )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Train and export the small PyTorch networks.")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(c.name for c in CASES)}")
    parser.add_argument("--out", type=Path, default=exporting.OUT, help="folder for the files (default: %(default)s)")
    chosen = parser.parse_args(arguments)
    chosen.out.mkdir(parents=True, exist_ok=True)
    logging.disable(logging.WARNING)  # the exporter misses torchvision, which nothing here needs
    torch.set_num_threads(1)  # sums in one fixed order
    torch.use_deterministic_algorithms(True)
    for case in CASES:
        if not chosen.cases or case.name in chosen.cases:
            make(case, chosen.out)
    exporting.write_readme(chosen.out)


if __name__ == "__main__":
    main()
