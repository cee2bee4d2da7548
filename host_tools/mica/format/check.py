"""What a step of each kernel may be: shapes, parameters and constants.

The same rules stand in C, in `mica_<kernel>_check` and `mica_<kernel>_check_constants` (`usermod_c/kernels/ref/`); a
test feeds both with thousands of damaged files and wants one verdict.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from . import schema

Array = np.ndarray
INT32_LIMIT = 2**31
FAST_LIMIT = 2**29
FAST_SHIFT = (1, 22)
WINDOW_LIMIT = 2**30  # bytes of address arithmetic in C are int32: no window may begin or end beyond this


class Broken(Exception):
    """A rule that the step breaks: what was found, what was wanted."""


class Tensor(Protocol):
    """What the rules need to know of a tensor."""

    dims: tuple[int, ...]
    scale: float
    zero_point: int


def _want(true: bool, text: str) -> None:
    if not true:
        raise Broken(text)


def _image(t: Tensor, what: str) -> tuple[int, int, int]:
    """Height, width and channels of an NHWC tensor with batch 1."""
    _want(len(t.dims) == 4 and t.dims[0] == 1, f"{what} has shape {list(t.dims)}; wanted [1, H, W, C]")
    return t.dims[1], t.dims[2], t.dims[3]


def _act(p: Mapping[str, int]) -> None:
    _want(
        -128 <= p["act_min"] <= p["act_max"] <= 127,
        f"clamp [{p['act_min']}, {p['act_max']}] is not inside [-128, 127]",
    )


def _window(p: Mapping[str, int], oh: int, ow: int) -> None:
    for axis, size in (("h", oh), ("w", ow)):
        kernel, stride, dilation = p[f"kernel_{axis}"], p[f"stride_{axis}"], p[f"dilation_{axis}"]
        pad = p["pad_top" if axis == "h" else "pad_left"]
        for name, value, low in (
            ("kernel", kernel, 1),
            ("stride", stride, 1),
            ("dilation", dilation, 1),
            ("pad", pad, 0),
        ):
            _want(low <= value <= schema.MAX_DIM, f"{name}_{axis} is {value}; wanted {low} to {schema.MAX_DIM}")
        reach = (size - 1) * stride + (kernel - 1) * dilation
        _want(reach <= WINDOW_LIMIT, f"the windows reach {reach} along {axis}; the limit is {WINDOW_LIMIT}")


def _same(x: Tensor, y: Tensor) -> None:
    _want(x.dims == y.dims, f"input {list(x.dims)} and output {list(y.dims)} differ in shape")


def _same_quantisation(x: Tensor, y: Tensor) -> None:
    _want(
        x.zero_point == y.zero_point and np.float32(x.scale) == np.float32(y.scale),
        "the output has another scale or zero point than the input",
    )


def _conv2d(x: Sequence[Tensor], y: Tensor, p: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    _, _, cin = _image(x[0], "input")
    oh, ow, cout = _image(y, "output")
    _window(p, oh, ow)
    _act(p)
    groups = p["groups"]
    _want(
        groups >= 1 and cin % groups == 0 and cout % groups == 0,
        f"{groups} groups do not divide {cin} -> {cout} channels",
    )
    return {"weights": (cout, p["kernel_h"], p["kernel_w"], cin // groups)} | _per_channel(cout)


def _depthwise(x: Sequence[Tensor], y: Tensor, p: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    _, _, cin = _image(x[0], "input")
    oh, ow, cout = _image(y, "output")
    _window(p, oh, ow)
    _act(p)
    _want(cout % cin == 0, f"{cout} output channels are no multiple of {cin} input channels")
    return {"weights": (cout, p["kernel_h"], p["kernel_w"])} | _per_channel(cout)


def _fully_connected(x: Sequence[Tensor], y: Tensor, p: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    _act(p)
    a, b = x[0].dims, y.dims
    _want(
        len(a) == len(b) >= 1 and a[:-1] == b[:-1],
        f"input {list(a)} and output {list(b)} differ in their leading dimensions",
    )
    return {"weights": (b[-1], a[-1])} | _per_channel(b[-1])


def _per_channel(n: int) -> dict[str, tuple[int, ...]]:
    return {"bias": (n,), "mult": (n,), "shift": (n,)}


def _max_pool(x: Sequence[Tensor], y: Tensor, p: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    _, _, c = _image(x[0], "input")
    oh, ow, cout = _image(y, "output")
    _window(p, oh, ow)
    _act(p)
    _want(c == cout, f"{c} input and {cout} output channels")
    _same_quantisation(x[0], y)
    return {}


def _average_pool(x: Sequence[Tensor], y: Tensor, p: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    h, w, c = _image(x[0], "input")
    oh, ow, cout = _image(y, "output")
    _window(p, oh, ow)
    _act(p)
    _want(c == cout, f"{c} input and {cout} output channels")
    _want(p["dilation_h"] == 1 and p["dilation_w"] == 1, "dilation is not 1")
    _want(p["count_include_pad"] in (0, 1), f"count_include_pad is {p['count_include_pad']}; wanted 0 or 1")
    for axis, size, osize, begin, end in (("h", h, oh, "pad_top", "pad_bottom"), ("w", w, ow, "pad_left", "pad_right")):
        _want(0 <= p[end] <= schema.MAX_DIM, f"{end} is {p[end]}; wanted 0 to {schema.MAX_DIM}")
        last = (osize - 1) * p[f"stride_{axis}"] - p[begin]
        _want(p[begin] < p[f"kernel_{axis}"] and last < size, f"a window lies wholly outside the input along {axis}")
    taps = p["kernel_h"] * p["kernel_w"]
    _want(255 * taps < INT32_LIMIT, f"a window of {taps} taps can overflow")
    return {"mult": (-taps,), "shift": (-taps,)}


def _broadcast(a: tuple[int, ...], b: tuple[int, ...], y: tuple[int, ...]) -> None:
    try:
        shape = np.broadcast_shapes(a, b)
    except ValueError:
        shape = None
    _want(shape == y, f"{list(a)} and {list(b)} do not broadcast to {list(y)}")


def _requant(p: Mapping[str, int]) -> None:
    """One mult and one shift among the parameters."""
    _want(
        schema.MULT_MIN <= p["mult"] <= schema.MULT_MAX,
        f"mult is {p['mult']}; wanted {schema.MULT_MIN} to {schema.MULT_MAX}",
    )
    _want(
        schema.SHIFT_MIN <= p["shift"] <= schema.SHIFT_MAX,
        f"shift is {p['shift']}; wanted {schema.SHIFT_MIN} to {schema.SHIFT_MAX}",
    )


def _add(x: Sequence[Tensor], y: Tensor, p: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    _act(p)
    _broadcast(x[0].dims, x[1].dims, y.dims)
    bound = 128 * (abs(p["mult_a"]) + abs(p["mult_b"])) + abs(p["offset"])
    _want(bound < INT32_LIMIT, f"the sum can reach {bound}; wanted less than 2**31")
    _want(0 <= p["shift"] <= 30, f"shift is {p['shift']}; wanted 0 to 30")
    return {}


def _softmax(x: Sequence[Tensor], y: Tensor, p: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    _want(len(y.dims) >= 1, "softmax of a single element")
    _same(x[0], y)
    return {"table": (256 if y.zero_point == -128 and y.scale == 1 / 256 else 512,)}


def _lut(x: Sequence[Tensor], y: Tensor, p: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    _same(x[0], y)
    return {"table": (256,)}


def _transpose(x: Sequence[Tensor], y: Tensor, p: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    rank = len(y.dims)
    perm = [p[f"perm_{i}"] for i in range(rank)]
    _want(
        len(x[0].dims) == rank and sorted(perm) == list(range(rank)),
        f"{perm} is no permutation of {len(x[0].dims)} dimensions",
    )
    _want(tuple(x[0].dims[i] for i in perm) == y.dims, f"{list(x[0].dims)} permuted by {perm} is not {list(y.dims)}")
    _same_quantisation(x[0], y)
    return {}


def _move(x: Sequence[Tensor], y: Tensor, p: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    _want(0 <= p["begin"] <= schema.MAX_BYTES, f"begin is {p['begin']}; wanted 0 to {schema.MAX_BYTES}")
    _want(1 <= p["rank"] <= schema.MAX_RANK, f"rank is {p['rank']}; wanted 1 to {schema.MAX_RANK}")
    _same_quantisation(x[0], y)
    return {"map": (p["rank"], 2)}


def _move_constants(x: Tensor, y: Tensor, p: Mapping[str, int], places: Array) -> None:
    n = [int(v) % 2**32 for v in places[:, 0]]
    reach = [(size - 1) * int(step) for size, step in zip(n, places[:, 1], strict=True)]
    _want(min(n) >= 1 and math.prod(n) == math.prod(y.dims), f"lengths {n} do not make the output {list(y.dims)}")
    low, high = p["begin"] + sum(r for r in reach if r < 0), p["begin"] + sum(r for r in reach if r > 0)
    _want(low >= 0 and high < math.prod(x.dims), f"reads elements {low} to {high} of {math.prod(x.dims)}")


def _beside_axis(x: Tensor, y: Tensor, axis: int) -> None:
    _want(0 <= axis < len(y.dims), f"axis is {axis}; the output has {len(y.dims)} dimensions")
    _want(
        len(x.dims) == len(y.dims)
        and all(a == b for i, (a, b) in enumerate(zip(x.dims, y.dims, strict=True)) if i != axis),
        f"input {list(x.dims)} and output {list(y.dims)} differ beside axis {axis}",
    )


def _concat(x: Sequence[Tensor], y: Tensor, p: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    axis = p["axis"]
    for t in x:
        _beside_axis(t, y, axis)
        _same_quantisation(t, y)
    sizes = [t.dims[axis] for t in x]
    _want(sum(sizes) == y.dims[axis], f"inputs of {sizes} along axis {axis} do not make an output of {y.dims[axis]}")
    return {}


def _pad(x: Sequence[Tensor], y: Tensor, p: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    a, b = x[0].dims, y.dims
    _want(len(a) == len(b), f"input {list(a)} and output {list(b)} differ in rank")
    _want(0 <= p["mode"] <= 3, f"mode is {p['mode']}; wanted 0 to 3")
    _want(-128 <= p["value"] <= 127, f"value is {p['value']}; wanted an int8")
    for i, (n, wide) in enumerate(zip(a, b, strict=True)):
        before = p[f"begin_{i}"]
        behind = wide - before - n
        _want(before >= 0 and behind >= 0, f"{n} elements behind {before} do not fit into {wide}")
        most = n - (p["mode"] == 2)
        _want(p["mode"] < 2 or max(before, behind) <= most, f"{before} and {behind} elements of padding around {n}")
    _same_quantisation(x[0], y)
    return {}


def _gather(x: Sequence[Tensor], y: Tensor, p: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    _beside_axis(x[0], y, p["axis"])
    _same_quantisation(x[0], y)
    return {"indices": (y.dims[p["axis"]],)}


RESIZE_ONE, RESIZE_MOST = 2048, 2896  # sum of the weights of an entry; largest sum of their absolute values


def _resize_linear(x: Sequence[Tensor], y: Tensor, p: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    h, w, c = _image(x[0], "input")
    oh, ow, cout = _image(y, "output")
    _want(c == cout, f"{c} input and {cout} output channels")
    for name, size in (("row_taps", h), ("column_taps", w)):
        _want(1 <= p[name] <= min(255, size), f"{name} is {p[name]}; wanted 1 to {min(255, size)}")
    _same_quantisation(x[0], y)
    a, b = p["row_taps"], p["column_taps"]
    return {"rows": (oh,), "row_weights": (oh, a), "columns": (ow,), "column_weights": (ow, b)}


def _resize_constants(what: str, size: int, first: Array, weights: Array) -> None:
    w = weights.astype(np.int64)
    inside = bool((first.astype(np.int64) + w.shape[1] <= size).all())
    _want(inside, f"{what}: a tap lies outside the {size} of the input")
    _want(bool((w.sum(axis=1) == RESIZE_ONE).all()), f"{what}: the weights of an entry do not sum to {RESIZE_ONE}")
    _want(bool((np.abs(w).sum(axis=1) <= RESIZE_MOST).all()), f"{what}: |weights| sum to more than {RESIZE_MOST}")


def _embedding(x: Sequence[Tensor], y: Tensor, p: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    _want(y.dims[:-1] == x[0].dims and len(y.dims) >= 1, f"{list(x[0].dims)} indices do not make {list(y.dims)}")
    width, rows = y.dims[-1], p["rows"]
    _want(rows >= 1 and rows * width <= schema.MAX_BYTES, f"a table of {rows} rows of {width}")
    return {"table": (rows, width)}


def _mul(x: Sequence[Tensor], y: Tensor, p: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    _act(p)
    _requant(p)
    _broadcast(x[0].dims, x[1].dims, y.dims)
    return {}


def _minmax(x: Sequence[Tensor], y: Tensor, p: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    _act(p)
    _broadcast(x[0].dims, x[1].dims, y.dims)
    for side in "ab":
        bound = 128 * abs(p[f"mult_{side}"]) + abs(p[f"offset_{side}"])
        _want(bound < INT32_LIMIT, f"{side} can reach {bound}; wanted less than 2**31")
    _want(0 <= p["shift"] <= 30, f"shift is {p['shift']}; wanted 0 to 30")
    _want(p["larger"] in (0, 1), f"larger is {p['larger']}; wanted 0 or 1")
    return {}


MATMUL_MOST = 33025  # products that can be summed: 255 * 255 * 33025 < 2**31


def _matmul(x: Sequence[Tensor], y: Tensor, p: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    _act(p)
    _requant(p)
    _want(p["transpose_b"] in (0, 1), f"transpose_b is {p['transpose_b']}; wanted 0 or 1")
    a, b = x[0].dims, x[1].dims
    _want(min(len(a), len(b), len(y.dims)) >= 2, f"{list(a)} times {list(b)}: matrices have two dimensions at least")
    k, n = b[-2:] if not p["transpose_b"] else b[:-3:-1]
    _want(a[-1] == k and y.dims[-2:] == (a[-2], n), f"{list(a)} times {list(b)} is not {list(y.dims)}")
    _broadcast(a[:-2], b[:-2], y.dims[:-2])
    _want(k <= MATMUL_MOST, f"sums of {k} products can overflow; the limit is {MATMUL_MOST}")
    return {}


REDUCE_MODES = ("sum", "max", "min", "squares", "absolute", "root", "log")


def _reduce(x: Sequence[Tensor], y: Tensor, p: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    _act(p)
    _requant(p)
    dims, axis, axes = x[0].dims, p["axis"], p["axes"]
    _want(axis >= 0 and axes >= 0 and axis + axes <= len(dims), f"dimensions {axis} to {axis + axes} of {list(dims)}")
    n = math.prod(dims[axis : axis + axes])
    rest = math.prod(dims) == n * math.prod(y.dims)
    _want(rest, f"{list(dims)} without {axes} dimensions from {axis} on is not {list(y.dims)}")
    _want(0 <= p["mode"] < len(REDUCE_MODES), f"mode is {p['mode']}; wanted 0 to {len(REDUCE_MODES) - 1}")
    mode = REDUCE_MODES[p["mode"]]
    if mode in ("max", "min"):
        _same_quantisation(x[0], y)
    else:
        most = MATMUL_MOST if mode in ("squares", "root") else 2**23
        _want(n <= most, f"{n} numbers can overflow; the limit is {most}")
    bias = abs(p["bias"])
    _want(bias <= (2**24 if mode == "log" else 0), f"bias is {p['bias']}; wanted 0, for logarithms at most 2**24")
    return {}


def _argmax(x: Sequence[Tensor], y: Tensor, p: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    dims, axis = x[0].dims, p["axis"]
    _want(0 <= axis < len(dims), f"axis is {axis}; the input has {len(dims)} dimensions")
    _want(p["minimum"] in (0, 1) and p["select_last"] in (0, 1), "minimum or select_last is not 0 or 1")
    _want(math.prod(dims) == dims[axis] * math.prod(y.dims), f"{list(dims)} without axis {axis} is not {list(y.dims)}")
    return {}


def _div(x: Sequence[Tensor], y: Tensor, p: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    _act(p)
    _broadcast(x[0].dims, x[1].dims, y.dims)
    _want(0 <= p["factor"] <= 2**21, f"factor is {p['factor']}; wanted 0 to 2**21")
    _want(0 <= p["shift"] <= 22, f"shift is {p['shift']}; wanted 0 to 22")
    return {}


def _layer_norm(x: Sequence[Tensor], y: Tensor, p: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    _act(p)
    _same(x[0], y)
    axis, inner, channels = p["axis"], p["inner"], p["channels"]
    _want(0 <= axis <= len(y.dims), f"axis is {axis}; the input has {len(y.dims)} dimensions")
    n = math.prod(y.dims[axis:])
    _want(n <= schema.MAX_DIM, f"{n} elements to normalise together; the limit is {schema.MAX_DIM}")
    sizes = 1 <= inner <= schema.MAX_DIM and 1 <= channels <= schema.MAX_DIM
    divides = sizes and n % inner == 0 and channels % (n // inner) == 0
    _want(divides, f"{channels} channels of {inner} do not divide rows of {n}")
    _want(0 <= p["mode"] <= 2, f"mode is {p['mode']}; wanted 0 to 2")
    _want(0 <= p["epsilon_high"] < 2**30, f"epsilon_high is {p['epsilon_high']}; wanted 0 to 2**30 - 1")
    _want(0 <= p["shift"] <= 30, f"shift is {p['shift']}; wanted 0 to 30")
    return {"gamma": (channels,), "beta": (channels,)}


def norm_reach(n: int) -> int:
    """No element of n lies this many standard deviations from their mean, nor norms from 0; with room for rounding."""
    root = math.isqrt(n)
    return root + (n - root * root > root) + 2


def _log_softmax(x: Sequence[Tensor], y: Tensor, p: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    _act(p)
    dims = x[0].dims
    _want(len(dims) >= 1, "the softmax of a single element")
    _want(p["sum"] in (0, 1), f"sum is {p['sum']}; wanted 0 or 1")
    if p["sum"]:
        _want(math.prod(y.dims) == math.prod(dims[:-1]), f"{list(dims)} without its last axis is not {list(y.dims)}")
    else:
        _same(x[0], y)
    bound = 255 * abs(p["mult"]) + 32 * abs(p["mult_log"]) + abs(p["offset"])
    _want(bound < INT32_LIMIT, f"the sum can reach {bound}; wanted less than 2**31")
    _want(0 <= p["shift"] <= 30, f"shift is {p['shift']}; wanted 0 to 30")
    return {"table": (256,)}


GATES = (1, 4, 3, 3)  # of a simple cell, an LSTM, and both kinds of GRU
LSTM = 1
TABLE = 257  # entries: the ends of 256 intervals
STATE_MOST = 32767  # of a hidden state, inside


def _recurrent(x: Sequence[Tensor], y: Tensor, p: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    _want(len(x[0].dims) == len(y.dims) == 3, f"input {list(x[0].dims)} and output {list(y.dims)}; wanted 3 dimensions")
    time, batch, n = x[0].dims
    rows, batches, units = y.dims
    _want(batches == batch and rows in (1, time), f"input {list(x[0].dims)} does not make {list(y.dims)}")
    flags = dict.fromkeys(("reverse", "result", "coupled", "peepholes"), 1)
    for name, most in ({"cell": 3, "cell_shift": 15, "output_shift": 13} | flags).items():
        _want(0 <= p[name] <= most, f"{name} is {p[name]}; wanted 0 to {most}")
    lstm = p["cell"] == LSTM
    _want(
        lstm or not (len(x) > 2 or p["result"] or p["coupled"] or p["peepholes"]),
        "only an LSTM has a cell state, peepholes and coupled gates",
    )
    _want(not p["result"] or rows == 1, f"the cell state makes one row, not {rows}")
    _want(-128 <= p["hidden_zero"] <= 127, f"hidden_zero is {p['hidden_zero']}; wanted an int8")
    _want(bool(p["result"]) or p["hidden_zero"] == y.zero_point, "hidden_zero is not the output's zero point")
    for t in x[1:]:
        _want(t.dims == (1, batch, units), f"an initial state of shape {list(t.dims)}; wanted {[1, batch, units]}")
    _want(len(x) < 2 or x[1].zero_point == p["hidden_zero"], "the initial state's zero point is not hidden_zero")
    for name in ("in", "out"):
        mult, shift = p[f"{name}_mult"], p[f"{name}_shift"]
        sound = schema.MULT_MIN <= mult <= schema.MULT_MAX and schema.SHIFT_MIN <= shift <= schema.SHIFT_MAX
        _want(sound, f"{name}_mult is {mult}, {name}_shift {shift}")
    channels = GATES[p["cell"]] * units
    _want(channels * (n + units) <= schema.MAX_BYTES, "too many weights")
    terms = 4 * channels + p["peepholes"] * 3 * units
    tables = {"gate": p["cell"] > 0, "candidate": True, "output": lstm}
    sizes = {name: (TABLE if there else 0,) for name, there in tables.items()}
    return {"matrix": (channels, n + units), "terms": (terms,), "shifts": (channels,)} | sizes


def _recurrent_constants(x: Tensor, blobs: Mapping[str, Array]) -> None:
    matrix, channels = blobs["matrix"], len(blobs["matrix"])
    bias, factors = blobs["terms"][: 4 * channels].astype(np.int64).reshape(2, 2, channels)
    for part, b, most in ((matrix[:, : x.dims[2]], bias[0], 128), (matrix[:, x.dims[2] :], bias[1], STATE_MOST)):
        bound = np.abs(b) + most * np.abs(part.astype(np.int64)).sum(axis=1)
        for i in np.flatnonzero(bound >= INT32_LIMIT)[:1]:
            raise Broken(f"row {i} can reach {bound[i]}; wanted |bias| + {most} * sum|w| < 2**31")
    _want(bool(((factors >= 0) & (factors < 2**30)).all()), "a factor outside 0 to 2**30 - 1")
    _want(bool(((blobs["shifts"] >= 1) & (blobs["shifts"] <= 60)).all()), "a shift outside 1 to 60")
    for name in ("gate", "candidate", "output"):
        _want(bool((blobs[name] >= -STATE_MOST).all()), f"the {name} table holds -32768")


ANY_LENGTH = -(2**31)  # of a constant whose length nothing else says


def _custom(x: Sequence[Tensor], y: Tensor, p: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    return {"definition": (ANY_LENGTH,)}


def custom_definition(definition: bytes) -> tuple[str, dict[str, Any]]:
    """Name and attributes of a custom operator. Raises ValueError where the bytes do not say them."""
    found = json.loads(definition)
    sound = isinstance(found, dict) and isinstance(found.get("op"), str) and isinstance(found.get("attributes"), dict)
    if not sound:
        raise ValueError("wanted an object with op and attributes")
    return found["op"], found["attributes"]


def _custom_constants(definition: Array) -> None:
    try:
        custom_definition(definition.tobytes())
    except ValueError as e:
        raise Broken(f"the definition of a custom operator: {e}") from None


_Geometry = Callable[[Sequence[Tensor], Tensor, Mapping[str, int]], dict[str, tuple[int, ...]]]
_GEOMETRY: dict[str, _Geometry] = {
    "conv2d_s8": _conv2d,
    "conv_transpose2d_s8": _conv2d,
    "depthwise_conv2d_s8": _depthwise,
    "fully_connected_s8": _fully_connected,
    "max_pool2d_s8": _max_pool,
    "average_pool2d_s8": _average_pool,
    "add_s8": _add,
    "softmax_s8": _softmax,
    "lut_s8": _lut,
    "transpose_s8": _transpose,
    "move_s8": _move,
    "concat_s8": _concat,
    "pad_s8": _pad,
    "gather_s8": _gather,
    "recurrent_s8": _recurrent,
    "resize_linear_s8": _resize_linear,
    "embedding_s8": _embedding,
    "mul_s8": _mul,
    "minmax_s8": _minmax,
    "matmul_s8": _matmul,
    "reduce_s8": _reduce,
    "argmax_s8": _argmax,
    "div_s8": _div,
    "layer_norm_s8": _layer_norm,
    "log_softmax_s8": _log_softmax,
    "custom_s8": _custom,
}


def geometry(kernel: str, x: Sequence[Tensor], y: Tensor, p: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Check shapes and parameters; return the shape of each blob. A length of -n stands for "1 or n", ANY_LENGTH for any."""
    return _GEOMETRY[kernel](x, y, p)


