"""One or two tensors, element by element."""

from collections.abc import Sequence

import numpy as np

from mica.kernels.base import ACT, Cost, Kernel, Shapes, Step, Tensor, Tensors
from mica.kernels.counts import elements
from mica.kernels.integers import Array, Blobs, Output, Params, both, clamp, int32, requantise
from mica.kernels.rules import INT32_LIMIT, act, broadcast, requant, require, same, within


def _pair_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    """Two operands, equal in shape or broadcast."""
    n = elements(y)
    if all(elements(x) == n for x in xs):
        return "", {"out": float(n)}
    run, repeated = _run(xs, y)
    return "repeated" if repeated else "broadcast", {"out": float(n), "run": float(n / run)}


def _run(xs: Tensors, y: Tensor) -> tuple[int, bool]:
    """Elements of y that one step through each operand makes, and whether one of them stands still meanwhile."""
    padded = [[1] * (len(y.dims) - len(x.dims)) + list(x.dims) for x in xs]
    run = 1
    kind: tuple[bool, ...] | None = None
    for axis in reversed(range(len(y.dims))):
        if y.dims[axis] == 1:
            continue
        here = tuple(p[axis] == 1 for p in padded)
        if kind not in (None, here):
            break
        kind = here
        run *= y.dims[axis]
    return run, any(kind or ())


def _add_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    act(p)
    broadcast(x[0].dims, x[1].dims, y.dims)
    bound = 128 * (abs(p["mult_a"]) + abs(p["mult_b"])) + abs(p["offset"])
    require(bound < INT32_LIMIT, f"the sum can reach {bound}; expected less than 2**31")
    within(p, shift=(0, 30))
    return {}


@Kernel(
    id=6,
    n_inputs=2,
    params=("mult_a", "mult_b", "offset", "shift", *ACT),
    group="arithmetic",
    in_place=True,
    rules=_add_rules,
    counts=_pair_counts,
)
def add_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Sum or difference of two tensors with numpy broadcasting. y = clamp(zy + ((a * mult_a + b * mult_b + offset) >>
    shift)); the offset holds the rounding constant and both zero points. 128 * (|mult_a| + |mult_b|) + |offset| <
    2**31, 0 <= shift <= 30."""
    total = xs[0].astype(np.int64) * p["mult_a"] + xs[1].astype(np.int64) * p["mult_b"] + p["offset"]
    return clamp(q.y_zero + (int32(total) >> p["shift"]), p).reshape(q.dims)


def _mul_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    act(p)
    requant(p)
    broadcast(x[0].dims, x[1].dims, y.dims)
    return {}


@Kernel(
    id=16,
    n_inputs=2,
    params=("mult", "shift", *ACT),
    group="arithmetic",
    in_place=True,
    rules=_mul_rules,
    counts=_pair_counts,
)
def mul_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Product of two tensors with numpy broadcasting. y = clamp(zy + requant((a - za) * (b - zb)))."""
    a, b = both(xs, q)
    return clamp(q.y_zero + requantise(a * b, p["mult"], p["shift"]), p).reshape(q.dims)


def _minmax_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    act(p)
    broadcast(x[0].dims, x[1].dims, y.dims)
    for side in "ab":
        bound = 128 * abs(p[f"mult_{side}"]) + abs(p[f"offset_{side}"])
        require(bound < INT32_LIMIT, f"{side} can reach {bound}; expected less than 2**31")
    within(p, shift=(0, 30), larger=(0, 1))
    return {}


@Kernel(
    id=17,
    n_inputs=2,
    params=("mult_a", "offset_a", "mult_b", "offset_b", "shift", "larger", *ACT),
    group="arithmetic",
    in_place=True,
    rules=_minmax_rules,
    counts=_pair_counts,
)
def minmax_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """The larger of two tensors, or with larger = 0 the smaller, with numpy broadcasting. y = clamp(zy + (max(a *
    mult_a + offset_a, b * mult_b + offset_b) >> shift)); an offset holds the rounding constant and a zero point. 128 *
    |mult| + |offset| < 2**31 for each, 0 <= shift <= 30."""
    a, b = (int32(x.astype(np.int64) * p[f"mult_{s}"] + p[f"offset_{s}"]) for x, s in zip(xs, "ab", strict=True))
    chosen = np.maximum(a, b) if p["larger"] else np.minimum(a, b)
    return clamp(q.y_zero + (chosen >> p["shift"]), p).reshape(q.dims)


def _div_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    act(p)
    broadcast(x[0].dims, x[1].dims, y.dims)
    within(p, factor=(0, 2**21), shift=(0, 22))
    return {}


@Kernel(
    id=21,
    n_inputs=2,
    params=("factor", "shift", *ACT),
    group="arithmetic",
    in_place=True,
    rules=_div_rules,
    counts=_pair_counts,
)
def div_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Quotient of two tensors with numpy broadcasting. y = clamp(zy + (a - za) * factor / ((b - zb) * 2**shift)),
    rounded once, halves away from zero; where b = zb, zy where a = za, else the bound on the side of a's sign. 0 <=
    factor <= 2**21, 0 <= shift <= 22."""
    a, b = both(xs, q)
    divisor = np.where(b == 0, 1, np.abs(b)) << p["shift"]
    whole = (2 * p["factor"] * np.abs(a) + divisor) // (2 * divisor)
    far = np.where(b == 0, 2**30, whole)
    return clamp(q.y_zero + np.sign(a) * np.where(b < 0, -1, 1) * far, p).reshape(q.dims)


def _lut_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    same(x[0], y)
    return {"table": (256,)}


@Kernel(id=8, blobs=(("table", "i8"),), group="activation", in_place=True, rules=_lut_rules)
def lut_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Any function of one variable: y = table[x + 128], 256 entries made by the host. x and y have one shape."""
    out: Array = blobs["table"][xs[0].astype(np.int64) + 128]
    return out


KERNELS = (add_s8, mul_s8, minmax_s8, div_s8, lut_s8)
