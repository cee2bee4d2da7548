"""Decoders as ONNX's newer operators say them: a cache written at a position,
attention over as many rows as a length says.

Truth: ONNX's reference evaluator and ONNX Runtime on float; held-out sentences of `command`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from attention_model import attention_model
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from mica.compile import Compiled, compile_file
from mica.errors import Unsupported
from mica.format.values import dequantise_output, quantise_input
from mica.importer import import_model, vocabulary
from mica.packing import state
from mica.run.golden import most_rows
from mica.run.host import HostRunner
from mica.run.text import Wish, generate

LM = Path(__file__).resolve().parents[2].parent / "shared" / "models" / "lm"
needs_models = pytest.mark.skipif(not LM.is_dir(), reason="the folder ../shared/models/lm is missing")

Arrays = dict[str, np.ndarray]
Shapes = dict[str, tuple[int, ...]]
ROWS, HEADS, GROUPS, WIDTH = 6, 4, 2, 8


def saved(folder: Path, nodes: list[onnx.NodeProto], inputs: Shapes, outputs: Shapes, constants: Arrays) -> Path:
    """A model of opset 24; inputs of one number are int64."""
    infos = [
        helper.make_tensor_value_info(n, TensorProto.INT64 if s == (1,) else TensorProto.FLOAT, s)
        for n, s in inputs.items()
    ]
    results = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs.items()]
    data = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "decoder", infos, results, data)
    path = folder / "decoder.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11), path)
    return path


def outputs_of(compiled: Compiled, runs: list[Arrays]) -> list[np.ndarray]:
    """The first output of consecutive runs, as real numbers."""
    runner = HostRunner(compiled.data)
    names = [compiled.model.tensors[i].name for i in compiled.model.inputs]
    t = compiled.model.tensors[compiled.model.outputs[0]]
    inputs = [compiled.model.tensors[i] for i in compiled.model.inputs]
    samples = [[quantise_input(r[n], x) for n, x in zip(names, inputs, strict=True)] for r in runs]
    return [dequantise_output(y[0], t) for y in runner.run(samples)]


@pytest.mark.parametrize("form", ["LessOrEqual", "Greater"])
def test_mask_by_position(form: str, tmp_path: Path) -> None:
    """Scores up to a position, for each position; beyond the last one nothing more is seen."""
    places = np.arange(ROWS)
    order = ["places", "position"] if form == "LessOrEqual" else ["position", "places"]
    nodes = [helper.make_node(form, order, ["seen"])]
    nodes += [helper.make_node("Where", ["seen", "x", "far"], ["s"]), helper.make_node("Softmax", ["s"], ["y"])]
    constants = {"places": places, "far": np.array(-np.inf, np.float32)}
    path = saved(tmp_path, nodes, {"x": (1, 2, ROWS), "position": (1,)}, {"y": (1, 2, ROWS)}, constants)
    rng = np.random.default_rng(1)
    x = rng.normal(0, 2, (ROWS, 1, 2, ROWS)).astype(np.float32)
    position = np.arange(ROWS)[:, None] + (form == "Greater")
    compiled = compile_file(path, {"x": x, "position": position.astype(np.float32)})
    session = onnxruntime.InferenceSession(str(path))
    runs = [{"x": x[k], "position": position[k]} for k in range(ROWS)]
    for run, y in zip(runs, outputs_of(compiled, runs), strict=True):
        (expected,) = session.run(None, run)
        assert np.abs(y - expected).max() < 0.02
        assert not y[expected == 0].any()


def layer(folder: Path, mode: str = "circular") -> Path:
    """A layer of attention with grouped heads over a cache of ROWS rows, and its inputs."""
    q, kv, cache = (1, HEADS, 1, WIDTH), (1, GROUPS, 1, WIDTH), (1, GROUPS, ROWS, WIDTH)
    nodes = [
        helper.make_node("TensorScatter", ["k_cache", "k", "position"], ["k_after"], axis=2, mode=mode),
        helper.make_node("TensorScatter", ["v_cache", "v", "position"], ["v_after"], axis=-2, mode=mode),
        helper.make_node("Attention", ["q", "k_after", "v_after", "", "", "", "length"], ["y"]),
    ]
    inputs = {"q": q, "k": kv, "v": kv, "position": (1,), "length": (1,), "k_cache": cache, "v_cache": cache}
    return saved(folder, nodes, inputs, {"y": q, "k_after": cache, "v_after": cache}, {})


def tokens(n: int) -> Arrays:
    rng = np.random.default_rng(2)
    shapes = {"q": HEADS, "k": GROUPS, "v": GROUPS}
    arrays: Arrays = {c: rng.normal(0, 1, (n, 1, h, 1, WIDTH)).astype(np.float32) for c, h in shapes.items()}
    position = np.arange(n)[:, None]
    return {**arrays, "position": position, "length": np.minimum(position + 1, ROWS)}


def packed(path: Path, data: Arrays) -> Compiled:
    pairs = state.find(import_model(path))
    assert pairs == [("k_cache", "k_after"), ("v_cache", "v_after")]
    return compile_file(path, {n: a.astype(np.float32) for n, a in data.items()}, states=pairs)


def by_reference(path: Path, data: Arrays) -> list[np.ndarray]:
    reference = ReferenceEvaluator(str(path))
    k = v = np.zeros((1, GROUPS, ROWS, WIDTH), np.float32)
    results = []
    for i in range(len(data["q"])):
        y, k, v = reference.run(None, {**{n: a[i] for n, a in data.items()}, "k_cache": k, "v_cache": v})
        results.append(y)
    return results


def test_attention_over_a_ring(tmp_path: Path) -> None:
    """Attention over a ring equals the reference, three times around."""
    path, data = layer(tmp_path), tokens(3 * ROWS)
    compiled = packed(path, data)
    assert [s.kernel for s in compiled.model.steps if s.kernel != "lut_s8"] == ["scatter_s8", "scatter_s8", "attend_s8"]
    runs = [{n: a[k] for n, a in data.items()} for k in range(3 * ROWS)]
    for y, expected in zip(outputs_of(compiled, runs), by_reference(path, data), strict=True):
        assert np.abs(y - expected).max() < 0.04 * np.abs(expected).max()


@pytest.mark.parametrize("form", ["ScatterElements", "ScatterND"])
def test_a_row_scattered(form: str, tmp_path: Path) -> None:
    """PyTorch's index_copy and `cache[i] = row` write in place and equal ONNX Runtime, also with a place of 64 bits."""
    elements = form == "ScatterElements"
    row, cache = ((1, GROUPS, 1, WIDTH), (1, GROUPS, ROWS, WIDTH)) if elements else ((1, WIDTH), (ROWS, WIDTH))
    nodes = [
        helper.make_node("Reshape", ["position", "one"], ["i"]),
        *([helper.make_node("Expand", ["i", "shape"], ["places"])] if elements else []),
        helper.make_node(
            form, ["cache", "places" if elements else "i", "row"], ["after"], **{"axis": 2} if elements else {}
        ),
        helper.make_node("Relu", ["after"], ["y"]),
    ]
    constants = {"one": np.array([1, 1]), "shape": np.array(row)}
    inputs = {"row": row, "position": (1,), "cache": cache}
    path = saved(
        tmp_path, nodes, inputs, {"y": cache, "after": cache}, constants if elements else {"one": constants["one"]}
    )
    rng, n = np.random.default_rng(3), 2 * ROWS
    data = {"row": rng.normal(0, 1, (n, *row)).astype(np.float32), "position": rng.integers(0, ROWS, (n, 1))}
    compiled = compile_file(path, {k: a.astype(np.float32) for k, a in data.items()}, states=[("cache", "after")])
    assert [s.kernel for s in compiled.model.steps][:1] == ["scatter_s8"]
    session, kept = onnxruntime.InferenceSession(str(path)), np.zeros(cache, np.float32)
    runs = [{k: a[i] for k, a in data.items()} for i in range(n)]
    for run, y in zip(runs, outputs_of(compiled, runs), strict=True):
        expected, kept = session.run(None, {**run, "cache": kept})
        assert np.abs(y - expected).max() < 0.03  # half a step, with room for rows that few samples lack


