"""Seeded cases for the kernels that move elements."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from case import Case, _data, _rng

from mica.kernels.integers import Output


def movement() -> Iterator[Case]:
    """All of them."""
    yield from moves()
    yield from concatenations()
    yield from pads()
    yield from gathers()
    yield from resizes()
    yield from embeddings()
    yield from scatters()
    yield from picks()


def moves() -> Iterator[Case]:
    """Slices, reversals, repetitions, broadcasts: strides of every sign, one element to six dimensions."""
    for size, begin, places in (
        (1, 0, ((1, 0),)),
        (1, 0, ((7, 0),)),  # one element everywhere
        (9, 0, ((9, 1),)),
        (9, 8, ((9, -1),)),
        (9, 1, ((4, 2),)),
        (24, 3, ((3, 6), (2, 1))),  # columns 3 and 4 of [4,6], without the last row
        (24, 23, ((4, -6), (6, -1))),
        (24, 0, ((4, 6), (2, 0), (6, 1))),  # each row twice
        (24, 0, ((2, 0), (24, 1))),
        (24, 0, ((4, 6), (6, 1), (2, 0))),  # each element twice
        (6, 0, ((3, 0), (2, 3), (2, 0), (3, 1), (2, 0))),
        (64, 0, ((2, 32), (2, 16), (2, 8), (2, 4), (2, 2), (2, 1))),
        (64, 63, ((2, -1), (2, -2), (2, -4), (2, -8), (2, -16), (2, -32))),
        (5, 2, ((1, 2**31 - 1), (3, 1), (1, -(2**31)))),  # a step that is never taken
        (70000, 69999, ((70000, -1),)),
        (12, 0, ((3, 1), (4, 3))),
    ):
        name = f"move {size} {begin} {places}"
        shape = (size,) if size < 65536 else (7, size // 7)
        x = _data(_rng(name), shape, "")
        blobs = {"map": np.array(places, np.int64).astype(np.int32)}
        dims = tuple(n for n, _ in places) if size < 65536 else shape
        p = {"begin": begin, "rank": len(places)}
        yield Case(name, "move_s8", [x], p, Output(dims), blobs, rows=places[0][0])


def concatenations() -> Iterator[Case]:
    """Two to four inputs, every axis, parts of one element."""
    for dims, axis, parts in (
        ((3, 0, 4), 1, (2, 5)),
        ((0, 3), 0, (1, 1)),
        ((0,), 0, (7, 1, 3)),
        ((1, 5, 4, 0), 3, (3, 16, 1, 2)),
        ((1, 0, 3, 2), 1, (2, 1, 1, 4)),
        ((2, 1, 2, 1, 0, 2), 4, (3, 2)),
        ((2, 3, 0), 2, (1, 1, 1, 1)),
    ):
        name = f"concat {dims} {axis} {parts}"
        rng = _rng(name)
        xs = [_data(rng, (*dims[:axis], n, *dims[axis + 1 :]), "") for n in parts]
        out = (*dims[:axis], sum(parts), *dims[axis + 1 :])
        yield Case(name, "concat_s8", xs, {"axis": axis}, Output(out), rows=int(np.prod(dims[:axis])))


def pads() -> Iterator[Case]:
    """Each mode on each dimension, none, all, and the most that reflection and repetition take."""
    for dims, widths in (
        ((), ()),
        ((1,), ((0, 0),)),
        ((5,), ((2, 3),)),
        ((1,), ((4, 1),)),
        ((3, 4), ((0, 0), (1, 2))),
        ((3, 4), ((2, 1), (0, 0))),
        ((3, 4), ((0, 2), (3, 0))),
        ((1, 4, 5, 3), ((0, 0), (1, 2), (2, 1), (0, 0))),
        ((1, 4, 5, 3), ((0, 0), (0, 0), (0, 0), (2, 2))),
        ((1, 2, 2, 2), ((0, 0), (1, 1), (1, 1), (0, 0))),
        ((2, 3, 2, 3, 2, 3), ((1, 0), (0, 2), (0, 0), (1, 1), (0, 0), (0, 0))),
        ((4, 3, 5), ((3, 3), (2, 2), (4, 4))),
    ):
        for mode in range(4):
            room = [n - (mode == 2) for n in dims]
            if mode >= 2 and any(max(w) > m for w, m in zip(widths, room, strict=True)):
                continue
            name = f"pad {dims} {widths} mode {mode}"
            p = {f"begin_{i}": w[0] for i, w in enumerate(widths)} | {"mode": mode, "value": -77}
            out = tuple(n + sum(w) for n, w in zip(dims, widths, strict=True))
            last = max([i for i, w in enumerate(widths) if any(w)], default=0)
            yield Case(name, "pad_s8", [_data(_rng(name), dims, "")], p, Output(out), rows=int(np.prod(out[:last])))


def gathers() -> Iterator[Case]:
    """Repeated, missing and reversed indices along every axis."""
    for dims, axis, indices in (
        ((1,), 0, [0]),
        ((5,), 0, [4, 4, 0, 2]),
        ((3, 4), 0, [2, 0]),
        ((3, 4), 1, [3, 3, 3, 0, 1, 2]),
        ((1, 4, 5, 3), 1, [0, 0, 1, 1, 1, 2, 3]),
        ((1, 4, 5, 3), 2, [4, 2, 0]),
        ((2, 1, 2, 300), 3, [299, 7]),
        ((2, 2, 2, 2, 2, 3), 5, [1]),
    ):
        name = f"gather {dims} {axis} {indices}"
        out = (*dims[:axis], len(indices), *dims[axis + 1 :])
        blobs = {"indices": np.array(indices, np.int32)}
        rows = int(np.prod(dims[:axis]))
        yield Case(name, "gather_s8", [_data(_rng(name), dims, "")], {"axis": axis}, Output(out), blobs, rows=rows)


def _entries(rng: np.random.Generator, n: int, size: int, taps: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Positions and weights of n entries: random, or with the largest absolute weights there may be."""
    first = rng.integers(0, size - taps + 1, n).astype(np.uint16)
    weights = np.zeros((n, taps), np.int64)
    if kind == "limits" and taps > 1:
        weights[:, 0], weights[:, 1] = 2472, -424  # sum 2048, absolute values 2896
        weights = rng.permuted(weights, axis=1)
    else:
        cuts = np.sort(rng.integers(0, 2049, (n, taps - 1)), axis=1)
        weights = np.diff(cuts, axis=1, prepend=0, append=2048)
    return first, weights.astype(np.int16)


