"""A fleet's models in the halves of the ROMFS window (slots.py): the idle half is written here, on the board,
chunk by chunk.

The new image holds the files at /rom, without those to remove, and the new models. Files that stay are copied from half
to half. A chunk that is at its place already is not fetched again, so a push that was cut short goes on from there. The
half counts from its commit on, and is at /rom only after its trial. If power fails before, the old files stay.
"""

import hashlib
import struct
from binascii import crc32, hexlify

from mica import remote_push, slots
from mica.slots import BLOCK, COMMIT, MAGIC, ON_TRIAL, PAGE, TAG

CHUNK = 4096
_ALIGN = 16  # a model's bytes are used where they lie
_WIDTH = 4  # bytes of each length, whatever it is: then nothing depends on itself


class InUse(Exception):
    """The half that would be written was at /rom since the last reset."""


def flash() -> Any:
    """The window; None on a board that keeps models in files."""
    return remote_push._window()


def room() -> tuple[int, int]:
    """Bytes that an image may have, and those of the one that is at /rom."""
    f = flash()
    size = 0
    if slots.mounted == "plain":
        size = slots.plain(f)
    elif slots.mounted is not None:
        size = slots.Half(f, slots.mounted).length
    return len(f.memory) // (2 * BLOCK) * BLOCK - BLOCK, size


def files() -> dict[str, tuple[int, int]]:
    """Path within /rom -> (offset in the window, bytes)."""
    import uctypes

    found = {}
    if slots.mounted is not None:
        first = uctypes.addressof(flash().memory)
        for path in remote_push._walk("/rom", ""):
            with open(path, "rb") as f:
                data = memoryview(f)
                found[path[5:]] = (uctypes.addressof(data) - first if len(data) else 0, len(data))
    return found


def there(model: dict[str, Any]) -> bool:
    """Return True if a model of the desired state is at /rom, with the right size and hash."""
    place = files().get(model["name"])
    return place is not None and place[1] == model["size"] and _sha(*place) == model["sha256"]


def verdict() -> str:
    """Reason why the last trial failed, or "" if no half is rejected."""
    halves = [slots.Half(flash(), i) for i in (0, 1)]
    return max([(h.sequence, h.reason) for h in halves if h.state == "rejected"] or [(0, "")])[1]


