"""Classes and their scores: models that give both, labels of the file, and models that a front end may precede.

The models are written as scikit-learn's and Keras' exporters write them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tflite_files import Tflite
from tones import BANDS, FRAMES, FRONT_END, tone

from mica.cli.main import main
from mica.compile import compile_file
from mica.file import codec, scores
from mica.importer import import_model
from mica.listen.detection import Detector, Settings
from mica.passes import pipeline
from mica.run.evaluation import Dataset, evaluate, numbered
from mica.run.float_model import FloatModel
from mica_fleet.home_assistant import answer_of

WEIGHTS = np.array([[2, -1, -1], [-1, 2, -1], [-1, -1, 2]], np.float32)
NAMES, NUMBERS = ("ant", "bee", "cat"), (2, 3, 7)
ML = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
END, ELEMENTS = helper.make_tensor_value_info, {"name": TensorProto.STRING, "number": TensorProto.INT64}


def classifier(path: Path, labels: tuple[str | int, ...], zipmap: bool = False, scaler: bool = True) -> Path:
    """Scaler and LinearClassifier: the class, and probabilities of all."""
    text = isinstance(labels[0], str)
    nodes = [
        helper.make_node(
            "LinearClassifier",
            ["scaled" if scaler else "x"],
            ["label", "p"],
            domain="ai.onnx.ml",
            coefficients=WEIGHTS.reshape(-1).tolist(),
            intercepts=[0.0, 0.0, 0.0],
            post_transform="SOFTMAX",
            **{"classlabels_strings" if text else "classlabels_ints": list(labels)},
        )
    ]
    if scaler:
        parts = {"offset": [0.5, 0.5, 0.5], "scale": [1.0, 2.0, 1.0]}
        nodes.insert(0, helper.make_node("Scaler", ["x"], ["scaled"], domain="ai.onnx.ml", **parts))
    kind = ELEMENTS["name" if text else "number"]
    ends = [END("label", kind, [None]), END("p", TensorProto.FLOAT, [None, 3])]
    if zipmap:
        key = {"classlabels_strings" if text else "classlabels_int64s": list(labels)}
        nodes.append(helper.make_node("ZipMap", ["p"], ["map"], domain="ai.onnx.ml", **key))
        of = helper.make_map_type_proto(kind, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
        ends[1] = helper.make_value_info("map", helper.make_sequence_type_proto(of))
    graph = helper.make_graph(nodes, "classes", [END("x", TensorProto.FLOAT, [None, 3])], ends)
    onnx.save(helper.make_model(graph, opset_imports=ML, ir_version=8), path)
    return path


def data(folder: Path, labels: np.ndarray, n: int = 60) -> Path:
    """Samples whose largest feature is the class, with its name from `labels`."""
    y = np.arange(n) % 3
    x = np.random.default_rng(3).uniform(0, 0.4, (n, 3)).astype(np.float32)
    x[np.arange(n), y] += 0.8
    np.savez(folder / "labelled.npz", x=x, y=labels[y])
    return folder / "labelled.npz"


LABELS: dict[str, tuple[tuple[str | int, ...], np.ndarray]] = {
    "names": (NAMES, np.array(NAMES)),
    "names as bytes": (NAMES, np.array(NAMES, "S")),
    "places of names": (NAMES, np.arange(3)),
    "numbers": (NUMBERS, np.array(NUMBERS)),
    "numbers as text": (NUMBERS, np.array([str(v) for v in NUMBERS])),
    "places of numbers": (NUMBERS, np.arange(3)),
    "from 1 on": ((1, 2, 3), np.array([1, 2, 3], np.uint8)),
    "below 0": ((-1, 0, 1), np.array([-1, 0, 1])),
}


@pytest.mark.parametrize(("name", "zipmap"), [*((name, False) for name in LABELS), ("names", True), ("numbers", True)])
def test_labels_of_the_file(name: str, zipmap: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """pack --eval, eval --float and compare --float work with any names of classes and any values of `y`."""
    labels, y = LABELS[name]
    net, packed, found = classifier(tmp_path / "net.onnx", labels, zipmap), tmp_path / "net.mica", data(tmp_path, y)
    words = ["pack", str(net), "-o", str(packed), "--calib", str(found), "--eval", str(found), "--plain", "--json"]
    assert main(words) == 0
    accuracy = json.loads(capsys.readouterr().out)["accuracy"]
    assert (accuracy["value"], accuracy["float_value"], accuracy["agreement"]) == (1, 1, 1)
    assert [c["class"] for c in accuracy["classes"]] == [str(v) for v in labels]
    assert [c["samples"] for c in accuracy["classes"]] == [20, 20, 20]
    assert main(["eval", str(packed), str(found), "--float", str(net), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["float_value"] == 1
    assert main(["compare", str(packed), str(packed), str(found), "--float", str(net), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["a"]["float_value"] == 1
    assert main(["run", str(packed), str(found), "--sample", "1"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[1].strip() == str(labels[1]) and out[3].split()[0] == str(labels[1])
    assert np.array_equal(FloatModel(net).predict(np.load(found)["x"][:3, None], 0).reshape(-1), [0, 1, 2])
    p = FloatModel(net).predict(np.load(found)["x"][:3, None], 1).reshape(3, 3)
    assert p.argmax(axis=1).tolist() == [0, 1, 2] and np.allclose(p.sum(axis=1), 1)


REFUSED: list[tuple[Callable[[], np.ndarray], str]] = [
    (lambda: np.array(["ant", "dog", "cat"]), "'y' holds 'dog', which is no class of the model; expected numbers"),
    (lambda: np.array(["ant", "dog", "cat"]), "or labels of the model; its labels are ant, bee, cat"),
    (lambda: np.array(list(NAMES), object), "'y' holds Python objects, which mica never unpickles; save"),
    (lambda: np.array([0, 1, -2]), "'y' holds '-2', which is no class of the model"),
    (lambda: np.array([0, 1, 5]), "'y' has labels from 0 to 5; the model has the classes 0 to 2"),
]


@pytest.mark.parametrize(("y", "said"), REFUSED)
def test_labels_of_another_model(
    y: Callable[[], np.ndarray], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net, found = classifier(tmp_path / "net.onnx", NAMES), data(tmp_path, y())
    assert main(["pack", str(net), "--eval", str(found)]) == 1
    err = [line for line in capsys.readouterr().err.splitlines() if "warning" not in line]
    assert len(err) == 1 and said in err[0]


def test_names_are_looked_up_once() -> None:
    """Numbers that are classes already are no labels of a model that counts from 1."""
    y = numbered(Dataset(np.zeros((2, 1), np.float32), np.array([2, 3]), "top1"), ("1", "2", "3"))
    assert y.y.tolist() == numbered(y, ("1", "2", "3")).y.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("outputs", "labels", "place"),
    [
        (("label", "p"), "", 1),
        (("p", "label"), "", 0),
        (("label", "far"), "", -1),  # distances: the smallest is the class's
        (("label",), "", -1),
        (("label", "far", "p"), "", 2),
        (("two", "p"), "ant\nbee\ncat", 1),  # as many as there are names
        (("two", "p"), "", 0),
    ],
)
def test_which_output_holds_scores(outputs: tuple[str, ...], labels: str, place: int, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["s"]),
        helper.make_node("Softmax", ["s"], ["p"], axis=1),
        helper.make_node("ArgMax", ["s"], ["label"], axis=1, keepdims=0),
        helper.make_node("Neg", ["s"], ["far"]),
        helper.make_node("Gemm", ["x", "v"], ["two"]),
    ]
    sizes = {"label": [1], "two": [1, 2]}
    ends = [
        END(name, TensorProto.INT64 if name == "label" else TensorProto.FLOAT, sizes.get(name, [1, 3]))
        for name in outputs
    ]
    constants = [numpy_helper.from_array(WEIGHTS, "w"), numpy_helper.from_array(WEIGHTS[:, :2].copy(), "v")]
    graph = helper.make_graph(nodes, "outputs", [END("x", TensorProto.FLOAT, [1, 3])], ends, constants)
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=ML[:1], ir_version=8), path)
    x = np.random.default_rng(1).standard_normal((40, 3)).astype(np.float32)
    model = compile_file(path, {"x": x}, metadata={"labels": labels} if labels else {}, plain=True).model
    assert scores.place(model) == place
    if place < 0:
        with pytest.raises(Exception, match="no output of the model holds scores of its classes; it has 'label'"):
            Detector(model, Settings())
    else:
        assert Detector(model, Settings()).place == place


def test_answer_for_home_assistant(tmp_path: Path) -> None:
    x = np.load(data(tmp_path, np.arange(3)))["x"]
    model = compile_file(classifier(tmp_path / "net.onnx", NAMES), {"x": x}).model
    row = np.int32(2).tobytes() + np.array([-128, -128, 127], np.int8).tobytes()
    assert answer_of(model, row) == {"answer": "cat", "score": pytest.approx(0.996, abs=1e-3)}


@pytest.mark.parametrize(("scale", "zero", "right"), [(1 / 256, -128, [0, 1, 1]), (0.1, 0, [0, 1, 1])])
def test_a_single_score(scale: float, zero: int, right: list[int]) -> None:
    """A probability says the second class from 0.5 on, a logit or a margin from 0 on."""
    t = codec.TensorRecord("y", "int8", (1, 1), scale, zero)
    model = codec.ModelFile([t], [], [0], [0], {"labels": "no\nyes"})
    values = np.array([[0.2], [0.7], [0.9]] if scale < 0.01 else [[-3.0], [0.3], [4.0]], np.float32)
    samples = Dataset(values, np.array(right), "top1")
    assert evaluate(samples, (1, 1), lambda x: x.reshape(-1, 1), None, scores.threshold(model, 0)).value == 1
    assert scores.names(model, 1) == ["yes"]


def flattened(alive: bool) -> bytes:
    """Keras' Flatten with an open batch: SHAPE, STRIDED_SLICE, PACK, RESHAPE;
    alive: the batch is multiplied with as well."""
    net = Tflite()
    x, y = net.tensor((1, 2, 2), "float32"), net.tensor((1, 4), "float32")
    shape, batch, both = net.tensor((3,), "int32"), net.tensor((), "int32"), net.tensor((2,), "int32")
    net.operator("SHAPE", [x], [shape])
    at = [net.constant(np.array([k], np.int32)) for k in (0, 1, 1)]
    net.operator("STRIDED_SLICE", [shape, *at], [batch], "StridedSliceOptions", {"shrink_axis_mask": 1})
    net.operator("PACK", [batch, net.constant(np.int32(4))], [both], "PackOptions", {"values_count": 2})
    net.operator("RESHAPE", [x, both], [y])
    if alive:
        real, z = net.tensor((2,), "float32"), net.tensor((1, 4), "float32")
        half, last = net.tensor((2,), "int32"), net.tensor((1,), "float32")
        net.operator("FLOOR_DIV", [both, net.constant(np.array([1, 3], np.int32))], [half])
        net.operator("CAST", [half], [real])
        net.operator(
            "SLICE", [real, net.constant(np.array([1], np.int32)), net.constant(np.array([1], np.int32))], [last]
        )
        net.operator("MUL", [y, last], [z], "MulOptions", {})
        y = z
    label = net.tensor((1,), "int32")
    net.operator("ARG_MAX", [y, net.constant(np.int32(1))], [label], "ArgMaxOptions", {"output_type": 2})
    return net.bytes([x], [y, label])


@pytest.mark.parametrize("alive", [False, True])
def test_shapes_that_a_tflite_computes(alive: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, found = tmp_path / "net.tflite", tmp_path / "labelled.npz"
    net.write_bytes(flattened(alive))
    x = np.random.default_rng(1).uniform(-1, 1, (40, 2, 2)).astype(np.float32)
    np.savez(found, x=x, y=x.reshape(40, 4).argmax(axis=1))
    words = ["pack", str(net), "-o", str(tmp_path / "net.mica"), "--calib", str(found), "--eval", str(found), "--json"]
    assert main(words) == 0
    accuracy = json.loads(capsys.readouterr().out)["accuracy"]
    assert accuracy["float_value"] == 1 and accuracy["value"] > 0.9
    assert main(["compare", *[str(tmp_path / "net.mica")] * 2, str(found), "--float", str(net), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["a"]["float_value"] == 1


FORMS = ("scaler", "imputer and scaler", "forest", "scaler and forest", "machine")


def behind(form: str) -> onnx.ModelProto:
    """A classifier of low and high tones on rows of the front end, as scikit-learn writes it."""
    n = BANDS * FRAMES
    upper = np.arange(n) % BANDS >= BANDS // 2
    line = np.where(upper, 1.0, -1.0) / n
    ml, nodes, x = {"domain": "ai.onnx.ml"}, [], "x"
    if "imputer" in form:
        nodes.append(
            helper.make_node("Imputer", [x], ["i"], imputed_value_floats=[-6.0] * n, replaced_value_float=np.nan, **ml)
        )
        x = "i"
    if "scaler" in form:
        nodes.append(
            helper.make_node("Scaler", [x], ["s"], offset=[-6.0] * n, scale=np.linspace(0.5, 2, n).tolist(), **ml)
        )
        x = "s"
    ends = {"classlabels_strings": ["low", "high"], **ml}
    if "forest" in form:
        scale = np.linspace(0.5, 2, n)
        rows = range(0, n, 2 * BANDS)  # the lowest band of every other frame: 4.7 in low tones, -4.8 in high ones
        split = [float(6 * scale[r]) if "scaler" in form else 0.0 for r in rows]
        k = range(len(rows))
        attrs = {
            "nodes_treeids": [t for t in k for _ in range(3)],
            "nodes_nodeids": [0, 1, 2] * len(rows),
            "nodes_featureids": [v for r in rows for v in (r, 0, 0)],
            "nodes_values": [v for s in split for v in (s, 0.0, 0.0)],
            "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"] * len(rows),
            "nodes_truenodeids": [1, 0, 0] * len(rows),
            "nodes_falsenodeids": [2, 0, 0] * len(rows),
            "class_treeids": [t for t in k for _ in range(2)],
            "class_nodeids": [1, 2] * len(rows),
            "class_ids": [0] * (2 * len(rows)),
            "class_weights": [1.0 / len(rows), 0.0] * len(rows),
        }
        nodes.append(helper.make_node("TreeEnsembleClassifier", [x], ["label", "p"], **attrs, **ends))
    elif form == "machine":
        nodes.append(
            helper.make_node(
                "SVMClassifier", [x], ["label", "p"], kernel_type="RBF", kernel_params=[0.01, 0.0, 3.0],
                vectors_per_class=[1, 1],
                support_vectors=np.concatenate([-6 - 4 * line * n / 2, -6 + 4 * line * n / 2]).tolist(),
                coefficients=[1.0, -1.0], rho=[0.0], **ends,
            )
        )  # fmt: skip
    else:
        weights = (line / np.linspace(0.5, 2, n)).tolist()
        nodes.append(
            helper.make_node(
                "LinearClassifier", [x], ["label", "p"], coefficients=[*(-v for v in weights), *weights],
                intercepts=[0.0, 0.0], post_transform="SOFTMAX", **ends,
            )
        )  # fmt: skip
    outputs = [END("label", TensorProto.STRING, [None]), END("p", TensorProto.FLOAT, [None, 2])]
    graph = helper.make_graph(nodes, "behind", [END("x", TensorProto.FLOAT, [None, n])], outputs)
    return helper.make_model(graph, opset_imports=ML, ir_version=8)


@pytest.mark.parametrize("form", FORMS)
def test_behind_a_front_end(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(behind(form), tmp_path / "net.onnx")
    rng = np.random.default_rng(2)
    y = np.array(["low", "high"])[np.arange(40) % 2]
    np.savez(tmp_path / "x.npz", x=np.stack([tone(rng, k) for k in y]), y=y)
    packed, found = str(tmp_path / "net.mica"), str(tmp_path / "x.npz")
    words = ["--plain", "--calib", found, "--eval", found, "--frontend", f"{FRONT_END},samples=1600"]
    assert main(["pack", str(tmp_path / "net.onnx"), "-o", packed, *words, "--json"]) == 0
    accuracy = json.loads(capsys.readouterr().out)["accuracy"]
    assert accuracy["float_value"] >= 0.95 and accuracy["value"] >= accuracy["float_value"] - 0.05
    assert main(["compare", packed, packed, found, "--float", str(tmp_path / "net.onnx"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["a"]["float_value"] == accuracy["float_value"]


def test_neighbours_behind_a_front_end() -> None:
    """They are refused by the passes, before calibration: their vectors are compared with real numbers."""
    path = Path(__file__).resolve().parent.parent / "models" / "classic" / "neighbours.onnx"
    with pytest.raises(Exception, match="only scalers and imputers of the input may stand in front of them"):
        pipeline.run(import_model(path, front_end=True))
