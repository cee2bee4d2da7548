"""Pushes of a fleet into the halves of a ROMFS window: on a flash of our own that loses power at every operation,
and over a broker."""

from __future__ import annotations

import json
import struct
import subprocess
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import DEMO, Join
from test_fleet_push import QUICK, Watch, wait_until

from mica.boards import load_board
from mica.cli.main import main
from mica.images import romfs
from mica_fleet.desired import blob, board_key, chunks, encode_want
from mica_fleet.member import firmware
from mica_fleet.push import Fleet, push, rollback
from mica_fleet.site import Site

HALF = 6 * romfs.BLOCK
FLEET_KEY = "3c" * 32
NOTE = b"what stays" * 50

# A window in RAM, and in a file where there is one, whose flash only clears bits.
FLASH = """
import json, os, sys, mica, mica.slots as slots, mica_fleet, mica_fleet.push as p
class Flash:
    def __init__(self, store, path=None):
        self.store = bytearray(store)
        self.memory = memoryview(self.store)
        self.path = path
    def operation(self, size):
        return 0, size
    def erase(self, at):
        assert at % 4096 == 0
        begin, end = self.operation(4096)
        self.store[at + begin : at + end] = b"\\xff" * (end - begin)
        self.done()
    def program(self, at, data):
        assert at % 256 == 0 and len(data) % 256 == 0
        begin, end = self.operation(len(data))
        for i in range(begin, end):
            self.store[at + i] &= data[i]
        self.done()
    def done(self):
        if self.path:
            with open(self.path + ".new", "wb") as f:
                f.write(self.store)
            os.rename(self.path + ".new", self.path)
"""

# Lives of one board, in one process: power is cut at the n-th operation on flash or file, for every n, and comes back.
LIVES = (
    FLASH
    + """
from binascii import crc32
class PowerCut(BaseException):
    pass
class Over(BaseException):
    pass
class Cut(Flash):
    left, torn, dead = -1, "none", False
    def operation(self, size):
        if self.dead:
            raise PowerCut
        self.left -= 1
        if self.left != 0:
            return 0, size
        self.dead = True
        return {"none": (0, 0), "front": (0, size // 2), "tail": (size // 2, size), "all": (0, size)}[self.torn]
    def done(self):
        if self.dead:
            raise PowerCut
class File:
    def __init__(self, f):
        self.f = f
        self.read = f.read
    def __enter__(self):
        return self
    def __exit__(self, *_):
        self.f.close()
    def write(self, data):
        begin, end = flash.operation(len(data))
        self.f.write(data[begin:end])
        flash.done()
class Os:
    stat = os.stat
    def remove(path):
        os.stat(path)
        flash.operation(0)
        flash.done()
        os.remove(path)
    def rename(a, b):
        flash.operation(0)
        flash.done()
        os.rename(a, b)
p.os = Os
p.open = lambda path, mode="r": File(open(path, mode))
slots.window = lambda: flash
class Wire:
    sock = None
    def __init__(self):
        self.inbox = []
    def set_callback(self, f):
        self.on_message = f
    def set_last_will(self, *_, **__):
        pass
    def connect(self):
        pass
    def ping(self):
        pass
    def subscribe(self, topic, qos=0):
        global fetched
        if topic.endswith(b"/want"):
            self.inbox.append((topic, wants[0]))
        elif b"/blob/" in topic:
            fetched += 1
            with open(str(topic, "ascii").split("/blob/")[1].replace("/", "."), "rb") as f:
                self.inbox.append((topic, f.read()))
    def publish(self, topic, message, retain=False, qos=0):
        if topic.endswith("/have"):
            have = json.loads(message)
            if have["generation"] == generation[0] and have["verdict"] in ("confirmed", "rejected"):
                said.append(have["verdict"] + " " + have["reason"])
                raise Over
    def check_msg(self):
        if self.inbox:
            topic, message = self.inbox.pop(0)
            self.on_message(bytes(topic), memoryview(message))
def crc_of(path):
    with open(path, "rb") as f:
        return crc32(f.read())
def live():
    "One life: until power is cut, or the board has said what came of it."
    flash.dead = False
    slots.used, slots.mounted = 0, None
    sys.modules["mica.later"].boots = False
    try:
        slots.boot(flash)
        whole.append(crc_of("/rom/digits.mica"))
        mica_fleet.Agent(settings, Wire()).serve()
    except PowerCut:
        return False
    except Over:
        return True
    except SystemExit:  # a reset that it asked for
        return False
with open("plan") as f:
    plan = json.load(f)
settings = plan["settings"]
with open("flash", "rb") as f:
    first = f.read()
for torn in plan["torn"]:
    n = 0
    while True:
        n += 1
        flash = Cut(first)
        flash.left, flash.torn = n, torn
        for name in (p.HAVE, p.HAVE + ".new"):
            try:
                os.remove(name)
            except OSError:
                pass
        whole, said, fetched, lives = [], [], 0, 0
        wants, generation = [], []
        for number, g in enumerate(plan["generations"]):
            with open("want%d" % number, "rb") as f:
                wants[:] = [f.read()]
            generation[:] = [g]
            while not live():
                lives += 1
                assert lives < 9, said
            if said[-1].startswith("confirmed") and not plan["all"]:
                break
        cut = flash.left <= 0
        slots.boot(flash)
        there = {path: crc_of("/rom/" + path) for path in plan["paths"] if path in os.listdir("/rom") or "/" in path}
        print("mica: " + json.dumps([torn, n, cut, lives, said, whole, fetched, there]))
        if not cut:
            break
"""
)

