"""The confusion matrix of `mica eval`, and its messages about wrong labels."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nets import Net

from mica.cli.main import main
from mica.compile import compile_file
from mica.run import evaluation
from mica.run.accuracy import confusion

CLASSES = 3


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three numbers in, the same three out: the largest is the answer."""
    folder = tmp_path_factory.mktemp("packed")
    net = Net()
    net.output(net.add("MatMul", net.input([1, CLASSES]), net.const(np.eye(CLASSES, dtype=np.float32))))
    compiled = compile_file(net.save(folder), {"x": np.eye(CLASSES, dtype=np.float32)[:, None]})
    (folder / "m.mica").write_bytes(compiled.data)
    return folder / "m.mica"


def data(folder: Path, y: Any, answers: Any = (0, 1, 2, 2)) -> Path:
    path = folder / "data.npz"
    np.savez(path, x=np.eye(CLASSES, dtype=np.float32)[list(answers)], y=np.array(y))
    return path


def test_matrix_and_figures_are_scikit_learns() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    labels, answers = rng.integers(0, 5, 200), rng.integers(0, 5, 200)
    found = confusion(labels, answers)
    np.testing.assert_array_equal(found.counts, metrics.confusion_matrix(labels, answers))
    precision, recall, _, support = metrics.precision_recall_fscore_support(labels, answers)
    figures = found.figures()
    np.testing.assert_allclose([f["precision"] for f in figures], precision)
    np.testing.assert_allclose([f["recall"] for f in figures], recall)
    np.testing.assert_array_equal([f["samples"] for f in figures], support)


def test_a_class_without_samples_or_answers_has_no_figures() -> None:
    found = confusion(np.array([0, 0, 1]), np.array([0, 1, 1]), 3)
    assert found.counts.tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 0]]
    assert found.figures(("a", "b", "c"))[2] == {"class": "c", "samples": 0, "recall": None, "precision": None}
    assert found.mistakes(5) == [(0, 1, 1)]


def test_eval_prints_it(packed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = data(tmp_path, [0, 1, 2, 1])
    assert main(["eval", str(packed), str(path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["confusion"] == [[1, 0, 0], [0, 1, 1], [0, 0, 1]]
    assert [c["recall"] for c in result["classes"]] == [1.0, 0.5, 1.0]
    assert main(["eval", str(packed), str(path)]) == 0
    assert "    1          2   50.00 %   100.00 %  .  1  1" in capsys.readouterr().out


@pytest.mark.parametrize("dtype", (np.int64, np.float32, np.uint8, np.bool_))
def test_one_hot_rows_are_classes(packed: Path, tmp_path: Path, dtype: type) -> None:
    """One-hot rows, as of tf.keras.utils.to_categorical and pandas.get_dummies, are classes."""
    found = evaluation.load(data(tmp_path, np.eye(CLASSES, dtype=dtype)[[0, 1, 2, 1]]))
    assert found.y.tolist() == [0, 1, 2, 1] and found.classes == CLASSES
    assert main(["eval", str(packed), str(tmp_path / "data.npz")]) == 0


REFUSED: list[tuple[str, Callable[[], Any], str]] = [
    (
        "strings",
        lambda: ["cat", "dog", "dog", "cat"],
        "'y' holds 'cat', which is no class of the model; expected numbers of classes, from 0 on, or labels",
    ),
    (
        "floats",
        lambda: [0.0, 1.0, 2.0, 1.0],
        "'y' holds floats (float64); expected for each sample one name or number of a class",
    ),
    (
        "counted from 1",
        lambda: [1, 2, 3, 3],
        "labels from 1 to 3; the model has the classes 0 to 2; they seem to count",
    ),
    ("too many classes", lambda: [0, 9, 1, 1], "labels from 0 to 9; the model has the classes 0 to 2"),
    ("negative", lambda: [-1, 1, 1, -1], "'y' holds '-1', which is no class of the model"),
    ("probabilities", lambda: np.full((4, 3), 1 / 3), "shape [4, 3] and is not one-hot"),
    ("two ones in a row", lambda: [[1, 1, 0]] * 4, "shape [4, 3] and is not one-hot"),
    ("one-hot of other classes", lambda: np.eye(4, dtype=int), "one-hot rows of 4; the model has 3 classes"),
]


@pytest.mark.parametrize(("y", "said"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_labels_that_are_none(
    y: Callable[[], Any], said: str, packed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", str(packed), str(data(tmp_path, y()))]) == 1
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1


def test_a_model_that_gives_the_class_knows_how_many_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model's output is one number; the input of its ArgMax has the number of classes."""
    net = Net()
    scores = net.add("MatMul", net.input([1, CLASSES]), net.const(np.eye(CLASSES, dtype=np.float32)))
    net.output(net.add("ArgMax", scores, axis=1, keepdims=0))
    compiled = compile_file(net.save(tmp_path), {"x": np.eye(CLASSES, dtype=np.float32)[:, None]})
    (tmp_path / "m.mica").write_bytes(compiled.data)
    words = ["eval", str(tmp_path / "m.mica")]
    assert main([*words, str(data(tmp_path, [0, 1, 2, 1]))]) == 0
    capsys.readouterr()
    assert main([*words, str(data(tmp_path, [1, 2, 3, 3]))]) == 1
    assert "the model has the classes 0 to 2; they seem to count from 1" in capsys.readouterr().err
