"""Rows of features against constant vectors: nearest neighbours, and machines of support vectors."""

import math
from collections.abc import Sequence

import numpy as np

from mica.kernels import tabular
from mica.kernels.base import ACT, Cost, Kernel, Shapes, Step, Tensor, Tensors
from mica.kernels.counts import elements
from mica.kernels.integers import Array, Blobs, Output, Params, clamp, int32, requantise, root
from mica.kernels.rules import INT32_LIMIT, act, requant, require, within

SUM, SQUARES, PRODUCTS = 0, 1, 2  # kinds of distances_s8
UNIFORM, BY_ROOT, BY_VALUE, REACH = 0, 1, 2, 3  # kinds of nearest_s8
MOST_NEIGHBOURS = 0xFFFF
WEIGHT_BITS = 15  # of a neighbour's weight: that of the nearest is 2**15
PARTS = 256  # straight pieces of the table of machine_s8
TABLE_MOST = 2**22


def _rows(x: Tensor, y: Tensor) -> None:
    require(
        len(x.dims) == len(y.dims) >= 1 and x.dims[:-1] == y.dims[:-1],
        f"input {list(x.dims)} and output {list(y.dims)} differ before their last dimension",
    )


# ---- distances_s8


def largest(kind: int, features: int, bound: int) -> int:
    """Upper bound of a distance of so many features, if all integers are within +-bound."""
    return features * (2 * bound, 4 * bound * bound, bound * bound)[kind]


def _distances_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    _rows(x[0], y)
    n = x[0].dims[-1]
    within(p, kind=(0, PRODUCTS), bound=(1, 32767))
    most = largest(p["kind"], n, p["bound"])
    require(most < INT32_LIMIT, f"a distance can reach {most}; expected less than 2**31")
    return {"points": (n, y.dims[-1]), "scale": (n,), "exponent": (n,), "offset": (n,), "missing": (n,)}


def _distances_constants(x: Tensors, y: Tensor, p: Params, blobs: Blobs) -> None:
    require(bool((blobs["scale"] > -(2**31)).all()), "a scale is -2**31")
    for what in ("points", "missing"):
        within = np.abs(blobs[what].astype(np.int64)).max() <= p["bound"]
        require(bool(within), f"{what} are not within the bound")


def _distances_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    rows = math.prod(y.dims[:-1])
    counts = {"feature": float(elements(xs[0])), "mac": float(step.blobs["points"].size * rows)}
    return f"kind {step.params['kind']}", counts


