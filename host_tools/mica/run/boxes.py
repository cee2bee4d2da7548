"""From a detector's quantised outputs to boxes: the same integers as `mica.boxes` on a board, so the same boxes.

    outputs = runner.run([inputs])[0]
    for box in yolo8(runner.model, outputs): ...

Scores count in units of 2**-15, overlaps in 1/1024, and places in a power of two: a step of the output is 8 to 16 of it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mica.errors import MicaError
from mica.file.codec import ModelFile
from mica.format import output_groups

Array = np.ndarray


@dataclass(frozen=True)
class Box:
    """label: a name where the file has as many as there are classes, else a number. x, y: left upper corner, in pixels or in whatever the output has."""

    label: str | int
    score: float
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class _Found:
    """Integers: score, place among the candidates, class, and twice its four sides."""

    score: int
    place: int
    group: int
    left: int
    top: int
    right: int
    bottom: int

    @property
    def area(self) -> int:
        return (self.right - self.left) * (self.bottom - self.top)


def _scores(q: Array, scale: float, zero: int) -> Array:
    return ((q.astype(np.int64) - zero) * int(scale * (1 << 24))) >> 9


def _unit(columns: Sequence[tuple[Array, float, int]]) -> float:
    """A power of two: 1/8 to 1/16 of the largest scale."""
    _, exponent = math.frexp(max(scale for _, scale, _ in columns[:4]))
    return math.ldexp(1.0, exponent - 4)


def _places(q: Array, scale: float, zero: int, unit: float) -> Array:
    return ((q.astype(np.int64) - zero) * int(scale / unit * (1 << 16)) + (1 << 15)) >> 16


def _parts(model: ModelFile, outputs: Sequence[Array], i: int, first: bool) -> list[tuple[Array, float, int]]:
    """One by one the numbers of all candidates, int8 [boxes], with their scale and zero point."""
    group = output_groups.read(model)[i]
    columns = []
    for k in range(group.first, group.first + group.parts):
        t = model.tensors[model.outputs[k]]
        if t.dtype != "int8" or len(t.dims) != 3 or t.dims[0] != 1:
            raise MicaError(
                f"output {t.name} is {t.dtype} {list(t.dims)}",
                todo="expected int8 [1, numbers, boxes] or [1, boxes, numbers]",
            )
        y = np.asarray(outputs[k]).reshape(t.dims[1:])
        columns += [(v, float(t.scale), t.zero_point) for v in (y if first else y.T)]
    if len({len(v) for v, _, _ in columns}) > 1:
        raise MicaError(f"output {group.name}: its parts have other boxes", todo="say whether it is yolo8 or yolo5")
    return columns


def _candidates(columns: Sequence[tuple[Array, float, int]], scores: Array, threshold: int) -> list[_Found]:
    """scores int64 [classes, boxes]."""
    unit = _unit(columns)
    x, y, w, h = (_places(*c, unit) for c in columns[:4])
    sides = np.stack([2 * x - w, 2 * y - h, 2 * x + w, 2 * y + h], axis=-1)
    return [_Found(int(scores[c, k]), int(k), int(c), *map(int, sides[k])) for c, k in np.argwhere(scores >= threshold)]


def _overlap(a: _Found, b: _Found, limit: int) -> bool:
    w, h = min(a.right, b.right) - max(a.left, b.left), min(a.bottom, b.bottom) - max(a.top, b.top)
    return w > 0 and h > 0 and w * h * 1024 > limit * (a.area + b.area - w * h)


def _suppress(found: Sequence[_Found], limit: int, most: int) -> list[_Found]:
    kept: list[_Found] = []
    for a in sorted(found, key=lambda f: (-f.score, f.place, f.group)):
        if len(kept) == most:
            break
        if not any(a.group == b.group and _overlap(a, b, limit) for b in kept):
            kept.append(a)
    return kept


def _named(found: Sequence[_Found], names: Sequence[str | int], unit: float) -> list[Box]:
    unit /= 2
    return [
        Box(
            names[f.group],
            f.score / 32768,
            f.left * unit,
            f.top * unit,
            (f.right - f.left) * unit,
            (f.bottom - f.top) * unit,
        )
        for f in found
    ]


def _labels(model: ModelFile) -> list[str]:
    text = model.metadata.get("labels", "")
    return text.split("\n") if text else []


def _limits(threshold: float, overlap: float) -> tuple[int, int]:
    if not 0 < threshold <= 1 or not 0 <= overlap <= 1:
        raise MicaError(
            f"threshold {threshold:g}, overlap {overlap:g}",
            todo="expected a threshold of more than 0 and at most 1, an overlap from 0 to 1",
        )
    return int(threshold * 32768), int(overlap * 1024)


def yolo8(
    model: ModelFile,
    outputs: Sequence[Array],
    threshold: float = 0.25,
    overlap: float = 0.45,
    most: int = 100,
    i: int = 0,
) -> list[Box]:
    """Boxes of an array [1, 4 + classes, boxes]: middle, size and a score for each class, as Ultralytics exports YOLOv8 and YOLO11.

    outputs: all int8 outputs of a run. i: which array. overlap: of boxes of the same class, above which the weaker one goes. most: boxes at
    most, the best first. Raises MicaError.
    """
    score, limit = _limits(threshold, overlap)
    columns = _parts(model, outputs, i, True)
    if len(columns) < 5:
        raise MicaError(f"a box has {len(columns)} numbers", todo="expected 4 and a score for each class")
    scores = np.stack([_scores(*c) for c in columns[4:]])
    names = _labels(model) if len(_labels(model)) == len(scores) else range(len(scores))
    return _named(_suppress(_candidates(columns, scores, score), limit, most), names, _unit(columns))


def yolo5(
    model: ModelFile,
    outputs: Sequence[Array],
    threshold: float = 0.25,
    overlap: float = 0.45,
    most: int = 100,
    i: int = 0,
) -> list[Box]:
    """Boxes of an array [1, boxes, 5 + classes]: middle, size, how sure of an object, and a score for each class, as YOLOv5 has it.

    A box's score is the product of both. Otherwise as yolo8().
    """
    score, limit = _limits(threshold, overlap)
    columns = _parts(model, outputs, i, False)
    if len(columns) < 6:
        raise MicaError(f"a box has {len(columns)} numbers", todo="expected 5 and a score for each class")
    sure = _scores(*columns[4])
    scores = np.where(sure >= score, np.stack([sure * _scores(*c) >> 15 for c in columns[5:]]), -1)
    names = _labels(model) if len(_labels(model)) == len(scores) else range(len(scores))
    return _named(_suppress(_candidates(columns, scores, score), limit, most), names, _unit(columns))


def fomo(
    model: ModelFile, outputs: Sequence[Array], threshold: float = 0.5, cell: int = 8, most: int = 100, i: int = 0
) -> list[Box]:
    """Objects on a grid [1, rows, columns, 1 + classes], of which class 0 is nothing, as Edge Impulse's FOMO has it.

    Cells of a class that touch, corners included, are one object: its box is around them, its score their best. cell: pixels of a cell.
    Labels are those of the classes without the first; or all of them, the first being that of nothing. Raises MicaError.
    """
    least, _ = _limits(threshold, 0)
    t = model.tensors[model.outputs[i]]
    if output_groups.KEY in model.metadata or t.dtype != "int8" or len(t.dims) != 4 or t.dims[0] != 1 or t.dims[3] < 2:
        raise MicaError(
            f"output {t.name} is {t.dtype} {list(t.dims)}", todo="expected int8 [1, rows, columns, 1 + classes]"
        )
    scores = _scores(np.asarray(outputs[i]).reshape(t.dims[1:]), float(t.scale), t.zero_point)
    found = []
    for c in range(1, t.dims[3]):
        left = {(int(y), int(x)) for y, x in np.argwhere(scores[:, :, c] >= least)}
        while left:
            start = min(left)
            group, todo = {start}, [start]
            while todo:
                y, x = todo.pop()
                near = {(v, u) for v in range(y - 1, y + 2) for u in range(x - 1, x + 2)} & left - group
                group |= near
                todo += near
            left -= group
            rows, columns = zip(*group, strict=True)
            sides = [2 * cell * v for v in (min(columns), min(rows), max(columns) + 1, max(rows) + 1)]
            best = max(int(scores[y, x, c]) for y, x in group)
            found.append(_Found(best, start[0] * t.dims[2] + start[1], c, *sides))
    found.sort(key=lambda f: (-f.score, f.place, f.group))
    labels, n = _labels(model), t.dims[3]
    names = labels if len(labels) == n else ["", *(labels if len(labels) == n - 1 else range(1, n))]
    return _named(found[:most], names, 1.0)
