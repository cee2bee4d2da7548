"""Networks of sound with their front end in the graph, as exporters write it: without torch, node by node."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from mica.sound import front_ends

FEATURES = "features"  # the name of the last value of a front end


class Net:
    """A graph that grows at its end."""

    def __init__(self, samples: int, opset: int = 20) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, samples])
        self.opset = opset
        self.last = "x"

    def const(self, a: np.ndarray | Sequence[float] | float, dtype: type = np.float32) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(a, dtype), f"c{len(self.constants)}"))
        return str(self.constants[-1].name)

    def add(self, op: str, *inputs: str, to: str = "", **attrs: object) -> str:
        """A node that reads the last value, unless inputs are named; "" among them is the last value."""
        name = to or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [i or self.last for i in inputs or ("",)], [name], name, **attrs))
        self.last = name
        return name

    def shaped(self, *shape: int) -> str:
        return self.add("Reshape", "", self.const(shape, np.int64))

    def save(self, path: Path, rows: int, columns: int, turned: bool) -> Path:
        """Behind the features a layer for each class: how much louder bands above the middle are,
        and how loud all is."""
        self.add("Identity", to=FEATURES)
        order = np.arange(columns) >= columns // 2
        upper = np.tile(order, rows) if not turned else np.repeat(order, rows)
        side = np.where(upper, 1.0, -1.0) / (rows * columns / 2)
        self.add("Flatten")
        w = np.stack([-side, side, np.full(rows * columns, -1 / (rows * columns))])
        self.add("Gemm", "", self.const(w), self.const(np.zeros(3)), to="y", transB=1)
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])
        graph = helper.make_graph(self.nodes, "sound", [self.x], [y], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9)
        onnx.save(model, path)
        return path


def mel(fft: int, bands: int = 20) -> np.ndarray:
    """HTK's triangles at 16 kHz, [bins, bands]."""
    return front_ends.mel_filters(16000, fft, bands, 20.0, 8000.0, "htk", "none").T


