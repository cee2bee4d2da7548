"""Calls of kernels as .mica files of one step, for the cores that have kernels of their own.

All cases of tests/kernels, and shapes that fast kernels could stumble over: planes that are no multiple of a group of
pixels, dot products longer than any unrolled loop, windows that hang over every edge, clamps,
data and shifts at their limits. Each runs with the scratch it wants, with less, and with none.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from bare_metal import Job
from cases import CASES
from layers import channels, weights
from one_step import few, model_of
from pad_model import pad_model

from mica.file import check, codec
from mica.file.codec import ModelFile, StepRecord, TensorRecord
from mica.format import schema
from mica.format.names import clean
from mica.format.weights import CODES4, ROWS
from mica.kernels import KERNEL_BY_NAME
from mica.packing.model import set_scratch

KERNELS = (
    "conv2d_s8",
    "depthwise_conv2d_s8",
    "fully_connected_s8",
    "max_pool2d_s8",
    "average_pool2d_s8",
    "add_s8",
    "mul_s8",
    "softmax_s8",
    "lut_s8",
)
MOST_BYTES = 100_000  # of a case's tensors: what the emulated core's RAM holds


def one_step(name, kernel, xs, y_dims, zeros, params, blobs, scratch=None, plain=False, in_place=False) -> Job:
    """A file of one step; zeros: of the inputs, then of the output. in_place: y lies where the first input does."""
    tensors, at = [], 0
    for i, x in enumerate(xs):
        tensors.append(TensorRecord(f"x{i}", "int8", x.shape, 0.05, zeros[i], offset=at))
        at += -(-max(x.size, 1) // 16) * 16
    wide = blobs.get("table", np.zeros(0)).size == 512
    scale = 1 / 256 if kernel == "softmax_s8" and not wide else 0.05
    tensors.append(TensorRecord("y", "int8", tuple(y_dims), scale, zeros[-1], offset=0 if in_place else at))
    step = StepRecord(clean(name), kernel, tuple(range(len(xs))), (len(xs),), params, blobs)
    step.flags = codec.step_flags(step)
    step.layout = 0 if plain else KERNEL_BY_NAME[kernel].layout.code
    model = ModelFile(tensors, [step], list(range(len(xs))), [len(xs)], {})
    set_scratch(model, schema.SCRATCH_LIMIT)
    return Job(name, codec.encode(model), xs, scratch)


def of_the_oracle() -> Iterator[Job]:
    """The cases of tests/kernels that a file of one step can say."""
    for c in CASES:
        size = sum(x.size for x in c.xs) + math.prod(c.q.dims)
        if c.kernel not in KERNELS or size > MOST_BYTES or c.blobs.get("table", np.zeros(0)).size == 512:
            continue
        zeros = [c.q.x_zero] * len(c.xs) + [c.q.y_zero]
        if len(c.xs) == 2 and c.kernel == "mul_s8":
            zeros[1] = c.q.b_zero
        if c.kernel == "max_pool2d_s8":
            zeros[0] = c.q.y_zero
        yield one_step(c.name, c.kernel, c.xs, c.q.dims, zeros, c.p, c.blobs)


def _rng(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))


def _data(rng: np.random.Generator, dims: tuple[int, ...], kind: str) -> np.ndarray:
    if kind == "extreme":
        return rng.choice(np.array([-128, -128, -128, 127], np.int8), dims)
    if kind == "fine":
        return rng.integers(-5, 6, dims, dtype=np.int8)
    return rng.integers(-128, 128, dims, dtype=np.int8)


def _weights(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    return rng.integers(-3, 4, shape, dtype=np.int8) if kind == "fine" else weights(rng, shape, kind)


CLAMPS = ((-128, 127, 4), (-128, 127, -128), (-7, 90, -7), (-128, -3, -60), (20, 20, 3), (-100, 127, 100))


def _constants(rng: np.random.Generator, w: np.ndarray, kind: str) -> dict[str, np.ndarray]:
    """Channels; "fine": an accumulator off by one can be seen in the output;
    "limits": shifts from 1 to 22, the largest and smallest multipliers, biases as large as FAST allows."""
    n, k = w.shape[0], w[0].size
    blobs = channels(rng, n, k)
    if kind == "fine":
        blobs["mult"], blobs["shift"] = np.full(n, 2**31 - 1, np.int32), np.full(n, 1, np.int8)
        blobs["bias"] = rng.integers(-9, 10, n).astype(np.int32)
    if kind == "limits":
        room = check.FAST_LIMIT - 1 - check.reduction(w)
        blobs["shift"] = (1 + np.arange(n) * 7 % 22).astype(np.int8)
        blobs["mult"] = np.resize(np.array([2**31 - 1, 0, 1, 2**30, 65535, 65536, 2**31 - 65536], np.int64), n).astype(
            np.int32
        )
        blobs["bias"] = np.where(np.arange(n) % 3 == 0, room, np.where(np.arange(n) % 3 == 1, -room, 0)).astype(
            np.int32
        )
        # Some that come out in the middle of the range, exactly on a half.
        blobs["mult"][n // 2 :], blobs["shift"][n // 2 :], blobs["bias"][n // 2 :] = 2**30, 9, 255
    return blobs


def _windows(size: int, kernel: int, stride: int, pad: int, pad_end: int, dilation: int) -> int:
    return (size + pad + pad_end - (kernel - 1) * dilation - 1) // stride + 1


def convolutions() -> Iterator[Job]:
    """Every residue of pixels, channels and lengths by 4, all windows at the edges,
    and products of more than one part."""
    shapes = [
        # H, W, Cin, Cout, kernel, stride, pad begin, pad end, dilation
        *((h, w, c, 5, (1, 1), 1, (0, 0), (0, 0), 1) for h, w, c in itertools.product((1, 3), (4, 5, 6, 7), (1, 4, 6))),
        *((6, 7, c, 3, (3, 3), s, (1, 1), (1, 1), 1) for c, s in itertools.product((1, 2, 3, 4, 8), (1, 2, 3))),
        *((5, 9, c, 4, (2, 3), 1, (0, 2), (1, 0), 2) for c in (3, 4)),
        (9, 3, 4, 3, (3, 1), 1, (0, 0), (0, 0), 2),
        (4, 4, 28, 2, (3, 3), 1, (1, 1), (1, 1), 1),  # 252: one part
        (4, 4, 29, 2, (3, 3), 1, (1, 1), (1, 1), 1),  # 261: two, bytes
        (5, 3, 32, 3, (3, 3), 1, (1, 1), (1, 1), 1),  # 288: two, words
        (5, 5, 64, 2, (3, 3), 2, (1, 1), (1, 1), 1),  # 576: three
        (2, 3, 256, 3, (1, 1), 1, (0, 0), (0, 0), 1),
        (2, 3, 260, 3, (1, 1), 1, (0, 0), (0, 0), 1),
        (2, 4, 1028, 2, (1, 1), 1, (0, 0), (0, 0), 1),  # five parts
        (1, 30, 3, 4, (1, 5), 2, (0, 2), (0, 2), 1),  # 1-D
        (30, 1, 4, 4, (7, 1), 1, (3, 0), (3, 0), 1),
        (49, 10, 1, 6, (10, 4), 2, (4, 1), (5, 1), 1),
        (1, 1, 8, 6, (1, 1), 1, (0, 0), (0, 0), 1),  # fewer pixels than a group
        (1, 3, 8, 6, (1, 1), 1, (0, 0), (0, 0), 1),
        (1, 1, 4, 6, (3, 3), 1, (1, 1), (1, 1), 1),
        (2, 2, 4, 6, (5, 5), 1, (2, 2), (2, 2), 1),  # windows larger than the plane
        (3, 4, 4, 6, (1, 1), 1, (2, 3), (1, 2), 1),  # windows that see nothing of it
        (11, 13, 12, 7, (3, 3), 1, (1, 1), (1, 1), 1),
        (9, 9, 20, 9, (3, 3), 2, (0, 0), (1, 1), 1),
        # Words of a patch around those that are unrolled, pairs of pixels and one alone.
        *((1, 3, 4 * n, 5, (1, 1), 1, (0, 0), (0, 0), 1) for n in (1, 2, 3, 4, 5, 16, 17, 18, 33)),
        # Three channels: pixels inside and at the edges, rows of an odd number of them, tiles that begin within a row.
        *((h, w, 3, 5, (3, 3), s, (1, 1), (1, 1), 1) for h, w, s in ((5, 7, 1), (4, 12, 1), (7, 12, 2), (5, 11, 2))),
        *((h, w, 3, 6, (3, 3), s, (0, 0), (0, 0), 1) for h, w, s in ((3, 3, 1), (4, 6, 1), (7, 9, 2), (3, 13, 3))),
        *((20, 20, c, 12, (1, 1), 1, (0, 0), (0, 0), 1) for c in (8, 100)),  # many sums that short products decide
    ]
    for i, (h, w, cin, cout, k, s, pad, end, dil) in enumerate(shapes):
        for kind in ("", "fine", "extreme", "limits"):
            if kind not in ("", "fine") and i % 3:
                continue
            low, high, zero = CLAMPS[i % len(CLAMPS)] if kind != "limits" else CLAMPS[0]
            job = _convolution(kind, (low, high, zero), h, w, cin, cout, k, s, pad, end, dil)
            row = ROWS.row_bytes(k[0] * k[1] * cin)
            for scratch in (None,) if kind == "fine" else (None, 0, 16 * row + 200, 24 * row + 64):
                yield job(scratch)
        yield job(plain=True)


def winograds() -> Iterator[Job]:
    """3x3 windows of stride 1 over 16 channels or more: tiles of 2x2 outputs,
    of which the last are not whole where sizes are odd."""
    shapes = [
        # H, W, Cin, Cout, pad begin, pad end
        (9, 8, 16, 4, (1, 1), (1, 1)),
        (8, 7, 16, 6, (1, 1), (1, 1)),
        (7, 9, 20, 5, (0, 1), (1, 0)),
        (5, 5, 24, 9, (1, 0), (0, 1)),
        (6, 7, 36, 4, (0, 0), (0, 0)),
        (2, 2, 32, 7, (1, 1), (1, 1)),
        (4, 3, 16, 5, (2, 2), (2, 2)),
        (1, 6, 16, 4, (1, 1), (2, 1)),
    ]
    for i, (h, w, cin, cout, pad, end) in enumerate(shapes):
        for kind in ("", "fine", "extreme", "limits"):
            clamps = CLAMPS[i % len(CLAMPS)] if kind != "limits" else CLAMPS[0]
            job = _convolution(kind, clamps, h, w, cin, cout, (3, 3), 1, pad, end, 1)
            for scratch in (None, 300 * cin) if kind == "limits" else (None, 224 * cin, 36 * cin, 18 * cin):
                yield job(scratch)


def paired() -> Iterator[Job]:
    """Windows three columns wide of stride 1: lanes of two columns and some rows,
    of which the last overlap where sizes are odd."""
    shapes = [
        # H, W, Cin, Cout, rows of the kernel, pad begin, pad end
        (9, 8, 4, 3, 3, (1, 1), (1, 1)),
        (7, 9, 5, 2, 3, (1, 0), (0, 1)),
        (5, 2, 3, 4, 2, (0, 1), (1, 2)),
        (12, 3, 1, 3, 3, (1, 1), (1, 1)),
        (6, 5, 33, 2, 3, (1, 1), (1, 1)),  # 99 words: two parts
        (4, 4, 66, 2, 3, (2, 3), (2, 1)),  # three, windows that see one column
        (8, 6, 7, 3, 5, (2, 1), (2, 1)),
        (3, 7, 2, 3, 7, (4, 1), (4, 1)),  # rows of the kernel beyond the plane
    ]
    for i, (h, w, cin, cout, rows, pad, end) in enumerate(shapes):
        for kind in ("", "fine", "extreme", "limits"):
            clamps = CLAMPS[i % len(CLAMPS)] if kind != "limits" else CLAMPS[0]
            job = _convolution(kind, clamps, h, w, cin, cout, (rows, 3), 1, pad, end, 1)
            least = 32 * cin * rows + 48 + cin + 4  # a group of lanes one row high
            for scratch in (None,) if kind == "limits" else (None, least, 2 * least, 5 * least):
                yield job(scratch)


def _convolution(  # type: ignore[no-untyped-def]
    kind: str, clamps: tuple[int, int, int], h: int, w: int, cin: int, cout: int, k, s: int, pad, end, dil: int
) -> Callable[..., Job]:
    """A convolution's file, for any scratch."""
    low, high, zero = clamps
    name = f"conv {h}x{w}x{cin}-{cout} {k} s{s} pad {pad} {end} d{dil} {kind} clamp {low} {high}"
    rng = _rng(name)
    n = cout * 4 if kind == "limits" else cout
    matrix = _weights(rng, (n, *k, cin), kind)
    dims = (1, _windows(h, k[0], s, pad[0], end[0], dil), _windows(w, k[1], s, pad[1], end[1], dil), n)
    p = {"kernel_h": k[0], "kernel_w": k[1], "stride_h": s, "stride_w": s, "dilation_h": dil, "dilation_w": dil}
    p |= {"pad_top": pad[0], "pad_left": pad[1], "groups": 1, "act_min": low, "act_max": high}
    x = _data(rng, (1, h, w, cin), kind)
    blobs = {"weights": matrix} | _constants(rng, matrix, kind)
    zeros = [int(rng.integers(-128, 128)), zero]

    def job(scratch: int | None = None, plain: bool = False) -> Job:
        title = f"{name} plain" if plain else f"{name} scratch {scratch}"
        return one_step(title, "conv2d_s8", [x], dims, zeros, p, blobs, scratch, plain)

    return job


