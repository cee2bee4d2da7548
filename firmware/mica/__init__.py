"""mica: int8 neural networks on MicroPython. `mica.Model(path)` loads a .mica file; see model.py.

Most names are imported when they are first used, so a program pays no RAM for the rest. The engine, `_mica`, is in the
firmware, or a native module beside this package (`mica natmod`).
"""

try:
    from _mica import Arena, Quantised, cores, info
except (ImportError, ValueError) as error:  # ValueError: a native module for another processor
    from .install import line

    raise ImportError(line(error))

from .layer import Layer
from .model import Model, register

__version__ = "0.1.0"
__doc__ = "mica.Model(file): predict([x]), top(), run() ...; generate(), complete(), classify(); Learner, Supervisor, hooks, slots, audio, analog, motion, camera, boxes, kernels, register(), cores(), info()"


_homes = {}  # by id of what stands for it: a module, or a module and a name in it


class _Later:
    """Stands for a module, or a name in one, until its first use. dir(), help() and TAB look at every name of mica: they find this, and import nothing."""

    def _get(self):
        home, _, name = _homes[id(self)].partition(".")
        value = __import__(home, None, None, True, 1)
        if name:
            value = globals()[name] = getattr(value, name)
        return value

    def __getattr__(self, name):
        return getattr(self._get(), name)

    def __setattr__(self, name, value):
        setattr(self._get(), name, value)

    def __call__(self, *args, **kwargs):
        return self._get()(*args, **kwargs)

    def __dir__(self):
        return dir(self._get())

    def __repr__(self):
        return f"<mica.{_homes[id(self)]}, imported when it is first used>"


def _later(home):
    value = _Later()
    _homes[id(value)] = home
    return value


# Importing a module puts it in the place of what stands for it.
analog = _later("analog")
audio = _later("audio")
boxes = _later("boxes")
camera = _later("camera")
hooks = _later("hooks")
kernels = _later("kernels")
motion = _later("motion")
operators = _later("operators")
pictures = _later("pictures")
remote = _later("remote")
remote_push = _later("remote_push")
slots = _later("slots")
wav = _later("wav")
Learner = _later("learn.Learner")
Supervisor = _later("supervisor.Supervisor")
classify = _later("classes.classify")
complete = _later("text.complete")
generate = _later("text.generate")
