"""Embeddings of labelled data that a user can get: int8 by the packed model, and float32 by the network itself.

digits, whose network never saw four of the ten; words that the keyword network knows;
words that micro_speech never saw; gestures; a machine's recordings.
"""

from __future__ import annotations

import functools
import importlib.util
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from mica.compile import compile_file
from mica.compile.embedding import default
from mica.format.values import quantise_input
from mica.importer import import_model
from mica.ir.front_end import FrontEnd
from mica.reference import axes, front_end
from mica.run.host import HostRunner
from mica.sound import front_ends

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "host_tools" / "mica" / "demo"
MODELS = ROOT.parent / "shared" / "models"
GESTURES = ROOT / "host_tools" / "docs" / "examples" / "gesture" / "gestures.py"
FEATURES = "features:rows=100,axes=6,rate=100,unit=1/16384,bands=4"

Array = np.ndarray


@dataclass(frozen=True)
class Data:
    """whole: int8 embeddings [n, width]; real: float32; y: classes [n]; new: those that the network never saw."""

    whole: Array
    real: Array
    y: Array
    new: tuple[int, ...] = ()

    def of(self, classes: tuple[int, ...]) -> Data:
        kept = np.isin(self.y, classes)
        return Data(self.whole[kept], self.real[kept], self.y[kept], classes)


def _by(packed: bytes, x: Array) -> Array:
    """int8 embeddings of float inputs [n, ...]."""
    with HostRunner(packed) as runner:
        t = runner.model.tensors[runner.model.inputs[0]]
        outputs = runner.run([[quantise_input(one, t)] for one in x])
    return np.stack([o[0].reshape(-1) for o in outputs])


def _by_float(model: onnx.ModelProto, tensor: str, x: Array) -> Array:
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info(tensor))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    shape = [d if isinstance(d, int) else 1 for d in given.shape]
    return np.stack(
        [session.run([tensor], {given.name: one.reshape(shape).astype(np.float32)})[0].reshape(-1) for one in x]
    )


@functools.cache
def digits(folder: Path) -> Data:
    """A network of one hidden layer, trained here on digits 0 to 5 of the demo; 6 to 9 are new to it."""
    d = np.load(DEMO / "digits_test.npz")
    x, y = d["x"].reshape(-1, 64).astype(np.float32) / 16, d["y"].astype(int)
    rng = np.random.default_rng(0)
    known = np.flatnonzero(y < 6)
    w, b = rng.normal(0, 0.18, (64, 48)), np.zeros(48)
    v, c = rng.normal(0, 0.2, (48, 6)), np.zeros(6)
    for _ in range(300):
        for rows in np.array_split(rng.permutation(known), 6):
            a, t = x[rows], np.eye(6)[y[rows]]
            h = np.maximum(a @ w + b, 0)
            z = np.exp((o := h @ v + c) - o.max(1, keepdims=True))
            g = (z / z.sum(1, keepdims=True) - t) / len(rows)
            back = (g @ v.T) * (h > 0)
            v, c, w, b = v - h.T @ g * 0.5, c - g.sum(0) * 0.5, w - a.T @ back * 0.5, b - back.sum(0) * 0.5
    text = "g (float[1,64] x) => (float[1,6] y) "
    text += "{ a = MatMul(x, w) h = Add(a, b) r = Relu(h) o = MatMul(r, v) y = Softmax(o) }"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    for name, value in (("w", w), ("b", b), ("v", v)):
        model.graph.initializer.append(onnx.numpy_helper.from_array(value.astype(np.float32), name))
    path = folder / "six.onnx"
    onnx.save(model, path)
    packed = compile_file(path, x[known], embedding="").data
    return Data(_by(packed, x), _by_float(model, "r", x), y, (6, 7, 8, 9))


@functools.cache
def _words_packed() -> bytes:
    return compile_file(MODELS / "kws" / "model.onnx", np.load(MODELS / "kws" / "calib.npz")["x"], embedding="").data


@functools.cache
def words() -> Data:
    """Ten words, silence (10) and other words (11), of the keyword network."""
    d = np.load(MODELS / "kws" / "eval.npz")
    x = d["x"].astype(np.float32) * d["scale"] + d["offset"]
    path = MODELS / "kws" / "model.onnx"
    return Data(_by(_words_packed(), x), _by_float(onnx.load(path), default(import_model(path)), x), d["y"].astype(int))


@functools.cache
def new_words() -> Data:
    """Nine words that micro_speech never saw, by its embedding; 9 is yes and 3 is no."""
    d = np.load(MODELS / "kws" / "pcm_eval.npz")
    path = MODELS / "tflite" / "micro_speech_int8.tflite"
    calib = np.load(MODELS / "kws" / "pcm_calib.npz")["x"]
    packed = compile_file(path, calib, front_end="pcan:micro-speech,samples=16000", embedding="").data
    whole = _by(packed, d["x"])
    return Data(whole, whole.astype(np.float32), d["y"].astype(int), tuple(k for k in range(10) if k not in (3, 9)))


@functools.cache
def gestures() -> Data:
    """Rest, shake and turn, by features alone."""
    spec = importlib.util.spec_from_file_location("gestures", GESTURES)
    assert spec and spec.loader
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    rng = np.random.default_rng(5)
    kinds = ("rest", "shake", "turn")
    x = np.stack(
        [made.pretend(kind, rng)[start : start + 100] for kind in kinds for _ in range(20) for start in (0, 50, 100)]
    )
    y = np.repeat(np.arange(3), 60)
    calib = np.stack([made.pretend(kind, rng)[:100] for kind in kinds for _ in range(20)])
    packed = compile_file(Path("features"), calib, front_end=FEATURES, embedding="", alone=True).data
    front, _ = front_ends.find_front(FEATURES, (1, 60), "features")
    seen = np.stack([axes.compute(front, one).reshape(-1) for one in calib])
    real = np.stack([axes.compute(front, one).reshape(-1) for one in x])
    return Data(_by(packed, x), ((real - seen.mean(0)) / seen.std(0)).astype(np.float32), y, (0, 1, 2))


