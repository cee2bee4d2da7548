"""The TensorFlow Lite files of ../shared: whole, layer by layer beside LiteRT's reference kernels, and their answers.

LiteRT rounds twice where mica rounds once, so sums of products differ by a step in a few of a thousand values.
"""

from __future__ import annotations

from pathlib import Path

import litert
import numpy as np
import pytest
from nets import MODELS
from test_tflite_graphs import tflite_micro_svdf
from tflite_files import cut_out

from mica import engine
from mica.compile import Compiled, compile_file
from mica.data.calibration import read_arrays
from mica.format.values import dequantise_output, quantise_input
from mica.importer.tflite.model import Model, read

FILES = MODELS / "tflite"
INT8 = (
    "ad_int8",
    "hello_world_int8",
    "ic_int8",
    "kws_int8",
    "micro_speech_int8",
    "person_detect_int8",
    "sww_int8",
    "vww_int8",
)
WITH_DATA = ("kws", "ic", "vww")
SAMPLES = 2  # of each file, through every layer
ANSWERS = 40

needs_files = pytest.mark.skipif(not FILES.exists(), reason="the models of ../shared are not there")


def no_warning(text: str) -> None:
    raise AssertionError(f"a quantised model should need nothing, and warns: {text}")


def real_inputs(name: str, n: int) -> np.ndarray:
    """float32 [n, ...] of the evaluation set."""
    data = read_arrays(MODELS / name / "eval.npz")
    return np.asarray(data["x"][:n].astype(np.float32) * data["scale"] + data["offset"], np.float32)


def samples(name: str, model: Model, n: int) -> list[np.ndarray]:
    """int8 inputs: real ones where there are some, of ad and the others random numbers."""
    t = model.tensors[model.inputs[0]]
    short = name.removesuffix("_int8")
    if short in WITH_DATA:
        assert t.grid is not None
        q = np.rint(real_inputs(short, n) / np.float32(t.grid.scale[0])) + t.grid.zero_point[0]
        return [x.reshape(t.shape) for x in np.clip(q, -128, 127).astype(np.int8)]
    rng = np.random.default_rng(0)
    return [rng.integers(-128, 128, t.shape).astype(np.int8) for _ in range(n)]


def run(compiled: Compiled, inputs: list[np.ndarray]) -> list[np.ndarray]:
    loaded = engine.load(compiled.data)
    found = []
    for x in inputs:
        t = compiled.model.tensors[compiled.model.inputs[0]]
        loaded.set_input(0, quantise_input(x, t) if x.dtype == np.float32 else x.reshape(t.dims))
        loaded.run()
        found.append(loaded.output(0).copy())
    return found


@needs_files
@pytest.mark.parametrize("name", (*INT8, "keyword_scrambled_svdf"))
def test_packs_with_the_scales_of_the_file(name: str) -> None:
    path = FILES / f"{name}.tflite"
    said: list[str] = []
    model, compiled = read(path), compile_file(path, warn=said.append)
    # The softmax of the SVDF model has 16 bits; everything else is as it was.
    wide = ["int16 tensors become int8, the same range in steps 256 times larger: 't51'; see the quality line"]
    assert said == (wide if name == "keyword_scrambled_svdf" else [])
    ends = ((model.inputs[0], compiled.model.inputs[0]), (model.outputs[0], compiled.model.outputs[0]))
    for theirs, ours in ends:
        t, packed = model.tensors[theirs], compiled.model.tensors[ours]
        if t.dtype == "int8":
            assert t.grid is not None
            assert (t.grid.scale[0], t.grid.zero_point[0]) == (packed.scale, packed.zero_point)
    assert all(len(s.name) <= 40 for s in compiled.model.steps)
    assert run(compiled, samples(name, model, 1))[0].shape == model.tensors[model.outputs[0]].shape