@Kernel(
    id=43,
    blobs=(("points", "i16"), ("scale", "i32"), ("exponent", "i8"), ("offset", "i32"), ("missing", "i16")),
    params=("kind", "bound"),
    x_type="float32",
    y_type="int32",
    group="features",
    rules=_distances_rules,
    constants=_distances_constants,
    counts=_distances_counts,
)
def distances_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Features against constant vectors. x float32 [...,F], y int32 [...,S], points [F,S]. g[f] = what features_s8
    makes of x[...,f] by scale, exponent and offset, but for the clamp, limited to +-bound; missing[f] for a NaN.
    y[...,s] = the sum over f of |g[f] - points[f,s]| (kind 0), of its square (1), of g[f] * points[f,s] (2). points and
    missing are within +-bound; F * 2 * bound, F * 4 * bound**2, F * bound**2 < 2**31 for kinds 0, 1, 2."""
    bits = np.ascontiguousarray(xs[0], np.float32).view(np.int32)
    places = np.clip(tabular.places(bits, blobs), -p["bound"], p["bound"])
    x = np.where(tabular.nan(bits), blobs["missing"].astype(np.int64), places).reshape(-1, bits.shape[-1])
    y = np.zeros((len(x), blobs["points"].shape[1]), np.int64)
    for f, points in enumerate(blobs["points"].astype(np.int64)):
        a = x[:, f, None]
        y += a * points if p["kind"] == PRODUCTS else (a - points) ** 2 if p["kind"] == SQUARES else np.abs(a - points)
    return int32(y).astype(np.int32).reshape(q.dims)


# ---- nearest_s8


def _nearest_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    act(p)
    requant(p)
    _rows(x[0], y)
    s = x[0].dims[-1]
    within(p, kind=(0, REACH), k=(1, min(s, MOST_NEIGHBOURS)))
    return {"target": (s,), "value": (s,)}


def _nearest_constants(x: Tensors, y: Tensor, p: Params, blobs: Blobs) -> None:
    require(bool((blobs["target"] < y.dims[-1]).all()), "a target is none of the output's numbers")


def _sums_scratch_min(out_channels: int) -> int:
    """A sum of 64 bits for each number of a result, and room to align them."""
    return 8 * out_channels + 4


def _nearest_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    rows = math.prod(y.dims[:-1])
    turns = float(step.params["k"] * elements(xs[0]))
    return "", {"turn": turns, "neighbour": float(step.params["k"] * rows), "out": float(elements(y))}


@Kernel(
    id=44,
    blobs=(("target", "u16"), ("value", "i16")),
    params=("k", "kind", "mult", "shift", *ACT),
    x_type="int32",
    group="features",
    rules=_nearest_rules,
    constants=_nearest_constants,
    scratch_min=_sums_scratch_min,
    counts=_nearest_counts,
)
def nearest_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """The k nearest of constant vectors by their distances. x int32 [...,S], below 0 as 0; y [...,N]. Of each row the k
    least, of equal ones the first; d[j], d[0] the least. Weights w[j]: 1 (kinds 0, 3); with r[j] = d[j], or its root to
    the nearest integer (kinds 1, 3): floor(2**15 * r[0] / r[j]), or where r[0] = 0 1 for each r[j] = 0, else 0 (kinds
    1, 2). y[...,n] = clamp(zy + requant(floor((2**9 * t[n] + w) / (2 * w)))), t[n] the sum of w[j] * value (kind 3:
    max(r[j], value)) of those whose target is n, w the sum of all w[j]. target < N, 1 <= k <= S, k < 2**16. Needs
    scratch."""
    rows = np.maximum(xs[0].reshape(-1, xs[0].shape[-1]).astype(np.int64), 0)
    y = np.zeros((len(rows), q.dims[-1]), np.int64)
    for row, out in zip(rows, y, strict=True):
        at = np.argsort(row, kind="stable")[: p["k"]]
        far = root(row[at]) if p["kind"] in (BY_ROOT, REACH) else row[at]
        weight, value = np.ones(len(at), np.int64), blobs["value"][at].astype(np.int64)
        if p["kind"] == REACH:
            value = np.maximum(value, far)
        elif p["kind"] != UNIFORM:
            weight = (far == 0) * 1 if far[0] == 0 else (far[0] << WEIGHT_BITS) // far
        total = np.zeros(len(out), np.int64)
        np.add.at(total, blobs["target"][at], weight * value)
        whole = int(weight.sum())
        out[:] = ((total << 9) + whole) // (2 * whole)
    return clamp(q.y_zero + requantise(y, p["mult"], p["shift"]), p).reshape(q.dims)


# ---- machine_s8


def _machine_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    act(p)
    requant(p)
    requant({"mult": p["in_mult"], "shift": p["in_shift"]})
    _rows(x[0], y)
    within(p, down=(0, 40))
    s, n = x[0].dims[-1], y.dims[-1]
    return {"table": (PARTS + 1,), "factors": (s, n), "bias": (n,)}


def _machine_constants(x: Tensors, y: Tensor, p: Params, blobs: Blobs) -> None:
    table = int(np.abs(blobs["table"].astype(np.int64)).max())
    require(table <= TABLE_MOST, f"the table has {table}; expected +-2**22")
    sums = np.abs(blobs["factors"].astype(np.int64)).sum(axis=0)
    most = (sums * TABLE_MOST >> p["down"]) + np.abs(blobs["bias"].astype(np.int64)) + 1
    require(int(most.max()) < INT32_LIMIT, f"a sum can reach {int(most.max())}; expected less than 2**31")


def _machine_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    macs = elements(xs[0]) * y.dims[-1]
    return "", {"vector": float(elements(xs[0])), "mac": float(macs), "out": float(elements(y))}


@Kernel(
    id=45,
    blobs=(("table", "i32"), ("factors", "i16"), ("bias", "i32")),
    params=("in_mult", "in_shift", "in_offset", "down", "mult", "shift", *ACT),
    x_type="int32",
    group="features",
    rules=_machine_rules,
    constants=_machine_constants,
    scratch_min=_sums_scratch_min,
    counts=_machine_counts,
)
def machine_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Sums of a function of the input, as support vector machines have them. x int32 [...,S], y [...,N], factors [S,N].
    u = requant(x) by in_mult and in_shift, + in_offset, limited to 0 to 65535; i = u >> 8; f(x) = table[i] + (((table[i
    + 1] - table[i]) * (u & 255)) >> 8). y[...,n] = clamp(zy + requant(bias[n] + ((the sum of f(x[...,s]) * factors[s,n]
    + (2**down >> 1)) >> down))). table has 257 entries within +-2**22; (2**22 * sum|factors[.,n]| >> down) + |bias[n]|
    + 1 < 2**31; 0 <= down <= 40. Needs scratch."""
    x = xs[0].reshape(-1, xs[0].shape[-1])
    u = np.clip(requantise(x, p["in_mult"], p["in_shift"]) + p["in_offset"], 0, 65535)
    table = blobs["table"].astype(np.int64)
    low, part = table[u >> 8], u & 255
    values = low + ((table[(u >> 8) + 1] - low) * part >> 8)
    total = np.zeros((len(x), q.dims[-1]), np.int64)
    for s, weights in enumerate(blobs["factors"].astype(np.int64)):
        total += values[:, s, None] * weights
    down = p["down"]
    acc = blobs["bias"].astype(np.int64) + ((total + (1 << down >> 1)) >> down)
    return clamp(q.y_zero + requantise(int32(acc), p["mult"], p["shift"]), p).reshape(q.dims)


KERNELS = (distances_s8, nearest_s8, machine_s8)