# A board with a window in a file, that connects to a broker.
BOARD = (
    FLASH
    + """
with open("flash", "rb") as f:
    flash = Flash(f.read(), "flash")
slots.window = lambda: flash
slots.boot(flash)
mica_fleet.run()
"""
)


def window(files: dict[str, bytes], rubbish: bool = False) -> bytes:
    """A window whose first half has these files, confirmed."""
    image = romfs.half_image(files)
    page = romfs.commit_page(3, len(image), zlib.crc32(image), (0, 0), None)
    first = image.ljust(HALF - romfs.BLOCK, b"\xff") + page.ljust(romfs.BLOCK, b"\xff")
    return first + (b"\x5a" if rubbish else b"\xff") * HALF


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """digits with golden vectors."""
    path = tmp_path_factory.mktemp("newer") / "digits.mica"
    assert main(["pack", str(DEMO / "digits.onnx"), "--plain", "--golden", "3", "-o", str(path)]) == 0
    return path.read_bytes()


def lives(folder: Path, flash: bytes, wants: list[dict[str, bytes | None]], **plan: Any) -> list[list[Any]]:
    """Rows that the boards of LIVES print: torn, n, True after a power cut, lives, verdicts, CRC-32 at /rom after each
    boot, chunks, files at the end."""
    (folder / "flash").write_bytes(flash)
    for number, models in enumerate(wants):
        (folder / f"want{number}").write_bytes(encode_want(FLEET_KEY, "b1", 5 + number, models))
        for data in models.values():
            for n, chunk in enumerate(chunks(data or b"")):
                (folder / f"{blob(data or b'')}.{n}").write_bytes(chunk)
    settings = {"fleet": "plant", "name": "b1", "host": "", "key": board_key(FLEET_KEY, "b1")}
    told = {"settings": settings, "generations": [5 + k for k in range(len(wants))], "torn": ["none"], "all": False}
    (folder / "plan").write_text(json.dumps(told | {"paths": ["digits.mica", "lib/note.txt", "b.mica"]} | plan))
    image = firmware(load_board("UNIX"))
    done = subprocess.run([image, "-X", "heapsize=8M", "-c", LIVES], cwd=folder, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]
    lines = [line[6:] for line in done.stdout.decode().splitlines() if line.startswith("mica: [")]
    return [json.loads(line) for line in lines]


def test_power_is_cut_at_every_operation_on_flash(tmp_path: Path, digits_file: Path, newer: bytes) -> None:
    old = digits_file.read_bytes()
    flash = window({"digits.mica": old, "lib/note.txt": NOTE}, rubbish=True)
    want = {"digits.mica": newer}
    rows = lives(tmp_path, flash, [want, want], torn=["none", "front", "tail", "all"])
    right = {"digits.mica": zlib.crc32(newer), "lib/note.txt": zlib.crc32(NOTE)}
    n_chunks = len(list(chunks(newer)))
    refused: Counter[str] = Counter()
    for torn, n, cut, n_lives, said, whole, fetched, there in rows:
        assert there == right, (torn, n)
        assert set(whole) <= {zlib.crc32(old), zlib.crc32(newer)}, "a board without a whole model"
        assert said[-1] == "confirmed ", (torn, n, said)
        assert len(said) == 1 or said[0] == "rejected the board was reset during the trial", said
        assert n_lives == int(cut)  # of the reason that power was cut, and of no other
        refused[torn] += len(said) - 1
        # Of what was fetched before, at most what lay across one block is fetched again: the one that was cut short,
        # or the first.
        assert fetched <= n_chunks + (2 if cut else 0), (torn, n, fetched)
    by_torn = Counter(row[0] for row in rows)
    assert all(15 <= n <= 40 for n in by_torn.values()), by_torn
    # Between "begun" and "confirmed" it may be the model that resets the board; what is torn may count or not.
    assert all(1 <= refused[torn] <= 3 for torn in by_torn), refused


