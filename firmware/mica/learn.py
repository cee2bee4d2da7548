"""mica.Learner: a frozen network whose output is an embedding, and a head that learns labels where the sensor is.

    h = mica.Learner(mica.Model("net.mica"), "softmax")  # with what /learnt.0 and /learnt.1 have
    h.teach([x], "yes")                                  # a button or a word; three to twenty examples of a label
    h.predict([x])                                       # ("yes", 0.97), or None for something unknown
    h.save()

Nothing is written to flash but by save(). It writes the older of two files, with a checksum: whenever power fails,
the other one is whole. mica.learn does the same on a computer, to the same bytes.
"""

import gc
import os
from io import BytesIO
from struct import pack

import _mica

from .heads import HEAD, Head, seal, sequence

SAVING = 4096  # bytes of heap that a head keeps for save(): an open file of littlefs or FAT, and names


def _newest(path):
    """Return (slot, sequence) of the newest state that is whole, slot -1 where none is; and whether one is damaged."""
    best, last, damaged, files = -1, 0, False, 0
    for k in (0, 1):
        try:
            f = open(f"{path}.{k}", "rb")
        except OSError as e:
            if e.errno != 2:
                raise
            continue
        files += 1
        with f:
            number = sequence(f)
        if number is None:
            damaged = True
        elif number >= 0 and (best < 0 or (number - last) & 0xFFFFFFFF < 1 << 31):
            best, last = k, number
    return best, last, damaged or (best < 0 and files == 2)  # power ends one write at a time


def _slot(path):
    """Return the name of the file with the newest state, None where none was saved."""
    k, _, damaged = _newest(path)
    if k < 0 and damaged:
        raise ValueError(
            f"{path}.0 or .1 is damaged, and no other is whole; fresh=True begins again, and save() writes them"
        )
    return f"{path}.{k}" if k >= 0 else None


def load(path: str) -> bytes:
    """Return the newest state at a path, b"" where none was saved. Raises ValueError where both are damaged."""
    name = _slot(path)
    if name is None:
        return b""
    with open(name, "rb") as f:
        return f.read()


def _put(path, head, parts):
    """Write a state into the older slot. parts() gives its bytes behind the head, twice."""
    k, number, _ = _newest(path)
    name = f"{path}.{1 - k if k >= 0 else 0}"
    seal(head, number + 1, parts())
    try:
        with open(name, "wb") as f:
            f.write(head)
            for part in parts():
                if f.write(part) != len(part):
                    raise OSError(28)
    except OSError as e:
        try:
            os.remove(name)
        except OSError:
            pass
        raise OSError(e.errno, f"{name} was not written; what was saved before is still there")


def store(path: str, state: bytes) -> None:
    """Save the state of a head that was taught elsewhere, so that the next Learner has it."""
    if sequence(BytesIO(state)) in (None, -1):
        raise ValueError("store: these bytes are no state of a head, or damaged")
    _put(path, bytearray(state[:HEAD]), lambda: (state[HEAD:],))


class Learner(Head):
    """A head on model `m`, whose one output is int8. `kind`: "prototype" (nearest mean), "softmax",
    "anomaly" (nearest recording).

    keep: examples kept of a label, the newest, 20 by default. A prototype keeps sums of all; with keep=N half of them
    are forgotten where it has 2 * N, so that a label follows a drift. loose: an example is unknown where its squared
    distance from its label's mean passes so many times the usual one of that label, 2.75 by default. Another mean
    that is as near makes that less. For "anomaly" there are `alarms` false alarms a day where `judged` recordings are
    judged a day, by default 1 of 1440. That is an estimate, from few recordings a rough one. What is at `path`.0 and
    `path`.1 is taken up, unless `fresh`.
    """

    def __init__(
        self,
        m: Model,
        kind: str = "prototype",
        path: str | None = "/learnt",
        *,
        keep: int | None = None,
        loose: float | None = None,
        alarms: float | None = None,
        judged: float | None = None,
        fresh: bool = False,
    ) -> None:
        if not hasattr(_mica, "learn"):
            raise ValueError("Learner: this firmware was built without learning; build it without --for")
        if len(m.output_shape) != 1 or m.output_dtype[0] != "b":
            raise ValueError("Learner: a model with one int8 output is expected; mica pack --embedding makes one")
        width = 1
        for d in m.output_shape[0]:
            width *= d
        self._m = m
        self._path = path
        self._begin(kind, width, keep, loose, alarms, judged)
        self._room = None if path is None else bytearray(SAVING)
        setting = self._numbers[3]
        name = None if path is None or fresh else _slot(path)
        if name is None:
            return
        with open(name, "rb") as f:
            try:
                self._read(f)
            except ValueError as e:
                raise ValueError(f"{path}: {e}; fresh=True begins again")
        if keep is not None and kind == "prototype":
            self._numbers[2] = keep
        if keep is not None and keep != self._numbers[2]:
            raise ValueError(
                f"{path} keeps {self._numbers[2]} examples of a label, not {keep}; fresh=True begins again"
            )
        if ((alarms or judged) if kind == "anomaly" else loose) and setting != self._numbers[3]:
            self._numbers[3] = setting
            self._numbers[4] = -1

    def _digest(self):
        info = self._m._m.info
        return pack("<II", info.file_bytes, info.crc32)

    def _op(self, op, blocks, arg, numbers=None):
        return _mica.learn(op, numbers or self._numbers, self._work, blocks, arg)

    def _embed(self, inputs):
        m = self._m
        engine = m._m
        if inputs is None:
            engine.read_into(0, self._x)
            return
        engine.begin()
        try:
            m._write(inputs)
            for step in m._steps:
                step()
            engine.read_into(0, self._x)
        finally:
            engine.end()

    def save(self) -> None:
        """Write the state into the older of the two files. Flash wears: save when asked to, not after each example."""
        if self._path is None:
            raise ValueError("save: this head has no path")
        self._room = None  # what was taught may fill the rest of the heap
        try:
            self.fit()
            _put(self._path, self._head(), self._parts)
        finally:
            gc.collect()
            size = SAVING
            while size > 0 and self._room is None:  # the first save leaves a few bytes behind, names among them
                try:
                    self._room = bytearray(size)
                except MemoryError:
                    size -= 256