@functools.cache
def machines(folder: Path) -> tuple[Data, Array]:
    """Recordings of four machines: mean and mean step of each of 128 columns, centred as `--frontend logmel:` alone is;
    and the machines.

    y: 1 of those that sound odd. Calibration has pieces of five frames of other recordings, repeated.
    """
    d = np.load(MODELS / "ad" / "eval.npz")
    x = d["x"].astype(np.float32) * np.float32(d["scale"]) + np.float32(d["offset"])
    calib = np.load(MODELS / "ad" / "calib.npz")["x"].reshape(160, 5, 128)
    calib = np.tile(calib, (1, 40, 1))
    real, seen = _statistics(x), _statistics(calib)
    text = """g (float[1,200,128] x) => (float[1,256] y) {
        m = ReduceMean<axes=[1], keepdims=0>(x) a = Slice(x, one, end, one) b = Slice(x, zero, last, one)
        c = Sub(a, b) s = Abs(c)
        n = ReduceMean<axes=[1], keepdims=0>(s) r = Concat<axis=1>(m, n) y = Add(r, shift) }"""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    places = {"zero": [0], "one": [1], "last": [199], "end": [200]}
    arrays = {name: np.array(v) for name, v in places.items()} | {"shift": -seen.mean(0)[None].astype(np.float32)}
    arrays["axes"] = np.array([1])
    # The axis of Slice comes fourth, its step fifth.
    for node in model.graph.node:
        if node.op_type == "Slice":
            node.input[3] = "axes"
    model.graph.initializer.extend(onnx.numpy_helper.from_array(v, name) for name, v in arrays.items())
    path = folder / "statistics.onnx"
    onnx.save(model, path)
    packed = compile_file(path, calib, embedding="y").data
    return Data(_by(packed, x), (real - seen.mean(0)).astype(np.float32), d["y"].astype(int)), d["machine_id"]


def _statistics(x: Array) -> Array:
    return np.concatenate([x.mean(1), np.abs(np.diff(x, axis=1)).mean(1)], axis=1)


@functools.cache
def noise() -> Array:
    """int8 embeddings of the keyword network for white and brown noise, and tones."""
    rng, front = np.random.default_rng(3), front_ends.find_front("mfcc:mlperf-kws", (1, 49, 10, 1), "x")[0]
    assert isinstance(front, FrontEnd)
    made = []
    for k in range(45):
        s = rng.standard_normal(16000)
        if k % 3 == 1:
            s = np.cumsum(s) - np.linspace(0, s.sum(), 16000)
        elif k % 3 == 2:
            s = np.sin(2 * np.pi * rng.uniform(80, 3000) * np.arange(16000) / 16000) + 0.1 * s
        loud = np.rint(s / np.abs(s).max() * rng.uniform(300, 20000)).astype(np.int16)
        made.append(front_end.features(front, loud).reshape(49, 10, 1))
    return _by(_words_packed(), np.stack(made).astype(np.float32))


def _motor(rng: np.random.Generator, fault: str) -> Array:
    """A fifth of a second of a motor with a belt, 24 to 26 turns a second, as an accelerometer feels it at 8 kHz."""
    t, turn, at = np.arange(1600) / 8000, rng.uniform(24, 26), rng.uniform(0, 2 * np.pi, 8)

    def waves(rate: float, *parts: float, first: int = 0, change: float = 0.2) -> Array:
        sizes = [a * rng.uniform(1 - change, 1 + change) for a in parts]
        return sum(
            (a * np.sin(2 * np.pi * (k + 1) * rate * t + at[first + k]) for k, a in enumerate(sizes)), np.zeros(len(t))
        )

    belt = 0.38 * turn
    x = waves(turn, 300, 120, 60) + waves(belt, 50, 30, first=3) + rng.normal(0, rng.uniform(50, 70), len(t))
    if fault == "imbalance":
        x += waves(turn, 300, change=0)
    elif fault == "bearing":  # a pit rings at 2.9 kHz each time that a ball passes
        for hit in np.arange(rng.uniform(0, 0.01), 0.19, 1 / (3.58 * turn)):
            since = t - hit * (1 + rng.normal(0, 0.002))
            x += np.where(since >= 0, 300 * np.exp(-since * 667) * np.sin(2 * np.pi * 2900 * since), 0)
    elif fault == "belt":
        x = (x + waves(belt, 180, 120, 60, first=3, change=0)) * (1 + 0.25 * np.sin(2 * np.pi * belt * t))
    return np.rint(x).clip(-32768, 32767).astype(np.int16)


@functools.cache
def motors() -> dict[str, Array]:
    """int8 embeddings by features alone of a motor that is well (""), and of three faults."""
    rng = np.random.default_rng(1)
    calib = np.stack([_motor(rng, "") for _ in range(30)]).astype(np.float32)
    spec = "features:rate=8000,rows=1600,axes=1,unit=1/1024,bands=8"
    packed = compile_file(Path("motor"), calib, front_end=spec, embedding="", alone=True).data
    counts = {"": 420, "imbalance": 100, "bearing": 100, "belt": 100}
    return {
        fault: _by(packed, np.stack([_motor(rng, fault) for _ in range(n)]).astype(np.float32))
        for fault, n in counts.items()
    }
