"""What to do where the engine is missing: `import mica` raises this text. Loaded only then."""

import sys

# What sys.implementation._mpy means by an architecture (MicroPython, py/persistentcode.h), as `mica natmod` calls it.
_ARCHS = (
    "",
    "x86",
    "x64",
    "armv6",
    "armv6m",
    "armv7m",
    "armv7em",
    "armv7emsp",
    "armv7emdp",
    "xtensa",
    "xtensawin",
    "rv32imc",
)
_LOADS = {"armv7em": "armv7m", "armv7emdp": "armv7emsp"}  # what they take as well


def line(error):
    """Return one line: what is missing, and the command that brings it."""
    number = getattr(sys.implementation, "_mpy", 0) >> 10
    arch = _ARCHS[number] if number < len(_ARCHS) else ""
    arch = _LOADS.get(arch, arch)
    if not arch:
        return (
            "mica: no engine in this firmware, and it loads no native modules: flash one with mica in it (mica flash)"
        )
    what = "the engine is missing" if isinstance(error, ImportError) else f"_mica.mpy does not fit ({error})"
    return f"mica: {what}; on the computer: mica natmod --package DIR; mpremote mip install DIR/{arch}.json"
