"""mica.Learner: a frozen network whose output is an embedding, and a head that learns labels where the sensor is.

    h = mica.Learner(mica.Model("net.mica"), "softmax")  # with what /learnt.0 and /learnt.1 have
    h.teach([x], "yes")                                  # a button or a word; three to twenty examples of a label
    h.predict([x])                                       # ("yes", 0.97), or None for something unknown
    h.save()

Nothing is written to flash but by save(). It writes the older of two files, with a checksum: whenever power fails, the other one
is whole. host_tools/mica/learn does the same on a computer, to the same bytes.
"""

import os
from array import array
from binascii import crc32
from io import BytesIO
from struct import calcsize, pack, pack_into, unpack, unpack_from

import _mica

KINDS: tuple[str, ...] = ("prototype", "softmax", "anomaly")
_TEACH, _FIT, _JUDGE = 0, 1, 2
_PROTOTYPE, _SOFTMAX, _ANOMALY = 0, 1, 2
_MOST = 64  # labels
# As in host_tools/mica/learn/state.py.
_MAGIC = b"mlrn"
_VERSION = 1
_LAYOUT = "<4sIIIBBBB8sHHI"
_HEAD = calcsize(_LAYOUT)


def _padded(n):
    return -n % 4


def _is_label(label):
    return isinstance(label, str) and 0 < len(label.encode()) < 64 and all(c >= " " and c != "\x7f" for c in label)


def _check(kind, width, keep, setting):
    if width > 4096 or not 1 <= keep <= 1024 or not 1 <= setting < 1 << (24 if kind == _ANOMALY else 16):
        raise ValueError(
            f"Learner: {width} elements, keep={keep}, or a setting that is no positive number; 4096, 1024 are the most"
        )


def _model(m):
    info = m._m.info
    return pack("<II", info.file_bytes, info.crc32)


def _sequence(f):
    """Return the sequence of the state in a file, None where it is damaged, -1 where it was not written to its end."""
    size = f.seek(0, 2)
    f.seek(0)
    head = f.read(_HEAD)
    if len(head) < _HEAD:
        return -1
    magic, crc, length, sequence = unpack_from("<4sIII", head)
    if magic != _MAGIC or length != size:
        return -1 if magic == _MAGIC and size < length else None
    found = crc32(head[8:])
    part = bytearray(256)
    while True:
        n = f.readinto(part)
        if not n:
            break
        found = crc32(memoryview(part)[:n], found)
    return sequence if found == crc else None


def _newest(path):
    """Return (slot, sequence) of the newest state that is whole, slot -1 where none is; and whether one is damaged."""
    best, last, damaged = -1, 0, False
    for k in (0, 1):
        try:
            f = open(f"{path}.{k}", "rb")
        except OSError as e:
            if e.errno != 2:
                raise
            continue
        with f:
            sequence = _sequence(f)
        if sequence is None:
            damaged = True
        elif sequence >= 0 and (best < 0 or (sequence - last) & 0xFFFFFFFF < 1 << 31):
            best, last = k, sequence
    return best, last, damaged


def _slot(path):
    """Return the name of the file with the newest state, None where none was saved."""
    k, _, damaged = _newest(path)
    if k < 0 and damaged:
        raise ValueError(
            f"{path}.0 or .1 is damaged, and no other is whole; fresh=True begins again, and save() writes them"
        )
    return f"{path}.{k}" if k >= 0 else None


def load(path: str, most: int) -> bytes:
    """Return the newest state at a path, b"" where none was saved. Raises ValueError where it has more bytes than `most`."""
    name = _slot(path)
    if name is None:
        return b""
    size = os.stat(name)[6]
    if size > most:
        raise ValueError(f"{name} has {size} bytes, more than {most}")
    with open(name, "rb") as f:
        return f.read()


def _put(path, head, parts):
    """Write a state into the older slot. parts() gives its bytes behind the head, twice."""
    k, sequence, _ = _newest(path)
    name = f"{path}.{1 - k if k >= 0 else 0}"
    pack_into("<I", head, 12, (sequence + 1) & 0xFFFFFFFF)
    crc = crc32(memoryview(head)[8:])
    for part in parts():
        crc = crc32(part, crc)
    pack_into("<I", head, 4, crc)
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
    if _sequence(BytesIO(state)) in (None, -1):
        raise ValueError("store: these bytes are no state of a head, or damaged")
    _put(path, bytearray(state[:_HEAD]), lambda: (state[_HEAD:],))


