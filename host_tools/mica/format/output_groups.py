"""Output groups: several outputs that are parts of one array of real numbers, each part with a scale of its own.

The metadata `joins` has a line for each array that predict() returns, in order: the number of outputs that are its
parts, the axis along which they lie one behind the other, and its name. The feature bit `JOINS` says that the metadata
is there: a reader that does not know it would take the parts for answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mica.errors import MicaError
from mica.format.values import Quantised, dequantise_output

KEY = "joins"


class Outputs(Protocol):
    """The fields of a model file that are read here."""

    outputs: list[int]
    metadata: dict[str, str]

    @property
    def tensors(self) -> Sequence[Part]: ...


class Part(Quantised, Protocol):
    name: str


@dataclass(frozen=True)
class OutputGroup:
    """One array: `parts` outputs, from output `first` on, one behind the other along `axis`. shape: of the whole."""

    name: str
    first: int
    parts: int
    axis: int
    shape: tuple[int, ...]


def text(groups: Sequence[tuple[int, int, str]]) -> str:
    """The metadata for arrays of so many parts, along an axis, with a name."""
    return "\n".join(f"{parts} {axis} {name}" for parts, axis, name in groups)


def read(model: Outputs) -> list[OutputGroup]:
    """The arrays of a model, in order; without the metadata each output is one. Raises MicaError."""
    tensors = [model.tensors[t] for t in model.outputs]
    if KEY not in model.metadata:
        return [OutputGroup(t.name, i, 1, 0, tuple(t.dims)) for i, t in enumerate(tensors)]
    groups: list[OutputGroup] = []
    at = 0
    for line in model.metadata[KEY].split("\n"):
        words = line.split(" ", 2)
        numbers = len(words) == 3 and words[0].isdecimal() and words[1].isdecimal()
        if not numbers or not 1 <= int(words[0]) <= len(tensors) - at:
            raise _wrong(f"'{line}' is no number of parts, axis and name")
        n, axis = int(words[0]), int(words[1])
        groups.append(OutputGroup(words[2], at, n, axis, _shape(tensors[at : at + n], axis)))
        at += n
    if at != len(tensors):
        raise _wrong(f"{at} parts of {len(tensors)} outputs")
    return groups


def _wrong(found: str) -> MicaError:
    return MicaError(f"metadata '{KEY}': {found}", todo="pack the model again")


def _shape(parts: Sequence[Part], axis: int) -> tuple[int, ...]:
    dims = [tuple(t.dims) for t in parts]
    if len(parts) == 1:
        return dims[0]
    alike = {(len(d), d[:axis], d[axis + 1 :]) for d in dims}
    if len(alike) != 1 or axis >= len(dims[0]):
        raise _wrong(f"parts of shapes {dims} do not join along axis {axis}")
    return (*dims[0][:axis], sum(d[axis] for d in dims), *dims[0][axis + 1 :])


def joined(model: Outputs, group: OutputGroup, outputs: Sequence[np.ndarray]) -> np.ndarray:
    """The array as real numbers; outputs: integers of all outputs of the file, of any shapes."""
    tensors = [model.tensors[t] for t in model.outputs[group.first : group.first + group.parts]]
    found = outputs[group.first : group.first + group.parts]
    real = [dequantise_output(q, t).reshape(t.dims) for q, t in zip(found, tensors, strict=True)]
    return real[0] if group.parts == 1 else np.concatenate(real, axis=group.axis)


def size(group: OutputGroup) -> int:
    """Number of elements of an array."""
    return math.prod(group.shape)
