"""UNIDIRECTIONAL_SEQUENCE_LSTM of int16: beside float64, beside TensorFlow Lite Micro, and its int8 parts.

LiteRT has no kernel for it: its inputs are int8 or float32.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from test_tflite_wide import answers, no_warning
from tflite_files import Tflite
from tflite_lstm import HIDDEN, Layer, X

from mica import engine
from mica.compile import Compiled, compile_file
from mica.exporter import export
from mica.kernels import KERNEL_BY_NAME
from mica.kernels.integers import Output
from mica.kernels.wide import NAMES
from mica.passes import wide
from mica.reference.executor import ReferenceModel

MOVES = {"concat_s8", "move_s8", "transpose_s8"}
LAYERS = {
    "several steps": Layer(),
    "one step": Layer(time=1, units=16, seed=1),
    "time first, two sequences": Layer(time=4, batch=2, time_major=True, seed=2),
    "two sequences": Layer(time=3, batch=2, units=6, inputs=3, seed=3),
    "odd units": Layer(time=3, units=7, inputs=5, cell=2.0**-11, seed=4),
    "a scale for each row": Layer(time=8, units=12, inputs=3, rows=True, seed=5),
    "layers behind it": Layer(time=6, last=True, seed=6),
}
# What the interpreter of the package tflite-micro (0.dev20261023182759) gave for the last run of `SMALL`; where it is installed, it is asked again.
SMALL = Layer(time=3, units=4, seed=7)
MICRO = [[2053, 13207, -14517, 1422], [-4208, 2013, -14068, 10641], [352, -5556, -11677, 5983]]


def packed(layer: Layer, folder: Path, warn: Callable[[str], None] = no_warning) -> Compiled:
    path = folder / "net.tflite"
    path.write_bytes(layer.content())
    return compile_file(path, warn=warn)


def of_engine(compiled: Compiled, xs: list[np.ndarray]) -> np.ndarray:
    """Real numbers."""
    first, last = (compiled.model.tensors[ids[0]] for ids in (compiled.model.inputs, compiled.model.outputs))
    if first.dtype == "int8":
        xs = [np.clip(np.rint(x * (X / first.scale)), -128, 127).astype(np.int8) for x in xs]
    return np.array(answers(compiled, xs)) * np.float64(last.scale)


def near(found: np.ndarray, expected: np.ndarray) -> float:
    """dB."""
    return float(10 * np.log10(np.sum(expected**2) / np.sum((found - expected) ** 2)))


@pytest.mark.parametrize("name", LAYERS)
def test_near_float(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve runs, whose states live on; beside them the same in int8."""
    layer = LAYERS[name]
    compiled, xs = packed(layer, tmp_path), layer.samples()
    assert {s.kernel for s in compiled.model.steps} <= {*NAMES, *MOVES}
    expected = layer.real(xs)
    fine = near(of_engine(compiled, xs), expected)
    monkeypatch.setattr(wide, "MOST_TIME", 0)
    coarse = near(of_engine(packed(layer, tmp_path, [].append), xs), expected)
    print(f"{name}: int16 {fine:.1f} dB, int8 {coarse:.1f} dB, {len(compiled.data)} bytes")
    assert fine > 62 and fine > coarse + 25


def test_beside_tflite_micro(tmp_path: Path) -> None:
    """It rounds where ours does; its functions come from coarser tables."""
    found = answers(packed(SMALL, tmp_path), SMALL.samples())[-1].reshape(np.shape(MICRO))
    assert np.abs(found - np.array(MICRO)).max() <= 16


def test_tflite_micro_again() -> None:
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime", reason="tflite-micro is not installed")
    interpreter: Any = runtime.Interpreter.from_bytes(SMALL.content())
    for x in SMALL.samples():
        interpreter.set_input(x, 0)
        interpreter.invoke()
    assert interpreter.get_output(0)[0].tolist() == MICRO


def test_the_engine_beside_python(tmp_path: Path) -> None:
    layer = LAYERS["two sequences"]
    compiled, xs = packed(layer, tmp_path), layer.samples(2)
    plain, found = ReferenceModel(compiled.data), []
    for x in xs:
        plain.set_input(0, x)
        plain.run()
        found.append(plain.output(0).copy())
    assert np.array_equal(found, answers(compiled, xs))


def test_states(tmp_path: Path) -> None:
    """Both are int16, and 0 again after a reset."""
    layer = Layer(time=2, seed=8)
    compiled, xs = packed(layer, tmp_path), layer.samples(4)
    states = [t for t in compiled.model.tensors if t.space == "state"]
    assert [(t.dtype, t.dims, t.scale) for t in states] == [("int16", (1, 1, 8), s) for s in (HIDDEN, layer.cell)]
    loaded, found = engine.load(compiled.data), []
    for x in (*xs, *xs):
        if len(found) == len(xs):
            loaded.reset_state()
        loaded.set_input(0, x)
        loaded.run()
        found.append(loaded.output(0).copy())
    assert np.array_equal(found[:4], found[4:])
    assert not np.array_equal(found[3], answers(compiled, xs[3:])[0])  # earlier runs count


