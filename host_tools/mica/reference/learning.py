"""A head that learns, in integers alone: the oracle of usermod_c/kernels/learn.c, on the same buffers.

A class is a block: words count, limit, bias, shift (of a prototype the last two are the sum of squares, 64 bits); then for
prototypes int32 sums, for softmax int32 weights; then for softmax and anomaly the kept examples, int8 [keep][width].
work is int8 [2][width]: the centre of a softmax head, and room for an example. Example n of a class replaces example n - keep.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mica.format.values import clip_s8

PROTOTYPE, SOFTMAX, ANOMALY = range(3)
TEACH, FIT, JUDGE = range(3)
MOST_CLASSES, MOST_WIDTH, MOST_KEPT, MOST_COUNT = 64, 4096, 1024, 65535
WORDS = 4  # at the head of a block
# 4096 * exp(-j / 16), from two tables; 0 from 145 on.
WHOLE, SIXTEENTHS = (np.array([round(32768 * math.exp(-i / by)) for i in range(n)]) for n, by in ((10, 1), (16, 16)))
EXP = ((WHOLE[:, None] * SIXTEENTHS + (1 << 17)) >> 18).reshape(-1)

_MOST = 0xFFFFFFFF

Array = np.ndarray


@dataclass(frozen=True)
class Shape:
    """Kind, width of the embedding, examples that are kept of a class, and the setting: how loose, or one alarm in how many."""

    kind: int
    width: int
    keep: int
    setting: int

    @property
    def most_setting(self) -> int:
        """The largest setting of this kind."""
        return (1 << (24 if self.kind == ANOMALY else 16)) - 1

    @property
    def block_bytes(self) -> int:
        """Bytes of a class: a multiple of 4."""
        kept = self.keep * self.width if self.kind != PROTOTYPE else 0
        return (4 * WORDS + (4 * self.width if self.kind != ANOMALY else 0) + kept + 3) & ~3


class _Class:
    """Views of a block."""

    def __init__(self, shape: Shape, block: Any):
        self.words = np.frombuffer(block, "<u4", WORDS)
        self.square = np.frombuffer(block, "<u8", 1, 8)
        row = shape.width if shape.kind != ANOMALY else 0
        self.row = np.frombuffer(block, "<i4", row, 4 * WORDS)
        room = shape.keep if shape.kind != PROTOTYPE else 0
        kept = np.frombuffer(block, np.int8, room * shape.width, 4 * (WORDS + row)).reshape(room, shape.width)
        self.shots = kept
        self.n = min(int(self.words[0]), shape.keep) if room else int(self.words[0])
        self.kept = kept[: self.n].astype(np.int64)

    def sums(self) -> tuple[Array, int]:
        """The sum of the examples, and of the squares of all their elements."""
        if len(self.shots):
            return self.kept.sum(0), int((self.kept**2).sum())
        return self.row.astype(np.int64), int(self.square[0])


def summed(block: Any, other: Any, sign: int) -> bytearray:
    """Block of a prototype with the sums of another's added, or with sign -1 taken away."""
    to = bytearray(block)
    for kind, at, n in (("<u4", 0, 1), ("<u8", 8, 1), ("<i4", 16, -1)):
        np.frombuffer(to, kind, n, at)[:] += (sign * np.frombuffer(other, kind, n, at).astype(np.int64)).astype(kind)
    return to


def is_sum(block: Any) -> bool:
    """Return True if some examples may have the sums of this block of a prototype."""
    n, square = int.from_bytes(block[:4], "little"), int.from_bytes(block[8:16], "little")
    row = np.frombuffer(block, "<i4", -1, 16).astype(np.int64)
    if not 1 <= n <= MOST_COUNT or row.min() < -128 * n or row.max() > 127 * n:
        return False
    return int((row**2).sum()) <= n * square <= n * n * 128**2 * len(row)


def learn(op: int, shape: Shape, work: Any, blocks: Sequence[Any], x: Any, arg: int) -> tuple[int, int, int]:
    """One operation on the buffers; (result, score, margin), the last two of JUDGE alone, in 256ths.

    TEACH adds x to class arg. FIT is done step by step, arg = 0, 1, ..., until its result is 0. JUDGE finds the class of x.
    """
    classes = [_Class(shape, block) for block in blocks]
    x = np.frombuffer(x, np.int8).astype(np.int64) if op != FIT else np.zeros(0, np.int64)
    if op == TEACH:
        _teach(shape, classes[arg], x)
        return 0, 0, 0
    if op == FIT:
        return _fit(shape, np.frombuffer(work, np.int8), classes, arg), 0, 0
    return _judge(shape, np.frombuffer(work, np.int8), classes, x)


def _teach(shape: Shape, c: _Class, x: Array) -> None:
    if shape.kind == PROTOTYPE:
        c.row[:] += x.astype(np.int32)
        c.square[0] += np.uint64((x**2).sum())
    else:
        c.shots[int(c.words[0]) % shape.keep] = x
    c.words[0] += 1