class Learner:
    """A head on model `m`, whose one output is int8. `kind`: "prototype" (nearest mean), "softmax", "anomaly" (nearest recording).

    keep: examples kept of a label, the newest, 20 by default; a prototype keeps sums of all. loose: an example is unknown where its
    squared distance from its label's mean passes so many times the usual one, 2.25 by default. Another mean that is as near makes
    that less. For "anomaly" there are `alarms` false alarms a day where `judged` recordings are judged a day, by default 1 of 1440.
    That is an estimate, from few recordings a rough one. What is at `path`.0 and `path`.1 is taken up, unless `fresh`.
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
        if kind not in KINDS:
            raise ValueError(f"Learner: kind {kind!r}; there are {', '.join(KINDS)}")
        if len(m.output_shape) != 1 or m.output_dtype[0] != "b":
            raise ValueError("Learner: a model with one int8 output is expected; mica pack --embedding makes one")
        width = 1
        for d in m.output_shape[0]:
            width *= d
        self._m = m
        self._path = path
        number = KINDS.index(kind)
        setting = None
        if number == _ANOMALY:
            if alarms is not None or judged is not None:
                setting = int((1440 if judged is None else judged) / (1 if alarms is None else alarms) + 0.5)
        elif loose is not None:
            setting = int(16 * loose + 0.5)
        if setting is None:
            given, setting = False, 1440 if number == _ANOMALY else 36
        else:
            given = True
        _check(number, width, 20 if keep is None else keep, setting)
        # The fifth number is what was found last; -1: examples have changed since the last fit().
        self._numbers = array("i", [number, width, keep or 20, setting, -1, 0, 0])
        self._work = bytearray(2 * width)
        self._x = memoryview(self._work)[width:]
        self._learnt: tuple[tuple[str, ...], tuple[bytearray, ...]] = ((), ())
        if path is not None and not fresh:
            self._load(path)
            if keep is not None and keep != self._numbers[2]:
                raise ValueError(
                    f"{path} keeps {self._numbers[2]} examples of a label, not {keep}; fresh=True begins again"
                )
            if given and setting != self._numbers[3]:
                self._numbers[3] = setting
                self._numbers[4] = -1

    def _load(self, path):
        name = _slot(path)
        if name is not None:
            with open(name, "rb") as f:
                self._read(f, path)

    def restore(self, state: bytes) -> None:
        """Take the place of all that was taught: what state() has given, here or on the host."""
        f = BytesIO(state)
        if _sequence(f) in (None, -1):
            raise ValueError("restore: these bytes are no state of a head, or damaged")
        self._read(f, "restore")

    def _read(self, f, where):
        """Take up the state of a file whose checksum is right."""
        f.seek(0)
        _, _, _, _, version, kind, n, _, model, width, keep, setting = unpack(_LAYOUT, f.read(_HEAD))
        if version != _VERSION:
            raise ValueError(f"{where}: version {version} of a head; this firmware reads {_VERSION}")
        if model != _model(self._m) or width != self._numbers[1]:
            raise ValueError(f"{where}: taught with another model; teach again: fresh=True begins without it")
        if kind != self._numbers[0]:
            raise ValueError(f"{where}: a head of kind {KINDS[kind] if kind < 3 else kind!r}, not {self.kind!r}")
        _check(kind, width, keep, setting)
        numbers = array("i", [kind, width, keep, setting, 0, 0, 0])
        work, labels, blocks = bytearray(2 * width), (), ()
        whole = n <= _MOST
        if kind == _SOFTMAX:
            whole = whole and f.readinto(memoryview(work)[:width]) == width
            f.read(_padded(width))
        for _ in range(n if whole else 0):
            size = (f.read(1) or b"\0")[0]
            try:
                label = f.read(size).decode()
            except UnicodeError:
                label = ""
            f.read(_padded(1 + size))
            whole = size == len(label.encode()) and _is_label(label) and label not in labels
            words = f.read(4)
            count = unpack("<I", words)[0] if len(words) == 4 else 0
            if not (whole and 0 < count < 65536):
                whole = False
                break
            block = bytearray(self._bytes(numbers, keep))
            block[:4] = words
            used = self._bytes(numbers, count)
            whole = f.readinto(memoryview(block)[4:used]) == used - 4
            labels += (label,)
            blocks += (block,)
        if not whole or f.read(1):
            raise ValueError(f"{where}: damaged; fresh=True begins again")
        numbers[4] = -1
        self._numbers = numbers
        self._work[:] = work
        self._learnt = labels, blocks
        numbers[4] = 0

    def _bytes(self, numbers, count):
        """Return the bytes of a label's block, those that so many examples use."""
        kind, width, keep = numbers[0], numbers[1], numbers[2]
        n = 16
        if kind != _ANOMALY:
            n += 4 * width
        if kind != _PROTOTYPE:
            n += min(count, keep) * width
        return n + _padded(n)

    @property
    def kind(self) -> str:
        return KINDS[self._numbers[0]]

    @property
    def labels(self) -> list[str]:
        """In the order in which they were taught first."""
        return list(self._learnt[0])

    @property
    def counts(self) -> list[int]:
        """Examples taught of each label."""
        return [unpack_from("<I", b)[0] for b in self._learnt[1]]

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

    def teach(self, inputs: Inputs | None, label: str) -> None:
        """Run the model on the inputs, as predict() takes them, and add what it gives to the label's examples. None: its last run.

        From the second example of a label on it allocates nothing. Ctrl-C leaves the head with or without the example.
        """
        labels, blocks = self._learnt
        if label not in labels:
            if not _is_label(label):
                raise ValueError(f"teach: label {label!r}; a text of 1 to 63 bytes is expected")
            if len(labels) == _MOST:
                raise ValueError(f"teach: label {label!r} is one too many; a head has at most {_MOST}")
        self._embed(inputs)
        self._numbers[4] = -1
        if label not in labels:
            blocks = blocks + (bytearray(self._bytes(self._numbers, self._numbers[2])),)
            _mica.learn(_TEACH, self._numbers, self._work, blocks, len(labels))
            self._learnt = labels + (label,), blocks
            return
        c = labels.index(label)
        if blocks[c][0] & blocks[c][1] == 255:
            raise ValueError(f"teach: label {label!r} has 65535 examples, and takes no more")
        _mica.learn(_TEACH, self._numbers, self._work, blocks, c)

    def forget(self, label: str) -> None:
        """Take a label away, with all its examples."""
        labels, blocks = self._learnt
        if label not in labels:
            raise ValueError(f"forget: {label!r} was not taught; there are {', '.join(labels) or 'none'}")
        c = labels.index(label)
        self._numbers[4] = -1
        self._learnt = labels[:c] + labels[c + 1 :], blocks[:c] + blocks[c + 1 :]

    def fit(self) -> None:
        """Learn from the examples, which takes a softmax head some tenths of a second: predict() and save() do it when it is needed."""
        step = 0
        while self._numbers[4] < 0:
            if not _mica.learn(_FIT, self._numbers, self._work, self._learnt[1], step):
                self._numbers[4] = 0
            step += 1

    def closest(self, inputs: Inputs | None) -> tuple[str, float, float]:
        """Return (label, score, margin) of the label that comes closest, known or not: it is unknown where the margin is below 0.

        score: of softmax a probability, else the margin, which is 1 where there is no distance and 0 at the limit.
        """
        labels, blocks = self._learnt
        if not labels:
            raise ValueError("this head was taught nothing yet")
        if self._numbers[0] == _ANOMALY and min(self.counts) < 2:
            raise ValueError(
                "one recording says nothing of how much they differ; teach two of a label at least, better 20"
            )
        self.fit()
        self._embed(inputs)
        numbers = self._numbers
        _mica.learn(_JUDGE, numbers, self._work, blocks, 0)
        return labels[numbers[4]], numbers[5] / 256, numbers[6] / 256

    def predict(self, inputs: Inputs | None) -> tuple[str, float] | None:
        """Return (label, score), or None for something unknown; of "anomaly" None is the alarm. None as inputs: the last run."""
        label, score, margin = self.closest(inputs)
        return (label, score) if margin >= 0 else None

    def _head(self):
        kind, width, keep, setting = self._numbers[:4]
        n = _HEAD
        for part in self._parts():
            n += len(part)
        return bytearray(
            pack(
                _LAYOUT, _MAGIC, 0, n, 0, _VERSION, kind, len(self._learnt[0]), 0, _model(self._m), width, keep, setting
            )
        )

    def _parts(self):
        width = self._numbers[1]
        if self._numbers[0] == _SOFTMAX:
            yield memoryview(self._work)[:width]
            yield bytes(_padded(width))
        labels, blocks = self._learnt
        for label, block in zip(labels, blocks):
            name = label.encode()
            yield bytes([len(name)]) + name + bytes(_padded(1 + len(name)))
            yield memoryview(block)[: self._bytes(self._numbers, unpack_from("<I", block)[0])]

    def state(self) -> bytes:
        """All of it, as bytes: the same on every board and on the host after the same examples in the same order."""
        self.fit()
        head = self._head()
        crc = crc32(memoryview(head)[8:])
        for part in self._parts():
            crc = crc32(part, crc)
        pack_into("<I", head, 4, crc)
        return b"".join([bytes(head)] + [bytes(part) for part in self._parts()])

    def save(self) -> None:
        """Write the state into the older of the two files. Flash wears: save when asked to, not after each example."""
        if self._path is None:
            raise ValueError("save: this head has no path")
        self.fit()
        _put(self._path, self._head(), self._parts)

    def __repr__(self):
        taught = ", ".join([f"{label} ({n})" for label, n in zip(self.labels, self.counts)])
        return f"<mica.Learner {self.kind}: {taught or 'nothing taught yet'}>"
