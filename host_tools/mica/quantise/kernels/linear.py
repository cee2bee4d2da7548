"""Convolutions and matrix products: int8 weights per output channel, the input's zero point folded into the bias."""

import math
from collections.abc import Iterator

import numpy as np

from mica.format.values import HIGH, LOW
from mica.format.weights import INT8
from mica.ir.graph import Graph, Node, Quant
from mica.quantise.kernels.common import act, emit, quant, window_params
from mica.quantise.params import quantise_multiplier

# Limits of the FAST flag (schema.STEP_FLAGS), with room for the rounding of weights.
FAST_BIAS = 2.0**28
FAST_SHIFT = 22
PART = 1 << 18  # weights that are float64 at once


def _linear(g: Graph, out: Graph, node: Node, kernel: str, params: dict[str, int]) -> None:
    """Convolutions and matrix products: weights [Cout, ...] per channel, bias folded with the input's zero point."""
    x, w_name, b_name = node.inputs
    qx, qy = quant(out, x), quant(out, node.outputs[0])
    w, b = g.data(w_name), g.data(b_name)
    assert w is not None and b is not None
    rows = w.reshape(w.shape[0], -1)
    if not (np.all(np.isfinite(rows)) and np.all(np.isfinite(b))):
        raise ValueError("weights or bias hold NaN or infinity")
    scale_w = weight_scales(rows, b.astype(np.float64), qx, qy)
    given = node.attrs.get("weight_steps")
    if given is None:
        q = nearest_integers(rows, scale_w)
    else:
        q = given_integers(rows, given)
        scale_w = np.where(np.any(q, axis=1), given, scale_w)  # zeros are zeros on any scale
    total = q.sum(axis=1, dtype=np.int64)
    bias = np.rint(b / (qx.scale * scale_w)).astype(np.float64) - qx.zero_point * total
    reach = np.abs(bias) + 128 * (2 * np.maximum(q, 0).sum(axis=1, dtype=np.int64) - total)
    if np.any(reach >= 2.0**31):
        worst = int(np.argmax(reach))
        raise ValueError(f"sums of channel {worst} do not fit 32 bits; its bias or weights are too large")
    mult, shift = quantise_multiplier(qx.scale * scale_w / qy.scale)
    blobs: list[np.ndarray] = [q.reshape(w.shape), bias.astype(np.int32), mult, shift]
    emit(out, node, kernel, [x], blobs, {**params, **act(qy, node.attrs["clip"])})
    out.value(out.nodes[-1].inputs[1]).bits = node.attrs.get("weight_bits", INT8.bits)


def given_integers(rows: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The int8 weights [Cout, K] that a quantised model came with. Raises ValueError where a pass has spoilt them."""
    result = np.empty(rows.shape, np.int8)
    for part in parts(rows):
        ratio = rows[part] / steps[part, None]
        q = np.rint(ratio)
        if np.any(np.abs(ratio - q) > 2.0**-10) or q.min() < LOW or q.max() > HIGH:
            raise ValueError("its quantised weights were scaled into numbers that int8 cannot hold")
        result[part] = q
    return result


def parts(rows: np.ndarray) -> Iterator[slice]:
    """Slices of channels [Cout, K]: a copy of a part in float64 is small, one of all may be larger than the model."""
    n = max(1, PART // max(1, rows.shape[1]))
    return (slice(k, k + n) for k in range(0, len(rows), n))


def nearest_integers(rows: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """int8 [Cout, K] of finite weights."""
    q = np.empty(rows.shape, np.int8)
    for part in parts(rows):
        q[part] = INT8.round(rows[part] / steps[part, None])
    return q


def weight_scales(rows: np.ndarray, bias: np.ndarray, qx: Quant, qy: Quant) -> np.ndarray:
    """Scale of each output channel's weights, float64 [Cout].

    The largest weight becomes the type's largest, unless that scale is too small for the fast kernels: the bias,
    counted in steps of it, or the shift would leave their range. Then the weights matter less than 2**-15 of an output
    step each, and a coarser scale loses nothing (a channel whose weights are all zero, or near 1e-30 as in a dead batch
    normalisation).
    """
    largest = np.maximum(rows.max(axis=1), -rows.min(axis=1)).astype(np.float64) / INT8.largest
    for_bias = np.abs(bias) / (qx.scale * FAST_BIAS)
    for_shift = math.sqrt(0.5) * 2.0**-FAST_SHIFT * qy.scale / qx.scale
    return np.maximum(np.maximum(largest, for_bias), for_shift)


def _conv(g: Graph, out: Graph, node: Node) -> None:
    w = g.value(node.inputs[1]).shape
    params = {**window_params(node, (w[1], w[2])), "groups": node.attrs["groups"]}
    _linear(g, out, node, "conv2d_s8", params)


def _depthwise(g: Graph, out: Graph, node: Node) -> None:
    w = g.value(node.inputs[1]).shape
    _linear(g, out, node, "depthwise_conv2d_s8", window_params(node, (w[1], w[2])))


def _conv_transpose(g: Graph, out: Graph, node: Node) -> None:
    w = g.value(node.inputs[1]).shape
    params = {**window_params(node, (w[1], w[2])), "groups": node.attrs["groups"]}
    _linear(g, out, node, "conv_transpose2d_s8", params)


STEPS = {
    "Conv2d": _conv,
    "ConvTranspose2d": _conv_transpose,
    "DepthwiseConv2d": _depthwise,
    "FullyConnected": lambda g, out, node: _linear(g, out, node, "fully_connected_s8", {}),
}
