"""mica: int8 neural networks on MicroPython. `mica.Model(path)` loads a .mica file; see model.py.

Names are looked up when they are first used, so a program that needs only `_mica` pays no RAM for the rest. The engine,
`_mica`, is in the firmware, or a native module beside this package (`mica natmod`).
"""

try:
    __import__("_mica")  # help(mica) lists what has a name here; and it crashes where a name was deleted
except (ImportError, ValueError) as error:  # ValueError: a native module for another processor
    from .install import line

    raise ImportError(line(error))

__version__ = "0.1.0"
__doc__ = "mica.Model(file): predict([x]), top(), run() ...; generate(), complete(); Supervisor, hooks, slots, audio, analog, motion, camera, boxes, kernels, register(), cores(), info()"


def __getattr__(name):
    if name in ("Arena", "Quantised", "cores", "info"):
        import _mica

        value = getattr(_mica, name)
    else:
        homes = {
            "Model": "model",
            "Layer": "layer",
            "Supervisor": "supervisor",
            "complete": "text",
            "generate": "text",
            "analog": "analog",
            "audio": "audio",
            "boxes": "boxes",
            "camera": "camera",
            "hooks": "hooks",
            "kernels": "kernels",
            "motion": "motion",
            "operators": "operators",
            "pictures": "pictures",
            "register": "model",
            "remote": "remote",
            "remote_push": "remote_push",
            "slots": "slots",
            "wav": "wav",
        }
        home = homes.get(name)
        if home is None:
            raise AttributeError(name)
        module = __import__(home, None, None, True, 1)
        value = module if home == name else getattr(module, name)
    globals()[name] = value
    return value
