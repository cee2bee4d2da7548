"""`pack --state` and `--window`: models that keep tensors from run to run.

The truth is ONNX Runtime, which is given the state of the run before (float), or the whole sequence,
or the whole window at once. Engine and reference are compared byte for byte,
and so are boards (tests/e2e/test_verify.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import litert
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from tflite_nets import lstm8

from mica import engine
from mica.compile import Compiled, compile_file
from mica.errors import MicaError
from mica.format.values import dequantise_output, quantise_input
from mica.importer.tflite import model as tflite
from mica.passes.streaming import Window
from mica.reference.executor import ReferenceModel

STEPS, FEATURES, UNITS = 40, 6, 8
TRIALS = Path(__file__).resolve().parents[2].parent / "shared" / "trials"
needs_trials = pytest.mark.skipif(not TRIALS.exists(), reason="../shared/trials is not here")


def save(path: Path, nodes: list[Any], inputs: dict[str, Any], outputs: dict[str, Any], **consts: np.ndarray) -> Path:
    graph = helper.make_graph(
        nodes,
        path.stem,
        [helper.make_tensor_value_info(k, TensorProto.FLOAT, v) for k, v in inputs.items()],
        [helper.make_tensor_value_info(k, TensorProto.FLOAT, v) for k, v in outputs.items()],
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in consts.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)
    return path


def recurrent(tmp_path: Path, op: str, length: int = 1) -> Path:
    """A recurrent layer over `length` time steps, whose initial state is an input; and a dense layer behind it."""
    rng = np.random.default_rng(3)
    gates, states = {"GRU": (3, ["h"]), "LSTM": (4, ["h", "c"])}[op]
    weights = {
        "w": rng.normal(0, 0.5, (1, gates * UNITS, FEATURES)),
        "r": rng.normal(0, 0.5, (1, gates * UNITS, UNITS)),
        "b": rng.normal(0, 0.2, (1, 2 * gates * UNITS)),
        "dense": rng.normal(0, 0.5, (UNITS, 3)),
    }
    after = [f"{s}_after" for s in states]
    nodes = [
        helper.make_node(op, ["x", "w", "r", "b", "", *states], ["all", *after], hidden_size=UNITS),
        helper.make_node("MatMul", ["all", "dense"], ["y"]),
    ]
    shape = [1, 1, UNITS]
    ins = {"x": [length, 1, FEATURES], **dict.fromkeys(states, shape)}
    outs = {"y": [length, 1, 1, 3], **dict.fromkeys(after, shape)}
    return save(tmp_path / f"{op}{length}.onnx", nodes, ins, outs, **weights)


def sequence(n: int = STEPS, seed: int = 1) -> np.ndarray:
    """A walk, [n, 1, 1, FEATURES]: each row depends on the one before."""
    rng = np.random.default_rng(seed)
    return np.tanh(np.cumsum(rng.normal(0, 0.4, (n, 1, 1, FEATURES)), axis=0)).astype(np.float32)


def stream(compiled: Compiled, xs: np.ndarray) -> np.ndarray:
    """Outputs of consecutive runs as real numbers; the engine and the reference gave the same bytes in each."""
    native, reference = engine.load(compiled.data), ReferenceModel(compiled.data)
    m = compiled.model
    t, out = m.tensors[m.inputs[0]], m.tensors[m.outputs[0]]
    results = []
    for x in xs:
        for loaded in (native, reference):
            loaded.set_input(0, quantise_input(x, t))
            loaded.run()
        assert native.output(0).tobytes() == reference.output(0).tobytes()
        results.append(dequantise_output(native.output(0), out))
    return np.stack(results)


def sqnr(found: np.ndarray, expected: np.ndarray) -> float:
    expected = expected.reshape(found.shape)
    return float(10 * np.log10(np.sum(expected**2) / np.sum((found - expected) ** 2)))


@pytest.mark.parametrize("op", ["GRU", "LSTM"])
def test_recurrent_state(tmp_path: Path, op: str) -> None:
    """One time step a run equals ONNX Runtime's result for the whole sequence at once."""
    states = ["h", "c"] if op == "LSTM" else ["h"]
    pairs = [(s, f"{s}_after") for s in states]
    compiled = compile_file(recurrent(tmp_path, op), {"x": sequence(200, 2)}, states=pairs)
    m = compiled.model
    assert len(m.inputs) == len(m.outputs) == 1 and m.state_bytes == 16 * len(pairs)
    assert [s.kernel for s in m.steps].count("recurrent_s8") == 1
    assert {t.dtype for t in m.tensors if t.space == "state"} == {"int16"}
    xs = sequence()
    whole = onnxruntime.InferenceSession(recurrent(tmp_path, op, STEPS), providers=["CPUExecutionProvider"])
    zeros = {s: np.zeros((1, 1, UNITS), np.float32) for s in states}
    (expected,) = whole.run(["y"], {"x": xs.reshape(STEPS, 1, FEATURES), **zeros})
    found = stream(compiled, xs)
    assert sqnr(found, expected) > 28
    # Without its memory it would not be.
    loaded = engine.load(compiled.data)
    t, out = m.tensors[m.inputs[0]], m.tensors[m.outputs[0]]
    single = []
    for x in xs:
        loaded.reset_state()
        loaded.set_input(0, quantise_input(x, t))
        loaded.run()
        single.append(dequantise_output(loaded.output(0), out))
    assert sqnr(np.stack(single), expected) < 15


