"""The models that a fleet wants this board to have (`mica fleet push`): fetched in chunks, tried,
and only then in place.

    mica/F/to/B/want      retained: HMAC-SHA256 in 64 hexadecimal digits, a blank, and JSON: board, generation,
                          models [{name, size, sha256, chunks}] and gone [names];
                          chunks is the CRC-32 of each, 8 digits a chunk
    mica/F/blob/SHA/n     retained: chunk n, of 4096 bytes, of the file whose SHA-256 begins with these 16 digits
    mica/F/from/B/have    retained, JSON: generation, verdict (fetching, confirmed, rejected, refused), reason

The HMAC is over the JSON, with the key in fleet.json. A want that is not signed with it, is another board's, or is
older than the last one is refused. Chunks are asked for one at a time and checked one by one; those that are there
after a reset are not fetched again. A file has its name only after its trial (slots.py), and all files of a want get
theirs after the last one's, so whenever power fails there is a whole model: the old one, or the new. A reset in the
midst of a trial is the model's fault, as it is in slots.py. On a board with a ROMFS window of halves the files go into
the idle half, and are used in place (rom.py).
"""

import hashlib
import json
import os
import sys
import time
from binascii import crc32, hexlify, unhexlify

from mica.remote_push import PART, examine

CHUNK = 4096
HAVE = "fleet_have.json"
_LONGEST_NAME = 64
_BROKEN_OFF = (Exception, KeyboardInterrupt)  # made where it is used, it would take memory there
_ASK_AGAIN_MS = 8000  # for a chunk that does not come


class CannotWrite(Exception):
    pass


def hmac_sha256(key: bytes, message: Any) -> bytes:
    """RFC 2104. `key`: bytes."""
    if len(key) > 64:
        key = hashlib.sha256(key).digest()
    inner = bytes([b ^ 0x36 for b in key]) + b"\x36" * (64 - len(key))
    outer = bytes([b ^ 0x5C for b in key]) + b"\x5c" * (64 - len(key))
    h = hashlib.sha256(inner)
    h.update(message)
    return hashlib.sha256(outer + h.digest()).digest()


def equal(a: bytes, b: bytes) -> bool:
    """Return True if two byte strings of the same length are equal. The time taken does not depend on the contents."""
    differ = len(a) ^ len(b)
    for x, y in zip(a, b):
        differ |= x ^ y
    return not differ


def signed(key: bytes, message: Any) -> bytes:
    """The text of a signed message. Raises ValueError where it is not signed with the key."""
    message = bytes(message)
    if len(message) < 66 or message[64] != 32:
        raise ValueError("it is not signed")
    text = message[65:]
    if not equal(hexlify(hmac_sha256(key, text)), message[:64]):
        raise ValueError("it is not signed with this board's key")
    return text


