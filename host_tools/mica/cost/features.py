"""What the cost of a step depends on: a kind, and some counts that follow from its shapes.

The cost of a step is a sum of counts, each times what one of them takes on a core (`table.py`). The kinds of a kernel are
those for which kernels have code of their own: a pointwise convolution copies no patches, a depthwise one with 3x3 taps has
a loop of its own, a broadcast pays for each run of equal steps. Only shapes and the file's own flags are looked at, so that a
prediction needs no kernel and no board.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mica.format import schema
from mica.format.codec import ModelFile, StepRecord, TensorRecord

Counts = dict[str, float]
Dims = Sequence[int]


def of_step(model: ModelFile, step: StepRecord, scratch: int) -> tuple[str, Counts]:
    """The kind of a step, such as "conv2d_s8 pointwise", and its counts; `scratch` in bytes is what kernels get beside the tensors.

    Every kind counts "call" once. Names of counts are of the fit only; what they hold is beside each below.
    """
    xs = [model.tensors[i] for i in step.inputs]
    y = model.tensors[step.outputs[0]]
    name = step.kernel.removesuffix("_s8")
    kind, counts = _COUNTS[name](step, xs, y, scratch) if name in _COUNTS else _each(xs, y)
    return f"{step.kernel} {kind}".strip(), {"call": 1.0, **counts}


def _size(t: TensorRecord) -> int:
    return math.prod(t.dims)


def _each(xs: Sequence[TensorRecord], y: TensorRecord) -> tuple[str, Counts]:
    """Kernels that do one thing to each element."""
    return "", {"in": float(sum(_size(x) for x in xs)), "out": float(_size(y))}


def _fast(step: StepRecord) -> bool:
    return bool(step.flags & schema.STEP_FLAGS["FAST"])


@dataclass(frozen=True)
class _Windows:
    """Of windows that move over a picture: taps inside, rows of taps inside, windows, windows that lie inside whole."""

    taps: int
    rows: int
    count: int
    whole: int


def _inside(out: int, size: int, kernel: int, stride: int, dilation: int, pad: int) -> tuple[int, int]:
    """Along one dimension: taps of all windows that lie inside, and windows that lie inside whole."""
    taps = whole = 0
    for i in range(out):
        at = i * stride - pad
        n = sum(0 <= at + k * dilation < size for k in range(kernel))
        taps += n
        whole += n == kernel
    return taps, whole


def _windows(step: StepRecord, x: TensorRecord, y: TensorRecord) -> _Windows:
    p, (_, h, w, _), (_, oh, ow, _) = step.params, x.dims, y.dims
    rows, whole_rows = _inside(oh, h, p["kernel_h"], p["stride_h"], p["dilation_h"], p["pad_top"])
    columns, whole_columns = _inside(ow, w, p["kernel_w"], p["stride_w"], p["dilation_w"], p["pad_left"])
    return _Windows(rows * columns, rows * ow, oh * ow, whole_rows * whole_columns)


def _conv2d(step: StepRecord, xs: Sequence[TensorRecord], y: TensorRecord, scratch: int) -> tuple[str, Counts]:
    p, x, cout = step.params, xs[0], y.dims[3]
    cin = x.dims[3] // p["groups"]
    k = p["kernel_h"] * p["kernel_w"] * cin
    words = -(-k // 4)
    w = _windows(step, x, y)
    windows, whole = w.count, w.whole
    if not _fast(step) or p["groups"] != 1 or scratch < 12 * words:
        return "plain", {
            "window": float(windows),
            "out": float(windows * cout),
            "row": float(w.rows * cout),
            "tap": float(w.taps * cout),
            "mac": float(w.taps * cin * cout),
            "edge": float((windows - whole) * cout),
            "edge_mac": float((windows - whole) * cout * k),
        }
    in_words = cin % 4 == 0 and (p["dilation_w"] == 1 or p["kernel_w"] == 1)
    patch = 0 if in_words and whole == windows else 4 * words * (1 if in_words else 8)
    most = max(1, (scratch - patch) // (32 * words))  # groups of four pixels that are done at once
    single = windows % 4 if windows % 4 < 3 else 0
    groups = -(-(windows - single) // 4)
    tiles = -(-groups // most)
    counts = {
        "out": 4.0 * groups * cout,
        "mac": 16.0 * groups * words * cout,
        "patch": 4.0 * groups * words,
        "window": float(windows),
        "tile": float(tiles),
        "row": float(tiles * cout),  # rows of weights that are unpacked
        "weight": float(tiles * cout * words),
        "single": float(single * cout),
        "single_mac": 4.0 * single * words * cout,
    }
    if p["kernel_h"] * p["kernel_w"] == 1:
        return "pointwise" if in_words else "pointwise odd", counts
    counts["window_row"] = float(windows * p["kernel_h"])
    counts["edge"] = float(windows - whole)
    counts["edge_row"] = float((windows - whole) * p["kernel_h"])
    counts["edge_patch"] = float((windows - whole) * k)
    return "window" if in_words else "window odd", counts


def _depthwise(step: StepRecord, xs: Sequence[TensorRecord], y: TensorRecord, scratch: int) -> tuple[str, Counts]:
    p, x = step.params, xs[0]
    (_, oh, ow, c), stride = y.dims, p["stride_h"]
    w = _windows(step, x, y)
    windows, whole = w.count, w.whole
    columns = (ow - 1) * stride + 3
    square = p["kernel_h"] == p["kernel_w"] == 3 and p["dilation_h"] == p["dilation_w"] == 1
    same = x.dims[3] == c and p["stride_w"] == stride and stride <= 2
    if _fast(step) and square and same and 12 * columns + 24 * ((oh + 1) // 2) <= scratch:
        strips = (oh + 1) // 2
        return f"3x3 s{stride}", {
            "channel": float(c),
            "strip": float(c * strips),
            "column": float(c * strips * columns),
            "out": float(windows * c),
            "spare": float(c * (2 * strips * ow - windows)),  # of a last strip of one row
            "strips": float(strips),
        }
    return "any", {
        "channel": float(c),
        "window": float(windows),
        "out": float(windows * c),
        "row": float(w.rows * c),
        "mac": float(w.taps * c),
        "edge": float((windows - whole) * c),
        "edge_mac": float((windows - whole) * c * p["kernel_h"] * p["kernel_w"]),
    }


def _fully_connected(step: StepRecord, xs: Sequence[TensorRecord], y: TensorRecord, scratch: int) -> tuple[str, Counts]:
    k = xs[0].dims[-1]
    rows = _size(xs[0]) // k
    words = -(-k // 4)
    fast = _fast(step) and 8 * words <= scratch
    return "" if fast else "plain", {
        "row": float(rows),
        "in": 4.0 * rows * words,
        "out": float(_size(y)),
        "mac": 4.0 * words * _size(y),
    }


def _pool(step: StepRecord, xs: Sequence[TensorRecord], y: TensorRecord, scratch: int) -> tuple[str, Counts]:
    w, c = _windows(step, xs[0], y), y.dims[3]
    return "", {
        "window": float(w.count),
        "edge": float(w.count - w.whole),
        "row": float(w.rows),
        "tap": float(w.taps),
        "out": float(w.count * c),
        "in": float(w.taps * c),
    }


def _conv_transpose(step: StepRecord, xs: Sequence[TensorRecord], y: TensorRecord, scratch: int) -> tuple[str, Counts]:
    p = step.params
    taps = p["kernel_h"] * p["kernel_w"]
    return "", {
        "out": float(_size(y)),
        "out_tap": float(_size(y) * taps),
        "mac": float(step.macs),
        "window": float(_size(y) // max(1, y.dims[3])),
    }


def _pair(step: StepRecord, xs: Sequence[TensorRecord], y: TensorRecord, scratch: int) -> tuple[str, Counts]:
    """Two operands, equal in shape or broadcast."""
    n = _size(y)
    if all(_size(x) == n for x in xs):
        return "", {"out": float(n)}
    run, repeated = _run(xs, y)
    return "repeated" if repeated else "broadcast", {"out": float(n), "run": float(n / run)}


def _run(xs: Sequence[TensorRecord], y: TensorRecord) -> tuple[int, bool]:
    """Elements of y that are made with one step through each operand, and whether one of them stands still meanwhile."""
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


def _rows(step: StepRecord, xs: Sequence[TensorRecord], y: TensorRecord, scratch: int) -> tuple[str, Counts]:
    """One result after another for the rows along the last dimension."""
    n, size = xs[0].dims[-1] if xs[0].dims else 1, _size(xs[0])
    return "", {"row": size / n, "in": float(size)}


def _layer_norm(step: StepRecord, xs: Sequence[TensorRecord], y: TensorRecord, scratch: int) -> tuple[str, Counts]:
    n = math.prod(xs[0].dims[step.params["axis"] :])
    return f"mode {step.params['mode']}", {"row": _size(xs[0]) / n, "in": float(_size(xs[0]))}


def _move(step: StepRecord, xs: Sequence[TensorRecord], y: TensorRecord, scratch: int) -> tuple[str, Counts]:
    shape = step.blobs["map"].reshape(-1, 2)
    last, stride = int(shape[-1, 0]), int(shape[-1, 1])
    return _copies(last) if stride == 1 else "apart", {"out": float(_size(y)), "run": _size(y) / last}


def _transpose(step: StepRecord, xs: Sequence[TensorRecord], y: TensorRecord, scratch: int) -> tuple[str, Counts]:
    rank = len(y.dims)
    kept = step.params[f"perm_{rank - 1}"] == rank - 1
    return "rows" if kept else "", {"out": float(_size(y)), "run": _size(y) / y.dims[-1]}


def _concat(step: StepRecord, xs: Sequence[TensorRecord], y: TensorRecord, scratch: int) -> tuple[str, Counts]:
    axis = step.params["axis"]
    outer = math.prod(y.dims[:axis])
    kind = _copies(*(math.prod(x.dims[axis:]) for x in xs))
    return kind, {"run": float(outer * len(xs)), "out": float(_size(y))}


def _pad(step: StepRecord, xs: Sequence[TensorRecord], y: TensorRecord, scratch: int) -> tuple[str, Counts]:
    longer = [i for i, (a, b) in enumerate(zip(xs[0].dims, y.dims, strict=True)) if a != b]
    last = max(longer, default=0)  # what lies behind it is copied as one
    kind = _copies(math.prod(y.dims[last + 1 :]))
    return f"mode {step.params['mode']} {kind}", {
        "out": float(_size(y)),
        "row": float(math.prod(y.dims[:last])),
        "run": float(math.prod(y.dims[: last + 1])),
    }


def _copies(*lengths: int) -> str:
    """The C library's memcpy is quicker where lengths, and with them addresses, are multiples of words."""
    return "words" if all(n % 4 == 0 for n in lengths) else "bytes"


