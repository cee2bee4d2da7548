"""Convolutions and dense layers on float32 arrays, of several samples in one go: x [n, *shape], outputs [n, *shape].

What a sample gives is the same bits however many come with it. `float_ops` gives them one, `batch` several.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mica.ir.graph import Node
from mica.reference import exact

Arrays = list[np.ndarray]


def windows(
    x: np.ndarray, kernel: tuple[int, int], a: Mapping[str, Any], out_shape: tuple[int, ...], fill: float
) -> np.ndarray:
    """[n,1,H,W,C] -> view [n,OH,OW,C,KH,KW]; elements outside x are `fill`."""
    (sh, sw), (dh, dw) = a["strides"], a.get("dilations", (1, 1))
    top, left = a["pads"][:2]
    n, _, h, w, c = x.shape
    oh, ow = out_shape[1:3]
    reach_h, reach_w = (kernel[0] - 1) * dh + 1, (kernel[1] - 1) * dw + 1
    full_h = max((oh - 1) * sh + reach_h, top + h)
    full_w = max((ow - 1) * sw + reach_w, left + w)
    wide = x[:, 0]
    if (full_h, full_w) != (h, w):
        wide = np.full((n, full_h, full_w, c), fill, x.dtype) if fill else np.zeros((n, full_h, full_w, c), x.dtype)
        wide[:, top : top + h, left : left + w] = x[:, 0]
    # Straight from the buffer: numpy's as_strided costs more than a small layer.
    wide = np.ascontiguousarray(wide)
    (each, y, row, col) = wide.strides
    steps = (each, y * sh, row * sw, col, y * dh, row * dw)
    return np.ndarray((n, oh, ow, c, *kernel), wide.dtype, wide, 0, steps)


def conv2d(node: Node, a: Arrays, shape: tuple[int, ...]) -> np.ndarray:
    """One matrix product a group."""
    x, w, b = a
    groups = node.attrs["groups"]
    rows = exact.constant_rows(w)
    whole = exact.whole_each(x, exact.bits(rows.numbers.shape[1])[0])
    views = windows(whole.numbers, w.shape[1:3], node.attrs, shape, 0.0).transpose(0, 1, 2, 4, 5, 3)
    n, oh, ow, _, _, c = views.shape  # [n,OH,OW,KH,KW,C]
    per_in, per_out = c // groups, w.shape[0] // groups
    y = np.empty((n * oh * ow, w.shape[0]))
    for k in range(groups):
        patch = views[..., k * per_in : (k + 1) * per_in].reshape(n * oh * ow, -1)  # [pixels, KH*KW*C]
        outputs = slice(k * per_out, (k + 1) * per_out)
        np.matmul(patch, rows.numbers[outputs].T, out=y[:, outputs])
    y = y.reshape(n, *shape)
    y *= np.reshape(rows.unit, -1) * whole.unit
    y += b
    return _clamped(y, node)


def depthwise(node: Node, a: Arrays, shape: tuple[int, ...]) -> np.ndarray:
    """Tap by tap."""
    x, w, b = a
    views = windows(x, w.shape[1:3], node.attrs, shape, 0.0)
    times = w.shape[0] // views.shape[3]
    n, oh, ow = len(x), *shape[1:3]
    # A row of the picture is one row of memory, so that numpy's loops are long.
    taps = w.transpose(1, 2, 0)
    wide = np.broadcast_to(taps[:, :, None], (*taps.shape[:2], ow, len(w))).reshape(
        *taps.shape[:2], -1
    )  # [KH,KW,OW*Cout]
    y = np.empty((n, oh, ow * len(w)), np.float32)
    y.reshape(n, oh, ow, -1)[:] = b
    part = np.empty_like(y)
    for ky in range(taps.shape[0]):
        for kx in range(taps.shape[1]):
            tap = views[..., ky, kx]
            tap = (tap if times == 1 else np.repeat(tap, times, axis=3)).reshape(n, oh, -1)
            y += np.multiply(tap, wide[ky, kx], out=part)
    return _clamped(y.reshape(n, *shape), node)


def fully_connected(node: Node, a: Arrays, shape: tuple[int, ...]) -> np.ndarray:
    """One matrix product."""
    x, w, b = a
    rows = exact.constant_rows(w)
    whole = exact.whole_each(x, exact.bits(x.shape[-1])[0])
    y = (whole.numbers.reshape(-1, x.shape[-1]) @ rows.numbers.T).reshape(*x.shape[:-1], len(w))
    y *= whole.unit
    y *= np.swapaxes(rows.unit, -1, -2)
    y += b
    return _clamped(y, node)


def _clamped(y: np.ndarray, node: Node) -> np.ndarray:
    low, high = node.attrs.get("clip", (None, None))
    return y if low is None and high is None else np.clip(y, low, high, out=y)