def test_window(tmp_path: Path) -> None:
    """A convolution over a window that slides by 3 rows equals the model's result for each whole window."""
    rng = np.random.default_rng(5)
    length, rows = 12, 3
    path = save(
        tmp_path / "window.onnx",
        [
            helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
            helper.make_node("Conv", ["t", "w", "b"], ["c"], kernel_shape=[3]),
            helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("ReduceMean", ["r"], ["y"], axes=[2], keepdims=0),
        ],
        {"x": [1, length, FEATURES]},
        {"y": [1, 4]},
        w=rng.normal(0, 0.5, (4, FEATURES, 3)),
        b=rng.normal(0, 0.1, 4),
    )
    xs = sequence(STEPS * rows).reshape(STEPS, 1, rows, FEATURES)
    compiled = compile_file(
        path, {"x": sequence(300, 2).reshape(100, 1, rows, FEATURES)}, windows=[Window("x", None, rows)]
    )
    m = compiled.model
    assert m.tensors[m.inputs[0]].name == "x" and m.tensors[m.inputs[0]].dims == (1, rows, FEATURES)
    assert m.state_bytes == -(-(length - rows) * FEATURES // 16) * 16
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    past = np.concatenate([np.zeros((length, FEATURES), np.float32), xs.reshape(-1, FEATURES)])
    expected = np.stack([session.run(None, {"x": past[None, k * rows :][:, :length]})[0] for k in range(1, STEPS + 1)])
    assert sqnr(stream(compiled, xs), expected) > 22


def test_unlike_scales_are_converted(tmp_path: Path) -> None:
    """A state whose input has a scale of its own, from a quantised model, is converted where it is kept."""
    from mica.file.codec import ModelFile, StepRecord, TensorRecord, encode
    from mica.packing.state import with_state

    params = {"mult_a": 1, "mult_b": 1, "offset": 0, "shift": 0, "act_min": -128, "act_max": 127}
    model = ModelFile(
        tensors=[
            TensorRecord("x", "int8", (4,), 0.5, 0, offset=0),
            TensorRecord("s", "int8", (4,), 0.5, 0, offset=16),
            TensorRecord("y", "int8", (4,), 1.0, 3, offset=32),
            TensorRecord("z", "int8", (4,), 1.0, 0, offset=48),
        ],
        steps=[
            StepRecord("add", "add_s8", (0, 1), (2,), {**params, "offset": 1, "shift": 1}),
            StepRecord("out", "add_s8", (0, 1), (3,), params),
        ],
        inputs=[0, 1],
        outputs=[2, 3],
    )
    loaded = engine.load(encode(with_state(model, [("s", "y")])))
    loaded.set_input(0, np.array([2, -2, 4, 100], np.int8))
    loaded.run()
    # y = 3 + (x + s + 1 >> 1) = 4, 2, 5, 53 of scale 1 and zero 3: kept as (y - 3) * 2.
    np.testing.assert_array_equal(loaded.tensor(2), [4, 2, 5, 53])
    np.testing.assert_array_equal(loaded.tensor(4), [2, -2, 4, 100])
    loaded.reset_state()
    np.testing.assert_array_equal(loaded.tensor(4), 0)


@pytest.mark.parametrize(
    ("states", "windows", "text"),
    [
        ([("q", "h_after")], [], "no input 'q'; its inputs are x, h"),
        ([("h", "q")], [], "no output 'q'"),
        ([("h", "y")], [], "the input has shape"),
        ([("h", "h_after"), ("h", "h_after")], [], "named twice"),
        ([], [Window("q", None, 1)], "no input 'q'"),
        ([], [Window("x", 2, 6)], "6 rows on axis 2; expected 1 to 5"),
        ([], [Window("x", 7, 1)], "axis 7"),
    ],
)
def test_refusals(tmp_path: Path, states: list[tuple[str, str]], windows: list[Window], text: str) -> None:
    with pytest.raises(MicaError, match=text) as e:
        compile_file(recurrent(tmp_path, "GRU"), states=states, windows=windows)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("form", ["two layers", "one state", "read elsewhere"])
def test_carried_states(tmp_path: Path, form: str) -> None:
    """States that are taken apart and joined by moves stay 16 bits; one that the network computes with stays int8."""
    rng = np.random.default_rng(4)
    weights = {f"{k}{n}": rng.normal(0, 0.4, (1, 4 * UNITS, w)) for n in "01" for k, w in (("w", UNITS), ("r", UNITS))}
    splits = [helper.make_node("Split", [s], [f"{s}0", f"{s}1"], axis=0) for s in "hc"]
    layer = [("x", "0", "y0"), ("a", "1", "y1")]
    cells = [
        helper.make_node(
            "LSTM", [x, f"w{k}", f"r{k}", "", "", f"h{k}", f"c{k}"], [y, f"hn{k}", f"cn{k}"], hidden_size=UNITS
        )
        for x, k, y in layer
    ]
    joins = [helper.make_node("Concat", [f"{s}n0", f"{s}n1"], [f"{s}_after"], axis=0) for s in "hc"]
    squeeze = helper.make_node("Squeeze", ["y0", "one"], ["a"])
    nodes = [*splits, cells[0], squeeze, cells[1], *joins]
    ins, outs = {"h": [2, 1, UNITS], "c": [2, 1, UNITS]}, {"h_after": [2, 1, UNITS], "c_after": [2, 1, UNITS]}
    if form == "one state":  # as voice detectors have it: hidden and cell states in one tensor
        nodes = [
            helper.make_node("Split", ["s"], ["h", "c"], axis=0),
            *nodes,
            helper.make_node("Concat", ["h_after", "c_after"], ["s_after"], axis=0),
        ]
        ins, outs = {"s": [4, 1, UNITS]}, {"s_after": [4, 1, UNITS]}
    last = "y1" if form != "read elsewhere" else "y2"
    nodes += [helper.make_node("Add", ["y1", "h0"], ["y2"])] if last == "y2" else []
    nodes.append(helper.make_node("Squeeze", [last, "one"], ["y"]))
    path = save(tmp_path / "two.onnx", nodes, {"x": [1, 1, UNITS], **ins}, {"y": [1, 1, UNITS], **outs}, **weights)
    model = onnx.load(path)
    model.graph.initializer.append(numpy_helper.from_array(np.array([1]), "one"))
    onnx.save(model, path)
    pairs = list(zip(ins, outs, strict=True))
    xs = np.concatenate([sequence(120, 3), sequence(120, 5)[..., :2]], axis=-1)
    compiled = compile_file(path, {"x": xs}, states=pairs)
    count = [s.kernel for s in compiled.model.steps].count("recurrent_s8")
    assert (count, {t.dtype for t in compiled.model.tensors if t.space == "state"}) == (
        (4, {"int8"}) if last == "y2" else (2, {"int16"})
    )
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    states, expected = {s: np.zeros(ins[s], np.float32) for s in ins}, []
    for x in xs[:STEPS]:
        y, *behind = session.run(["y", *outs], {"x": x.reshape(1, 1, UNITS), **states})
        states = dict(zip(ins, behind, strict=True))
        expected.append(y)
    found = sqnr(stream(compiled, xs[:STEPS]), np.stack(expected))
    print(form, f"{found:.1f} dB")
    assert found > (20 if last == "y2" else 30)


@pytest.mark.parametrize(
    "names", [("hidden", "hidden_out"), ("hx", "hx_next"), ("h0", "hn"), ("state_in", "state_out")]
)
def test_states_by_name(tmp_path: Path, names: tuple[str, str]) -> None:
    """A cell of the network's own, whose state only its name tells; where samples feed it, it is an input."""
    source, result = names
    nodes = [
        helper.make_node("Concat", ["x", source], ["both"], axis=1),
        helper.make_node("MatMul", ["both", "w"], ["z"]),
        helper.make_node("Tanh", ["z"], [result]),
        helper.make_node("MatMul", [result, "v"], ["y"]),
    ]
    rng = np.random.default_rng(1)
    w, v = rng.normal(0, 0.4, (FEATURES + UNITS, UNITS)), rng.normal(0, 0.4, (UNITS, 3))
    ins, outs = {"x": [1, FEATURES], source: [1, UNITS]}, {"y": [1, 3], result: [1, UNITS]}
    path = save(tmp_path / "own.onnx", nodes, ins, outs, w=w, v=v)
    x = sequence(16)[:, 0, 0][:, None]
    np.savez(tmp_path / "zero.npz", x=x, **{source: np.zeros((16, 1, UNITS), np.float32)})
    for samples in ({"x": x}, tmp_path / "zero.npz"):
        assert compile_file(path, samples).model.state_bytes == 16
    fed = {"x": x, source: np.ones((16, 1, UNITS), np.float32)}
    assert len(compile_file(path, fed).model.inputs) == 2
    said: list[str] = []
    compile_file(path, {**fed, source: 0 * fed[source]}, states=(), warn=said.append)
    assert any(f"or --state {source}={result}" in line for line in said)


def test_lstm_of_tflite(tmp_path: Path) -> None:
    """An int8 LSTM, one frame a run: after 32 frames nearer to real numbers than LiteRT's kernels,
    1 dB behind at most."""
    content = lstm8(1, 1, 32)
    path = tmp_path / "lstm.tflite"
    path.write_bytes(content)
    compiled, made, model = compile_file(path), litert.interpreter(content), tflite.read(path)
    assert [s.kernel for s in compiled.model.steps].count("recurrent_s8") == 1
    ids = model.operators[0].inputs

    def real(i: int) -> np.ndarray:
        t = model.tensors[i]
        return np.asarray(t.data, np.float64) * t.grid.scale  # type: ignore[union-attr]

    (w, r, b), h, c = ([real(i) for i in ids[k : k + 4]] for k in (1, 5, 12)), np.zeros(32), np.zeros(32)
    expected, theirs, ours = [], [], []
    loaded, out = engine.load(compiled.data), compiled.model.tensors[compiled.model.outputs[0]]
    for x in np.random.default_rng(0).integers(-128, 128, (32, 1, 1, 3)).astype(np.int8):
        v = (x[0, 0].astype(np.float64) + 5) * 0.02
        i, f, n, o = (p @ v + q @ h + k for p, q, k in zip(w, r, b, strict=True))
        c = c / (1 + np.exp(-f)) + np.tanh(n) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        expected.append(h)
        theirs.append(litert.run(made, [x])[0].reshape(-1) / 128)
        loaded.set_input(0, x)
        loaded.run()
        ours.append(dequantise_output(loaded.output(0), out).reshape(-1))
    a, b2 = (sqnr(np.array(found), np.array(expected)) for found in (ours, theirs))
    print(f"mica {a:.1f} dB, LiteRT {b2:.1f}")
    assert a > b2 - 1


@needs_trials
def test_the_trial_of_a_state_by_its_shape() -> None:
    """Found by its name; where nobody wants that, the warning says what to write."""
    folder, said = TRIALS / "state-by-shape", []
    compiled = compile_file(folder / "model.onnx", folder / "calib.npz")
    assert [compiled.model.tensors[i].name for i in compiled.model.inputs] == ["x"]
    compile_file(folder / "model.onnx", folder / "calib.npz", states=(), warn=said.append)
    assert any("or --state hidden=hidden_out" in line for line in said)


@needs_trials
def test_the_trial_of_two_lstms() -> None:
    """Each LSTM once a run, states of 16 bits: 32 frames that it was not calibrated with, beside ONNX Runtime."""
    folder = TRIALS / "streaming-lstm"
    with np.load(folder / "calib.npz") as data:
        frames = data["mag"]
    states = {s: np.zeros((2, 1, 48), np.float32) for s in "hc"}
    pairs = [(s, f"{s}_after") for s in states]
    compiled = compile_file(folder / "model.onnx", {"mag": frames[:-32]}, states=pairs)
    assert compiled.macs == 58608
    assert {t.dtype for t in compiled.model.tensors if t.space == "state"} == {"int16"}
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    names, expected = [o.name for o in session.get_outputs()], []
    shape = session.get_inputs()[0].shape
    for x in frames[-32:]:
        found = dict(zip(names, session.run(names, {"mag": x.reshape(shape), **states}), strict=True))
        states = {s: found[f"{s}_after"] for s in states}
        expected.append(found[next(n for n in names if not n.endswith("_after"))])
    found_db = sqnr(stream(compiled, frames[-32:]), np.stack(expected))
    print(f"{found_db:.1f} dB")
    assert found_db > 27