def _gather(step: StepRecord, xs: Sequence[TensorRecord], y: TensorRecord, scratch: int) -> tuple[str, Counts]:
    run = math.prod(y.dims[step.params["axis"] + 1 :])
    return _copies(run), {"out": float(_size(y)), "run": _size(y) / run}


def _resize(step: StepRecord, xs: Sequence[TensorRecord], y: TensorRecord, scratch: int) -> tuple[str, Counts]:
    p, n = step.params, float(_size(y))
    return "", {
        "out": n,
        "row": n * p["row_taps"],
        "tap": n * p["row_taps"] * p["column_taps"],
        "window": n / y.dims[-1],
    }


def _matmul(step: StepRecord, xs: Sequence[TensorRecord], y: TensorRecord, scratch: int) -> tuple[str, Counts]:
    k = xs[0].dims[-1]
    kind = "transposed" if step.params["transpose_b"] else ""
    return kind, {"row": _size(y) / y.dims[-1], "out": float(_size(y)), "mac": float(_size(y) * k)}


def _reduce(step: StepRecord, xs: Sequence[TensorRecord], y: TensorRecord, scratch: int) -> tuple[str, Counts]:
    return f"mode {step.params['mode']}", {"out": float(_size(y)), "in": float(_size(xs[0]))}