def in_codes(jobs: Iterable[Job]) -> Iterator[Job]:
    """Steps with their weights as codes. What limits the scratch leaves room for the table of pairs too."""
    for job in jobs:
        model = codec.decode(job.data)
        step = model.steps[0]
        step.blobs["weights"] = few(step.blobs["weights"])
        step.layout, step.flags = CODES4.code, codec.step_flags(step)
        set_scratch(model, schema.SCRATCH_LIMIT)
        scratch = job.scratch and job.scratch + step.unpacking
        yield Job(f"{job.name} codes", codec.encode(model), job.inputs, scratch)


def depthwise() -> Iterator[Job]:
    """3x3 with both strides over planes from one pixel on, every pad; other windows, strides and multipliers."""
    shapes = [
        *(
            (h, w, 5, 1, (3, 3), (s, s), (top, left), (end, end))
            for h, w, s, top, left, end in itertools.product((1, 2, 3, 6), (1, 2, 5), (1, 2), (0, 1), (0, 1), (1, 2))
            if h + top + end >= 3 and w + left + end >= 3
        ),
        (7, 8, 5, 1, (3, 3), (1, 1), (2, 2), (2, 2)),
        (8, 8, 4, 1, (3, 3), (2, 2), (2, 2), (3, 3)),
        (8, 9, 4, 1, (3, 3), (2, 1), (1, 1), (1, 1)),
        (9, 8, 4, 1, (3, 3), (3, 3), (1, 1), (1, 1)),
        (8, 8, 4, 1, (5, 5), (1, 1), (2, 2), (2, 2)),
        (8, 8, 3, 2, (3, 3), (1, 1), (1, 1), (1, 1)),
        (1, 9, 4, 1, (1, 3), (1, 1), (0, 1), (0, 1)),
        (3, 3, 40, 1, (1, 1), (1, 1), (0, 0), (0, 0)),
        (9, 7, 3, 1, (3, 3), (1, 1), (1, 1), (1, 1)),  # fewer channels than a word
        *((1, 12, c, 1, (1, 9), (1, s), (0, 4), (0, 4)) for c, s in ((4, 1), (7, 2), (9, 1))),
        *((12, w, c, 1, (9, 1), (s, 1), (n, 0), (n, 0)) for w, c, s, n in ((1, 4, 1, 4), (2, 7, 2, 4), (1, 9, 1, 0))),
        *((6, 5, c, 1, (5, 4), (s, s), (2, 1), (2, 3)) for c, s in ((6, 1), (8, 2))),
        (2, 2, 8, 1, (5, 5), (1, 1), (2, 2), (2, 2)),  # no window inside the plane
        (3, 3, 6, 1, (2, 2), (2, 2), (4, 4), (3, 3)),  # windows that see nothing of it
        # Along a line: down it, with edges, in steps; across it;
        # with as many taps as a Cortex-M0+ takes at once, and one more.
        *(
            (14, 1, c, 1, (k, 1), (s, 1), (n, 0), (n, 0))
            for c, k, s, n in ((8, 5, 1, 0), (5, 3, 3, 1), (3, 1, 1, 0), (6, 2, 2, 4))
        ),
        *((19, 1, c, 1, (k, 1), (1, 1), (0, 0), (0, 0)) for c, k in ((5, 16), (4, 17), (4, 18), (4, 16))),
        *(
            (h, 14, c, 1, (1, k), (s, s), (0, 0), (0, 0))
            for h, c, k, s in ((1, 6, 5, 2), (3, 4, 4, 1), (4, 7, 13, 1), (5, 4, 3, 2))
        ),
        # And in steps of as many as there are between two taps, so that windows share what they read all the same.
        *((17, 1, c, 1, (4, 1), (d, 1), (n, 0), (0, 0), d) for c, d, n in ((4, 2, 0), (5, 3, 2), (4, 2, 3))),
        # Many sums, which short products decide; a map of 2x2.
        *((n, n, 16, 1, (3, 3), (s, s), (1, 1), (1, 1)) for n, s in ((32, 1), (32, 2), (6, 1), (2, 1))),
    ]
    for i, (h, w, c, m, k, s, pad, end, *apart) in enumerate(shapes):
        d = apart[0] if apart else 1
        kind = ("", "fine", "extreme", "limits")[i % 4] if c != 16 else ""
        low, high, zero = CLAMPS[i % len(CLAMPS)] if kind != "limits" else CLAMPS[0]
        c = 24 if kind == "limits" else c
        dims = (1, _windows(h, k[0], s[0], pad[0], end[0], d), _windows(w, k[1], s[1], pad[1], end[1], 1), c * m)
        name = f"depthwise {h}x{w}x{c} x{m} {k} s{s} d{d} pad {pad} {end} {kind} clamp {low} {high}"
        rng = _rng(name)
        matrix = _weights(rng, (c * m, *k), kind)
        p = {"kernel_h": k[0], "kernel_w": k[1], "stride_h": s[0], "stride_w": s[1], "dilation_h": d, "dilation_w": 1}
        p |= {"pad_top": pad[0], "pad_left": pad[1], "act_min": low, "act_max": high}
        blobs = {"weights": matrix} | _constants(rng, matrix, kind)
        x = _data(rng, (1, h, w, c), kind)
        zeros = [int(rng.integers(-128, 128)), zero]
        for scratch in (None, 0) if i % 4 == 0 else (None,):
            yield one_step(f"{name} scratch {scratch}", "depthwise_conv2d_s8", [x], dims, zeros, p, blobs, scratch)


