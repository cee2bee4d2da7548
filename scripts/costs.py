"""Measures what steps cost on every emulated core, and writes the table that `mica fit` predicts from.

What is measured: single steps over swept shapes (convolutions of all kinds, dense layers, pools, what moves and joins
elements), random networks, and the exported networks and classic models of tests/models; never the models of ../shared/models nor the digits, by
which the table is judged (`--judge`, and tests/e2e/test_fit.py). Each step runs in the bare-metal program of tests/bench, which
counts cycles in the RP2040 emulator and instructions in QEMU, and has to write the bytes of the numpy reference. Then each kind
of step (`mica.cost.features`) gets the factors, none below 0, that make the squares of the relative errors least.

    scripts/costs                      all cores; writes host_tools/mica/cost/table.json
    scripts/costs --core m0plus        one core; the others stay as they are
    scripts/costs --classic            only what classic models consist of: features, trees, vectors; all else stays as it is
    scripts/costs --codes              only steps whose weights are codes of four bits
    scripts/costs --windows            only convolutions that fast kernels take
    scripts/costs --ways               only what some cores compute in another way than the rest
    scripts/costs --sound              only front ends of sound; all else stays as it is
    scripts/costs --pcen               only front ends with per-channel energy normalisation
    scripts/costs --axes               only front ends of windows of several axes; all else stays as it is
    scripts/costs --decoder            only what decoders have beside dense layers: attention, rotations, rows of caches
    scripts/costs --wide               only kernels of int16
    scripts/costs --norms              only normalisations of rows
    scripts/costs --places             only the best of an axis, and elements at places that are computed
    scripts/costs --board RPI_PICO     what MicroPython adds on an emulated board: its loop, its heap
    scripts/costs --judge              compares the table with the models that it has not seen
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import pickle
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "bench"), str(ROOT / "tests" / "host"), str(ROOT / "tests" / "kernels")]

import bare_metal  # noqa: E402
import isa_cases  # noqa: E402
import layers  # noqa: E402
import sound_frames  # noqa: E402
from attention_cases import attend  # noqa: E402
from audio_cases import sound  # noqa: E402
from axes_cases import window_of  # noqa: E402
from bare_metal import CORES, Core, Job  # noqa: E402
from case import Case  # noqa: E402
from nets import Net  # noqa: E402
from one_step import model_of  # noqa: E402
from random_nets import RandomNet  # noqa: E402
from tabular_cases import tabular_cases  # noqa: E402
from vector_cases import vector_cases  # noqa: E402
from wide_cases import channels  # noqa: E402

from mica.boards import BoardSpec, load_board  # noqa: E402
from mica.compile import compile_file  # noqa: E402
from mica.cost import features  # noqa: E402
from mica.cost.table import PATH, Table  # noqa: E402
from mica.errors import MicaError  # noqa: E402
from mica.format import codec  # noqa: E402
from mica.format.values import quantise_input  # noqa: E402
from mica.kernels import attention, audio, norm, pcen, tabular, vectors, wide  # noqa: E402
from mica.kernels.axes import axes_s8  # noqa: E402
from mica.kernels.base import Kernel  # noqa: E402
from mica.kernels.integers import Output  # noqa: E402
from mica.kernels.movement import pick_s8, scatter_s8  # noqa: E402
from mica.kernels.reduce import top_k_s8  # noqa: E402
from mica.link.targets import open_board  # noqa: E402
from mica.run.open import open_runner  # noqa: E402
from mica.toolchain.cache import cache_dir  # noqa: E402

DEFAULT = ("m0plus", "m3", "m4", "m7", "m33", "m55", "rv32")
BOARD = "MPS2_AN385"  # whose scratch the models want: what most boards give
RANDOM_NETS = range(1000, 1140)  # seeds; the tests take others
MOST_ARENA = 150_000  # bytes of tensors and scratch that the smallest core has room for
MOST_STEPS = 150  # the program's room for the engine's tables
MOST_MACS = 6_000_000
CODED_LEAST = 512  # weights of a layer that takes codes (quantise/lowbits.py)
PLAIN = (
    "-DMICA_WITHOUT_WINOGRAD",
    "-DMICA_WITHOUT_TWINS",
    "-DMICA_WITHOUT_LINES",
)  # a program that has nothing but the ways that all cores have
MOST_ELEMENTS = 2000  # of the input of a made-up step
PART = 60  # models in one start of an emulator
FLOOR = 200.0  # counts that are taken for no error at all in a small step


# --- what is measured ---------------------------------------------------------------------------------------------------


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


def nets() -> Iterator[Net]:
    """Networks of what the layers above lack, in sizes of models: windows, tables, what moves elements, sequences."""
    pictures = [(8, 16, 16), (16, 8, 8), (3, 24, 32), (32, 6, 6), (64, 4, 5), (24, 12, 10)]
    for c, h, w in pictures:
        for k, s, op in itertools.product((2, 3), (1, 2), ("MaxPool", "AveragePool")):
            yield _net((1, c, h, w), lambda n, x, k=k, s=s, op=op: n.add(op, x, kernel_shape=[k, k], strides=[s, s]))
        for k, s, g in ((3, 1, 2), (1, 1, 4), (4, 2, 1), (2, 2, 1)):
            if c % g == 0:
                yield _net(
                    (1, c, h, w), lambda n, x, c=c, k=k, s=s, g=g: n.conv(x, c, 2 * g, k, group=g, strides=[s, s])
                )
        for k, s in ((2, 2), (3, 2), (3, 1)):
            yield _net(
                (1, c, h, w),
                lambda n, x, c=c, k=k, s=s: n.add("ConvTranspose", x, n.random(c, 4, k, k), strides=[s, s]),
            )
        for op in ("Sigmoid", "Tanh", "Softmax", "LogSoftmax"):
            yield _net((1, c, h, w), lambda n, x, op=op: n.add(op, x, **({"axis": 3} if "oft" in op else {})))
        for op in ("Add", "Mul", "Max", "Div"):
            yield _net(
                (1, c, h, w), lambda n, x, op=op, s=(1, c, h, w): n.add(op, x, n.add("Sigmoid", n.input(s, "b")))
            )
            yield _net(
                (1, c, h, w), lambda n, x, op=op, s=(1, c, 1, 1): n.add(op, x, n.add("Sigmoid", n.input(s, "b")))
            )
            yield _net(
                (1, c, h, w), lambda n, x, op=op, s=(1, 1, h, w): n.add(op, x, n.add("Sigmoid", n.input(s, "b")))
            )
        for op in ("ReduceMean", "ReduceMax", "ReduceSum", "ReduceL2"):
            for axes in ([1], [2, 3], [3]):
                yield _net((1, c, h, w), lambda n, x, op=op, axes=axes: _reduce(n, op, x, axes), opset=11)
        for mode in ("nearest", "linear"):
            for scale in (2.0, 1.5):
                yield _net((1, c, h, w), lambda n, x, m=mode, s=scale: _resize(n, x, m, s))
        for mode in ("constant", "edge", "reflect"):
            pads = np.array([0, 0, 1, 2, 0, 0, 1, 1])
            yield _net((1, c, h, w), lambda n, x, m=mode, p=pads: n.add("Pad", x, n.const(p), mode=m))
        for perm in ((0, 2, 1, 3), (0, 3, 2, 1), (0, 1, 3, 2)):
            yield _net((1, c, h, w), lambda n, x, p=perm: n.add("Transpose", n.add("Relu", x), perm=list(p)))
        yield _net((1, c, h, w), lambda n, x: n.add("Concat", x, n.add("Sigmoid", x), axis=1))
        yield _net((1, c, h, w), lambda n, x: n.add("Concat", x, n.add("Sigmoid", x), n.add("Tanh", x), axis=3))
        yield _net((1, c, h, w), lambda n, x: _slice(n, x, 3, 1, 2))
        yield _net((1, c, h, w), lambda n, x: _slice(n, x, 1, 0, 2))
        yield _net((1, c, h, w), lambda n, x: n.add("ArgMax", x, axis=1))
        yield _net((1, c, h, w), lambda n, x: n.add("Gather", x, n.const(np.array([1, 0, 1, 2])), axis=2))
        yield _net((1, c, h, w), lambda n, x, c=c: n.add("InstanceNormalization", x, n.random(c), n.random(c)))
    for t, d in ((4, 16), (8, 32), (16, 24), (10, 64), (32, 10)):
        yield _net((1, t, d), lambda n, x, d=d: n.add("LayerNormalization", x, n.random(d), n.random(d)))
        yield _net((1, t, d), lambda n, x, d=d: n.add("MatMul", x, n.random(d, 2 * d)))
        yield _net((1, t, d), lambda n, x, s=(1, d, t): n.add("MatMul", x, n.input(s, "b")))
        yield _net((1, t, d), lambda n, x: n.add("MatMul", x, n.add("Transpose", n.add("Tanh", x), perm=[0, 2, 1])))
        yield _net((1, t, d), lambda n, x: n.add("Softmax", x, axis=-1))
        for op, g in (("RNN", 1), ("LSTM", 4), ("GRU", 3)):
            for hidden in (5, 16, 40):
                yield _net(
                    (t, 1, d),
                    lambda n, x, op=op, g=g, h=hidden, d=d: n.add(
                        op, x, n.random(1, g * h, d, scale=0.2), n.random(1, g * h, h, scale=0.2), hidden_size=h
                    ),
                )


def _net(shape: Sequence[int], build: Callable[[Net, str], str], opset: int = 17) -> Net:
    net = Net(opset, seed=zlib.crc32(repr(shape).encode()))
    net.output(build(net, net.input(shape)))
    return net


def _reduce(n: Net, op: str, x: str, axes: list[int]) -> str:
    return n.add(op, x, axes=axes)


def _resize(n: Net, x: str, mode: str, scale: float) -> str:
    scales = n.const(np.array([1, 1, scale, scale], np.float32))
    return n.add("Resize", x, n.const(np.zeros(0, np.float32)), scales, mode=mode)


def _slice(n: Net, x: str, axis: int, begin: int, step: int) -> str:
    return n.add("Slice", x, *(n.const(np.array([v])) for v in (begin, 2**31, axis, step)))


def compiled_nets() -> Iterator[tuple[str, codec.ModelFile]]:
    """All networks as models. What the compiler refuses (a random network may hold it) is left out, and counted."""
    refused = 0
    with tempfile.TemporaryDirectory() as folder:
        made: Iterator[tuple[str, Net]] = itertools.chain(
            ((f"net {i}", n) for i, n in enumerate(nets())), ((f"random {s}", RandomNet(s)) for s in RANDOM_NETS)
        )
        for name, net in made:
            try:
                yield name, compile_file(net.save(Path(folder)), plain=True).model
            except MicaError:
                refused += 1
    for path in sorted((ROOT / "tests" / "models" / "exports").glob("*.onnx")):
        try:
            yield path.stem, compile_file(path, plain=True).model
        except MicaError:
            refused += 1
    print(f"costs: {refused} networks were refused by the compiler", file=sys.stderr)


def classic() -> list[Job]:
    """Trees, neighbours ... of tests/models on samples of their own, and the single steps that tests/kernels makes up."""
    jobs = []
    for path in sorted((ROOT / "tests" / "models" / "classic").glob("*.onnx")):
        with np.load(path.with_suffix(".npz")) as data:
            x = data["test/x"][:3]
        model = compile_file(path, {"x": x}, plain=True).model
        made = bare_metal.for_board(model, BOARD)
        t = model.tensors[model.inputs[0]]
        jobs += [Job(f"{path.stem} {i}", made, [quantise_input(row, t)]) for i, row in enumerate(x)]
    for c in (*tabular_cases(), *vector_cases()):
        model = model_of(c)
        if np.prod(c.xs[0].shape) <= MOST_ELEMENTS:
            jobs.append(Job(c.name, bare_metal.for_board(model, BOARD), list(c.xs)))
    return [job for job in jobs if _takes(codec.decode(job.data))]


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
    return [job for job in isa_cases.in_codes(jobs) if _takes(codec.decode(job.data))]


def window_layers() -> Iterator[layers.Layer]:
    """More convolutions: pictures of three channels, planes of few columns, pixels of every number, much and little scratch."""
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


def windowed() -> list[Job]:
    """Convolutions of eight bits that fast kernels take, depthwise ones with the scratch of a whole model as well."""
    jobs = []
    for i, x in enumerate((*swept_layers(), *window_layers())):
        if x.kind in ("conv", "dw"):
            jobs.append(layers.job(x, "", BOARD, (None, None, 4096, 16384)[i % 4] if x.kind == "dw" else None))
    return [job for job in jobs if _takes(codec.decode(job.data))]


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
    return [job for job in jobs if _takes(codec.decode(job.data))]


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
    return [job for job in jobs if _takes(codec.decode(job.data))]


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
    return [job for job in jobs if _takes(codec.decode(job.data))]


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
    return [job for job in jobs if _takes(codec.decode(job.data))]


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


def corpus() -> list[Job]:
    """Everything as jobs; made once for each state of what makes it."""
    text = Path(__file__).read_bytes()
    stamp = zlib.crc32(text[: text.index(b"# --- measuring")])
    kept = cache_dir() / "bench" / f"costs-{stamp:08x}.pickle"
    kept.parent.mkdir(exist_ok=True)
    if kept.exists():
        jobs: list[Job] = pickle.loads(kept.read_bytes())
        return jobs
    jobs = [layers.job(layer, "", BOARD) for layer in swept_layers()]
    for name, model in compiled_nets():
        data = bare_metal.for_board(model, BOARD)
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        jobs.append(Job(name, data, [bare_metal.random_input(model.tensors[i], rng) for i in model.inputs]))
    jobs = [
        *(job for job in jobs if _takes(codec.decode(job.data))),
        *(job for job in windowed() if not job.name.startswith(("conv ", "dw "))),
        *coded(),
        *classic(),
        *sounds(),
        *sounds(("pcen",)),
        *axis_windows(),
        *decoder(),
        *norms(),
        *places(),
        *wide_steps(),
    ]
    kept.write_bytes(pickle.dumps(jobs))
    return jobs


def _takes(model: codec.ModelFile) -> bool:
    arena = (model.arena_bytes or 0) + max((s.scratch_want for s in model.steps), default=0)
    return arena <= MOST_ARENA and len(model.steps) <= MOST_STEPS and sum(s.macs for s in model.steps) <= MOST_MACS


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


def twins() -> Iterator[Job]:
    """Convolutions whose neighbouring outputs share products on some cores."""
    rng = np.random.default_rng(9)
    for i in range(60):
        h, w = (int(rng.choice((2, 4, 5, 7, 8, 12, 16, 24, 32))) for _ in "hw")
        cin, cout = int(rng.choice((1, 3, 4, 8, 12, 16, 24, 32, 48, 64))), int(rng.choice((3, 4, 8, 10, 16, 32, 48)))
        kernel = (int(rng.choice((3, 3, 3, 2, 5))), 3)
        layer = layers.Layer(f"twins {i}", "conv", (h, w, cin), cout, {}, kernel)
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


# --- measuring ----------------------------------------------------------------------------------------------------------


@dataclass
class Sample:
    """One step that was measured."""

    model: str
    kind: str
    counts: features.Counts
    cost: float


def samples(core: Core, jobs: Sequence[Job]) -> list[Sample]:
    """The measured steps of all jobs, computed in the way that all cores have."""
    found = []
    for job, result in zip(jobs, results(core, jobs, PLAIN), strict=True):
        model = codec.decode(job.data)
        for step, cost in zip(model.steps, result.counts, strict=True):
            found.append(Sample(job.name, *features.of_step(model, step, result.scratch_bytes)[0], cost))
    return found


def ways(core: Core) -> list[Sample]:
    """Of the steps that the core computes by another way than the first, where it has one: those that this made cheaper."""
    way, made = ("twins", twins) if core.isa == "armv6m" else ("winograd", winograds)
    jobs = [*made(), *lines()]
    found = []
    for job, plain, chosen in zip(jobs, results(core, jobs, PLAIN), results(core, jobs), strict=True):
        model = codec.decode(job.data)
        if chosen.counts[0] < 0.98 * plain.counts[0]:
            kinds = dict(features.of_step(model, model.steps[0], chosen.scratch_bytes))
            kind = f"conv2d_s8 {way}" if f"conv2d_s8 {way}" in kinds else list(kinds)[-1]
            found.append(Sample(job.name, kind, kinds[kind], chosen.counts[0]))
    return found


def results(core: Core, jobs: Sequence[Job], more: Sequence[str] = ()) -> list[bare_metal.Result]:
    """Runs the jobs, or takes what the same program has counted before.

    Raises MicaError where a step wrote other bytes than the numpy reference.
    """
    program = bare_metal.build(core, more=more)
    stamp = zlib.crc32(b"".join(job.data for job in jobs))
    kept = program.with_name(f"{program.stem}-{stamp:08x}.counts")
    if kept.exists():
        found: list[bare_metal.Result] = pickle.loads(kept.read_bytes())
        return found
    found = []
    for at in range(0, len(jobs), PART):
        part = jobs[at : at + PART]
        done = bare_metal.run(core, program, part)
        wrong = bare_metal.differences(part, done, {job.name: bare_metal.expected(job) for job in part})
        if wrong:
            raise MicaError(f"{core.name}: " + "\n".join(wrong))
        found += done
        print(f"costs: {core.name}: {len(found)} of {len(jobs)} models", file=sys.stderr)
    kept.write_bytes(pickle.dumps(found))
    return found


# --- fitting ------------------------------------------------------------------------------------------------------------


def nonnegative_least_squares(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x >= 0 that makes |a x - b| least: a [m, n], b [m]. Lawson and Hanson's active set, chapter 23 of their book."""
    n = a.shape[1]
    x, free = np.zeros(n), np.zeros(n, bool)
    for _ in range(10 * n):
        gradient = a.T @ (b - a @ x)
        gradient[free] = -np.inf
        best = int(np.argmax(gradient))
        if gradient[best] <= 1e-9 * float(np.abs(b).sum()):
            break
        free[best] = True
        while True:
            trial = np.zeros(n)
            trial[free] = np.linalg.lstsq(a[:, free], b, rcond=None)[0]
            bad = free & (trial <= 0)
            if not bad.any():
                x = trial
                break
            step = float(np.min(x[bad] / np.maximum(x[bad] - trial[bad], 1e-300)))
            x = x + step * (trial - x)
            free &= x > 1e-12
            x[~free] = 0
    return x


