"""Seeded cases for the kernels of arithmetic, reduction and normalisation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from case import Case, _data, _rng

from mica.kernels.integers import Output
from mica.kernels.norm import MOST_OF_FACTOR, NORM_MOST, most_spread, norm_reach_squared

Array = np.ndarray
ACTS = ((-128, 127), (-100, 90))
SHAPES = (
    ((3, 4), (3, 4)),
    ((1, 6, 5, 4), (4,)),
    ((2, 3, 4), (3, 1)),
    ((5,), (2, 1, 5)),
    ((2, 1, 3), (1, 4, 1)),
    ((), (3,)),
    ((), ()),
    ((2, 1, 3, 1, 2, 1), (1, 2, 1, 3, 1, 2)),
    ((1, 1, 1), (1,)),
    ((2, 3, 2, 3, 2, 3), (2, 3, 2, 3, 2, 3)),
    ((7, 1), (1, 9)),
)
# mult and shift of factors from 2**-20 to 2**20, and the ends of what there is.
FACTORS = (
    (2**30 + 12345, 7),
    (2**31 - 1, 10),
    (2**30, -3),
    (0, 0),
    (1, 31),
    (2**31 - 1, -30),
    (2**31 - 1, 31),
    (3, 1),
    (2**30, 0),
)


def arithmetic() -> Iterator[Case]:
    """All of them."""
    yield from of_two()
    yield from products()
    yield from reductions()
    yield from extremes()
    yield from largest()
    yield from norms()
    yield from fine_norms()
    yield from short_norms()
    yield from log_softmaxes()


def of_two() -> Iterator[Case]:
    """mul_s8, minmax_s8, div_s8: broadcasts of every kind, zero points and factors at their ends."""
    own: dict[str, list[dict[str, int]]] = {
        "mul_s8": [{"mult": m, "shift": s} for m, s in FACTORS],
        "minmax_s8": [
            {"mult_a": a, "offset_a": ka, "mult_b": b, "offset_b": kb, "shift": s, "larger": larger}
            for a, ka, b, kb, s in (
                (2**20, 2**19, 2**20, 2**19, 20),
                (2**20, 2**19 + 7 * 2**20, 3 * 2**18, -(2**20), 20),
                (1, 0, -1, 0, 0),
                (2**24 - 1, 127, -(2**24) + 1, -127, 24),
                (2**23, 2**30 - 1, 5, 0, 30),
            )
            for larger in (0, 1)
        ],
        "div_s8": [
            {"factor": f, "shift": s}
            for f, s in (
                (2**20 + 777, 14),
                (2**21, 22),
                (2**21, 0),
                (0, 0),
                (2**21 - 1, 16),
                (12345, 22),
                (1, 0),
                (3, 1),
            )
        ],
    }
    for kernel, params in own.items():
        for k, (a, b) in enumerate(SHAPES):
            name = f"{kernel} {a} {b}"
            rng = _rng(name)
            xs = [_data(rng, a, ""), _data(rng, b, "")]
            for i, p in enumerate(params):
                low, high = ACTS[(i + k) % 2]
                zeros = [int(z) for z in rng.integers(-128, 128, 3)] if i % 3 else [-128, [0, 127, -128][i % 2], 127]
                q = Output(np.broadcast_shapes(a, b), zeros[0], zeros[2], zeros[1])
                act = {"act_min": low, "act_max": high}
                yield Case(f"{name} {p}", kernel, xs, p | act, q, rows=int(np.prod(q.dims)))
        # Every pair of values there is.
        every = np.arange(-128, 128).astype(np.int8)
        act = {"act_min": -128, "act_max": 127}
        q = Output((256, 256), -3, 5, 11)
        yield Case(f"{kernel} all pairs", kernel, [every[:, None].copy(), every], params[0] | act, q, rows=65536)


def products() -> Iterator[Case]:
    """matmul_s8: batches that broadcast, both orders of b, one row, one column, the longest sums."""
    for a, b, data in (
        ((2, 3), (3, 4), ""),
        ((1, 7), (7, 1), ""),
        ((1, 1), (1, 1), ""),
        ((5, 17), (17, 9), ""),
        ((3, 2, 5), (3, 5, 4), ""),
        ((3, 2, 5), (5, 4), ""),
        ((2, 5), (3, 5, 4), ""),
        ((2, 1, 3, 4), (1, 3, 4, 2), ""),
        ((2, 1, 2, 3, 2, 3), (1, 2, 2, 1, 3, 2), ""),
        ((2, 33), (33, 6), "extreme"),
        ((1, 33025), (33025, 2), "lowest"),
    ):
        for transpose in (0, 1):
            name = f"matmul {a} {b} {data} {transpose}"
            rng = _rng(name)
            mult, shift = FACTORS[1] if data != "lowest" else (2**31 - 1, 24)
            zeros = (int(rng.integers(-128, 128)), 4, int(rng.integers(-128, 128))) if not data else (127, 4, 127)
            second = b if not transpose else (*b[:-2], b[-1], b[-2])
            dims = (*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1])
            for low, high in ACTS:
                p = {"transpose_b": transpose, "mult": mult, "shift": shift, "act_min": low, "act_max": high}
                xs = [_data(rng, a, data), _data(rng, second, data)]
                q = Output(dims, *zeros)
                yield Case(f"{name} {low}", "matmul_s8", xs, p, q, rows=int(np.prod(dims[:-1])))


def reductions() -> Iterator[Case]:
    """reduce_s8: each mode over first, last, middle, all and no dimensions; longest sums; a logarithm of nothing."""
    for dims, axis, axes, data in (
        ((7,), 0, 1, ""),
        ((), 0, 0, ""),
        ((3, 4), 0, 1, ""),
        ((3, 4), 1, 1, ""),
        ((3, 4), 0, 2, ""),
        ((3, 4), 1, 0, ""),
        ((2, 3, 4, 5), 1, 2, ""),
        ((2, 3, 2, 3, 2, 3), 3, 1, ""),
        ((5, 1, 2), 1, 1, ""),
        ((2, 33025), 1, 1, "extreme"),
        ((1, 255), 1, 1, "lowest"),
        ((3, 300, 2), 1, 1, ""),
    ):
        rest = (*dims[:axis], *dims[axis + axes :])
        n = int(np.prod(dims[axis : axis + axes]))
        for mode in range(7):
            name = f"reduce {dims} {axis} {axes} {data} mode {mode}"
            rng = _rng(name)
            # Onto about the width of an int8; the logarithm's unit is 2**-16.
            unit = (1.0 / n, 1.0, 1.0, 1.0 / (90 * n), 1.5 / n, 2.0**-15 / max(1.0, n**0.5), 2.0**-12)[mode]
            shift = int(np.floor(-np.log2(unit)))
            mult = int(unit * 2.0 ** (31 + shift) * 0.99)
            for low, high in ACTS:
                for zero in (-128, 127, int(rng.integers(-100, 100))):
                    p = {"axis": axis, "axes": axes, "mode": mode, "mult": mult, "shift": shift}
                    p |= {"bias": -700000 if mode == 6 else 0, "act_min": low, "act_max": high}
                    q = Output(rest, zero, zero if mode in (1, 2) else -7)
                    xs = [_data(rng, dims, data)]
                    yield Case(f"{name} {low} {zero}", "reduce_s8", xs, p, q, rows=int(np.prod(rest)))
    for mode, mult, shift, bias in (
        (5, 2**31 - 1, 15, 0),
        (5, 2**30, -30, 0),
        (6, 2**31 - 1, 31, 2**24),
        (6, 2**30, -30, -(2**24)),
    ):
        x = np.arange(-128, 128).astype(np.int8).reshape(256, 1)
        p = {
            "axis": 1,
            "axes": 1,
            "mode": mode,
            "mult": mult,
            "shift": shift,
            "bias": bias,
            "act_min": -128,
            "act_max": 127,
        }
        yield Case(f"reduce every value {mode} {mult} {shift}", "reduce_s8", [x], p, Output((256,), -128, 3), rows=256)


def extremes() -> Iterator[Case]:
    """argmax_s8: ties everywhere, both ends of them, both extremes."""
    for dims, axis in (
        ((5,), 0),
        ((1,), 0),
        ((3, 4), 0),
        ((3, 4), 1),
        ((2, 7, 3), 1),
        ((2, 1, 2, 3, 2, 40), 5),
        ((2, 300), 1),
    ):
        for minimum in (0, 1):
            for last in (0, 1):
                name = f"argmax {dims} {axis} {minimum} {last}"
                rest = (*dims[:axis], *dims[axis + 1 :])
                p = {"axis": axis, "minimum": minimum, "select_last": last}
                for data in ("", "extreme", "lowest"):
                    xs = [_data(_rng(name), dims, data)]
                    yield Case(f"{name} {data}", "argmax_s8", xs, p, Output(rest), rows=int(np.prod(rest)))


def largest() -> Iterator[Case]:
    """top_k_s8: one, some, all but one and all of an axis; ties everywhere."""
    for dims, axis in (((5,), 0), ((1,), 0), ((3, 4), 0), ((2, 7, 3), 1), ((2, 1, 2, 3, 2, 40), 5), ((2, 300), 1)):
        for k in sorted({1, min(2, dims[axis]), (dims[axis] + 1) // 2, max(1, dims[axis] - 1), dims[axis]}):
            for smallest in (0, 1):
                name = f"top_k {dims} {axis} {k} {smallest}"
                out, rows = (*dims[:axis], k, *dims[axis + 1 :]), int(np.prod(dims[:axis]))
                for data in ("", "extreme", "lowest"):
                    xs = [_data(_rng(name), dims, data)]
                    yield Case(
                        f"{name} {data}", "top_k_s8", xs, {"axis": axis, "smallest": smallest}, Output(out), rows=rows
                    )


def norms() -> Iterator[Case]:
    """layer_norm_s8: per element, per channel, per group; rows of one value, of two, of extremes; every epsilon."""
    for dims, axis, inner, channels, data in (
        ((3, 8), 1, 1, 8, ""),
        ((2, 1), 1, 1, 1, ""),
        ((4, 2), 1, 1, 2, "extreme"),
        ((2, 3, 5), 1, 1, 15, ""),
        ((1, 6, 4, 4), 2, 16, 6, ""),
        ((6, 32), 1, 16, 4, ""),
        ((6, 32), 1, 8, 12, ""),
        ((1, 3, 5), 2, 5, 3, "lowest"),
        ((5,), 0, 1, 5, ""),
        ((2, 2, 2, 3, 2, 2), 3, 4, 12, "extreme"),
        ((1, 65535), 1, 65535, 1, "extreme"),
        ((2, 20000), 1, 1, 20000, ""),
        ((7, 3), 2, 1, 7, ""),
        ((2, 3, 8), 1, 1, 8, ""),
        ((3, 130), 1, 1, 10, "extreme"),
        ((2, 40), 1, 20, 2, "one"),
    ):
        n = int(np.prod(dims[axis:]))
        for mode in range(3):
            name = f"layer norm {dims} {axis} {inner} {channels} {data} {mode}"
            rng = _rng(name)
            x = np.full(dims, 3, np.int8) if data == "one" else _data(rng, dims, data)
            if data == "one":
                x[..., 0] += np.arange(dims[0]).astype(np.int8).reshape((dims[0],) + (1,) * (len(dims) - 2))
            reach = 2**31 - 2 - 2**13
            spread = float(np.sqrt(n)) if mode else 1.0
            for k, epsilon in enumerate((0, 1, 2**20, 2**40 + 12345, 2**62 - 1)):
                gamma = rng.integers(-(2**14) * 50, 2**14 * 50, channels) * spread
                most = reach / (np.sqrt(n) + 3)
                gamma = np.clip(gamma, -most / 2, most / 2).astype(np.int32)
                beta = rng.integers(-(2**14) * 40, 2**14 * 40, channels).astype(np.int32)
                p = {"axis": axis, "inner": inner, "channels": channels, "mode": mode, "shift": 14}
                p |= {
                    "epsilon_low": (epsilon & 0xFFFFFFFF) - (epsilon >> 31 & 1) * 2**32,
                    "epsilon_high": epsilon >> 32,
                }
                p |= {"act_min": ACTS[k % 2][0], "act_max": ACTS[k % 2][1]}
                q = Output(dims, (3, -128, 127, 0, 50)[k], (0, -5, 127)[k % 3])
                blobs = {"gamma": gamma, "beta": beta}
                yield Case(f"{name} {epsilon}", "layer_norm_s8", [x], p, q, blobs, rows=int(np.prod(dims[:axis])))


def fine_norms() -> Iterator[Case]:
    """layer_norm_s8 with gamma and beta as large as they may be, as models have them: results over the whole int8 and
    beyond it."""
    for i, (rows, n, channels, mode, beta_too) in enumerate(
        (
            (3, 64, 64, 1, False),
            (2, 64, 128, 1, True),
            (4, 48, 48, 0, True),
            (4, 128, 128, 0, False),
            (2, 136, 136, 0, True),
            (2, 200, 200, 1, False),
            (3, 8, 8, 0, True),
            (3, 8, 24, 1, False),
            (1, 1024, 1024, 1, True),
            (2, 64, 64, 2, True),
            (2, 60, 60, 1, False),
        )
    ):
        for kind in ("", "extreme", "small"):
            name = f"fine norm {rows}x{n} {channels} {mode} {kind}"
            rng = _rng(name)
            x = _data(rng, (rows, n), "extreme" if kind == "extreme" else "")
            x = (x // 32).astype(np.int8) if kind == "small" else x
            most = (2**31 - 2**26) / (np.sqrt(n) + 3)
            gamma = (most * (1 - 0.4 * beta_too) * rng.uniform(-1, 1, channels)).astype(np.int32)
            beta = (2**29 * rng.uniform(-1, 1, channels) * beta_too).astype(np.int32)
            # A result at the usual end of what is normalised is some 100 or 1,000 steps.
            reach = 3.5 if mode == 0 else 3.5 / np.sqrt(n) if mode == 1 else 3.5 / n
            for steps in (120, 1000):
                shift = min(30, max(1, round(np.log2(float(np.abs(gamma).max()) * reach / steps))))
                p = {"axis": 1, "inner": 1, "channels": channels, "mode": mode, "shift": shift}
                p |= {"epsilon_low": 1000, "epsilon_high": 0, "act_min": -128, "act_max": 127}
                q = Output((rows, n), (0, -7, 120, -128)[i % 4], (0, -60, 128 - 1)[i % 3])
                yield Case(f"{name} {steps}", "layer_norm_s8", [x], p, q, {"gamma": gamma, "beta": beta}, rows=rows)


def short_norms() -> Iterator[Case]:
    """norm_s8: rows of one element up to the longest, of one value, of two, of extremes; parameters at their limits;
    loops of eight and not."""
    for i, (dims, axis, data) in enumerate(
        (
            ((3, 64), 1, ""),
            ((2, 48), 1, "extreme"),
            ((2, 3, 8), 2, ""),
            ((2, 2, 8), 1, "small"),
            ((3, 1), 1, ""),
            ((4, 2), 1, "extreme"),
            ((3, 15), 1, ""),
            ((5,), 0, "lowest"),
            ((2, 40), 1, "one"),
            ((2, 136), 1, "one"),
            ((2, 256), 1, ""),
            ((2, 514), 1, "extreme"),
            ((2, 512), 1, "lowest"),
        )
    ):
        n, rows = int(np.prod(dims[axis:])), int(np.prod(dims[:axis]))
        for k in range(8):
            mode, each, x_zero = k & 1, k >> 1 & 1, (0, -128, 127, 31, -5)[(i + k) % 5]
            name = f"short norm {dims} {axis} {data} {k}"
            rng = _rng(name)
            x = np.full(dims, 3, np.int8) if data == "one" else _data(rng, dims, "" if data == "small" else data)
            x = (x // 50).astype(np.int8) if data == "small" else x
            if data == "one":
                x[0, 0], x_zero = 4, 3
            most = most_spread(mode, n, x_zero)
            fraction = max(f for f in range(17) if most << f < 2**32)
            fraction -= fraction > 0 and k > 3
            epsilon = min(2**32 - 1 - (most << fraction), 2**31 - 1) if k > 3 else (0, 1, 1000, 0)[k]
            # The largest elements that there may be, or some that are small.
            up, factor = 16, 0
            while factor == 0:
                up -= 1
                unit = int(NORM_MOST * (2.0 ** (4 - up + fraction / 2) / np.sqrt(63 * norm_reach_squared(mode, n))))
                factor = unit if unit * (n if mode == 0 else 1) > (MOST_OF_FACTOR if mode == 0 else 65535) // 2 else 0
            factor = min(factor, MOST_OF_FACTOR // n if mode == 0 else 65535, 65535)
            up, factor = (up, factor) if k < 6 else (up - (12 if i == k else 2), 1 + factor // 3)
            ends = (i + k // 2) % 4 == 0
            gamma = rng.integers(-(2**15), 2**15, n) if ends else rng.integers(-(2**13), 2**13, n)
            gamma[:1] = -(2**15) if ends else gamma[:1]
            offset = rng.integers(-(2**30) + 1, 2**30, n) if ends else rng.integers(0, 2**28, n)
            terms = np.stack([gamma, offset], axis=1).reshape(-1) if each else gamma
            p = {"axis": axis, "mode": mode, "each": each, "fraction": fraction, "epsilon": epsilon}
            p |= {
                "factor": factor,
                "up": up,
                "offset": 0 if each else (2**30 - 1) * (k % 2 * 2 - 1) if ends else 257 << 19,
            }
            p |= {"act_min": ACTS[k == 5][0], "act_max": ACTS[k == 5][1]}
            yield Case(name, "norm_s8", [x], p, Output(dims, x_zero, 9), {"terms": terms.astype(np.int32)}, rows=rows)


def log_softmaxes() -> Iterator[Case]:
    """log_softmax_s8, whole and its sum alone: axis lengths from 1, sharp and flat tables, terms at their limits."""
    for rows, axis, scale, bits in (
        ((1,), 12, 0.1, 23),
        ((), 10, 0.5, 23),
        ((4, 3), 2, 0.02, 23),
        ((2,), 1, 1.0, 23),
        ((1,), 1001, 0.03, 21),
        ((1,), 65535, 0.001, 15),
        ((3,), 5, 1e-9, 0),
        ((2,), 17, 8.0, 4),
    ):
        table = {"table": np.round(2.0**bits * np.exp(-scale * np.arange(256))).astype(np.uint32)}
        for total in (0, 1):
            name = f"log softmax {rows} {axis} {scale} {bits} {total}"
            rng = _rng(name)
            dims = rows if total else (*rows, axis)
            for mult, log, offset, shift in (
                (2**20, -(2**21), 2**19, 20),
                (2**22, 2**23, 3 - 2**28, 21),
                (0, 2**26 - 1, 31, 30),
            ):
                p = {"sum": total, "mult": mult, "mult_log": log, "offset": offset, "shift": shift}
                for k, data in enumerate(("", "extreme", "lowest")):
                    act = {"act_min": ACTS[k % 2][0], "act_max": ACTS[k % 2][1]}
                    xs, q = [_data(rng, (*rows, axis), data)], Output(dims, 0, 100)
                    yield Case(
                        f"{name} {mult} {data}", "log_softmax_s8", xs, p | act, q, table, rows=int(np.prod(rows))
                    )
