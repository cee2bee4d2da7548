"""Front ends with a memory in front of models with a memory: microWakeWord's,
whose networks keep their rows themselves."""

from __future__ import annotations

from pathlib import Path

import litert
import numpy as np
import onnx
import pytest
from nets import MODELS
from onnx import helper, numpy_helper
from speech import WAKE_WORD, wake_word
from targets import ALL
from test_tflite_graphs import packed, run
from tflite_nets import NEW, ROWS, STREAM, WIDTH, stream

from mica.cli.main import main
from mica.compile import Compiled, compile_file
from mica.engine import load
from mica.file.codec import decode
from mica.importer import import_model
from mica.ir.graph import Quant
from mica.kernels.integers import Output
from mica.kernels.pcen import pcen_s8
from mica.kernels.speech import features
from mica.listen.detection import usual_step
from mica.sound import front_ends

FRAME, HOP = 480, 160
QUANT = Quant(float(np.float32(STREAM["scale"])), int(STREAM["zero"]))
SMALL = f"pcan:micro-speech,hop={HOP},mels={WIDTH}"
SECONDS = 120 if ALL else 12
PREPROCESSOR = MODELS / "tflite" / "audio_preprocessor_int8.tflite"


def sound(seconds: int) -> np.ndarray:
    """int16, tones that come and go in noise: silence, whispers, clipping."""
    rng, t = np.random.default_rng(0), np.arange(seconds * 16000) / 16000
    loud = np.exp(6 * np.sin(1.7 * t) + 2 * np.sin(7 * t))
    tones = 10 * np.sin(2 * np.pi * t * (300 + 200 * np.sin(t))) + 5 * np.sign(np.sin(2 * np.pi * 171 * t))
    return np.clip(rng.normal(size=len(t)) * 40 + loud * tones, -32768, 32767).astype(np.int16)


