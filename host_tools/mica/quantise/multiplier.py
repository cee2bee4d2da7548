"""Real factors as the integers that the kernels multiply with. Formula: SPEC.md, "Requantisation"."""

import numpy as np

from mica.format.schema import MULT_MAX, SHIFT_MAX, SHIFT_MIN


def quantise_multiplier(factors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """factor -> (mult int32, shift int8) with factor ~ mult * 2**-(31 + shift), mult in [2**30, 2**31) or 0.

    A factor below 2**-32 becomes 0: it moves no int32 by as much as half a step. Raises ValueError at 2**30 or more.
    """
    mantissa, exponent = np.frexp(np.asarray(factors, np.float64))
    mult = np.rint(mantissa * 2.0**31).astype(np.int64)
    full = mult > MULT_MAX  # a mantissa that rounded up to 1
    mult = np.where(full, mult // 2, mult)
    shift = -(exponent + full).astype(np.int64)
    if np.any(shift < SHIFT_MIN):
        raise ValueError(f"a scale ratio of {float(np.max(factors)):.3g} is too large to compute with")
    tiny = (shift > SHIFT_MAX) | (mult == 0)
    return np.where(tiny, 0, mult).astype(np.int32), np.where(tiny, 0, shift).astype(np.int8)
