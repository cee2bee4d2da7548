# A model that a fleet pushes while memory runs out or Ctrl-C comes: no fault rejects a sound model,
# and the next connection takes it.
# Runs behind board_scenarios.py, and adds to its SCENARIOS.
import hashlib
import json
import os
from binascii import crc32

import mica_fleet.push as fleet_push
import mica.slots as slots

KEY = "3c" * 32
PUSHED = "pushed.mica"


class Wire:
    """A broker's end: chunks come when the board subscribes to them, and its reports are kept."""

    def __init__(self):
        self.pusher = self.want = None
        self.verdict = ""

    def subscribe(self, topic, qos=0):
        if b"/blob/" in topic:
            self.pusher.handle(topic, golden)
        elif not topic.endswith(b"/teach"):  # nobody teaches here
            self.pusher.handle(topic, self.want)

    def publish(self, topic, message, retain=False, qos=0):
        self.verdict = json.loads(message)["verdict"]


class Board:
    name = "b1"
    errors = 0

    def __init__(self):
        self.settings = {"fleet": "plant"}
        self.client = Wire()

    def unload(self):
        gc.collect()

    def models_changed(self):
        pass


def signed(generation):
    model = {"name": PUSHED, "size": len(golden), "sha256": str(hexlify(hashlib.sha256(golden).digest()), "ascii")}
    model["chunks"] = f"{crc32(golden):08x}"
    text = json.dumps({"board": "b1", "generation": generation, "models": [model], "gone": []}).encode()
    return hexlify(fleet_push.hmac_sha256(bytes([0x3C] * 32), text)) + b" " + text


LETTER = signed(5)


def cleared(board):
    for name in (fleet_push.HAVE, fleet_push.HAVE + ".new", PUSHED, PUSHED + ".part"):
        try:
            os.remove(name)
        except OSError:
            pass
    return started(board)


def started(board):
    board.client.want = LETTER
    board.client.pusher = pusher = fleet_push.Pusher(board, KEY)
    return pusher


def connection(board):
    """One connection, until there is a verdict."""
    pusher = board.client.pusher
    pusher.connected()
    for _ in range(30):
        pusher.step()
        if pusher.have["verdict"] in ("confirmed", "rejected"):
            break


def no_memory_for_it(reason):
    """Return True if the trial failed for want of memory, which only an injected fault causes here."""
    return placed[0] and "MemoryError" in reason


def push_to_fleet():
    assert len(golden) <= fleet_push.CHUNK
    board = Board()
    cleared(board)

    def body():
        connection(board)

    def after(failed):
        if not lasting():  # else a file that says so could not be written any more
            started(board)
        connection(board)
        have = board.client.pusher.have
        if board.client.verdict != have["verdict"]:
            return "the fleet was told: " + board.client.verdict
        if have["verdict"] == "rejected" and no_memory_for_it(have["reason"]):
            return
        if have["verdict"] != "confirmed":
            return str(have)
        with open(PUSHED, "rb") as f:
            if f.read() != golden:
                return "another file"

    return body, after


# --- A half of the ROMFS window on its trial

window = mica.Arena(8 * slots.BLOCK)


class Flash:
    memory = memoryview(window)

    def erase(self, at):
        self.memory[at : at + slots.BLOCK] = b"\xff" * slots.BLOCK

    def program(self, at, data):
        self.memory[at : at + len(data)] = data


def trial_of_a_half():
    flash = Flash()
    for at in range(0, len(flash.memory), slots.BLOCK):
        flash.erase(at)
    image = romfs
    flash.memory[: len(image)] = image
    page = bytearray(b"\xff" * slots.PAGE)
    head = (
        slots.struct.pack(slots.COMMIT, slots.MAGIC, 1, len(image), crc32(image), 0, 0, slots.ON_TRIAL, 11)
        + b"digits.mica"
    )
    page[: len(head)] = head
    page[-4:] = slots.struct.pack("<I", crc32(memoryview(page)[:-4]))
    half = slots.Half(flash, 0)
    flash.program(half.log, page)
    half = slots.Half(flash, 0)
    assert half.state == "trial"

    def body():
        if not slots.try_half(half):
            raise KeyboardInterrupt if placed[2] else MemoryError  # it takes Ctrl-C for itself

    def after(failed):
        found = slots.Half(flash, 0)
        if found.state == "rejected" and no_memory_for_it(found.reason):
            return
        if found.state == "trial" and not lasting():
            if found.begun:
                return "the next reset would reject it"
            slots.try_half(found)
        if found.state != "confirmed" and not lasting():
            return f"{found.state} {found.reason}"

    return body, after


SCENARIOS += (push_to_fleet, trial_of_a_half)
