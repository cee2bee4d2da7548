"""Convolutions."""

from collections.abc import Sequence

import numpy as np

from mica.format.weights import CODES4, PLAIN, ROWS
from mica.kernels.base import (
    ACT,
    REQUANT,
    SCRATCH_FIXED,
    Cost,
    Counts,
    Dims,
    Kernel,
    Scratch,
    Shapes,
    Step,
    Tensor,
    Tensors,
    weights_macs,
)
from mica.kernels.conv_algorithms import conv2d_algorithms
from mica.kernels.counts import elements, is_fast
from mica.kernels.integers import Array, Blobs, Output, Params, dot, finish
from mica.kernels.rules import act, image, per_channel, require
from mica.kernels.windows import WINDOW, Windows, canvas, taps_of, window_rules, windows_of


def _conv2d_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    _, _, cin = image(x[0], "input")
    oh, ow, cout = image(y, "output")
    window_rules(p, oh, ow)
    act(p)
    groups = p["groups"]
    require(
        groups >= 1 and cin % groups == 0 and cout % groups == 0,
        f"{groups} groups do not divide {cin} -> {cout} channels",
    )
    return {"weights": (cout, p["kernel_h"], p["kernel_w"], cin // groups)} | per_channel(cout)


def _conv2d_scratch(x: Dims, y: Dims, p: Params) -> Scratch:
    """The patches of a tile of pixels, 16 bits an element, a running sum for each pixel where a dot product is done in
    parts, and the unpacked weights of four channels; at least one patch, as bytes and unpacked."""
    if p["groups"] != 1:
        return 0, 0
    k = ROWS.row_bytes(p["kernel_h"] * p["kernel_w"] * x[3])
    pixels = -(-y[1] * y[2] // 4) * 4
    return pixels * (2 * k + 4) + 8 * k + SCRATCH_FIXED, 3 * k


def _conv2d_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    p, x, cout = step.params, xs[0], y.dims[3]
    cin = x.dims[3] // p["groups"]
    k = p["kernel_h"] * p["kernel_w"] * cin
    words = -(-k // 4)
    w = windows_of(step, x, y)
    windows, whole = w.count, w.whole
    if not is_fast(step) or p["groups"] != 1 or scratch < 12 * words:
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
        "line": float(y.dims[1]),
        "tile": float(tiles),
        "row": float(tiles * cout),  # rows of weights that are unpacked
        "weight": float(tiles * cout * words),
        "single": float(single * cout),
        "single_mac": 4.0 * single * words * cout,
        **_quad_counts(w, words, cout, p["kernel_h"], scratch - patch),
        "pair_run": float(y.dims[1] * (y.dims[2] > 1)),
        "across": float(y.dims[1] // 2 * (y.dims[2] % 2)),  # pairs of pixels of two rows
        # Of kernels that take sixteen elements of two pixels and four channels at once, and of those for the rest.
        "block": float(-(-windows // 2) * -(-cout // 4) * -(-k // 16)),
        "few_mac": float(windows * k * cout) if cout < 4 else 0.0,
        "few_out": float(windows * cout) if cout < 4 else 0.0,
        "few_window": float(windows) if cout < 4 else 0.0,
    }
    if cout >= 4:
        counts |= _pair_counts(windows, words, -(-cout // 4), scratch - (4 if in_words else 16) * words * (patch > 0))
    if p["kernel_h"] * p["kernel_w"] == 1:
        return "pointwise" if in_words else "pointwise odd", counts
    counts["window_row"] = float(windows * p["kernel_h"])
    counts["edge"] = float(windows - whole)
    counts["edge_row"] = float((windows - whole) * p["kernel_h"])
    counts["edge_patch"] = float((windows - whole) * k)
    # Of kernels that read windows of nine bytes a row from where they lie.
    copied = windows - (whole if (p["kernel_h"], p["kernel_w"], cin, p["dilation_w"]) == (3, 3, 3, 1) else 0)
    counts["copied"] = float(copied)
    counts["copied_row"] = float(copied * p["kernel_h"])
    counts["copied_word"] = float(copied * words)
    return "window" if in_words else "window odd", counts


def _quad_counts(w: Windows, words: int, cout: int, kernel_h: int, room: int) -> Counts:
    """Count for kernels that take four pixels at once, their patches whole or in parts: isa/armv6m/conv2d.c."""
    alone = w.count if w.count < 4 else w.count % 4 % 3
    groups, least, whole = -(-(w.count - alone) // 4), -(-words // 64), 32 * words
    ways = [(whole, least, 30 * cout * least * (least > 1))]
    if words > 16 and whole * min(8, groups) > room:
        narrow = [(n, -(-words // n) + 1 & ~1) for n in range(max(2, least), 9)]
        ways += [(32 * part + 16 * cout, n, n * (30 * cout + 800)) for n, part in narrow if part < words]
    cuts = [(-(-groups // (room // size)), n, more) for size, n, more in ways if size <= room]
    cuts.sort(key=lambda c: c[0] * cout * (18 * words + 150 * c[1]) + groups * c[2])
    tiles, parts, _ = cuts[0] if cuts else (0, 0, 0)
    alone, groups = (alone, groups) if tiles else (w.count, 0)
    return {
        "passes": float(tiles),  # over all weights: for waits (cost/waits.py)
        "quad": float(groups * cout),
        "quad_word": float(groups * words * cout),
        "quad_patch": float(groups * words),
        "quad_row": float(tiles * cout * parts),
        "quad_weight": float(tiles * cout * words),
        "part": float(groups * parts * (parts > 1)),
        "sum": float(groups * parts * cout * (parts > 1)),
        "run": float(w.runs * (groups > 0)),
        "run_row": float(w.runs * kernel_h * (groups > 0)),
        "pixel": float(alone),
        "pixel_out": float(alone * cout),
        "pixel_word": float(alone * words),
        "pixel_mac": float(alone * words * cout),
    }


def _pair_counts(windows: int, words: int, fours: int, scratch: int) -> Counts:
    """Count for kernels that take two pixels and four channels at once, and a last pixel alone, with the weights of
    four channels in scratch."""
    most = max(1, (scratch - 64 - 32 * words) // (16 * words))  # pairs of pixels that are done at once
    passes = -(-windows // 2 // most) if windows > 1 else 1
    return {
        "pair": float(windows // 2 * fours),
        "pair_word": float(windows // 2 * fours * words),
        "alone": float(windows % 2 * fours),
        "alone_word": float(windows % 2 * fours * words),
        "pair_passes": float(passes),
        "four": float(passes * fours),
        "four_word": float(passes * fours * words),
    }


@Kernel(
    id=1,
    blobs=(("weights", "i8"), *REQUANT),
    params=(*WINDOW, "groups", *ACT),
    layouts=(ROWS, CODES4, PLAIN),
    group="conv",
    rules=_conv2d_rules,
    macs=weights_macs,
    scratch=_conv2d_scratch,
    counts=_conv2d_counts,
    algorithms=conv2d_algorithms,
)
def conv2d_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """2-D convolution. x [1,H,W,Cin], y [1,OH,OW,Cout], weights [Cout,KH,KW,Cin/groups], one bias, mult, shift per
    output channel. y = clamp(zy + requant(bias + sum(x * w))), where a tap outside x reads zx and the bias already
    holds -zx * sum(w)."""
    weights, groups = blobs["weights"], p["groups"]
    taps = taps_of(canvas(xs[0][0], p, q, q.x_zero), p, q)
    acc = np.broadcast_to(blobs["bias"].astype(np.int64), q.dims[1:]).copy()
    n_in, n_out = xs[0].shape[3] // groups, q.dims[3] // groups
    for g in range(groups):
        i, o = slice(g * n_in, (g + 1) * n_in), slice(g * n_out, (g + 1) * n_out)
        for ky, row in enumerate(taps):
            for kx, tap in enumerate(row):
                acc[..., o] += dot(tap[..., i], weights[o, ky, kx])
    return finish(acc, blobs, p, q)[None]


def _depthwise_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    _, _, cin = image(x[0], "input")
    oh, ow, cout = image(y, "output")
    window_rules(p, oh, ow)
    act(p)
    require(cout % cin == 0, f"{cout} output channels are no multiple of {cin} input channels")
    return {"weights": (cout, p["kernel_h"], p["kernel_w"])} | per_channel(cout)


def _depthwise_scratch(x: Dims, y: Dims, p: Params) -> Scratch:
    """A strip of one channel, for two rows of the output at a time, 96 bits a column, and where each strip begins;
    or of four channels, 64 bits a column each, and their constants; or one window of all channels;
    at least the first or the last."""
    columns = (y[2] - 1) * p["stride_w"] + p["kernel_w"]
    window = ROWS.row_bytes(p["kernel_h"] * p["kernel_w"] * x[3])
    tile = max(12 * columns + 12 * (y[1] + 1), window)
    return max(tile, 32 * columns + 160) + SCRATCH_FIXED, tile


def _depthwise_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    p, x = step.params, xs[0]
    (_, oh, ow, c), stride = y.dims, p["stride_h"]
    w = windows_of(step, x, y)
    windows, columns = w.count, (ow - 1) * stride + 3
    square = p["kernel_h"] == p["kernel_w"] == 3 and p["dilation_h"] == p["dilation_w"] == 1
    same = x.dims[3] == c and p["stride_w"] == stride and stride <= 2
    if is_fast(step) and square and same and 12 * columns + 24 * ((oh + 1) // 2) <= scratch:
        strips = (oh + 1) // 2
        if stride == 1 and oh == ow == x.dims[1] == x.dims[2] == 2:
            less = float(c < 4)
            return "2x2", {"channel": float(c), "four": (1 - less) * -(-c // 4), "less": less, "few": less * c}
        return f"3x3 s{stride}" if c >= 4 else "3x3 few", {
            "channel": float(c),
            "window": 0.0 if c >= 4 else float(windows),
            "strip": float(c * strips),
            "column": float(c * strips * columns),
            "out": float(windows * c),
            "spare": float(c * (2 * strips * ow - windows)),  # of a last strip of one row
            "strips": float(strips),
            **_half_counts(oh, stride, columns, float(c), ow, scratch),
        } | _band_counts(-(-c // 4), ow, columns, strips if stride == 1 else oh, scratch)
    if not is_fast(step) or x.dims[3] != c:
        return "any", _unit_counts(w, c, 0, p["kernel_h"], p["kernel_w"], -1)
    kind, unit = ("nine", 1) if p["kernel_h"] == p["kernel_w"] == 3 else ("fours", 4)
    return kind, _unit_counts(w, c, unit, p["kernel_h"], p["kernel_w"], scratch)


def _unit_counts(w: Windows, c: int, unit: int, kernel_h: int, kernel_w: int, scratch: int) -> Counts:
    """Count for kernels that take `unit` channels at once in whole windows or a copy, and the rest one by one (c32)."""
    taps, edges, units = kernel_h * kernel_w, w.count - w.whole, c // unit if unit else 0
    copied = edges if taps * c <= scratch else 0
    whole, rest = w.whole + copied, c - unit * units
    cut = 0 if copied else c  # channels of a window at the edge that are done one by one
    return {
        "window": float(w.count),
        "unit": float(whole * units),
        "unit_row": float((w.whole * (1 if kernel_w == 1 else kernel_h) + copied) * units),
        "unit_mac": float(whole * units * taps),
        "copy": float(copied * taps),
        "copied": float(copied * taps * c),
        "alone": float(whole * rest + edges * cut),
        "alone_row": float(whole * rest * kernel_h + (w.rows - w.whole * kernel_h) * cut),
        "alone_mac": float((whole * rest + edges * cut) * taps),
        "alone_inside": float(whole * rest * taps + (w.taps - w.whole * taps) * cut),
    }


def _half_counts(oh: int, stride: int, columns: int, channels: float, ow: int, scratch: int) -> Counts:
    """Count for kernels that take two rows of one channel at once, half a band apart: isa/armv6m/depthwise_conv2d.c."""
    for bands in range(1, oh + 1):  # as few as there is room for
        half = (-(-oh // bands) + 1) // 2
        words = (half - 1) * stride + 3
        if half == 1 or 4 * columns * words + 8 * bands * words <= scratch:
            break
    return {
        "plane": channels * bands,
        "plane_word": channels * bands * words,
        "plane_column": channels * bands * columns * words,
        "plane_row": channels * bands * half,
        "plane_out": channels * bands * half * ow,
    }


def _band_counts(fours: int, ow: int, columns: int, strips: int, scratch: int) -> Counts:
    """Count for kernels that take four channels at once, bands of two rows and two columns, two windows."""
    blocks = (columns + 1) // 2
    batches = -(-strips // max(1, (scratch - 160) // (32 * blocks) - 1))  # of bands that scratch holds at once
    return {
        "four": float(fours),
        "four_strip": float(fours * strips),
        "pair": float(fours * strips * (ow // 2)),
        "half": float(fours * strips * (ow % 2)),
        "block": float(fours * strips * blocks),
        "batch": float(fours * batches),
        "batch_block": float(fours * batches * blocks),
    }


def _depthwise_algorithms(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Sequence[Cost]:
    """Along a line, down or across, with at most 16 taps: channel by channel, those windows that lie inside whole, two
    at once where they follow one another by one tap."""
    p, (_, _, iw, ic), (_, oh, ow, c) = step.params, xs[0].dims, y.dims
    taps, w = p["kernel_h"] * p["kernel_w"], windows_of(step, xs[0], y)
    down = iw == ow == p["kernel_w"] == 1 and p["pad_left"] == 0 and w.whole > 1
    across = p["kernel_h"] == 1 and p["pad_top"] == 0 and ow > 1 and w.whole == w.count
    if not (down or across) or taps > 16 or ic != c or not is_fast(step) or step.unpacking:
        return ()
    edges = w.count - w.whole
    in_row = p["stride_h" if down else "stride_w"] == p["dilation_h" if down else "dilation_w"]
    pairs = (w.whole // 2 if down else oh * (ow // 2)) if in_row else 0
    counts = {
        "channel": float(c if down else c * oh),
        "weight": float((c if down else c * oh) * taps),
        "out": float((w.count - 2 * pairs) * c),
        "mac": float((w.whole - 2 * pairs) * taps * c),
        "pair": float(pairs * c),
        "pair_mac": float(pairs * taps * c),
        "edge": float(edges * c),
        "edge_mac": float(edges * taps * c),
        "edge_window": float(edges),
        "edge_copy": float(edges * taps),
    }
    return (("line", counts),)


@Kernel(
    id=2,
    blobs=(("weights", "i8"), *REQUANT),
    params=(*WINDOW, *ACT),
    group="conv",
    rules=_depthwise_rules,
    macs=weights_macs,
    scratch=_depthwise_scratch,
    counts=_depthwise_counts,
    algorithms=_depthwise_algorithms,
)
def depthwise_conv2d_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Depthwise convolution. x [1,H,W,C], y [1,OH,OW,C*m], weights [C*m,KH,KW]; output channel o reads input channel o
    / m. Otherwise as conv2d_s8."""
    weights = blobs["weights"].astype(np.int64)
    multiplier = q.dims[3] // xs[0].shape[3]
    taps = taps_of(canvas(xs[0][0], p, q, q.x_zero), p, q)
    acc = np.broadcast_to(blobs["bias"].astype(np.int64), q.dims[1:]).copy()
    for ky, row in enumerate(taps):
        for kx, tap in enumerate(row):
            acc += np.repeat(tap, multiplier, axis=2) * weights[:, ky, kx]
    return finish(acc, blobs, p, q)[None]


def _conv_transpose_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    p = step.params
    taps = p["kernel_h"] * p["kernel_w"]
    return "", {
        "out": float(elements(y)),
        "out_tap": float(elements(y) * taps),
        "mac": float(step.macs),
        "window": float(elements(y) // max(1, y.dims[3])),
    }


@Kernel(
    id=23,
    blobs=(("weights", "i8"), *REQUANT),
    params=(*WINDOW, "groups", *ACT),
    group="conv",
    rules=_conv2d_rules,
    # Each input meets the weights of all that it reaches.
    macs=lambda xs, y, blobs: int(blobs["weights"].size) * xs[0][1] * xs[0][2],
    counts=_conv_transpose_counts,
)
def conv_transpose2d_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Transposed 2-D convolution. x [1,H,W,Cin], y [1,OH,OW,Cout], weights [Cout,KH,KW,Cin/groups]; output (oy, ox) is
    reached by tap (ky, kx) from input (iy, ix) where iy * stride_h + ky * dilation_h = oy + pad_top, and likewise along
    the width. y = clamp(zy + requant(bias + sum over all taps of v * w)), where v is x, or zx for a tap that no input
    reaches, and the bias already holds -zx * sum(w)."""
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
            acc[oy[iy, None], ox[ix], o] += dot(x[iy[:, None], ix, i], weights[o, ky, kx])
    return finish(acc, blobs, p, q)[None]


KERNELS = (conv2d_s8, depthwise_conv2d_s8, conv_transpose2d_s8)
