"""Elements that move: cut, joined, repeated, laid out again.

RESHAPE, SQUEEZE, EXPAND_DIMS (x)        =>   Reshape(x, the output's shape)
SLICE, STRIDED_SLICE, REVERSE_V2 (x)     =>   Slice(x), Reshape
SPLIT, SPLIT_V, UNPACK (x)               =>   a Slice for each output, Reshape
PACK(a, b)                               =>   Concat(Reshape(a), Reshape(b))
SPACE_TO_BATCH_ND, BATCH_TO_SPACE_ND     =>   Pad or Slice, and Transpose between two Reshapes

MIRROR_PAD SYMMETRIC (x)                 =>   Gather for each dimension
DYNAMIC_UPDATE_SLICE(x, part, start)     =>   Concat(x before, part, x behind)
"""

import math
from collections.abc import Sequence

import numpy as np

from mica.importer.tflite.net import TO_NCHW, TO_NHWC, Net
from mica.importer.tflite.operators.form import Form, Op
from mica.importer.tflite.operators.reduce import axes_of

FAR = 2**31 - 1


def _axis(op: Op, rank: int) -> int:
    axis = op.integer("axis")
    if not -rank <= axis < rank:
        raise ValueError(f"dimension {axis} of a tensor of {rank}")
    return axis % rank


def _shaped(net: Net, op: Op, y: str) -> None:
    """The output has the elements y and the shape that the file says."""
    net.done(op.y, net.reshape(y, net.shape(op.y)), like=op.i(0))


def _reshape(net: Net, op: Op) -> None:
    if math.prod(net.shape(op.i(0))) != math.prod(net.shape(op.y)):
        raise ValueError(f"from {list(net.shape(op.i(0)))} to {list(net.shape(op.y))}")
    _shaped(net, op, net.x(op.i(0)))


def _transpose(net: Net, op: Op) -> None:
    perm = net.data(op.i(1), "an order of dimensions").reshape(-1).tolist()
    rank = len(net.shape(op.i(0)))
    if len(perm) != rank or sorted(p % max(rank, 1) for p in perm) != list(range(rank)):
        raise ValueError(f"the order {perm[:8]} of {rank} dimensions")
    net.done(op.y, net.transpose(net.x(op.i(0)), [p % rank for p in perm]), like=op.i(0))


def _concatenation(net: Net, op: Op) -> None:
    y = net.node("Concat", [net.x(i) for i in op.inputs], axis=_axis(op, len(net.shape(op.y))))
    net.done(op.y, net.activation(y, op["activation"]), like=op.i(0))


def _pack(net: Net, op: Op) -> None:
    shape = net.shape(op.y)
    axis = _axis(op, len(shape))
    part = [1 if k == axis else n for k, n in enumerate(shape)]
    if shape[axis] != len(op.inputs):
        raise ValueError(f"{len(op.inputs)} parts that make {list(shape)}")
    net.done(op.y, net.node("Concat", [net.reshape(net.x(i), part) for i in op.inputs], axis=axis), like=op.i(0))


def cut(net: Net, x: str, axis: int, start: int, end: int) -> str:
    """x[start:end] along a dimension."""
    return net.node("Slice", [x, *(net.numbers([v]) for v in (start, end, axis))])


def _parts(net: Net, op: Op, x: int, axis: int, sizes: Sequence[int]) -> None:
    """Each output is the next part of x along a dimension."""
    if min(sizes) < 1 or sum(sizes) != net.shape(x)[axis]:
        raise ValueError(f"parts of {list(sizes)[:8]} of {net.shape(x)[axis]}")
    at = 0
    for y, n in zip(op.outputs, sizes, strict=True):
        part = cut(net, net.x(x), axis, at, at + n)
        net.done(y, net.reshape(part, net.shape(y)), like=x)
        at += n


def _split(net: Net, op: Op) -> None:
    x, by = (op.i(1), op.i(0)) if op.kind == "SPLIT" else (op.i(0), op.i(2))
    axes = axes_of(net, by, len(net.shape(x)))
    if len(axes) != 1 or any(len(net.shape(y)) != len(net.shape(x)) for y in op.outputs):
        raise ValueError(f"{len(axes)} dimensions to split along")
    _parts(net, op, x, axes[0], [net.shape(y)[axes[0]] for y in op.outputs])


