"""The power cut: every state of flash that pushes and saves can reach, whichever operations power fails in.

The board's own code runs here: firmware/mica/slots.py and remote_push.py on a flash of pages, learn.py on files. Power
fails in any erasure or program, also in those of the boot that follows and of the next try; `TORN` is what becomes of
the operation in which it fails. States that were seen before are not followed again.
"""

from __future__ import annotations

import binascii
import hashlib
import struct
import sys
import types
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Any

from words import Tree

from mica.images import romfs

BLOCK, PAGE = romfs.BLOCK, romfs.PAGE
HALF = 2 * BLOCK  # an image of one block, and the log
TORN: tuple[Callable[[bytes, bytes], bytes], ...] = (
    lambda old, new: old,
    lambda old, new: new[: len(new) // 2] + old[len(new) // 2 :],
    lambda old, new: old[: len(old) // 2] + new[len(old) // 2 :],
    lambda old, new: bytes(a if k % 2 else b for k, (a, b) in enumerate(zip(old, new, strict=True))),
    lambda old, new: new,
)
EVERY, HALVES = (0, 1, 2, 3, 4), (0, 1, 2, 4)


class PowerCut(BaseException):
    pass


class Flash:
    """slots.window(): memory, erase, program. Power fails in operation `left` from now; `torn` says its result."""

    def __init__(self, store: bytes, left: int = -1, torn: int = 0) -> None:
        self.memory = memoryview(bytearray(store))
        self.left, self.torn = left, torn

    def _become(self, at: int, new: bytes) -> None:
        if self.left == 0:
            old = bytes(self.memory[at : at + len(new)])
            self.memory[at : at + len(new)] = TORN[self.torn](old, new)
            raise PowerCut
        self.left -= 1
        self.memory[at : at + len(new)] = new

    def erase(self, at: int) -> None:
        assert at % BLOCK == 0
        self._become(at, b"\xff" * BLOCK)

    def program(self, at: int, data: Any) -> None:
        data = bytes(data)
        there = bytes(self.memory[at : at + len(data)])
        assert at % PAGE == 0 and len(data) % PAGE == 0
        assert there == b"\xff" * len(data), "a page was written twice"
        self._become(at, data)


def module(tree: Tree, path: str, name: str, **given: Any) -> types.ModuleType:
    """A module of the board, with other modules in the place of those of MicroPython."""
    made = types.ModuleType(name)
    source = "from __future__ import annotations\n" + tree.read(path)
    before = {key: sys.modules.get(key) for key in given}
    sys.modules.update(given)
    sys.modules[name] = made
    try:
        made.__package__ = name.rpartition(".")[0]
        exec(compile(source, path, "exec"), made.__dict__)
    finally:
        for key, value in before.items():
            if value is None:
                del sys.modules[key]
            else:
                sys.modules[key] = value
    return made


def image(word: bytes) -> bytes:
    return romfs.half_image({"m": word + bytes(range(64))})


def is_bad(data: bytes) -> bool:
    return b"bad " in data


@dataclass
class Board:
    """Hold the contents of flash, and the images that a user was told are confirmed."""

    slots: types.ModuleType
    push: types.ModuleType
    pushed: bytes = b""
    torn: tuple[int, ...] = EVERY

    def start(self, flash: Flash) -> bytes | None:
        """A boot; returns the image at /rom."""
        self.slots.mounted, self.slots.used = None, 0
        self.slots.window = lambda: flash
        self.slots.boot(flash)
        at = self.slots.mounted
        return None if at is None else bytes(self.slots.Half(flash, at).image())

    def send(self, flash: Flash, data: bytes) -> None:
        """A push, as mica.link.push does it, into the half that is not in use."""
        index = 0 if self.slots.mounted == 1 else 1 if self.slots.mounted == 0 else 0
        number = 1 + max(self.slots.Half(flash, k).sequence for k in (0, 1))
        self.push._block = None
        self.push.begin(index)
        self.push.write(index, 0, [(-1, len(data))], data)
        page = romfs.commit_page(number, len(data), binascii.crc32(data), (0, 0), [])
        self.push.commit(index, page)
        self.push.trial(index)


def board(tree: Tree) -> Board:
    vfs = types.ModuleType("vfs")
    vfs.mount = vfs.umount = lambda *args: None  # type: ignore[attr-defined]
    vfs.VfsRom = bytes  # type: ignore[attr-defined]
    slots = module(tree, "firmware/mica/slots.py", "proof_slots", vfs=vfs)
    # As a board has it: this computer's own path and modules stay as they are.
    own = types.SimpleNamespace(path=["/rom", "/rom/lib"], modules={"mica.later": types.SimpleNamespace()})
    slots.sys = own  # type: ignore[attr-defined]
    slots.print = slots_print = lambda *args: None  # type: ignore[attr-defined]
    slots._problem = lambda half, key: "bad" if is_bad(bytes(half.image())) else None  # type: ignore[attr-defined]
    import mica

    before = mica.__dict__.get("slots")
    mica.slots = slots  # type: ignore[attr-defined]
    try:
        push = module(tree, "firmware/mica/remote_push.py", "proof_push", **{"mica.slots": slots})
    finally:
        del mica.slots  # type: ignore[attr-defined]
        if before is not None:
            mica.slots = before  # type: ignore[attr-defined]
    push.print = slots_print  # type: ignore[attr-defined]
    return Board(slots, push)


def alike(slots: types.ModuleType, store: bytes, new: bytes) -> tuple[object, ...]:
    """Return the facts that slots.py and remote_push.py tell apart.

    Of a half without a commit: whether log and image are blank, or the image the new one. Of another: the image, and
    the word of each further page, as torn ones are all the same.
    """
    words = (b"confirmed\n", b"begun\n", b"ended\n", b"\xff" * PAGE)
    key: list[object] = []
    for k in (0, 1):
        half = slots.Half(Flash(store), k)
        pages = [half.page(i) for i in range(BLOCK // PAGE)]
        if half.state in ("empty", "broken"):
            there = store[half.start : half.log]
            key += [half.state, b"".join(pages) == b"\xff" * BLOCK, there == b"\xff" * len(there)]
            key.append(there[: len(new)] == new and not there[len(new) :].strip(b"\xff"))
        else:
            key += [pages[0], pages[2].startswith(b"rejected ") and b"\n" in pages[2]]
            key += [next((w for w in words if page.startswith(w)), b"") for page in pages[1:]]
    return tuple(key)


@dataclass
class Search:
    """All states of flash between two confirmed pushes."""

    board: Board
    old: bytes | None  # what is confirmed
    new: bytes  # what is pushed, until a boot or a trial has decided on it
    seen: set[object] = field(default_factory=set)
    problem: str | None = None

    def cuts(self, store: bytes, action: Callable[[Flash], None]) -> Iterator[bytes]:
        """States in which power fails while `action` runs on this flash."""
        for left in range(64):
            for torn in self.board.torn:
                flash = Flash(store, left, torn)
                try:
                    action(flash)
                except PowerCut:
                    yield bytes(flash.memory)
                else:
                    return

    def run(self, start: bytes) -> dict[bytes, bytes | None]:
        """Follow all states; returns those in which a push ended, and what is at /rom."""
        ended: dict[bytes, bytes | None] = {}
        waiting = [start]
        while waiting and self.problem is None:
            store = waiting.pop()
            known = alike(self.board.slots, store, self.new)
            if known in self.seen:
                continue
            self.seen.add(known)
            flash = Flash(store)
            there = self.board.start(flash)
            self._judge(there)
            waiting += self.cuts(store, self.board.start)
            settled = bytes(flash.memory)
            if self._decided(flash, there):
                ended[settled] = there
                continue
            waiting += self._cuts_of_send(settled)
            flash = Flash(settled)
            self.board.start(flash)
            self.board.send(flash, self.new)
            after = self.board.start(flash)
            expected = self.old if is_bad(self.new) else self.new
            if after != expected:
                self.problem = f"after a push /rom is {_name(after)}, not {_name(expected)}"
            ended[bytes(flash.memory)] = after
        return ended

    def _cuts_of_send(self, settled: bytes) -> Iterator[bytes]:
        self.board.start(Flash(settled))
        at, used = self.board.slots.mounted, self.board.slots.used

        def send(flash: Flash) -> None:
            self.board.slots.mounted, self.board.slots.used = at, used
            self.board.slots.window = lambda: flash
            self.board.send(flash, self.new)

        return self.cuts(settled, send)

    def _decided(self, flash: Flash, there: bytes | None) -> bool:
        """Return True if the boot has confirmed or rejected the pushed image: nobody pushes it again."""
        slots = [self.board.slots.Half(flash, k) for k in (0, 1)]
        waits = [
            h for h in slots if h.state in ("rejected", "trial")
        ]  # after a boot no trial is left: its rejection is torn
        return there == self.new or any(bytes(h.image()) == self.new for h in waits)

    def _judge(self, there: bytes | None) -> None:
        allowed = {self.old} | (set() if is_bad(self.new) else {self.new})
        if there not in allowed:
            self.problem = f"/rom is {_name(there)} where {_name(self.old)} was confirmed and {_name(self.new)} pushed"


def _name(data: bytes | None) -> str:
    return (
        "nothing"
        if data is None
        else repr(data[data.index(bytes(range(64))) - 4 :][:4])
        if bytes(range(64)) in data
        else "torn"
    )


def pushes(made: Board, images: list[bytes]) -> str | None:
    """Push one image after the other, each tried again after any cut."""
    states: dict[bytes, bytes | None] = {b"\xff" * (2 * HALF): None}
    for new in images:
        seen: dict[bytes | None, set[object]] = {}
        ended: dict[bytes, bytes | None] = {}
        for start, old in states.items():
            search = Search(made, old, new, seen.setdefault(old, set()))
            ended |= search.run(start)
            if search.problem:
                return search.problem
        states = ended
    return None


def explored(tree: Tree, made: Board, images: list[bytes]) -> str | None:
    """Push them all with every torn page; or with a part two with every one, and all with whole halves of pages."""
    if tree.whole:
        return pushes(made, images)
    return pushes(made, images[:2]) or pushes(replace(made, torn=HALVES), images)


WORDS = (b"one ", b"bad ", b"two ")


def halves(tree: Tree) -> str | None:
    """Pushes of a good image, a bad one and a good one."""
    return explored(tree, board(tree), [image(word) for word in WORDS])


# --- a fleet's models, which the board writes itself ------------------------------------------------------


@dataclass
class FleetBoard(Board):
    """The same with firmware/mica_fleet/rom.py, which fetches a model in chunks and lays its image out."""

    rom: Any = None
    models: dict[bytes, bytes] = field(default_factory=dict)  # image -> its model

    def send(self, flash: Flash, data: bytes) -> None:
        model = self.models[data]
        try:
            index = self._write(model)
        except self.rom.InUse:  # the agent resets the board, and the desired state comes again
            self.start(flash)
            index = self._write(model)
        self.rom.trial(index)

    def _write(self, model: bytes) -> int:
        def fetch(_: object, n: int) -> Generator[bool, None, bytes]:
            yield False
            return model[n * self.rom.CHUNK : (n + 1) * self.rom.CHUNK]

        work = self.rom.write([described(model)], [], fetch, True)
        while True:
            try:
                next(work)
            except StopIteration as end:
                assert isinstance(end.value, int), end.value
                return end.value


def described(model: bytes) -> dict[str, Any]:
    """A model of a fleet's desired state, of one chunk."""
    digest, crc = hashlib.sha256(model).hexdigest(), f"{binascii.crc32(model):08x}"
    return {"name": "m.mica", "size": len(model), "sha256": digest, "chunks": crc}


def fleet(tree: Tree) -> str | None:
    """Three desired states, each with one model in the place of the last one."""
    plain = board(tree)
    package = types.ModuleType("mica")
    package.slots, package.remote_push = plain.slots, plain.push  # type: ignore[attr-defined]
    rom = module(tree, "firmware/mica_fleet/rom.py", "proof_rom", **{
        "mica": package, "mica.slots": plain.slots, "mica.remote_push": plain.push,
    })  # fmt: skip
    rom.files = dict  # type: ignore[attr-defined]  # none stays but the model that is replaced
    rom.flash = lambda: plain.slots.window()  # type: ignore[attr-defined]
    made = FleetBoard(plain.slots, plain.push, rom=rom)
    for word in WORDS:
        model = word + bytes(range(64))
        pieces, _ = rom._layout({}, {"m.mica": (len(model), described(model))})
        made.models[b"".join(what if isinstance(what, bytes) else model for _, _, what in pieces)] = model
    return explored(tree, made, list(made.models))


# --- the learner's two files -----------------------------------------------------------------------------


class Files:
    """Two files; power fails behind `left` bytes that are written. A file opened for writing is empty at once."""

    def __init__(self, there: dict[str, bytes], left: int) -> None:
        self.there, self.left = dict(there), left

    def open(self, name: str, mode: str) -> Any:
        if mode == "rb":
            if name not in self.there:
                raise OSError(2, "no such file")
            return BytesIO(self.there[name])
        self.there[name] = b""
        return _Writer(self, name)


class _Writer:
    def __init__(self, files: Files, name: str) -> None:
        self.files, self.name = files, name

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *args: object) -> None:
        pass

    def write(self, data: Any) -> int:
        data = bytes(data)
        if self.files.left < len(data):
            self.files.there[self.name] += data[: self.files.left]
            raise PowerCut
        self.files.left -= len(data)
        self.files.there[self.name] += data
        return len(data)


def learner(tree: Tree) -> str | None:
    """Three saves, each tried again after a cut behind any byte: the state saved last is found, or the new one."""
    package = types.ModuleType("proof_learn")
    package.__path__ = []
    given = {"proof_learn": package, "_mica": types.ModuleType("_mica")}
    heads = module(tree, "firmware/mica/heads.py", "proof_learn.heads")
    learn = module(tree, "firmware/mica/learn.py", "proof_learn.learn", **given, **{"proof_learn.heads": heads})

    def state(k: int) -> bytes:
        """Only the header's first words count here: magic, and how many bytes there are."""
        head = bytearray(heads.HEAD)
        body = bytes([k]) * 5
        struct.pack_into("<4sIII", head, 0, b"mlrn", 0, len(head) + len(body), 0)
        return bytes(head) + body

    def put(files: Files, k: int) -> None:
        learn.open = files.open  # type: ignore[attr-defined]
        new = state(k)
        learn._put("s", bytearray(new[: heads.HEAD]), lambda: (new[heads.HEAD :],))

    def found(there: dict[str, bytes]) -> bytes | None:
        learn.open = Files(there, 0).open  # type: ignore[attr-defined]
        slot = learn._slot("s")
        return None if slot is None else there[slot][heads.HEAD :]

    states: list[dict[str, bytes]] = [{}]
    old: bytes | None = None
    for k in range(1, 4):
        new = state(k)
        seen: set[tuple[tuple[str, bytes], ...]] = set()
        done: dict[tuple[tuple[str, bytes], ...], dict[str, bytes]] = {}
        while states:
            there = states.pop()
            key = tuple(sorted(there.items()))
            if key in seen:
                continue
            seen.add(key)
            if found(there) not in (old, new[heads.HEAD :]):
                return f"save {k} was cut, and {found(there)!r} is found"
            for left in range(len(new)):
                files = Files(there, left)
                try:
                    put(files, k)
                except PowerCut:
                    states.append(files.there)
            files = Files(there, len(new))
            put(files, k)
            if found(files.there) != new[heads.HEAD :]:
                return f"save {k} ended, and {found(files.there)!r} is found"
            done[tuple(sorted(files.there.items()))] = files.there
        states, old = list(done.values()), new[heads.HEAD :]
    return None
