"""Sizes of the arrays in an .npz or .npy file, before they are read: a small file can claim or
unpack to more than any memory.

Headers are compared with the bytes that are there, and what an archive unpacks to with a limit, by the archive's own
list, which zipfile never reads beyond.
"""

import math
import zipfile
from pathlib import Path
from typing import IO

import numpy as np

from mica.errors import MicaError

SLACK = 256 << 20  # bytes that an archive may unpack to, besides 4 times its own
FACTOR = 4
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def check(path: Path) -> None:
    """Raises MicaError where the arrays would be larger than their file allows. Whatever is no such file passes."""
    with path.open("rb") as file:
        if file.read(4) != b"PK\x03\x04":
            file.seek(0)
            _check_header(file, path.stat().st_size, f"{path}:")
            return
    with zipfile.ZipFile(path) as archive:
        size, most = sum(i.file_size for i in archive.infolist()), SLACK + FACTOR * path.stat().st_size
        if size > most:
            raise MicaError(
                f"{path}: unpacks to {size:,} bytes",
                todo=(
                    f"expected at most {most:,} (256 MB and 4 times the file). Give fewer samples, "
                    "or save them with numpy.savez, which does not compress"
                ),
            )
        for info in archive.infolist():
            with archive.open(info) as member:
                _check_header(member, info.file_size, f"{path}: '{info.filename.removesuffix('.npy')}'")


def _check_header(file: IO[bytes], size: int, what: str) -> None:
    """Raises MicaError where an array's header claims more than the `size` bytes of header and data."""
    if file.read(6) != np.lib.format.MAGIC_PREFIX:
        return  # numpy says what it thinks of it
    version = tuple(file.read(2))
    if version not in _HEADERS:
        return
    shape, _, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        todo = "save numbers as such, and text with .astype(str)"
        raise MicaError(f"{what} holds Python objects, which mica never unpickles", todo=todo)
    claimed = math.prod(shape) * dtype.itemsize
    if claimed > size:
        raise MicaError(f"{what} claims {claimed:,} bytes of {dtype} {list(shape)}, and there are {size:,}")
