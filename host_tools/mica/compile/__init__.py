"""From a model file to the bytes of a packed model. `job.py` is the question, `stages.py` the way,
`state.py` the answer."""

from mica.compile.board_fit import within
from mica.compile.job import Job, PlacedFrontEnd, Ram, Watch
from mica.compile.stages import compile_file, run
from mica.compile.state import Compiled, State

__all__ = ["Compiled", "Job", "PlacedFrontEnd", "Ram", "State", "Watch", "compile_file", "run", "within"]