def test_what_the_board_makes_of_the_other_half(tmp_path: Path, digits_file: Path, newer: bytes) -> None:
    old = digits_file.read_bytes()
    flash = window({"digits.mica": old, "lib/note.txt": NOTE})
    # One after the other, with a reset between them: another model beside it that is damaged, one that is not,
    # and it goes again.
    (row,) = lives(
        tmp_path, flash, [{"b.mica": newer[:-1] + b"?"}, {"b.mica": old}, {"b.mica": None}], all=True, torn=["none"]
    )[-1:]
    assert row[4][0].startswith("rejected ValueError: checksum") and row[4][1:] == ["confirmed ", "confirmed "]
    assert row[7] == {"digits.mica": zlib.crc32(old), "lib/note.txt": zlib.crc32(NOTE)}
    # More than a half has.
    folder = tmp_path / "large"
    folder.mkdir()
    (row,) = lives(folder, flash, [{"b.mica": newer + bytes(4096)}])[-1:]
    assert "bytes are needed, 20480 are there (half of its ROMFS window)" in row[4][0] and not row[6]


def test_a_push_over_mqtt_into_the_halves(
    fleet: Site, join: Join, digits_file: Path, newer: bytes, tmp_path: Path
) -> None:
    old = digits_file.read_bytes()
    watch = Watch(fleet)
    members = [
        join(f"b{i}", program=BOARD, revive=0.1, models={"flash": window({"digits.mica": old, "lib/note.txt": NOTE})})
        for i in (1, 2)
    ]
    wait_until(lambda: watch.has("b1", old) and watch.has("b2", old))
    assert list(watch.models["b1"]) == ["/rom/digits.mica"]
    with Fleet(fleet) as f:
        f.look(0.3)
        f.store.add(old)
        f.site.boards = {b: f.site.boards[b] for b in ("b1", "b2")}
        assert push(f, {"digits.mica": newer}, QUICK, lambda line: None).reason == ""
        wait_until(lambda: watch.has("b1", newer) and watch.has("b2", newer))
        assert [m.starts for m in members] == [1, 1]
        assert rollback(f, QUICK, lambda line: None).reason == ""  # what was at /rom before may be in use: they reset
    wait_until(lambda: watch.has("b1", old) and watch.has("b2", old))
    assert [m.starts for m in members] == [2, 2]
    watch.listener.close()


def test_layouts_are_images_that_the_host_reads(tmp_path: Path) -> None:
    """Files of many sizes and folders, laid out by the board's code in MicroPython."""
    program = """
import json, mica_fleet.rom as r
with open("cases") as f:
    for kept, new in json.load(f):
        pieces, n = r._layout(kept, {k: (v, {"name": k}) for k, v in new.items()})
        said = lambda w: w["name"] if isinstance(w, dict) else w if isinstance(w, int) else w.hex()
        print("mica:" + json.dumps([n, [[at, size, said(w)] for at, size, w in pieces]]))
"""
    sizes = [0, 1, 5, 15, 16, 100, 4095, 4096, 70_000]
    cases = []
    for k in range(60):
        names = [("lib/" * (i % 3)) + f"n{k}{'x' * (i * k % 19)}{i}.mica" for i in range(k % 7)]
        placed = {name: (1 << 20 | i << 12, sizes[(k + i) % 9]) for i, name in enumerate(names)}
        new = {name: size for name, (_, size) in placed.items() if "/" not in name and len(name) % 2 and size}
        cases.append(({name: p for name, p in placed.items() if name not in new}, new))
    (tmp_path / "cases").write_text(json.dumps(cases))
    image = firmware(load_board("UNIX"))
    done = subprocess.run([image, "-c", program], cwd=tmp_path, capture_output=True, timeout=60)
    lines = [line[5:] for line in done.stdout.decode().splitlines() if line.startswith("mica:")]
    assert len(lines) == 60, done.stderr
    for (kept, new), line in zip(cases, lines, strict=True):
        n, pieces = json.loads(line)
        at, image_bytes, where = 0, bytearray(), {}
        for begin, size, what in pieces:
            assert begin == at
            at += size
            literal = isinstance(what, str) and what not in new
            image_bytes += bytes.fromhex(what) if literal else bytes(size)
            if not literal:
                where[begin] = what, size
        assert at == n == len(image_bytes) and n % 2 == 0 and romfs.TAG in image_bytes[:32]
        places = romfs.places(bytes(image_bytes))
        assert {p: size for p, (_, size) in places.items()} == {p: s for p, (_, s) in kept.items()} | new
        for path, (begin, size) in places.items():
            assert size == 0 or (
                begin % romfs.ALIGN == 0 and where[begin] == ((new and path in new and path) or kept[path][0], size)
            )
    assert struct.calcsize(romfs.COMMIT) + 4 < romfs.PAGE
