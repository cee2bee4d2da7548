"""Seeded cases for the kernels that read rows of features."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from case import Array, Case, Rng, _data, _rng

from mica.kernels import tabular
from mica.kernels.integers import Output

# Bit patterns of float32 where rules change: zeros, the least and the largest numbers of each kind, infinities, NaNs.
EDGES = np.array(
    [0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF], np.uint32
)
EDGES = np.concatenate([EDGES, EDGES | 0x80000000]).astype(np.uint32).view(np.float32)


def tabular_cases() -> Iterator[Case]:
    """All of them."""
    yield from features()
    yield from ranks()
    yield from trees()
    yield from small_nodes()


def _floats(rng: Rng, shape: tuple[int, ...], kind: str) -> Array:
    if kind == "edges":
        return rng.choice(EDGES.view(np.uint32), shape).view(np.float32)
    if kind == "bits":
        return rng.integers(0, 2**32, shape, dtype=np.uint32).view(np.float32)
    return (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape[-1])).astype(np.float32)


def features() -> Iterator[Case]:
    """Numbers as they come, every bit pattern, factors and offsets at their ends."""
    for dims, kind in (
        ((1, 7), ""),
        ((1, 1), ""),
        ((9,), ""),
        ((3, 2, 5), ""),
        ((16, 20), "edges"),
        ((40, 20), "bits"),
    ):
        name = f"features {dims} {kind}"
        rng, n = _rng(name), dims[-1]
        x = _floats(rng, dims, kind)
        blobs = {
            "scale": rng.choice(np.array([2**31 - 1, 1 - 2**31, 0, 1]), n),
            "exponent": rng.choice(np.array([-128, 127, -1, 0, -80, 50]), n),
            "offset": rng.choice(np.array([-(2**31), 2**31 - 1, 0, 128]), n),
        }
        if not kind:
            power = np.frexp(np.abs(x).reshape(-1, n).max(axis=0))[1]
            blobs = {"scale": rng.integers(-(2**31) + 1, 2**31, n), "exponent": -16 - power}
            blobs["offset"] = rng.integers(-9000, 9000, n)
        blobs["missing"] = rng.integers(-128, 128, n)
        types = {"scale": np.int32, "exponent": np.int8, "offset": np.int32, "missing": np.int8}
        blobs = {k: v.astype(types[k]) for k, v in blobs.items()}
        for low, high in ((-128, 127), (-20, 5)):
            p = {"act_min": low, "act_max": high}
            yield Case(f"{name} {low}", "features_s8", [x], p, Output(dims, 0, 3), blobs, rows=x.size // n)


def ranks() -> Iterator[Case]:
    """Columns without thresholds, with all that there may be, of one feature; features that lie on thresholds."""
    for dims, counts, kind in (
        ((1, 4), (3, 0, 255, 1, 16, 7), ""),
        ((1, 1), (5,), ""),
        ((2, 3), (0, 0), ""),
        ((5,), (2, 254, 31), ""),
        ((3, 2, 3), (4, 8, 100), ""),
        ((12, 9), (19, 19, 19), "edges"),
        ((50, 6), (200, 100, 9, 3), "bits"),
        ((3, 4), (2, 6, 12, 15, 32, 40, 63, 64, 65, 127, 128, 192), ""),
    ):
        name = f"ranks {dims} {counts} {kind}"
        rng, n = _rng(name), dims[-1]
        x = _floats(rng, dims, kind)
        source = rng.integers(0, n, len(counts))
        parts = []
        for c, f in zip(counts, source, strict=True):
            some = EDGES if kind == "edges" else rng.choice(x.reshape(-1, n)[:, f], c) if c else x[:0].reshape(-1)
            own = np.unique(tabular.keys(some[~np.isnan(some)].view(np.int32)))
            others = np.setdiff1d(
                tabular.keys((100 * rng.standard_normal(1000)).astype(np.float32).view(np.int32)), own
            )
            parts.append(np.sort(np.append(own, rng.choice(others, c - len(own), replace=False))))
        blobs = {
            "thresholds": np.concatenate(parts).astype(np.int32),
            "first": np.cumsum([0, *counts]).astype(np.uint32),
            "source": source.astype(np.uint16),
            "missing": rng.integers(-128, 128, len(counts)).astype(np.int8),
        }
        p = {"count": sum(counts)}
        yield Case(name, "ranks_s8", [x], p, Output((*dims[:-1], len(counts))), blobs, rows=x.size // n)


def grow(rng: Rng, columns: int, results: int, depth: int, entries: int) -> list[int]:
    """The words of one random tree: no deeper than `depth`, leaves of one to `entries` entries."""
    if depth == 0 or rng.random() < 0.15:
        targets = np.sort(rng.choice(results, rng.integers(1, min(entries, results) + 1), replace=False))
        words = []
        for k, t in enumerate(targets):
            value = int(rng.choice([-0x4000, 0x3FFF, int(rng.integers(-300, 300))]))
            more = tabular.MORE if k + 1 < len(targets) else 0
            words += [tabular.LEAF | more | int(t), tabular.INSIDE | value & tabular.MOST_JUMP]
        return words
    first, second = (grow(rng, columns, results, depth - 1, entries) for _ in range(2))
    threshold = int(rng.integers(-128, 128))
    return [
        int(rng.integers(columns)),
        tabular.INSIDE | threshold & 255,
        tabular.INSIDE | len(first),
        *first,
        *second,
    ]


def forest(rng: Rng, columns: int, results: int, depths: tuple[int, ...], entries: int) -> dict[str, Array]:
    """The constants of trees of these depths."""
    nodes: list[int] = []
    roots = []
    for depth in depths:
        roots.append(len(nodes))
        nodes += grow(rng, columns, results, depth, entries)
    bias = rng.integers(-5000, 5000, results).astype(np.int32)
    return {"nodes": np.array(nodes, np.uint16), "roots": np.array(roots, np.uint32), "bias": bias}


def trees() -> Iterator[Case]:
    """One leaf; many trees; trees so deep that jumps are long; leaves of one number and of many."""
    for dims, results, depths, entries, data in (
        ((1, 3), 1, (0,), 1, ""),
        ((1, 1), 1, (1, 1, 2), 1, "extreme"),
        ((1, 12), 5, (6,) * 20, 4, ""),
        ((7,), 3, (3, 0, 4), 3, ""),
        ((2, 3, 9), 2, (5, 5), 2, ""),
        ((1, 300), 40, (11,) * 3, 12, ""),
        ((1, 8192), 8192, (4, 4), 3, "lowest"),
    ):
        name = f"trees {dims} {results} {depths} {data}"
        rng = _rng(name)
        blobs = forest(rng, dims[-1], results, depths, entries)
        x = _data(rng, dims, data)
        for act, mult, shift in (((-128, 127), 2**30 + 12345, 5), ((-9, 70), 2**31 - 1, 8)):
            p = {"words": len(blobs["nodes"]), "trees": len(depths), "mult": mult, "shift": shift}
            p |= {"act_min": act[0], "act_max": act[1]}
            yield Case(f"{name} {act}", "trees_s8", [x], p, Output((*dims[:-1], results), 1, -7), blobs)


def grow_small(rng: Rng, columns: int, leaves: list[int], starts: list[int], depth: int) -> list[int]:
    """The nodes of one random tree of forest_s8; starts: where in `leaves` those of a leaf begin."""
    if depth == 0 or rng.random() < 0.15:
        return [tabular.LEAF_MARK | int(rng.choice(starts)) << tabular.FIELD_SHIFT]
    first, second = (grow_small(rng, columns, leaves, starts, depth - 1) for _ in range(2))
    head = int(rng.integers(-128, 128)) << 24 | len(first) << tabular.FIELD_SHIFT | int(rng.integers(columns))
    return [head, *first, *second]


def small_forest(
    rng: Rng, columns: int, results: int, depths: tuple[int, ...], entries: int, distinct: int
) -> dict[str, Array]:
    """The constants of trees of these depths, whose leaves are `distinct` ones."""
    leaves: list[int] = []
    starts = []
    for _ in range(distinct):
        starts.append(len(leaves))
        targets = np.sort(rng.choice(results, rng.integers(1, min(entries, results) + 1), replace=False))
        for k, t in enumerate(targets.tolist()):
            value = int(rng.choice([-0x8000, 0x7FFF, int(rng.integers(-300, 300))]))
            leaves.append(value << 16 | (tabular.MORE_ENTRIES if k + 1 < len(targets) else 0) | t)
    nodes: list[int] = []
    roots = []
    for depth in depths:
        roots.append(len(nodes))
        nodes += grow_small(rng, columns, leaves, starts, depth)
    nodes += [tabular.LEAF_MARK] * tabular.SPARE
    return {
        "nodes": np.array(nodes, np.int32),
        "roots": np.array(roots, np.uint32),
        "leaves": np.array(leaves, np.int32),
        "bias": rng.integers(-5000, 5000, results).astype(np.int32),
    }


def small_nodes() -> Iterator[Case]:
    """One leaf; every column that a node can name; chains of first and of second children;
    sums beyond the fast product."""
    for dims, results, depths, entries, distinct, data in (
        ((1, 3), 1, (0,), 1, 1, ""),
        ((1, 1), 1, (1, 1, 2), 1, 3, "extreme"),
        ((1, 12), 5, (6,) * 20, 4, 40, ""),
        ((7,), 3, (3, 0, 4), 3, 5, ""),
        ((2, 3, 9), 2, (5, 5), 2, 9, ""),
        ((1, 255), 40, (11,) * 3, 12, 300, ""),
        ((1, 255), 8192, (4, 4), 3, 20, "lowest"),
    ):
        name = f"forest {dims} {results} {depths} {data}"
        rng = _rng(name)
        blobs = small_forest(rng, dims[-1], results, depths, entries, distinct)
        if results == 5:
            blobs["bias"][:2] = 2**30, -(2**30)
        x = _data(rng, dims, data)
        for act, mult, shift in (((-128, 127), 2**30 + 12345, 5), ((-9, 70), 2**31 - 1, 8), ((-128, 127), 2**30, -2)):
            p = {"words": len(blobs["nodes"]), "trees": len(depths), "units": len(blobs["leaves"]), "mult": mult}
            p |= {"shift": shift, "act_min": act[0], "act_max": act[1]}
            yield Case(f"{name} {act} {shift}", "forest_s8", [x], p, Output((*dims[:-1], results), 1, -7), blobs)
