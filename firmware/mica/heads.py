"""Heads that learn labels from embeddings, and the bytes of their states: for mica.Learner,
and for mica.learn on a computer.

A state is a header with a checksum, weights of distances, the centre of a softmax head, and each label with its block
(usermod_c/kernels/learn.h). Version 1 had no weights, and of a prototype one sum of squares, not one for each number.
"""

from array import array
from binascii import crc32
from io import BytesIO
from struct import calcsize, pack, pack_into, unpack, unpack_from

KINDS: tuple[str, ...] = ("prototype", "softmax", "anomaly")
_PROTOTYPE, _SOFTMAX, _ANOMALY = 0, 1, 2
_TEACH, _FIT, _JUDGE = 0, 1, 2
MOST_LABELS = 64
_ALL = 65535  # as `keep` of a prototype: it forgets nothing
_VERSION = 2
# magic, CRC-32 of all behind it, bytes, sequence; version, kind, labels, 0; length and CRC-32 of the model's file;
# width, keep, setting
_LAYOUT = "<4sIIIBBBB8sHHI"
HEAD = calcsize(_LAYOUT)
Refused = ValueError  # on a computer mica.errors.MicaError


def _is_label(label):
    return isinstance(label, str) and 0 < len(label.encode()) < 64 and all(c >= " " and c != "\x7f" for c in label)


def _check(kind, width, keep, setting):
    most = 1 << (24 if kind == _ANOMALY else 16)
    if not (0 < width <= 4096 and 0 < keep <= (1024 if kind else _ALL) and 0 < setting < most):
        text = "positive numbers are expected, 4096 and 1024 at most"
        raise Refused(f"a head of {width} elements, keep={keep}, or its setting; {text}")


def sequence(f: Any) -> int | None:
    """Return the sequence of the state in a file, None where it is damaged, -1 where it was not written to its end."""
    size = f.seek(0, 2)
    f.seek(0)
    head = f.read(HEAD)
    if len(head) < HEAD:
        return -1
    magic, crc, length, number = unpack_from("<4sIII", head)
    if magic != b"mlrn" or length != size:
        return -1 if magic == b"mlrn" and size < length else None
    found = crc32(head[8:])
    part = bytearray(256)
    while True:
        n = f.readinto(part)
        if not n:
            break
        found = crc32(memoryview(part)[:n], found)
    return number if found == crc else None


def seal(head: bytearray, number: int, parts: Any) -> None:
    """Put sequence and checksum into the header of a state, whose other bytes are `parts`."""
    pack_into("<I", head, 12, number & 0xFFFFFFFF)
    crc = crc32(memoryview(head)[8:])
    for part in parts:
        crc = crc32(part, crc)
    pack_into("<I", head, 4, crc)


def header(state: bytes) -> tuple[str, int, bytes]:
    """Return kind, width and the model's digest of a whole state."""
    if sequence(BytesIO(state)) in (None, -1) or state[17] >= len(KINDS):
        raise Refused("these bytes are no state of a head, or damaged")
    return KINDS[state[17]], unpack_from("<H", state, 28)[0], bytes(state[20:28])