def write(
    models: list[dict[str, Any]],
    gone: list[str],
    fetch: Callable[[dict[str, Any], int], Generator[bool, None, Any]],
    pause: bool,
) -> Generator[bool, None, int | str | None]:
    """A generator: write the idle half, and commit it. Its index;
    None where nothing is to be written, a text where it cannot be.

    fetch(model, n): a generator that returns chunk n. `pause` is yielded between pieces of work. Raises InUse.
    """
    f = flash()
    kept = files()
    names = [m["name"] for m in models]
    if not models and not [name for name in gone if name in kept]:
        return None
    for name in names + gone:
        kept.pop(name, None)
    index = 1 if slots.mounted in (0, "plain") else 0
    half = len(f.memory) // (2 * BLOCK) * BLOCK
    base = slots.base(f, slots.plain(f) if slots.mounted == "plain" else 0)
    if base[0] > half:
        return f"the ROMFS image at /rom has {base[0]} bytes, more than half of its window"
    if slots.used >> index & 1:
        raise InUse
    new = {m["name"]: (m["size"], m) for m in models}
    pieces, length = _layout(kept, new)
    if length > half - BLOCK:
        return f"{length} bytes are needed, {half - BLOCK} are there (half of its ROMFS window)"
    remote_push.begin(index)
    start = index * half
    last = [None, 0, None]  # model, number and bytes of the chunk that was fetched last
    for n in range(-(-length // BLOCK)):
        parts, data = [], bytearray()
        for at, size, what in pieces:
            begin, end = max(at, n * BLOCK), min(at + size, (n + 1) * BLOCK)
            if begin >= end:
                continue
            if isinstance(what, bytes):
                parts.append((-1, end - begin))
                data += what[begin - at : end - at]
            elif isinstance(what, int):
                parts.append((what + begin - at, end - begin))
            else:
                yield from _chunks(start, at, begin, end, (what, fetch, last), (parts, data))
        remote_push.write(index, n, parts, data)
        yield pause
    for at, size, what in pieces:
        if not _right(f.memory, start + at, size, what):
            raise RuntimeError("the flash does not hold what was written to it")
        yield pause
    _commit(index, start, length, base, names)
    return index


def _chunks(start, at, begin, end, source, block):
    """A generator: the bytes from begin to end of a model whose image begins at `at`, chunk by chunk: fetched,
    or where they are."""
    model, fetch, last = source
    parts, data = block
    while begin < end:
        k = (begin - at) // CHUNK
        first = at + k * CHUNK
        stop = min(end, first + CHUNK)
        if last[0] is not model or last[1] != k:
            place = start + first
            chunk = flash().memory[place : place + min(CHUNK, at + model["size"] - first)]
            if f"{crc32(chunk) & 0xFFFFFFFF:08x}" == model["chunks"][8 * k : 8 * k + 8]:
                parts.append((start + begin, stop - begin))  # where it is
                begin = stop
                continue
            chunk = yield from fetch(model, k)
            last[:] = model, k, chunk
        parts.append((-1, stop - begin))
        data.extend(last[2][begin - first : stop - first])
        begin = stop


def _right(memory, at, size, what):
    """Return whether a piece is in the flash as it was meant."""
    if isinstance(what, dict):
        return _sha(at, size) == what["sha256"]
    if isinstance(what, int):
        return crc32(memory[at : at + size]) == crc32(memory[what : what + size])
    return bytes(memory[at : at + size]) == what


def _commit(index, start, length, base, names):
    sequence = 1 + max([slots.Half(flash(), i).sequence for i in (0, 1)])
    on_trial = "\n".join(names).encode()
    if len(on_trial) > PAGE - struct.calcsize(COMMIT) - 4:
        on_trial = b""  # so all are tried
    flags = ON_TRIAL if names else 0
    crc = crc32(flash().memory[start : start + length])
    page = bytearray(b"\xff" * PAGE)
    head = struct.pack(COMMIT, MAGIC, sequence, length, crc, base[0], base[1], flags, len(on_trial)) + on_trial
    page[: len(head)] = head
    page[-4:] = struct.pack("<I", crc32(memoryview(page)[:-4]))
    remote_push._block = None
    try:
        remote_push.commit(index, page)
    except OSError as e:
        raise RuntimeError(e)


def trial(index: int) -> str | None:
    """Try a half that was committed, and have it at /rom. What is wrong, or None."""
    f = flash()
    half = slots.Half(f, index)
    if half.state == "trial":
        slots.try_half(half)
    if half.state == "trial":
        raise KeyboardInterrupt  # which has broken it off
    if half.state != "confirmed":
        return half.reason or half.state
    slots.mount(f, half)
    return None


def _sha(at, size):
    digest = hashlib.sha256()
    memory = flash().memory
    for begin in range(at, at + size, CHUNK):
        digest.update(memory[begin : min(begin + CHUNK, at + size)])
    return str(hexlify(digest.digest()), "ascii")


# --- the image: host_tools/mica/images/romfs.py says what it is -----------------------------------------


def _number(value, width=1):
    digits = [value & 0x7F]
    value >>= 7
    while value or len(digits) < width:
        digits.insert(0, value & 0x7F | 0x80)
        value >>= 7
    return bytes(digits)


def _layout(kept, new):
    """Pieces (offset in the image, bytes, content: bytes, an offset in the window, or a new model), and its length."""
    tree = {}
    for table in (kept, new):
        for path in table:
            folder = tree
            words = path.split("/")
            for word in words[:-1]:
                folder = folder.setdefault(word, {})
            size, what = table[path] if table is new else (table[path][1], table[path][0])
            folder[words[-1]] = (size, what)
    tag = b"\x01" + _number(len(TAG)) + TAG
    pieces = []
    begin = 3 + _WIDTH + len(tag)
    end = _entries(tree, begin, pieces)
    tail = b"\x01\x01\x00" if end % 2 else b""  # the format wants an even length
    head = b"\xd2\xcd\x31" + _number(end + len(tail) - 3 - _WIDTH, _WIDTH) + tag
    pieces.insert(0, (0, len(head), head))
    if tail:
        pieces.append((end, len(tail), tail))
    return pieces, end + len(tail)


def _entries(tree, at, pieces):
    """Lay a folder's entries out from `at` on; where they end."""
    for name in sorted(tree):
        node = tree[name]
        head = _number(len(name.encode())) + name.encode()
        begin = at + 1 + _WIDTH
        if isinstance(node, dict):
            inner = []
            end = _entries(node, begin + len(head), inner)
            head = b"\x04" + _number(end - begin, _WIDTH) + head
            pieces.append((at, len(head), head))
            pieces.extend(inner)
            at = end
            continue
        size, what = node
        data = b"\x02" + _number(size, _WIDTH)
        pad = -(begin + len(head) + len(data)) % _ALIGN
        if pad == 1:
            pad += _ALIGN
        if pad:
            head += b"\x01" + bytes((pad - 2,)) + b"\x00" * (pad - 2)
        head += data
        end = begin + len(head) + size
        head = b"\x05" + _number(end - begin, _WIDTH) + head
        pieces.append((at, len(head), head))
        if size:
            pieces.append((end - size, size, what))
        at = end
    return at