def test_weights_are_in_the_file_once(tmp_path: Path) -> None:
    short, long = (packed(Layer(time=time, units=16, inputs=16), tmp_path) for time in (1, 3))
    weights = {s.blobs["weights"].tobytes() for s in long.model.steps if s.kernel == "conv2d_s16"}
    assert len(weights) == 2 and all(long.data.count(w) == 1 for w in weights)
    assert len(long.data) - len(short.data) < 2 * 3200


@pytest.mark.parametrize(
    "layer",
    (
        Layer(time=wide.MOST_TIME + 1),
        Layer(time=2, peepholes=True),
        Layer(time=2, hidden=HIDDEN / 2),
        Layer(time=2, bias=2**40),
    ),
    ids=("too long", "peepholes", "another scale of its state", "large biases"),
)
def test_what_stays_int8(layer: Layer, tmp_path: Path) -> None:
    said: list[str] = []
    compiled = packed(layer, tmp_path, said.append)
    text = "int16 tensors become int8, the same range in steps 256 times larger: {}; see the quality line"
    assert said in ([text.format("'x', 'layer'")], [text.format("'layer', 'x'")])
    steps, carried = compiled.model.steps, ("hidden", "cell")  # states keep 16 bits where the layer is one of int8
    assert {s.kernel for s in steps if not s.name.endswith((".take", ".keep"))} <= {"recurrent_s8", "lut_s8"}
    assert {t.dtype for t in compiled.model.tensors if not any(word in t.name for word in carried)} == {"int8"}


def test_as_many_steps_as_there_may_be(tmp_path: Path) -> None:
    layer = Layer(time=wide.MOST_TIME, seed=10)
    compiled, xs = packed(layer, tmp_path), layer.samples(3)
    assert near(of_engine(compiled, xs), layer.real(xs)) > 62
    assert len(compiled.model.steps) <= 10 * layer.time + 4 + 5  # copies of the states, what is joined


def own(name: str) -> type[OpRun]:
    """A kernel as an operator of the domain `mica`, whose attributes are its parameters and constants."""
    kernel = KERNEL_BY_NAME[name]

    def run(self: OpRun, *xs: np.ndarray, **attributes: Any) -> tuple[np.ndarray]:
        blobs, params = ({k: attributes[k] for k in names} for names in (dict(kernel.blobs), kernel.params))
        dims = np.broadcast_shapes(*(x.shape for x in xs))
        if name == "conv2d_s16":
            dims = (*dims[:3], len(blobs["weights"]))
        return (kernel.oracle(xs, blobs, params, Output(dims)),)

    return type(name, (OpRun,), {"op_domain": "mica", "_run": run})


def test_as_onnx(tmp_path: Path) -> None:
    """`info --onnx`: operators of ONNX's where int16 only moves, kernels' nodes elsewhere; the states are handed on."""
    layer = Layer(time=3, units=6, inputs=3, seed=11)
    compiled, xs = packed(layer, tmp_path), layer.samples(3)
    model = export(compiled.model)
    onnx.checker.check_model(model)
    kernels = {"conv2d_s16", "binary_s16", "lut_s16"}
    assert {n.op_type for n in model.graph.node if n.domain == "mica"} == kernels
    session = ReferenceEvaluator(model, new_ops=[own(name) for name in sorted(kernels)])
    first, *states = session.input_names
    kept = {name: np.zeros((1, 1, 6), np.int16) for name in states}
    assert len(kept) == 2
    for x, expected in zip(xs, answers(compiled, xs), strict=True):
        found, *behind = session.run(None, {first: x, **kept})
        kept = dict(zip(kept, behind, strict=True))
        assert np.array_equal(found, expected)


def test_a_state_of_int16_on_another_scale(tmp_path: Path) -> None:
    """`--state` rescales the kept values, here by 2 / 3."""
    net = Tflite()
    x, h, y = (net.tensor([1, 8], "int16", scale, name=name) for name, scale in (("x", 1e-3), ("h", 3e-3), ("y", 2e-3)))
    net.operator("SUB", [x, h], [y], "SubOptions", {"activation": 0})
    path = tmp_path / "net.tflite"
    path.write_bytes(net.bytes([x, h], [y]))
    compiled = compile_file(path, warn=no_warning, states=[("h", "y")])
    assert [s.kernel for s in compiled.model.steps] == ["binary_s16"] * 3
    rng = np.random.default_rng(12)
    xs, kept = [rng.integers(-8000, 8000, (1, 8)).astype(np.int16) for _ in range(6)], np.zeros((1, 8))
    for v, found in zip(xs, answers(compiled, xs), strict=True):
        expected = np.floor((v - 3 * kept) / 2 + 0.5)
        assert np.abs(found - expected).max() <= 1
        kept = np.floor(found * 2 / 3 + 0.5)
