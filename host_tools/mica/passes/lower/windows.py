"""Helpers that convolutions and pools share: windows, and conversion from NCHW to NHWC and back."""

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes.builder import TO_NCHW, TO_NHWC, Builder

NO_CLIP = (None, None)


def batch_one(g: Graph, shape: tuple[int, ...]) -> None:
    """Raises ValueError where a tensor has several pictures: of the caller's,
    or windows of one that the model put side by side."""
    if shape[0] == 1:
        return
    if all(g.value(name).shape[:1] == (1,) for name in g.inputs):
        raise ValueError(
            f"the model puts {shape[0]} windows of its input into the batch axis, as Swin and EfficientViT do; mica "
            "computes one picture at a time"
        )
    raise ValueError(f"batch of {shape[0]}; export the model with batch 1 or a dynamic batch")


def operands(node: Node, b: Builder) -> tuple[np.ndarray, np.ndarray]:
    """Weights and bias of a convolution over a picture or a row. Raises ValueError where one is not as it can be."""
    xs, n_out = b.shape(node.inputs[0]), b.shape(node.outputs[0])[1]
    w = b.constant(node.inputs[1], "weights")
    if len(xs) not in (3, 4):
        raise ValueError(f"input of {len(xs) - 2} spatial dimensions; 1 and 2 are supported")
    batch_one(b.g, xs)
    bias = b.g.data(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else np.zeros(n_out, np.float32)
    if bias is None:
        raise ValueError("a bias that is not constant")
    if bias.shape != (n_out,):
        raise ValueError(f"a bias of shape {list(bias.shape)} for {n_out} channels")
    return w, bias


def window(
    node: Node, spatial_in: tuple[int, ...], spatial_out: tuple[int, ...], kernel: tuple[int, ...]
) -> dict[str, tuple[int, ...]]:
    """strides, dilations and pads (top, left, bottom, right) of a 1-D or 2-D window as those of a 2-D one."""
    n = len(kernel)
    strides = tuple(node.attrs.get("strides", [1] * n))
    dilations = tuple(node.attrs.get("dilations", [1] * n))
    pads = list(node.attrs.get("pads", [0] * 2 * n))
    auto = node.attrs.get("auto_pad", "NOTSET")
    if auto == "VALID":
        pads = [0] * 2 * n
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        for i in range(n):
            reach = (kernel[i] - 1) * dilations[i] + 1
            total = max(0, (spatial_out[i] - 1) * strides[i] + reach - spatial_in[i])
            small = total // 2
            pads[i], pads[n + i] = (small, total - small) if auto == "SAME_UPPER" else (total - small, small)
    if min(pads) < 0:
        raise ValueError(f"negative pads {pads}")
    if n == 1:
        return {"strides": (1, *strides), "dilations": (1, *dilations), "pads": (0, pads[0], 0, pads[1])}
    return {"strides": strides, "dilations": dilations, "pads": (pads[0], pads[1], pads[2], pads[3])}


def as_nhwc(b: Builder, x: str) -> str:
    """[1,C,H,W] or [1,C,L] -> [1,H,W,C] or [1,1,L,C]."""
    shape = b.shape(x)
    if len(shape) == 3:
        x = b.reshape(x, (shape[0], shape[1], 1, shape[2]))
    return b.transpose(x, TO_NHWC)


def from_nhwc(b: Builder, y: str, out: str) -> None:
    """The inverse, into the value `out`."""
    if len(b.shape(out)) == 3:
        b.emit_to(out, "Reshape", [b.transpose(y, TO_NCHW)])
    else:
        b.transpose_to(out, y, TO_NCHW)


def nhwc_shape(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    wide = shape if len(shape) == 4 else (shape[0], shape[1], 1, shape[2])
    return (wide[0], wide[2], wide[3], wide[1])
