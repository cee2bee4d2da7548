"""Files that commands write: whole or not at all, and never over what the command itself reads."""

import os
from collections.abc import Iterable
from pathlib import Path

from mica import whole
from mica.errors import MicaError

Read = Iterable[tuple[str, str | Path | None]]  # (what it is, its file; None where it was not given)
write = whole.write


def check(option: str, path: Path, read: Read = ()) -> None:
    """Raises MicaError where `path` cannot be written or is one of the files read: now, not after minutes of work."""
    if path.is_dir():
        raise MicaError(f"{option} {path}: is a folder", todo="give the name of a file")
    for what, file in read:
        if file is not None and _same(path, Path(file)):
            raise MicaError(f"{option} {path}: is {what}, which would be overwritten", todo="name another file")
    handle, temporary = whole.temporary(path)
    os.close(handle)
    os.unlink(temporary)


def check_folder(option: str, folder: Path, *, new: bool = False) -> None:
    """Raises MicaError if files cannot be put into `folder`, which is made where it is missing: now, as `check` does.

    A folder that has to be `new` may not be there: so nothing that the command reads is in it.
    """
    if new and folder.exists():
        raise MicaError(f"{option} {folder} is there already", todo="give another folder")
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise MicaError(f"{option} {folder}: cannot write there: {there} is a file", todo="give a folder")
    handle, temporary = whole.temporary(there / "mica")
    os.close(handle)
    os.unlink(temporary)


def _same(a: Path, b: Path) -> bool:
    try:
        return os.path.samefile(a, b)
    except OSError:  # one of them is not there yet
        return os.path.realpath(a) == os.path.realpath(b)
