"""ONNX files in, graphs or refusals out: every refusal says file, place, reason and, where there is one, the remedy."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from nets import FLOAT, Net, assert_same, core, imported, ops, single
from onnx import TensorProto, helper, numpy_helper

from mica.compile import compile_file
from mica.errors import MicaError, Unsupported
from mica.importer import import_onnx
from mica.passes.supported import ONNX_OPS


def refusal(make: Callable[[], object], kind: type[MicaError] = Unsupported) -> str:
    with pytest.raises(MicaError) as e:
        make()
    assert type(e.value) is kind, e.value
    return str(e.value)


# Files that are no model


def test_missing_file(tmp_path: Path) -> None:
    assert refusal(lambda: import_onnx(tmp_path / "no.onnx"), MicaError) == f"{tmp_path}/no.onnx: no such file"


def test_folder(tmp_path: Path) -> None:
    assert "is a folder" in refusal(lambda: import_onnx(tmp_path), MicaError)


@pytest.mark.parametrize("content", [b"", b"hello, world\n" * 9, b"\x00" * 64, b"PK\x03\x04 a zip", bytes(range(256))])
def test_not_onnx(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.onnx"
    path.write_bytes(content)
    text = refusal(lambda: import_onnx(path), MicaError)
    assert text.startswith(f"{path}: not ")
    assert "\n" not in text


def test_truncated(tmp_path: Path) -> None:
    """Cut at every 7th length: one line, never a traceback; the whole file is a model."""
    net = Net()
    net.output(net.conv(net.input([1, 2, 5, 5]), 2, 3))
    data = net.model().SerializeToString()
    path = tmp_path / "x.onnx"
    for n in range(0, len(data), 7):
        path.write_bytes(data[:n])
        with pytest.raises(MicaError) as e:
            import_onnx(path)
        assert "\n" not in str(e.value)
    path.write_bytes(data)
    import_onnx(path)


@pytest.mark.parametrize("name", ["net.json", "net.textproto", "net", "net.onnxtxt"])
def test_the_suffix_does_not_matter(tmp_path: Path, name: str) -> None:
    assert ops(import_onnx(single("Relu", 1, 4).save(tmp_path, name))) == ["Relu"]


def test_invalid_graph(tmp_path: Path) -> None:
    net = Net()
    net.input([1, 4])
    net.add("Relu", "nobody", outputs=["y"])
    net.output("y", [1, 4])
    text = refusal(lambda: imported(net, tmp_path), MicaError)
    assert "not a valid ONNX model" in text
    assert "nobody" in text


def test_unknown_operator_of_onnx(tmp_path: Path) -> None:
    net = Net()
    net.output(net.add("Frobnicate", net.input([1, 4])), [1, 4])
    assert "Frobnicate" in refusal(lambda: imported(net, tmp_path), MicaError)


# Versions


@pytest.mark.parametrize("opset", [1, 6])
def test_opset_too_old(tmp_path: Path, opset: int) -> None:
    text = refusal(lambda: imported(single("Relu", 1, 4, opset=opset), tmp_path))
    assert f"opset {opset}; mica reads 7 to" in text


def test_opset_too_new(tmp_path: Path) -> None:
    net = single("Relu", 1, 4)
    net.opset = onnx.defs.onnx_opset_version() + 1
    assert f"mica reads 7 to {onnx.defs.onnx_opset_version()}" in refusal(lambda: imported(net, tmp_path))


@pytest.mark.parametrize("opset", [7, onnx.defs.onnx_opset_version()])
def test_oldest_and_newest_opset(tmp_path: Path, opset: int) -> None:
    assert ops(core(single("Relu", 1, 4, opset=opset), tmp_path)) == ["Unary"]


def test_ir_version_3(tmp_path: Path) -> None:
    """Files of that age list their initialisers among the inputs."""
    net = Net(opset=8, ir=3)
    x = net.input([1, 4])
    net.inputs.append(helper.make_tensor_value_info("shape", TensorProto.INT64, [2]))
    net.output(net.add("Reshape", x, net.const([2, 2], "shape")), [2, 2])
    g = imported(net, tmp_path)
    assert g.inputs == ["x"]
    assert g.value(g.outputs[0]).shape == (2, 2)


def test_ir_version_3_without_listed_initialisers(tmp_path: Path) -> None:
    net = Net(opset=8, ir=3)
    net.output(net.add("Reshape", net.input([1, 4]), net.const([2, 2], "shape")), [2, 2])
    path = net.save(tmp_path)
    with pytest.raises(onnx.checker.ValidationError):
        onnx.checker.check_model(str(path))
    onnxruntime.InferenceSession(path)
    g = import_onnx(path)
    assert (g.inputs, g.value(g.outputs[0]).shape) == (["x"], (2, 2))


def test_an_output_by_its_name_alone(tmp_path: Path) -> None:
    """People name a tensor of a layer as an output like this: graph.output.append(ValueInfoProto(name=...))."""
    net = Net()
    hidden = net.add("Relu", net.input([1, 4]))
    net.output(net.add("Neg", hidden), [1, 4])
    path = net.save(tmp_path)
    model = onnx.load(str(path))
    model.graph.output.append(onnx.ValueInfoProto(name=hidden))
    model.graph.value_info.append(onnx.ValueInfoProto(name=hidden))
    onnx.save(model, str(path))
    with pytest.raises(onnx.checker.ValidationError):
        onnx.checker.check_model(str(path))
    onnxruntime.InferenceSession(path)
    g = import_onnx(path)
    assert [g.value(o).shape for o in g.outputs] == [(1, 4), (1, 4)]


def test_nodes_in_any_order(tmp_path: Path) -> None:
    """ONNX Runtime's converter to float16 appends Casts of the input behind their readers. A branch reads them, too."""
    net = Net()
    x = net.input([1, 4])
    branch = helper.make_graph(
        [helper.make_node("Relu", ["c"], ["b"])],
        "b",
        [],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, [1, 4])],
    )
    yes = net.const(np.array(True))
    net.nodes.append(helper.make_node("If", [yes], ["y"], then_branch=branch, else_branch=branch))
    net.add("Neg", x, outputs=["c"])
    net.output("y", [1, 4])
    path = net.save(tmp_path)
    with pytest.raises(onnx.checker.ValidationError):
        onnx.checker.check_model(str(path))
    onnxruntime.InferenceSession(path)
    assert [n.op for n in import_onnx(path).nodes] == ["Neg", "Relu", "Identity"]


