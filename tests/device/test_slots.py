"""The two halves of the ROMFS window, on a flash of our own that loses power at every erasure and every write."""

from __future__ import annotations

import binascii
import struct
from collections.abc import Iterator

import pushed_models
import pytest

from mica.errors import MicaError, Unsupported
from mica.images import romfs
from mica.link import push
from mica.link.board import BoardError, Link
from mica.link.push import Pushed

HALF = 6 * romfs.BLOCK

# A flash that only clears bits, writes a page once, and loses power after `left` operations, in the midst of the next:
# `torn` says what became of that one. It has no power until the next boot.
FAKE = """
import sys, vfs
import mica

class PowerCut(BaseException):
    pass

class Fake:
    def __init__(self, size):
        self.store = bytearray(b"\\xff" * size)
        self.memory = memoryview(self.store)
        self.left = self.operations = 0
        self.torn = "all"
        self.dead = False

    def parts(self, size):
        if self.dead:
            raise PowerCut
        self.operations += 1
        self.left -= 1
        if self.left != -1:
            return 0, size
        self.dead = True
        first = min(256, size)
        return {"none": (0, 0), "front": (0, size // 2), "tail": (first, size), "all": (0, size)}[self.torn]

    def erase(self, at):
        assert at % 4096 == 0
        start, end = self.parts(4096)
        self.store[at + start : at + end] = b"\\xff" * (end - start)
        if self.dead:
            raise PowerCut

    def program(self, at, data):
        assert at % 256 == 0 and len(data) % 256 == 0
        if bytes(data) == b"\\x00" * 3 + b"\\xff" * 253:  # bits are cleared, and no others than these
            data = data[:3]
        elif not self.dead:
            assert self.store[at : at + len(data)] == b"\\xff" * len(data), "a page was written twice"
        start, end = self.parts(len(data))
        self.store[at + start : at + end] = data[start:end]
        if self.dead:
            raise PowerCut

tried = []

def test(path, key=None):
    with open(path, "rb") as f:
        data = f.read()
    tried.append(data[:4])
    if data[:4] == b"boom":
        raise MemoryError("no room")
    return "layer 3 gives other bytes" if data[:3] == b"bad" else None

def boot(left=-1, torn="all"):
    global slots, remote_push
    for name in ("slots", "remote_push"):
        sys.modules.pop("mica." + name, None)
        if name in mica.__dict__:
            delattr(mica, name)
    fake.dead = False
    fake.left = left
    fake.torn = torn
    try:
        vfs.umount("/rom")
    except OSError:
        pass
    try:
        # As every port does, before any program of ours.
        vfs.mount(vfs.VfsRom(fake.memory), "/rom")
    except OSError:
        pass
    from mica import slots
    slots.window = lambda: fake
    slots.test = test
    from mica import remote_push
    slots.boot()

def seen(name):
    try:
        with open("/rom/" + name, "rb") as f:
            return bytes(f.read())
    except OSError:
        return None
"""

OLD, GOOD, BAD, BOOM = (word + bytes(range(256)) * 20 for word in (b"old ", b"good", b"bad ", b"boom"))
SIDE = b"side" + bytes(range(255, -1, -1)) * 12


class Fake:
    """The board with such a flash."""

    def __init__(self, board: Link) -> None:
        self.board = board
        board.exec(FAKE + f"fake = Fake({2 * HALF})\nboot()")

    def boot(self, left: int = -1, torn: str = "all") -> None:
        self.board.exec(f"boot({left}, {torn!r})")

    def blank(self) -> None:
        self.board.exec('fake.store[:] = b"\\xff" * len(fake.store)')
        self.boot()

    def plain(self, image: bytes, at: int = 0) -> None:
        self.board.put(image, "image")
        self.board.exec(f"fake.store[{at}:{at} + len(image)] = image")
        self.boot()

    def put(self, left: int = -1, torn: str = "all", **files: bytes) -> Pushed:
        self.board.exec(f"fake.left = {left}\nfake.torn = {torn!r}")
        return push.push(self.board, {f"{name}.m": data for name, data in files.items()}, say=lambda message: None)

    def see(self, name: str) -> bytes | None:
        answer = self.board.exec(f"print(seen('{name}.m'))").decode().strip()
        return None if answer == "None" else bytes(eval(answer))

    def value(self, code: str) -> str:
        return self.board.exec(f"print({code})").decode().strip()

    @property
    def states(self) -> list[str]:
        return [half.state for half in push.listing(self.board).halves]