def test_rows_that_do_not_fit(tmp_path: Path) -> None:
    """As many new rows as the cache has, around its end, are refused."""
    cache = (1, GROUPS, ROWS, WIDTH)
    node = helper.make_node("TensorScatter", ["c", "r", "i"], ["y"], mode="circular")
    path = saved(tmp_path, [node], {"c": cache, "r": cache, "i": (1,)}, {"y": cache}, {})
    with pytest.raises(Unsupported, match="6 new rows in a cache of 6; fewer are supported"):
        compile_file(path)


@needs_models
def test_command_of_opset_24() -> None:
    """Packs without a flag, and answers sentences that it was not trained with."""
    path = LM / "command" / "step_opset24.onnx"
    data = {n: a[:110].astype(np.float32) for n, a in np.load(LM / "command" / "calib.npz").items()}
    data["length"] = data["position"] + 1
    vocabulary_of = vocabulary.read(f"{LM / 'command' / 'vocab.json'},begin=0,end=0")
    compiled = compile_file(path, data, plain=True, states=state.find(import_model(path)), tokens=vocabulary_of)
    assert compiled.model.state_bytes == 6 * 4 * 64 * 12
    assert (compiled.model.arena_bytes or 0) < 1024  # no cache has a second place there
    runner = HostRunner(compiled.data)
    lines = [line.split("\t") for line in (LM / "command" / "held.tsv").read_text().splitlines()[:40]]
    right = ["".join(generate(runner, Wish(sentence + "\n", 20))) == call for sentence, call in lines]
    assert np.mean(right) >= 0.95


