"""Labelled data and the figures it gives: accuracy, AUC of a reconstruction error, mean squared error.

A data file (.npz) holds `x`, `y`, and optionally `scale` and `offset` (float input = x * scale + offset). With `window`
and `stride` each entry of x is a series; it is cut into windows of that many values of the flattened series. `metric`
is one of

    top1  share of samples whose class is y; the default. y: class numbers from 0 on, one-hot rows,
          or the model's own labels: their names (text), or the numbers that the classes had in training
    auc   area under the ROC curve of the mean squared reconstruction error of a series, y = 1 for anomalies
    mse   mean squared difference between output and y
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from mica.data import sounds, tables
from mica.data.calibration import decode, fit, read_arrays
from mica.errors import MicaError
from mica.file import scores
from mica.file.codec import ModelFile
from mica.file.tokens import arrays
from mica.format import output_groups
from mica.kernels import wide
from mica.printable import some
from mica.run.given import odd

METRICS = ("top1", "auc", "mse")
Predict = Callable[[np.ndarray], np.ndarray]  # float32 [n, 1, ...input] -> float32 [n, ...output]
BATCH = 64
MOST_OF_SERIES = 1 << 25  # values of the windows of one series, which are copies
MOST_WINDOWS = 1 << 20  # of all
MISSING = "missing"  # metadata of a model that has learnt missing values
COLUMNS = "columns"  # and of one that was packed with a table


@dataclass(frozen=True)
class Dataset:
    """x: float32 samples [n, ...] or series; y: labels or targets [n].
    classes: length of one-hot rows that y was, else 0.

    Labels are numbers of classes, or what the model calls these; numbered: they are certainly the former.
    """

    x: np.ndarray
    y: np.ndarray
    metric: str
    window: int = 0
    stride: int = 0
    classes: int = 0
    numbered: bool = False

    def __len__(self) -> int:
        return len(self.x)

    def first(self, n: int | None) -> Dataset:
        """The first n samples; all of them where n is None."""
        return self if n is None else replace(self, x=self.x[:n], y=self.y[:n])

    def inputs(self, shape: tuple[int, ...], name: str = "input") -> Iterator[np.ndarray]:
        """For each sample, the model inputs it becomes: [1 or number of windows, *shape]."""
        if not self.window:
            yield from fit(name, self.x, shape)[:, None]
            return
        if int(np.prod(shape)) != self.window:
            raise MicaError(f"input '{name}' takes {int(np.prod(shape))} values; the data's windows have {self.window}")
        windows = max(0, self.x[0].size - self.window) // self.stride + 1
        if windows * self.window > MOST_OF_SERIES or len(self.x) * windows > MOST_WINDOWS:
            raise MicaError(
                f"{len(self.x):,} series of {windows:,} windows of {self.window:,} values",
                todo=f"expected at most {MOST_WINDOWS:,} windows, a larger stride",
            )
        for series in self.x:
            cut = np.lib.stride_tricks.sliding_window_view(series.reshape(-1), self.window)[:: self.stride]
            yield np.ascontiguousarray(cut).reshape(-1, *shape)


@dataclass(frozen=True)
class Score:
    """value: of the metric; decisions: one number a sample (class, error), for comparing two systems; classes: numbers
    that an output has, 1 where the class itself is the output."""

    metric: str
    value: float
    decisions: np.ndarray
    inferences: int
    classes: int = 0


def table_inputs(model: ModelFile) -> tables.Inputs:
    """Inputs of a packed model, for reading a table."""
    shapes = {model.tensors[t].name: model.tensors[t].dims for t in model.inputs}
    t = model.tokens
    texts = partial(arrays, t, shapes) if t is not None and t.has("CLASSES") else None
    columns = model.metadata.get(COLUMNS, "").split("\n")
    return tables.Inputs(shapes, MISSING in model.metadata, texts, columns if columns != [""] else [])


def load(path: str | Path, inputs: tables.Inputs | None = None) -> Dataset:
    """Reads a data file. inputs: of the model, for tables. Raises MicaError where it lacks something."""
    arrays = read_arrays(path, inputs)
    x = decode(arrays, str(path))
    if "y" not in arrays:
        raise MicaError(f"{path}: has no array 'y' with the labels (it holds: {some(arrays)})")
    y = arrays["y"]
    if len(x) == 0:
        raise MicaError(f"{path}: holds no samples")
    if y.ndim == 0 or len(y) != len(x):
        raise MicaError(f"{path}: {len(x)} samples in 'x' but {y.size} labels in 'y'")
    if odd(x, inputs is not None and inputs.missing):
        raise MicaError(f"{path}: 'x' holds NaN or infinity")
    metric = str(arrays["metric"]) if "metric" in arrays else "top1"
    if metric not in METRICS:
        raise MicaError(f"{path}: metric '{metric}' is not known", todo=f"expected one of {', '.join(METRICS)}")
    if ("window" in arrays) != ("stride" in arrays):
        raise MicaError(f"{path}: 'window' and 'stride' go together")
    window, stride = _whole(path, arrays, "window"), _whole(path, arrays, "stride")
    if "window" in arrays and not 0 < window <= x[0].size:
        raise MicaError(f"{path}: windows of {window} values, in series of {x[0].size}")
    if "stride" in arrays and stride < 1:
        raise MicaError(f"{path}: stride {stride}", todo="expected 1 or more")
    if metric == "auc" and set(np.unique(y).tolist()) != {0, 1}:
        raise MicaError(f"{path}: metric auc needs both labels 0 and 1")
    classes = 0
    if metric == "top1":
        y, classes = _class_numbers(y, str(path))
    elif y.dtype.kind not in "fiub":
        raise MicaError(f"{path}: 'y' has type {y.dtype}; metric {metric} wants numbers")
    return Dataset(x, y, metric, window, stride, classes)


def _whole(path: str | Path, arrays: Mapping[str, np.ndarray], name: str) -> int:
    """Return the whole number of this name, 0 if there is none. Raises MicaError."""
    a = np.asarray(arrays.get(name, 0))
    if a.size != 1 or a.dtype.kind not in "iu":
        raise MicaError(f"{path}: '{name}' is {a.dtype} {list(a.shape)}", todo="expected one whole number")
    return int(a.reshape(-1)[0])


def _class_numbers(y: np.ndarray, where: str) -> tuple[np.ndarray, int]:
    """Labels of metric top1, whole numbers or text [n], and the length of one-hot rows, 0 where they were no such rows.

    Raises MicaError where they are something else.
    """
    expected = "expected for each sample one name or number of a class, or one-hot rows"
    rows = y.reshape(len(y), -1)
    if y.dtype.kind in "US" and rows.shape[1] == 1:
        try:
            return rows[:, 0].astype(str) if y.dtype.kind == "U" else np.char.decode(rows[:, 0], "utf-8"), 0
        except UnicodeDecodeError:
            raise MicaError(f"{where}: 'y' holds bytes that are no UTF-8", todo="save text: y.astype(str)") from None
    if y.dtype.kind not in "fiub":
        raise MicaError(f"{where}: 'y' has type {y.dtype} and shape {list(y.shape)}", todo=expected)
    if rows.shape[1] > 1:
        if y.ndim != 2 or not (np.all((y == 0) | (y == 1)) and np.all(y.sum(axis=1) == 1)):
            raise MicaError(f"{where}: 'y' has shape {list(y.shape)} and is not one-hot", todo=expected)
        return np.argmax(rows, axis=1), rows.shape[1]
    if y.dtype.kind == "f":
        raise MicaError(
            f"{where}: 'y' holds floats ({y.dtype})", todo=f"{expected}: y.astype(int), or metric mse for targets"
        )
    return rows[:, 0].astype(np.int64), 0


def numbered(data: Dataset, labels: Sequence[str]) -> Dataset:
    """The data with numbers of classes. Labels are what `labels` calls the classes where all of them stand there.
    Raises MicaError."""
    if data.metric != "top1" or data.numbered or data.classes:
        return data
    place = {label: k for k, label in enumerate(labels)}
    stranger = next((v for v in data.y.tolist() if str(v) not in place), None)
    if stranger is None:
        return replace(data, y=np.array([place[str(v)] for v in data.y.tolist()], np.int64), numbered=True)
    if data.y.dtype.kind == "U" or data.y.min() < 0:
        known = f"its labels are {', '.join(labels)}" if labels else "it has no labels (mica pack --labels FILE)"
        shown = stranger if data.y.dtype.kind == "U" else data.y.min()
        raise MicaError(
            f"'y' holds '{shown}', which is no class of the model",
            todo=f"expected numbers of classes, from 0 on, or labels of the model; {known}",
        )
    return replace(data, numbered=True)


def _check_classes(data: Dataset, classes: int) -> None:
    """Raises MicaError where the labels are not those of a model with so many classes."""
    if data.classes and data.classes != classes:
        raise MicaError(f"'y' has one-hot rows of {data.classes}; the model has {classes} classes")
    low, high = int(data.y.min()), int(data.y.max())
    if high >= classes:
        hint = "they seem to count from 1: give y - 1" if low == 1 and high == classes else ""
        raise MicaError(f"'y' has labels from {low} to {high}; the model has the classes 0 to {classes - 1}", todo=hint)


def for_model(data: Dataset, model: ModelFile) -> Dataset:
    """The data with sound as real numbers, and labels that are numbers of the model's classes.
    Raises MicaError where they are others."""
    data = numbered(data, scores.labels(model))
    given = model.tensors[model.inputs[0]]
    if given.dtype == "int16" and not any(s.kernel in wide.NAMES for s in model.steps):
        data = replace(data, x=sounds.as_reals(data.x, given.scale))
    if data.metric == "top1" and (classes := class_count(model)) > 1:
        _check_classes(data, classes)
    return data


def class_count(model: ModelFile) -> int:
    """Numbers that the answer can be; 0 where the model does not say."""
    group = output_groups.read(model)[scores.answer(model)]
    y = model.tensors[model.outputs[group.first]]
    if not scores.is_class(y.dtype, group.shape):
        return output_groups.size(group) if output_groups.size(group) > 1 else 2
    made = [s for s in model.steps if (t := model.tensors[s.outputs[0]]).space == y.space and t.offset == y.offset]
    if made and made[-1].kernel == "argmax_s8":  # a reshape is another tensor in its place
        last = made[-1]
        return model.tensors[last.inputs[0]].dims[last.params["axis"]]
    return len(scores.labels(model))


def decision(model: ModelFile, data: Dataset) -> tuple[int, float | None]:
    """The place of the output that data is compared with, and the threshold where that is a single score."""
    if data.metric != "top1":
        return 0, None
    place = scores.answer(model)
    return place, scores.threshold(model, place)


def evaluate(
    data: Dataset,
    shape: tuple[int, ...],
    predict: Predict,
    progress: Callable[[int, int], None] | None = None,
    threshold: float | None = None,
) -> Score:
    """Runs `predict` over all samples of a model with input `shape` and scores its outputs. threshold: from which a
    single number says class 1; None where such a number is the class itself, or a probability."""
    decisions: list[float] = []
    inferences = classes = 0
    pending: list[np.ndarray] = []

    def flush() -> None:
        nonlocal inferences, classes
        if not pending:
            return
        outputs = predict(np.concatenate(pending))
        inferences += len(outputs)
        classes = outputs[0].size
        if data.metric == "top1" and classes > 1:
            _check_classes(data, classes)
        at = 0
        for inputs in pending:
            y = outputs[at : at + len(inputs)].reshape(len(inputs), -1)
            k = len(decisions)
            decisions.append(_decide(data, k, inputs.reshape(len(inputs), -1), y, threshold))
            at += len(inputs)
        pending.clear()
        if progress is not None:
            progress(len(decisions), len(data))

    for inputs in data.inputs(shape):
        pending.append(inputs)
        if sum(len(p) for p in pending) >= BATCH:
            flush()
    flush()
    found = np.array(decisions)
    return Score(data.metric, _value(data, found), found, inferences, classes)


def _decide(data: Dataset, k: int, x: np.ndarray, y: np.ndarray, threshold: float | None) -> float:
    if data.metric == "top1" and y.shape[-1] > 1:
        return float(np.argmax(y[0]))
    if data.metric == "top1":
        return float(np.rint(y[0, 0]) if threshold is None else y[0, 0] > threshold)
    target = x if data.metric == "auc" else np.asarray(data.y[k], np.float64).reshape(1, -1)
    if target.shape[-1] != y.shape[-1]:
        raise MicaError(f"metric {data.metric}: the model gives {y.shape[-1]} values, the data has {target.shape[-1]}")
    return float(np.mean((target.astype(np.float64) - y) ** 2))


def _value(data: Dataset, decisions: np.ndarray) -> float:
    if data.metric == "top1":
        return float(np.mean(decisions == data.y.reshape(len(data), -1)[:, 0]))
    if data.metric == "auc":
        return auc(decisions, data.y)
    return float(np.mean(decisions))


def auc(scores: np.ndarray, labels: np.ndarray) -> float:
    """Probability that a positive scores higher than a negative, ties counting half (Mann and Whitney's U)."""
    positive, negative = scores[labels == 1], np.sort(scores[labels == 0])
    if not len(positive) or not len(negative):
        raise MicaError("metric auc: all samples have the same label", todo="take more of them")
    below = np.searchsorted(negative, positive, "left")
    not_above = np.searchsorted(negative, positive, "right")
    return float(np.mean((below + not_above) / 2.0) / len(negative))


def agreement(a: Score, b: Score) -> float | None:
    """Share of samples on which two systems decide alike; only top1 has one."""
    return float(np.mean(a.decisions == b.decisions)) if a.metric == "top1" else None