def fit(found: Sequence[Sample]) -> dict[str, Any]:
    """The factors of one kind, and how far they are off: `error` is what 9 of 10 steps stay within, relative."""
    names = sorted({name for s in found for name in s.counts})
    a = np.array([[s.counts.get(name, 0.0) for name in names] for s in found])
    b = np.array([s.cost for s in found])
    weight = 1 / (b + FLOOR)
    scaled = a * weight[:, None]
    size = np.linalg.norm(scaled, axis=0)
    size[size == 0] = 1
    x = nonnegative_least_squares(scaled / size, b * weight) / size
    errors = np.abs(a @ x - b) * weight
    factors = {name: float(f"{v:.5g}") for name, v in zip(names, x, strict=True) if v > 0}
    return {"steps": len(found), "error": round(float(np.quantile(errors, 0.9)), 3), "factors": factors}


def fit_all(found: Sequence[Sample]) -> dict[str, Any]:
    """Kind -> its factors."""
    kinds = sorted({s.kind for s in found})
    return {kind: fit([s for s in found if s.kind == kind]) for kind in kinds}


# --- what MicroPython adds ----------------------------------------------------------------------------------------------

# Networks of few and of many steps; free heap before and after, in a Python that holds nothing else.
ON_BOARDS = (
    "torchscript_mlp",
    "sklearn_classifier",
    "torchscript_tiny_opset13",
    "torchscript_resnet",
    "torchscript_mobilenet_v2",
)
HEAP = """
import gc
gc.collect()
free = gc.mem_free()
import mica
m = mica.Model("/rom/model.mica")
gc.collect()
print(free, gc.mem_free())
"""