def _fit(shape: Shape, work: Array, classes: list[_Class], step: int) -> int:
    if step == 0:
        if shape.kind == ANOMALY:
            for c in classes:
                c.words[1] = _alarm_limit(c.kept, shape.setting)
        else:
            _spread_limits(shape, classes)
        if shape.kind != SOFTMAX or not classes:
            return 0
        every = np.concatenate([c.kept for c in classes])
        total = len(every)
        centre = (every.sum(0) * 2 + total) // (2 * total)
        work[: shape.width] = centre
        power = (int((every**2).sum()) - int((every.sum(0) ** 2).sum()) // total) // total
        for c in classes:
            c.row[:] = 0
            c.words[2] = 0
            c.words[3:].view("<i4")[0] = max(power, 16).bit_length() - 16
        return 1
    centre = work[: shape.width].astype(np.int64)
    bits, done = _weight_bits(shape.width), 0
    for j in range(max(c.n for c in classes)):
        for k, c in enumerate(classes):
            if j < c.n:
                _update(classes, clip_s8(c.kept[j] - centre), k)
                done += 1
                if done % (1 << (bits - 16)) == 0 and not _small(classes, bits):
                    return 0
    return int(step < epochs(done) and _small(classes, bits))


def epochs(total: int) -> int:
    """The number of epochs for so many kept examples."""
    return max(15, min(1500 // total, 60))


def _logits(classes: list[_Class], x: Array) -> Array:
    """One for each class, in 16ths."""
    sums = np.array([int(((c.row.astype(np.int64) >> 8) * x).sum()) >> (11 + _shift(c)) for c in classes])
    return sums + (np.array([_bias(c) for c in classes]) >> 14)


def _shift(c: _Class) -> int:
    return int(c.words[3:].view("<i4")[0])


def _bias(c: _Class) -> int:
    return int(c.words[2:3].view("<i4")[0])


def _update(classes: list[_Class], x: Array, label: int) -> None:
    """One step of gradient descent."""
    o = _logits(classes, x)
    e = EXP[np.minimum(o.max() - o, 159)]
    total = int(e.sum())
    for k, c in enumerate(classes):
        g = (int(e[k]) * 256 + total // 2) // total - 256 * (k == label)
        c.row[:] -= (g * x).astype(np.int32)
        c.words[2:3].view("<i4")[0] -= g * 64


def _weight_bits(width: int) -> int:
    """Learning stops where a weight leaves [-2^bits, 2^bits): sums of products still fit 32 bits then."""
    return 31 - max(6, (width - 1).bit_length())


def _small(classes: list[_Class], bits: int) -> bool:
    return all(bool(((c.row >= -1 << bits) & (c.row < 1 << bits)).all()) for c in classes)


def _spread_limits(shape: Shape, classes: list[_Class]) -> None:
    """Set the limit of each class: a multiple of the mean squared distance of all examples from their means, in 16ths."""
    scatter, total = 0, 0
    for c in classes:
        s, square = c.sums()
        scatter += square - int((s**2).sum()) // c.n
        total += c.n
    free = total - len(classes)
    loose = min((16 * scatter // free * shape.setting >> 4) + 1, 0x7FFFFFFF) if free else 0
    for c in classes:
        c.words[1] = loose + loose // c.n


def _alarm_limit(kept: Array, one_in: int) -> int:
    """The distance that one in `one_in` normal recordings passes, from the tail of the distances between those that were learnt."""
    n = len(kept)
    if n < 2:
        return 0
    apart = np.abs(kept[:, None] - kept).sum(2)
    nearest = (apart + (np.eye(n, dtype=np.int64) << 40)).min(1)
    mean = int(nearest.sum()) // n
    above = nearest[nearest > mean]
    if not len(above):
        return mean + 1
    beyond = int((above - mean).sum()) // len(above)
    turns = _log2(one_in) + _log2(len(above)) - _log2(n)
    return min(mean + 1 + (beyond * (max(turns, 0) * 45426 >> 16) >> 16), _MOST)


def _log2(v: int) -> int:
    """2^16 times the binary logarithm, rounded down: usermod_c/kernels/integer_math.h."""
    log = v.bit_length() - 1
    v <<= 31 - log
    for _ in range(16):
        square = v * v
        two = square >> 63
        v = square >> (31 + two)
        log = log << 1 | two
    return log


def _distance(c: _Class, x: Array) -> int:
    """To the mean of a class, squared, in 16ths: the mean is rounded to quarters."""
    s, _ = c.sums()
    mean = (8 * (s + 128 * c.n) + c.n) // (2 * c.n) - 512
    return int(((4 * x - mean) ** 2).sum())


def _parts(n: int, distance: int, of: int) -> int:
    """The distance in nth parts of `of`."""
    down = max(distance.bit_length() - 23, 0)
    return n * (distance >> down) // max(of >> down, 1)


def _judge(shape: Shape, work: Array, classes: list[_Class], x: Array) -> tuple[int, int, int]:
    if shape.kind == ANOMALY:
        far = [int(np.abs(c.kept - x).sum(1).min()) for c in classes]
    else:
        far = [_distance(c, x) for c in classes]
    best, score = int(np.argmin(far)), None
    if shape.kind == SOFTMAX:
        o = _logits(classes, clip_s8(x - work[: shape.width]))
        best = int(o.argmax())
        e = EXP[np.minimum(o[best] - o, 159)]
        score = (4096 * 256 + int(e.sum()) // 2) // int(e.sum())
    margin, limit = 0, int(classes[best].words[1])
    if limit:
        # Beside the distance itself it counts how much nearer this class is than the next.
        others = [f for k, f in enumerate(far) if k != best]
        ratio = 0 if shape.kind == ANOMALY else _parts(192, far[best], min(others, default=_MOST))
        margin = 256 - min(_parts(256, far[best], limit) + ratio, 65535)
    return best, margin if score is None else score, margin