def torchaudio(path: Path, samples: int, fft: int, hop: int, power: float = 2.0, db: str = "", win: int = 0) -> Path:
    """MelSpectrogram, centred, and a logarithm or AmplitudeToDB ("db", with "80" behind it top_db),
    by torch.onnx.export of 2.13."""
    net, win = Net(samples), win or fft
    window = np.zeros(fft)
    window[(fft - win) // 2 :][:win] = front_ends.window("hann", win)
    net.shaped(1, 1, samples)
    net.add("Pad", "", net.const([0, 0, fft // 2, 0, 0, fft // 2], np.int64), mode="reflect")
    net.shaped(1, samples + fft)
    net.add("Unsqueeze", "", net.const([-1], np.int64))
    integer = [net.const(v, np.int64) for v in (hop, fft)]
    net.add("STFT", "", integer[0], net.const(window), integer[1], onesided=1)
    net.add("Transpose", perm=[0, 2, 1, 3])
    net.add("ReduceL2", "", net.const([-1], np.int64), keepdims=0)
    if power == 2.0:
        net.add("Pow", "", net.const(2.0))
    net.add("Transpose", perm=[0, 2, 1])
    net.add("MatMul", "", net.const(mel(fft)))
    net.add("Transpose", perm=[0, 2, 1])
    if db:
        net.add("Clip", "", net.const(1e-10))
        net.add("Log")
        net.add("Div", "", net.const(np.log(10)))
        logs = net.add("Mul", "", net.const(10.0))
        if db == "db80":
            net.add("ReduceMax", "", net.const([-2, -1], np.int64))
            net.add("Sub", "", net.const(80.0))
            net.add("Max", logs, "")
    else:
        net.add("Add", "", net.const(1e-6))
        net.add("Log")
    return net.save(path, 1 + samples // hop, 20, turned=True)


def convolutions(path: Path, samples: int, fft: int, hop: int) -> Path:
    """Two convolutions with cosines and sines, sizes, filters from the left, a mean and deviation taken off."""
    net = Net(samples, 17)
    angle = 2 * np.pi * np.outer(np.arange(fft // 2 + 1), np.arange(fft)) / fft
    window = front_ends.window("hamming", fft)
    net.add("Unsqueeze", "", net.const([1], np.int64))
    x, squares = net.last, []
    for table in (np.cos(angle), -np.sin(angle)):
        y = net.add("Conv", x, net.const((table * window)[:, None]), strides=[hop])
        squares.append(net.add("Mul", y, y))
    net.add("Add", *squares)
    net.add("Sqrt")
    net.add("MatMul", net.const(mel(fft).T), "")
    net.add("Max", "", net.const(1e-5))
    net.add("Log")
    net.add("Sub", "", net.const(-4.0))
    net.add("Div", "", net.const(3.0))
    return net.save(path, 1 + (samples - fft) // hop, 20, turned=True)


def matrices(path: Path, samples: int, fft: int, hop: int, cepstra: int = 12) -> Path:
    """Frames picked by a Gather, one matrix of cosines and sines side by side, powers, filters, a logarithm,
    a cosine transform."""
    net = Net(samples, 17)
    rows, bins = 1 + (samples - fft) // hop, fft // 2 + 1
    net.add("Gather", "", net.const(np.arange(rows)[:, None] * hop + np.arange(fft), np.int64), axis=1)
    net.add("Mul", "", net.const(front_ends.window("hann-symmetric", fft)))
    angle = 2 * np.pi * np.outer(np.arange(fft), np.arange(bins)) / fft
    net.add("MatMul", "", net.const(np.concatenate([np.cos(angle), np.sin(angle)], axis=1)))
    net.add("Pow", "", net.const(2.0))
    parts = [net.add("Slice", net.nodes[-1 - k].output[0], *(net.const([v], np.int64) for v in (k * bins,
        (k + 1) * bins, 2)))
             for k in (0, 1)]  # fmt: skip
    net.add("Add", *parts)
    net.add("MatMul", "", net.const(mel(fft)))
    net.add("Add", "", net.const(1e-6))
    net.add("Log")
    net.add("MatMul", "", net.const(front_ends.dct("ortho", cepstra, 20).T))
    return net.save(path, rows, cepstra, turned=False)


def onnx_operators(path: Path, samples: int, fft: int, hop: int) -> Path:
    """ONNX's own: frames side by side, HannWindow, DFT, MelWeightMatrix."""
    net = Net(samples)
    rows = 1 + (samples - fft) // hop
    frames = [
        net.add("Slice", "x", *(net.const([v], np.int64) for v in (r * hop, r * hop + fft, 1))) for r in range(rows)
    ]
    net.add("Concat", *frames, axis=0)
    net.add("Mul", "", net.add("HannWindow", net.const(fft, np.int64)) and net.nodes[-2].output[0])
    net.nodes[-1].input[1] = net.nodes[-2].output[0]
    net.nodes[-1].input[0] = net.nodes[-3].output[0]
    net.shaped(1, rows, fft, 1)
    net.add("DFT", "", "", net.const(2, np.int64), onesided=1)
    net.nodes[-1].input[1] = ""
    net.add("ReduceSumSquare", "", net.const([-1], np.int64), keepdims=0)
    numbers = [net.const(v, np.int64) for v in (20, fft, 16000)]
    ends = [net.const(v) for v in (20.0, 8000.0)]
    spectrum = net.last
    weights = net.add("MelWeightMatrix", *numbers, *ends)
    net.add("MatMul", spectrum, weights)
    net.add("Add", "", net.const(1e-6))
    net.add("Log")
    return net.save(path, rows, 20, turned=False)


def spectrum_alone(path: Path, samples: int, fft: int, hop: int) -> Path:
    """No logarithm: a network of the sizes themselves."""
    net = Net(samples)
    net.add("Unsqueeze", "", net.const([-1], np.int64))
    integer = [net.const(v, np.int64) for v in (hop, fft)]
    net.add("STFT", "", integer[0], net.const(front_ends.window("hann", fft)), integer[1], onesided=1)
    net.add("ReduceL2", "", net.const([-1], np.int64), keepdims=0)
    net.add("Relu")
    return net.save(path, 1 + (samples - fft) // hop, fft // 2 + 1, turned=False)
