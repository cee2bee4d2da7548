"""The one reader of .npz and .npy files. Their bounds stand before the first byte is unpacked: a small file can claim,
or unpack to, more than any memory.

Headers are compared with the bytes that are there. An archive says what it unpacks to, and zipfile never reads beyond
that. Numbers count as float32, which they become. An array is unpacked when it is asked for.
"""

import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from mica.errors import MicaError

SLACK = 8 << 20  # bytes of all numbers of a file as float32, besides 20 times its own: real samples have up to 9 times
FACTOR = 20
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_FAULTS = (
    *(ValueError, OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error, struct.error),
    *(SyntaxError, tokenize.TokenError, RecursionError, OverflowError),
)


class Arrays(Mapping[str, np.ndarray]):
    """The arrays of a file by their names; the only one of an .npy file is `x`."""

    def __init__(self, path: Path) -> None:
        """Raises MicaError where it is no such file, or is too large."""
        self._path = path
        self._members: dict[str, zipfile.ZipInfo | None] = {}
        size, count = path.stat().st_size, 0
        with _told(path, str(path)), path.open("rb") as file:
            if file.read(2) != b"PK":
                file.seek(0)
                count = _floats(file, size, f"{path}:")
                self._members["x"] = None
            else:
                with zipfile.ZipFile(file) as archive:
                    count = sum(self._look(archive, info) for info in archive.infolist())
        if 4 * count > (most := SLACK + FACTOR * size):
            raise MicaError(
                f"{path}: holds numbers of {4 * count:,} bytes",
                todo=(
                    f"expected at most {most:,} (8 MB and 20 times the file). Give fewer samples, "
                    "or save them with numpy.savez, which does not compress"
                ),
            )

    def _look(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> int:
        """Note a member; return its numbers. Raises MicaError."""
        name = info.filename.removesuffix(".npy")
        what = f"{self._path}: '{name[:64]}'"
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise MicaError(f"{what} is packed in a way that numpy does not know")
        self._members[name] = info
        with archive.open(info) as member:
            return _floats(member, info.file_size, what)

    def __getitem__(self, name: str) -> np.ndarray:
        """Raises MicaError where it is damaged."""
        info = self._members[name]
        with _told(self._path, f"{self._path}: '{name[:64]}'"), self._path.open("rb") as file:
            if info is None:
                return np.asarray(np.lib.format.read_array(file, allow_pickle=False))
            with zipfile.ZipFile(file) as archive, archive.open(info) as member:
                return np.asarray(np.lib.format.read_array(member, allow_pickle=False))

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


class NoArrays(MicaError):
    """The file is something else."""


@contextmanager
def _told(path: Path, where: str) -> Iterator[None]:
    """Raises MicaError where numpy or zipfile raise anything."""
    try:
        yield
    except _FAULTS as e:
        reason = [*str(e).splitlines(), type(e).__name__][0]
        raise MicaError(
            f"{path}: not an .npz or .npy file: {reason}" if where == str(path) else f"{where}: {reason}"
        ) from None


def _floats(file: IO[bytes], size: int, what: str) -> int:
    """Return the numbers of an array, those of more than 4 bytes several times. Raises MicaError where its header
    claims more than the `size` bytes of header and data, or it is none."""
    if file.read(6) != np.lib.format.MAGIC_PREFIX or (version := tuple(file.read(2))) not in _HEADERS:
        raise NoArrays(f"{what} holds no plain array of numbers")
    shape, _, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        todo = "save numbers as such, and text with .astype(str)"
        raise MicaError(f"{what} holds Python objects, which mica never unpickles", todo=todo)
    claimed = math.prod(shape) * dtype.itemsize
    if claimed > size or min(shape, default=1) < 0:
        raise MicaError(f"{what} claims {claimed:,} bytes of {dtype} {list(shape)}, and there are {size:,}")
    return math.prod(shape) * max(1, -(-dtype.itemsize // 4))
