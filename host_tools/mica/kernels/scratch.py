"""Scratch of a step: bytes behind the tensors of the arena, the same number for every core."""

from mica.format.schema import SCRATCH_LEAST
from mica.kernels import KERNEL_BY_NAME
from mica.kernels.base import Dims
from mica.kernels.integers import Params


def scratch_min(kernel: str, out_channels: int, p: Params | None = None) -> int:
    """Bytes of scratch a step of this kernel cannot run without, on any core.

    `out_channels` is how many outputs share one input patch. Compared against `mica_scratch_min` in C by a test.
    p: the step's parameters, by which some kernels need more; in C their loaders check that.
    A larger `scratch_want` only makes a step faster.
    """
    row = KERNEL_BY_NAME[kernel]
    return row.scratch_min(out_channels) + (row.scratch_of(p) if p else 0)


def scratch_want(kernel: str, x: Dims, y: Dims, p: Params, limit: int, unpacking: int = 0) -> int:
    """Bytes of scratch with which a step runs fastest, at most `limit`; the same for every core.

    x, y: dimensions of the first input and the output. A kernel that is given less works on fewer pixels or rows at a
    time; one that is given more has no use for it. Limits below SCRATCH_LEAST, or the smallest tile of a step where
    that is larger, count as that: with less, kernels have to go without, several times slower, to save two kilobytes.
    unpacking: bytes that the layout of the weights takes on top of that (`format.weights.Layout.unpacking`).
    """
    want, tile = KERNEL_BY_NAME[kernel].scratch(x, y, p)
    least = scratch_min(kernel, y[-1] if y else 1, p)
    return max(least, min(want, max(limit, tile, SCRATCH_LEAST)) & -4) + unpacking
