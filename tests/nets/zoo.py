"""Networks of the sizes people really use, with random weights: the planner and the host's memory are measured on them.

Each is written as an exporter writes it in inference mode: batch normalisation folded into the convolutions,
activations as nodes of their own. Weights are scaled so that activations neither vanish nor explode over fifty layers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from nets import Net


def conv(net: Net, x: str, cin: int, cout: int, k: int, stride: int = 1, groups: int = 1, gain: float = 2.0) -> str:
    """Convolution with bias and the padding that keeps size / stride. gain: of the weights' variance."""
    fan = cin // groups * k * k
    w = net.rng.standard_normal((cout, cin // groups, k, k), np.float32) * np.float32(np.sqrt(gain / fan))
    b = net.rng.standard_normal(cout, np.float32) * np.float32(0.05)
    return net.add(
        "Conv",
        x,
        net.const(w),
        net.const(b),
        kernel_shape=[k, k],
        strides=[stride, stride],
        pads=[k // 2] * 4,
        group=groups,
    )


def dense(net: Net, x: str, k: int, n: int, gain: float = 1.0) -> str:
    w = net.rng.standard_normal((n, k), np.float32) * np.float32(np.sqrt(gain / k))
    return net.add("Gemm", x, net.const(w), net.const(np.zeros(n, np.float32)), transB=1)


def relu6(net: Net, x: str) -> str:
    return net.add("Clip", x, "zero", "six")


def mobilenet_v2(size: int = 224, classes: int = 1000) -> Net:
    """MobileNetV2, width 1.0 (M. Sandler et al., CVPR 2018, table 2): 3.5 million weights, 300 million MACs."""
    net = Net()
    x = net.input([1, 3, size, size])
    net.const(np.float32(0), "zero")
    net.const(np.float32(6), "six")
    x, c = relu6(net, conv(net, x, 3, 32, 3, 2)), 32
    for t, width, repeats, stride in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for k in range(repeats):
            s = stride if k == 0 else 1
            y = x if t == 1 else relu6(net, conv(net, x, c, t * c, 1))
            y = relu6(net, conv(net, y, t * c, t * c, 3, s, t * c))
            y = conv(net, y, t * c, width, 1, gain=1.0)
            x = net.add("Add", x, y) if s == 1 and c == width else y
            c = width
    x = relu6(net, conv(net, x, c, 1280, 1))
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    net.output(dense(net, x, 1280, classes), [1, classes])
    return net


def resnet50(size: int = 224, classes: int = 1000) -> Net:
    """ResNet-50 (K. He et al., CVPR 2016; stride in the 3x3 as torchvision has it): 25.5 million weights, 4.1 GMACs."""
    net = Net()
    x = net.input([1, 3, size, size])
    x = net.add("Relu", conv(net, x, 3, 64, 7, 2))
    x, c = net.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]), 64
    for width, repeats, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for k in range(repeats):
            s = stride if k == 0 else 1
            y = net.add("Relu", conv(net, x, c, width, 1))
            y = net.add("Relu", conv(net, y, width, width, 3, s))
            y = conv(net, y, width, 4 * width, 1, gain=0.3)
            short = x if k else conv(net, x, c, 4 * width, 1, s, gain=1.0)
            x, c = net.add("Relu", net.add("Add", y, short)), 4 * width
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    net.output(dense(net, x, c, classes), [1, classes])
    return net


def yolo_v1(size: int = 224, layers: Sequence[object] = ()) -> Net:
    """YOLOv1's 24 convolutions (J. Redmon et al., CVPR 2016) at half its input, with a convolution for its dense end.

    Two numbers are a convolution (size of its kernel, channels), three have a stride; "M" halves with a MaxPool.
    """
    net = Net()
    x, c = net.input([1, 3, size, size]), 3
    half = [(1, 256), (3, 512)] * 4 + [(1, 512), (3, 1024)]
    middle = [(1, 128), (3, 256), (1, 256), (3, 512)]
    end = [(1, 512), (3, 1024)] * 2 + [(3, 1024), (3, 1024, 2), (3, 1024), (3, 1024)]
    for layer in layers or [(7, 64, 2), "M", (3, 192), "M", *middle, "M", *half, "M", *end]:
        if layer == "M":
            x = net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
            continue
        assert isinstance(layer, tuple)
        x = net.add("LeakyRelu", conv(net, x, c, layer[1], layer[0], *layer[2:]), alpha=0.1)
        c = layer[1]
    net.output(conv(net, x, c, 30, 1), [1, 30, size // 32 // 2, size // 32 // 2])
    return net
