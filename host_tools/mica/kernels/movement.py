"""Elements that change their place."""

import math
from collections.abc import Sequence

import numpy as np

from mica.format.schema import MAX_BYTES, MAX_RANK
from mica.kernels.base import Cost, Kernel, Shapes, Step, Tensor, Tensors
from mica.kernels.counts import copies, elements, quotient_bits
from mica.kernels.integers import Array, Blobs, Output, Params
from mica.kernels.rules import beside_axis, require, same, same_quantisation, within


def _transpose_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    rank = len(y.dims)
    perm = [p[f"perm_{i}"] for i in range(rank)]
    require(
        len(x[0].dims) == rank and sorted(perm) == list(range(rank)),
        f"{perm} is no permutation of {len(x[0].dims)} dimensions",
    )
    require(tuple(x[0].dims[i] for i in perm) == y.dims, f"{list(x[0].dims)} permuted by {perm} is not {list(y.dims)}")
    same_quantisation(x[0], y)
    return {}


def _transpose_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    rank = len(y.dims)
    kept = step.params[f"perm_{rank - 1}"] == rank - 1
    return "rows" if kept else "", {"out": float(elements(y)), "run": elements(y) / y.dims[-1]}


@Kernel(
    id=9,
    params=("perm_0", "perm_1", "perm_2", "perm_3", "perm_4", "perm_5"),
    group="shape",
    rules=_transpose_rules,
    counts=_transpose_counts,
)
def transpose_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Permutation of the dimensions: y.dims[i] = x.dims[perm_i] for i < rank. y has the scale and zero point of x."""
    return np.ascontiguousarray(xs[0].transpose([p[f"perm_{i}"] for i in range(xs[0].ndim)])).reshape(q.dims)


def _move_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    within(p, begin=(0, MAX_BYTES), rank=(1, MAX_RANK))
    same_quantisation(x[0], y)
    return {"map": (p["rank"], 2)}


def _move_constants(x: Tensors, y: Tensor, p: Params, blobs: Blobs) -> None:
    places, size_of_x = blobs["map"].astype(np.int64), math.prod(x[0].dims)
    n = [int(v) % 2**32 for v in places[:, 0]]
    reach = [(size - 1) * int(step) for size, step in zip(n, places[:, 1], strict=True)]
    require(min(n) >= 1 and math.prod(n) == math.prod(y.dims), f"lengths {n} do not make the output {list(y.dims)}")
    low, high = p["begin"] + sum(r for r in reach if r < 0), p["begin"] + sum(r for r in reach if r > 0)
    require(low >= 0 and high < size_of_x, f"reads elements {low} to {high} of {size_of_x}")


def _move_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    shape = step.blobs["map"].reshape(-1, 2)
    last, stride = int(shape[-1, 0]), int(shape[-1, 1])
    return copies(last) if stride == 1 else "apart", {"out": float(elements(y)), "run": elements(y) / last}


@Kernel(
    id=10,
    blobs=(("map", "i32"),),
    params=("begin", "rank"),
    group="shape",
    rules=_move_rules,
    constants=_move_constants,
    counts=_move_counts,
)
def move_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """A copy with strides: y, read as an array of the shape map[:,0], is y[i] = x[begin + sum(i[j] * map[j,1])]. map
    [rank,2] holds a length and a step through x's elements, which may be 0 or negative; rank 1 to 6. Every index lies
    inside x; the lengths multiply to the size of y. y has the scale and zero point of x."""
    at = np.array(p["begin"], np.int64)
    for n, step in blobs["map"].astype(np.int64):
        at = np.add.outer(at, np.arange(n) * step)
    out: Array = xs[0].reshape(-1)[at].reshape(q.dims)
    return out


def _concat_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    axis = p["axis"]
    for t in x:
        beside_axis(t, y, axis)
        same_quantisation(t, y)
    sizes = [t.dims[axis] for t in x]
    require(sum(sizes) == y.dims[axis], f"inputs of {sizes} along axis {axis} do not make an output of {y.dims[axis]}")
    return {}


def _concat_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    axis = step.params["axis"]
    outer = math.prod(y.dims[:axis])
    kind = copies(*(math.prod(x.dims[axis:]) for x in xs))
    return kind, {"run": float(outer * len(xs)), "out": float(elements(y))}


@Kernel(id=11, n_inputs=4, params=("axis",), min_inputs=2, group="shape", rules=_concat_rules, counts=_concat_counts)
def concat_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Two to four tensors, one behind the other along an axis. All have the scale and zero point of y."""
    return np.concatenate(xs, axis=p["axis"])


