"""mica: int8 neural networks on MicroPython. `mica.Model(path)` loads a .mica file; see model.py.

Most names are imported when they are first used, so a program pays no RAM for the rest. The engine, `_mica`, is in the
firmware, or a native module beside this package (`mica natmod`).
"""

try:
    from _mica import Arena, Quantised, cores, info
except (ImportError, ValueError) as error:  # ValueError: a native module for another processor
    from .install import line

    raise ImportError(line(error))

from . import later
from .layer import Layer
from .model import Model, register

__version__ = "0.1.0"
__doc__ = (
    "mica.Model(file) or mica.load(file): predict([x]), top(), run() ...; generate(), complete(), classify(); "
    "Learner, Supervisor, hooks, slots, audio, analog, motion, camera, boxes, kernels, register(), cores(), info()"
)

# No name here begins with an underscore, and none is deleted: help(mica) lists the first,
# and the second would crash it.
# Importing a module puts it in the place of what stands for it.
analog = later.later("analog")
audio = later.later("audio")
boxes = later.later("boxes")
camera = later.later("camera")
hooks = later.later("hooks")
kernels = later.later("kernels")
motion = later.later("motion")
operators = later.later("operators")
pictures = later.later("pictures")
remote = later.later("remote")
remote_push = later.later("remote_push")
slots = later.later("slots")
wav = later.later("wav")
Learner = later.later("learn.Learner")
Supervisor = later.later("supervisor.Supervisor")
classify = later.later("classes.classify")
complete = later.later("text.complete")
generate = later.later("text.generate")
load = Model  # as mica on a computer has it
