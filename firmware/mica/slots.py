"""The two halves of the ROMFS window: which one is at /rom, and the trial of the one that was pushed last.

A half is an image, a ROMFS, and in its last block of 4096 bytes a log in pages of 256 (host_tools/mica/images/romfs.py
makes the first):

    0      commit: written last of a push; an image without it is not there
    1, 2   confirmed; rejected, with the reason
    3..15  "begun" or "ended", one page each trial and each trial that was broken off

Flash is erased by the block and written by the page, and a page is written once. Power can fail at any of these
operations, so what counts is only a page that reads as it should; the half that is at /rom is never written to. A half
whose last mark is "begun" was being tried when the board was reset: it is rejected. An image at the window's start
that is no half's (a combined firmware image, mpremote romfs deploy) is plain: it is newer than a half that was not
pushed on top of it.
"""

import struct
import sys
from binascii import crc32

import vfs

BLOCK = 4096
PAGE = 256
MAGIC = b"micaslot"
TAG = b"mica:half"  # in the first record of an image that is a half's
COMMIT = "<8sIIIIIII"  # magic; sequence; image bytes, CRC-32; plain image below: bytes, CRC-32; flags; bytes of names
ON_TRIAL = 1  # flag: to be tried; the names are those of the models to try, separated by \n, none: all

_ROMFS = b"\xd2\xcd\x31"
_CONFIRMED, _REJECTED, _MARKS = 1, 2, 3
_BLANK = b"\xff" * PAGE
_BROKEN_OFF = (Exception, KeyboardInterrupt)  # made where it is used, it would take memory there

used = 0  # halves whose files a program may have open, by bits: they were at /rom since the last reset
mounted: int | str | None = None  # 0 or 1, "plain", or None