# Dimensions


def test_the_batch_becomes_1(tmp_path: Path) -> None:
    for batch in ("N", None, 0, -1):
        net = Net()
        net.output(net.add("Relu", net.input([batch, 4])))
        assert imported(net, tmp_path).value("x").shape == (1, 4)


def test_dynamic_dimensions_are_named(tmp_path: Path) -> None:
    net = Net()
    net.output(net.conv(net.input(["N", 3, "height", None]), 3, 4))
    text = refusal(lambda: imported(net, tmp_path))
    assert "input 'x' [N, 3, height, ?]: dimension 2 is dynamic; give its size with --shape height=N" in text
    assert "dimension 3 is dynamic; give its size with --shape x.3=N" in text  # both at once
    g = imported(net, tmp_path, {"height": 8, "x.3": 6})
    assert g.value("x").shape == (1, 3, 8, 6)
    assert g.value(g.outputs[0]).shape == (1, 4, 6, 4)


def test_wrong_shape_name(tmp_path: Path) -> None:
    net = Net()
    net.output(net.add("Relu", net.input(["N", "time", None])))
    text = refusal(lambda: imported(net, tmp_path, {"tiem": 3}), MicaError)
    assert "--shape tiem: the model has no such dimension; its dynamic dimensions are: N, time, x.2" in text
    text = refusal(lambda: imported(single("Relu", 1, 4), tmp_path, {"N": 3}), MicaError)
    assert text.endswith("all are fixed")