def _pad_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    a, b = x[0].dims, y.dims
    require(len(a) == len(b), f"input {list(a)} and output {list(b)} differ in rank")
    within(p, mode=(0, 3), value=(-128, 127))
    for i, (n, wide) in enumerate(zip(a, b, strict=True)):
        before = p[f"begin_{i}"]
        behind = wide - before - n
        require(before >= 0 and behind >= 0, f"{n} elements behind {before} do not fit into {wide}")
        most = n - (p["mode"] == 2)
        require(p["mode"] < 2 or max(before, behind) <= most, f"{before} and {behind} elements of padding around {n}")
    same_quantisation(x[0], y)
    return {}


def _pad_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    longer = [i for i, (a, b) in enumerate(zip(xs[0].dims, y.dims, strict=True)) if a != b]
    last = max(longer, default=0)  # what lies behind it is copied as one
    kind = copies(math.prod(y.dims[last + 1 :]))
    return f"mode {step.params['mode']} {kind}", {
        "out": float(elements(y)),
        "row": float(math.prod(y.dims[:last])),
        "run": float(math.prod(y.dims[: last + 1])),
    }


@Kernel(
    id=12,
    params=("begin_0", "begin_1", "begin_2", "begin_3", "begin_4", "begin_5", "mode", "value"),
    group="shape",
    rules=_pad_rules,
    counts=_pad_counts,
)
def pad_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """x with begin_i elements before it along dimension i, and behind it what y's dimension leaves. They are: mode 0
    value; 1 the nearest element of x; 2 x reflected, without its border; 3 x repeated. Modes 2 and 3 reach no further
    than x is long (less 1 for mode 2). y has the scale and zero point of x."""
    x = xs[0]
    before = [p.get(f"begin_{i}", 0) for i in range(x.ndim)]
    widths = [(b, wide - b - n) for b, n, wide in zip(before, x.shape, q.dims, strict=True)]
    mode = ("constant", "edge", "reflect", "wrap")[p["mode"]]
    more = {"constant_values": p["value"]} if mode == "constant" else {}
    return np.pad(x, widths, mode, **more) if widths else x.copy()  # type: ignore[call-overload]


def _gather_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    beside_axis(x[0], y, p["axis"])
    same_quantisation(x[0], y)
    return {"indices": (y.dims[p["axis"]],)}


def _gather_constants(x: Tensors, y: Tensor, p: Params, blobs: Blobs) -> None:
    n, indices = x[0].dims[p["axis"]], blobs["indices"]
    require(bool(((indices >= 0) & (indices < n)).all()), f"indices reach outside the {n} elements of the axis")


def _gather_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    run = math.prod(y.dims[step.params["axis"] + 1 :])
    return copies(run), {"out": float(elements(y)), "run": elements(y) / run}


@Kernel(
    id=13,
    blobs=(("indices", "i32"),),
    params=("axis",),
    group="shape",
    rules=_gather_rules,
    constants=_gather_constants,
    counts=_gather_counts,
)
def gather_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Picks along an axis: y[..., j, ...] = x[..., indices[j], ...], 0 <= indices[j] < x.dims[axis], as many as
    y.dims[axis]. y has the scale and zero point of x."""
    return np.take(xs[0], blobs["indices"].astype(np.int64), axis=p["axis"])


def _embedding_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    require(y.dims[:-1] == x[0].dims and len(y.dims) >= 1, f"{list(x[0].dims)} indices do not make {list(y.dims)}")
    width, rows = y.dims[-1], p["rows"]
    require(rows >= 1 and rows * width <= MAX_BYTES, f"a table of {rows} rows of {width}")
    return {"table": (rows, width)}


@Kernel(id=15, blobs=(("table", "i8"),), params=("rows",), x_type="int32", group="shape", rules=_embedding_rules)
def embedding_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Rows of a constant table: y[..., :] = table[i], table [rows, last dimension of y], where i = x[...], plus rows
    where that is negative, then clamped to 0..rows - 1. x int32 has the other dimensions of y."""
    i, n = xs[0].astype(np.int64), p["rows"]
    out: Array = blobs["table"][np.clip(np.where(i < 0, i + n, i), 0, n - 1)]
    return out


