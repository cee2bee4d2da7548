"""Algorithms of a convolution that only some cores have, and the counts that the cost of each depends on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mica.kernels.base import Cost, Step, Tensor, Tensors
from mica.kernels.counts import is_fast
from mica.kernels.windows import windows_of

PAIRED_WORDS = 96  # of a channel's weights that are done in one part: MICA_PAIRED_WORDS of kernels/isa/armv6m/kernels.h
LEAST = 6000  # eights of cycles that a step takes without pairs: of less not even the choice would pay
LEAST_PART = 8  # channels of a part whose words are in scratch alone


def conv2d_algorithms(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Sequence[Cost]:
    """The algorithms for a step. It must have FAST and one group; weights in codes have paired outputs alone."""
    if step.params["groups"] != 1 or not is_fast(step):
        return ()
    winograd = None if step.unpacking else _winograd(step, xs, y, scratch)
    algorithms = (winograd, _paired(step, xs, y, scratch))
    return tuple(algorithm for algorithm in algorithms if algorithm)


def _winograd(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost | None:
    """Winograd's F(2x2,3x3): a pass transforms as many tiles of 2x2 outputs as fit, and all weights in each."""
    p, cin, (_, oh, ow, cout) = step.params, xs[0].dims[3], y.dims
    shape = [p[f"{name}_{axis}"] for name in ("kernel", "stride", "dilation") for axis in "hw"]
    large = cin >= 16 and cin % 4 == 0 and cout >= 4 and oh >= 2 and ow >= 2
    if shape != [3, 3, 1, 1, 1, 1] or not large:
        return None
    most = (scratch - 144 * cin - 1088) // (32 * cin)  # tiles; 32 bytes of each input channel
    if most < 4:
        return None
    tiles, fours = -(-oh // 2) * -(-ow // 2), -(-cout // 4)
    passes = -(-tiles // most)
    w = windows_of(step, xs[0], y)
    return "winograd", {
        "out": float(tiles * fours),
        "mac": float(tiles * fours * cin),
        "tile": float(tiles),
        "patch": float(tiles * cin),
        "edge_patch": float((w.count - w.whole) * cin),
        "passes": float(passes),
        "row": float(passes * fours),
        "weight": float(passes * fours * cin),
    }


@dataclass(frozen=True)
class _Cut:
    """Sizes of the pieces in which paired outputs are computed.

    A lane is two columns, `rows` high. Four lanes are a group; a tile is as many groups as fit. Channels are in parts.
    """

    rows: int
    in_rows: int
    groups: int
    tiles: int
    parts: int
    alone: bool  # words of one part at a time, and sums of all output channels


def _cuts(step: Step, xs: Tensors, y: Tensor, scratch: int, of: int) -> Iterator[_Cut]:
    """All of them; parts are multiples of `of` channels."""
    (_, _, _, cin), (_, oh, ow, cout), p = xs[0].dims, y.dims, step.params
    room, most_part = scratch - -(-cin // 4) * 4, PAIRED_WORDS // p["kernel_h"] // of * of
    parts = -(-cin // most_part)

    def part(n: int) -> int:
        return -(-cin // (n * of)) * of

    alone = [n for n in (max(2, parts) * 2**i for i in range(3)) if n <= 4 * parts and -(-cin // n) >= LEAST_PART]
    pairs = -(-ow // 2)
    for rows in sorted({-(-oh // n) for n in range(1, oh + 1)}, reverse=True):
        in_rows = (rows - 1) * p["stride_h"] + p["kernel_h"]
        groups = -(-pairs * -(-oh // rows) // 4)
        most = room // (32 * cin * in_rows + 32 * rows + 16)
        if most >= 1:
            yield _Cut(rows, in_rows, groups, -(-groups // most), parts, False)
        for n in alone:
            most = room // (32 * part(n) * in_rows + 32 * cout * rows + 16)
            if most >= 1:
                yield _Cut(rows, in_rows, groups, -(-groups // most), n, True)


def _paired(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost | None:
    """Two neighbouring outputs that share products: three multiply-accumulates with one multiplication."""
    p, cin, (_, _, ow, cout) = step.params, xs[0].dims[3], y.dims
    along = [p["kernel_w"], p["stride_w"], p["dilation_h"], p["dilation_w"]]
    if along != [3, 1, 1, 1] or not 2 <= p["kernel_h"] <= PAIRED_WORDS or ow < 2:
        return None
    words, four, rows = p["kernel_h"] * cin, -(-p["kernel_h"] * 3 * cin // 4), y.dims[1]
    groups, single = (rows * ow + 1) // 4, rows * ow % 4 % 3
    direct = cout * (9 * four / 4 + 19) + groups * (cout * (5 * four + 17) + 9 * four) + rows * p["kernel_h"] * 170 + 50
    if direct + single * (cout * (9 * four / 4 + 10) + 9 * four) < LEAST or rows * ow < 4:
        return None
    looked_up = step.unpacking > 0 and cin % 4 == 0 and p["kernel_h"] <= PAIRED_WORDS // 4
    decoded = step.unpacking > 0 and not looked_up
    if decoded:  # a row of weights as bytes
        scratch -= -(-3 * words // 8) * 8

    def decoding(c: _Cut) -> float:  # of codes beside bytes, in words of three weights that are unpacked
        if decoded:
            return 0.5 * (c.parts if c.alone else 1) * c.tiles * cout * words
        return 0.09 * c.tiles * cout * words if looked_up else 0.0

    def cycles(c: _Cut) -> float:  # as in kernels/isa/armv6m/conv2d_paired.c
        calls = 78 * c.parts if c.alone else 26
        group = cout * (c.rows * (6 * words + 33 + 18 * c.parts) + 14 * c.parts) + c.in_rows * (10 * cin + calls) + 300
        return c.groups * group + c.tiles * (cout * (2.75 * words + 53 * c.parts) + 60) + 3 * decoding(c)

    c = min(_cuts(step, xs, y, scratch, 4 if looked_up else 1), key=cycles, default=None)
    if c is None:
        return None
    return "paired", {
        "out": float(c.groups * c.rows * cout),  # eight of them
        "out_part": float(c.groups * c.rows * cout * c.parts),
        "mac": float(c.groups * c.rows * cout * words),
        "group_part": float(c.groups * cout * c.parts),
        "patch": float(c.groups * c.in_rows * cin),
        "patch_row": float(c.groups * c.in_rows * (c.parts if c.alone else 1)),
        "group": float(c.groups),
        "passes": float(c.tiles),
        "row": float(c.tiles * cout * c.parts),
        "weight": float(c.tiles * cout * words) + decoding(c),
    }