@pytest.fixture(scope="module")
def board_with_flash(unix_board_of_session: Link) -> Fake:
    unix_board_of_session.soft_reset()
    return Fake(unix_board_of_session)


@pytest.fixture
def fake(board_with_flash: Fake) -> Iterator[Fake]:
    """With an erased flash."""
    board_with_flash.blank()
    yield board_with_flash
    board_with_flash.board.exec("fake.left = -1\nfake.dead = False")


def test_both_sides_mean_the_same_bytes(fake: Fake) -> None:
    names = ("BLOCK", "PAGE", "COMMIT", "MAGIC", "TAG", "ON_TRIAL")
    ours = tuple(getattr(romfs, name) for name in names)
    assert fake.value(f"({', '.join('slots.' + name for name in names)})") == repr(ours)
    image = romfs.half_image({"a.m": OLD})
    page = romfs.commit_page(7, len(image), binascii.crc32(image), (5, 0xFFFFFFFF), ["a.m"])
    fake.plain(image, HALF)
    fake.plain(page, 2 * HALF - romfs.BLOCK)
    code = "(lambda h: (h.state, h.sequence, h.length, h.base, h.names))(slots.Half(fake, 1))"
    assert fake.value(code) == repr(("confirmed", 7, len(image), (5, 0xFFFFFFFF), ("a.m",)))
    assert fake.see("a") == OLD


@pytest.mark.parametrize("length", [0, 1, 16, 127, 128, 5000, 70000])
def test_places_are_where_the_data_are(length: int) -> None:
    files = {"a.m": bytes([7]) * length, "lib/b.m": b"b" * 300, "lib/deep/c": b"c"}
    for tag in (b"", romfs.TAG):
        image = romfs.build(files, tag=tag)
        found = {path: image[at : at + size] for path, (at, size) in romfs.places(image).items()}
        assert found == files
        assert (romfs.TAG in image[:32]) == bool(tag)


def test_one_after_the_other(fake: Fake) -> None:
    assert fake.see("a") is None
    for turn in range(5):
        data = bytes([turn]) + OLD
        done = fake.put(a=data)
        assert done.confirmed
        assert fake.see("a") == data
        if turn:  # without a reset the half of the one before last may be in use
            with pytest.raises(MicaError, match="may be in use since the last push; reset the board"):
                fake.put(a=GOOD)
        fake.boot()
        assert fake.see("a") == data
        assert fake.value("slots.status()[0]") == str(turn % 2)


