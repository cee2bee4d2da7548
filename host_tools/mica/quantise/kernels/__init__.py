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
    unary,
    vectors,
    wide,
    wide_composed,
    wide_moves,
    wide_recurrent,
    wide_select,
)
from mica.quantise.kernels.common import StepQuantiser

STEPS: dict[str, StepQuantiser] = {
    **arithmetic.STEPS,
    **attention.STEPS,
    **audio.STEPS,
    **axes.STEPS,
    **custom.STEPS,
    **linear.STEPS,
    **movement.STEPS,
    **pooling.STEPS,
    **reduce.STEPS,
    **recurrent.STEPS,
    **softmax.STEPS,
    **tabular.STEPS,
    **unary.STEPS,
    **vectors.STEPS,
}
# Of operators that read or make int16: those that `passes/wide.py` leaves in 16 bits.
WIDE_STEPS: dict[str, StepQuantiser] = {
    **wide.STEPS,
    **wide_composed.STEPS,
    **wide_moves.STEPS,
    **wide_recurrent.STEPS,
    **wide_select.STEPS,
}
