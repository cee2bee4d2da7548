"""Files that are written whole or not at all: a full disk or Ctrl-C leaves the old file, and nothing half-written."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from mica.errors import writing


def temporary(path: Path) -> tuple[int, str]:
    """Return an open file beside `path`, and its name. Raises MicaError where there can be none."""
    with writing(path):
        return tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")


@contextmanager
def file(path: Path) -> Iterator[BinaryIO]:
    """Give a file to write, which takes the place of `path` at the end of the block. Raises MicaError."""
    handle, name = temporary(path)
    try:
        with writing(path):
            with os.fdopen(handle, "wb") as f:
                yield f
            os.umask(mask := os.umask(0))  # the only way to read it
            os.chmod(name, 0o666 & ~mask)
            os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write(path: Path, data: bytes) -> None:
    """Write a file. Raises MicaError."""
    with file(path) as f:
        f.write(data)
