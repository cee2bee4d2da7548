"""From one core node to one kernel step, one family of operators a file."""

from mica.quantise.kernels import (
    arithmetic,
    attention,
    audio,
    axes,
    custom,
    linear,
    movement,
    pooling,
    recurrent,
    reduce,
    softmax,
    tabular,
    vectors,
    wide,
    wide_composed,
    wide_moves,
    wide_select,
)
from mica.quantise.kernels.common import StepQuantiser

FAMILIES = (
    *(arithmetic, attention, audio, axes, custom, linear, movement, pooling, reduce, recurrent, softmax, tabular),
    vectors,
)
STEPS: dict[str, StepQuantiser] = {op: step for family in FAMILIES for op, step in family.STEPS.items()}
# Of operators that read or make int16: those that `passes/wide.py` leaves in 16 bits.
WIDE = (wide, wide_composed, wide_moves, wide_select)
WIDE_STEPS: dict[str, StepQuantiser] = {op: step for family in WIDE for op, step in family.STEPS.items()}