def test_what_gemm_adds_has_to_fit(tmp_path: Path) -> None:
    """A damaged .tflite file named its weights as its bias; onnx's own checks let such a node through."""
    net = Net()
    x, w = net.input([1, 8]), net.random(6, 8)
    net.output(net.add("Gemm", x, w, w, transB=1), [1, 6])
    text = refusal(lambda: core(net, tmp_path))
    assert "(Gemm): what is added has the shape [6, 8], the product [1, 6]" in text


@pytest.mark.parametrize("size", [0, -3])
def test_impossible_shape(tmp_path: Path, size: int) -> None:
    net = Net()
    net.output(net.add("Relu", net.input(["N", "time"])))
    assert f"--shape time={size}" in refusal(lambda: imported(net, tmp_path, {"time": size}), MicaError)


def test_no_shape(tmp_path: Path) -> None:
    net = Net()
    net.input(None)
    net.add("Relu", "x", outputs=["y"])
    net.output("y", [1, 4])
    assert "'shape' of 'type' is required" in refusal(lambda: imported(net, tmp_path), MicaError)


def test_batch_of_two(tmp_path: Path) -> None:
    """Convolutions run one image; rows of a matrix are no batch to them."""
    net = Net()
    net.output(net.conv(net.input([2, 3, 8, 8]), 3, 4))
    assert "node 'n0_Conv' (Conv): batch of 2" in refusal(lambda: core(net, tmp_path))
    net = Net()
    net.output(net.add("MatMul", net.input([2, 4]), net.random(4, 3)))
    assert_same(net, core(net, tmp_path))


def test_images_too_small(tmp_path: Path) -> None:
    for size, found in ((2, "[1, 4, 0, 0]"), (1, "[1, 4, -1, -1]")):
        net = Net()
        net.conv(net.input([1, 3, size, size]), 3, 4)
        net.output("v0", [1, 4, None, None])
        path = net.save(tmp_path)
        assert f"would have the shape {found}" in refusal(lambda path=path: import_onnx(path))  # type: ignore[misc]


def test_shapes_that_do_not_fit(tmp_path: Path) -> None:
    net = Net()
    net.add("Add", net.input([1, 3]), net.random(4), name="sum")
    net.output("v0", [1, 3])
    assert "node 'sum' (Add): Incompatible dimensions" in refusal(lambda: imported(net, tmp_path))


def test_reshape_for_another_batch(tmp_path: Path) -> None:
    """Exported with batch 8: the constant shape no longer fits."""
    net = Net()
    net.output(net.add("Reshape", net.input(["N", 2, 3]), net.const([8, 6]), name="flat"))
    text = refusal(lambda: core(net, tmp_path))
    assert "node 'flat' (Reshape): [1, 2, 3] to [8, 6]; was it exported for another batch" in text


# Types


@pytest.mark.parametrize("dtype", ["INT16", "UINT64", "STRING", "COMPLEX64"])
def test_inputs_of_other_types(tmp_path: Path, dtype: str) -> None:
    net = Net()
    net.output(
        net.add("Identity", net.input([1, 4], dtype=getattr(TensorProto, dtype))), dtype=getattr(TensorProto, dtype)
    )
    expected = "input 'x' takes texts" if dtype == "STRING" else "input 'x' is"
    assert expected in refusal(lambda: imported(net, tmp_path))


def test_sequence_input(tmp_path: Path) -> None:
    net = Net()
    net.inputs.append(helper.make_tensor_sequence_value_info("x", FLOAT, [1, 4]))
    net.add("SequenceLength", "x", outputs=["y"])
    net.output("y", [], TensorProto.INT64)
    assert "input 'x' is not a tensor" in refusal(lambda: imported(net, tmp_path))