def board_facts(board: BoardSpec, core: Core) -> dict[str, Any]:
    """What `Table.board` gives for a board, measured on its emulator."""
    jobs = {job.name: job for job in corpus() if job.name in ON_BOARDS}
    calls, overheads, heaps, frees = [], [], [], []
    for job in jobs.values():
        model = codec.decode(job.data)
        with open_board(board.target, rom_files={"model.mica": job.data}) as running:
            before, after = (int(word) for word in running.exec(HEAP).split())
        want = (model.arena_bytes or 0) + model.scratch_want
        static = want <= board.arena
        with open_runner(job.data, board.target, icount=board.port == "qemu") as runner:
            times = runner.bench(job.inputs, 1)
        job.scratch = board.arena - (model.arena_bytes or 0) if static else model.scratch_want
        bare = bare_metal.run(core, bare_metal.build(core), [job])[0].counts
        calls += [a - b for a, b in zip(times.steps, bare, strict=True)]
        overheads.append((len(bare), times.total - sum(times.steps)))
        heaps.append((len(bare), before - after - (0 if static else want)))
        frees.append(before)
    layer, run = np.polyfit(*np.array(overheads, float).T, 1)
    step, fixed = np.polyfit(*np.array(heaps, float).T, 1)
    return {
        "revision": _revision(),
        "core": core.name,
        "port": board.port,
        "ram": board.ram,
        "arena": board.arena,
        "free_heap": min(frees),
        "call": round(float(np.median(calls)), 1),
        "run": round(float(run), 1),
        "layer": round(float(layer), 1),
        "heap_fixed": round(float(fixed)),
        "heap_step": round(float(step), 1),
    }