@needs_files
@pytest.mark.parametrize("name", INT8)
def test_each_layer(name: str, tmp_path: Path) -> None:
    """A layer is fed LiteRT's own input tensors. LiteRT refuses a scale per channel of person_detect's biases as the
    file spells it, so that file is written again."""
    model = read(FILES / f"{name}.tflite")
    content, _, _ = cut_out(model, 0, len(model.operators) - 1)
    made = litert.interpreter(content, every=True)
    places = {d["name"]: d["index"] for d in made.get_tensor_details()}
    values = []
    for x in samples(name, model, SAMPLES):
        litert.run(made, [x])
        values.append({i: made.get_tensor(places[t.name]) for i, t in enumerate(model.tensors) if t.data is None})
    path = tmp_path / "layer.tflite"
    for k, op in enumerate(model.operators):
        one, sources, results = cut_out(model, k, k)
        path.write_bytes(one)
        loaded = engine.load(compile_file(path, warn=no_warning).data)
        differences = []
        for tensors in values:
            for j, i in enumerate(sources):
                loaded.set_input(j, tensors[i])
            loaded.run()
            differences.append(loaded.output(0).reshape(-1).astype(int) - tensors[results[0]].reshape(-1))
        d = np.concatenate(differences)
        assert np.abs(d).max() <= 1, (k, op.kind)
        assert np.mean(d == 0) >= 0.995, (k, op.kind, np.mean(d == 0))


@needs_files
def test_each_svdf_layer(tmp_path: Path) -> None:
    """LiteRT's interpreter has no SVDF with an int8 state: beside tflite-micro's arithmetic, over 40 runs."""
    model = read(FILES / "keyword_scrambled_svdf.tflite")
    rng = np.random.default_rng(0)
    for k, op in enumerate(model.operators):
        if op.kind != "SVDF":
            continue
        content, (source,), _ = cut_out(model, k, k)
        path = tmp_path / "layer.tflite"
        path.write_bytes(content)
        xs = [rng.integers(-128, 128, model.tensors[source].shape).astype(np.int8) for _ in range(40)]
        expected = np.array(tflite_micro_svdf(content, tmp_path, xs))
        d = np.array(run(compile_file(path, warn=no_warning), xs)).reshape(expected.shape) - expected
        assert np.abs(d).max() <= 1
        assert np.mean(d == 0) >= 0.995, (k, np.mean(d == 0))


@needs_files
@pytest.mark.parametrize("name", WITH_DATA)
def test_answers(name: str) -> None:
    """The first samples give the answers of LiteRT's default, XNNPACK; `scripts/soak` takes the rest."""
    path = FILES / f"{name}_int8.tflite"
    made, model = litert.interpreter(path.read_bytes(), reference=False), read(path)
    xs = samples(f"{name}_int8", model, ANSWERS)
    theirs = [int(np.argmax(litert.run(made, [x])[0])) for x in xs]
    ours = [int(np.argmax(q)) for q in run(compile_file(path), xs)]
    assert sum(a != b for a, b in zip(ours, theirs, strict=True)) <= 1
    assert len(set(ours)) > 1


@needs_files
@pytest.mark.parametrize("name", ("kws", "ic", "vww", "ad"))
def test_no_more_arena_than_the_same_model_as_onnx(name: str) -> None:
    ours = compile_file(FILES / f"{name}_int8.tflite").plan.arena_bytes
    assert ours <= compile_file(MODELS / name / "model_qdq.onnx").plan.arena_bytes


@needs_files
def test_a_float_file() -> None:
    path = FILES / "hello_world_float.tflite"
    xs = np.linspace(0, 2 * np.pi, 200, dtype=np.float32).reshape(-1, 1)
    compiled = compile_file(path, {"dense_input": xs})
    made, tensor = litert.interpreter(path.read_bytes()), compiled.model.tensors[compiled.model.outputs[0]]
    expected = np.array([litert.run(made, [x[None]])[0] for x in xs]).reshape(-1)
    found = np.array([dequantise_output(q, tensor) for q in run(compiled, [x[None] for x in xs])]).reshape(-1)
    error = np.abs(found - expected) / np.ptp(expected)
    assert np.sqrt(np.mean(error**2)) < 0.004
    assert error.max() < 0.01  # 0.6 % is the input's rounding; the layers are one table (passes/one_number.py)
