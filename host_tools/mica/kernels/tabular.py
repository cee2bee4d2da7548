"""Rows of features, each in a unit of its own: float32 features into integers, and ensembles of decision trees."""

import math
from collections.abc import Sequence

import numpy as np

from mica.format.schema import MAX_BYTES
from mica.kernels.base import ACT, Cost, Kernel, Shapes, Step, Tensor, Tensors
from mica.kernels.counts import elements
from mica.kernels.integers import Array, Blobs, Output, Params, clamp, int32, requantise
from mica.kernels.rules import INT32_LIMIT, act, requant, require, within

# Words of trees_s8: the first of a record has bit 15 clear, the others have it set.
INSIDE = 0x8000  # not the first of a record
LEAF, MORE = 0x4000, 0x2000  # of a first word: an entry of a leaf; another entry follows
MOST_COLUMNS = 0x2000  # of a row, and numbers of a result: what the rest of a first word can count
MOST_JUMP = 0x7FFF  # words
LEAF_LEAST, LEAF_MOST = -0x4000, 0x3FFF
MOST_TREES = 0xFFFF
MOST_RANKS = 255  # thresholds of one column
FRACTION = 8  # binary places that features_s8 computes beyond its results
SATURATED = 2**40  # of a feature in these places: far beyond what an offset brings back


def _rows(x: Tensor, y: Tensor) -> None:
    require(
        len(x.dims) == len(y.dims) >= 1 and x.dims[:-1] == y.dims[:-1],
        f"input {list(x.dims)} and output {list(y.dims)} differ before their last dimension",
    )


def keys(bits: Array) -> Array:
    """float32 as int32 bit patterns -> int64 in the same order, with one zero. Of a NaN the result means nothing."""
    b = bits.astype(np.int64)
    return np.where(b >= 0, b, -(b & 0x7FFFFFFF))


def reals(key: Array) -> Array:
    """Real numbers of keys, as float64: the inverse of `keys`."""
    k = key.astype(np.int64)
    bits = np.where(k < 0, -k | 0x80000000, k).astype(np.uint32)
    return bits.view(np.float32).astype(np.float64)


def nan(bits: Array) -> Array:
    """True for each int32 bit pattern that is a NaN."""
    out: Array = (bits.astype(np.int64) & 0x7FFFFFFF) > 0x7F800000
    return out


# ---- features_s8


def _features_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    act(p)
    _rows(x[0], y)
    require(x[0].dims == y.dims, f"input {list(x[0].dims)} and output {list(y.dims)} differ in shape")
    n = y.dims[-1]
    return {"scale": (n,), "exponent": (n,), "offset": (n,), "missing": (n,)}


def places(bits: Array, blobs: Blobs) -> Array:
    """Each feature on its grid, int64: x, taken apart into mantissa and exponent, times scale * 2**exponent,
    and offset."""
    bits = bits.astype(np.int64)
    power = bits >> 23 & 255
    mantissa = (bits & 0x7FFFFF) | np.where(power > 0, 0x800000, 0)
    product = np.where(bits < 0, -mantissa, mantissa) * blobs["scale"].astype(np.int64)  # below 2**55
    shift = np.maximum(power, 1) - 150 + blobs["exponent"].astype(np.int64)
    down, up = np.clip(-shift, 1, 62), np.clip(shift, 0, 62)
    small = (product + (np.int64(1) << (down - 1))) >> down
    size, most = np.abs(product), SATURATED >> np.minimum(up, 41)
    large = np.where(size > most, np.sign(product) * SATURATED, product << np.where(size > most, 0, up))
    value = np.clip(np.where(shift < 0, small, large), -SATURATED, SATURATED)
    out: Array = (value + blobs["offset"].astype(np.int64) + (1 << (FRACTION - 1))) >> FRACTION
    return out