# --- judging ------------------------------------------------------------------------------------------------------------


def unseen(folder: Path) -> Iterator[Job]:
    """The models that the table is judged by."""
    from bench import whole_models

    if folder.is_dir():
        yield from whole_models(folder, BOARD)
    digits = compile_file(ROOT / "host_tools" / "mica" / "demo" / "digits.onnx", plain=True).model
    rng = np.random.default_rng(1)
    inputs = [bare_metal.random_input(digits.tensors[i], rng) for i in digits.inputs]
    yield Job("digits", bare_metal.for_board(digits, BOARD), inputs)


def judge(core: Core, table: Table, folder: Path) -> list[str]:
    """A line a model: what was predicted, and what it takes."""
    lines = []
    for job in unseen(folder):
        result = bare_metal.run(core, bare_metal.build(core), [job])[0]
        model = codec.decode(job.data)
        steps = [table.step(core.name, model, s, result.scratch_bytes) for s in model.steps]
        told = sum(s.cost for s in steps if s)
        worst = max(
            zip(model.steps, steps, result.counts, strict=True), key=lambda r: abs((r[1].cost if r[1] else 0) - r[2])
        )
        lines.append(
            f"{core.name:8} {job.name:9} {told:13,.0f} predicted {sum(result.counts):13,.0f} measured "
            f"{told / sum(result.counts):6.3f}; most of it in {worst[0].name}: {worst[1].cost if worst[1] else 0:,.0f}, {worst[2]:,.0f}"
        )
    return lines


