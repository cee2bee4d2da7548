"""Which real values each activation takes: runs the float graph over the calibration samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from mica.errors import MicaError
from mica.ir.exact_inputs import exact_inputs
from mica.ir.graph import Graph
from mica.quantise.histogram import Histogram, Range
from mica.quantise.methods import METHODS
from mica.reference import float_ops

Samples = Sequence[dict[str, np.ndarray]]  # input name -> float32 array of the input's shape
Progress = Callable[[int, int], None]  # (done, of)

__all__ = ["Histogram", "Progress", "Range", "Samples", "calibrate", "observe", "runs"]


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
) -> dict[str, Histogram]:
    """Histogram of every activation; also the largest |value| of each channel (last axis) of those in `channels`.

    numbers: by which a person knows the samples, where they are a selection.
    Memory: 64 KB an activation, and those of one sample that are still to be read.
    """
    seen: dict[str, Histogram] = {}
    for k, sample in enumerate(samples):
        for name, array in _finite(g, sample, k if numbers is None else numbers[k]):
            seen.setdefault(name, Histogram()).add(array)
            if channels is not None and name in channels:
                rows = array.reshape(-1, array.shape[-1])
                largest = np.maximum(rows.max(axis=0), -rows.min(axis=0)).astype(np.float64)
                channels[name] = np.maximum(channels[name], largest)
        if progress is not None:
            progress(k + 1, len(samples))
    return seen


def runs(g: Graph, samples: Samples) -> Iterator[dict[str, np.ndarray]]:
    """All activations of one sample after the other. Raises MicaError where one is not finite."""
    for k, sample in enumerate(samples):
        yield dict(_finite(g, sample, k))


def _finite(g: Graph, sample: Mapping[str, np.ndarray], k: int) -> Iterator[tuple[str, np.ndarray]]:
    """The activations of sample k as they are made. Raises MicaError where one is not finite."""
    reals = exact_inputs(g)  # a NaN is a missing feature there
    with np.errstate(over="ignore", invalid="ignore"):  # said below, once, with the node's name
        for name, array in float_ops.stream(g, sample):
            if name in reals:
                yield name, np.nan_to_num(array, nan=0.0)
                continue
            if not (np.isfinite(array.min()) and np.isfinite(array.max())):
                raise _not_finite(g, name, k)
            yield name, array


def _not_finite(g: Graph, name: str, sample: int) -> MicaError:
    where = f"calibration sample {sample}: "
    if name in g.inputs:
        return MicaError(f"{where}input '{name}' holds NaN or infinity", todo="clean the calibration data")
    node = g.producers()[name]
    return MicaError(f"{where}node '{node.name}' ({node.op}) computes NaN or infinity from it")
