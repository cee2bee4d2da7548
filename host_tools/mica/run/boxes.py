"""From a detector's quantised outputs to boxes: by the code of `mica.boxes` on a board, so the same boxes.

    outputs = runner.run([inputs])[0]
    for box in yolo8(runner.model, outputs): ...

`most` limits the number of boxes, the best first; `i` is which array the boxes are in. All raise MicaError.
"""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from mica import board_code
from mica.errors import MicaError
from mica.file.codec import ModelFile
from mica.format import output_groups

Array = np.ndarray


class Box(NamedTuple):
    """label: a name where the file has as many as there are classes, else a number. x, y: left upper corner, in pixels
    or in whatever the output has.
    """

    label: str | int
    score: float
    x: float
    y: float
    width: float
    height: float


_boxes = board_code.load("boxes", Box=Box)


def _decoded(kind: str, model: ModelFile, outputs: Sequence[Array], *settings: Any) -> list[Box]:
    """Let the board's function decode all int8 outputs of a run, as the attributes that it reads of a board's model."""
    tensors = [
        SimpleNamespace(
            name=t.name,
            dtype="b" if t.dtype == "int8" else t.dtype,
            shape=tuple(t.dims),
            scale=float(t.scale),
            zero_point=int(t.zero_point),
        )
        for t in model.tensors
    ]
    text = model.metadata.get("labels", "")
    board = SimpleNamespace(
        _m=SimpleNamespace(outputs=model.outputs, tensor=tensors.__getitem__),
        _groups=output_groups.read(model) if output_groups.KEY in model.metadata else None,
        labels=text.split("\n") if text else [],
        output=lambda k: np.asarray(outputs[k]).reshape(-1).tolist(),
    )
    try:
        found: list[Box] = getattr(_boxes, kind)(board, *settings)
    except ValueError as e:
        raise MicaError(str(e)) from None
    return found


def yolo8(
    model: ModelFile,
    outputs: Sequence[Array],
    threshold: float = 0.25,
    overlap: float = 0.45,
    most: int = 100,
    i: int = 0,
) -> list[Box]:
    """Return the boxes of an array [1, 4 + classes, boxes], as Ultralytics exports YOLOv8 and YOLO11.

    They are middle, size and a score for each class. overlap: of boxes of a class, above which the weaker one goes.
    """
    return _decoded("yolo8", model, outputs, threshold, overlap, most, i)


def yolo5(
    model: ModelFile,
    outputs: Sequence[Array],
    threshold: float = 0.25,
    overlap: float = 0.45,
    most: int = 100,
    i: int = 0,
) -> list[Box]:
    """Return the boxes of an array [1, boxes, 5 + classes], as YOLOv5 has it.

    They are middle, size, how sure of an object, and a score for each class. A box's score is the product of both.
    """
    return _decoded("yolo5", model, outputs, threshold, overlap, most, i)


def fomo(
    model: ModelFile, outputs: Sequence[Array], threshold: float = 0.5, cell: int = 8, most: int = 100, i: int = 0
) -> list[Box]:
    """Return objects on a grid [1, rows, columns, 1 + classes], of which class 0 is nothing, as FOMO has it.

    Cells of a class that touch, corners included, are one object: its box is around them, its score their best.
    cell: pixels of a cell. Labels are those of the classes without the first, or of all.
    """
    return _decoded("fomo", model, outputs, threshold, cell, most, i)