def read_want(key: bytes, board: str, message: Any) -> dict[str, Any]:
    """The JSON of a want. Raises ValueError where it is not signed with the key, or is not one for this board."""
    want = json.loads(signed(key, message))
    if want["board"] != board:
        raise ValueError("it is for another board")
    for model in want["models"]:
        _check(model["name"])
        if type(model["size"]) is not int:
            raise ValueError("its size is no number")
        if model["size"] < 1 or len(model["chunks"]) != 8 * -(-model["size"] // CHUNK) or len(model["sha256"]) != 64:
            raise ValueError("its chunks are not those of its size")
    for name in want["gone"]:
        _check(name)
    return want


def _check(name):
    if not name.endswith(".mica") or "/" in name or "\\" in name or len(name.encode()) > _LONGEST_NAME:
        raise ValueError("no name for a model: " + name)


class Pusher:
    """Pushed models of one agent. step() does one piece of work, so requests are answered between the pieces."""

    def __init__(self, agent: Any, key: str) -> None:
        self.agent = agent
        self.key: bytes = unhexlify(key)
        fleet = agent.settings["fleet"]
        self._want_topic = f"mica/{fleet}/to/{agent.name}/want".encode()
        self._have_topic = f"mica/{fleet}/from/{agent.name}/have"
        self._teach_topic = f"mica/{fleet}/to/{agent.name}/teach".encode()
        self._head_topic = f"mica/{fleet}/from/{agent.name}/head"
        self._blob = f"mica/{fleet}/blob/"
        self._tried = {}  # SHA-256 -> what its trial said
        self.rom: Any = None
        if sys.modules["mica.later"].boots:
            from . import rom

            if rom.flash() is not None:
                self.rom = rom
        self.have: dict[str, Any] = {"generation": 0, "verdict": "", "reason": "", "names": []}
        try:
            with open(HAVE) as f:
                self.have.update(json.loads(f.read()))
        except (OSError, ValueError):
            pass
        self._forget()

    def _forget(self):
        self._letter = self._lesson = self._work = self._again = self._asked = self._chunk = None

    def connected(self) -> None:
        """On a new connection: report the state of this board, and subscribe to the desired state."""
        self._forget()
        self._tell(**self.have)
        self.agent.client.subscribe(self._want_topic, 1)
        self.agent.client.subscribe(self._teach_topic, 1)

    def paths(self) -> list[str]:
        """Paths of the files that were pushed."""
        return ["/rom/" + n if self.rom and self._size("/rom/" + n) >= 0 else n for n in self.have["names"]]

    def handle(self, topic: bytes, message: Any) -> bool:
        """Takes a message that is for here; it is looked at in step(). Returns whether it is."""
        if topic == self._want_topic:
            if len(message):
                self._letter = message
        elif topic == self._teach_topic:
            self._lesson = message
        elif self._asked is not None and topic == self._asked:
            self._chunk = message
        else:
            return False
        return True

    def signed(self, letter: Any) -> bytes:
        return signed(self.key, letter)

    def step(self) -> bool:
        """One piece of work. False: there is none, or a chunk is on its way."""
        if self._letter is not None:
            letter, self._letter = self._letter, None
            self._open(letter)
            return True
        if self._lesson is not None:
            from .teach import answer

            lesson, self._lesson = self._lesson, None
            self.agent.client.publish(self._head_topic, answer(self, lesson), qos=1)
            return True
        if self._work is None:
            return False
        try:
            return next(self._work)
        except StopIteration:
            self._work = None
        except OSError:  # the connection
            raise
        except Exception as e:
            self._work = None
            if self._again is not None:  # once more, with the memory that loaded models take
                want, self._again = self._again, None
                self.agent.unload()
                self._work = self._carry_out(want)
            else:  # it is tried again with the next connection
                self._tell(self.have["generation"], "rejected", f"{type(e).__name__}: {e}")
        return True

    # --- inside -----------------------------------------------------------------------------------------

    def _open(self, letter):
        try:
            want = read_want(self.key, self.agent.name, letter)
            generation = int(want["generation"])
            old = generation < max(1, self.have["generation"])
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            self.agent.errors += 1
            self._tell(self.have["generation"], "refused", str(e))
            return
        if old:
            self._tell(self.have["generation"], "refused", "it is older than the last one")
        elif generation == self.have["generation"] and self.have["verdict"] in ("confirmed", "rejected"):
            self._tell(**self.have)
        else:
            self._asked = self._chunk = None
            self._again = want
            self._work = self._carry_out(want)

    def _tell(self, generation, verdict, reason="", **_):
        say = {"generation": generation, "verdict": verdict, "reason": reason}
        self.agent.client.publish(self._have_topic, json.dumps(say), retain=True, qos=1)

    def keep(self, **what: Any) -> None:
        """Write the state of pushed models to a file; a reset leaves the old file or the new one."""
        self.have.update(what)
        try:
            with open(HAVE + ".new", "w") as f:
                f.write(json.dumps(self.have))
            os.rename(HAVE + ".new", HAVE)
        except OSError as e:
            raise CannotWrite(e)

    def _carry_out(self, want):
        generation = int(want["generation"])
        trying = self.have["generation"] == generation and self.have["verdict"] == "trying"
        problem = "the board was reset during the trial" if trying else None
        if not trying:
            self.keep(generation=generation, verdict="fetching", reason="")
            self._tell(generation, "fetching")
        if self.rom:
            problem = yield from self._to_rom(want, problem)
        elif not trying:
            for model in want["models"]:
                problem = yield from self._bring(model)
                if problem:
                    problem = model["name"] + ": " + problem
                    break
        if problem:
            for model in want["models"]:
                _remove(model["name"] + PART)
            self.keep(verdict="rejected", reason=problem)
        else:
            for model in want["models"]:
                if self.rom:
                    _remove(model["name"])  # of a time when models were files here
                elif self._size(model["name"] + PART) == model["size"]:
                    os.rename(model["name"] + PART, model["name"])
            for name in want["gone"]:
                _remove(name)
            names = [n for n in self.have["names"] if n not in want["gone"]]
            names += [m["name"] for m in want["models"] if m["name"] not in names]
            self.keep(verdict="confirmed", names=names)
        self._tried.clear()
        self.agent.models_changed()
        self._tell(**self.have)

    def _to_rom(self, want, problem):
        """Have the models at /rom. What is wrong with them, or None;
        problem: a reset in the midst of their trial, or None."""
        rom = self.rom
        files = rom.files()
        if all(rom.there(m) for m in want["models"]) and not [n for n in want["gone"] if n in files]:
            return None  # the trial was passed, or there is none
        if problem:
            return rom.verdict() or problem
        try:
            index = yield from rom.write(want["models"], want["gone"], self._fetch_of, True)
        except rom.InUse:
            if self.have.get("reset") == want["generation"]:
                return "the half of its ROMFS that would be written is in use"
            self.keep(reset=want["generation"])
            _reset()  # the desired state comes again after it
        if index is None or isinstance(index, str):
            return index
        return self._try(rom.trial, index)

    def _fetch_of(self, model, n):
        return self._fetch(f"{self._blob}{model['sha256'][:16]}/{n}", model["chunks"][8 * n : 8 * n + 8])

    def _bring(self, model):
        """Fetch a model and try it, under another name. What is wrong with it, or None."""
        name, size, sha, chunks = model["name"], model["size"], model["sha256"], model["chunks"]
        part = name + PART
        n = len(chunks) // 8
        if self._right(name, size, chunks) == n:
            _remove(part)
            return None
        at = self._right(part, size, chunks)
        while at < n:
            chunk = yield from self._fetch_of(model, at)
            try:
                with open(part, "r+b" if at else "wb") as f:
                    f.seek(at * CHUNK)
                    f.write(chunk)
            except OSError as e:
                raise CannotWrite(e)
            at += 1
            yield True
        if sha not in self._tried:
            self._try(self._trial, name, sha)
        yield True
        return self._tried[sha]

    def _try(self, trial, *args):
        """The verdict of a trial. An exception meanwhile is not the model's fault: only a reset leaves "trying"
        behind."""
        try:
            self.agent.unload()
            self.keep(verdict="trying")
            return trial(*args)
        except _BROKEN_OFF:
            self.have["verdict"] = "fetching"  # first, and without memory
            self.keep()
            raise

    def _trial(self, name, sha):
        try:
            self._tried[sha] = examine(name, sha)
        except Exception as e:
            self._tried[sha] = f"{type(e).__name__}: {e}"
        self.keep(verdict="fetching")

    def _fetch(self, topic, crc):
        """Chunk of this CRC-32."""
        while True:
            self._chunk, self._asked = None, topic.encode()
            asked = time.ticks_ms()
            self.agent.client.subscribe(self._asked)
            yield True  # it may have come with the acknowledgement
            while self._chunk is None and time.ticks_diff(time.ticks_ms(), asked) < _ASK_AGAIN_MS:
                yield False
            chunk, self._chunk = self._chunk, None
            if chunk is None:
                continue
            if f"{crc32(chunk) & 0xFFFFFFFF:08x}" == crc:
                self._asked = None
                return chunk
            while time.ticks_diff(time.ticks_ms(), asked) < 1000:  # what is wrong is wrong again at once
                yield False

    def _size(self, path):
        try:
            return os.stat(path)[6]
        except OSError:
            return -1

    def _right(self, path, size, chunks):
        """Number of right chunks at the beginning of the file; all of them only if the file has the right length."""
        at = 0
        length = self._size(path)
        if length < 1:
            return 0
        buf = bytearray(CHUNK)
        view = memoryview(buf)
        n = len(chunks) // 8
        with open(path, "rb") as f:
            while at < n:
                got = f.readinto(view[: min(CHUNK, size - at * CHUNK)])
                if not got or f"{crc32(view[:got]) & 0xFFFFFFFF:08x}" != chunks[8 * at : 8 * at + 8]:
                    break
                at += 1
        return at - 1 if at == n and length != size else at


def _remove(path):
    try:
        os.remove(path)
    except OSError:
        pass


def _reset():
    try:
        from machine import soft_reset
    except ImportError:
        raise SystemExit
    soft_reset()