def depthwise_bands() -> Iterator[Job]:
    """3x3 over planes of some rows, whole and band by band; sums that a kernel may just double and those that it may
    not."""
    shapes = [
        # H, W, C, stride, pad begin, pad end
        (9, 9, 5, 1, (1, 1), (1, 1)),
        (6, 12, 8, 1, (1, 1), (1, 1)),
        (7, 4, 7, 1, (0, 1), (1, 0)),
        (4, 3, 4, 1, (1, 0), (1, 0)),
        (9, 13, 6, 2, (1, 1), (1, 1)),
        (8, 8, 9, 2, (0, 0), (1, 1)),
        (11, 5, 4, 2, (1, 0), (0, 2)),
    ]
    for i, (h, w, c, s, pad, end) in enumerate(shapes):
        for kind in ("", "fine", "extreme", "doubled"):
            low, high, zero = CLAMPS[i % len(CLAMPS)] if kind != "doubled" else CLAMPS[i % 2]
            c = 20 if kind == "doubled" else c
            dims = (1, _windows(h, 3, s, pad[0], end[0], 1), _windows(w, 3, s, pad[1], end[1], 1), c)
            name = f"bands {h}x{w}x{c} s{s} pad {pad} {end} {kind} clamp {low} {high}"
            rng = _rng(name)
            matrix = _weights(rng, (c, 3, 3), "extreme" if kind == "doubled" else kind)
            p = {"kernel_h": 3, "kernel_w": 3, "stride_h": s, "stride_w": s, "dilation_h": 1, "dilation_w": 1}
            p |= {"pad_top": pad[0], "pad_left": pad[1], "act_min": low, "act_max": high}
            blobs = {"weights": matrix} | _constants(rng, matrix, kind)
            if kind == "doubled":
                shift = 1 + np.arange(c) % 14
                blobs["shift"] = shift.astype(np.int8)
                blobs["bias"] = np.resize(np.array([2**22 - 1, -(2**22), 2**23, -(2**23), 999]), c).astype(np.int32)
                blobs["mult"] = (2.0**31 * 2.0**shift / 2**16).astype(np.int32)
            x = _data(rng, (1, h, w, c), "extreme" if kind == "doubled" else kind)
            zeros = [int(rng.integers(-128, 128)), zero]
            columns = (dims[2] - 1) * s + 3
            least = 12 * columns + 24 * -(-dims[1] // 2)
            for scratch in (None, least, 64 * -(-columns // 2) + 160, 96 * -(-columns // 2) + 160, 4096):
                yield one_step(f"{name} scratch {scratch}", "depthwise_conv2d_s8", [x], dims, zeros, p, blobs, scratch)


def fully_connected() -> Iterator[Job]:
    """Every residue of K by 4, around the unrolled length, several rows, limits."""
    for i, (rows, k, n) in enumerate(
        [*(((1,), k, 5) for k in (1, 2, 3, 4, 5, 31, 63, 124, 127, 128, 129, 132, 255, 256, 260, 640)),
         ((3,), 7, 4), ((3,), 130, 4), ((2, 2), 16, 3), ((1,), 64, 40), ((), 9, 1), ((5,), 1, 1), ((2,), 61, 2),
         ((1,), 256, 2)]
    ):  # fmt: skip
        for kind in ("", "fine", "extreme", "limits"):
            low, high, zero = CLAMPS[i % len(CLAMPS)] if kind != "limits" else CLAMPS[0]
            name = f"dense {rows} {k}-{n} {kind} clamp {low} {high}"
            rng = _rng(name)
            matrix = _weights(rng, (4 * n if kind == "limits" else n, k), kind)
            blobs = {"weights": matrix} | _constants(rng, matrix, kind)
            x = _data(rng, (*rows, k), kind)
            p = {"act_min": low, "act_max": high}
            for scratch in (None, 0) if i % 4 == 0 else (None,):
                title = f"{name} scratch {scratch}"
                yield one_step(title, "fully_connected_s8", [x], (*rows, len(matrix)), [3, zero], p, blobs, scratch)


def pools() -> Iterator[Job]:
    """Average pools over whole planes, as classifiers end in them, with every residue of channels by 4."""
    for i, (h, w, c) in enumerate([(25, 5, 64), (3, 3, 6), (8, 8, 5), (1, 1, 4), (7, 7, 9), (17, 17, 4), (40, 33, 8)]):
        taps = h * w
        shift = math.floor(math.log2(taps))
        for kind, (low, high, zero) in itertools.product(("", "extreme"), CLAMPS[:3]):
            name = f"average {h}x{w}x{c} {kind} clamp {low} {high} {zero}"
            rng = _rng(name)
            x = _data(rng, (1, h, w, c), kind)
            p = {"kernel_h": h, "kernel_w": w, "stride_h": 1, "stride_w": 1, "dilation_h": 1, "dilation_w": 1}
            p |= {"act_min": low, "act_max": high}
            mult = min(round(2.0 ** (31 + shift) / taps), 2**31 - 1)
            blobs = {"mult": np.array([mult], np.int32), "shift": np.array([shift], np.int8)}
            for scratch in (None, 0) if i % 2 else (None,):
                title = f"{name} scratch {scratch}"
                yield one_step(title, "average_pool2d_s8", [x], (1, 1, 1, c), [zero // 2, zero], p, blobs, scratch)


def softmaxes() -> Iterator[Job]:
    """Every length of the axis to 40, and around the 128 that a kernel keeps between its passes; rows at odd addresses;
    one element that has it all, tables that fall by no rule, sums of 1; pairs at their limits."""
    sizes = [*((n, 1 + n % 3) for n in range(1, 41)), *((n, 1 + n % 2) for n in range(126, 134)), (97, 3), (250, 1)]
    for i, (axis, rows) in enumerate(sizes):
        for kind in ("", "extreme", "fine", "table", "one", "wide"):
            name = f"softmax {rows}x{axis} {kind}"
            rng = _rng(name)
            table = np.round(2.0**23 * np.exp(-(0.05 if kind else 0.6) * np.arange(256))).astype(np.uint32)
            if kind == "table":
                table = rng.integers(1, 2**23 // axis + 2, 256).astype(np.uint32)
            if kind == "one":
                table = (np.arange(256) == 0).astype(np.uint32)
            if kind == "wide":
                table = np.concatenate([table, rng.integers(0, 2**31 + 1, 256).astype(np.uint32)])
            x = _data(rng, (rows, axis), kind)
            zeros = [3, (-128, 0, 127)[i % 3] if kind == "wide" else -128]
            yield one_step(name, "softmax_s8", [x], (rows, axis), zeros, {}, {"table": table}, in_place=i % 2 == 1)
    pairs = [(-128, 127), (127, -128), (-1, 0), (0, -1), (7, 7), (100, 99), (-50, -20), (3, -90)]
    for i, (pair, kind) in enumerate(itertools.product(pairs, ("", "flat", "table", "one"))):
        name = f"softmax of {pair} {kind}"
        table = np.round(2.0**23 * np.exp(-0.05 * np.arange(256))).astype(np.uint32)
        if kind == "flat":
            table[:] = 3
        if kind == "table":
            table = _rng(name).integers(1, 2**22, 256).astype(np.uint32)
        if kind == "one":
            table[:], table[0] = 0, 1
        x = np.array([pair], np.int8)
        yield one_step(name, "softmax_s8", [x], (1, 2), [3, -128], {}, {"table": table}, in_place=i % 2 == 1)


def elementwise() -> Iterator[Job]:
    """Sums, products and tables: every residue of a length by 4, all broadcasts of an innermost dimension,
    results in place, shifts where a folded offset still fits and where it does not, every pair of values."""
    shapes = [
        *(((n,), (n,)) for n in (1, 2, 3, 5, 8, 250)),
        ((3, 7), (7,)),
        ((3, 7), (3, 1)),
        ((3, 1), (7,)),
        ((2, 3, 5), (1, 3, 5)),
    ]
    every = np.tile(np.arange(-128, 128).astype(np.int8), (256, 1))
    inputs = [tuple(_data(_rng(f"{i} {dims}"), dims, "") for i, dims in enumerate(two)) for two in shapes]
    sums = [
        (582542, 815559, 1 << 19, 20),
        (-(2**20), 2**20, 99, 21),
        (3, -2, 1, 1),
        (1, 1, 0, 0),
        (2**23, 2**22, -77, 30),
    ]
    for i, (a, b) in enumerate(inputs):
        low, high, zero = CLAMPS[i % len(CLAMPS)]
        act = {"act_min": low, "act_max": high}
        dims = np.broadcast_shapes(a.shape, b.shape)
        for j, (mult_a, mult_b, offset, shift) in enumerate(sums):
            p = {"mult_a": mult_a, "mult_b": mult_b, "offset": offset, "shift": shift} | act
            in_place = j % 2 == 1 and dims == a.shape
            yield one_step(f"add {i} {p}", "add_s8", [a, b], dims, [3, 5, zero], p, {}, in_place=in_place)
        for j, (mult, shift) in enumerate(
            [(2**31 - 1, 8), (2**30, 1), (2**30 + 12345, 11), (1234567891, 12), (2**31 - 1, 22), (1023, 0)]
        ):
            p = {"mult": mult, "shift": shift} | act
            zeros = [(-128, 127, 3)[j % 3], (127, -128, 0)[j % 3], zero]
            in_place = j % 2 == 1 and dims == a.shape
            yield one_step(f"mul {i} {p}", "mul_s8", [a, b], dims, zeros, p, {}, in_place=in_place)
        table = _rng(f"table {i}").integers(-128, 128, 256, dtype=np.int8)
        yield one_step(f"lut {i}", "lut_s8", [a], a.shape, [0, 0], {}, {"table": table}, in_place=i % 2 == 1)

    for shift, zero in ((8, -3), (11, 127)):
        p = {"mult": 2**31 - 12345, "shift": shift, "act_min": -128, "act_max": 127}
        xs = [every, every.T.copy()]
        yield one_step(f"mul every pair {shift}", "mul_s8", xs, (256, 256), [-128, zero, 4], p, {}, in_place=True)


def max_pools() -> Iterator[Job]:
    """Every residue of channels by 4, windows inside, over every edge and beyond; clamps, and 2x2 taps without."""
    windows = [((2, 2), 2, 0, 1), ((3, 3), 2, 1, 1), ((3, 2), 1, 2, 2), ((1, 5), 3, 3, 1), ((2, 2), 1, 0, 2)]
    for i, (c, (k, s, pad, dil)) in enumerate(itertools.product((1, 3, 4, 6, 9), windows)):
        h, w = 6, 7
        low, high, _ = (-128, 127, 0) if dil == 2 and not pad else CLAMPS[i % len(CLAMPS)]
        p = {"kernel_h": k[0], "kernel_w": k[1], "stride_h": s, "stride_w": s, "dilation_h": dil, "dilation_w": dil}
        p |= {"pad_top": pad, "pad_left": pad, "act_min": low, "act_max": high}
        dims = (1, _windows(h, k[0], s, pad, pad, dil), _windows(w, k[1], s, pad, pad, dil), c)
        name = f"max pool {c} {k} s{s} pad {pad} d{dil} clamp {low} {high}"
        yield one_step(name, "max_pool2d_s8", [_data(_rng(name), (1, h, w, c), "")], dims, [7, 7], p, {})


MOST_OF_A_NORM = 600  # elements: one is as good as many


def attention() -> Iterator[Job]:
    """The cases of tests/kernels: widths that fast kernels take and others, queries that need nine bits,
    lengths outside of the cache; rotations; norms."""
    for c in CASES:
        small = c.kernel in ("layer_norm_s8", "norm_s8") and c.xs[0].size < MOST_OF_A_NORM
        if c.kernel in ("attend_s8", "rotate_s8") or small:
            yield Job(c.name, codec.encode(model_of(c)), c.xs)


def never_written() -> Iterator[Job]:
    """Steps that are sound, and that `mica pack` does not write."""
    data, x = codec.encode(pad_model()), _data(_rng("pads"), (1, 4, 5, 8), "")
    for scratch in (None, 0, 4096):
        yield Job(f"steps that are never written, scratch {scratch}", data, [x], scratch)


def all_jobs() -> list[Job]:
    """Every case once; names are unique."""
    jobs = [*of_the_oracle(), *convolutions(), *winograds(), *depthwise(), *depthwise_bands()]
    jobs += [*fully_connected(), *pools(), *softmaxes(), *elementwise(), *max_pools(), *attention(), *never_written()]
    jobs += itertools.islice(in_codes([*convolutions(), *fully_connected()]), 0, None, 5)
    assert len({j.name for j in jobs}) == len(jobs)
    return jobs
