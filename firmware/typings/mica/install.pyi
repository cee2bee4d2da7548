"""Puts mica beside a firmware without it, and says how where it is missing. Needs nothing of mica's."""

def arch() -> str:
    """Return the name of the architecture whose engine this firmware loads, "" where it loads none."""

def line(error: Exception) -> str:
    """Return one line: what is missing, and the command that brings it. `error`: what `import _mica` raised."""

def install(source: str = "/remote", target: str = "/lib") -> None:
    """Install the engine that this board takes, and the runtime, from a package's folder or its address.

    RuntimeError where the firmware takes none, or the package has none for it; OSError where a file cannot be read or written.
    """
