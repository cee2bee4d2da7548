"""Numbers that come from outside, before a model gets them: run, eval, compare and mica as a library ask here."""

from collections.abc import Sequence

import numpy as np

from mica.file.codec import ModelFile
from mica.format.values import HIGH, HIGH16, LOW, LOW16

_RANGES = {"int8": (LOW, HIGH), "int16": (LOW16, HIGH16)}


def odd(x: np.ndarray, missing: bool) -> bool:
    """Return True if numbers hold infinity, or NaN that is no missing value which the model has learnt."""
    return not np.all(np.isfinite(x) | (np.isnan(x) & missing))


def saturating(model: ModelFile, sample: Sequence[np.ndarray]) -> list[str]:
    """Return a line for each input with values so far outside of its range that the sample is likely scaled in another
    way.

    A value that is a little outside is nothing special: the range is that of the calibration data.
    Farther than the range is wide is too far; a board counts so, too (usermod_c/binding/values.c).
    """
    lines = []
    for tensor_id, x in zip(model.inputs, sample, strict=True):
        t = model.tensors[tensor_id]
        if t.dtype not in _RANGES:
            continue
        low, high = (float((q - t.zero_point) * t.scale) for q in _RANGES[t.dtype])
        outside = int(np.sum((x < low - (high - low)) | (x > high + (high - low))))
        if outside:
            lines.append(
                f"input '{t.name}': {outside} of {x.size} values are far outside of {low:.4g} to {high:.4g}, all that "
                "the model can be given, and are cut off; is the input scaled as for --calib?"
            )
    return lines