def _spread(block, count, width):
    """Give each number of a prototype of version 1 its sum of squares: the scatter is spread evenly."""
    (square,) = unpack_from("<Q", block, 8)
    sums = unpack_from("<%di" % width, block, 16)
    scatter = count * square - sum([s * s for s in sums])
    each = scatter // (count * width)
    squares = [-(-s * s // count) + each for s in sums]
    if scatter < 0 or max(squares) >> 32:
        return False
    pack_into("<II", block, 8, 0, 0)
    pack_into("<%dI" % width, block, 16 + 4 * width, *squares)
    return True


class Head:
    """The part of a Learner that needs no model. A subclass has _embed(), which fills `_x`, _op(), and _digest()
    of its model."""

    def _begin(self, kind, width, keep=None, loose=None, alarms=None, judged=None):
        if kind not in KINDS:
            raise Refused(f"kind {kind!r} of a head; there are {', '.join(KINDS)}")
        number = KINDS.index(kind)
        keep = (20 if number else _ALL) if keep is None else keep
        setting = 16 * (2.75 if loose is None else loose)
        if number == _ANOMALY:
            alarms = 1 if alarms is None else alarms
            setting = (1440 if judged is None else judged) / alarms if alarms > 0 else 0
        setting = int(min(setting, 1e9) + 0.5)
        _check(number, width, keep, setting)
        # The fifth number is what was found last; -1: examples have changed since the last fit().
        self._numbers = array("i", [number, width, keep, setting, -1, 0, 0])
        self._work = bytearray((3 if number == _SOFTMAX else 2) * width)
        self._x = memoryview(self._work)[width : 2 * width]
        self._trial = array("i", self._numbers if number == _SOFTMAX else ())
        self._learnt: tuple[tuple[str, ...], tuple[bytearray, ...]] = ((), ())

    def restore(self, state: bytes) -> None:
        """Take the place of all that was taught: what state() has given, here or on the host."""
        header(state)
        self._read(BytesIO(state))

    def _read(self, f):
        """Take up the state of a file whose checksum is right."""
        f.seek(0)
        _, _, _, _, version, kind, n, _, model, width, keep, setting = unpack(_LAYOUT, f.read(HEAD))
        if not 1 <= version <= _VERSION:
            raise Refused(f"version {version} of a head; this mica reads 1 to {_VERSION}")
        if model != self._digest() or width != self._numbers[1]:
            raise Refused("taught with another model; teach again, or take that model")
        if kind != self._numbers[0]:
            raise Refused(f"a head of kind {KINDS[kind] if kind < 3 else kind!r}, not {self.kind!r}")
        old = version == 1
        if old and kind != _ANOMALY:  # the default, and a number without a meaning
            setting, keep = 44 if setting == 36 else setting, keep if kind else _ALL
        _check(kind, width, keep, setting)
        numbers = array("i", [kind, width, keep, setting, 0, 0, 0])
        work, labels, blocks = bytearray(b"\x10" * len(self._work)), (), ()
        whole = n <= MOST_LABELS
        for part in self._lasting(work)[old:]:
            whole = f.readinto(part) == width and whole
            f.read(-width % 4)
        while whole and len(labels) < n:
            label, block = self._read_label(f, numbers, old)
            whole = block is not None and label not in labels
            labels, blocks = labels + (label,), blocks + (block,)
        if not whole or f.read(1):
            raise Refused("damaged; copy it again, or teach again")
        numbers[4] = -1
        self._numbers = numbers
        self._work[:] = work
        self._learnt = labels, blocks
        numbers[4] = -old

    def _read_label(self, f, numbers, old):
        """Return the next label and its block; None as the block of a damaged one."""
        size = (f.read(1) or b"\0")[0]
        try:
            label = f.read(size).decode()
        except UnicodeError:
            label = ""
        f.read((-1 - size) % 4)
        words = f.read(4)
        count = int.from_bytes(words, "little")
        if not 0 < count < 65536 or size != len(label.encode()) or not _is_label(label):
            return label, None
        block = bytearray(self._bytes(numbers, count))
        block[:4] = words
        less = 4 * numbers[1] if old and numbers[0] == _PROTOTYPE else 0
        whole = f.readinto(memoryview(block)[4 : len(block) - less]) == len(block) - less - 4
        whole = whole and (not less or _spread(block, count, numbers[1]))
        if numbers[0] == _PROTOTYPE and not any(block[8:12]):  # older than these bits: none of its examples is a repeat
            block[8:12] = b"\xff\xff\xff\xff"
        return label, block if whole else None

    def _bytes(self, numbers, count):
        """Return the bytes of a label's block, those that so many examples use."""
        kind, width = numbers[0], numbers[1]
        n = (8, 4, 0)[kind] * width
        if kind != _PROTOTYPE:
            n += min(count, numbers[2]) * width
        return 16 + n + -n % 4

    @property
    def kind(self) -> str:
        return KINDS[self._numbers[0]]

    @property
    def labels(self) -> list[str]:
        """In the order in which they were taught first."""
        return list(self._learnt[0])

    @property
    def counts(self) -> list[int]:
        """Examples taught of each label; of a prototype that forgets those that it stands for."""
        return [unpack_from("<I", b)[0] for b in self._learnt[1]]

    def teach(self, inputs: Inputs | None, label: str) -> None:
        """Add an example to a label. Of a Learner: inputs as predict() of the model takes them, or None: its last run.

        A label of a prototype takes its memory at its first example, other labels take more up to `keep` examples;
        then teaching allocates nothing. Ctrl-C and a full memory leave the head with or without the example.
        """
        labels, blocks = self._learnt
        new = label not in labels
        if new and not _is_label(label):
            raise Refused(f"teach: label {label!r}; a text of 1 to 63 bytes is expected")
        if new and len(labels) == MOST_LABELS:
            raise Refused(f"teach: label {label!r} is one too many; a head has at most {MOST_LABELS}")
        c = len(labels) if new else labels.index(label)
        if not new and blocks[c][0] & blocks[c][1] == 255:
            raise Refused(f"teach: label {label!r} has 65535 examples, and takes no more")
        self._embed(inputs)
        self._numbers[4] = -1
        block = bytearray(16) if new else blocks[c]
        more = self._bytes(self._numbers, (block[0] | block[1] << 8) + 1) - len(block)
        if more > 0:
            block.extend(bytes(more))
        if new:
            blocks = blocks + (block,)
        self._op(_TEACH, blocks, c)
        if new:
            self._learnt = labels + (label,), blocks

    def forget(self, label: str) -> None:
        """Take a label away, with all its examples."""
        labels, blocks = self._learnt
        if label not in labels:
            raise Refused(f"forget: {label!r} was not taught; there are {', '.join(labels) or 'none'}")
        c = labels.index(label)
        self._numbers[4] = -1
        self._learnt = labels[:c] + labels[c + 1 :], blocks[:c] + blocks[c + 1 :]

    def fit(self) -> None:
        """Learn from the examples, which takes a softmax head some tenths of a second: predict() and save()
        do it when it is needed."""
        if self._numbers[4] < 0:
            counts = self._trust() if self._numbers[0] == _SOFTMAX else 0
            self._learn(self._numbers)
            if counts:
                self._count(counts)
            self._numbers[4] = 0

    def _learn(self, numbers):
        step = 0
        while self._op(_FIT, self._learnt[1], step, numbers):
            step += 1

    def _count(self, sixteenths):
        """Set how many 16ths of a difference between logits count."""
        for block in self._learnt[1]:
            block[13] = sixteenths

    def _trust(self):
        """Return how many 16ths of a logit count, so that scores promise no more than is right.

        A quarter of the examples is judged by a head that learnt the others. It allocates nothing.
        """
        numbers, most = self._trial, 0
        for i in range(7):
            numbers[i] = self._numbers[i]
        for block in self._learnt[1]:
            most = max(most, min(block[0] | block[1] << 8, numbers[2]))
        numbers[2] = 3 * most // 4
        if not numbers[2]:
            return 16
        self._learn(numbers)
        low, high = 1, 16
        while low < high:
            half = (low + high + 1) // 2
            self._count(half)
            if self._promises(numbers, most):
                high = half - 1
            else:
                low = half
        return low

    def _promises(self, numbers, most):
        """Return True if scores of what was left out, 64 examples at most,
        promise more than the share that is right."""
        blocks, width, x = self._learnt[1], numbers[1], self._x
        n = right = promised = 0
        for j in range(numbers[2], most):
            for k in range(len(blocks)):
                block = blocks[k]
                if n == 64 or j >= block[0] | block[1] << 8:
                    continue
                at = 16 + (4 + j) * width
                for i in range(width):
                    x[i] = block[at + i]
                self._op(_JUDGE, blocks, 0, numbers)
                n += 1
                right += numbers[4] == k
                promised += numbers[5]
        return promised * (2 * n + 2) > 256 * n * (2 * right + 1)

    def closest(self, inputs: Inputs | None) -> tuple[str, float, float]:
        """Return (label, score, margin) of the label that comes closest, known or not: it is unknown where the margin
        is below 0.

        score: of softmax a probability, else the margin, which is 1 where there is no distance and 0 at the limit.
        """
        labels, blocks = self._learnt
        if not labels:
            raise Refused("this head was taught nothing yet")
        self.fit()
        if self._numbers[0] == _ANOMALY and 0 in [unpack_from("<I", b, 4)[0] for b in blocks]:
            raise Refused("one recording says nothing of how much they differ; teach two of a label, better 20")
        self._embed(inputs)
        numbers = self._numbers
        self._op(_JUDGE, blocks, 0)
        return labels[numbers[4]], numbers[5] / 256, numbers[6] / 256

    def predict(self, inputs: Inputs | None) -> tuple[str, float] | None:
        """Return (label, score), or None for something unknown; of "anomaly" None is the alarm.
        Inputs as of teach()."""
        label, score, margin = self.closest(inputs)
        return (label, score) if margin >= 0 else None

    def report(self) -> list[tuple[str, int, float, str | None, float]]:
        """Return for each label (label, examples, spread, nearest other label, distance to that).

        spread: how far examples of the label lie from their mean, in the embedding's numbers; 0 where nothing tells it.
        distance: from the mean to the other label, in limits of that one. Below 1 it would be taken for the other one.
        """
        self.fit()
        rows = []
        for label, block in zip(*self._learnt):
            count, limit = unpack_from("<II", block)
            nearest, apart = None, 0.0
            for other, its in zip(*self._learnt):
                away = self._away(self._mean(block), its) if other != label else 0
                if other != label and (nearest is None or away < apart):
                    nearest, apart = other, away
            n = count if self._numbers[0] == _PROTOTYPE else min(count, self._numbers[2])
            anomaly = self._numbers[0] == _ANOMALY
            spread = limit / 16 if anomaly else (limit / self._numbers[3] / (1 + 1 / n)) ** 0.5
            rows.append((label, count, spread, nearest, apart))
        return rows

    def _mean(self, block):
        """Return the mean of a label's examples, rounded."""
        kind, width, keep = self._numbers[:3]
        n = unpack_from("<I", block)[0]
        if kind == _PROTOTYPE:
            sums = unpack_from("<%di" % width, block, 16)
        else:
            n = min(n, keep)
            at = 16 + (8, 4, 0)[kind] * width
            kept = array("b", bytes(memoryview(block)[at : at + n * width]))
            sums = [sum([kept[i + j * width] for j in range(n)]) for i in range(width)]
        return bytes([(2 * s + n) // (2 * n) & 255 for s in sums])

    def _away(self, x, block):
        """Return the distance from an embedding to a label, in limits of that."""
        self._x[:] = x
        self._op(_JUDGE, (block,), 0)
        return 1 - self._numbers[6] / 256

    def _lasting(self, work):
        """Return the parts of `work` that a state has: weights, and the centre of a softmax head."""
        width = self._numbers[1]
        return [memoryview(work)[at : at + width] for at in range(0, len(work), 2 * width)]

    def _head(self):
        kind, width, keep, setting = self._numbers[:4]
        n = HEAD + sum(len(part) for part in self._parts())
        labels = len(self._learnt[0])
        head = pack(_LAYOUT, b"mlrn", 0, n, 0, _VERSION, kind, labels, 0, self._digest(), width, keep, setting)
        return bytearray(head)

    def _parts(self):
        width = self._numbers[1]
        for part in self._lasting(self._work):
            yield part
            yield bytes(-width % 4)
        for label, block in zip(*self._learnt):
            name = label.encode()
            yield bytes([len(name)]) + name + bytes((-1 - len(name)) % 4)
            yield memoryview(block)[: self._bytes(self._numbers, unpack_from("<I", block)[0])]

    def state(self) -> bytes:
        """All of it, as bytes: the same on every board and on the host after the same examples in the same order."""
        self.fit()
        head = self._head()
        seal(head, 0, self._parts())
        return b"".join([bytes(head)] + [bytes(part) for part in self._parts()])

    def __repr__(self):
        taught = ", ".join([f"{label} ({n})" for label, n in zip(self.labels, self.counts)])
        return f"<mica.Learner {self.kind}: {taught or 'nothing taught yet'}>"