def logarithms(text: str, x: np.ndarray) -> np.ndarray:
    """All frames of a sound at once, int64 [frames, bands]: the noise goes on by itself."""
    speech = front_ends.parse(text).front_end(1).speech
    assert speech is not None
    return features(x, speech.blobs, dict(speech.params), 1 + (len(x) - FRAME) // HOP)


def in_steps(logs: np.ndarray) -> np.ndarray:
    """int8, as tflite-micro rounds them."""
    return np.clip((logs * 256 + 333) // 666 - 128, -128, 127).astype(np.int8)


def played(compiled: Compiled, x: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The features int8 [frames, bands] that the front end makes run by run, and the answers."""
    model, n = compiled.model, FRAME + (rows - 1) * HOP
    (at,) = [k for k, s in enumerate(model.steps) if s.kernel == "pcan_s8"]
    loaded, found, answers = load(compiled.data), [], []
    for begin in range(0, len(x) - n + 1, rows * HOP):
        loaded.set_input(0, x[None, begin : begin + n])
        made = next(v.copy() for k, v in enumerate(loaded.layers()) if k == at)
        found.append(made.reshape(rows + 4, -1)[:rows])
        loaded.run()
        answers.append(loaded.output(0).copy().reshape(-1))
    return np.concatenate(found), np.array(answers)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A network that keeps ROWS rows, of which NEW go in each run."""
    path = tmp_path / "net.tflite"
    path.write_bytes(stream())
    return path


def test_noise_and_rows_go_on(small: Path) -> None:
    """Run by run, the features are those of the whole sound, and answers those of LiteRT to them."""
    compiled, x = compile_file(small, front_end=SMALL), sound(3)
    model = compiled.model
    assert [model.tensors[i].dims for i in model.inputs] == [(1, FRAME + (NEW - 1) * HOP)]
    assert usual_step(model) == NEW * HOP
    kept = [t.dims for t in model.tensors if t.space == "state"]
    assert kept == [(1, ROWS, 1, WIDTH), (1, 4, WIDTH)]
    found, answers = played(compiled, x, NEW)
    worth = front_ends.parse(SMALL).front_end(1).speech
    assert worth is not None
    expected = QUANT.quantise(logarithms(SMALL, x)[: len(found)] * worth.worth)
    assert np.abs(found.astype(int) - expected).max() <= 1 and np.mean(found == expected) > 0.999
    made, given = litert.interpreter(stream()), list(found.reshape(-1, 1, NEW, 1, WIDTH))
    theirs = np.array([litert.run(made, [rows])[0].reshape(-1) for rows in given], int)
    assert np.abs(answers - theirs).max() <= 1
    np.testing.assert_array_equal(answers, np.array(run(packed(stream(), small.parent), given)).reshape(answers.shape))
    assert len(np.unique(answers)) > 20 and len(np.unique(found)) > 15
    again, _ = played(compiled, x[2 * NEW * HOP :], NEW)
    assert not np.array_equal(again[:40], found[2 * NEW :][:40])  # the noise before counts


def test_found_and_named(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--stream that says so changes no step of the model; another number of rows is refused."""
    (name,) = import_model(small).inputs[:1]
    note = (
        f"all {NEW} rows of '{name}' are new in each run, and the noise of the front end goes on: "
        f"a run takes 640 samples, each time 320 further on"
    )
    out = tmp_path / "net.mica"
    pack = ["pack", str(small), "--frontend", SMALL, "-o", str(out)]
    assert main(pack) == 0 and note in capsys.readouterr().err
    one = decode(out.read_bytes())
    assert main([*pack, "--stream", f"{name}={NEW}"]) == 0 and note in capsys.readouterr().err
    two = decode(out.read_bytes())
    assert (one.tensors, one.state_bytes, [s.params for s in one.steps]) == (
        two.tensors,
        two.state_bytes,
        [s.params for s in two.steps],
    )
    assert main([*pack, "--stream", f"{name}=1"]) == 1
    line = (
        f"--stream {name}=1: the model has states of its own, so all {NEW} rows of a run are new; expected {name}={NEW}"
    )
    assert line in capsys.readouterr().err
    assert main(["pack", str(small), "--stream", f"{name}={NEW}", "-o", str(out)]) == 0
    assert main(["pack", str(small), "--stream", f"{name}=1", "-o", str(out)]) == 1


def test_front_ends_without_noise(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pre-emphasis takes the sample before; a front end that divides by a run's peak is refused where the rows go
    on."""
    (name,) = import_model(small).inputs[:1]
    compiled = compile_file(small, front_end=f"logmel:hop=160,mels={WIDTH},floor=1,preemphasis=0.9")
    assert compiled.model.tensors[compiled.model.inputs[0]].dims == (1, 1 + FRAME + (NEW - 1) * HOP)
    assert usual_step(compiled.model) == NEW * HOP
    out = str(tmp_path / "net.mica")
    loudest = ["pack", str(small), "--frontend", f"logmel:hop=160,mels={WIDTH},floor=1,peak=yes", "-o", out]
    assert main([*loudest, "--stream", f"{name}={NEW}"]) == 1
    assert "divides by the largest sample of a run; take peak=no" in capsys.readouterr().err


def test_pcen_goes_on(small: Path) -> None:
    """One run of all frames equals many runs of NEW."""
    x, text = sound(2), f"pcen:hop=160,mels={WIDTH}"
    compiled = compile_file(small, front_end=text)
    at = [s.kernel for s in compiled.model.steps].index("pcen_s8")
    step, n = compiled.model.steps[at], FRAME + (NEW - 1) * HOP
    runs = (len(x) - n) // (NEW * HOP) + 1
    loaded, found = load(compiled.data), []
    for begin in range(0, runs * NEW * HOP, NEW * HOP):
        loaded.set_input(0, x[None, begin : begin + n])
        made = next(v.copy() for k, v in enumerate(loaded.layers()) if k == at)
        found.append(made.reshape(NEW + 4, WIDTH)[:NEW])
        loaded.run()
    y = compiled.model.tensors[step.outputs[0]]
    q = Output((1, runs * NEW, WIDTH), 0, y.zero_point)
    whole = pcen_s8.oracle([x[: FRAME + (runs * NEW - 1) * HOP]], step.blobs, step.params, q)
    np.testing.assert_array_equal(np.concatenate(found), whole[0])
    assert len(np.unique(whole)) > 20


def test_a_float_model_is_warned_of(tmp_path: Path) -> None:
    """A recurrent network in float, whose state is found by its name;
    the noise before a sample of calibration is not known."""
    rng, shape = np.random.default_rng(0), [1, 1, 4]
    made = {"w": rng.normal(size=(1, 12, WIDTH)), "r": rng.normal(size=(1, 12, 4))}
    graph = helper.make_graph(
        [
            helper.make_node("GRU", ["x", "w", "r", "", "", "h_state_in"], ["", "h_state_out"], hidden_size=4),
            helper.make_node("Sigmoid", ["h_state_out"], ["y"]),
        ],
        "net",
        [helper.make_tensor_value_info(n, 1, d) for n, d in (("x", [3, 1, WIDTH]), ("h_state_in", shape))],
        [helper.make_tensor_value_info(n, 1, shape) for n in ("y", "h_state_out")],
        [numpy_helper.from_array((0.05 * a).astype(np.float32), n) for n, a in made.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), tmp_path / "n.onnx")
    x = sound(3)
    samples = np.stack([x[at : at + FRAME + 2 * HOP] for at in range(0, 12000, 3 * HOP)])
    warnings: list[str] = []
    compiled = compile_file(
        tmp_path / "n.onnx", {"samples": samples}, front_end=SMALL, warn=warnings.append, plain=True
    )
    assert any("its noise begins anew with each sample of calibration" in w for w in warnings)
    _, answers = played(compiled, x, 3)
    assert len(np.unique(answers)) > 10
    warnings.clear()
    plain = f"logmel:hop={HOP},mels={WIDTH},floor=1"
    compile_file(tmp_path / "n.onnx", {"samples": samples}, front_end=plain, warn=warnings.append, plain=True)
    assert not any("anew" in w for w in warnings)


@pytest.mark.parametrize("name", ("okay_nabu", "alexa", "hey_jarvis", "hey_mycroft"))
def test_micro_wake_word(name: str) -> None:
    """From samples: features of pymicro-features, and LiteRT's answers to them."""
    path, x = wake_word(name), sound(SECONDS)
    compiled = compile_file(path, front_end=WAKE_WORD)
    found, answers = played(compiled, x, 3)
    theirs = of_library(x)[: len(found)]
    made = litert.interpreter(path.read_bytes(), reference=False)
    scale, zero = made.get_input_details()[0]["quantization"]
    expected = np.clip(np.rint(theirs * 0.0390625 / scale) + zero, -128, 127)
    assert np.mean(found != expected) < 1e-4
    given = [litert.run(made, [rows])[0].reshape(-1) for rows in found.reshape(-1, 1, 3, 40)]
    np.testing.assert_array_equal(answers.astype(int) + 128, given)


def of_library(x: np.ndarray) -> np.ndarray:
    """Logarithms of tflite-micro's C library."""
    package = pytest.importorskip(
        "pymicro_features", reason="pymicro-features is not installed (pip install pymicro-features)"
    )
    front_end, data, at, found = package.MicroFrontend(), x.tobytes(), 0, []
    while at + 2 * HOP <= len(data):
        made = front_end.process_samples(data[at : at + 2 * HOP])
        at += 2 * made.samples_read
        found += [made.features] if made.features else []
    return np.array(found) / 0.0390625


def test_the_library_again() -> None:
    """Its own tables have two weights of 472 that differ by 1/4096, for its float32 logarithm is rounded in a way of
    its own."""
    x = sound(SECONDS)
    theirs, ours = of_library(x), logarithms(WAKE_WORD, x)
    assert np.mean(theirs != ours) < 1e-4
    assert np.mean(theirs != logarithms(f"pcan:micro-speech,hop={HOP}", x)) > 1e-3


def test_the_preprocessor_again(small: Path) -> None:
    """tflite-micro's interpreter with its preprocessor, frame by frame, gives each byte of the features."""
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime", reason="tflite-micro is not installed")
    if not PREPROCESSOR.exists():
        pytest.skip("the models of ../shared are not there")
    x, interpreter = sound(SECONDS), runtime.Interpreter.from_file(str(PREPROCESSOR))
    ours, theirs = in_steps(logarithms(f"pcan:micro-speech,hop={HOP}", x)), []
    for at in range(0, HOP * len(ours), HOP):
        interpreter.set_input(x[None, at : at + FRAME], 0)
        interpreter.invoke()
        theirs.append(interpreter.get_output(0).reshape(-1).copy())
    np.testing.assert_array_equal(ours, theirs)