@pytest.mark.parametrize(("dtype", "zero"), [(TensorProto.UINT8, -128), (TensorProto.INT8, 0)])
def test_integer_image(tmp_path: Path, dtype: int, zero: int) -> None:
    """Pixels that are cast to float keep their bits: scale 1, and the integer's own zero."""
    net = Net()
    x = net.add("Cast", net.input([1, 1, 4, 4], dtype=dtype), to=FLOAT)
    net.output(net.conv(x, 1, 2))
    compiled = compile_file(net.save(tmp_path))
    x_record = compiled.model.tensors[compiled.model.inputs[0]]
    assert (x_record.scale, x_record.zero_point) == (1.0, zero)


def test_integer_arithmetic(tmp_path: Path) -> None:
    """uint8 sums wrap; a quantised sum does not."""
    net = Net()
    x = net.input([1, 4], dtype=TensorProto.UINT8)
    y = net.add("Add", x, x, name="wraps")
    net.output(net.add("Cast", y, to=FLOAT))
    assert "node 'wraps' (Add): computes with uint8 numbers" in refusal(lambda: imported(net, tmp_path))


def test_cast_to_narrow_integers(tmp_path: Path) -> None:
    net = Net()
    net.output(net.add("Cast", net.input([1, 4]), to=TensorProto.UINT8, name="trunc"), dtype=TensorProto.UINT8)
    assert "node 'trunc' (Cast): a cast to another type" in refusal(lambda: core(net, tmp_path))


def test_sparse_initializer(tmp_path: Path) -> None:
    net = single("Relu", 1, 4)
    model = net.model()
    values = numpy_helper.from_array(np.ones(1, np.float32), "w")
    indices = numpy_helper.from_array(np.zeros(1, np.int64), "w_indices")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [3]))
    path = tmp_path / "x.onnx"
    path.write_bytes(model.SerializeToString())
    assert "initializer 'w': sparse" in refusal(lambda: import_onnx(path))


# Operators


def test_everything_unsupported_at_once(tmp_path: Path) -> None:
    """The error lists all unknown operators, and all unsupported uses of known ones, in the file's order."""
    net = Net()
    x = net.input([1, 3, 8, 8])
    a = net.add("Hardmax", x, name="wave")
    b = net.add("Pow", net.add("Relu", a), x, name="gate")
    c = net.add("MaxPool", b, kernel_shape=[2, 2], pads=[2, 2, 2, 2], name="outside")
    d = net.add("Div", c, net.const(np.zeros(3, np.float32).reshape(1, 3, 1, 1)), name="ratio")
    net.output(net.add("Det", d, name="det"))
    lines = refusal(lambda: compile_file(net.save(tmp_path))).splitlines()
    assert lines[0] == f"{tmp_path}/net.onnx: cannot be packed:"
    assert [line.split(":")[0].strip() for line in lines[1:]] == [
        "node 'wave' (Hardmax)",
        "node 'gate' (Pow)",
        "node 'outside' (MaxPool)",
        "node 'ratio' (Div)",
        "node 'det' (Det)",
    ]
    assert "mica info --ops" in lines[1]
    assert "an exponent that varies" in lines[2]
    assert "wholly in the padding" in lines[3]


@pytest.mark.parametrize(("op", "count"), [("Hardmax", 40), ("Pow", 5), ("Hardmax", 2)])
def test_one_line_for_one_cause(tmp_path: Path, op: str, count: int) -> None:
    """Refusals of the importer (Hardmax) and of the passes (Pow): a line for many nodes names two of them."""
    net = Net()
    x = net.input([1, 4, 2, 2])
    for k in range(count):
        x = net.add(op, x, *([x] if op == "Pow" else []), name=f"n{k}")
    net.output(x)
    text = refusal(lambda: compile_file(net.save(tmp_path)))
    if count == 2:
        assert [line.split(":")[0].strip() for line in text.splitlines()[1:]] == [
            f"node 'n{k}' (Hardmax)" for k in (0, 1)
        ]
    else:
        assert "\n" not in text
        assert f"node 'n0', 'n1' and {count - 2} more ({op}): " in text


