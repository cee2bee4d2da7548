"""Counts that kernels share: what the cost of a step depends on, from its shapes alone."""

import math

from mica.format.schema import STEP_FLAGS
from mica.kernels.base import Cost, Step, Tensor, Tensors


def elements(t: Tensor) -> int:
    """Number of elements."""
    return math.prod(t.dims)


def is_fast(step: Step) -> bool:
    """True if the fast kernels may take the step."""
    return bool(step.flags & STEP_FLAGS["FAST"])


def rows_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    """One result after another for the rows along the last dimension."""
    n, size = xs[0].dims[-1] if xs[0].dims else 1, elements(xs[0])
    return "", {"row": size / n, "in": float(size)}


def quotient_bits(outer: int, each: int) -> float:
    """Bits of the block numbers of all rows, in `outer` blocks of `each` rows. Each row finds its block by a division;
    a core that divides in software pays for each bit."""
    return float(each * sum(outer - (1 << b) for b in range((outer - 1).bit_length())))


def copies(*lengths: int) -> str:
    """The C library's memcpy is quicker where lengths, and with them addresses, are multiples of words."""
    return "words" if all(n % 4 == 0 for n in lengths) else "bytes"
