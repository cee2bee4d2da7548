"""Bytes of a model's file, by its path."""

import _mica


def _open(path):
    try:
        return open(path, "rb")
    except OSError:
        if "/" in path:
            raise
    try:
        return open("/rom/" + path, "rb")
    except OSError as e:
        raise OSError(e.errno, path + ": neither here nor in /rom") from None


def read_file(path: str) -> Any:
    """Return the bytes of a file: in a ROMFS the flash itself, elsewhere a block that is never moved nor copied."""
    try:
        return _bytes_of(path)
    except OSError as e:
        if len(e.args) > 1:
            raise
        raise OSError(e.errno, path) from None


def _bytes_of(path):
    with _open(path) as f:
        try:
            return memoryview(f)
        except TypeError:
            pass
        f.read(1)  # of a folder, which some ports open, this raises
        size = f.seek(0, 2)
        f.seek(0)
        if size == 0:
            return b""
        # Reading without a size would grow a buffer step by step, and need half as much RAM again.
        try:
            block = _mica.Arena(size)
        except MemoryError:
            raise MemoryError(f"{path}: a copy of the file takes {size} bytes") from None
        rest = memoryview(block)
        while rest:
            n = f.readinto(rest)
            if not n:
                raise OSError(5, path + ": ends too early")
            rest = rest[n:]
        return block