def resizes() -> Iterator[Case]:
    """One tap (a copy) to five, weights that are all positive or at their limits, rounding at every half."""
    for (h, w, c), (oh, ow), (a, b), kind, data in (
        ((1, 1, 1), (1, 1), (1, 1), "", ""),
        ((3, 4, 5), (6, 8), (2, 2), "", ""),
        ((3, 4, 5), (2, 3), (2, 2), "", ""),
        ((1, 9, 3), (1, 4), (1, 2), "", ""),
        ((9, 1, 3), (5, 1), (3, 1), "", "extreme"),
        ((5, 5, 2), (7, 3), (4, 4), "limits", "extreme"),
        ((6, 6, 1), (9, 9), (2, 2), "limits", "extreme"),
        ((6, 6, 3), (4, 4), (5, 5), "", "lowest"),
        ((4, 4, 7), (4, 4), (4, 2), "limits", "lowest"),
    ):
        name = f"resize {h}x{w}x{c} {oh}x{ow} taps {a} {b} {kind} {data}"
        rng = _rng(name)
        rows, row_weights = _entries(rng, oh, h, a, kind)
        columns, column_weights = _entries(rng, ow, w, b, kind)
        blobs = {"rows": rows, "row_weights": row_weights, "columns": columns, "column_weights": column_weights}
        p = {"row_taps": a, "column_taps": b}
        yield Case(name, "resize_linear_s8", [_data(rng, (1, h, w, c), data)], p, Output((1, oh, ow, c)), blobs)


