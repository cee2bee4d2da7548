"""Puts mica beside a firmware without it, and says how where it is missing. Needs nothing of mica's: `mica natmod --package DIR` copies it into DIR.

On the computer, with the board at USB (MicroPython finds out which of DIR's engines the board takes):

    mpremote mount DIR run DIR/install.py

On a board with a network, where DIR is served at URL:

    import mip, sys
    mip.install("mica", index=URL, version=sys.implementation._mpy >> 10 & 15)
"""

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
_NONE = "this firmware loads no native modules: flash one with mica in it (mica flash)"


def arch(mpy: int = -1) -> str:
    """Return the name of the architecture whose engine this firmware loads, or one with this `_mpy`; "" where it loads none."""
    if mpy < 0:
        mpy = getattr(sys.implementation, "_mpy", 0)
    number = mpy >> 10 & 15
    name = _ARCHS[number] if number < len(_ARCHS) else ""
    return _LOADS.get(name, name)


def line(error: Exception) -> str:
    """Return one line that names the missing part and the command that installs it."""
    name = arch()
    if not name:
        return "mica: no engine in this firmware, and " + _NONE
    what = "the engine is missing" if isinstance(error, ImportError) else f"_mica.mpy does not fit ({error})"
    return f"mica: {what}; on the computer: mica push M.mica --yes, or mpremote mip install --index URL mica@{name}"


def built_in() -> str:
    """Return the version of the mica that is frozen into this firmware, "" for none. No other is imported for it."""
    path = sys.path[:]
    sys.path[:] = [".frozen"]
    try:
        import mica

        return mica.__version__ if getattr(mica, "__path__", "").startswith(".frozen") else ""
    except ImportError:
        return ""
    finally:
        sys.path[:] = path


def _folder_of(path):
    """Make the folders above this path."""
    import os

    at = path.find("/", 1)
    while at >= 0:
        try:
            os.mkdir(path[:at])
        except OSError as error:
            if error.errno != 17:  # there already
                raise
        at = path.find("/", at + 1)


def _copy(source, to):
    """Copy a file; `to` is the old file or the whole new one, whenever the power goes."""
    import os

    _folder_of(to)
    chunk = bytearray(2048)
    with open(source, "rb") as old, open(to + ".new", "wb") as new:
        while True:
            n = old.readinto(chunk)
            if not n:
                break
            new.write(memoryview(chunk)[:n])
    try:
        os.rename(to + ".new", to)
    except OSError:  # a file system that does not write over one
        os.remove(to)
        os.rename(to + ".new", to)


def install(source: str = "/remote", target: str = "/lib") -> None:
    """Install the engine that this board takes, and the runtime, from a package's folder or its address.

    RuntimeError where the firmware takes none or has mica built in, or the package has none for it; OSError where a file cannot be read or written.
    """
    if there := built_in():
        raise RuntimeError(f"this firmware has mica {there} built in, and imports that first: flash it to change it")
    name = arch()
    if not name:
        raise RuntimeError(_NONE)
    if "://" in source or source.startswith(("github:", "gitlab:")):
        import mip

        mip.install(f"{source}/{name}.json", target=target)
        return
    import json

    try:
        with open(f"{source}/{name}.json") as f:
            urls = json.load(f)["urls"]
    except OSError:
        raise RuntimeError(f"{source} has no engine for {name}: mica natmod --package DIR --arch {name}")
    for number, (path, url) in enumerate(urls, 1):
        print(f"{number} of {len(urls)}: {target}/{path}")
        _copy(f"{source}/{url}", f"{target}/{path}")


if __name__ == "__main__":
    install()
