"""`mica info --onnx`: the whole compiler compared with ONNX Runtime, which runs the packed model.

Each layer is fed the same integers and gives the same within one step.
Sums of float32 that lie so near a half that they may be rounded to the other side are made exact by a function that the
model brings along; so of the reference models no byte may differ.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from nets import MODELS, Net, session

from mica import engine
from mica.cli.main import main
from mica.compile import compile_file
from mica.data.calibration import read_arrays
from mica.exporter import DOMAIN, export
from mica.file.codec import ModelFile, decode
from mica.format.values import dequantise_f32, dequantise_output, quantise_input

Array = np.ndarray
LAYERS = 4  # samples of each model through each layer


def inputs_of(model: ModelFile, rng: np.random.Generator) -> list[Array]:
    """Integers, one array an input."""
    made = []
    for t in model.inputs:
        r = model.tensors[t]
        high = 4 if r.dtype == "int32" else 128
        made.append(rng.integers(0 if r.dtype == "int32" else -128, high, r.dims).astype(r.dtype))
    return made


def real(model: ModelFile, tensors: list[int], integers: list[Array]) -> dict[str, Array]:
    found = {}
    for t, q in zip(tensors, integers, strict=True):
        r = model.tensors[t]
        found[r.name] = (
            q.reshape(r.dims)
            if r.dtype == "int32"
            else np.asarray(dequantise_f32(q, r.scale, r.zero_point)).reshape(r.dims)
        )
    return found


def hold(data: bytes, samples: list[list[Array]], steps: int = 1) -> None:
    """The whole model over all samples, and each of its layers over the first.

    steps: by how many output bytes may differ, 99 % of them or, where it is 0, all.
    """
    model, loaded = decode(data), engine.load(data)
    whole = export(model)
    onnx.checker.check_model(whole)
    outputs = [model.tensors[t] for t in model.outputs]
    theirs = session(whole)
    within, alike = [], []
    for xs in samples:
        for i, x in enumerate(xs):
            loaded.set_input(i, x)
        loaded.run()
        found = theirs.run(None, real(model, model.inputs, xs))
        for k, (t, y) in enumerate(zip(outputs, found, strict=True)):
            ours = loaded.output(k)
            q = quantise_input(y, t)
            within.append(np.abs(q.astype(int) - ours.astype(int)).reshape(-1) <= steps)
            alike.append(int(np.argmax(q)) == int(np.argmax(ours)))
    assert np.mean(np.concatenate(within)) >= (0.99 if steps else 1.0)
    assert alike.count(False) <= max(1, len(alike) // 100)
    for k, step in enumerate(model.steps):
        sources = [t for t in dict.fromkeys(step.inputs) if model.tensors[t].values is None]
        layer = session(export(ModelFile(model.tensors, [step], sources, [step.outputs[0]])))
        y = model.tensors[step.outputs[0]]
        for xs in samples[:LAYERS]:
            for i, x in enumerate(xs):
                loaded.set_input(i, x)
            for j in range(k):
                loaded.run_step(j)
            feeds = real(model, sources, [np.array(loaded.tensor(t)) for t in sources])
            loaded.run_step(k)
            d = quantise_input(layer.run(None, feeds)[0], y).astype(int).reshape(-1) - loaded.tensor(
                step.outputs[0]
            ).reshape(-1)
            assert np.abs(d).max() <= 1, (step.name, step.kernel)
            assert np.count_nonzero(d) <= max(1, 0.005 * d.size), (step.name, step.kernel)


@pytest.mark.parametrize("name", ("kws", "ic", "vww", "ad"))
@pytest.mark.parametrize("kind", ("tflite", "qdq"))
def test_reference_models(name: str, kind: str) -> None:
    if not MODELS.is_dir():
        pytest.skip(f"{MODELS} is missing: the reference models are not part of the repository")
    path = MODELS / "tflite" / f"{name}_int8.tflite" if kind == "tflite" else MODELS / name / "model_qdq.onnx"
    compiled = compile_file(path)
    t = compiled.model.tensors[compiled.model.inputs[0]]
    data = read_arrays(MODELS / name / "eval.npz")
    x = (data["x"][:: max(1, len(data["x"]) // 50)].astype(np.float32) * data["scale"] + data["offset"]).astype(
        np.float32
    )
    hold(
        compiled.data,
        [[quantise_input(s.reshape(-1)[: np.prod(t.dims)], t)] for s in x],
        steps=0,
    )


def attention(net: Net) -> str:
    x = net.input([1, 6, 8])
    q, k, v = (net.add("MatMul", x, net.random(8, 8)) for _ in range(3))
    scores = net.add("Softmax", net.add("MatMul", q, net.add("Transpose", k, perm=[0, 2, 1])), axis=-1)
    y = net.add("Add", x, net.add("MatMul", scores, v))
    return net.add("LayerNormalization", y, net.random(8), net.random(8), axis=-1)


def u_net(net: Net) -> str:
    x = net.input([1, 3, 8, 8])
    a = net.add("Relu", net.conv(x, 3, 6, pads=[1, 1, 1, 1]))
    b = net.add(
        "Sigmoid", net.conv(net.add("MaxPool", a, kernel_shape=[2, 2], strides=[2, 2]), 6, 6, pads=[1, 1, 1, 1])
    )
    up = net.add("ConvTranspose", b, net.random(6, 6, 2, 2), strides=[2, 2])
    wide = net.add("Concat", a, up, axis=1)
    return net.add("LogSoftmax", net.conv(wide, 12, 4, 1), axis=1)


def arithmetic(net: Net) -> str:
    x = net.input([1, 4, 6, 6])
    y = net.add("Mul", x, net.add("HardSigmoid", net.add("GlobalAveragePool", x)))
    y = net.add("Max", y, net.add("Neg", x))
    y = net.add("Resize", y, "", net.const(np.array([1, 1, 2, 2], np.float32)), mode="linear")
    return net.add("ReduceL2", net.add("Pad", y, net.const(np.array([0, 0, 1, 1, 0, 0, 1, 1]))), axes=[2, 3])


NETS: dict[str, Callable[[Net], str]] = {"attention": attention, "u_net": u_net, "arithmetic": arithmetic}


@pytest.mark.parametrize("name", NETS)
def test_other_kinds(name: str, tmp_path: Path) -> None:
    net = Net()
    net.output(NETS[name](net))
    rng = np.random.default_rng(0)
    calibration = {i.name: np.concatenate([s[i.name][None] for s in net.samples(6)])[:, 0] for i in net.inputs}
    compiled = compile_file(net.save(tmp_path), calibration)
    assert not any(n.domain == DOMAIN for n in export(compiled.model).graph.node)
    hold(compiled.data, [inputs_of(compiled.model, rng) for _ in range(20)])


def test_a_state_is_an_input_and_an_output_more(tmp_path: Path) -> None:
    """A running sum: three runs of the packed model, and three of ONNX Runtime with the state handed on."""
    net = Net()
    x, h = net.input([1, 4]), net.input([1, 4], "h")
    total = net.add("Add", net.add("Mul", h, net.const(0.5)), x, outputs=["sum"])
    net.output(net.add("Tanh", total, outputs=["y"]))
    net.output(total)
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((9, 4)).astype(np.float32)
    compiled = compile_file(net.save(tmp_path), {"x": samples}, states=[("h", "sum")])
    made = session(export(compiled.model))
    model, loaded = compiled.model, engine.load(compiled.data)
    (state,) = (i for i in made.get_inputs() if i.name != "x")
    out = model.tensors[model.outputs[0]]
    held = np.full(state.shape, next(t for t in model.tensors if t.space == "state").zero_point, np.int8)
    for s in samples[:3]:
        t = model.tensors[model.inputs[0]]
        q = quantise_input(s, t)
        loaded.set_input(0, q)
        loaded.run()
        y, held = made.run(None, {"x": np.asarray(dequantise_f32(q, t.scale, t.zero_point)), state.name: held})
        np.testing.assert_allclose(y, dequantise_output(loaded.output(0), out), atol=1.01 * out.scale)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = Net()
    net.output(net.add("Softmax", net.add("Gemm", net.input([1, 8]), net.random(8, 3), name="dense"), axis=-1))
    (tmp_path / "m.mica").write_bytes(compile_file(net.save(tmp_path)).data)
    words = ["info", str(tmp_path / "m.mica"), "--onnx", str(tmp_path / "out.onnx"), "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["onnx"] == str(tmp_path / "out.onnx")
    model = onnx.load(tmp_path / "out.onnx")
    facts = {p.key: p.value for p in model.metadata_props}
    assert facts["board"] == "RPI_PICO" and facts["macs"] == "24" and int(facts["cycles"]) > 0
    (node,) = (n for n in model.graph.node if n.name == "dense")
    notes = {p.key: p.value for p in node.metadata_props}
    assert node.op_type == "Gemm" and notes["kernel"] == "fully_connected_s8" and int(notes["cycles"]) > 0
    assert [i.name for i in model.graph.input] == ["x"]
    assert main([*words, "--exact"]) == 0
    onnx.checker.check_model(onnx.load(tmp_path / "out.onnx"))
    assert main([*words[:2], "--exact"]) == 1
    assert "there is no --onnx" in capsys.readouterr().err
    assert main(words) == 0
    capsys.readouterr()
    # It is a model that mica packs again, with the same scales.
    again = compile_file(tmp_path / "out.onnx").model
    first = decode((tmp_path / "m.mica").read_bytes())
    for a, b in zip([*first.inputs, *first.outputs], [*again.inputs, *again.outputs], strict=True):
        assert first.tensors[a].scale == again.tensors[b].scale
    assert [s.kernel for s in first.steps] == [s.kernel for s in again.steps]
    assert main([*words[:3], str(tmp_path / "m.mica")]) == 1
    assert "which would be overwritten" in capsys.readouterr().err