def test_unsupported_behind_the_unknown(tmp_path: Path) -> None:
    """A custom operator hides the shapes behind it. Unsupported operators there are still named; shape sums are not."""
    net = Net()
    net.domains["acme"] = 1
    x = net.input([1, 4])
    net.nodes.append(helper.make_node("Magic", [x], ["m"], name="magic", domain="acme"))
    y = net.add("Reshape", "m", net.add("Gather", net.add("Shape", "m"), net.const([0]), name="sum"))
    net.add("Hardmax", y, name="sums", outputs=["y"])
    net.output("y", [1, 4])
    text = refusal(lambda: compile_file(net.save(tmp_path)))
    assert "node 'magic' (Magic): operator of the domain 'acme'" in text
    assert "node 'sums' (Hardmax): operator not" in text
    assert "'sum'" not in text
    assert "Reshape" not in text


def test_dead_operators_are_no_problem(tmp_path: Path) -> None:
    net = Net()
    x = net.input([1, 4])
    net.add("Sin", x)
    net.output(net.add("Relu", x))
    assert ops(core(net, tmp_path)) == ["Unary"]


def _branching(net: Net, condition: str) -> Net:
    """y = Relu(x) if condition else Sigmoid(x)."""
    branches = {
        name: helper.make_graph(
            [helper.make_node(op, ["x"], [out])], name, [], [helper.make_tensor_value_info(out, FLOAT, [1, 4])]
        )
        for name, op, out in (("then_branch", "Relu", "z"), ("else_branch", "Sigmoid", "w"))
    }
    net.nodes.append(helper.make_node("If", [condition], ["y"], name="if", **branches))
    net.output("y", [1, 4])
    return net


def test_control_flow(tmp_path: Path) -> None:
    net = Net()
    net.input([1, 4])
    _branching(net, net.input([], "c", dtype=TensorProto.BOOL))
    text = refusal(lambda: imported(net, tmp_path))
    assert "node 'if' (If): " in text, text


@pytest.mark.parametrize(("condition", "function"), [(True, "clip"), (False, "sigmoid")])
def test_a_known_condition_takes_its_branch(tmp_path: Path, condition: bool, function: str) -> None:
    net = Net()
    net.input([1, 4])
    graph = core(_branching(net, net.const(np.array(condition))), tmp_path)
    assert [n.attrs["function"] for n in graph] == [function]


def test_shape_from_data(tmp_path: Path) -> None:
    net = Net()
    net.output(net.add("NonZero", net.input([1, 4]), name="where"), [2, None], TensorProto.INT64)
    assert "node 'where' (NonZero): operator not supported" in refusal(lambda: imported(net, tmp_path))
    net = Net()
    shape = net.add("Cast", net.input([2], "s"), to=TensorProto.INT64, name="cast")
    net.output(net.add("Reshape", net.input([1, 4]), shape, name="to"), [None, None])
    text = refusal(lambda: imported(net, tmp_path))
    assert "node 'to' (Reshape): the shape of its output depends on data" in text


