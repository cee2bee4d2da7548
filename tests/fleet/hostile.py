"""Hostile messages to the agent: a MicroPython process takes them, and gives only answers that the host expects.

The process has a client that reads messages from a file, so 10^5 of them take a minute.
Requests are damaged, cut short, lengthened, of other models and of other sizes;
what is signed is damaged, of another key, another board's or old, or signed as it should be and odd inside;
chunks are wrong while a file is being fetched. `_read` says which request is whole.
"""

from __future__ import annotations

import hmac
import json
import random
import struct
import subprocess
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from mica.boards import load_board
from mica.errors import MicaError
from mica.run.host import HostRunner
from mica_fleet.desired import board_key, encode_lesson, encode_want
from mica_fleet.member import firmware
from mica_fleet.reports import parse_have, parse_state, parse_taught
from mica_fleet.wire import Answer, Key, Request, Status, decode_answer

RUN, WANT, OTHER, CHUNK, LESSON = range(5)
OUT, HAVE, HEAD = 2, 3, 4  # of what the agent says: its topic's place in the list of _PROGRAM
# Bytes: a want (1.6 kB) and a chunk may be held; of every message it would be 32 bytes or more, of thousands a reading
MOST_KEPT = 8192
_FLEET_KEY = "5a" * 32

_PROGRAM = """
import gc, json, struct, mica_fleet
messages, said = open("messages", "rb"), open("said", "wb")
class Wire:
    "In place of a client: the messages of a file, one piece of work at a time."
    sock = None
    left = 0
    def set_callback(self, f):
        self.on_message = f
    def set_last_will(self, *_, **__):
        pass
    def connect(self):
        print("mica: connected")
    def ping(self):
        pass
    def subscribe(self, topic, qos=0):
        pass
    def publish(self, topic, message, retain=False, qos=0):
        if isinstance(message, str):
            message = message.encode()
        kind = ("state", "stat", "out", "have", "head").index(topic.rsplit("/", 1)[1])
        said.write(struct.pack("<BI", kind, len(message)) + message)
    def check_msg(self):
        p = agent._pusher
        if agent._todo or p._letter is not None or p._lesson is not None:
            return
        head = messages.read(5)
        if not head:
            self.left += 1
            if self.left > 3:
                raise SystemExit
            return
        kind, n = struct.unpack("<BI", head)
        message = messages.read(n)
        if kind == 255:
            gc.collect()
            print("mica: free", gc.mem_free())
            return self.check_msg()
        topics = b"mica/plant/to/b1/run", b"mica/plant/to/b1/want", b"x", p._asked or b"y", b"mica/plant/to/b1/teach"
        self.on_message(topics[kind], memoryview(message))
with open("fleet.json") as f:
    agent = mica_fleet.Agent(json.load(f), Wire())
mica_fleet._STAT_MS = 100  # it tells how it does as it would in a long run
agent.work()
"""


@dataclass
class _Plan:
    """Messages for a board, and its expected answers: key of a request -> status and outputs."""

    messages: list[tuple[int, bytes]] = field(default_factory=list)
    answers: dict[Key, tuple[Status, bytes]] = field(default_factory=dict)
    wants: int = 0
    lessons: int = 0


@cache
def _samples(data: bytes) -> list[tuple[bytes, bytes]]:
    rng = np.random.default_rng(0)
    with HostRunner(data) as host:
        dims = host.model.tensors[host.model.inputs[0]].dims
        x = [[rng.integers(-128, 128, dims).astype(np.int8)] for _ in range(16)]
        return [(a[0].tobytes(), y[0].tobytes()) for a, y in zip(x, host.run(x), strict=True)]


def _read(message: bytes) -> Request | None:
    """Return a request of version 1 (mica_fleet/wire.py); None where it is cut short or damaged."""
    if len(message) < 24:
        return None
    version, flags, deadline, model, job, seq, attempt, stage, crc = struct.unpack_from("<BBHIIIHHI", message)
    inputs = message[24:]
    if version != 1 or flags or zlib.crc32(inputs, zlib.crc32(message[:20])) != crc:
        return None
    return Request(Key(job, seq, stage), model, attempt, inputs, deadline)


