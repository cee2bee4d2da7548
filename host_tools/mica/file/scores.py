"""The output that holds scores: a number for each class, the largest for the class that is the answer.

The metadata `scores` is its place among the arrays that predict() returns, or -1 where none is. In files without it the
first output that is no int32: an int32 is the number of a class, as a label or an ArgMax gives it.
firmware/mica/model.py reads it likewise.
"""

import math
from collections.abc import Sequence

from mica.errors import MicaError
from mica.file.codec import ModelFile
from mica.format import output_groups

KEY = "scores"
NONE = -1
_LOGITS = (-1.0, 2.0)  # a single number that can lie beyond is no probability


def place(model: ModelFile) -> int:
    """Number of the output that holds scores, or NONE. Raises MicaError."""
    found = output_groups.read(model)
    if KEY not in model.metadata:
        return usual([_dtype(model, group) for group in found])
    text = model.metadata[KEY]
    if text != str(NONE) and not (text.isdecimal() and int(text) < len(found)):
        raise MicaError(f"metadata scores: '{text}' is no output", todo="pack the model again")
    return int(text)


def usual(dtypes: Sequence[str]) -> int:
    """Number of the output with the scores in a file without the metadata, by the dtypes of its outputs."""
    return next((k for k, dtype in enumerate(dtypes) if dtype != "int32"), NONE)


def required(model: ModelFile) -> int:
    """Return what place() does. Raises MicaError where no output holds scores."""
    if (found := place(model)) == NONE:
        names = ", ".join(f"'{group.name}'" for group in output_groups.read(model))
        raise MicaError(
            f"no output of the model holds scores of its classes; it has {names}",
            todo="export it with its probabilities, one for each class",
        )
    return found


def answer(model: ModelFile) -> int:
    """Number of the output that gives the class: an output with the class's number, else scores. Raises MicaError."""
    found = output_groups.read(model)
    numbers = [k for k, group in enumerate(found) if is_class(_dtype(model, group), group.shape)]
    return numbers[0] if numbers else max(place(model), 0)


def is_class(dtype: str, shape: Sequence[int]) -> bool:
    """True if an output is the number of a class."""
    return dtype == "int32" and math.prod(shape) == 1


def labels(model: ModelFile) -> list[str]:
    """Names of the classes; empty if the file has none."""
    return model.metadata["labels"].split("\n") if "labels" in model.metadata else []


def names(model: ModelFile, values: int) -> list[str]:
    """The names of so many scores: labels, else numbers. Of two classes a single score is the second's."""
    found = labels(model)
    if len(found) == values:
        return found
    return found[1:] if (values, len(found)) == (1, 2) else [str(k) for k in range(values)]


def threshold(model: ModelFile, at: int) -> float | None:
    """Threshold above which a single score means the second class: 0 for logits and margins; None for others."""
    t = model.tensors[model.outputs[output_groups.read(model)[at].first]]
    low, high = (t.scale * (q - t.zero_point) for q in (-128, 127))
    return 0.0 if t.dtype == "int8" and (low < _LOGITS[0] or high > _LOGITS[1]) else None


def _dtype(model: ModelFile, group: output_groups.OutputGroup) -> str:
    return model.tensors[model.outputs[group.first]].dtype
