"""The folder for what can be made again: fetched sources and built firmware. And locks on its parts."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from mica.errors import MicaError

Progress = Callable[[str], None]


def quiet(message: str) -> None:
    """A Progress that says nothing."""


def cache_dir() -> Path:
    """$MICA_CACHE, else $XDG_CACHE_HOME/mica, else ~/.cache/mica; made when missing."""
    if "MICA_CACHE" in os.environ:
        folder = Path(os.environ["MICA_CACHE"]).expanduser().absolute()
    else:
        base = os.environ.get("XDG_CACHE_HOME")
        folder = (Path(base) if base else Path.home() / ".cache") / "mica"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MicaError(
            f"cannot make {folder}: {error.strerror}", todo="set MICA_CACHE to a folder you can write"
        ) from None
    return folder


@contextlib.contextmanager
def locked(name: str, progress: Progress = quiet) -> Iterator[None]:
    """Hold the lock `name`, so that two mica processes do not build or fetch the same thing at once.

    The lock is the kernel's, so it ends with the process in every case.
    """
    try:
        import fcntl
    except ImportError:
        raise MicaError("firmware is built on Linux or macOS", todo="on Windows use WSL") from None
    path = cache_dir() / f"{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        for _ in range(20):  # whoever only looks whether a firmware is up to date has it for a moment
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(0.05)
        else:
            progress(f"waiting for another mica that works on {name}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
