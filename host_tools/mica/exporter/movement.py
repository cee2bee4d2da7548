"""Elements that change their place, as integers, which stay the same."""

import math

import numpy as np

from mica.exporter.step import Form, Step

_MODES = ("constant", "edge", "reflect", "wrap")


def transpose(s: Step) -> None:
    perm = [s.p[f"perm_{i}"] for i in range(len(s.y.dims))]
    s.put_integers(s.node("Transpose", s.integers(), perm=perm) if perm else s.node("Identity", s.integers()))


def move(s: Step) -> None:
    """A gather from the flat tensor, whose indices count from 0 where the copy is of the whole."""
    at = np.array(s.p["begin"], np.int64)
    for n, step in s.blobs["map"].astype(np.int64):
        at = np.add.outer(at, np.arange(n) * step)
    flat = s.node("Reshape", s.integers(), s.shape((-1,)))
    if not np.array_equal(at.reshape(-1), np.arange(math.prod(s.x[0].dims))):
        flat = s.node("Gather", flat, s.const(at.reshape(-1), "indices"))
    s.put_integers(s.node("Reshape", flat, s.shape(s.y.dims)))


def concat(s: Step) -> None:
    nchw = len(s.y.dims) == 4 and s.values.as_nchw(*s.record.inputs)
    axis = (0, 2, 3, 1)[s.p["axis"]] if nchw else s.p["axis"]
    s.put_integers(s.node("Concat", *(s.integers(i, nchw) for i in range(len(s.x))), axis=axis), nchw)


def pad(s: Step) -> None:
    if not s.y.dims:
        s.put_integers(s.node("Identity", s.integers()))
        return
    before = [s.p.get(f"begin_{i}", 0) for i in range(len(s.y.dims))]
    after = [wide - b - n for wide, b, n in zip(s.y.dims, before, s.x[0].dims, strict=True)]
    pads = s.const(np.array([*before, *after], np.int64), "pads")
    mode = _MODES[s.p["mode"]]
    value = [s.const(np.int8(s.p["value"]))] if mode == "constant" else []
    s.put_integers(s.node("Pad", s.integers(), pads, *value, mode=mode))


def gather(s: Step) -> None:
    indices = s.const(s.blobs["indices"].astype(np.int64), "indices")
    s.put_integers(s.node("Gather", s.integers(), indices, axis=s.p["axis"]))


def embedding(s: Step) -> None:
    rows = s.p["rows"]
    inside = s.node("Clip", s.integers(), s.const(np.int32(-rows)), s.const(np.int32(rows - 1)))
    s.put_integers(s.node("Gather", s.const(s.blobs["table"], "table"), inside))


def scatter(s: Step) -> None:
    """Flat elements, scattered at the places of the new rows."""
    axis, dims, rows = s.p["axis"], s.x[0].dims, s.x[1].dims
    n, r = dims[axis], rows[axis]
    index = s.node("Cast", s.integers(2), to=7)
    if s.p["circular"]:
        index = s.node("Mod", index, s.const(np.int64(n)))
    else:
        index = s.node("Clip", index, s.const(np.int64(0)), s.const(np.int64(n - r)))
    count = math.prod(s.x[2].dims)
    beside = (count if axis else 1, *[1] * (len(dims) - 1))
    index = s.node("Reshape", index, s.shape(beside))
    along = s.const(np.arange(r).reshape([-1 if i == axis else 1 for i in range(len(dims))]))
    index = s.node("Mod", s.node("Add", index, along), s.const(np.int64(n)))
    index = s.node("Expand", index, s.shape(rows))
    s.put_integers(s.node("ScatterElements", s.integers(0), index, s.integers(1), axis=axis))


def pick(s: Step) -> None:
    n = s.x[0].dims[s.p["axis"]]
    places = s.node("Clip", s.node("Cast", s.integers(1), to=7), s.const(np.int64(-n)), s.const(np.int64(n - 1)))
    if s.x[1].dims != s.y.dims:  # one for all that lies behind the axis
        places = s.node("Expand", places, s.shape(s.y.dims))
    s.put_integers(s.node("GatherElements", s.integers(0), places, axis=s.p["axis"]))


FORMS: dict[str, Form] = {
    "transpose_s8": transpose,
    "move_s8": move,
    "concat_s8": concat,
    "pad_s8": pad,
    "gather_s8": gather,
    "embedding_s8": embedding,
    "scatter_s8": scatter,
    "pick_s8": pick,
}
