"""Functions that `mica push`, `ls` and `rm` call over the raw REPL, as remote.py for other commands.

    call                     lines
    where()                  mica:window <bytes>                               with a window of halves; else nothing
                             mica:at <0|1|plain|none> <plain bytes> <plain CRC-32> <halves in use, by bits>
                             mica:half <index> <state> <sequence> <bytes> <reason as hex>        both
    files()                  mica:file <bytes> <crc32> <offset in the window, -1> <path as hex>  in /rom,
                             and in the current folder
    begin(half)              nothing: its log is blank from now on
    blocks(half, n)          mica:block <crc32>                                of the first n blocks
    write(half, n, parts)    nothing: block n, of (offset in the window, bytes), (-1, bytes of `data` in turn)
    check(half, size)        mica:crc <crc32>
    commit(half, page)       nothing
    trial(half, key)         mica:confirmed, or mica:rejected <reason as hex>
    remove(name)             nothing
    part(name)               mica:part <bytes> <crc32>                         of a file that was sent in part
    append(name, at, data)   nothing
    finish(name, size, sha,  mica:confirmed, or mica:rejected <reason as hex>  after its trial it has its name
           key)

crc32 is zlib's, 8 hexadecimal digits. A name is in hexadecimal as well, in calls too: it may have blanks,
and any character.
"""

import os
import sys
from binascii import crc32, hexlify, unhexlify

from mica import slots
from mica.slots import BLOCK

PART = ".part"  # what the name of a file that was sent in part ends in


def _hex(crc):
    return f"{crc & 0xFFFFFFFF:08x}"


def _text(text):
    return str(hexlify(text.encode()), "ascii")


def _name(digits):
    return str(unhexlify(digits), "utf-8")


def _window():
    """The window of halves; None as well where another _boot.py than ours leaves /rom to MicroPython."""
    return slots.window() if sys.modules["mica.later"].boots else None


def where() -> None:
    flash = _window()
    if flash is None:
        return
    print("mica:window", len(flash.memory))
    length = slots.plain(flash) if slots.mounted == "plain" else 0
    print(
        "mica:at", "none" if slots.mounted is None else slots.mounted, length, slots.base(flash, length)[1], slots.used
    )
    for i in (0, 1):
        h = slots.Half(flash, i)
        print("mica:half", i, h.state, h.sequence, h.length, _text(h.reason))


def _walk(folder, suffixes):
    for entry in os.ilistdir(folder or "/"):
        path = folder + "/" + entry[0]
        if not entry[1] & 0x4000:
            if path.endswith(suffixes):
                yield path
        elif not suffixes:
            yield from _walk(path, suffixes)


def files() -> None:
    flash = _window()
    if flash is not None:
        import uctypes

        first = uctypes.addressof(flash.memory)
        if slots.mounted is not None:
            for path in _walk("/rom", ""):
                with open(path, "rb") as f:
                    data = memoryview(f)
                    at = uctypes.addressof(data) - first if len(data) else 0
                    print("mica:file", len(data), _hex(crc32(data)), at, _text(path[5:]))
        return
    for entry in os.ilistdir():
        if entry[0].endswith((".mica", ".mica" + PART)):
            print("mica:file", *_file(entry[0]), -1, _text(entry[0]))
    try:
        for path in _walk("/rom", ".mica"):  # MicroPython's own, which it can only read
            print("mica:file", *_file(path), -1, _text(path))
    except OSError:  # there is none
        pass


def _file(path):
    """Bytes and CRC-32 of a file."""
    crc = size = 0
    buf = bytearray(512)
    view = memoryview(buf)
    with open(path, "rb") as f:
        while n := f.readinto(buf):
            crc = crc32(view[:n], crc)
            size += n
    return size, _hex(crc)


# --- halves ---------------------------------------------------------------------------------------------


def _half(index):
    flash = slots.window()
    if slots.mounted == index or slots.used >> index & 1:
        raise RuntimeError("this half may be in use; reset the board")
    size = len(flash.memory) // (2 * BLOCK) * BLOCK
    return flash, index * size, (index + 1) * size - BLOCK


