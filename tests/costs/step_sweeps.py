"""Front ends, and single steps of decoders, normalisations, places and int16, as jobs of the bench."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import bare_metal
import numpy as np
import sound_frames
from attention_cases import attend
from audio_cases import sound
from axes_cases import window_of
from bare_metal import Job
from case import Case
from layer_sweeps import BOARD, takes
from nets import Net
from one_step import model_of
from wide_cases import channels

from mica.compile import compile_file
from mica.file import codec
from mica.kernels.integers import Output


def sounds(kinds: tuple[str, ...] = ("mfcc", "logmel", "pcan")) -> list[Job]:
    """Front ends of sound, of many sizes."""
    jobs = []
    for k, (words, rows) in enumerate(sound_frames.swept()):
        if not words.startswith(kinds):
            continue
        with tempfile.TemporaryDirectory() as folder:
            model = codec.decode(sound_frames.frames(words, rows, Path(folder)))
        x = sound(np.random.default_rng(k), int(np.prod(model.tensors[model.inputs[0]].dims)), "")
        jobs.append(Job(f"{words} {rows}", bare_metal.for_board(model, BOARD), [x[None]]))
    return [job for job in jobs if takes(codec.decode(job.data))]


def axis_windows() -> list[Job]:
    """Front ends of windows of several axes, of many sizes."""
    jobs = []
    for k, (words, shape) in enumerate(sound_frames.swept_windows()):
        with tempfile.TemporaryDirectory() as folder:
            model = codec.decode(sound_frames.windows(words, shape, Path(folder)))
        dims = model.tensors[model.inputs[0]].dims
        rows, n = dims[1], dims[2] if len(dims) > 2 else 1
        x = window_of(np.random.default_rng(k), rows, n, "mixed").reshape(dims)
        jobs.append(Job(f"{words} {k}", bare_metal.for_board(model, BOARD), [x]))
    return [job for job in jobs if takes(codec.decode(job.data))]


def decoder() -> list[Job]:
    """Decoders' steps over shapes that decoders have; a cache is full, and is written where it lies."""
    rng = np.random.default_rng(11)

    def pick(*options: Any) -> Any:
        return options[int(rng.integers(len(options)))]

    models = []
    for i in range(70):
        shape = ((pick(1, 2, 4, 8),), pick(1, 1, 2, 4), pick(4, 16, 33, 64, 128), pick(4, 6, 8, 12, 16, 32), 0)
        c = attend(f"attend {i}", (*shape[:4], pick(shape[3], 8)), "inside", 2**31 - 1)
        models.append((c.name, model_of(c), c.xs))
    for i in range(30):
        rows, half, each = pick(1, 2, 4, 8, 16), pick(2, 3, 4, 6, 8, 16, 32), pick(True, True, False)
        dims, angles = (rows, 2 * half), (1 if each else rows, half)
        p = {"inner": rows if each else 1, "c_zero": 0, "s_zero": 0, "mult_c": 8321, "mult_s": 8190, "shift": 20}
        p |= {"act_min": -128, "act_max": 127}
        xs = [rng.integers(-128, 128, shape, dtype=np.int8) for shape in (dims, angles, angles)]
        c = Case(f"rotate {i}", "rotate_s8", xs, p, Output(dims, 3, -4))
        models.append((c.name, model_of(c), c.xs))
    for i in range(30):
        heads, rows, width = pick(1, 2, 4, 8), pick(4, 16, 64, 128), pick(1, 4, 7, 8, 12, 16, 32)
        cache, new = (1, heads, rows, width), (1, heads, 1, width)
        xs = [
            *(rng.integers(-128, 128, shape, dtype=np.int8) for shape in (cache, new)),
            np.array([rows - 1], np.int32),
        ]
        c = Case(f"scatter {i}", "scatter_s8", xs, {"axis": 2, "circular": i % 2}, Output(cache, 0, 0))
        models.append((c.name, model_of(c, in_place=0 if i % 3 else None), c.xs))
    jobs = [Job(name, bare_metal.for_board(model, BOARD), list(xs)) for name, model, xs in models]
    return [job for job in jobs if takes(codec.decode(job.data))]


