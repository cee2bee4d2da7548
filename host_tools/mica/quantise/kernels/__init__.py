"""From one core node to one kernel step, one family of operators a file."""

from importlib import import_module

from mica.quantise.kernels.common import StepQuantiser

FAMILIES = "arithmetic attention audio axes custom linear movement pooling reduce recurrent softmax tabular vectors"
WIDE = "wide wide_composed wide_moves wide_select"  # operators that read or make int16


def _steps(families: str) -> dict[str, StepQuantiser]:
    modules = (import_module(f"{__name__}.{name}") for name in families.split())
    return {op: step for module in modules for op, step in module.STEPS.items()}


STEPS = _steps(FAMILIES)
WIDE_STEPS = _steps(WIDE)  # those that `passes/wide.py` leaves in 16 bits