def test_a_cache_is_written_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No byte of the cache is copied, the arena has no room for a copy, and the numbers are those of copies."""
    path, data = layer(tmp_path), tokens(3 * ROWS)
    compiled = packed(path, data)
    model = compiled.model
    assert model.state_bytes == 2 * GROUPS * ROWS * WIDTH
    writes = [s for s in model.steps if s.kernel == "scatter_s8"]
    for s in writes:
        x, y = model.tensors[s.inputs[0]], model.tensors[s.outputs[0]]
        assert (x.space, x.offset) == (y.space, y.offset) and x.space == "state"
    assert not any(s.name.endswith((".take", ".keep")) for s in model.steps)
    monkeypatch.setattr("mica.compile.planning.hold", lambda g, pairs: None)
    copied = packed(path, data)
    assert any(s.name.endswith(".keep") for s in copied.model.steps)
    assert (copied.model.arena_bytes or 0) - (model.arena_bytes or 0) >= 2 * GROUPS * ROWS * WIDTH
    runs = [{n: a[k] for n, a in data.items()} for k in range(3 * ROWS)]
    for a, b in zip(outputs_of(compiled, runs), outputs_of(copied, runs), strict=True):
        assert np.array_equal(a, b)


def test_a_run_cut_short_is_repeated(tmp_path: Path) -> None:
    """At every step of every token, in the ring's first round and in its second: then the same token gives the same
    numbers."""
    path, data = layer(tmp_path), tokens(2 * ROWS)
    compiled = packed(path, data)
    runs = [{n: a[k] for n, a in data.items()} for k in range(2 * ROWS)]
    expected = outputs_of(compiled, runs)
    t = compiled.model.tensors[compiled.model.outputs[0]]
    inputs = [compiled.model.tensors[i] for i in compiled.model.inputs]
    for cut in range(len(compiled.model.steps)):
        loaded = HostRunner(compiled.data).loaded
        for run, y in zip(runs, expected, strict=True):
            for last in (cut, len(compiled.model.steps)):
                for i, x in enumerate(inputs):
                    loaded.set_input(i, quantise_input(run[x.name], x))
                for k in range(last):
                    loaded.run_step(k)
            assert np.array_equal(dequantise_output(loaded.output(0), t), y)


def test_a_cache_that_others_read_before_is_copied(tmp_path: Path) -> None:
    """The rows before the update are an output as well, so the step may not overwrite them."""
    cache = (1, GROUPS, ROWS, WIDTH)
    nodes = [
        helper.make_node("TensorScatter", ["k_cache", "k", "position"], ["k_after"]),
        helper.make_node("Relu", ["k_cache"], ["y"]),
    ]
    inputs = {"k": (1, GROUPS, 1, WIDTH), "position": (1,), "k_cache": cache}
    path = saved(tmp_path, nodes, inputs, {"y": cache, "k_after": cache}, {})
    data = {n: a for n, a in tokens(ROWS).items() if n in inputs}
    compiled = compile_file(path, {n: a.astype(np.float32) for n, a in data.items()}, states=[("k_cache", "k_after")])
    assert [s.name for s in compiled.model.steps if s.name.startswith("k_cache")] == ["k_cache.take", "k_cache.keep"]
    seen = np.zeros(cache, np.float32)
    runs = [{n: a[k] for n, a in data.items()} for k in range(ROWS)]
    for k, y in enumerate(outputs_of(compiled, runs)):
        assert np.abs(y - np.maximum(seen, 0)).max() < 0.02
        seen[:, :, k] = data["k"][k][:, :, 0]


def test_bench_takes_a_full_cache() -> None:
    """The largest position costs most, so bench takes it: the attention model has five rows."""
    model = attention_model()
    inputs = [np.zeros(model.tensors[t].dims, model.tensors[t].dtype) for t in model.inputs]
    position, *others = most_rows(model, inputs)
    assert position.tolist() == [4]
    assert all(a is b for a, b in zip(others, inputs[1:], strict=True))
