"""Cases of the kernels of int16: windows of every kind, sums of more products than 32 bits hold,
and data at the ends of its range."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from case import Case, _rng

from mica.kernels.integers import Output
from mica.kernels.wide import reach_of

Array = np.ndarray
Rng = np.random.Generator
OPEN = {"act_min": -(2**15), "act_max": 2**15 - 1}
EDGES = ((2**31 - 1, 31), (2**31 - 1, 1), (2**31 - 1, -30), (1, -30), (0, 0), (1, 31), (2**30, 0))


def data(rng: Rng, shape: tuple[int, ...], kind: str) -> Array:
    if kind in ("extreme", "limits"):
        return rng.choice(np.array([-(2**15), 2**15 - 1], np.int16), shape)
    if kind == "lowest":
        return np.full(shape, -(2**15), np.int16)
    return rng.integers(-(2**15), 2**15, shape, dtype=np.int16)


def _window(
    kernel: tuple[int, int], stride: tuple[int, int], pad: tuple[int, int], dilation: tuple[int, int]
) -> dict[str, int]:
    pairs = {"kernel": kernel, "stride": stride, "dilation": dilation}
    window = {f"{name}_{axis}": pair[i] for name, pair in pairs.items() for i, axis in enumerate("hw")}
    return window | {"pad_top": pad[0], "pad_left": pad[1]}


def channels(rng: Rng, weights: Array, kind: str) -> dict[str, Array]:
    n, k = weights.shape[0], weights[0].size
    if kind == "limits":  # the largest bias, and the largest mult that its reach allows
        bias = rng.choice(np.array([-(2**31), 2**31 - 1]), n).astype(np.int32)
        most = 2**46 // ((reach_of(weights, bias) >> 16) + 1)
        picked = [EDGES[i % len(EDGES)] for i in range(n)]
        mult, shift = np.minimum(most, [m for m, _ in picked]), np.array([s for _, s in picked])
    else:
        bias = rng.integers(-(2**22), 2**22, n).astype(np.int32)
        most = 2**46 // ((reach_of(weights, bias) >> 16) + 1)
        mult = np.minimum(most, rng.integers(2**30, 2**31, n))
        drop = 31 - np.ceil(np.log2(mult + 1)).astype(np.int64)
        shift = 6 + int(np.log2(k) / 2) + rng.integers(-1, 2, n) - drop
    return {"bias": bias, "mult": mult.astype(np.int32), "shift": shift.astype(np.int8)}


# (H, W, Cin), Cout, (OH, OW), kernel, stride, pad, dilation, groups
CONVS = (
    ((5, 4, 3), 4, (5, 4), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((7, 6, 2), 5, (3, 3), (2, 3), (2, 2), (0, 1), (2, 1), 1),
    ((6, 7, 4), 8, (6, 4), (3, 2), (1, 2), (1, 0), (1, 2), 2),
    ((5, 5, 6), 6, (5, 5), (3, 3), (1, 1), (1, 1), (1, 1), 6),
    ((4, 6, 3), 9, (2, 3), (3, 3), (2, 2), (1, 1), (1, 1), 3),
    ((1, 3, 700), 2, (1, 3), (1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((1, 1, 9), 7, (1, 1), (1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((2, 1, 65535), 1, (2, 1), (1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((2, 2, 1), 2, (4, 5), (2, 2), (1, 1), (4, 4), (3, 3), 1),
)


def wide_cases() -> Iterator[Case]:
    """All kernels of this family."""
    for i, (x, cout, outs, kernel, stride, pad, dilation, groups) in enumerate(CONVS):
        for kind in ("", "extreme", "lowest", "limits"):
            rng = _rng(f"conv16 {i} {kind}")
            shape = (cout, *kernel, x[2] // groups)
            low = {"extreme": 127, "lowest": -128}.get(kind)
            w = rng.integers(-128, 128, shape, dtype=np.int8) if low is None else np.full(shape, low, np.int8)
            act = {"act_min": -20000, "act_max": 30000} if i % 2 else OPEN
            p = _window(kernel, stride, pad, dilation) | {"groups": groups} | act
            blobs = {"weights": w, **channels(rng, w, kind)}
            name = f"conv16 {i} {kind}"
            yield Case(name, "conv2d_s16", [data(rng, (1, *x), kind)], p, Output((1, *outs, cout)), blobs, rows=outs[0])
    for i, (x, _, outs, kernel, stride, pad, dilation, _) in enumerate(CONVS[:5] + CONVS[6:7] + CONVS[8:]):
        for largest in (0, 1):
            for kind in ("", "extreme", "lowest"):
                rng = _rng(f"pool16 {i} {largest} {kind}")
                taps = kernel[0] * kernel[1]
                n = 0 if largest else 1 if i == 3 else taps
                real = np.log2(np.arange(1, n + 1) if n > 1 else np.full(n, taps))
                blobs = {"mult": rng.integers(2**30, 2**31, n).astype(np.int32), "shift": np.ceil(real).astype(np.int8)}
                p = (
                    _window(kernel, stride, pad, dilation)
                    | {"largest": largest}
                    | ({"act_min": -9, "act_max": 30000} if i % 2 else OPEN)
                )
                dims = (1, *outs, x[2])
                yield Case(
                    f"pool16 {i} {largest} {kind}",
                    "pool_s16",
                    [data(rng, (1, *x), kind)],
                    p,
                    Output(dims),
                    blobs,
                    rows=outs[0],
                )
    for i, (a, b, y) in enumerate(
        (
            ((2, 3, 4), (2, 3, 4), (2, 3, 4)),
            ((3, 1), (1, 5), (3, 5)),
            ((1, 7), (7,), (1, 7)),
            ((2, 3, 4), (4,), (2, 3, 4)),
            ((), (3,), (3,)),
        )
    ):
        for k, (ma, mb, mab, shift) in enumerate(
            (
                (2**29, 2**29, 0, 30),
                (2**30, -(2**31), 0, 31),
                (0, 0, 2**30, 45),
                (-(2**31), -(2**31), -(2**31), 62),
                (1, 0, 0, 1),
                (2**31 - 1, 0, 0, 1),
            )
        ):
            rng = _rng(f"binary16 {i} {k}")
            kind = ("", "extreme", "lowest")[(i + k) % 3]
            p = {"mult_a": ma, "mult_b": mb, "mult_ab": mab, "shift": shift} | (
                OPEN if k % 2 else {"act_min": -30000, "act_max": 0}
            )
            yield Case(
                f"binary16 {i} {k}",
                "binary_s16",
                [data(rng, a, kind), data(rng, b, kind)],
                p,
                Output(y),
                rows=int(np.prod(y)),
            )
    for bits in (1, 2, 7, 9, 12):
        for kind in ("", "extreme", "lowest"):
            rng = _rng(f"lut16 {bits} {kind}")
            x = np.concatenate([data(rng, (50,), kind), np.array([-(2**15), -1, 0, 1, 2**15 - 1], np.int16)]).reshape(
                5, 11
            )
            yield Case(
                f"lut16 {bits} {kind}",
                "lut_s16",
                [x],
                {"bits": bits},
                Output(x.shape),
                {"table": data(rng, (2**bits + 1,), kind)},
                rows=55,
            )
    for rows, axis, step in ((1, 2, 1e-3), (3, 10, 2e-4), (2, 1, 1.0), (1, 1000, 1e-5), (4, 5, 0.5)):
        for kind in ("", "extreme", "lowest"):
            rng = _rng(f"softmax16 {rows} {axis} {kind}")
            places = min(24, 31 - int(axis - 1).bit_length())
            d = np.arange(256.0)
            table = np.rint(np.concatenate([2**24 * np.exp(-256 * d * step), 2.0**places * np.exp(-d * step)])).astype(
                np.uint32
            )
            x = data(rng, (rows, axis), kind)
            yield Case(
                f"softmax16 {rows} {axis} {kind}",
                "softmax_s16",
                [x],
                {},
                Output(x.shape),
                {"exponentials": table},
                rows=rows,
            )
    for i, (mult, shift) in enumerate(((2**30, 0), (2**31 - 1, -7), (2**30, 8), *EDGES)):
        rng = _rng(f"between {i}")
        p = {"mult": mult, "shift": shift}
        x = rng.integers(-128, 128, (3, 4, 5), dtype=np.int8)
        yield Case(f"widen {i}", "widen_s16", [x], p | OPEN, Output((60,), (-128, 3, 127)[i % 3]), rows=60)
        p |= {"act_min": -128, "act_max": 127} if i % 2 else {"act_min": -100, "act_max": 99}
        x = data(rng, (2, 13), ("", "extreme")[i % 2])
        yield Case(f"narrow {i}", "narrow_s8", [x], p, Output((2, 13), 0, (-128, 0, 127, 5)[i % 4]), rows=26)