@pytest.mark.parametrize("op", ["Conv", "BatchNormalization"])
def test_weights_from_outside(tmp_path: Path, op: str) -> None:
    net = Net()
    if op == "Conv":
        net.add(op, net.input([1, 2, 4, 4]), net.input([3, 2, 1, 1], "w"), name="it")
    else:
        net.add(op, net.input([1, 2, 4, 4]), *(net.input([2], f"p{k}") for k in range(4)), name="it")
    net.output("v0")
    text = refusal(lambda: compile_file(net.save(tmp_path)))
    assert f"node 'it' ({op}): " in text
    assert "constant" in text


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (single("Conv", 1, 1, 4, 4, 4, inputs=[np.ones((1, 1, 2, 2, 2), np.float32)]), "3 spatial dimensions"),
        (single("AveragePool", 1, 1, 8, 8, opset=19, kernel_shape=[2, 2], dilations=[2, 2]), "with dilations"),
        (single("Div", 1, 3, inputs=[np.zeros(3, np.float32)]), "division by zero"),
        (single("Conv", 1, 1, 4, 4, inputs=[np.ones((1, 1, 1, 1), np.float32)], pads=[-1, 0, 0, 0]), "negative values"),
        (single("Dropout", 1, 4, inputs=[np.float32(0.5), np.array(True)]), "model.eval()"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_refused_with_reason(tmp_path: Path, net: Net, reason: str) -> None:
    text = refusal(lambda: compile_file(net.save(tmp_path)))
    assert reason in text
    assert f"node '{net.nodes[0].name}'" in text


def test_mask_of_a_dropout(tmp_path: Path) -> None:
    net = Net()
    y = net.add("Dropout", net.input([1, 4]), outputs=["y", "mask"])
    net.output(y)
    net.output("mask", [1, 4], TensorProto.BOOL)
    assert "its mask is used" in refusal(lambda: core(net, tmp_path))


def test_limits_of_the_format(tmp_path: Path) -> None:
    net = Net()
    x = net.input([1, 2, 3, 4, 5, 6, 7])
    y = net.add("Transpose", x, perm=[6, 5, 4, 3, 2, 1, 0], name="turn")
    z = net.add("Reshape", y, net.const([7 * 720]))
    net.output(net.add("Relu", z))
    text = refusal(lambda: compile_file(net.save(tmp_path)))
    assert "node 'x' (input): a tensor of 7 dimensions" in text
    assert "node 'turn' (Transpose): a tensor of 7" in text
    text = refusal(lambda: compile_file(single("Relu", 1, 70000).save(tmp_path)))
    assert "no dimension may be larger than 65535" in text
    net = Net()
    net.output(net.conv(net.input([1, 1, 4, 4]), 1, 1, strides=[70000, 70000]))
    assert "none may be larger" in refusal(lambda: compile_file(net.save(tmp_path)))
    net = Net()
    net.output(net.add("MaxPool", net.input([1, 1, 3, 4]), kernel_shape=[3, 2**23], pads=[0, 2**23 - 1, 0, 0]))
    path = net.save(tmp_path)
    tracemalloc.start()
    assert "none may be larger" in refusal(lambda: compile_file(path))
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_seven_dimensions_that_come_to_nothing(tmp_path: Path) -> None:
    net = Net()
    x = net.add("Reshape", net.input([1, 24]), net.const([1, 1, 2, 3, 2, 2, 1]))
    net.output(net.add("Relu", net.add("Reshape", x, net.const([4, 6]))))
    assert_same(net, core(net, tmp_path))


# What exporters leave behind


def test_shape_arithmetic_disappears(tmp_path: Path) -> None:
    """`x.view(x.size(0), -1)` as PyTorch exports it."""
    net = Net()
    x = net.conv(net.input(["N", 2, 4, 4]), 2, 3)
    n = net.add("Unsqueeze", net.add("Gather", net.add("Shape", x), net.const(np.array(0)), axis=0), net.const([0]))
    rest = net.add("Constant", value=numpy_helper.from_array(np.array([-1])))
    flat = net.add("Reshape", x, net.add("Concat", n, rest, axis=0))
    net.output(net.add("Gemm", flat, net.random(12, 5)))
    g = imported(net, tmp_path)
    assert ops(g) == ["Conv", "Gemm"]
    assert g.value(flat).shape == (1, 12)
    assert_same(net, core(net, tmp_path))


def test_more_shape_arithmetic(tmp_path: Path) -> None:
    """Size, Slice, Mul, Cast, Range: all on constants, none of them supported on data."""
    net = Net()
    x = net.input([1, 2, 3, 4])
    part = net.add("Slice", net.add("Shape", x), net.const([2]), net.const([4]))
    hw = net.add("ReduceProd", part, keepdims=1)
    c = net.add("Div", net.add("Size", x), hw)
    shape = net.add("Concat", c, hw, axis=0)
    net.output(net.add("Reshape", x, net.add("Cast", shape, to=TensorProto.INT64)))
    assert imported(net, tmp_path).value(net.outputs[0].name).shape == (2, 12)
    net = Net()
    y = net.add("Reshape", net.input([1, 2, 3, 4]), net.add("Shape", "x", start=1, end=-1))
    net.outputs = [helper.make_tensor_value_info(y, FLOAT, [2, 3])]
    assert "to [2, 3]" in refusal(lambda: core(net, tmp_path))


def test_constants_of_every_kind(tmp_path: Path) -> None:
    net = Net()
    x = net.input([1, 3])
    a = net.add("Constant", value_floats=[1.0, 2.0, 3.0])
    b = net.add("Constant", value_float=0.5)
    c = net.add("ConstantOfShape", net.const([3]), value=numpy_helper.from_array(np.array([2.0], np.float32)))
    net.output(net.add("Mul", net.add("Add", net.add("Add", x, a), b), net.add("Neg", c)))
    assert_same(net, core(net, tmp_path))


def test_constant_that_cannot_be_evaluated(tmp_path: Path) -> None:
    net = Net()
    bad = net.add("Reshape", net.const([1.0, 2.0]), net.const([3]), name="bad")
    net.output(net.add("Add", net.input([1, 3]), bad), [1, 3])
    assert "node 'bad' (Reshape): its constant inputs cannot be evaluated" in refusal(lambda: imported(net, tmp_path))


def test_local_functions_are_inlined(tmp_path: Path) -> None:
    net = Net()
    net.domains["local"] = 1
    net.functions.append(
        helper.make_function(
            "local",
            "Twice",
            ["a"],
            ["b"],
            [helper.make_node("Add", ["a", "a"], ["s"]), helper.make_node("Relu", ["s"], ["b"])],
            [helper.make_opsetid("", 17)],
        )
    )
    net.nodes.append(helper.make_node("Twice", [net.input([1, 4])], ["y"], domain="local"))
    net.output("y", [1, 4])
    assert ops(imported(net, tmp_path)) == ["Add", "Relu"]
    assert ops(core(net, tmp_path)) == ["Add"]


def test_external_data(tmp_path: Path) -> None:
    net = Net()
    net.output(net.add("MatMul", net.input([1, 64]), net.random(64, 8)))
    path = tmp_path / "big.onnx"
    onnx.save(net.model(), str(path), save_as_external_data=True, location="big.bin", size_threshold=0)
    assert_same(net, core(net, tmp_path))
    compiled = compile_file(path)
    assert compiled.weight_bytes > 64 * 8
    (tmp_path / "big.bin").unlink()
    text = refusal(lambda: import_onnx(path), MicaError)
    assert text.startswith(f"{path}: its weights are in big.bin, which is not beside it")
    assert "\n" not in text


# Inputs and outputs


def test_constant_output(tmp_path: Path) -> None:
    net = single("Relu", 1, 4)
    net.output(net.add("Identity", net.const([1.0, 2.0])), [2])
    assert "is constant, it depends on no input" in refusal(lambda: imported(net, tmp_path))


def test_output_twice(tmp_path: Path) -> None:
    net = single("Relu", 1, 4)
    net.output("v0", [1, 4])
    assert "output 'v0' is listed twice" in refusal(lambda: imported(net, tmp_path))


def test_no_output_no_input(tmp_path: Path) -> None:
    net = single("Relu", 1, 4)
    net.outputs.clear()
    assert "no outputs" in refusal(lambda: imported(net, tmp_path))


def test_odd_names(tmp_path: Path) -> None:
    """No names, the same name twice, names with newlines, accents, and the length of a path: all legal."""
    net = Net()
    x = net.input([1, 4], "eingang\n/größe ✓")
    a = net.add("MatMul", x, net.random(4, 4), name="", outputs=["a" * 300])
    b = net.add("Softmax", a, name="one\ntwo")
    c = net.add("MatMul", b, net.random(4, 4), name="one\ntwo")
    net.output(net.add("Relu", c, name="", outputs=["out\tput"]))
    compiled = compile_file(net.save(tmp_path))
    assert [s.name for s in compiled.model.steps] == ["a" * 197 + "...", "one two", "one two"]
    assert compiled.model.tensors[compiled.model.inputs[0]].name == "eingang /größe ✓"
    core(net, tmp_path)


def test_file_name_that_is_no_text(tmp_path: Path) -> None:
    path = single("Relu", 1, 4).save(tmp_path).rename(tmp_path / "a\udcffb.onnx")
    assert compile_file(path).model.metadata["name"] == "a?b"


def test_zero_byte_in_a_name(tmp_path: Path) -> None:
    net = Net()
    net.output(net.add("Relu", net.input([1, 4], "a\0b")))
    compiled = compile_file(net.save(tmp_path))
    assert compiled.model.tensors[compiled.model.inputs[0]].name == "a?b"


def test_every_supported_operator_is_onnx_s() -> None:
    """`mica info --ops` promises no operator that only our own passes write, and none with another name."""
    known = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain in ("", "ai.onnx.ml")}
    assert known >= ONNX_OPS and len(ONNX_OPS) > 120


