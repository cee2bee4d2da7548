"""Puts mica beside a firmware without it, and says how where it is missing.
Needs nothing of mica's: `mica natmod --package DIR` copies it into DIR.

On the computer, with the board at USB (MicroPython finds out which of DIR's engines the board takes):

    mpremote mount DIR run DIR/install.py

On a board with a network, where DIR is served at URL:

    import mip, sys
    mip.install("mica", index=URL, version=sys.implementation._mpy >> 10 & 15)

mip compares no hashes. This file does, with a list of its own: copy it from a folder that you verified onto the board,
then

    import install
    install.install(URL)
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
# SHA-256 of a package's files, by their places in it. Whoever makes a package writes them into its copy of this file.
SUMS = {}
_NONE = "this firmware loads no native modules: flash one with mica in it (mica flash)"


def arch(mpy: int = -1) -> str:
    """Return the name of the architecture whose engine this firmware loads, or one with this `_mpy`;
    "" where it loads none."""
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


def _digest(path):
    """Return the SHA-256 of a file, in hexadecimal."""
    import hashlib
    from binascii import hexlify

    sha, chunk = hashlib.sha256(), bytearray(2048)
    with open(path, "rb") as f:
        while n := f.readinto(chunk):
            sha.update(memoryview(chunk)[:n])
    return hexlify(sha.digest()).decode()


def _copy(source, to):
    chunk = bytearray(2048)
    with open(source, "rb") as old, open(to, "wb") as new:
        while n := old.readinto(chunk):
            new.write(memoryview(chunk)[:n])


def _put(source, url, to):
    """Install one file, if its SHA-256 is that of SUMS; `to` is the old file or the whole new one,
    whenever the power goes."""
    import os

    new = to + ".new"
    _folder_of(to)
    if "://" in source or source.startswith(("github:", "gitlab:")):
        import mip  # puts a file of any address into a folder, under its own name

        mip.install(f"{source}/{url}", target=new)
        folder, new = new, new + "/" + url.split("/")[-1]
    else:
        folder = None
        _copy(f"{source}/{url}", new)
    same = _digest(new) == SUMS[url]
    if same:
        try:
            os.rename(new, to)
        except OSError:  # a file system that does not write over one
            os.remove(to)
            os.rename(new, to)
    else:
        os.remove(new)
    if folder:
        os.rmdir(folder)
    if not same:
        raise RuntimeError(
            f"{source}/{url} is not the file of this package: its SHA-256 differs; nothing was changed by it"
        )


def install(source: str = "/remote", target: str = "/lib") -> None:
    """Install the engine that this board takes, and the runtime, from a package's folder or its address.

    RuntimeError where the firmware takes none or has mica built in, the package has none for it,
    or a file is not the package's;
    OSError where a file cannot be read or written.
    """
    if there := built_in():
        raise RuntimeError(f"this firmware has mica {there} built in, and imports that first: flash it to change it")
    name = arch()
    if not name:
        raise RuntimeError(_NONE)
    engine = name + "/_mica.mpy"
    if engine not in SUMS:
        raise RuntimeError(f"this install.py knows no engine for {name}: mica natmod --package DIR --arch {name}")
    urls = [engine] + [url for url in SUMS if not url.endswith("/_mica.mpy")]
    for number, url in enumerate(urls, 1):
        path = target + "/" + (url if url != engine else "_mica.mpy")
        print(f"{number} of {len(urls)}: {path}")
        _put(source, url, path)


if __name__ == "__main__":
    install()