@Kernel(
    id=40,
    blobs=(("scale", "i32"), ("exponent", "i8"), ("offset", "i32"), ("missing", "i8")),
    params=ACT,
    x_type="float32",
    group="features",
    rules=_features_rules,
    constants=lambda x, y, p, blobs: require(bool((blobs["scale"] > -(2**31)).all()), "a scale is -2**31"),
)
def features_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Features in units of their own into one scale. x float32 [...,F], y the same; x = m * 2**e with an integer m, |m|
    < 2**24, and e >= -149. y[...,f] = clamp((v + offset[f] + 2**7) >> 8), v = m * scale[f] * 2**(e + exponent[f]),
    rounded once to an integer, halves up, and limited to +-2**40; infinities count as m = 2**23, e = 105. For a NaN y =
    clamp(missing[f]). scale > -2**31."""
    bits = np.ascontiguousarray(xs[0], np.float32).view(np.int32)
    return clamp(np.where(nan(bits), blobs["missing"].astype(np.int64), places(bits, blobs)), p)


# ---- ranks_s8


def _ranks_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    _rows(x[0], y)
    within(p, count=(0, MAX_BYTES // 4))
    n = y.dims[-1]
    return {"thresholds": (p["count"],), "first": (n + 1,), "source": (n,), "missing": (n,)}


def _ranks_constants(x: Tensors, y: Tensor, p: Params, blobs: Blobs) -> None:
    first, source = blobs["first"].astype(np.int64), blobs["source"]
    require(bool((source < x[0].dims[-1]).all()), f"a source is none of the {x[0].dims[-1]} features")
    require(int(first[0]) == 0 and int(first[-1]) == p["count"], "the columns' thresholds are not all that there are")
    counts = np.diff(first)
    require(bool(((counts >= 0) & (counts <= MOST_RANKS)).all()), f"a column of more than {MOST_RANKS} thresholds")


def _ranks_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    turns = np.ceil(np.log2(np.diff(step.blobs["first"].astype(np.int64)) + 1)).sum()
    return "", {"out": float(elements(y)), "turn": float(turns) * (elements(y) // y.dims[-1])}


@Kernel(
    id=41,
    blobs=(("thresholds", "i32"), ("first", "u32"), ("source", "u16"), ("missing", "i8")),
    params=("count",),
    x_type="float32",
    group="features",
    rules=_ranks_rules,
    constants=_ranks_constants,
    counts=_ranks_counts,
)
def ranks_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Ranks of features among the thresholds of trees. x float32 [...,F], y [...,C]: y[...,c] = -128 + the number of
    the thresholds first[c] to first[c + 1] - 1 that are less than x[...,source[c]], missing[c] for a NaN. thresholds
    hold float32 as integers in the same order: the bit pattern, or the negative of its lower 31 bits where the sign is
    set; they ascend in each column, 255 at most (found by halving: low = 0, n of them; while n > 0 with h = n / 2: if
    threshold low + h is less, low += h + 1 and n -= h + 1, else n = h). first has C + 1 entries, from 0 to the number
    of thresholds."""
    bits = np.ascontiguousarray(xs[0], np.float32).view(np.int32).reshape(-1, xs[0].shape[-1])
    thresholds, first = blobs["thresholds"].astype(np.int64), blobs["first"].astype(np.int64)
    picked = bits[:, blobs["source"].astype(np.int64)]
    key = keys(picked)
    low = np.broadcast_to(first[:-1], key.shape).copy()
    n = np.broadcast_to(np.diff(first), key.shape).copy()
    while (n > 0).any():
        half = n >> 1
        less = (n > 0) & (thresholds[np.minimum(low + half, max(len(thresholds) - 1, 0))] < key)
        low += np.where(less, half + 1, 0)
        n = np.where(less, n - half - 1, half)
    rank = low - first[:-1] - 128
    return np.where(nan(picked), blobs["missing"], rank).astype(np.int8).reshape(q.dims)


# ---- trees_s8