@pytest.mark.parametrize("op", ("Conv", "ConvTranspose"))
def test_a_bias_of_other_channels(op: str, tmp_path: Path) -> None:
    """ONNX's checker accepts such a bias, and later stages took it for an array of channels."""
    net = Net()
    x = net.input([1, 4, 6, 6])
    w = net.const(np.ones((4, 4, 1, 1), np.float32))
    net.output(net.add(op, x, w, net.const(np.ones((4, 5), np.float32))), [None] * 4)
    with pytest.raises(Unsupported, match=r"a bias of shape \[4, 5\] for 4 channels"):
        compile_file(net.save(tmp_path))


@pytest.mark.parametrize("bad", (np.nan, np.inf))
@pytest.mark.parametrize("op", ("MatMul", "Conv", "LSTM"))
def test_a_weight_that_is_no_number(tmp_path: Path, op: str, bad: float) -> None:
    """The weight is blamed, not the calibration; once, though two layers read it."""
    net = Net()
    shape = {"MatMul": (4, 4), "Conv": (4, 4, 1, 1), "LSTM": (1, 16, 4)}[op]
    w = net.rng.standard_normal(shape).astype(np.float32)
    w.flat[:2] = bad
    name = net.const(w, "head.weight")
    x = net.input([1, 4, 1, 4] if op != "LSTM" else [3, 1, 4])
    if op == "LSTM":
        y = net.add(op, x, name, name, name="head", hidden_size=4)
    else:
        y = net.add(op, net.add(op, x, name, name="head"), name)
    net.output(y, [None] * 4)
    with pytest.raises(Unsupported) as e:
        compile_file(net.save(tmp_path), {"x": np.ones((8, *((3, 1, 4) if op == "LSTM" else (4, 1, 4))), np.float32)})
    what = "NaN" if np.isnan(bad) else "infinity"
    path, size = tmp_path / "net.onnx", np.prod(shape)
    assert str(e.value).startswith(
        f"{path}: cannot be packed: node 'head' ({op}): its constant 'head.weight' holds {what} (2 of {size} values)"
    )
    assert "\n" not in str(e.value)


def test_what_is_computed_is_a_number(tmp_path: Path) -> None:
    """PyTorch writes an arctangent of two with IsNaN of the quotient's, where both are 0.
    An input's NaN is another thing."""
    net = Net(opset=18)
    x = net.input([1, 6])
    angle = net.add("Atan", x)
    net.output(net.add("Where", net.add("IsNaN", angle), net.const(np.float32(0)), angle), [1, 6])
    assert [n.op for n in core(net, tmp_path).nodes] == ["Unary"]
    net = Net(opset=18)
    x = net.input([1, 6])
    moved = net.add("Reshape", x, net.const([6, 1]))
    net.output(net.add("Where", net.add("IsNaN", moved), net.const(np.float32(0)), moved), [6, 1])
    assert "(IsNaN): operator not supported" in refusal(lambda: compile_file(net.save(tmp_path)))
