"""The kernels in numpy integers: the oracle that the C kernels equal bit for bit.

One function for each kernel of `format/schema.py`, called `kernel(xs, blobs, p, q) -> y`:
  xs     int8 inputs
  blobs  constants by name, shaped as `format/codec.py` gives them
  p      parameters by name
  q      shape of the output and the zero points
Accumulators are int64 and asserted to stay inside the int32 that C has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Array = np.ndarray
Blobs = Mapping[str, Array]
Params = Mapping[str, int]


@dataclass(frozen=True)
class Output:
    """What a kernel has to know beyond its parameters."""

    dims: tuple[int, ...]
    x_zero: int = 0
    y_zero: int = 0
    b_zero: int = 0  # of the second input


def requantise(acc: Array, mult: Array | int, shift: Array | int) -> Array:
    """(acc * mult + 2**(30 + shift)) >> (31 + shift): acc * mult / 2**(31 + shift), rounded once, halves up. int64."""
    acc, s = np.asarray(acc, np.int64), np.asarray(shift, np.int64)
    out: Array = (acc * np.asarray(mult, np.int64) + (np.int64(1) << (30 + s))) >> (31 + s)
    return out


def _int32(acc: Array) -> Array:
    assert acc.size == 0 or (acc.min() >= -(2**31) and acc.max() < 2**31), "the accumulator leaves the int32"
    return acc


def _clamp(y: Array, p: Params) -> Array:
    return np.clip(y, p.get("act_min", -128), p.get("act_max", 127)).astype(np.int8)


def _finish(acc: Array, blobs: Blobs, p: Params, q: Output) -> Array:
    """Accumulators [..., channels] to int8."""
    return _clamp(q.y_zero + requantise(_int32(acc), blobs["mult"], blobs["shift"]), p)


def _canvas(x: Array, p: Params, q: Output, fill: int) -> Array:
    """x [H, W, C] laid on a canvas of `fill` that holds every tap of every window; the first tap is at (0, 0)."""
    h, w, c = x.shape
    oh, ow = q.dims[1:3]
    height = (oh - 1) * p["stride_h"] + (p["kernel_h"] - 1) * p["dilation_h"] + 1
    width = (ow - 1) * p["stride_w"] + (p["kernel_w"] - 1) * p["dilation_w"] + 1
    top, left = p["pad_top"], p["pad_left"]
    canvas = np.full((height, width, c), fill, np.int64)
    rows, cols = max(0, min(h, height - top)), max(0, min(w, width - left))
    canvas[top : top + rows, left : left + cols] = x[:rows, :cols]
    return canvas


def _taps(canvas: Array, p: Params, q: Output) -> list[list[Array]]:
    """taps[ky][kx]: what each output pixel reads there, [OH, OW, C]."""
    oh, ow = q.dims[1:3]
    out = []
    for ky in range(p["kernel_h"]):
        y0 = ky * p["dilation_h"]
        rows = canvas[y0 : y0 + (oh - 1) * p["stride_h"] + 1 : p["stride_h"]]
        starts = [kx * p["dilation_w"] for kx in range(p["kernel_w"])]
        out.append([rows[:, x0 : x0 + (ow - 1) * p["stride_w"] + 1 : p["stride_w"]] for x0 in starts])
    return out


def _dot(x: Array, w: Array) -> Array:
    """x [..., K] times w [N, K]. float64 holds these sums exactly (below 2**53), and numpy multiplies floats faster."""
    return (x.astype(np.float64) @ w.astype(np.float64).T).astype(np.int64)


def conv2d_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """x [1,H,W,Cin], weights [Cout,KH,KW,Cin/groups] -> [1,OH,OW,Cout]."""
    weights, groups = blobs["weights"], p["groups"]
    taps = _taps(_canvas(xs[0][0], p, q, q.x_zero), p, q)
    acc = np.broadcast_to(blobs["bias"].astype(np.int64), q.dims[1:]).copy()
    n_in, n_out = xs[0].shape[3] // groups, q.dims[3] // groups
    for g in range(groups):
        i, o = slice(g * n_in, (g + 1) * n_in), slice(g * n_out, (g + 1) * n_out)
        for ky, row in enumerate(taps):
            for kx, tap in enumerate(row):
                acc[..., o] += _dot(tap[..., i], weights[o, ky, kx])
    return _finish(acc, blobs, p, q)[None]


def depthwise_conv2d_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """x [1,H,W,C], weights [C*m,KH,KW] -> [1,OH,OW,C*m]."""
    weights = blobs["weights"].astype(np.int64)
    multiplier = q.dims[3] // xs[0].shape[3]
    taps = _taps(_canvas(xs[0][0], p, q, q.x_zero), p, q)
    acc = np.broadcast_to(blobs["bias"].astype(np.int64), q.dims[1:]).copy()
    for ky, row in enumerate(taps):
        for kx, tap in enumerate(row):
            acc += np.repeat(tap, multiplier, axis=2) * weights[:, ky, kx]
    return _finish(acc, blobs, p, q)[None]


def conv_transpose2d_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """x [1,H,W,Cin], weights [Cout,KH,KW,Cin/groups] -> [1,OH,OW,Cout]: each input adds its taps to what they reach."""
    weights, groups, x = blobs["weights"], p["groups"], xs[0][0].astype(np.int64) - q.x_zero
    start = blobs["bias"] + q.x_zero * weights.astype(np.int64).sum(axis=(1, 2, 3))
    acc = np.broadcast_to(start, q.dims[1:]).copy()
    n_in, n_out = x.shape[2] // groups, q.dims[3] // groups
    for ky, kx in np.ndindex(p["kernel_h"], p["kernel_w"]):
        oy = np.arange(x.shape[0]) * p["stride_h"] + ky * p["dilation_h"] - p["pad_top"]
        ox = np.arange(x.shape[1]) * p["stride_w"] + kx * p["dilation_w"] - p["pad_left"]
        iy, ix = np.flatnonzero((oy >= 0) & (oy < q.dims[1])), np.flatnonzero((ox >= 0) & (ox < q.dims[2]))
        for g in range(groups):
            i, o = slice(g * n_in, (g + 1) * n_in), slice(g * n_out, (g + 1) * n_out)
            acc[oy[iy, None], ox[ix], o] += _dot(x[iy[:, None], ix, i], weights[o, ky, kx])
    return _finish(acc, blobs, p, q)[None]


def fully_connected_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """x [...,K], weights [N,K] -> [...,N]."""
    return _finish(blobs["bias"].astype(np.int64) + _dot(xs[0], blobs["weights"]), blobs, p, q)


def max_pool2d_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """x [1,H,W,C] -> [1,OH,OW,C]."""
    taps = _taps(_canvas(xs[0][0], p, q, -128), p, q)
    return _clamp(np.max([tap for row in taps for tap in row], axis=0), p)[None]


def average_pool2d_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """x [1,H,W,C] -> [1,OH,OW,C]."""
    x = xs[0][0].astype(np.int64) - q.x_zero
    acc = sum(tap for row in _taps(_canvas(x, p, q, 0), p, q) for tap in row)
    assert isinstance(acc, np.ndarray)

    def count(axis: str, size: int, outs: int, pad: int, pad_end: int) -> Array:
        """Taps along one axis that count, for each output."""
        first = np.arange(outs) * p[f"stride_{axis}"] - pad
        low, high = (-pad, size + pad_end) if p["count_include_pad"] else (0, size)
        return np.minimum(first + p[f"kernel_{axis}"], high) - np.maximum(first, low)

    n = np.outer(
        count("h", x.shape[0], q.dims[1], p["pad_top"], p["pad_bottom"]),
        count("w", x.shape[1], q.dims[2], p["pad_left"], p["pad_right"]),
    )
    entry = n - 1 if blobs["mult"].size > 1 else np.zeros_like(n)
    y = q.y_zero + requantise(_int32(acc), blobs["mult"][entry][..., None], blobs["shift"][entry][..., None])
    return _clamp(y, p)[None]


def add_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """a, b -> their broadcast sum."""
    total = xs[0].astype(np.int64) * p["mult_a"] + xs[1].astype(np.int64) * p["mult_b"] + p["offset"]
    return _clamp(q.y_zero + (_int32(total) >> p["shift"]), p).reshape(q.dims)


def softmax_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Over the last axis. The second half of a table of 512 entries holds numerators for scales other than 1/256."""
    x = xs[0].astype(np.int64)
    table = blobs["table"].astype(np.int64)
    d = x.max(axis=-1, keepdims=True) - x
    e = table[d]
    total = e.sum(axis=-1, keepdims=True)
    scaled = (table[256 + d] if len(table) == 512 else 256 * e) + total // 2
    assert scaled.max() < 2**32, "the quotient leaves the uint32"
    return np.minimum(127, scaled // total + q.y_zero).astype(np.int8)


def lut_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Element by element."""
    out: Array = blobs["table"][xs[0].astype(np.int64) + 128]
    return out


def transpose_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """y.dims[i] = x.dims[perm_i]."""
    return np.ascontiguousarray(xs[0].transpose([p[f"perm_{i}"] for i in range(xs[0].ndim)])).reshape(q.dims)


def move_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """y[i] = x[begin + sum(i * step)]."""
    at = np.array(p["begin"], np.int64)
    for n, step in blobs["map"].astype(np.int64):
        at = np.add.outer(at, np.arange(n) * step)
    out: Array = xs[0].reshape(-1)[at].reshape(q.dims)
    return out


def concat_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """One behind the other along an axis."""
    return np.concatenate(xs, axis=p["axis"])


def pad_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """begin_i elements before x, and what is left of y behind it."""
    x = xs[0]
    before = [p.get(f"begin_{i}", 0) for i in range(x.ndim)]
    widths = [(b, wide - b - n) for b, n, wide in zip(before, x.shape, q.dims, strict=True)]
    mode = ("constant", "edge", "reflect", "wrap")[p["mode"]]
    more = {"constant_values": p["value"]} if mode == "constant" else {}
    return np.pad(x, widths, mode, **more) if widths else x.copy()  # type: ignore[call-overload]


def gather_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Picks along an axis."""
    return np.take(xs[0], blobs["indices"].astype(np.int64), axis=p["axis"])


def resize_linear_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """x [1,H,W,C] -> [1,OH,OW,C]: weighted sums over columns, then over rows, rounded once."""
    x = xs[0][0].astype(np.int64)
    for axis, entry, taps in ((1, "column", p["column_taps"]), (0, "row", p["row_taps"])):
        places = np.add.outer(blobs[f"{entry}s"].astype(np.int64), np.arange(taps))
        weights = blobs[f"{entry}_weights"].astype(np.int64)
        x = np.moveaxis(np.einsum("ot...,ot->o...", np.moveaxis(x, axis, 0)[places], weights), 0, axis)
    return np.clip((_int32(x + 2**21)) >> 22, -128, 127).astype(np.int8)[None]


def embedding_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Rows of the table."""
    i, n = xs[0].astype(np.int64), p["rows"]
    out: Array = blobs["table"][np.clip(np.where(i < 0, i + n, i), 0, n - 1)]
    return out


def _both(xs: Sequence[Array], q: Output) -> tuple[Array, Array]:
    """Two inputs without their zero points."""
    return xs[0].astype(np.int64) - q.x_zero, xs[1].astype(np.int64) - q.b_zero


def mul_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """a, b -> their broadcast product."""
    a, b = _both(xs, q)
    return _clamp(q.y_zero + requantise(a * b, p["mult"], p["shift"]), p).reshape(q.dims)


def minmax_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """a, b -> the larger or smaller of the two."""
    a, b = (_int32(x.astype(np.int64) * p[f"mult_{s}"] + p[f"offset_{s}"]) for x, s in zip(xs, "ab", strict=True))
    chosen = np.maximum(a, b) if p["larger"] else np.minimum(a, b)
    return _clamp(q.y_zero + (chosen >> p["shift"]), p).reshape(q.dims)


def matmul_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """a [...,M,K], b [...,K,N] or [...,N,K] -> [...,M,N]."""
    a, b = (x.astype(np.float64) for x in _both(xs, q))  # float64 holds these sums exactly
    acc = (a @ (b.swapaxes(-1, -2) if p["transpose_b"] else b)).astype(np.int64)
    return _clamp(q.y_zero + requantise(_int32(acc), p["mult"], p["shift"]), p)


def root(v: Array) -> Array:
    """sqrt(v) to the nearest integer, at most 65535; v in [0, 2**32)."""
    r = np.floor(np.sqrt(v.astype(np.float64))).astype(np.int64)  # float64 holds v: its root never rounds up to r + 1
    assert np.all((r * r <= v) & (v < (r + 1) ** 2))
    out: Array = np.minimum(r + (v - r * r > r), 65535)
    return out


def log2(v: Array) -> Array:
    """floor(2**16 * log2(v)) as mica_log2 has it: 16 squarings of a 32-bit mantissa. v in [1, 2**32)."""
    log = np.floor(np.log2(v.astype(np.float64))).astype(np.int64)
    log -= v < (np.int64(1) << log)  # where the float was rounded up
    m = v << (31 - log)
    for _ in range(16):
        square = m.astype(np.uint64) ** np.uint64(2)
        two = square >> np.uint64(63)
        m = (square >> (np.uint64(31) + two)).astype(np.int64)
        log = log << 1 | two.astype(np.int64)
    return log


def reduce_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Sums, extremes, norms, logarithms over adjacent axes."""
    x, mode = xs[0].astype(np.int64), p["mode"]
    over = tuple(range(p["axis"], p["axis"] + p["axes"]))
    if mode in (1, 2):
        return _clamp((x.max if mode == 1 else x.min)(axis=over), p).reshape(q.dims)
    d = x - q.x_zero
    acc = _int32((d * d if mode in (3, 5) else np.abs(d) if mode == 4 else d).sum(axis=over)).reshape(q.dims)
    dead = np.zeros(q.dims, bool)
    if mode == 5:
        places = np.full(q.dims, 15)
        for _ in range(15):
            small = (acc > 0) & (acc < 2**30)
            acc, places = np.where(small, acc << 2, acc), places - small
        acc = root(acc) << places
    elif mode == 6:
        dead = acc <= 0
        acc = log2(np.where(dead, 1, acc)) + p["bias"]
    y = _clamp(q.y_zero + requantise(acc, p["mult"], p["shift"]), p)
    return np.where(dead, np.int8(p.get("act_min", -128)), y)


def argmax_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Where the extreme element of an axis is. int32."""
    x = -xs[0].astype(np.int64) if p["minimum"] else xs[0]
    if p["select_last"]:
        found = x.shape[p["axis"]] - 1 - np.argmax(np.flip(x, p["axis"]), axis=p["axis"])
    else:
        found = np.argmax(x, axis=p["axis"])
    return np.asarray(found, np.int32).reshape(q.dims)


def div_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """a, b -> their broadcast quotient."""
    a, b = _both(xs, q)
    divisor = np.where(b == 0, 1, np.abs(b)) << p["shift"]
    whole = (2 * p["factor"] * np.abs(a) + divisor) // (2 * divisor)
    far = np.where(b == 0, 2**30, whole)
    return _clamp(q.y_zero + np.sign(a) * np.where(b < 0, -1, 1) * far, p).reshape(q.dims)


def layer_norm_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Rows of the elements along the dimensions from `axis` on."""
    n = int(np.prod(q.dims[p["axis"] :], dtype=np.int64))
    x = xs[0].reshape(-1, n).astype(np.int64) - (0 if p["mode"] == 0 else q.x_zero)
    total, squares, absolute = x.sum(axis=1), (x * x).sum(axis=1), np.abs(x).sum(axis=1)
    spread = (n * squares - total**2, squares, absolute**2)[p["mode"]]
    wide = (spread << 14) + ((p["epsilon_low"] & 0xFFFFFFFF) | p["epsilon_high"] << 32)
    assert wide.min() >= 0, "the spread leaves the uint64"
    shift = np.zeros_like(wide)
    mantissa = wide.astype(np.uint64)
    for _ in range(31):
        small = (mantissa > 0) & (mantissa >> np.uint64(62) == 0)
        mantissa, shift = np.where(small, mantissa << np.uint64(2), mantissa), shift + small
    r = root((mantissa >> np.uint64(32)).astype(np.int64))
    scale = np.where(wide == 0, 0, (2**31 + r // 2) // np.maximum(r, 1))
    d = n * x - total[:, None] if p["mode"] == 0 else x
    left, right = np.maximum(shift - 20, 0)[:, None], np.maximum(20 - shift, 0)[:, None]
    normal = _int32((d * scale[:, None] << left) >> right)
    channel = np.arange(x.size).reshape(x.shape) // p["inner"] % p["channels"]
    acc = ((normal * blobs["gamma"].astype(np.int64)[channel]) >> 20) + blobs["beta"].astype(np.int64)[channel]
    acc = _int32(_int32(acc) + ((1 << p["shift"]) >> 1)) >> p["shift"]
    return _clamp(q.y_zero + acc, p).reshape(q.dims)


def log_softmax_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Over the last axis; with `sum` the logarithm of the sum of the exponentials."""
    x = xs[0].astype(np.int64)
    most = x.max(axis=-1, keepdims=True)
    log = log2(blobs["table"].astype(np.int64)[most - x].sum(axis=-1, keepdims=True))
    base = ((log * p["mult_log"]) >> 16) + p["offset"]
    acc = _int32((most if p["sum"] else x - most) * p["mult"] + base)
    return _clamp(q.y_zero + (acc >> p["shift"]), p).reshape(q.dims)


def _look_up(table: Array, v: Array) -> Array:
    """A function, linear between the entries of its table: entry k stands for v = 256 * (k - 128)."""
    at = np.clip(v, -32768, 32767) + 32768
    a, b = table[at >> 8], table[(at >> 8) + 1]
    out: Array = a + (((b - a) * (at & 255) + 128) >> 8)
    return out


def recurrent_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """x [T,B,I], initial states [1,B,H] -> every hidden state [T,B,H], the last one or the last cell state [1,B,H]."""
    x, (rows, batch, units) = xs[0], q.dims
    gates = (1, 4, 3, 3)[p["cell"]]
    simple, lstm, before = p["cell"] == 0, p["cell"] == 1, p["cell"] == 2
    matrix, shifts = blobs["matrix"], blobs["shifts"].astype(np.int64).reshape(gates, units)
    terms = blobs["terms"][: 4 * gates * units].astype(np.int64).reshape(2, 2, gates, units)
    peep = blobs["terms"][4 * gates * units :].astype(np.int64).reshape(-1, units)
    gate, candidate, output = (blobs[n].astype(np.int64) for n in ("gate", "candidate", "output"))
    zero = p["hidden_zero"]

    def part(k: int, a: Array) -> Array:
        """The product of x (k = 0) or the hidden state (k = 1) with its weights [B,G,H], times its factors."""
        w = matrix[:, : x.shape[2]] if k == 0 else matrix[:, x.shape[2] :]
        return _int32(terms[0, k] + _dot(a, w).reshape(batch, gates, units)) * terms[1, k]

    def drive(g: int, v: Array) -> Array:
        out: Array = (v + (np.int64(1) << (shifts[g] - 1))) >> shifts[g]
        return out

    def state(v: Array) -> Array:
        return np.clip(v, -32767, 32767)

    def gated(gate: Array, v: Array, shift: int = 14) -> Array:
        return state(_int32(gate * v + (1 << (shift - 1))) >> shift)

    def finish(h: Array) -> Array:
        return np.clip(zero + ((h + 64) >> 7), -128, 127)

    hidden = (xs[1][0].astype(np.int64) - zero) * 128 if len(xs) > 1 else np.zeros((batch, units), np.int64)
    c = xs[2][0].astype(np.int64) - q.b_zero if len(xs) > 2 else np.zeros((batch, units), np.int64)
    cell = state(requantise(c, p["in_mult"], p["in_shift"]))
    y = np.zeros(q.dims, np.int8)
    for t in range(len(x))[:: -1 if p["reverse"] else 1]:
        a, b = part(0, x[t]), part(1, hidden)
        s = a + b  # [B,G,H]
        if simple:
            hidden = _look_up(candidate, drive(0, s[:, 0]))
        elif lstm:
            inside, outside = (cell * peep[k] if len(peep) else 0 for k in (0, 2))
            opened = _look_up(gate, drive(0, s[:, 0] + inside))
            new = _look_up(candidate, drive(3, s[:, 3]))
            if p["coupled"]:
                cell = cell + (_int32(opened * (new - cell) + (1 << 13)) >> 14)
            else:
                kept = _look_up(gate, drive(2, s[:, 2] + outside))
                cell = _int32(kept * cell + opened * new + (1 << 13)) >> 14
            cell = state(cell)
            shown = _look_up(gate, drive(1, s[:, 1] + (cell * peep[1] if len(peep) else 0)))
            hidden = gated(shown, _look_up(output, cell << p["cell_shift"]), 14 - p["output_shift"])
        else:
            reset, update = _look_up(gate, drive(1, s[:, 1])), _look_up(gate, drive(0, s[:, 0]))
            again = part(1, gated(reset, hidden))[:, 2] if before else (b[:, 2] >> 14) * reset
            new = _look_up(candidate, drive(2, a[:, 2] + again))
            hidden = state(new + (_int32(update * (hidden - new) + (1 << 13)) >> 14))
        if rows > 1:
            y[t] = finish(hidden)
    if p["result"]:
        y[0] = np.clip(q.y_zero + requantise(cell, p["out_mult"], p["out_shift"]), -128, 127)
    elif rows == 1:
        y[0] = finish(hidden)
    return y


Kernel = Callable[[Sequence[Array], Blobs, Params, Output], Array]
KERNELS: dict[str, Kernel] = {
    f.__name__: f
    for f in (
        conv2d_s8,
        depthwise_conv2d_s8,
        conv_transpose2d_s8,
        fully_connected_s8,
        max_pool2d_s8,
        average_pool2d_s8,
        add_s8,
        softmax_s8,
        lut_s8,
        transpose_s8,
        move_s8,
        concat_s8,
        pad_s8,
        gather_s8,
        resize_linear_s8,
        embedding_s8,
        recurrent_s8,
        mul_s8,
        minmax_s8,
        matmul_s8,
        reduce_s8,
        argmax_s8,
        div_s8,
        layer_norm_s8,
        log_softmax_s8,
    )
}