def _unpack(net: Net, op: Op) -> None:
    _parts(net, op, op.i(0), _axis(op, len(net.shape(op.i(0)))), [1] * len(op.outputs))


def _slice(net: Net, op: Op) -> None:
    shape = net.shape(op.i(0))
    begin, size = (net.data(op.i(k), "a place to cut").reshape(-1) for k in (1, 2))
    if len(begin) != len(shape) or len(size) != len(shape):
        raise ValueError(f"{len(begin)} places and {len(size)} sizes for {len(shape)} dimensions")
    end = np.where(size == -1, np.array(shape), begin + size)
    y = net.node("Slice", [net.x(op.i(0)), *(net.numbers(v) for v in (begin, end, np.arange(len(shape))))])
    net.done(op.y, y, like=op.i(0))


def _strided_slice(net: Net, op: Op) -> None:
    shape = net.shape(op.i(0))
    begin, end, stride = (net.data(op.i(k), "a place to cut").reshape(-1).tolist() for k in (1, 2, 3))
    if not len(begin) == len(end) == len(stride) or len(begin) > 16 or 0 in stride:
        raise ValueError(f"{len(begin)} begins, {len(end)} ends and {len(stride)} strides")
    masks = {name: op.integer(f"{name}_mask") for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    new = bin(masks["new_axis"] & ((1 << len(begin)) - 1) & ~masks["ellipsis"]).count("1")
    axis, rows = 0, []
    for j, (b, e, s) in enumerate(zip(begin, end, stride, strict=True)):
        is_in = {name: bool(mask >> j & 1) for name, mask in masks.items()}
        if is_in["ellipsis"]:
            axis += max(0, len(shape) - (len(begin) - 1 - new))
        elif not is_in["new_axis"]:
            if axis >= len(shape):
                raise ValueError(f"{len(begin)} places for {len(shape)} dimensions")
            if op["offset"]:
                e += b
            if is_in["shrink_axis"]:
                s, e = 1, b + 1 if b != -1 else FAR
            elif is_in["end"]:
                e = FAR if s > 0 else -FAR
            if is_in["begin"]:
                b = 0 if s > 0 else FAR
            rows.append((b, e, axis, s))
            axis += 1
    y = net.x(op.i(0))
    if rows:
        y = net.node("Slice", [y, *(net.numbers([row[k] for row in rows]) for k in range(4))])
    _shaped(net, op, y)


def _reverse(net: Net, op: Op) -> None:
    axes = axes_of(net, op.i(1), len(net.shape(op.i(0))))
    each = [[value] * len(axes) for value in (FAR, -FAR)]
    y = net.x(op.i(0))
    if axes:
        y = net.node("Slice", [y, *(net.numbers(v) for v in (*each, axes, [-1] * len(axes)))])
    net.done(op.y, y, like=op.i(0))


def _reverse_sequence(net: Net, op: Op) -> None:
    lengths = net.const(net.data(op.i(1), "lengths"))
    axes = {"time_axis": op.integer("seq_dim"), "batch_axis": op.integer("batch_dim")}
    net.done(op.y, net.node("ReverseSequence", [net.x(op.i(0)), lengths], **axes), like=op.i(0))


def _gather(net: Net, op: Op) -> None:
    if op["batch_dims"] != 0:
        raise ValueError(f"{op.integer('batch_dims')} batch dimensions")
    axis = _axis(op, len(net.shape(op.i(0))))
    net.done(op.y, net.node("Gather", [net.x(op.i(0)), net.x(op.i(1))], axis=axis), like=op.i(0))


def _gather_nd(net: Net, op: Op) -> None:
    """Places that are row numbers may depend on data, as those of GATHER."""
    places, shape = net.known(op.i(1)), net.shape(op.i(1))
    if places is None and shape[-1:] == (1,):
        y = net.node("Gather", [net.x(op.i(0)), net.reshape(net.x(op.i(1)), shape[:-1])], axis=0)
    else:
        y = net.node("GatherND", [net.x(op.i(0)), net.numbers(net.data(op.i(1), "places"))])
    net.done(op.y, y, like=op.i(0))


def _repeat(net: Net, op: Op) -> None:
    shape, expected = net.shape(op.i(0)), net.shape(op.y)
    counts = net.data(op.i(1), "a shape").reshape(-1).tolist()
    if op.kind == "BROADCAST_TO":
        if counts != list(expected):
            raise ValueError(f"a shape of {counts[:8]} for an output of {list(expected)}")
        y = net.node("Expand", [net.x(op.i(0)), net.numbers(counts)])
    else:
        if [n * k for n, k in zip(shape, counts, strict=False)] != list(expected) or len(counts) != len(shape):
            raise ValueError(f"{counts[:8]} times {list(shape)} for an output of {list(expected)}")
        y = net.node("Tile", [net.x(op.i(0)), net.numbers(counts)])
    net.done(op.y, y, like=op.i(0))


def _blocks(net: Net, op: Op) -> None:
    kind = "SpaceToDepth" if op.kind == "SPACE_TO_DEPTH" else "DepthToSpace"
    if op.integer("block_size") < 1 or len(net.shape(op.i(0))) != 4:
        raise ValueError(f"blocks of {op.integer('block_size')} in {list(net.shape(op.i(0)))}")
    y = net.node(kind, [net.transpose(net.x(op.i(0)), TO_NCHW)], blocksize=op.integer("block_size"))
    net.done(op.y, net.transpose(y, TO_NHWC), like=op.i(0))


def _mirror_pad(net: Net, op: Op) -> None:
    """Mode 0 (REFLECT) begins beside the border, mode 1 (SYMMETRIC) with the border itself."""
    pads, shape, mode = net.data(op.i(1), "pads"), net.shape(op.i(0)), op.integer("mode")
    if mode not in (0, 1):
        raise ValueError(f"mode {mode}")
    if pads.shape != (len(shape), 2) or np.any(pads < 0) or np.any(pads >= np.array(shape)[:, None] + mode):
        raise ValueError(f"pads {pads.tolist()[:8]} of {list(shape)}")
    y = net.x(op.i(0))
    if mode == 0:
        y = net.node("Pad", [y, net.numbers(pads.T.reshape(-1))], mode="reflect")
    for axis, around in enumerate(pads.tolist() if mode == 1 else []):
        if any(around):
            places = np.pad(np.arange(shape[axis]), around, "symmetric")
            y = net.node("Gather", [y, net.numbers(places)], axis=axis)
    net.done(op.y, y, like=op.i(0))


def _update(net: Net, op: Op) -> None:
    shape, part = (net.shape(op.i(k)) for k in (0, 1))
    start = net.data(op.i(2), "a place").reshape(-1)
    if not len(part) == len(start) == len(shape) or any(n > m or n < 1 for n, m in zip(part, shape, strict=True)):
        raise ValueError(f"a part of {list(part)} at {start[:8].tolist()} in {list(shape)}")
    start = np.clip(start, 0, np.subtract(shape, part))  # as LiteRT does
    y = _put(net, net.x(op.i(0)), net.x(op.i(1)), list(zip(start.tolist(), part, shape, strict=True)))
    net.done(op.y, y, like=op.i(0))


def _put(net: Net, x: str, part: str, places: list[tuple[int, int, int]], axis: int = 0) -> str:
    """x with the part in it. places: start, size and whole size in each dimension; the first `axis` are equal."""
    while axis < len(places) and places[axis][1] == places[axis][2]:
        axis += 1
    if axis == len(places):
        return part
    start, size, whole = places[axis]
    inner = part
    if any(n != m for _, n, m in places[axis + 1 :]):
        inner = _put(net, cut(net, x, axis, start, start + size), part, places, axis + 1)
    around = [cut(net, x, axis, a, b) if a < b else "" for a, b in ((0, start), (start + size, whole))]
    return net.node("Concat", [p for p in (around[0], inner, around[1]) if p], axis=axis)


def _batches(net: Net, op: Op) -> None:
    """[B, H, W, ..] as [B * blocks, H / block, W / block, ..], and back; pads or crops on the side of the space."""
    to_batch = op.kind == "SPACE_TO_BATCH_ND"
    block = net.data(op.i(1), "a block").reshape(-1).tolist()
    around = net.data(op.i(2), "pads")
    shape, expected = net.shape(op.i(0)), net.shape(op.y)
    m = len(block)
    if not 1 <= m < len(shape) or len(expected) != len(shape) or around.shape != (m, 2):
        raise ValueError(f"blocks of {block[:8]} in {list(shape)}")
    if min(block) < 1 or np.any(around < 0):
        raise ValueError(f"blocks of {block}, pads of {around.tolist()}")
    y, n = net.x(op.i(0)), math.prod(block)
    rest = list(shape[1 + m :])
    if to_batch:
        sizes = [s + int(a) + int(b) for s, (a, b) in zip(shape[1 : 1 + m], around, strict=True)]
        if list(expected) != [shape[0] * n, *(s // k for s, k in zip(sizes, block, strict=True)), *rest] or any(
            s % k for s, k in zip(sizes, block, strict=True)
        ):
            raise ValueError(f"blocks of {block} in {sizes}")
        full = np.zeros((len(shape), 2), np.int64)
        full[1 : 1 + m] = around
        if np.any(around):
            y = net.node("Pad", [y, net.numbers(full.T.reshape(-1)), net.real_number(0)])
        split = [v for s, k in zip(sizes, block, strict=True) for v in (s // k, k)]
        y = net.reshape(y, [shape[0], *split, *rest])
        inner = [2 + 2 * k for k in range(m)]
        order = [*inner, 0, *(k - 1 for k in inner), *range(1 + 2 * m, 1 + 2 * m + len(rest))]
        y = net.reshape(net.transpose(y, order), expected)
    else:
        if shape[0] % n:
            raise ValueError(f"blocks of {block} of {shape[0]} batches")
        sizes = list(shape[1 : 1 + m])
        y = net.reshape(y, [*block, shape[0] // n, *sizes, *rest])
        pairs = [v for k in range(m) for v in (m + 1 + k, k)]
        y = net.transpose(y, [m, *pairs, *range(1 + 2 * m, 1 + 2 * m + len(rest))])
        whole = [s * k for s, k in zip(sizes, block, strict=True)]
        y = net.reshape(y, [shape[0] // n, *whole, *rest])
        for k in range(m):
            start, end = int(around[k, 0]), whole[k] - int(around[k, 1])
            y = y if (start, end) == (0, whole[k]) else cut(net, y, 1 + k, start, end)
    net.done(op.y, y, like=op.i(0))


FORMS = {
    "BATCH_TO_SPACE_ND": Form(_batches, "", (3, 3)),
    "BROADCAST_TO": Form(_repeat, "", (2, 2)),
    "CONCATENATION": Form(_concatenation, "ConcatenationOptions", (1, 1024)),
    "DEPTH_TO_SPACE": Form(_blocks, "DepthToSpaceOptions"),
    "DYNAMIC_UPDATE_SLICE": Form(_update, "", (3, 3)),
    "EXPAND_DIMS": Form(_reshape, "", (1, 2)),
    "GATHER": Form(_gather, "GatherOptions", (2, 2)),
    "GATHER_ND": Form(_gather_nd, "", (2, 2)),
    "MIRROR_PAD": Form(_mirror_pad, "MirrorPadOptions", (2, 2)),
    "PACK": Form(_pack, "PackOptions", (1, 1024)),
    "RESHAPE": Form(_reshape, "", (1, 2)),
    "REVERSE_SEQUENCE": Form(_reverse_sequence, "ReverseSequenceOptions", (2, 2)),
    "REVERSE_V2": Form(_reverse, "", (2, 2)),
    "SLICE": Form(_slice, "", (3, 3)),
    "SPACE_TO_BATCH_ND": Form(_batches, "", (3, 3)),
    "SPACE_TO_DEPTH": Form(_blocks, "SpaceToDepthOptions"),
    "SPLIT": Form(_split, "SplitOptions", (2, 2), (1, 1024)),
    "SPLIT_V": Form(_split, "SplitVOptions", (3, 3), (1, 1024)),
    "SQUEEZE": Form(_reshape),
    "STRIDED_SLICE": Form(_strided_slice, "StridedSliceOptions", (4, 4)),
    "TILE": Form(_repeat, "", (2, 2)),
    "TRANSPOSE": Form(_transpose, "", (2, 2)),
    "UNPACK": Form(_unpack, "UnpackOptions", (1, 1), (1, 1024)),
}
