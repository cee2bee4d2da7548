"""Networks of the operators that have no weights, random networks, and the models of other tools,
as jobs of the bench."""

from __future__ import annotations

import itertools
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import bare_metal
import numpy as np
from bare_metal import Job
from layer_sweeps import BOARD, takes
from nets import Net
from one_step import model_of
from random_nets import RandomNet
from tabular_cases import tabular_cases
from vector_cases import vector_cases

from mica.compile import compile_file
from mica.errors import MicaError
from mica.file import codec
from mica.format.values import quantise_input

MODELS = Path(__file__).resolve().parents[1] / "models"
RANDOM_NETS = range(1000, 1140)  # seeds; the tests take others
MOST_ELEMENTS = 2000  # of the input of a made-up step


def nets() -> Iterator[Net]:
    """Networks of steps that the sweeps above leave out, in sizes of models: windows, tables, moves, sequences."""
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


def sequences() -> Iterator[Net]:
    """Networks of rows and of time steps."""
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
            ((f"net {i}", n) for i, n in enumerate((*nets(), *sequences()))),
            ((f"random {s}", RandomNet(s)) for s in RANDOM_NETS),
        )
        for name, net in made:
            try:
                yield name, compile_file(net.save(Path(folder)), plain=True).model
            except MicaError:
                refused += 1
    for path in sorted((MODELS / "exports").glob("*.onnx")):
        try:
            yield path.stem, compile_file(path, plain=True).model
        except MicaError:
            refused += 1
    print(f"costs: {refused} networks were refused by the compiler", file=sys.stderr)


def classic() -> list[Job]:
    """Trees, neighbours ... of tests/models on samples of their own, and single steps that tests/kernels makes up."""
    jobs = []
    for path in sorted((MODELS / "classic").glob("*.onnx")):
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
    return [job for job in jobs if takes(codec.decode(job.data))]
