"""Layers with weights over the shapes that models have, as jobs of the bench."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import bare_metal
import isa_cases
import layers
import numpy as np
from bare_metal import Job

from mica.file import codec

BOARD = "MPS2_AN385"  # whose scratch the models want: what most boards give
MOST_ARENA = 150_000  # bytes of tensors and scratch that the smallest core has room for
MOST_STEPS = 150  # the program's room for the engine's tables
MOST_MACS = 6_000_000
CODED_LEAST = 512  # weights of a layer that takes codes (quantise/lowbits.py)


def takes(model: codec.ModelFile) -> bool:
    arena = (model.arena_bytes or 0) + max((s.scratch_want for s in model.steps), default=0)
    return arena <= MOST_ARENA and len(model.steps) <= MOST_STEPS and sum(s.macs for s in model.steps) <= MOST_MACS


def swept_layers() -> Iterator[layers.Layer]:
    """Layers with weights, and those that the benchmark knows, over shapes that models have."""
    rng = np.random.default_rng(7)

    def pick(*options: Any) -> Any:
        return options[int(rng.integers(len(options)))]

    for i in range(130):
        k, s = pick((1, 1), (1, 1), (3, 3), (3, 3), (5, 5), (3, 1), (1, 3), (10, 4), (2, 2)), pick(1, 1, 2)
        h, w = pick(1, 4, 6, 9, 12, 16, 24, 32), pick(3, 4, 5, 8, 10, 12, 16, 24, 32)
        cin, cout = (
            pick(1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 200),
            pick(1, 4, 5, 8, 10, 16, 24, 32, 64, 128),
        )
        yield layers.Layer(f"conv {i}", "conv", (h, w, cin), cout, {}, k, s)
    for i in range(60):
        k, s = pick((3, 3), (3, 3), (3, 3), (5, 5), (3, 1), (7, 7)), pick(1, 1, 2)
        h, w = pick(1, 3, 4, 6, 7, 10, 12, 20, 25, 40, 48), pick(3, 4, 5, 6, 8, 12, 20, 24, 40, 48)
        c = pick(1, 3, 4, 8, 16, 24, 32, 64, 96, 128, 256)
        yield layers.Layer(f"dw {i}", "dw", (h, w, c), c, {}, k, s)
    for i in range(40):
        k, n = (
            pick(1, 4, 8, 10, 16, 32, 50, 64, 100, 128, 200, 256, 400, 640),
            pick(1, 2, 4, 8, 10, 16, 32, 64, 100, 128, 256),
        )
        yield layers.Layer(f"fc {i}", "fc", (k,), n, {})
    for i, c in enumerate((1, 4, 10, 16, 32, 64, 128, 256, 512)):
        side = pick(2, 3, 4, 7, 8, 12)
        yield layers.Layer(f"avg {i}", "avg", (side, pick(2, 4, 5, 8), c), c, {})
        yield layers.Layer(f"add {i}", "add", (side, side, c), c, {})
        if c <= 256:
            yield layers.Layer(f"softmax {i}", "softmax", (c,), c, {})


def coded_layers() -> Iterator[layers.Layer]:
    """More of the shapes that four bits serve, as few rows as strips make of them among them."""
    rng = np.random.default_rng(11)

    def pick(*options: Any) -> Any:
        return options[int(rng.integers(len(options)))]

    for i in range(100):
        even = i % 2 == 0  # whether patches are whole words
        k = (1, 1) if i % 4 < 2 else pick((3, 3), (3, 3), (5, 5), (1, 3))
        cin = pick(12, 16, 24, 32, 48, 64, 96, 128, 200) if even else pick(3, 6, 10, 18, 25, 50)
        out, h, w = pick(16, 24, 32, 64, 128, 200), pick(1, 2, 3, 4, 6, 9), pick(3, 5, 8, 12, 18, 24)
        yield layers.Layer(f"coded {i}", "conv", (h, w, cin), out, {}, k, pick(1, 1, 2))


def coded() -> list[Job]:
    """The layers with weights once more, those in codes of four bits, and some of their own."""
    kinds = (x for x in (*swept_layers(), *coded_layers()) if x.kind in ("conv", "fc") and x.k * x.out >= CODED_LEAST)
    jobs = [layers.job(x, "", BOARD) for x in kinds]
    return [job for job in isa_cases.in_codes(jobs) if takes(codec.decode(job.data))]


def window_layers() -> Iterator[layers.Layer]:
    """More convolutions: pictures of three channels, planes of few columns, pixels of every number,
    much and little scratch."""
    rng = np.random.default_rng(17)

    def pick(*options: Any) -> Any:
        return options[int(rng.integers(len(options)))]

    for i in range(50):
        h, w = pick(5, 8, 12, 20, 31, 48, 64), pick(6, 9, 16, 24, 33, 48, 64)
        k = pick((3, 3), (3, 3), (3, 3), (5, 5), (10, 4))
        cin = pick(3, 3, 3, 1) if k == (3, 3) else pick(1, 2, 3)
        yield layers.Layer(f"first {i}", "conv", (h, w, cin), pick(4, 8, 8, 16, 24, 64), {}, k, pick(1, 2))
    for i in range(50):
        h, w = pick(1, 2, 3, 4, 5, 6, 8, 12, 24), pick(3, 4, 5, 6, 9, 12, 24)
        cin, cout = pick(8, 16, 32, 64, 128, 256), pick(4, 8, 12, 16, 32, 64, 128, 256)
        yield layers.Layer(f"window {i}", "conv", (h, w, cin), cout, {}, pick((1, 1), (1, 1), (3, 3)), pick(1, 1, 2))
    for i in range(50):  # patches that are no words
        h, w, k = pick(1, 3, 4, 8, 12, 16), pick(3, 4, 5, 8, 10, 16), pick((1, 1), (3, 3), (5, 5), (1, 3), (2, 2))
        cin, cout = pick(1, 2, 3, 5, 6, 10, 18, 25, 50), pick(1, 2, 3, 5, 8, 10, 16, 32, 64)
        yield layers.Layer(f"odd {i}", "conv", (h, w, cin), cout, {}, k if i % 2 else (1, 1), pick(1, 1, 2))
    for i in range(90):
        h, w = pick(2, 3, 5, 6, 8, 12, 24, 25, 32, 48), pick(3, 4, 5, 6, 7, 10, 12, 16, 24, 31, 48)
        c = pick(4, 6, 8, 16, 32, 64, 128, 256)
        yield layers.Layer(f"band {i}", "dw", (h, w, c), c, {}, (3, 3), pick(1, 1, 2))


def small_layers() -> Iterator[layers.Layer]:
    """Maps of few pixels, a row or a column alone, and depthwise windows that no kernel has a loop for."""
    shapes = [(h, w) for h in (1, 2, 3, 4, 5) for w in (1, 2, 3, 4, 6)]
    kinds = ((8, 8, 1, 1), (16, 4, 1, 1), (4, 8, 3, 1), (8, 16, 3, 2), (32, 16, 1, 1), (3, 8, 3, 1))
    for i, ((h, w), (cin, cout, k, s)) in enumerate(itertools.product(shapes, kinds)):
        if i % 2 == 0 or (h, w) == (2, 2):
            yield layers.Layer(f"small {i}", "conv", (h, w, cin), cout, {}, (k, k), s)
    planes = ((1, 25), (25, 1), (17, 1), (8, 8), (5, 6), (3, 3), (2, 2), (2, 5), (10, 10))
    windows = ((5, 1, 1), (1, 5, 1), (3, 1, 2), (9, 1, 1), (5, 5, 1), (7, 7, 2), (3, 3, 1), (2, 2, 1), (21, 1, 1))
    for i, ((h, w), (kh, kw, s), c) in enumerate(itertools.product(planes, windows, (4, 6, 8, 24, 64, 1, 3))):
        if kh <= 2 * h + 1 and kw <= 2 * w + 1 and (i % 3 == 0 or (kh, h, w) in ((3, 2, 2), (3, 3, 3))):
            yield layers.Layer(f"few {i}", "dw", (h, w, c), c, {}, (kh, kw), s)
    for i, (h, w, c, each, k, s) in enumerate(  # several channels for one, and windows of 3x3 that are far apart
        (h, w, c, each, k, s)
        for h, w in ((1, 12), (4, 4), (6, 9), (12, 5))
        for c, each in ((1, 4), (1, 8), (3, 2), (8, 2), (16, 1), (6, 1), (40, 1))
        for k, s in (((3, 3), 1), ((5, 1), 1), ((3, 3), 3), ((5, 5), 2))
        if each > 1 or s == 3
    ):
        yield layers.Layer(f"times {i}", "dw", (h, w, c), c * each, {}, k, s)


def dense_plain() -> list[Job]:
    """Dense layers whose rows scratch has no room for, unpacked."""
    rng = np.random.default_rng(23)
    jobs = []
    for i in range(20):
        k, n = int(rng.choice((5, 16, 33, 64, 100, 256, 640, 1500))), int(rng.choice((1, 3, 4, 8, 10, 32)))
        jobs.append(layers.job(layers.Layer(f"dense {i}", "fc", (k,), n, {}), "", BOARD, 0))
    return jobs


def softmaxes() -> list[Job]:
    """Softmax of elements anywhere in their range, as a count of quotients expects them."""
    jobs = (job for job in isa_cases.softmaxes() if not job.name.endswith(("extreme", "fine")))
    apart = (job for job in jobs if len({t.offset for t in codec.decode(job.data).tensors}) == 2)  # that can run again
    return [dataclasses.replace(job, times=layers.TIMES) for job in apart]


def windowed() -> list[Job]:
    """Convolutions of eight bits that fast kernels take, depthwise ones with the scratch of a whole model as well."""
    jobs = []
    for i, x in enumerate((*swept_layers(), *window_layers())):
        if x.kind in ("conv", "dw"):
            jobs.append(layers.job(x, "", BOARD, (None, None, 4096, 16384)[i % 4] if x.kind == "dw" else None))
    jobs += [dataclasses.replace(layers.job(x, "", BOARD), times=8) for x in small_layers()]
    return [job for job in jobs if takes(codec.decode(job.data))]


def depthwise() -> list[Job]:
    """The depthwise ones of them."""
    return [job for job in windowed() if codec.decode(job.data).steps[0].kernel == "depthwise_conv2d_s8"]


def winograds() -> Iterator[Job]:
    """Convolutions that some cores compute by Winograd's transform where scratch makes it pay."""
    rng = np.random.default_rng(8)
    for i in range(60):
        h, w = (int(rng.choice((2, 4, 5, 7, 8, 12, 16, 24, 32))) for _ in "hw")
        cin, cout = int(rng.choice((16, 20, 24, 32, 48, 64, 96))), int(rng.choice((4, 8, 10, 16, 32, 48, 64)))
        layer = layers.Layer(f"winograd {i}", "conv", (h, w, cin), cout, {}, (3, 3))
        if layer.macs <= MOST_MACS // 2:
            job = layers.job(layer, "", BOARD, int(rng.choice((6, 8, 12, 16, 24, 32, 48))) << 10)
            if (codec.decode(job.data).arena_bytes or 0) + (job.scratch or 0) <= MOST_ARENA:
                yield job