@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_a_confirmed_half_whose_image_is_damaged(fake: Fake, place: str) -> None:
    """A bit of the flash has changed since: the commit is right, and its image is not."""
    for data in (OLD, GOOD):
        assert fake.put(a=data).confirmed
        fake.boot()
    length = push.listing(fake.board).halves[1].size
    at = HALF + {"first": 0, "middle": length // 2, "last": length - 1}[place]
    fake.board.exec(f"fake.store[{at}] ^= 0x10")
    fake.boot()
    assert (fake.states, fake.see("a")) == (["confirmed", "broken"], OLD)
    fake.board.exec(f"fake.store[{at}] ^= 0x10")
    fake.boot()
    assert (fake.states, fake.see("a")) == (["confirmed", "confirmed"], GOOD)


def test_side_by_side_and_away(fake: Fake) -> None:
    fake.put(a=OLD)
    fake.boot()
    done = fake.put(b=SIDE)
    assert done.sent < len(SIDE) + 300  # a was copied on the board
    fake.boot()
    assert (fake.see("a"), fake.see("b")) == (OLD, SIDE)
    assert fake.value("tried[-2:]") == repr([b"old ", b"side"])  # each once, when it was new
    push.remove(fake.board, "a.m", say=lambda message: None)
    fake.boot()
    assert (fake.see("a"), fake.see("b")) == (None, SIDE)
    with pytest.raises(MicaError, match=r"has no a\.m; there is b\.m"):
        push.remove(fake.board, "a.m", say=lambda message: None)
    push.remove(fake.board, "b.m", say=lambda message: None)
    fake.boot()
    assert push.listing(fake.board).files == []


def test_the_boundaries_of_halves(fake: Fake) -> None:
    room = HALF - romfs.BLOCK
    overhead = len(romfs.half_image({"a.m": bytes(room - 100)})) - (room - 100)
    fits = room - overhead
    while len(romfs.half_image({"a.m": bytes(fits)})) > room:
        fits -= 1
    assert fake.put(a=b"x" * fits).confirmed
    fake.boot()
    assert fake.see("a") == b"x" * fits
    with pytest.raises(
        Unsupported, match=r"20,5\d\d bytes are needed, 20,480 are there .*largest are a\.m \(20,4.*; mica rm"
    ):
        fake.put(b=b"y")
    assert fake.see("a") == b"x" * fits


def test_a_plain_image_counts_until_a_push(fake: Fake) -> None:
    image = romfs.rom_window_image({"a.m": OLD, "b.m": SIDE}, 2 * HALF)
    fake.plain(image)
    assert (fake.see("a"), fake.value("slots.status()[0]")) == (OLD, "plain")
    assert fake.put(a=GOOD).confirmed
    fake.boot()
    assert (fake.see("a"), fake.see("b"), fake.value("slots.status()[0]")) == (GOOD, SIDE, "1")
    # The same firmware once more changes nothing; another image is newer than the push.
    fake.plain(image)
    assert fake.see("a") == GOOD
    # Unless the halves' logs are erased with it, as mica flash --with does: then it is as before the push.
    fake.board.exec("pushed = bytes(fake.store)")
    for at, blank in romfs.blank_logs(len(image), 2 * HALF):
        fake.plain(blank, at)
    assert (fake.see("a"), fake.value("slots.status()[0]")) == (OLD, "plain")
    fake.board.exec("fake.store[:] = pushed")
    fake.plain(romfs.rom_window_image({"a.m": SIDE}, 2 * HALF))
    assert fake.see("a") == SIDE
    assert fake.put(c=OLD).confirmed
    fake.boot()
    assert fake.put(d=GOOD).confirmed  # over the plain image
    fake.boot()
    assert [fake.see(name) for name in "abcd"] == [SIDE, None, OLD, GOOD]
    # Over a half that was committed: its log is not of this image.
    fake.plain(romfs.rom_window_image({"a.m": BAD}, 2 * HALF))
    assert fake.see("a") == BAD


def test_a_plain_image_as_long_as_a_half(fake: Fake) -> None:
    """The image covers the place of the first half's log, and the second half is free."""
    image = romfs.rom_window_image({"a.m": bytes(HALF - 48)}, 2 * HALF)
    image = romfs.rom_window_image({"a.m": bytes(HALF - 48 + HALF - len(image))}, 2 * HALF)
    assert len(image) == HALF
    fake.plain(image)
    assert fake.value("slots.status()[0]") == "plain"
    assert fake.put(a=SIDE).confirmed
    fake.boot()
    assert (fake.see("a"), fake.value("slots.status()[0]")) == (SIDE, "1")


def test_only_a_plain_image_is_a_base(fake: Fake) -> None:
    """A commit has length and CRC-32 of the plain image that it replaces, else zeros."""
    image = romfs.rom_window_image({"a.m": OLD}, 2 * HALF)
    fake.plain(image)
    bases = []
    for data in (GOOD, SIDE):
        bases.append(push.listing(fake.board).base)
        assert fake.put(a=data).confirmed
        fake.boot()
        bases.append(eval(fake.value("slots.Half(fake, slots.mounted).base")))
    plain = (len(image), binascii.crc32(image))
    assert bases == [plain, plain, (0, 0), (0, 0)]


def test_a_plain_image_over_both_halves(fake: Fake) -> None:
    fake.plain(romfs.rom_window_image({"a.m": b"long" * (HALF // 3)}, 2 * HALF))
    assert fake.value("slots.status()[0]") == "plain"
    with pytest.raises(Unsupported, match="more than a half of its window"):
        fake.put(b=SIDE)
    assert fake.see("a") == b"long" * (HALF // 3)


@pytest.mark.parametrize("bad, reason", [(BAD, "layer 3 gives other bytes"), (BOOM, "MemoryError: no room")])
def test_what_fails_its_trial_is_not_used(fake: Fake, bad: bytes, reason: str) -> None:
    fake.put(a=OLD)
    fake.boot()
    done = fake.put(a=bad)
    assert not done.confirmed
    assert reason in done.reason
    assert fake.see("a") == OLD
    fake.boot()
    assert fake.see("a") == OLD
    assert fake.states == ["confirmed", "rejected"]
    assert reason in push.listing(fake.board).halves[1].reason
    # The way is free for the next one, also without a reset: nothing of the rejected half is in use.
    assert fake.put(a=bad).confirmed is False
    assert fake.put(a=GOOD).confirmed
    fake.boot()
    assert fake.see("a") == GOOD


def test_a_trial_that_is_broken_off_is_repeated(fake: Fake) -> None:
    """Ctrl-C is no verdict; a reset is one."""
    fake.put(a=OLD)
    fake.boot()
    fake.board.exec("def test(path, key=None): raise KeyboardInterrupt\nslots.test = test")
    assert not fake.put(a=GOOD).confirmed
    fake.board.exec("boot()")  # broken off again
    assert fake.see("a") == OLD
    fake.board.exec(FAKE[FAKE.index("def test") : FAKE.index("def boot")])
    fake.boot()
    assert fake.see("a") == GOOD
    fake.board.exec("def test(path, key=None): raise PowerCut\nslots.test = test")
    with pytest.raises(BoardError):
        fake.put(a=SIDE)
    fake.board.exec(FAKE[FAKE.index("def test") : FAKE.index("def boot")])
    assert b"the board was reset during the trial" in fake.board.exec("boot()")
    assert fake.see("a") == GOOD


def test_a_broken_transfer_goes_on(fake: Fake) -> None:
    fake.put(a=OLD)
    fake.boot()
    with pytest.raises(BoardError):
        fake.put(left=2, torn="front", a=GOOD, b=SIDE)
    fake.boot()
    whole = len(romfs.half_image({"a.m": GOOD, "b.m": SIDE}))
    done = fake.put(a=GOOD, b=SIDE)
    assert done.confirmed
    assert done.sent <= whole - 2 * romfs.BLOCK


def test_damage_is_noticed(fake: Fake) -> None:
    """A byte that the flash does not take: no commit."""
    fake.board.exec(
        "class Worn(Fake):\n"
        "    def program(self, at, data):\n"
        "        super().program(at, data)\n"
        "        if len(data) > 256: self.store[at + 99] ^= 1\n"
        f"good, fake = fake, Worn({2 * HALF})\nboot()"
    )
    try:
        with pytest.raises(BoardError, match="damaged on its way; push again"):
            fake.put(a=GOOD)
        fake.boot()
        assert fake.see("a") is None
        assert fake.states == ["empty", "empty"]
    finally:
        fake.board.exec("fake = good")


# What becomes of the flash when power fails at the operation `k` of a push,
# and again at the operation `j` of the boot after that; checked here, where a boot takes a millisecond.
# Prints what was seen at /rom after the last boot.
NESTED = """
def nested(good):
    before = bytes(fake.store)
    found = set()
    for torn in ("none", "front", "tail", "all"):
        j = 0
        while True:
            fake.store[:] = before
            try:
                boot(j, torn)
                cut = False
            except PowerCut:
                cut = True
                boot()
            found.add((seen("a.m"), seen("b.m")))
            if not cut:
                break
            j += 1
    fake.store[:] = before
    boot()
    found.add((seen("a.m"), seen("b.m")))
    for a, b in found:
        print("seen", a[:4] if a else a, b[:4] if b else b, (a, b) in good)
"""


@pytest.mark.parametrize("before", ["nothing", "plain", "half", "half and plain"])
@pytest.mark.parametrize("new", [GOOD, BAD], ids=["good", "bad"])
def test_power_cut_at_every_operation(fake: Fake, before: str, new: bytes) -> None:
    """After a power cut the old model or the new one is there whole, and never a faulty one; the next push succeeds."""
    fake.board.exec(NESTED)
    old = (None, None) if before == "nothing" else (OLD, SIDE)
    if before == "plain":
        fake.plain(romfs.rom_window_image({"a.m": OLD, "b.m": SIDE}, 2 * HALF))
    elif before == "half and plain":
        # The plain image is below what was pushed, and may not come back in pieces.
        fake.plain(romfs.rom_window_image({"a.m": b"gone" * 3000, "b.m": SIDE}, 2 * HALF))
        fake.put(a=OLD)
        fake.boot()
    elif before == "half":
        # The idle half holds what was rejected: that must not come back.
        fake.put(a=OLD, b=SIDE)
        fake.boot()
        fake.put(a=BAD)
        fake.boot()
    fake.board.exec("start = bytes(fake.store)")
    allowed = {old, (GOOD, old[1])} if new == GOOD else {old}
    fake.board.put(repr(allowed).encode(), "text")
    fake.board.exec("allowed = eval(text)")
    cuts = 0
    for torn in ("none", "front", "tail", "all"):
        k = 0
        while True:
            fake.board.exec("fake.store[:] = start\nboot()")
            try:
                fake.put(left=k, torn=torn, a=new)
                break
            except BoardError as error:
                assert "PowerCut" in error.traceback
            text = fake.board.exec("nested(allowed)").decode()
            lines = [line for line in text.splitlines() if line.startswith("seen")]
            assert lines and all(line.endswith(" True") for line in lines), (torn, k, lines)
            fake.boot()
            assert fake.put(a=new).confirmed == (new == GOOD)
            fake.boot()
            assert (fake.see("a"), fake.see("b")) == ((GOOD, old[1]) if new == GOOD else old)
            k += 1
        cuts += k
    assert cuts >= 4 * 5


@pytest.mark.parametrize("torn", ["none", "front", "tail", "all"])
def test_what_was_rejected_is_not_tried_again(fake: Fake, torn: str) -> None:
    """A rejected image is not tried again, even if the log with the rejection is half erased."""
    fake.put(a=OLD)
    fake.boot()
    fake.put(a=BAD)
    fake.boot()
    fake.board.exec("start = bytes(fake.store)\ntried.clear()")
    for k in range(3):  # the image's first block, the log, the image again; then it is committed
        fake.board.exec("fake.store[:] = start\nboot()")
        with pytest.raises(BoardError):
            fake.put(left=k, torn=torn, a=BAD)
        fake.boot()
        assert fake.see("a") == OLD
    assert fake.value("tried") == "[]"


def test_a_reason_that_was_cut_short_is_no_text(fake: Fake) -> None:
    """Bytes of a page that are still blank, or half written, before its end."""
    fake.put(a=OLD)
    fake.boot()
    fake.put(a=BAD)
    fake.board.exec("at = bytes(fake.store).index(b'rejected ') + 9\nfake.store[at : at + 4] = b'\\xff\\xfe\\x80a'")
    fake.boot()
    assert fake.see("a") == OLD
    assert fake.states == ["confirmed", "rejected"]
    assert push.listing(fake.board).halves[1].reason.startswith("???a")


def test_a_board_with_another_boot_gets_files(fake: Fake) -> None:
    """A runtime without our _boot.py gets files: its boot does not look at the halves, and may have mounted the
    window."""
    fake.board.exec("sys.modules['mica.later'].boots = False")
    try:
        assert push.listing(fake.board).place == "files"
    finally:
        fake.boot()
    assert push.listing(fake.board).place == "romfs"


PARTITION = """
class Partition(bytearray):
    log = []
    def ioctl(self, op, argument):
        self.log.append(("ioctl", op, argument))
    def writeblocks(self, block, data, offset):
        self.log.append(("write", block, offset, len(data)))
        at = block * 4096 + offset
        self[at : at + len(data)] = data

flash = slots._Flash(Partition(65536))
flash.erase(3 * 4096)
flash.program(3 * 4096 + 256, b"x" * 256)
print(Partition.log, len(flash.memory), bytes(flash.memory[3 * 4096 + 255 : 3 * 4096 + 257]))
"""


def test_a_partition_that_is_memory_and_a_block_device(fake: Fake) -> None:
    """As on rp2 and esp32: ioctl 6 erases the block of that number, and a write with an offset erases nothing."""
    said = fake.board.exec(PARTITION).decode().strip()
    assert said == f"{[('ioctl', 6, 3), ('write', 3, 256, 256)]} 65536 {bytes([0]) + b'x'}"


WINDOWS = """
sys.modules.pop("mica.slots", None)
delattr(mica, "slots")
from mica import slots
import vfs
class Port:
    def __init__(self, size):
        self.memory = memoryview(bytearray(size))
    def __getattr__(self, name):
        return getattr(vfs, name)
    def rom_ioctl(self, *words):
        return self.memory
for size in (3 * 4096, 4 * 4096 - 1, 4 * 4096, 5 * 4096):
    slots.vfs = Port(size)
    flash = slots.window()
    print(flash and len(flash.memory), end=" ")
"""


def test_a_window_has_room_for_two_halves(fake: Fake) -> None:
    """The last block of each half is its log, so two halves need four blocks."""
    assert fake.board.exec(WINDOWS).decode() == "None None 16384 20480 "


def test_marks_stand_where_earlier_firmware_looks(fake: Fake) -> None:
    """A half's log has the commit, then a page for the confirmation, one for the rejection, and the marks."""
    for new, pages in (
        (GOOD, (b"confirmed\n", b"\xff", b"begun\n")),
        (BAD, (b"\xff", b"rejected a.m: layer 3", b"begun\n")),
    ):
        fake.blank()
        fake.put(a=new)
        index = int(fake.value("[h[0] for h in slots.status()[1]].index('empty') ^ 1"))
        for page, text in enumerate(pages, 1):
            assert eval(fake.value(f"slots.Half(fake, {index}).page({page})")).startswith(text), (new[:4], page)


SELFTESTS = """
sys.modules.pop("mica.slots", None)
delattr(mica, "slots")
from mica import slots
for name in ("good", "bad", "none"):
    print(name, slots.test("/rom/" + name + ".mica"))
"""


def test_a_trial_runs_the_golden_vectors(fake: Fake) -> None:
    """One whose last layer gives other bytes is named with it; one without vectors has only to run."""
    models = {"good": pushed_models.good(1), "bad": pushed_models.bad(3), "none": pushed_models.good(4, vectors=0)}
    fake.plain(romfs.build({f"{name}.mica": data for name, data in models.items()}))
    said = fake.board.exec(SELFTESTS).decode().splitlines()
    assert said[0::2] == ["good None", "none None"] and said[1].startswith("bad layer "), said
    assert said[1].endswith(" gives other bytes than it should")


def test_random_bytes_are_no_half(fake: Fake) -> None:
    """A half counts only if the CRC-32s of its commit page and of its image agree."""
    image = romfs.half_image({"a.m": OLD})
    page = romfs.commit_page(1, len(image), binascii.crc32(image), (0, 0), None)
    fake.plain(image, HALF)
    for at in range(len(page)):
        fake.plain(page[:at] + bytes([page[at] ^ 4]) + page[at + 1 :], 2 * HALF - romfs.BLOCK)
        assert fake.value("slots.mounted") == "None", at
    for length in (0, HALF - romfs.BLOCK + 1, 0x7FFFFFFF, 0xFFFFFFFF):
        head = struct.pack(romfs.COMMIT, romfs.MAGIC, 1, length, 0, 0, 0, 0, 0).ljust(romfs.PAGE - 4, b"\xff")
        fake.plain(head + struct.pack("<I", binascii.crc32(head)), 2 * HALF - romfs.BLOCK)
        assert fake.value("slots.mounted") == "None", length
