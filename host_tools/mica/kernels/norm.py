"""Normalisation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mica.format.schema import MAX_DIM
from mica.kernels.base import ACT, Array, Blobs, Cost, Kernel, Params, Shapes, Step, Tensor, Tensors
from mica.kernels.counts import elements
from mica.kernels.integers import Output, clamp, int32, root
from mica.kernels.rules import INT32_LIMIT, act, require, same


def _layer_norm_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    act(p)
    same(x[0], y)
    axis, inner, channels = p["axis"], p["inner"], p["channels"]
    require(0 <= axis <= len(y.dims), f"axis is {axis}; the input has {len(y.dims)} dimensions")
    n = math.prod(y.dims[axis:])
    require(n <= MAX_DIM, f"{n} elements to normalise together; the limit is {MAX_DIM}")
    sizes = 1 <= inner <= MAX_DIM and 1 <= channels <= MAX_DIM
    divides = sizes and n % inner == 0 and channels % (n // inner) == 0
    require(divides, f"{channels} channels of {inner} do not divide rows of {n}")
    require(0 <= p["mode"] <= 2, f"mode is {p['mode']}; expected 0 to 2")
    require(0 <= p["epsilon_high"] < 2**30, f"epsilon_high is {p['epsilon_high']}; expected 0 to 2**30 - 1")
    require(0 <= p["shift"] <= 30, f"shift is {p['shift']}; expected 0 to 30")
    return {"gamma": (channels,), "beta": (channels,)}


def norm_reach(n: int) -> int:
    """No element of n lies this many standard deviations from their mean, nor norms from 0; with room for rounding."""
    root = math.isqrt(n)
    return root + (n - root * root > root) + 2


def _layer_norm_constants(x: Tensors, y: Tensor, p: Params, blobs: Blobs) -> None:
    gamma, beta = (np.abs(blobs[b].astype(np.int64)) for b in ("gamma", "beta"))
    most = int((gamma * norm_reach(math.prod(y.dims[p["axis"] :])) + beta).max()) + ((1 << p["shift"]) >> 1)
    require(most < INT32_LIMIT - 1, f"a result can reach {most}; expected less than 2**31 - 1")


def layer_norm_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Rows of the elements along the dimensions from `axis` on."""
    n = int(np.prod(q.dims[p["axis"] :], dtype=np.int64))
    x = xs[0].reshape(-1, n).astype(np.int64) - (0 if p["mode"] == 0 else q.x_zero)
    total, squares, absolute = x.sum(axis=1), (x * x).sum(axis=1), np.abs(x).sum(axis=1)
    spread = (n * squares - total**2, squares, absolute**2)[p["mode"]]
    wide = (spread << 14) + ((p["epsilon_low"] & 0xFFFFFFFF) | p["epsilon_high"] << 32)
    assert wide.min() >= 0, "the spread leaves the uint64"
    shift = np.zeros_like(wide)
    mantissa = wide.astype(np.uint64)
    for _ in range(31):
        small = (mantissa > 0) & (mantissa >> np.uint64(62) == 0)
        mantissa, shift = np.where(small, mantissa << np.uint64(2), mantissa), shift + small
    r = root((mantissa >> np.uint64(32)).astype(np.int64))
    scale = np.where(wide == 0, 0, (2**31 + r // 2) // np.maximum(r, 1))
    d = n * x - total[:, None] if p["mode"] == 0 else x
    left, right = np.maximum(shift - 20, 0)[:, None], np.maximum(20 - shift, 0)[:, None]
    normal = int32((d * scale[:, None] << left) >> right)
    channel = np.arange(x.size).reshape(x.shape) // p["inner"] % p["channels"]
    acc = ((normal * blobs["gamma"].astype(np.int64)[channel]) >> 20) + blobs["beta"].astype(np.int64)[channel]
    acc = int32(int32(acc) + ((1 << p["shift"]) >> 1)) >> p["shift"]
    return clamp(q.y_zero + acc, p).reshape(q.dims)


WIDE = (2**15 - 1) // 255  # beyond it a row's sums times its length need products of 64 bits


def _layer_norm_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    n = math.prod(xs[0].dims[step.params["axis"] :])
    wide = " wide" if step.params["mode"] == 0 and n > WIDE else ""
    return f"mode {step.params['mode']}{wide}", {"row": elements(xs[0]) / n, "in": float(elements(xs[0]))}


LAYER_NORM = Kernel(
    id=22,
    name="layer_norm_s8",
    n_inputs=1,
    blobs=(("gamma", "i32"), ("beta", "i32")),
    params=("axis", "inner", "channels", "mode", "epsilon_low", "epsilon_high", "shift", *ACT),
    doc=(
        "Normalisation of rows: the n elements along the dimensions from `axis` on. y = clamp(zy + ((((normal * gamma[c]) >> "
        "20) + beta[c] + 2**(shift-1)) >> shift)), normal in units of 2**-20. With d = x - zx and e = epsilon * 2**-14, mode 0: "
        "normal = (n * x - sum(x)) / sqrt(n * sum(x * x) - sum(x)**2 + e); 1: d / sqrt(sum(d * d) + e); 2: d / "
        "sqrt(sum(|d|)**2 + e). Element i of row r has c = (r * n / inner + i / inner) % channels. x and y have one shape; "
        "epsilon < 2**62; n <= 65535; (root(n) + 2) * |gamma| + |beta| + 2**(shift-1) < 2**31 - 1; 0 <= shift <= 30."
    ),
    group="reduce",
    in_place=True,
    rules=_layer_norm_rules,
    constants=_layer_norm_constants,
    oracle=layer_norm_s8,
    counts=_layer_norm_counts,
)

KERNELS = (LAYER_NORM,)
