"""Seeded cases for the kernels: a name, and the inputs of the C kernel and of the oracle.

The sweeps are small and broad: every stride, pad, dilation, group and odd channel count meets a plane that is only just
large or small enough for it; then data and constants at the ends of their ranges.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from arithmetic_cases import arithmetic
from attention_cases import attention, rotations
from audio_cases import audio_cases, pcen_cases, speech_cases
from axes_cases import axes_cases
from case import Case, _data, _rng
from movement_cases import movement
from recurrent_cases import recurrences
from tabular_cases import tabular_cases
from transposed_cases import transposed
from vector_cases import vector_cases
from wide_cases import wide_cases

from mica.kernels.integers import Output

Array = np.ndarray
Rng = np.random.Generator


def _weights(rng: Rng, shape: tuple[int, ...], kind: str) -> Array:
    if kind == "extreme":
        return rng.choice(np.array([-127, 127], np.int8), shape)
    if kind == "lowest":
        return np.full(shape, -128, np.int8)  # the general kernel takes it
    return rng.integers(-127, 128, shape, dtype=np.int8)


def _channels(rng: Rng, weights: Array, kind: str) -> dict[str, Array]:
    """bias, mult and shift that spread the outputs over the int8 range, or stand at their limits."""
    n, k = weights.shape[0], weights[0].size
    room = 2**31 - 1 - 128 * np.abs(weights.astype(np.int64)).reshape(n, -1).sum(axis=1)
    if kind == "limits":
        edge = [
            (2**31 - 1, 31),
            (2**31 - 1, 1),
            (2**31 - 1, 0),
            (2**30, -30),
            (1, -30),
            (0, 0),
            (2**31 - 1, -30),
            (1, 31),
        ]
        picked = [edge[i % len(edge)] for i in range(n)]
        bias = np.where(rng.random(n) < 0.5, room, -room)
        mult, shift = np.array([m for m, _ in picked]), np.array([s for _, s in picked])
    else:
        bias = np.clip(rng.integers(-3000, 3000, n), -room, room)
        mult = rng.integers(2**30, 2**31, n)
        shift = 6 + int(np.log2(k) / 2) + rng.integers(-1, 2, n)
    return {"bias": bias.astype(np.int32), "mult": mult.astype(np.int32), "shift": shift.astype(np.int8)}


def _window(
    kernel: tuple[int, int],
    stride: tuple[int, int] = (1, 1),
    pad: tuple[int, int] = (0, 0),
    dilation: tuple[int, int] = (1, 1),
) -> dict[str, int]:
    pairs = {"kernel": kernel, "stride": stride, "dilation": dilation}
    window = {f"{name}_{axis}": pair[i] for name, pair in pairs.items() for i, axis in enumerate("hw")}
    return window | {"pad_top": pad[0], "pad_left": pad[1]}


def _outs(size: int, kernel: int, stride: int, pad: int, pad_end: int, dilation: int) -> int:
    return (size + pad + pad_end - (kernel - 1) * dilation - 1) // stride + 1


# name: (H, W, Cin), Cout, kernel, stride, pad begin, pad end, dilation, groups, data, constants
CONVS: dict[
    str,
    tuple[
        tuple[int, int, int],
        int,
        tuple[int, int],
        tuple[int, int],
        tuple[int, int],
        tuple[int, int],
        tuple[int, int],
        int,
        str,
        str,
    ],
] = {
    "pointwise": ((5, 4, 8), 16, (1, 1), (1, 1), (0, 0), (0, 0), (1, 1), 1, "", ""),
    "pointwise stride 2": ((5, 5, 7), 3, (1, 1), (2, 2), (0, 0), (0, 0), (1, 1), 1, "", ""),
    "3x3": ((6, 7, 5), 4, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1, "", ""),
    "3x3 valid": ((6, 7, 3), 9, (3, 3), (1, 1), (0, 0), (0, 0), (1, 1), 1, "", ""),
    "3x3 stride 2 same": ((7, 6, 3), 8, (3, 3), (2, 2), (0, 0), (1, 1), (1, 1), 1, "", ""),
    "kws 10x4": ((49, 10, 1), 8, (10, 4), (2, 2), (4, 1), (5, 1), (1, 1), 1, "", ""),
    "asymmetric": ((8, 5, 2), 3, (2, 5), (3, 1), (1, 4), (0, 2), (1, 1), 1, "", ""),
    "dilation 2": ((7, 7, 3), 4, (3, 3), (1, 1), (2, 2), (2, 2), (2, 2), 1, "", ""),
    "dilation 1x3 stride 2": ((5, 11, 3), 4, (3, 3), (2, 2), (1, 3), (1, 3), (1, 3), 1, "", ""),
    "dilation past the plane": ((1, 1, 2), 3, (2, 2), (1, 1), (1, 1), (1, 1), (2, 2), 1, "", ""),
    "groups 2": ((5, 5, 6), 4, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 2, "", ""),
    "groups 3 dilation": ((6, 6, 9), 6, (3, 2), (1, 2), (1, 0), (1, 1), (2, 1), 3, "", ""),
    "groups are channels": ((4, 4, 5), 10, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 5, "", ""),
    "pad wider than kernel": ((2, 3, 2), 3, (1, 1), (1, 1), (2, 3), (2, 3), (1, 1), 1, "", ""),
    "kernel larger than plane": ((2, 2, 3), 2, (5, 5), (1, 1), (2, 2), (2, 2), (1, 1), 1, "", ""),
    "1-D wide": ((1, 20, 3), 4, (1, 5), (1, 2), (0, 2), (0, 2), (1, 1), 1, "", ""),
    "1-D tall": ((20, 1, 3), 4, (5, 1), (3, 1), (2, 0), (1, 0), (2, 1), 1, "", ""),
    "one pixel": ((1, 1, 1), 1, (1, 1), (1, 1), (0, 0), (0, 0), (1, 1), 1, "", ""),
    "one pixel 3x3": ((1, 1, 2), 2, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1, "", ""),
    "stride past the plane": ((3, 3, 2), 2, (2, 2), (7, 7), (1, 1), (9, 9), (1, 1), 1, "", ""),
    "odd channels": ((3, 3, 13), 11, (2, 2), (1, 1), (0, 0), (0, 0), (1, 1), 1, "", ""),
    "extreme data": ((5, 5, 4), 6, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1, "extreme", ""),
    "lowest data": ((5, 5, 4), 6, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1, "lowest", ""),
    "limits": ((3, 3, 4), 16, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1, "extreme", "limits"),
    "limits with weights -128": ((3, 3, 4), 16, (2, 2), (1, 1), (1, 1), (1, 1), (1, 1), 1, "lowest", "limits"),
}


def convolutions() -> Iterator[Case]:
    """conv2d_s8 from CONVS; each also with a clamp, and with zero points at their ends."""
    for name, ((h, w, cin), cout, k, s, pad, end, dil, groups, data, constants) in CONVS.items():
        rng = _rng(name)
        dims = (1, _outs(h, k[0], s[0], pad[0], end[0], dil[0]), _outs(w, k[1], s[1], pad[1], end[1], dil[1]), cout)
        weights = _weights(rng, (cout, *k, cin // groups), data)
        blobs = {"weights": weights} | _channels(rng, weights, constants)
        p = _window(k, s, pad, dil) | {"groups": groups}
        x = _data(rng, (1, h, w, cin), data)
        for tail, act, zeros in (
            ("", (-128, 127), (int(rng.integers(-128, 128)), int(rng.integers(-20, 20)))),
            (" relu6", (-7, 90), (-128, -7)),
            (" clamp to one value", (5, 5), (127, 127)),
        ):
            q = Output(dims, *zeros)
            yield Case(f"conv2d {name}{tail}", "conv2d_s8", [x], p | {"act_min": act[0], "act_max": act[1]}, q, blobs)


# name: (H, W, C), multiplier, kernel, stride, pad begin, pad end, dilation, data, constants
DEPTHWISE: dict[
    str,
    tuple[
        tuple[int, int, int],
        int,
        tuple[int, int],
        tuple[int, int],
        tuple[int, int],
        tuple[int, int],
        tuple[int, int],
        str,
        str,
    ],
] = {
    "3x3": ((6, 5, 8), 1, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), "", ""),
    "3x3 valid": ((6, 5, 3), 1, (3, 3), (1, 1), (0, 0), (0, 0), (1, 1), "", ""),
    "3x3 stride 2": ((7, 8, 5), 1, (3, 3), (2, 2), (0, 0), (1, 1), (1, 1), "", ""),
    "multiplier 3": ((4, 4, 2), 3, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), "", ""),
    "one channel": ((5, 5, 1), 4, (2, 3), (1, 2), (1, 1), (0, 1), (1, 1), "", ""),
    "dilation 2x3": ((9, 9, 3), 1, (3, 3), (1, 1), (2, 3), (2, 3), (2, 3), "", ""),
    "dilation past the plane": ((1, 1, 2), 1, (2, 2), (1, 1), (1, 1), (1, 1), (2, 2), "", ""),
    "one pixel": ((1, 1, 6), 1, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), "", ""),
    "1x1": ((3, 3, 7), 1, (1, 1), (1, 1), (0, 0), (0, 0), (1, 1), "", ""),
    "pad wider than kernel": ((2, 2, 3), 1, (1, 2), (1, 1), (2, 3), (2, 3), (1, 1), "", ""),
    "1-D": ((1, 16, 3), 1, (1, 4), (1, 3), (0, 1), (0, 2), (1, 1), "", ""),
    "plane as kernel": ((5, 4, 3), 1, (5, 4), (1, 1), (0, 0), (0, 0), (1, 1), "", ""),
    "extreme": ((5, 5, 9), 1, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), "extreme", ""),
    "limits": ((3, 3, 8), 2, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), "lowest", "limits"),
}


def depthwise() -> Iterator[Case]:
    """depthwise_conv2d_s8 from DEPTHWISE."""
    for name, ((h, w, c), m, k, s, pad, end, dil, data, constants) in DEPTHWISE.items():
        rng = _rng(name)
        dims = (1, _outs(h, k[0], s[0], pad[0], end[0], dil[0]), _outs(w, k[1], s[1], pad[1], end[1], dil[1]), c * m)
        weights = _weights(rng, (c * m, *k), data)
        blobs = {"weights": weights} | _channels(rng, weights, constants)
        x = _data(rng, (1, h, w, c), data)
        for tail, act, zeros in (
            (("", (-128, 127), (int(rng.integers(-128, 128)), 3))),
            (" relu", (-90, 70), (127, -90)),
        ):
            p = _window(k, s, pad, dil) | {"act_min": act[0], "act_max": act[1]}
            yield Case(f"depthwise {name}{tail}", "depthwise_conv2d_s8", [x], p, Output(dims, *zeros), blobs)


def fully_connected() -> Iterator[Case]:
    """Leading dimensions, odd lengths, limits."""
    for rows, k, n, data, constants in (
        ((1,), 1, 1, "", ""),
        ((1,), 64, 12, "", ""),
        ((), 7, 5, "", ""),
        ((3,), 17, 9, "", ""),
        ((2, 3, 2), 5, 4, "", ""),
        ((1,), 640, 3, "", ""),
        ((2,), 33, 6, "extreme", ""),
        ((1,), 1024, 8, "extreme", "limits"),
        ((1,), 1000, 16, "lowest", "limits"),
    ):
        name = f"fully connected {rows} {k} {n} {data} {constants}"
        rng = _rng(name)
        weights = _weights(rng, (n, k), data)
        blobs = {"weights": weights} | _channels(rng, weights, constants)
        for act in ((-128, 127), (-10, 20)):
            p = {"act_min": act[0], "act_max": act[1]}
            yield Case(
                f"{name} {act}",
                "fully_connected_s8",
                [_data(rng, (*rows, k), data)],
                p,
                Output((*rows, n), 5, -10),
                blobs,
            )


def pools() -> Iterator[Case]:
    """max_pool2d_s8 and average_pool2d_s8 over the same windows."""
    for (h, w, c), k, s, pad, end, dil in (
        ((4, 4, 3), (2, 2), (2, 2), (0, 0), (0, 0), (1, 1)),
        ((5, 7, 4), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1)),
        ((5, 5, 1), (2, 3), (1, 2), (1, 2), (1, 0), (1, 1)),
        ((25, 5, 5), (25, 5), (1, 1), (0, 0), (0, 0), (1, 1)),
        ((7, 7, 2), (1, 1), (3, 3), (0, 0), (0, 0), (1, 1)),
        (
            (5, 5, 2),
            (2, 2),
            (2, 2),
            (0, 0),
            (1, 1),
            (1, 1),
        ),  # ceil mode: the last window passes the plane, not the pads
        ((6, 5, 3), (3, 2), (2, 2), (0, 1), (2, 0), (1, 1)),
        ((1, 9, 3), (1, 3), (1, 1), (0, 2), (0, 2), (1, 1)),
        ((1, 1, 5), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),
        ((7, 7, 3), (3, 3), (1, 1), (2, 2), (2, 2), (2, 2)),
        ((1, 1, 2), (2, 2), (1, 1), (1, 1), (1, 1), (2, 2)),  # no tap inside at all
    ):
        name = f"{h}x{w}x{c} {k} / {s} pad {pad} {end} dilation {dil}"
        rng = _rng(name)
        dims = (1, _outs(h, k[0], s[0], pad[0], end[0], dil[0]), _outs(w, k[1], s[1], pad[1], end[1], dil[1]), c)
        x = _data(rng, (1, h, w, c), "")
        p = _window(k, s, pad, dil)
        for act in ((-128, 127), (-30, 40)):
            clamp = {"act_min": act[0], "act_max": act[1]}
            yield Case(f"max pool {name} {act}", "max_pool2d_s8", [x], p | clamp, Output(dims, 9, 9))
            if dil != (1, 1):
                continue
            for include, entries in sorted({(i, n) for i in (0, 1) for n in (1, k[0] * k[1])}, reverse=True):
                # The true mean with a rescale of 1.7, for each possible number of taps.
                real = 1.7 / (np.arange(entries) + 1 if entries > 1 else np.array([k[0] * k[1]]))
                shift = np.floor(-np.log2(real)).astype(int)
                blobs = {"mult": np.minimum(np.round(real * 2.0 ** (31 + shift)), 2**31 - 1).astype(np.int32)}
                blobs["shift"] = shift.astype(np.int8)
                ends = {"pad_bottom": end[0], "pad_right": end[1], "count_include_pad": include}
                full = f"average pool {name} {act} include {include} entries {entries}"
                yield Case(
                    full,
                    "average_pool2d_s8",
                    [x],
                    p | clamp | ends,
                    Output(dims, int(rng.integers(-128, 128)), -4),
                    blobs,
                )


def additions() -> Iterator[Case]:
    """Broadcasts of every kind, differences, and sums that fill the int32."""
    shapes = (
        ((3, 4), (3, 4)), ((1, 6, 5, 4), (4,)), ((2, 3, 4), (3, 1)), ((5,), (2, 1, 5)), ((2, 1, 3), (1, 4, 1)),
        ((), (3,)), ((), ()), ((2, 1, 3, 1, 2, 1), (1, 2, 1, 3, 1, 2)),
        ((1, 1, 1), (1,)), ((2, 3, 2, 3, 2, 3), (2, 3, 2, 3, 2, 3)),
        ((7, 1), (1, 9)),
    )  # fmt: skip
    muls = (
        (1 << 20, 1 << 19, 1 << 19, 20),
        (-(1 << 20), 3 << 18, 12345, 20),
        (1, 1, 0, 0),
        (1 << 22, -(1 << 22), 1 - 2**30, 30),
    )
    for a, b in shapes:
        name = f"add {a} {b}"
        rng = _rng(name)
        xs = [_data(rng, a, ""), _data(rng, b, "")]
        for mult_a, mult_b, offset, shift in muls:
            p = {"mult_a": mult_a, "mult_b": mult_b, "offset": offset, "shift": shift, "act_min": -100, "act_max": 127}
            yield Case(f"{name} {p}", "add_s8", xs, p, Output(np.broadcast_shapes(a, b), 0, 5))
    ends = np.array([-128, 127, 0], np.int8)
    for zero in (-128, 127):
        most = 2**24 - 1  # 128 * (2**24 - 1) + 127 < 2**31
        p = {"mult_a": most, "mult_b": 0, "offset": 127, "shift": 0, "act_min": -128, "act_max": 127}
        yield Case(f"add at the limit, zero {zero}", "add_s8", [ends, ends], p, Output((3,), 0, zero))


def softmaxes() -> Iterator[Case]:
    """Axis lengths from 1, sharp and flat tables, tables at the limit of their range."""
    for rows, axis, scale, bits in (
        ((1,), 12, 0.1, 23), ((), 10, 0.5, 23), ((4, 3), 2, 0.02, 23), ((2,), 1, 1.0, 23), ((1,), 256, 1e-6, 23),
        ((1,), 1001, 0.03, 21), ((1,), 65535, 0.001, 15), ((3,), 5, 1e-9, 0), ((2,), 17, 8.0, 4),
    ):  # fmt: skip
        name = f"softmax {rows} {axis} {scale} {bits}"
        rng = _rng(name)
        table = np.round(2.0**bits * np.exp(-scale * np.arange(256))).astype(np.uint32)
        dims = (*rows, axis)
        for data in ("", "extreme", "lowest"):
            yield Case(
                f"{name} {data}", "softmax_s8", [_data(rng, dims, data)], {}, Output(dims, 3, -128), {"table": table}
            )
        for scale_out, zero in ((1 / 255, -128), (0.01, 0), (1.0, 127), (2.0**-20, -3)):
            q = min(bits, int(31 + np.log2(scale_out)))
            wide = np.round(2.0**q * np.exp(-scale * np.arange(256)))
            wide = np.concatenate([wide, np.floor(wide / scale_out)]).astype(np.uint32)
            yield Case(
                f"{name} wide {scale_out:.3g} {zero}",
                "softmax_s8",
                [_data(rng, dims, "")],
                {},
                Output(dims, 3, zero),
                {"table": wide},
            )


def others() -> Iterator[Case]:
    """lut_s8 and transpose_s8."""
    for dims in ((), (1,), (256,), (3, 5, 7)):
        rng = _rng(f"lut {dims}")
        table = {"table": rng.integers(-128, 128, 256, dtype=np.int8)}
        yield Case(f"lut {dims}", "lut_s8", [_data(rng, dims, "")], {}, Output(dims), table)
    every = np.arange(-128, 128).astype(np.int8)
    yield Case("lut of every value", "lut_s8", [every], {}, Output((256,)), {"table": every[::-1].copy()})
    for dims, perm in (
        ((), ()), ((5,), (0,)), ((4, 3), (1, 0)), ((3, 4), (0, 1)), ((1, 3, 4, 5), (0, 3, 1, 2)),
        ((1, 5, 3, 4), (0, 2, 3, 1)), ((1, 3, 5, 8), (0, 2, 3, 1)), ((3, 4), (1, 0)), ((2, 3, 12), (0, 2, 1)),
        ((2, 3, 4), (2, 1, 0)), ((2, 3, 2, 3, 2, 3), (5, 3, 1, 0, 2, 4)), ((1, 1, 1, 7, 1, 1), (3, 5, 0, 1, 4, 2)),
        ((4, 3, 2, 5), (2, 0, 3, 1)),
    ):  # fmt: skip
        rng = _rng(f"transpose {dims} {perm}")
        p = {f"perm_{i}": v for i, v in enumerate(perm)}
        yield Case(
            f"transpose {dims} {perm}", "transpose_s8", [_data(rng, dims, "")], p, Output(tuple(dims[i] for i in perm))
        )


CASES = [
    *convolutions(),
    *depthwise(),
    *transposed(_weights, _channels, _window),
    *fully_connected(),
    *pools(),
    *additions(),
    *softmaxes(),
    *others(),
    *movement(),
    *attention(),
    *rotations(),
    *recurrences(),
    *arithmetic(),
    *tabular_cases(),
    *vector_cases(),
    *audio_cases(),
    *speech_cases(),
    *pcen_cases(),
    *axes_cases(),
    *wide_cases(),
]