def begin(index: int) -> None:
    """Make the log blank. The image goes first: if power fails during the erasure, a rejected image stays unused."""
    flash, start, log = _half(index)
    if start == 0 and slots.plain(flash):
        # Only its magic changes, to zeros: half overwritten it would look like another image, a newer one.
        flash.program(0, b"\x00" * 3 + b"\xff" * (slots.PAGE - 3))
    if bytes(flash.memory[log : log + BLOCK]) != b"\xff" * BLOCK:
        flash.erase(start)
        flash.erase(log)


def blocks(index: int, n: int) -> None:
    flash, start, _ = _half(index)
    for at in range(start, start + n * BLOCK, BLOCK):
        print("mica:block", _hex(crc32(flash.memory[at : at + BLOCK])))


_block = None  # a block on its way to flash


def write(index: int, n: int, parts: Sequence[tuple[int, int]], data: Any = b"") -> None:
    global _block
    flash, start, log = _half(index)
    at = start + n * BLOCK
    if at >= log:
        raise ValueError("beyond the half")
    if _block is None:
        _block = bytearray(BLOCK)
    block = memoryview(_block)
    there = flash.memory[at : at + BLOCK]
    for i in range(0, BLOCK, 256):
        block[i : i + 256] = b"\xff" * 256
    blank = there == _block
    to = taken = 0
    for source, size in parts:
        if source < 0:
            block[to : to + size] = data[taken : taken + size]
            taken += size
        else:
            block[to : to + size] = flash.memory[source : source + size]
        to += size
    if there != _block:
        if not blank:
            flash.erase(at)
        flash.program(at, _block)


def check(index: int, size: int) -> None:
    flash, start, _ = _half(index)
    print("mica:crc", _hex(crc32(flash.memory[start : start + size])))


def commit(index: int, page: bytes) -> None:
    flash, _, log = _half(index)
    flash.program(log, page)
    if bytes(flash.memory[log : log + slots.PAGE]) != bytes(page):
        raise OSError("the flash does not hold what was written to it")


def trial(index: int, key: bytes | None = None) -> None:
    flash = slots.window()
    half = slots.Half(flash, index)
    if half.state == "trial":
        slots.try_half(half, key)
    if half.state == "confirmed":
        slots.mount(flash, half)
        print("mica:confirmed")
    else:
        print("mica:rejected", _text(half.reason or half.state))


# --- files ----------------------------------------------------------------------------------------------


def remove(name: str) -> None:
    os.remove(_name(name))


def part(name: str) -> None:
    try:
        print("mica:part", *_file(_name(name) + PART))
    except OSError:
        print("mica:part", 0, _hex(0))


def append(name: str, at: int, data: Any) -> None:
    with open(_name(name) + PART, "r+b" if at else "wb") as f:
        f.seek(at)
        f.write(data)


def finish(name: str, size: int, sha: str, key: bytes | None = None) -> None:
    """Look at the file's hash, try the model, and give it its name: until then there is the one before."""
    name = _name(name)
    problem = examine(name, sha, key)
    if problem:
        print("mica:rejected", _text(problem))
        return
    os.rename(name + PART, name)  # replaces the one before, on FAT too
    print("mica:confirmed")


def examine(name: str, sha: str, key: bytes | None = None) -> str | None:
    """Check the hash of a file sent in part, and try the model. Return its fault or None. A faulty file is removed."""
    import hashlib

    path = name + PART
    digest = hashlib.sha256()
    buf = bytearray(512)
    view = memoryview(buf)
    with open(path, "rb") as f:
        while n := f.readinto(buf):
            digest.update(view[:n])
    if str(hexlify(digest.digest()), "ascii") != sha:
        os.remove(path)
        raise OSError("the file was damaged on its way")
    problem = None
    if name.endswith(".mica"):
        try:
            problem = slots.test(path, key)
        except Exception as e:
            problem = f"{type(e).__name__}: {e}"
    if problem:
        os.remove(path)
    return problem
