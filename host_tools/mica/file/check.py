"""Check of a step of a file, by the rules of its kernel (`mica.kernels`) and those of all constants.

The same rules stand in C, in `mica_<kernel>_check` and `mica_<kernel>_check_constants` (`usermod_c/kernels/ref/`); a
test gives both thousands of damaged files and expects the same verdict.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from mica.format import schema
from mica.format.weights import INT8
from mica.kernels import KERNEL_BY_NAME
from mica.kernels.base import Shapes, Tensor
from mica.kernels.rules import INT32_LIMIT, Broken, require

Array = np.ndarray
FAST_LIMIT = 2**29
FAST_SHIFT = (1, 22)


def geometry(kernel: str, x: Sequence[Tensor], y: Tensor, p: Mapping[str, int]) -> Shapes:
    """Check shapes and parameters; return the shape of each blob.
    A length of -n stands for "1 or n", ANY_LENGTH for any."""
    return KERNEL_BY_NAME[kernel].rules(x, y, p)


def reduction(weights: Array) -> Array:
    """128 * sum|w| of each output channel, int64; the first axis of `weights` is the output channel."""
    out: Array = 128 * np.abs(weights.astype(np.int64)).reshape(weights.shape[0], -1).sum(axis=1)
    return out


def fast_is_true(blobs: Mapping[str, Array]) -> bool:
    """True if a step with these constants may have the FAST flag."""
    if "weights" not in blobs:
        return False
    w, bias, shift = blobs["weights"], blobs["bias"].astype(np.int64), blobs["shift"]
    small = bool((np.abs(bias) + reduction(w) < FAST_LIMIT).all())
    return small and bool(
        (w >= -INT8.largest).all() and (shift >= FAST_SHIFT[0]).all() and (shift <= FAST_SHIFT[1]).all()
    )


def constants(
    kernel: str, x: Sequence[Tensor], y: Tensor, p: Mapping[str, int], blobs: Mapping[str, Array], flags: int
) -> None:
    """Check the values of the constants, and the claim of the FAST flag."""
    if "mult" in blobs:
        require(blobs["mult"].shape == blobs["shift"].shape, "mult and shift differ in length")
        for i in np.flatnonzero(blobs["mult"] < schema.MULT_MIN)[:1]:
            raise Broken(f"mult[{i}] is {blobs['mult'][i]}; expected {schema.MULT_MIN} to {schema.MULT_MAX}")
        shift = blobs["shift"]
        for i in np.flatnonzero((shift < schema.SHIFT_MIN) | (shift > schema.SHIFT_MAX))[:1]:
            raise Broken(f"shift[{i}] is {shift[i]}; expected {schema.SHIFT_MIN} to {schema.SHIFT_MAX}")
    narrow = KERNEL_BY_NAME[kernel].x_type == "int8"  # sums of int16 have 64 bits
    if "weights" in blobs and narrow:
        bound = np.abs(blobs["bias"].astype(np.int64)) + reduction(blobs["weights"])
        for i in np.flatnonzero(bound >= INT32_LIMIT)[:1]:
            raise Broken(f"channel {i} can reach {bound[i]}; expected |bias| + 128 * sum|w| < 2**31")
    KERNEL_BY_NAME[kernel].constants(x, y, p, blobs)
    if flags & schema.STEP_FLAGS["FAST"]:
        require(narrow and fast_is_true(blobs), "the step claims FAST, and its constants do not allow it")