def _recurrent(step: StepRecord, xs: Sequence[TensorRecord], y: TensorRecord, scratch: int) -> tuple[str, Counts]:
    time, batch, size = xs[0].dims
    gates_hidden, width = step.blobs["matrix"].shape
    hidden = width - size
    turns = float(time * batch)
    return f"cell {step.params['cell']}", {
        "turn": turns,
        "gate": turns * gates_hidden,
        "hidden": turns * hidden,
        "mac": turns * gates_hidden * width,
    }


_COUNTS = {
    "conv2d": _conv2d,
    "depthwise_conv2d": _depthwise,
    "fully_connected": _fully_connected,
    "max_pool2d": _pool,
    "average_pool2d": _pool,
    "conv_transpose2d": _conv_transpose,
    "add": _pair,
    "mul": _pair,
    "minmax": _pair,
    "div": _pair,
    "softmax": _rows,
    "log_softmax": _rows,
    "layer_norm": _layer_norm,
    "move": _move,
    "transpose": _transpose,
    "concat": _concat,
    "pad": _pad,
    "gather": _gather,
    "resize_linear": _resize,
    "matmul": _matmul,
    "reduce": _reduce,
    "argmax": lambda step, xs, y, scratch: _each(xs, y),
    "recurrent": _recurrent,
}