def embeddings() -> Iterator[Case]:
    """Indices inside, negative, and far outside the table."""
    for dims, rows, width in (((), 3, 4), ((5,), 7, 1), ((2, 3), 1, 9), ((1, 40), 1000, 16)):
        name = f"embedding {dims} {rows} {width}"
        rng = _rng(name)
        blobs = {"table": _data(rng, (rows, width), "")}
        inside = rng.integers(0, rows, dims)
        around = rng.integers(-2 * rows, 2 * rows, dims)
        ends = rng.choice(np.array([-(2**31), 2**31 - 1, -1, -rows, rows]), dims)
        for kind, values in (("inside", inside), ("around", around), ("ends", ends)):
            xs = [np.asarray(values, np.int32)]
            q = Output((*dims, width))
            yield Case(f"{name} {kind}", "embedding_s8", xs, {"rows": rows}, q, blobs, rows=int(np.prod(dims)))


def scatters() -> Iterator[Case]:
    """One row and several, along each axis, around the end and clamped at it;
    an index for all or for each of the first dimension."""
    for dims, axis, r, n in (
        ((2,), 0, 1, 1),
        ((9,), 0, 8, 1),
        ((5, 4), 0, 3, 1),
        ((3, 4), 1, 1, 3),
        ((2, 1, 4, 5), 2, 2, 2),
        ((3, 4, 5), 1, 2, 3),
        ((1, 4, 128, 8), 2, 1, 1),
        ((2, 3, 2, 3, 2, 3), 5, 2, 2),
    ):
        for circular in (0, 1):
            name = f"scatter {dims} {axis} {r} {circular}"
            rng = _rng(name)
            rows = (*dims[:axis], r, *dims[axis + 1 :])
            size = dims[axis]
            ends = rng.choice(np.array([-(2**31), 2**31 - 1, -1, size, size - 1]), n)
            for kind, at in (
                ("inside", rng.integers(0, size - r + 1, n)),
                ("end", np.full(n, size - 1)),
                ("far", ends),
            ):
                xs = [_data(rng, dims, ""), _data(rng, rows, ""), np.asarray(at, np.int32)]
                p = {"axis": axis, "circular": circular}
                outer = int(np.prod(dims[:axis]))
                yield Case(f"{name} {kind}", "scatter_s8", xs, p, Output(dims), rows=outer)


def picks() -> Iterator[Case]:
    """One place and several, along each axis; inside, counted from the end, and far outside."""
    for dims, axis, k in (
        ((1,), 0, 1),
        ((9,), 0, 20),
        ((5, 4), 0, 3),
        ((3, 4), 1, 1),
        ((2, 7, 3), 1, 4),
        ((2, 1, 2, 3, 2, 40), 5, 2),
        ((2, 300), 1, 5),
    ):
        name = f"pick {dims} {axis} {k}"
        rng = _rng(name)
        out, n = (*dims[:axis], k, *dims[axis + 1 :]), dims[axis]
        ends = rng.choice(np.array([-(2**31), 2**31 - 1, -1, -n, -n - 1, n, n - 1]), out)
        for kind, places in (
            ("inside", rng.integers(0, n, out)),
            ("around", rng.integers(-2 * n, 2 * n, out)),
            ("ends", ends),
        ):
            xs = [_data(rng, dims, ""), np.asarray(places, np.int32)]
            rows = int(np.prod(out[: axis + 1]))
            yield Case(f"{name} {kind}", "pick_s8", xs, {"axis": axis}, Output(out), rows=rows)
            if axis + 1 < len(dims):  # one place for all that lies behind the axis
                one = [xs[0], xs[1][(..., *[slice(1)] * (len(dims) - axis - 1))]]
                yield Case(f"{name} {kind} rows", "pick_s8", one, {"axis": axis}, Output(out), rows=rows)