def _damaged(chance: random.Random, whole: bytes) -> bytes:
    data = bytearray(whole)
    match chance.randrange(5):
        case 0:
            return chance.randbytes(chance.randrange(120))
        case 1 if data:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        case 2 if data:
            del data[chance.randrange(len(data)) :]
        case 3:
            data += chance.randbytes(chance.randrange(1, 9))
        case _:
            at = chance.randrange(len(data) + 1)
            data[at : at + chance.randrange(20)] = chance.randbytes(chance.randrange(20))
    return bytes(data)


def _plan(chance: random.Random, data: bytes, n: int) -> _Plan:
    plan = _Plan()
    crc, samples = zlib.crc32(data), _samples(data)
    right = dict(samples)
    key = bytes.fromhex(board_key(_FLEET_KEY, "b1"))
    generation = 1

    def signed(text: bytes) -> bytes:
        return hmac.new(key, text, "sha256").hexdigest().encode() + b" " + text

    for seq in range(n):
        if seq % (n // 20) == 0:
            plan.messages.append((255, b""))
        what = chance.random()
        if what < 0.75:
            x = chance.choice(samples)[0]
            model = crc if chance.random() < 0.9 else chance.getrandbits(32)
            if chance.random() < 0.1:
                x = chance.randbytes(chance.choice((0, 1, 63, 65, 4000)))
            message = Request(Key(1, seq), model, chance.getrandbits(16), x, 0).encode()
            if chance.random() < 0.6:
                message = _damaged(chance, message)
            plan.messages.append((RUN, message))
            request = _read(message)
            if request is None:
                continue
            if request.model != crc:
                plan.answers[request.key] = (Status.NO_MODEL, b"")
            elif len(request.inputs) != 64:
                plan.answers[request.key] = (Status.BAD_REQUEST, b"")
            else:
                plan.answers[request.key] = (Status.OK, right[request.inputs])
        elif what < 0.9:
            good = encode_want(_FLEET_KEY, "b1", generation + 1, {"other.mica": chance.randbytes(9000)})
            match chance.randrange(6):
                case 0:
                    plan.messages.append((WANT, encode_want("77" * 32, "b1", generation + 1, {"digits.mica": None})))
                case 1:
                    text = good[65:].replace(b'"b1"', b'"b2"')
                    plan.messages.append((WANT, signed(text)))
                case 2:
                    plan.messages.append((WANT, encode_want(_FLEET_KEY, "b1", 0, {"digits.mica": None})))
                case 3:
                    odd = json.loads(good[65:])
                    place = odd["models"][0] if chance.random() < 0.7 else odd
                    strange = (None, -1, 1.5, "", "x", [], {}, [1], {"a": 1}, 2**40, "/x.mica", "\u00e9.mica")
                    place[chance.choice([k for k in place if k != "generation"])] = chance.choice(strange)
                    plan.messages.append((WANT, signed(json.dumps(odd).encode())))
                case 4 if chance.random() < 0.1:
                    generation += 1  # a good one, whose chunks never come
                    plan.messages.append((WANT, good))
                case _:
                    plan.messages.append((WANT, _damaged(chance, good) or b"?"))
            plan.wants += 1
        elif what < 0.94:
            good = encode_lesson(_FLEET_KEY, "b1", seq, "learnt", b"", chance.choice((b"", chance.randbytes(300))))
            odd = json.loads(good[65:].split(b"\n")[0])
            odd[chance.choice(list(odd))] = chance.choice((None, -1, 1.5, "", "x", [], {}, 2**40, "/no/such", "\0"))
            strange = json.dumps(odd).encode() + chance.choice((b"", b"\n", b"\nmlrn", b"\n" + chance.randbytes(40)))
            plan.messages.append((LESSON, chance.choice((good, signed(strange), _damaged(chance, good)))))
            plan.lessons += 1
        else:
            plan.messages.append((chance.choice((OTHER, CHUNK)), chance.randbytes(chance.choice((0, 1, 4096, 9000)))))
    return plan


def kept(free: Sequence[int]) -> int:
    """Bytes of heap that the later half of a session has less than the earlier one,
    by the most that is free in each: what a message needs for its moment comes and goes.
    The first two readings are of before all that a session needs once."""
    half = (len(free) - 2) // 2
    return max(free[2 : 2 + half]) - max(free[2 + half :])


def one_round(data: bytes, seed: int, n: int) -> dict[str, int]:
    """Send n messages to a board that has `data`, digits.mica. Return the figures. Raises AssertionError."""
    board = load_board("UNIX")
    image = firmware(board)
    plan = _plan(random.Random(seed), data, n)
    settings = {"fleet": "plant", "name": "b1", "host": "-", "key": board_key(_FLEET_KEY, "b1")}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "digits.mica").write_bytes(data)
        (folder / "fleet.json").write_text(json.dumps(settings))
        (folder / "messages").write_bytes(b"".join(struct.pack("<BI", k, len(m)) + m for k, m in plan.messages))
        command = [image, *(board.emulator.args if board.emulator else ()), "-c", _PROGRAM]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900, check=False)
        what = f"seed {seed}, {n} messages: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        assert done.returncode == 0 and not done.stderr, what
        assert done.stdout.count("mica: connected") == 1, f"a message ended the connection; {what}"
        free = [int(line.split()[-1]) for line in done.stdout.splitlines() if line.startswith("mica: free")]
        assert kept(free) < MOST_KEPT, f"memory {free}; {what}"
        said = (folder / "said").read_bytes()
        model = folder / "digits.mica"
        assert model.exists() and model.read_bytes() == data, f"the model has changed; {what}"
        there = [p.name for p in folder.iterdir()]
        assert not (folder / "other.mica").exists(), f"a file that nobody sent is there; {what}"
    answers: dict[Key, Answer] = {}
    haves = heads = at = 0
    while at < len(said):
        kind, size = struct.unpack_from("<BI", said, at)
        message = said[at + 5 : at + 5 + size]
        at += 5 + size
        if kind == OUT:
            found = decode_answer(message)
            assert found.key not in answers, f"{found.key} was answered twice; {what}"
            answers[found.key] = found
        elif kind == HAVE:
            haves += parse_have(message).verdict in ("refused", "rejected", "confirmed", "fetching")
        elif kind == HEAD:
            assert not parse_taught(message).state, f"a head that nobody taught; {what}"
            heads += 1
    for key, (status, outputs) in plan.answers.items():
        found = answers.pop(key, None)  # type: ignore[assignment]
        assert found is not None and found.status is status, f"{key}: {found}, not {status.name}; {what}"
        assert status is not Status.OK or found.data == outputs, f"{key}: a wrong answer; {what}"
    assert not answers, f"{list(answers)}: answers to what was damaged; {what}"
    assert haves >= plan.wants, f"{plan.wants} wants, {haves} answers to them; {what}"
    assert heads == plan.lessons, f"{plan.lessons} lessons, {heads} answers to them; {what}"
    assert not any("learnt" in n for n in there), f"what is no head was written: {there}; {what}"
    return {"messages": n, "whole requests": len(plan.answers), "signed or not": plan.wants} | _host(seed, n)


def _host(seed: int, n: int) -> dict[str, int]:
    """Send damaged messages of a board to the host: it reads each one, or refuses it with a MicaError."""
    chance = random.Random(seed)
    state = b'up 1 2 {"models": {"a.mica": "0123abcd"}, "largest": 32768}'
    have = b'{"generation": 3, "verdict": "confirmed", "reason": "x"}'
    taught = b'{"generation": 3, "taken": 0, "reason": "x"}\nstate'
    answer = Answer(Key(1, 2), 3, 4, Status.OK, 5, 6, b"0123456789").encode()
    refused = 0
    for _ in range(n):
        read, whole = chance.choice(
            ((parse_state, state), (parse_have, have), (parse_taught, taught), (decode_answer, answer))
        )
        try:
            read(_damaged(chance, whole))  # type: ignore[operator]
        except MicaError as e:
            refused += 1
            assert "\n" not in str(e)
    assert refused > n // 4
    return {"to the host": n}
