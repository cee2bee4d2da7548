"""Ranges of the real values of each activation: runs the float graph over the calibration samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np

from mica.errors import MicaError
from mica.ir.exact_inputs import exact_inputs
from mica.ir.graph import Graph
from mica.quantise.histogram import Histogram, Range
from mica.quantise.methods import METHODS
from mica.reference import batch

ROOM = 2 << 20  # bytes of activations that are kept rather than made again
SMALL = 1024  # elements of an output that is kept in any case
Samples = Sequence[dict[str, np.ndarray]]  # input name -> float32 array of the input's shape
Batch = dict[str, np.ndarray]  # activation -> float32 array [n, *shape] of n samples
Progress = Callable[[int, int], None]  # (done, of)

__all__ = ["Batch", "Histogram", "Progress", "Range", "Runs", "Samples", "calibrate", "observe"]


def calibrate(g: Graph, samples: Samples, progress: Progress | None = None, method: str = "minmax") -> dict[str, Range]:
    """Range of every activation of a core graph by one of `methods.METHODS`.

    Raises MicaError where a sample holds NaN or infinity, or makes the network produce one.
    """
    return {name: METHODS[method](h) for name, h in observe(g, samples, progress).items()}


def observe(
    g: Graph,
    samples: Samples,
    progress: Progress | None = None,
    channels: dict[str, np.ndarray] | None = None,
    numbers: Sequence[int] | None = None,
    kept: Runs | None = None,
) -> dict[str, Histogram]:
    """Histogram of every activation; also the largest |value| of each channel (last axis) of those in `channels`.

    numbers: by which a person knows the samples, where they are a selection. kept: runs of g, which it adds to.
    Memory: 64 KB an activation, and those of one sample that are still to be read.
    """
    seen: dict[str, Histogram] = {}
    done = 0
    for part, values in (Runs(g, room=0) if kept is None else kept).streams(samples, numbers):
        for name, array in values:
            seen.setdefault(name, Histogram()).add(array)
            if channels is not None and name in channels:
                rows = array.reshape(-1, array.shape[-1])
                largest = np.maximum(rows.max(axis=0), -rows.min(axis=0)).astype(np.float64)
                channels[name] = np.maximum(channels[name], largest)
        if progress is not None:
            for k in range(len(part)):
                progress(done + k + 1, len(samples))
        done += len(part)
    return seen


class Runs:
    """Float runs of one graph over samples, several in one go.
    Results are kept while there is capacity, small outputs always.

    Raises MicaError where an activation is not finite.
    """

    def __init__(self, g: Graph, room: int = ROOM, again: Samples | None = None) -> None:
        """again: those of the samples that will be asked for again, None for all. room: bytes, 0 keeps nothing."""
        self.g, self.room, self.size = g, room, batch.size(g)
        self.names = [*g.inputs, *(name for node in g.nodes for name in node.outputs)]
        ends = [node for node in g.nodes if any(name in g.outputs for name in node.outputs)]
        near = {name for node in ends for name in (*node.inputs, *node.outputs)}
        self._small = {name for name in self.names if name in near and math.prod(g.value(name).shape) <= SMALL}
        self._again = None if again is None else {id(sample) for sample in again}
        self._kept: dict[
            int, tuple[Mapping[str, np.ndarray], dict[str, np.ndarray]]
        ] = {}  # id -> (sample, activations)

    def __call__(self, samples: Samples, only: Collection[str] | None = None) -> Iterator[tuple[Samples, Batch]]:
        """(some samples, their activations), until all samples had their turn. only: names of those that are needed."""
        for part, values in self.streams(samples, None, only):
            yield part, dict(values)

    def streams(
        self, samples: Samples, numbers: Sequence[int] | None = None, only: Collection[str] | None = None
    ) -> Iterator[tuple[Samples, Iterator[tuple[str, np.ndarray]]]]:
        """Likewise with one activation after the other. numbers: by which a person knows the samples."""
        for k in range(0, len(samples), self.size):
            part = samples[k : k + self.size]
            known = range(k, k + len(part)) if numbers is None else numbers[k : k + len(part)]
            yield part, self._stream(part, known, only)

    def _stream(
        self, part: Samples, numbers: Sequence[int], only: Collection[str] | None
    ) -> Iterator[tuple[str, np.ndarray]]:
        found = [self._kept[id(sample)][1] for sample in part if id(sample) in self._kept]
        needed = self.names if only is None else [name for name in self.names if name in only]
        if len(found) == len(part) and all(name in values for values in found for name in needed):
            for name in needed:
                yield name, batch.together([values[name] for values in found])
            return
        made: dict[str, np.ndarray] = {}
        keep = [k for k, sample in enumerate(part) if self.room and (self._again is None or id(sample) in self._again)]
        room, left = self.room if keep else 0, len(needed)
        for name, array in _finite(self.g, part, numbers):
            room -= array.nbytes
            if room > 0 or (keep and name in self._small):
                made[name] = array
            else:
                made = {other: values for other, values in made.items() if other in self._small}
            if only is None or name in only:
                left -= 1
                yield name, array
            if left == 0 and room <= 0:
                break
        if room > 0:
            self.room = room
        for k in keep:
            values = {name: array[k] if len(keep) == len(part) else array[k].copy() for name, array in made.items()}
            self._kept[id(part[k])] = (part[k], values)


def _finite(g: Graph, samples: Samples, numbers: Sequence[int]) -> Iterator[tuple[str, np.ndarray]]:
    """The activations of some samples as they are made. Raises MicaError if one is not finite."""
    reals = exact_inputs(g)  # a NaN is a missing feature there
    with np.errstate(over="ignore", invalid="ignore"):  # said below, once, with the node's name
        for name, array in batch.stream(g, batch.inputs(samples)):
            if name in reals:
                yield name, np.nan_to_num(array, nan=0.0)
                continue
            if not (np.isfinite(array.min()) and np.isfinite(array.max())):
                if len(samples) > 1:  # of which the first is told
                    for sample, number in zip(samples, numbers, strict=True):
                        for _ in _finite(g, [sample], [number]):
                            pass
                raise _not_finite(g, name, numbers[0])
            yield name, array


def _not_finite(g: Graph, name: str, sample: int) -> MicaError:
    where = f"calibration sample {sample}: "
    if name in g.inputs:
        return MicaError(f"{where}input '{name}' holds NaN or infinity", todo="clean the calibration data")
    node = g.producers()[name]
    return MicaError(f"{where}node '{node.name}' ({node.op}) computes NaN or infinity from it")
