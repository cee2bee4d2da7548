"""The options of custom operators: a flexbuffer that holds one map of names to whole numbers, read without trust.

    file    the root's bytes, u8 its packed type, u8 bytes of the root
    offset  back from where it stands
    vector  entries, all of one width; before them their number;
            of a map before that the width and the offset of its keys; behind them a packed type for each
    packed  the type, and in the lower two bits log2 of the width of what it points to

The format: flatbuffers.dev, "FlexBuffers".
"""

from mica.importer.tflite.flatbuffer import Damaged

MOST_BYTES = 4096
MOST_ENTRIES = 64
MOST_LETTERS = 64  # of a name
INT, UINT, INDIRECT_INT, INDIRECT_UINT, MAP, BOOL = 1, 2, 6, 7, 9, 26


def options(data: bytes) -> dict[str, int]:
    """Names and numbers of a map; none of no bytes. Raises Damaged."""
    if not data:
        return {}
    if len(data) > MOST_BYTES:
        raise Damaged(f"{len(data)} bytes of options; mica reads up to {MOST_BYTES}")
    read = _Bytes(data)
    width = read.width(read.number(len(data) - 1, 1))
    kind = read.number(len(data) - 2, 1)
    if kind >> 2 != MAP:
        raise Damaged(f"its options are of the type {kind >> 2}; expected a map")
    root = len(data) - 2 - width
    return read.map(root - read.number(root, width), 1 << (kind & 3))


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def number(self, at: int, width: int, signed: bool = False) -> int:
        if not 0 <= at <= len(self.data) - width:
            raise Damaged("its options point outside of themselves")
        return int.from_bytes(self.data[at : at + width], "little", signed=signed)

    def width(self, value: int) -> int:
        if value not in (1, 2, 4, 8):
            raise Damaged(f"its options have numbers of {value} bytes")
        return value

    def map(self, at: int, width: int) -> dict[str, int]:
        n = self.number(at - width, width)
        if n > MOST_ENTRIES:
            raise Damaged(f"{n} options; mica reads up to {MOST_ENTRIES}")
        key_width = self.width(self.number(at - 2 * width, width))
        keys = at - 3 * width - self.number(at - 3 * width, width)
        if self.number(keys - key_width, key_width) != n:
            raise Damaged("its options have other names than numbers")
        found = {}
        for k in range(n):
            place = keys + k * key_width
            name = self.name(place - self.number(place, key_width))
            found[name] = self.value(at + k * width, width, self.number(at + n * width + k, 1), name)
        if len(found) < n:
            raise Damaged("two of its options have one name")
        return found

    def name(self, at: int) -> str:
        end = self.data.find(b"\0", max(at, 0), max(at, 0) + MOST_LETTERS + 1)
        if at < 0 or end < 0:
            raise Damaged("the name of an option has no end")
        return self.data[at:end].decode("utf-8", "replace")

    def value(self, at: int, width: int, packed: int, name: str) -> int:
        kind = packed >> 2
        if kind in (INDIRECT_INT, INDIRECT_UINT):
            at, width = at - self.number(at, width), 1 << (packed & 3)
        elif kind not in (INT, UINT, BOOL):
            raise Damaged(f"its option '{name}' is no whole number")
        return self.number(at, width, kind in (INT, INDIRECT_INT))