def _scatter_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    axis, cache, rows, at = p["axis"], x[0].dims, x[1].dims, x[2].dims
    same(x[0], y)
    beside_axis(x[1], y, axis)
    same_quantisation(x[0], y)
    same_quantisation(x[1], y)
    within(p, circular=(0, 1))
    require(rows[axis] < cache[axis], f"{rows[axis]} rows into {cache[axis]}; expected fewer")
    n = math.prod(at)
    require(
        n == 1 or (axis > 0 and n == cache[0]),
        f"{n} indices for {list(cache)}; expected 1, or one for each of the first dimension",
    )
    return {}


def _scatter_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    axis = step.params["axis"]
    rows = math.prod(y.dims[:axis])
    if not _in_place(xs[0], y):
        return "copied", {"run": float(rows), "out": float(elements(y))}
    return f"in place {copies(elements(xs[1]) // rows)}", {"run": float(rows), "out": float(elements(xs[1]))}


def _in_place(x: Tensor, y: Tensor) -> bool:
    """True if two tensors are the same bytes. Tensors without a place, outside of a file, never are."""
    return all(getattr(x, name, None) == getattr(y, name, 0) for name in ("space", "offset"))


@Kernel(
    id=47,
    n_inputs=3,
    params=("axis", "circular"),
    last_type="int32",
    group="shape",
    in_place=True,
    rules=_scatter_rules,
    counts=_scatter_counts,
)
def scatter_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """A copy of x in which rows are other ones: y = x, but y[..., (i + j) mod x.dims[axis], ...] = r[..., j, ...]. r
    has fewer rows than x. i is a number, or has one for each index of the first dimension. With circular = 0 it is
    clamped to 0..x.dims[axis] - r.dims[axis]; with circular = 1 it is taken mod x.dims[axis], down to 0 also where it
    is negative. In place, nothing but these rows is written. x and r have the scale and zero point of y."""
    axis, y = p["axis"], xs[0].copy()
    n, r = y.shape[axis], xs[1].shape[axis]
    at = xs[2].reshape(-1).astype(np.int64)
    begin = at % n if p["circular"] else np.clip(at, 0, n - r)
    for k, first in enumerate(begin):
        part = slice(k, k + 1) if len(begin) > 1 else slice(None)
        places = np.moveaxis(y[part], axis, 0)  # a view
        places[(first + np.arange(r)) % n] = np.moveaxis(xs[1][part], axis, 0)
    return y


def _pick_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    axis = p["axis"]
    beside_axis(x[0], y, axis)
    same_quantisation(x[0], y)
    rows = (*y.dims[: axis + 1], *[1] * (len(y.dims) - axis - 1))
    fits = tuple(x[1].dims) in (tuple(y.dims), rows)
    require(fits, f"places of shape {list(x[1].dims)} for an output {list(y.dims)}")
    return {}


def _pick_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    """A row is what lies behind the axis."""
    axis = step.params["axis"]
    row = elements(y) / math.prod(y.dims[axis + 1 :])
    return "", {"out": float(elements(y)), "row": row, "divided": quotient_bits(math.prod(y.dims[:axis]), y.dims[axis])}


@Kernel(id=54, n_inputs=2, params=("axis",), last_type="int32", group="shape", rules=_pick_rules, counts=_pick_counts)
def pick_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Elements of x along an axis, at the places i: y[..., j, ...] = x[..., i[..., j, ...], ...], all other indices the
    same. x.dims[axis] is added to a negative place, and the sum is clamped to 0..x.dims[axis] - 1. i has the shape of
    y, which beside the axis is that of x; or a 1 for each dimension behind the axis, all of whose elements it counts
    for. y has the scale and zero point of x."""
    n, places = xs[0].shape[p["axis"]], np.broadcast_to(xs[1], q.dims).astype(np.int64)
    return np.take_along_axis(xs[0], np.clip(np.where(places < 0, places + n, places), 0, n - 1), p["axis"])


KERNELS = (transpose_s8, move_s8, concat_s8, pad_s8, gather_s8, embedding_s8, scatter_s8, pick_s8)
