"""Features that the cost of a step depends on: a kind, and some counts that follow from its shapes.

The cost of a step is a sum of counts, each times what one of them takes on a core (`table.py`).
The kinds and counts of a kernel stand in its row (`mica.kernels`): a pointwise convolution copies no patches,
a depthwise one with 3x3 taps has a loop of its own, a broadcast pays for each run of equal steps.
Only shapes and the file's own flags are looked at, so that a prediction needs no kernel and no board.
A step whose weights are codes of four bits is of a kind of its own, with the same counts.
"""

from mica.file.codec import ModelFile, StepRecord
from mica.kernels import KERNEL_BY_NAME
from mica.kernels.base import Counts, Step, Tensor, Tensors

CODED = "codes"


def step_counts(model: ModelFile, step: StepRecord, scratch: int) -> list[tuple[str, Counts]]:
    """The kind of a step, such as "conv2d_s8 pointwise", and its counts;
    `scratch` in bytes is what kernels get beside the tensors.

    The first is what every core has; behind it are algorithms that some cores have as well, and take where they are
    cheaper. Every kind counts "call" once. Names of counts are of the fit only;
    what they hold is beside each in the kernel's file.
    """
    xs = [model.tensors[i] for i in step.inputs]
    return shape_counts(step.kernel, step, xs, model.tensors[step.outputs[0]], scratch)


def shape_counts(kernel: str, step: Step, xs: Tensors, y: Tensor, scratch: int) -> list[tuple[str, Counts]]:
    """The same of a step whose tensors are given."""
    row, room = KERNEL_BY_NAME[kernel], scratch - step.unpacking
    algorithms = (row.counts(step, xs, y, room), *row.algorithms(step, xs, y, room))
    coded = CODED if step.unpacking else ""
    return [
        (" ".join(word for word in (kernel, kind, coded) if word), {"call": 1.0, **counts})
        for kind, counts in algorithms
    ]


def without_codes(kind: str) -> str:
    """The kind with weights of eight bits."""
    return kind.removesuffix(CODED).rstrip()