def paired() -> Iterator[Job]:
    """Convolutions whose neighbouring outputs share products on some cores."""
    rng = np.random.default_rng(9)
    for i in range(60):
        h, w = (int(rng.choice((2, 4, 5, 7, 8, 12, 16, 24, 32))) for _ in "hw")
        cin, cout = int(rng.choice((1, 3, 4, 8, 12, 16, 24, 32, 48, 64))), int(rng.choice((3, 4, 8, 10, 16, 32, 48)))
        kernel = (int(rng.choice((3, 3, 3, 2, 5))), 3)
        layer = layers.Layer(f"paired {i}", "conv", (h, w, cin), cout, {}, kernel)
        if layer.macs <= MOST_MACS // 2:
            job = layers.job(layer, "", BOARD, int(rng.choice((2, 4, 6, 8, 12, 16, 32))) << 10)
            if (codec.decode(job.data).arena_bytes or 0) + (job.scratch or 0) <= MOST_ARENA:
                yield job


def lines() -> Iterator[Job]:
    """Depthwise convolutions along a line, which some cores compute channel by channel."""
    rng = np.random.default_rng(9)

    def pick(*options: int) -> int:
        return int(rng.choice(options))

    for i in range(60):
        k, s, c = pick(1, 3, 3, 5, 8, 9, 10, 16), pick(1, 1, 2), pick(4, 8, 12, 16, 24, 40, 64, 96, 128)
        n = k + pick(1, 2, 4, 7, 12, 16, 23, 32)
        shape = (n, 1, c) if i % 3 else (pick(1, 1, 2, 4), n, c)
        job = layers.job(layers.Layer(f"line {i}", "dw", shape, c, {}, (k, 1) if i % 3 else (1, k), s), "", BOARD)
        if i % 2 and i % 3:
            yield job
            continue
        model = codec.decode(job.data)  # without what lies outside
        step, y = model.steps[0], model.tensors[1]
        step.params |= {"pad_top": 0, "pad_left": 0}
        rows, columns = (
            -(-(size - kernel + 1) // s)
            for size, kernel in zip(shape, (step.params["kernel_h"], step.params["kernel_w"]), strict=False)
        )
        model.tensors[1] = dataclasses.replace(y, dims=(1, rows, columns, c))
        yield dataclasses.replace(job, data=bare_metal.for_board(model, BOARD))
