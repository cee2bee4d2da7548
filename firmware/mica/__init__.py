"""mica: int8 neural networks on MicroPython. `mica.Model(path)` loads a .mica file; see model.py.

Names are looked up when they are first used, so a program that needs only `_mica` pays no RAM for the rest.
"""

__version__ = "0.1.0"

_HOMES = {
    "Model": "model",
    "Layer": "model",
    "Supervisor": "supervisor",
    "hooks": "hooks",
    "kernels": "kernels",
    "operators": "operators",
    "register": "model",
    "remote": "remote",
    "remote_push": "remote_push",
    "slots": "slots",
}


def __getattr__(name):
    if name in ("Arena", "cores", "info"):
        import _mica

        value = getattr(_mica, name)
    else:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(name)
        module = __import__(home, None, None, True, 1)
        value = module if home == name else getattr(module, name)
    globals()[name] = value
    return value