def reduction(weights: Array) -> Array:
    """128 * sum|w| of each output channel, int64; the first axis of `weights` is the output channel."""
    out: Array = 128 * np.abs(weights.astype(np.int64)).reshape(weights.shape[0], -1).sum(axis=1)
    return out


def fast_is_true(blobs: Mapping[str, Array]) -> bool:
    """Whether a step with these constants may carry the FAST flag."""
    if "weights" not in blobs:
        return False
    w, bias, shift = blobs["weights"], blobs["bias"].astype(np.int64), blobs["shift"]
    small = bool((np.abs(bias) + reduction(w) < FAST_LIMIT).all())
    return small and bool((w >= -127).all() and (shift >= FAST_SHIFT[0]).all() and (shift <= FAST_SHIFT[1]).all())


def constants(
    kernel: str, x: Sequence[Tensor], y: Tensor, p: Mapping[str, int], blobs: Mapping[str, Array], flags: int
) -> None:
    """Check the values of the constants, and the claim of the FAST flag."""
    if "mult" in blobs:
        _want(blobs["mult"].shape == blobs["shift"].shape, "mult and shift differ in length")
        for i in np.flatnonzero(blobs["mult"] < schema.MULT_MIN)[:1]:
            raise Broken(f"mult[{i}] is {blobs['mult'][i]}; wanted {schema.MULT_MIN} to {schema.MULT_MAX}")
        shift = blobs["shift"]
        for i in np.flatnonzero((shift < schema.SHIFT_MIN) | (shift > schema.SHIFT_MAX))[:1]:
            raise Broken(f"shift[{i}] is {shift[i]}; wanted {schema.SHIFT_MIN} to {schema.SHIFT_MAX}")
    if "weights" in blobs:
        bound = np.abs(blobs["bias"].astype(np.int64)) + reduction(blobs["weights"])
        for i in np.flatnonzero(bound >= INT32_LIMIT)[:1]:
            raise Broken(f"channel {i} can reach {bound[i]}; wanted |bias| + 128 * sum|w| < 2**31")
    if kernel == "layer_norm_s8":
        gamma, beta = (np.abs(blobs[b].astype(np.int64)) for b in ("gamma", "beta"))
        most = int((gamma * norm_reach(math.prod(y.dims[p["axis"] :])) + beta).max()) + ((1 << p["shift"]) >> 1)
        _want(most < INT32_LIMIT - 1, f"a result can reach {most}; wanted less than 2**31 - 1")
    if kernel in ("softmax_s8", "log_softmax_s8"):
        table, numerators, axis = blobs["table"][:256], blobs["table"][256:], x[0].dims[-1]
        _want(int(table[0]) >= 1 and int(table.max()) <= 2**23, "softmax table outside 1 to 2**23")
        _want(int(numerators.max(initial=0)) <= 2**31, "a numerator of softmax passes 2**31")
        _want(axis * int(table.max()) <= 2**31, f"softmax over {axis} elements can overflow; use a smaller table")
    if kernel == "move_s8":
        _move_constants(x[0], y, p, blobs["map"].astype(np.int64))
    if kernel == "gather_s8":
        size, indices = x[0].dims[p["axis"]], blobs["indices"]
        _want(bool(((indices >= 0) & (indices < size)).all()), f"indices reach outside the {size} elements of the axis")
    if kernel == "resize_linear_s8":
        _resize_constants("rows", x[0].dims[1], blobs["rows"], blobs["row_weights"])
        _resize_constants("columns", x[0].dims[2], blobs["columns"], blobs["column_weights"])
    if kernel == "recurrent_s8":
        _recurrent_constants(x[0], blobs)
    if kernel == "custom_s8":
        _custom_constants(blobs["definition"])
    if flags & schema.STEP_FLAGS["FAST"]:
        _want(fast_is_true(blobs), "the step claims FAST, and its constants do not allow it")
