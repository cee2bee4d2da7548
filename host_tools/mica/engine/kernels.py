"""The C kernels on numpy arrays, one call each, with the signature of the oracle (`mica.reference.int8`).

For tests and experiments: `run("conv2d_s8", [x], blobs, params, Output(dims, x_zero, y_zero))`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..format import schema
from ..kernels import KERNEL_BY_NAME
from ..kernels.integers import Output
from ..kernels.windows import WINDOW
from . import EngineError, _engine

Array = np.ndarray


def run(
    kernel: str,
    xs: Sequence[Array],
    blobs: Mapping[str, Array],
    p: Mapping[str, int],
    q: Output,
    *,
    out: Array | None = None,
    rows: tuple[int, int] = (0, -1),
    fast: bool = False,
) -> Array:
    """Run one kernel; `out` is written and returned when given, `rows` is the part of the output to compute."""
    y = np.zeros(q.dims, KERNEL_BY_NAME[kernel].y_type) if out is None else out
    x = xs[0]
    act = [p.get("act_min", -128), p.get("act_max", 127)]
    constants = [blobs[b] for b, _ in KERNEL_BY_NAME[kernel].blobs]
    window = [*x.shape[1:], *q.dims[1:], *(p[n] for n in WINDOW)] if "kernel_h" in p else []
    channels = [q.y_zero, *act, int(fast)]
    buffers: list[Array] = [x, y, *constants]
    numbers: list[int]
    if kernel in ("conv2d_s8", "conv_transpose2d_s8"):
        numbers = [*window, p["groups"], q.x_zero, *channels]
    elif kernel == "depthwise_conv2d_s8":
        numbers = [*window, q.x_zero, *channels]
    elif kernel == "fully_connected_s8":
        numbers = [x.size // x.shape[-1], x.shape[-1], q.dims[-1], *channels]
    elif kernel == "max_pool2d_s8":
        numbers = [*window, *act]
    elif kernel == "average_pool2d_s8":
        ends = [p["pad_bottom"], p["pad_right"], p["count_include_pad"]]
        numbers = [*window, *ends, q.x_zero, q.y_zero, *act]
    elif kernel in ("add_s8", "minmax_s8", "mul_s8", "div_s8", "matmul_s8"):
        buffers = [x, xs[1], y]
        zeros = [q.y_zero] if kernel in ("add_s8", "minmax_s8") else [q.x_zero, q.b_zero, q.y_zero]
        own = [n for n in KERNEL_BY_NAME[kernel].params if not n.startswith("act_")]
        numbers = [*(p[n] for n in own), *zeros, *act]
        for dims in (x.shape, xs[1].shape, q.dims):
            numbers += [len(dims), *_six(dims)]
    elif kernel == "reduce_s8":
        numbers = [*_split(x.shape, p["axis"], p["axes"]), *(p[n] for n in ("mode", "mult", "shift", "bias"))]
        numbers += [q.x_zero, q.y_zero, *act]
    elif kernel == "argmax_s8":
        numbers = [*_split(x.shape, p["axis"], 1), p["minimum"], p["select_last"]]
    elif kernel == "layer_norm_s8":
        rows_of, n, _ = _split(x.shape, p["axis"], schema.MAX_RANK)
        own = ["inner", "channels", "mode", "epsilon_low", "epsilon_high", "shift"]
        numbers = [rows_of, n, *(p[name] for name in own), q.x_zero, q.y_zero, *act]
    elif kernel == "log_softmax_s8":
        own = ["sum", "mult", "mult_log", "offset", "shift"]
        numbers = [x.size // x.shape[-1], x.shape[-1], *(p[name] for name in own), q.y_zero, *act]
    elif kernel == "softmax_s8":
        numbers = [x.size // x.shape[-1], x.shape[-1], int(blobs["table"].size == 512), q.y_zero]
    elif kernel == "lut_s8":
        numbers = [x.size]
    elif kernel == "move_s8":
        numbers = [p["begin"], p["rank"]]
    elif kernel == "concat_s8":
        inner = [int(np.prod(a.shape[p["axis"] :])) for a in xs]
        buffers, numbers = [y, *xs], [x.size // inner[0], *inner]
    elif kernel == "pad_s8":
        begins = [p.get(f"begin_{i}", 0) for i in range(schema.MAX_RANK)]
        numbers = [len(q.dims), *_six(x.shape), *_six(q.dims), *begins, p["mode"], p["value"]]
    elif kernel == "gather_s8":
        n = x.shape[p["axis"]]
        inside = int(np.prod(x.shape[p["axis"] + 1 :]))
        numbers = [x.size // (n * inside), n, constants[0].size, inside]
    elif kernel == "resize_linear_s8":
        numbers = [*x.shape[1:], *q.dims[1:3], p["row_taps"], p["column_taps"]]
    elif kernel == "recurrent_s8":
        none = np.zeros(0, np.int8)
        buffers = [*xs, *[none] * (3 - len(xs)), y, *constants]
        every = int(q.dims[0] > 1)
        numbers = [*x.shape, q.dims[2], every, len(xs) - 1, q.b_zero, q.y_zero]
        numbers += [p[n] for n in KERNEL_BY_NAME[kernel].params]
    elif kernel == "embedding_s8":
        numbers = [x.size, p["rows"], q.dims[-1]]
    else:
        numbers = [len(q.dims), *_six(q.dims), *(p.get(f"perm_{i}", 0) for i in range(schema.MAX_RANK))]
    try:
        getattr(_engine, kernel)(*buffers, numbers, *rows)
    except _engine.Error as e:
        raise EngineError(str(e)) from None
    return y


def _split(dims: Sequence[int], axis: int, axes: int) -> list[int]:
    """Elements before, in and behind a group of dimensions."""
    parts = (dims[:axis], dims[axis : axis + axes], dims[axis + axes :])
    return [int(np.prod(part, dtype=np.int64)) for part in parts]


def _six(dims: Sequence[int]) -> list[int]:
    return [*dims, *[1] * (schema.MAX_RANK - len(dims))]