def norms() -> list[Job]:
    """Normalisations of rows: those that `pack` writes now, and those of older files, or that do not fit 32 bits."""
    rng = np.random.default_rng(14)

    def pick(*options: Any) -> Any:
        return options[int(rng.integers(len(options)))]

    jobs = []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(72):
            n, d, net = pick(1, 1, 1, 4), pick(16, 24, 32, 48, 64, 96, 128, 160, 256), Net(23, seed=i)
            d += pick(1, 2, 4, 5) if i % 4 == 3 else 0
            op, beta = (("RMSNormalization", False), ("LayerNormalization", True), ("LayerNormalization", False))[i % 3]
            x = net.input((1, n, d) if n > 1 else (1, d))
            net.output(net.add(op, x, net.random(d), *([net.random(d)] if beta else []), axis=-1))
            model = compile_file(net.save(Path(folder)), plain=True).model
            xs = [bare_metal.random_input(model.tensors[t], rng) for t in model.inputs]
            jobs.append(Job(f"norm {i}", bare_metal.for_board(model, BOARD), xs))
    for i in range(56):
        rows, n, mode, inner = pick(1, 1, 4, 16), pick(8, 15, 32, 64, 100, 128), i % 4 % 3, pick(1, 1, 4)
        n = 4 * n if i % 4 == 3 else n
        inner = inner if n % inner == 0 else 1
        p = {
            "axis": 1,
            "inner": inner,
            "channels": n // inner,
            "mode": mode,
            "epsilon_low": 1000,
            "epsilon_high": 0,
            "shift": 18,
        }
        gamma = rng.integers(-(2**21), 2**21, n // inner) * (1 if mode == 0 else 4)
        blobs = {"gamma": gamma.astype(np.int32), "beta": rng.integers(-(2**23), 2**23, n // inner).astype(np.int32)}
        xs = [rng.integers(-128, 128, (rows, n), dtype=np.int8)]
        p |= {"act_min": -128, "act_max": 127}
        c = Case(f"layer_norm {i}", "layer_norm_s8", xs, p, Output((rows, n), 3, -4), blobs)
        jobs.append(Job(c.name, bare_metal.for_board(model_of(c), BOARD), list(c.xs)))
    return [job for job in jobs if takes(codec.decode(job.data))]


def small_pools() -> list[Job]:
    """Max pools of two by two taps inside the picture."""
    rng, jobs = np.random.default_rng(19), []
    p = {f"{what}_{axis}": n for what, n in (("kernel", 2), ("dilation", 1)) for axis in "hw"}
    p |= {"pad_top": 0, "pad_left": 0, "act_min": -128, "act_max": 127}
    for i, c in enumerate((1, 2, 3, 4, 5, 8, 12, 16, 24, 32, 48, 64) * 3):
        (h, w), stride = rng.integers(2, 26, 2).tolist(), 1 + (i % 4 > 0)
        x = rng.integers(-128, 128, (1, h, w, c), dtype=np.int8)
        dims = (1, (h - 2) // stride + 1, (w - 2) // stride + 1, c)
        case = Case(f"pool {i}", "max_pool2d_s8", [x], p | {"stride_h": stride, "stride_w": stride}, Output(dims))
        jobs.append(Job(case.name, bare_metal.for_board(model_of(case), BOARD), [x]))
    return [job for job in jobs if takes(codec.decode(job.data))]


def places() -> list[Job]:
    """The best of an axis, and elements at places that are computed; in no order, the counts being means."""
    rng = np.random.default_rng(13)

    def pick(*options: Any) -> Any:
        return options[int(rng.integers(len(options)))]

    jobs = []
    for i in range(130):
        outer, inner, n = pick(1, 1, 4, 16, 40, 100), pick(1, 1, 1, 3, 8, 40), pick(2, 5, 10, 16, 33, 64, 100, 200)
        outer, top = max(1, min(outer, 8000 // (inner * n))), i < 80
        k = min(n, pick(1, 1, 2, 3, 5, 8, 10, 20)) if top else pick(1, 2, 3, 5, 10, 20, 50)
        dims, out = (outer, n, inner), (outer, k, inner)
        xs = [rng.integers(-128, 128, dims, dtype=np.int8)]
        if top:
            c = Case(f"top_k {i}", "top_k_s8", xs, {"axis": 1, "smallest": i % 2}, Output(out))
        else:
            c = Case(f"pick {i}", "pick_s8", [*xs, rng.integers(0, n, out, dtype=np.int32)], {"axis": 1}, Output(out))
        jobs.append(Job(c.name, bare_metal.for_board(model_of(c), BOARD), list(c.xs), times=4))
    return jobs


def wide_steps() -> list[Job]:
    """Kernels of int16 over shapes that networks have."""
    rng = np.random.default_rng(14)
    jobs, whole = [], {"act_min": -(2**15), "act_max": 2**15 - 1}

    def add(kernel: str, xs: list[np.ndarray], p: dict[str, int], out: tuple[int, ...], **blobs: np.ndarray) -> None:
        c = Case(f"{kernel} {len(jobs)}", kernel, xs, p, Output(out), blobs)
        jobs.append(Job(c.name, bare_metal.for_board(model_of(c), BOARD), list(c.xs)))

    def data(*shape: int) -> np.ndarray:
        return rng.integers(-(2**15), 2**15, shape, dtype=np.int16)

    for i in range(60):
        k, stride, pad = int(rng.choice([1, 3, 3, 5])), int(rng.choice([1, 1, 2])), int(rng.integers(2))
        h, w, c = int(rng.integers(k, 9)), int(rng.integers(k, 9)), int(rng.choice([1, 2, 4, 8, 16, 32]))
        row, dense = h if i % 4 == 0 else 1, i % 4 == 0
        h, k, stride, pad = (1, 1, 1, 0) if dense else (h, k, stride, min(pad, k - 1))
        oh, ow = ((n + 2 * pad - k) // stride + 1 for n in (h, w))
        window = {
            f"{name}_{axis}": v for name, v in (("kernel", k), ("stride", stride), ("dilation", 1)) for axis in "hw"
        }
        p = {**window, "pad_top": pad, "pad_left": pad, **whole}
        if i % 3 == 2 and not dense:
            n = k * k if i % 2 else 0
            shift = np.ceil(np.log2(np.arange(1, n + 1))).astype(np.int8)
            add(
                "pool_s16",
                [data(1, h, w, c)],
                p | {"largest": int(n == 0)},
                (1, oh, ow, c),
                mult=np.full(n, 2**30, np.int32),
                shift=shift,
            )
            continue
        groups = c if i % 3 == 1 and not dense else 1
        cout = c if groups > 1 else int(rng.choice([2, 4, 8, 16, 10 * row]))
        weights = rng.integers(-127, 128, (cout, k, k, c // groups), dtype=np.int8)
        constants = channels(rng, weights, "")
        add("conv2d_s16", [data(1, h, w, c)], p | {"groups": groups}, (1, oh, ow, cout), weights=weights, **constants)
    for i in range(12):
        n = int(rng.choice([10, 30, 100, 300, 1000]))
        sums = {"mult_a": 2**29, "mult_b": 2**29, "mult_ab": 5, "shift": 30, **whole}
        add("binary_s16", [data(4, n), data(4, n) if i % 3 else data(4, 1)], sums, (4, n))
        add("lut_s16", [data(1, n)], {"bits": 9}, (1, n), table=data(513))
        d = np.arange(256.0)
        table = np.concatenate([2**24 * np.exp(-256e-4 * d), 2.0**16 * np.exp(-1e-4 * d)])
        rows = int(rng.choice([1, 2, 5]))
        add("softmax_s16", [data(rows, n)], {}, (rows, n), exponentials=np.rint(table).astype(np.uint32))
        factor = {"mult": 2**30, "shift": -7}
        add("widen_s16", [rng.integers(-128, 128, (1, n), dtype=np.int8)], factor | whole, (1, n))
        add("narrow_s8", [data(1, n)], {"mult": 2**30, "shift": 7, "act_min": -128, "act_max": 127}, (1, n))
    return jobs