def _revision() -> str:
    """The last commit that changed the engine, which is what is measured."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(ROOT), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    dirty = "-dirty" if git("status", "--porcelain", "--", "usermod_c") else ""
    return (git("log", "-1", "--format=%h", "--abbrev=7", "--", "usermod_c") or "unknown") + dirty


class Part(NamedTuple):
    """Steps that can be measured anew while all else stays as it is."""

    jobs: Callable[[], list[Job]]
    has: Callable[[str], bool]  # whether a kind is of it


def _of(*rooms: Iterable[Kernel]) -> Callable[[str], bool]:
    names = {kernel.name for room in rooms for kernel in room}
    return lambda kind: kind.split()[0] in names


WINDOWS = {f"conv2d_s8 {kind}" for kind in ("pointwise", "pointwise odd", "window", "window odd")}
WINDOWS |= {f"depthwise_conv2d_s8 3x3 s{stride}" for stride in (1, 2)}
# By the option that asks for it.
PARTS = {
    "classic": Part(classic, _of(tabular.KERNELS, vectors.KERNELS)),
    "sound": Part(sounds, _of(audio.KERNELS)),
    "pcen": Part(lambda: sounds(("pcen",)), _of(pcen.KERNELS)),
    "axes": Part(axis_windows, _of((axes_s8,))),
    "decoder": Part(decoder, _of(attention.KERNELS, (scatter_s8,))),
    "norms": Part(norms, _of(norm.KERNELS)),
    "places": Part(places, _of((top_k_s8, pick_s8))),
    "wide": Part(wide_steps, _of(wide.KERNELS)),
    "windows": Part(windowed, lambda kind: kind in WINDOWS),
    "codes": Part(coded, lambda kind: kind.endswith(features.CODED)),
}


def main() -> int:
    """Measure, fit, write; or judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--core", action="append", choices=list(CORES), help=f"default: {' '.join(DEFAULT)}")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--classic", action="store_true", help="only what classic models consist of")
    only.add_argument("--codes", action="store_true", help="only steps with weights of four bits")
    only.add_argument("--windows", action="store_true", help="only convolutions that fast kernels take")
    only.add_argument("--ways", action="store_true", help="only what some cores compute in another way than the rest")
    only.add_argument("--sound", action="store_true", help="only front ends of sound")
    only.add_argument("--pcen", action="store_true", help="only front ends with per-channel energy normalisation")
    only.add_argument("--axes", action="store_true", help="only front ends of windows of several axes")
    only.add_argument("--decoder", action="store_true", help="only what decoders have beside dense layers")
    only.add_argument("--wide", action="store_true", help="only kernels of int16")
    only.add_argument("--norms", action="store_true", help="only normalisations of rows")
    only.add_argument("--places", action="store_true", help="only the best of an axis, and what is picked from it")
    parser.add_argument("--board", action="append", help="an emulated board, instead of cores")
    parser.add_argument(
        "--judge", action="store_true", help="measure the models that the table has not seen, and compare"
    )
    parser.add_argument("--models", default=str(ROOT.parent / "shared" / "models"), metavar="FOLDER")
    parser.add_argument("--keep", metavar="FILE", help="keep the measured steps as JSON, to look at")
    args = parser.parse_args()
    if args.judge:
        table = Table.read()
        for name in args.core or DEFAULT:
            print("\n".join(judge(CORES[name], table, Path(args.models))), flush=True)
        return 0
    for name in args.board or ():
        board = load_board(name)
        core_name = Table.read().core_of(board)
        if core_name is None or board.emulator is None:
            raise MicaError(f"{name}: expected an emulated board whose core has been measured")
        facts = board_facts(board, CORES[core_name])
        print(name, facts, flush=True)
        _write("boards", name, facts)
    for name in args.core or (() if args.board else DEFAULT):
        core = CORES[name]
        if why := bare_metal.available(core):
            raise MicaError(f"{name}: {why}")
        revision = _revision()  # now: the tree may move on while this runs
        part = next((part for name, part in PARTS.items() if getattr(args, name)), None)
        found = [] if args.ways else samples(core, part.jobs() if part else corpus())
        if args.keep:
            Path(args.keep).write_text(json.dumps([vars(s) for s in found]))
        if part:
            facts = _content()["cores"][name]
            kept = {kind: f for kind, f in facts["kinds"].items() if not part.has(kind)}
            facts["kinds"] = kept | fit_all([s for s in found if part.has(s.kind)])
        elif args.ways:
            facts = _content()["cores"][name]
            facts["kinds"] |= fit_all(ways(core))
        else:
            facts = {"revision": revision, "unit": core.unit, "isa": core.isa, "kinds": fit_all([*found, *ways(core)])}
        _write("cores", name, facts)
    return 0


def _content() -> dict[str, Any]:
    if PATH.exists():
        return dict(json.loads(PATH.read_text()))
    return {"cores": {}, "boards": {}}


def _write(part: str, name: str, facts: dict[str, Any]) -> None:
    """Puts an entry into the table: one line a kind, so that a difference can be read."""
    content = _content()
    content[part][name] = facts
    PATH.write_text(as_text(content) + "\n")


def as_text(content: Any, level: int = 0) -> str:
    """The table as JSON: a line for a board, and for a kind of a core."""
    if not isinstance(content, dict) or (level > 1 and _depth(content) < 3):
        return json.dumps(content, sort_keys=True)
    indent = "\n" + " " * level
    rows = (f"{indent} {json.dumps(name)}: {as_text(value, level + 1)}" for name, value in sorted(content.items()))
    return "{" + ",".join(rows) + indent + "}"


def _depth(content: Any) -> int:
    return 1 + max(map(_depth, content.values()), default=0) if isinstance(content, dict) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (MicaError, OSError, ValueError) as error:
        print(f"costs: {error}", file=sys.stderr)
        sys.exit(1)
