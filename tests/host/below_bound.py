"""Twelve networks of the sizes that small boards run, for plans in strips: the shapes are fixed here,
the weights are random.

Pictures have their channels last, as cameras give them, so that they can be fed.
Softmax is left out: it takes no memory of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from mobilenet import MobileNetV2
from nets import Net

from mica.importer import import_onnx
from mica.ir.graph import Graph
from mica.passes import pipeline
from mica.plan.plan import Plan, best_plan
from mica.quantise.calibrate import Range
from mica.quantise.quantise import quantise

Blocks = Sequence[tuple[int, int, int, int]]  # expansion, size of the kernel, stride, channels

# Inverted residuals as neural architecture search chooses them for boards (MCUNet, NeurIPS 2020): kernels of 3,
# 5 and 7.
MCUNET_320K: Blocks = (
    *(
        (3, 7, 2, 16),
        (3, 3, 1, 16),
        (3, 5, 1, 16),
        (5, 7, 2, 24),
        (4, 5, 1, 24),
        (4, 5, 1, 24),
        (4, 5, 2, 40),
        (4, 7, 1, 40),
    ),
    *(
        (4, 7, 1, 40),
        (3, 3, 1, 48),
        (4, 5, 1, 48),
        (4, 5, 1, 48),
        (5, 5, 2, 96),
        (4, 7, 1, 96),
        (4, 5, 1, 96),
        (5, 7, 1, 160),
    ),
)
MCUNET_VWW: Blocks = (
    *(
        (3, 5, 2, 16),
        (3, 3, 1, 16),
        (5, 5, 2, 24),
        (3, 5, 1, 24),
        (5, 3, 2, 40),
        (4, 5, 1, 40),
        (4, 3, 1, 48),
        (4, 3, 1, 48),
    ),
    *((6, 5, 2, 96), (5, 3, 1, 96), (5, 3, 1, 160)),
)


class Picture(Net):
    """A network under construction over a picture [1, H, W, C]; it knows the channels of `y`, which is made last."""

    def __init__(self, h: int, w: int, c: int) -> None:
        super().__init__(seed=1)
        self.c = c
        self.y = self.add("Transpose", self.input([1, h, w, c]), perm=[0, 3, 1, 2])

    def layer(self, out: int, k: Sequence[int], stride: int = 1, groups: int = 1, relu: bool = True) -> str:
        """A convolution with the padding that keeps size / stride."""
        weights = self.rng.standard_normal((out, self.c // groups, *k), np.float32)
        pads = [k[0] // 2, k[1] // 2, (k[0] - 1) // 2, (k[1] - 1) // 2]
        self.y = self.add("Conv", self.y, self.const(weights), pads=pads, strides=[stride, stride], group=groups)
        self.y, self.c = (self.add("Relu", self.y) if relu else self.y), out
        return self.y

    def dense(self, classes: int) -> Net:
        y = self.add("Flatten", self.add("GlobalAveragePool", self.y))
        self.output(self.add("Gemm", y, self.random(classes, self.c), transB=1))
        return self


def ds_cnn() -> Net:
    """Keyword spotting of MLPerf Tiny: 49 frames of 10 coefficients."""
    net = Picture(49, 10, 1)
    net.layer(64, (10, 4), 2)
    for _ in range(4):
        net.layer(64, (3, 3), groups=64)
        net.layer(64, (1, 1))
    return net.dense(12)


def resnet8() -> Net:
    """Image classification of MLPerf Tiny."""
    net = Picture(32, 32, 3)
    net.layer(16, (3, 3))
    for out, stride in ((16, 1), (32, 2), (64, 2)):
        x, c = net.y, net.c
        net.layer(out, (3, 3), stride)
        y = net.layer(out, (3, 3), relu=False)
        if stride > 1:
            net.y, net.c = x, c
            x = net.layer(out, (1, 1), stride, relu=False)
        net.y = net.add("Relu", net.add("Add", y, x))
    return net.dense(10)


def mobilenet_v1() -> Net:
    """Person detection of MLPerf Tiny: a quarter of the channels, 96 x 96 pixels."""
    net = Picture(96, 96, 3)
    net.layer(8, (3, 3), 2)
    for out, stride in ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1)):
        net.layer(net.c, (3, 3), stride, groups=net.c)
        net.layer(out, (1, 1))
    return net.dense(2)


def mcunet(size: int, blocks: Blocks, classes: int) -> Net:
    net = Picture(size, size, 3)
    net.layer(16, (3, 3), 2)
    net.layer(16, (3, 3), groups=16)
    net.layer(8, (1, 1))
    for expansion, k, stride, out in blocks:
        x, c = net.y, net.c
        net.layer(c * expansion, (1, 1))
        net.layer(net.c, (k, k), stride, groups=net.c)
        y = net.layer(out, (1, 1), relu=False)
        if stride == 1 and c == out:
            net.y = net.add("Add", x, y)
    return net.dense(classes)


def yolo(size: int) -> Net:
    """Five times convolution and pool, then a grid of boxes."""
    net = Picture(size, size, 3)
    for out in (16, 32, 64, 128, 256):
        net.layer(out, (3, 3))
        net.y = net.add("MaxPool", net.y, kernel_shape=[2, 2], strides=[2, 2])
    net.layer(256, (3, 3))
    net.output(net.layer(30, (1, 1), relu=False))
    return net


NETS: dict[str, Callable[[], Net]] = {
    "DS-CNN": ds_cnn,
    "ResNet-8": resnet8,
    "MobileNetV1 0.25 at 96": mobilenet_v1,
    "MobileNetV2 0.35 at 96": lambda: MobileNetV2(96, 0.35, 2),
    "MobileNetV2 0.35 at 144": lambda: MobileNetV2(144, 0.35, 2),
    "MobileNetV2 0.35 at 160": lambda: MobileNetV2(160, 0.35, 2),
    "MobileNetV2 0.35 at 224": lambda: MobileNetV2(224, 0.35, 2),
    "MobileNetV2 1.0 at 224": lambda: MobileNetV2(224, 1.0, 1000),
    "MCUNet-320K-like at 176": lambda: mcunet(176, MCUNET_320K, 1000),
    "MCUNet-VWW-like at 80": lambda: mcunet(80, MCUNET_VWW, 2),
    "YOLO-like at 96": lambda: yolo(96),
    "YOLO-like at 160": lambda: yolo(160),
}


def planned(net: Net, folder: Path) -> tuple[Graph, Plan]:
    """Its integer graph and its plan layer by layer. Not a sample is run: all ranges are the same,
    which no size depends on."""
    core = pipeline.run(import_onnx(net.save(folder)))
    made = [*core.inputs, *(o for node in core.nodes for o in node.outputs)]
    return best_plan(quantise(core, dict.fromkeys(made, Range(-4.0, 4.0))))