def _trees_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    act(p)
    requant(p)
    _rows(x[0], y)
    for what, t in (("input", x[0]), ("output", y)):
        require(t.dims[-1] <= MOST_COLUMNS, f"rows of {t.dims[-1]} in the {what}; {MOST_COLUMNS} at most")
    within(p, trees=(1, MOST_TREES), words=(1, MAX_BYTES // 2))
    return {"nodes": (p["words"],), "roots": (p["trees"],), "bias": (y.dims[-1],)}


def _trees_constants(x: Tensors, y: Tensor, p: Params, blobs: Blobs) -> None:
    nodes = np.append(blobs["nodes"].astype(np.int64), [INSIDE] * 3)  # so that one may look beyond the end
    words = p["words"]
    starts = np.flatnonzero(nodes[:words] < INSIDE)
    kind = nodes[starts]
    inner, leaf = starts[(kind & LEAF) == 0], starts[(kind & LEAF) != 0]

    def begins(at: Array) -> Array:
        return (at < words) & (nodes[np.minimum(at, words)] < INSIDE)

    cut = "a record of the trees is cut short, or begins in another"
    require(bool(nodes[0] < INSIDE and begins(inner + 3).all()), cut)
    require(bool((nodes[inner + 1] >= INSIDE).all() and (nodes[inner + 2] >= INSIDE).all()), cut)
    require(bool((nodes[leaf + 1] >= INSIDE).all() and (leaf + 1 < words).all()), cut)
    require(bool((begins(leaf + 2) | (leaf + 2 == words)).all()), cut)
    require(bool((nodes[inner] < x[0].dims[-1]).all()), "a tree asks for a column that the input does not have")
    jump = nodes[inner + 2] & MOST_JUMP
    require(bool(begins(inner + 3 + jump).all()), "a child of a tree is not a record behind it")
    target = nodes[leaf] & (MORE - 1)
    require(bool((target < y.dims[-1]).all()), "a leaf adds to a number that the output does not have")
    more = leaf[(nodes[leaf] & MORE) != 0] + 2
    follows = begins(more) & ((nodes[np.minimum(more, words)] & LEAF) != 0)
    rises = (nodes[np.minimum(more, words)] & (MORE - 1)) > (nodes[more - 2] & (MORE - 1))
    require(bool((follows & rises).all()), "the entries of a leaf do not ascend")
    roots = blobs["roots"].astype(np.int64)
    require(bool(begins(roots).all()), "a tree does not begin with a record")
    bound = int(np.abs(blobs["bias"].astype(np.int64)).max()) - LEAF_LEAST * p["trees"]
    require(bound < INT32_LIMIT, f"the sum of the trees can reach {bound}; expected less than 2**31")


def _trees_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    starts = step.blobs["nodes"][step.blobs["nodes"] < INSIDE]
    leaves = int(((starts & LEAF) != 0).sum())
    trees = step.params["trees"]
    rows = math.prod(y.dims[:-1])
    depth = trees * math.log2(max(leaves / trees, 1.0))  # of trees that are balanced
    return "", {"tree": float(rows * trees), "turn": float(rows) * depth, "out": float(elements(y))}


@Kernel(
    id=42,
    blobs=(("nodes", "u16"), ("roots", "u32"), ("bias", "i32")),
    params=("words", "trees", "mult", "shift", *ACT),
    group="features",
    rules=_trees_rules,
    constants=_trees_constants,
    scratch_min=lambda out_channels: 4 * out_channels,  # a sum for each number of a result
    counts=_trees_counts,
)
def trees_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """The sum of decision trees. x [...,C], y [...,N]: y[...,n] = clamp(zy + requant(bias[n] + what the leaves that x
    reaches add to n)); see the notes. nodes [words] holds records, a tree begins at each word of roots [trees]. C, N <=
    8192; |bias| + 2**14 * trees < 2**31. Needs scratch."""
    nodes, roots = blobs["nodes"].astype(np.int64), blobs["roots"].astype(np.int64)
    rows = xs[0].reshape(-1, xs[0].shape[-1])
    total = np.repeat(blobs["bias"].astype(np.int64)[None], len(rows), 0)
    for x, sums in zip(rows, total, strict=True):
        at = roots.copy()
        while len(inner := np.flatnonzero((nodes[at] & LEAF) == 0)):
            here = at[inner]
            threshold = (nodes[here + 1] & 255 ^ 128) - 128
            at[inner] += np.where(x[nodes[here]] <= threshold, 3, 3 + (nodes[here + 2] & MOST_JUMP))
        while len(at):
            value = (nodes[at + 1] & MOST_JUMP ^ LEAF) + LEAF_LEAST
            np.add.at(sums, nodes[at] & (MORE - 1), value)
            at = at[(nodes[at] & MORE) != 0] + 2
    return clamp(q.y_zero + requantise(int32(total), p["mult"], p["shift"]), p).reshape(q.dims)


# ---- forest_s8

# Words of forest_s8.
LEAF_NODE = 0x800000  # of a node: a leaf
FIELD_SHIFT, FIELD = 8, 0x7FFF  # of its field: words from the first child to the second, or a leaf's first entry
LEAF_MARK = -0x7F7FFF01  # a leaf without its field: 0x808000ff
MORE_ENTRIES = 0x8000  # of an entry: another one follows
FOREST_COLUMNS = 255
SPARE = 3  # leaves at the end that no tree reaches


def _forest_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    act(p)
    requant(p)
    _rows(x[0], y)
    for what, t, most in (("input", x[0], FOREST_COLUMNS), ("output", y, MOST_COLUMNS)):
        require(t.dims[-1] <= most, f"rows of {t.dims[-1]} in the {what}; {most} at most")
    within(p, trees=(1, MOST_TREES), words=(SPARE + 1, MAX_BYTES // 4), units=(1, FIELD + 1))
    return {"nodes": (p["words"],), "roots": (p["trees"],), "leaves": (p["units"],), "bias": (y.dims[-1],)}


def _forest_constants(x: Tensors, y: Tensor, p: Params, blobs: Blobs) -> None:
    nodes, whole = blobs["nodes"].astype(np.int64), p["words"] - SPARE
    at, field = np.arange(len(nodes)), nodes >> FIELD_SHIFT & FIELD
    leaf = (nodes & LEAF_NODE) != 0
    marked = (nodes[leaf] & ~(FIELD << FIELD_SHIFT)) == LEAF_MARK
    require(bool((marked & (field[leaf] < p["units"])).all()), "a leaf of the trees has no entries, or another mark")
    inner = ~leaf
    require(bool(((nodes[inner] & 255) < x[0].dims[-1]).all()), "a tree asks for a column that the input does not have")
    require(bool((at[inner] + 1 + field[inner] < whole).all()), "a child of a tree is not a node behind it")
    leaves = blobs["leaves"].astype(np.int64)
    target = leaves & (MORE_ENTRIES - 1)
    require(bool((target < y.dims[-1]).all()), "a leaf adds to a number that the output does not have")
    more = np.flatnonzero(leaves & MORE_ENTRIES)
    rises = bool((more + 1 < len(leaves)).all() and (target[more + 1] > target[more]).all())
    require(rises, "the entries of a leaf do not ascend")
    require(bool((blobs["roots"].astype(np.int64) < whole).all()), "a tree does not begin with a node")
    bound = int(np.abs(blobs["bias"].astype(np.int64)).max()) + (p["trees"] << 15)
    require(bound < INT32_LIMIT, f"the sum of the trees can reach {bound}; expected less than 2**31")


def _forest_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    leaves = int(((step.blobs["nodes"] & LEAF_NODE) != 0).sum()) - SPARE
    trees, rows = step.params["trees"], math.prod(y.dims[:-1])
    depth = trees * math.log2(max(leaves / trees, 1.0))  # of trees that are balanced
    return "", {"tree": float(rows * trees), "turn": float(rows) * depth, "out": float(elements(y))}


@Kernel(
    id=51,
    blobs=(("nodes", "i32"), ("roots", "u32"), ("leaves", "i32"), ("bias", "i32")),
    params=("words", "trees", "units", "mult", "shift", *ACT),
    group="features",
    rules=_forest_rules,
    constants=_forest_constants,
    # A row with room for 256 columns, and a sum for each number of a result.
    scratch_min=lambda out_channels: 256 + 4 * out_channels,
    counts=_forest_counts,
)
def forest_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """The sum of decision trees, as trees_s8 with nodes of one word. x [...,C], y [...,N]: y[...,n] = clamp(zy +
    requant(bias[n] + what the leaves that x reaches add to n)); see the notes. A tree begins at each word of roots
    [trees] in nodes [words]; leaves [units] holds what leaves add. C <= 255, N <= 8192; |bias| + 2**15 * trees < 2**31.
    Needs scratch."""
    nodes, leaves = blobs["nodes"].astype(np.int64), blobs["leaves"].astype(np.int64)
    rows = xs[0].reshape(-1, xs[0].shape[-1])
    total = np.repeat(blobs["bias"].astype(np.int64)[None], len(rows), 0)
    for x, sums in zip(rows, total, strict=True):
        at = blobs["roots"].astype(np.int64)
        while len(inner := np.flatnonzero((nodes[at] & LEAF_NODE) == 0)):
            word = nodes[at[inner]]
            at[inner] += np.where(x[word & 255] <= word >> 24, 1, 1 + (word >> FIELD_SHIFT & FIELD))
        at = nodes[at] >> FIELD_SHIFT & FIELD
        while len(at):
            np.add.at(sums, leaves[at] & (MORE_ENTRIES - 1), leaves[at] >> 16)
            at = at[(leaves[at] & MORE_ENTRIES) != 0] + 1
    return clamp(q.y_zero + requantise(int32(total), p["mult"], p["shift"]), p).reshape(q.dims)


KERNELS = (features_s8, ranks_s8, trees_s8, forest_s8)