class _Flash:
    """A block device that is memory as well: rp2's and esp32's partition."""

    def __init__(self, device):
        self._device = device
        self.memory = memoryview(device)

    def erase(self, at):
        self._device.ioctl(6, at // BLOCK)

    def program(self, at, data):
        self._device.writeblocks(at // BLOCK, data, at % BLOCK)


class _Emulated:
    """A window of memory that is written through rom_ioctl."""

    def __init__(self, memory):
        self.memory = memory

    def erase(self, at):
        blank = b"\xff" * PAGE
        for page in range(at, at + BLOCK, PAGE):
            vfs.rom_ioctl(4, 0, page, blank)

    def program(self, at, data):
        vfs.rom_ioctl(4, 0, at, data)


def window() -> Any:
    """The flash behind /rom: .memory, .erase(offset), .program(offset, data). None where there is none."""
    if not hasattr(vfs, "rom_ioctl"):
        return None
    segment = vfs.rom_ioctl(2, 0)
    if isinstance(segment, int):
        return None
    flash = _Flash(segment) if hasattr(segment, "writeblocks") else _Emulated(segment)
    return flash if len(flash.memory) >= 4 * BLOCK else None


class Half:
    """A half as it is in flash. `state` is empty, broken, trial, confirmed or rejected."""

    def __init__(self, flash: Any, index: int) -> None:
        self.flash = flash
        self.index = index
        self.size: int = len(flash.memory) // (2 * BLOCK) * BLOCK
        self.start: int = index * self.size
        self.log: int = self.start + self.size - BLOCK
        self.sequence = self.length = 0
        self.base: tuple[int, int] = (0, 0)
        self.names: tuple[str, ...] = ()
        self.reason = ""
        self.begun = False
        self.state: str = self._read()

    def page(self, index: int) -> bytes:
        return bytes(self.flash.memory[self.log + index * PAGE : self.log + (index + 1) * PAGE])

    def _read(self):
        page = self.page(0)
        if page == _BLANK:
            return "empty"
        magic, sequence, length, crc, base_length, base_crc, flags, n = struct.unpack_from(COMMIT, page)
        if magic != MAGIC or crc32(page[:-4]) != struct.unpack("<I", page[-4:])[0]:
            return "broken"
        if not 0 < length <= self.size - BLOCK or crc32(self.flash.memory[self.start : self.start + length]) != crc:
            return "broken"
        self.sequence: int = sequence
        self.length: int = length
        self.base = (base_length, base_crc)
        at = struct.calcsize(COMMIT)
        self.names = tuple(page[at : at + n].decode().split("\n")) if n else ()
        rejected, end, _ = self.page(_REJECTED).partition(b"\n")
        if end and rejected.startswith(b"rejected "):
            self.reason = "".join(
                [chr(c) if 32 <= c < 127 else "?" for c in rejected[9:]]
            )  # a reset may have cut it short
            return "rejected"
        if not flags & ON_TRIAL or self.page(_CONFIRMED).startswith(b"confirmed\n"):
            return "confirmed"
        for i in range(_MARKS, BLOCK // PAGE):
            mark = self.page(i)
            if mark.startswith(b"begun\n"):
                self.begun = True
            elif mark.startswith(b"ended\n"):
                self.begun = False
        return "trial"

    def write(self, index: int, text: str) -> None:
        """Write a page of the log: a line of ASCII. One that a reset has cut short has no end."""
        text = "".join(c if " " <= c <= "~" else "?" for c in text[: PAGE - 1]) + "\n"
        page = bytearray(_BLANK)
        page[: len(text)] = text.encode()
        self.flash.program(self.log + index * PAGE, page)

    def mark(self, text: str) -> bool:
        """Write the next blank page of the marks; False where there is none left."""
        for i in range(_MARKS, BLOCK // PAGE):
            if self.page(i) == _BLANK:
                self.write(i, text)
                return True
        return False

    def reject(self, reason: str) -> None:
        self.state = "rejected"
        self.reason = reason
        if self.page(_REJECTED) == _BLANK:
            self.write(_REJECTED, "rejected " + reason)

    def image(self) -> memoryview:
        return self.flash.memory[self.start : self.start + self.length]


def plain(flash: Any) -> int:
    """Bytes of the plain image at the window's start; 0 where there is none."""
    head = bytes(flash.memory[:32])
    if not head.startswith(_ROMFS) or TAG in head:
        return 0
    length = 0
    for i in range(3, 9):
        length = length << 7 | head[i] & 0x7F
        if head[i] < 0x80:
            length += i + 1
            return length if length <= len(flash.memory) else 0
    return 0


def candidates(flash: Any) -> list[Half | str]:
    """Candidates for /rom, the best first: halves that are confirmed or on trial, and "plain"."""
    halves = [Half(flash, 0), Half(flash, 1)]
    found = [h for h in halves if h.state in ("confirmed", "trial")]
    found.sort(key=lambda h: -h.sequence)
    length = 0 if halves[0].state not in ("empty", "broken") else plain(flash)
    if length:
        # Half 0 is not there: at most half 1 is.
        known = found and found[0].base == base(flash, length)
        found.insert(1 if known else 0, "plain")
    return found


def base(flash: Any, length: int) -> tuple[int, int]:
    """Length and CRC-32 of the plain image. The commit of a half names them if the half replaces this image."""
    return (length, crc32(flash.memory[:length]) if length else 0)


def boot(flash: Any | None = None) -> None:
    """Mount the right image at /rom. A half that has never been tried is tried first."""
    flash = flash or window()
    if flash is None:
        return
    sys.modules["mica.later"].boots = True
    mount(flash, None)  # the port may have mounted what is not to be there
    for found in candidates(flash):
        if found != "plain" and found.state == "trial":
            try:
                try_half(found)
            except Exception as e:
                print("mica: the trial of what was pushed last was broken off:", type(e).__name__, e)
            if found.state == "rejected":
                print("mica: what was pushed last was rejected:", found.reason)
            if found.state != "confirmed":
                continue
        mount(flash, found)
        return


def boot_board() -> None:
    """Entry point of a board's _boot.py. If nothing is mounted at /rom, this module leaves memory again."""
    try:
        boot()
    except Exception as e:
        print("mica: nothing is at /rom:", e)
    if mounted is None:
        package = sys.modules["mica"]
        del sys.modules[__name__]
        package.slots = sys.modules["mica.later"].later("slots")


def mount(flash: Any, found: Half | str | None) -> None:
    """Mount a half, "plain" or nothing (None) at /rom, in place of the image that is there."""
    global mounted, used
    _unmount("/rom")
    mounted = None
    if found is None:
        # The port takes any image at the window's start for /rom, unless there is one.
        if TAG in bytes(flash.memory[:32]):
            vfs.mount(vfs.VfsRom(_ROMFS + b"\x00"), "/rom")
        return
    # A plain image may be longer than a half.
    vfs.mount(vfs.VfsRom(flash.memory if found == "plain" else found.image()), "/rom")
    for path in ("/rom", "/rom/lib"):
        if path not in sys.path:
            sys.path.append(path)
    if found == "plain":
        mounted = found
        used |= 1 if plain(flash) <= len(flash.memory) // (2 * BLOCK) * BLOCK else 3
    else:
        mounted = found.index
        used |= 1 << mounted


def try_half(half: Half, key: bytes | None = None) -> bool:
    """The trial: every model that the half brings has to pass its self-test. Returns whether it is confirmed.

    What is at /rom stays there. Ctrl-C, and what is raised outside of the models' tests,
    leaves the half on trial: only a reset rejects it.
    """
    if half.begun:
        half.reject("the board was reset during the trial")
        return False
    try:
        if not half.mark("begun"):
            half.reject("the trial was broken off too often")
            return False
        problem = _problem(half, key)
        if problem:
            half.reject(problem)
        else:
            half.write(_CONFIRMED, "confirmed")
            half.state = "confirmed"
    except _BROKEN_OFF as e:
        half.mark("ended")
        if isinstance(e, Exception):
            raise
    return half.state == "confirmed"


def _problem(half, key):
    """Return a line about what is wrong with the models of a half, or None."""
    where = "/mica_trial"
    try:
        _unmount(where)  # one that was broken off may have left it
        vfs.mount(vfs.VfsRom(half.image()), where)
        try:
            for path in half.names or models(where):
                if path[0] != "/":
                    path = where + "/" + path
                problem = test(path, key)
                if problem:
                    return f"{path[len(where) + 1 :]}: {problem}"
        finally:
            vfs.umount(where)
    except Exception as e:
        return f"{type(e).__name__}: {e}"
    return None


def _unmount(where):
    try:
        vfs.umount(where)
    except OSError:
        pass


def models(folder: str) -> list[str]:
    """Paths of all .mica files in a folder and those in it."""
    found = []
    for entry in vfs.ilistdir(folder):
        path = folder + "/" + entry[0]
        if entry[1] & 0x4000:
            found += models(path)
        elif path.endswith(".mica"):
            found.append(path)
    return found


def test(path: str, key: bytes | None = None) -> str | None:
    """Test the model at `path`, and its signature if there is a key. Return None, or a line about its fault. A model
    without golden vectors must load and run once."""
    from mica.model import Model

    with Model(path, key=key) as m:
        if m._m.info.n_golden:
            bad = m.selftest()
            return bad and f"layer {bad.name} gives other bytes than it should"
        for i in range(len(m.input_shape)):
            view = m.input(i)
            for k in range(len(view)):
                view[k] = 0
        m.run()
        return None


def status() -> tuple[int | str | None, tuple[tuple[str, int, int, str], ...]] | None:
    """State of /rom and of both halves: (mounted, ((state, sequence, bytes, reason), ...)); None without a window."""
    flash = window()
    if flash is None:
        return None
    halves = (Half(flash, 0), Half(flash, 1))
    return mounted, tuple((h.state, h.sequence, h.length, h.reason) for h in halves)
