"""A head that learns, in integers alone: the oracle of usermod_c/kernels/learn.c, on the same buffers.

A class is a block: words count, limit, bias, shift; then for prototypes int32 sums and uint32 sums of squares, for
softmax int32 weights; then for softmax and anomaly the kept examples, int8 [up to keep][width]. Example n of a class
replaces example n - keep. The word bias of a prototype, and of others while limits are found, has a bit for each
example, by a hash of it. work: uint8 [width] weights of distances, 16 on average; int8 [width], an example; of a
softmax head int8 [width], its centre.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mica.format.values import clip_s8
from mica.kernels.integers import log2, root

PROTOTYPE, SOFTMAX, ANOMALY = range(3)
TEACH, FIT, JUDGE = range(3)
MOST_CLASSES, MOST_WIDTH, MOST_KEPT, MOST_COUNT = 64, 4096, 1024, 65535
ROWS = 2, 1, 0  # words for each number, by kind
# 4096 * exp(-j / 16), from two tables; 0 from 145 on.
WHOLE, SIXTEENTHS = (np.array([round(32768 * math.exp(-i / by)) for i in range(n)]) for n, by in ((10, 1), (16, 16)))
EXP = ((WHOLE[:, None] * SIXTEENTHS + (1 << 17)) >> 18).reshape(-1)

_MOST = 0xFFFFFFFF

Array = np.ndarray


def block_bytes(kind: int, width: int, keep: int) -> int:
    """Bytes of a class: a multiple of 4."""
    return (16 + 4 * width * ROWS[kind] + keep * width * (kind != PROTOTYPE) + 3) & ~3


class _Class:
    """Views of a block. n: the examples that it stands for, all of a prototype, else those that are kept;
    sum, squares: of them."""

    def __init__(self, kind: int, width: int, keep: int, block: Any):
        self.words = np.frombuffer(block, "<u4", 4)
        self.signed = self.words.view("<i4")
        words = width * ROWS[kind]
        room = min(keep, (len(block) - 16 - 4 * words) // width) * (kind != PROTOTYPE)
        self.row = np.frombuffer(block, "<i4", min(words, width), 16)
        self.shots = np.frombuffer(block, np.int8, room * width, 16 + 4 * words).reshape(room, width)
        self.n = min(int(self.words[0]), room or MOST_COUNT)
        self.kept = self.shots[: self.n].astype(np.int64)
        if room:
            self.sum, self.squares = self.kept.sum(0), (self.kept**2).sum(0)
        else:
            self.square = np.frombuffer(block, "<u4", width, 16 + 4 * width)
            self.sum, self.squares = self.row.astype(np.int64), self.square.astype(np.int64)

    @property
    def distinct(self) -> int:
        """Return how many examples are no repeats, as far as bits tell it."""
        marked = int(self.words[2]).bit_count()
        return marked if 0 < marked < 16 and 2 * marked <= self.n else self.n

    @property
    def scatter(self) -> Array:
        """Return what the distinct examples lie from their mean, squared, summed up; in quarters, for each number."""
        apart = (self.n * self.squares - self.sum**2).astype(np.uint64)
        return (apart * (4 * self.distinct) // self.n**2).astype(np.int64)

    def mark(self, x: Array) -> None:
        """Mark one of 32 bits for an example, by a hash of it."""
        powers = np.cumprod(np.full(len(x), 2654435761, np.uint32), dtype=np.uint32)[::-1]
        self.words[2] |= 1 << (int((x.astype(np.uint32) * powers).sum(dtype=np.uint32)) >> 27)

    def teach(self, x: Array, keep: int) -> None:
        """Add an example to a prototype: half of all is forgotten where 2 * keep examples are there."""
        if self.words[0] >> 1 >= keep:
            self.words[0] -= self.words[0] >> 1
            self.row[:] = (self.row + (self.row < 0)) >> 1
            self.square -= self.square >> 1
        self.row[:] += x.astype(np.int32)
        self.square[:] += (x**2).astype(np.uint32)
        self.mark(x)


def learn(op: int, numbers: Any, work: Any, blocks: Sequence[Any], arg: int) -> bool:
    """One operation, as _mica.learn() has it. numbers: kind, width, keep, setting;
    and best, score, margin, which JUDGE finds.

    TEACH adds the example in `work` to class arg. FIT is done step by step, arg = 0, 1, ..., until it returns False.
    """
    kind, width, keep, setting = numbers[:4]
    work = np.frombuffer(work, np.int8)
    weights, centre = work[:width].view(np.uint8), work[2 * width :]
    x = work[width : 2 * width].astype(np.int64)
    if op == TEACH:
        c = _Class(kind, width, keep, blocks[arg])
        if kind == PROTOTYPE:
            c.teach(x, keep)
        else:
            c.shots[int(c.words[0]) % keep] = x
        c.words[0] += 1
        return False
    classes = [_Class(kind, width, keep, block) for block in blocks]
    if op == FIT:
        return _epoch(centre, classes, arg) if arg else _begin(kind, setting, weights, centre, classes)
    numbers[4], numbers[5], numbers[6] = _judge(kind, weights.astype(np.int64), centre, classes, x)
    return False


def _begin(kind: int, setting: int, weights: Array, centre: Array, classes: list[_Class]) -> bool:
    for c in classes if kind != PROTOTYPE else ():
        c.words[2] = 0
        for x in c.kept:
            c.mark(x)
    weights[:] = _weights(kind, len(weights), classes)
    _spread_limits(setting, weights.astype(np.int64), classes)
    for c in classes if kind == ANOMALY else ():
        c.words[1] = _alarm_limit(c.kept, weights.astype(np.int64), setting)
    if kind != SOFTMAX or not classes:
        return False
    every = np.concatenate([c.kept for c in classes])
    total = len(every)
    centre[:] = (every.sum(0) * 2 + total) // (2 * total)
    power = int(((every - centre) ** 2).sum()) // total
    for c in classes:
        c.row[:] = 0
        c.signed[2:] = 0, (max(power, 16).bit_length() - 16 & 31) | 16 << 8
    return True


def _epoch(centre: Array, classes: list[_Class], step: int) -> bool:
    """Descend, an example of each class in turn: a class that has fewer repeats its own. Stop where a weight leaves
    [-2^bits, 2^bits): sums of products fit 32 bits."""
    rows = np.stack([c.row for c in classes]).astype(np.int64)
    bias, shift = np.stack([c.signed[2:] for c in classes]).astype(np.int64).T
    bits = 31 - max(6, (len(centre) - 1).bit_length())
    apart = [clip_s8(c.kept - centre).astype(np.int64) for c in classes]
    turns = [(apart[k][j % c.n], k) for j in range(max(c.n for c in classes)) for k, c in enumerate(classes)]
    small = True
    for done, (x, label) in enumerate(turns, 1):
        e = _numerators(rows, bias, shift, x)[1]
        total = int(e.sum())
        g = (e * 256 + total // 2) // total
        g[label] -= 256
        rows -= g[:, None] * x
        bias = bias - g * 64
        if done % (1 << (bits - 16)) == 0 or done == len(turns):
            small = bool(-1 << bits <= rows.min() and rows.max() < 1 << bits)
            if not small:
                break
    for c, row, b in zip(classes, rows, bias, strict=True):
        c.row[:], c.signed[2] = row.astype(np.int32), b
    return small and step < epochs(len(turns))


def epochs(total: int) -> int:
    """The number of epochs for so many kept examples."""
    return max(15, min(1500 // total, 60))


def _numerators(rows: Array, bias: Array, shift: Array, x: Array) -> tuple[int, Array]:
    """The most probable class, and numerators of probabilities: 4096 of that one. Logits are in 16ths.

    shift: a shift, and times 256 so many 16ths of a difference between logits as count.
    """
    o = ((rows >> 8) @ x >> (11 + shift & 31)) + (bias >> 14)
    return int(o.argmax()), EXP[np.minimum((o.max() - o) * (shift[0] >> 8 & 255) >> 4, 159)]


def _weights(kind: int, width: int, classes: list[_Class]) -> Array:
    """Return a weight for each number, 16 on average: the inverse of its variance within the classes (of an anomaly
    the root of that), shrunk to the mean variance as if three examples more had that."""
    free = sum(c.distinct - 1 for c in classes)
    if not free:
        return np.full(width, 16)
    within = sum((c.scatter for c in classes), np.zeros(width, np.int64))
    base = int(within.sum()) // free // width + 1
    r = np.minimum((base << 16) // (((within + 3 * base) << 8) // (free + 3) + 1), 16383) + 1
    if kind == ANOMALY:
        r = root(r << 8)
    total = int(r.sum())
    return np.clip((16 * width * r + total // 2) // total, 1, 255)


def _gap(weights: Array, classes: list[_Class]) -> int:
    """Return the least distance from the mean of a class to that of another."""
    means = [(2 * c.sum + 257 * c.n) // (2 * c.n) - 128 for c in classes]
    return min(_distance(c, weights, mean) for k, mean in enumerate(means) for c in classes[:k])


def _spread_limits(setting: int, weights: Array, classes: list[_Class]) -> None:
    """Set the limit of each class, in 16ths: a multiple of what its examples lie from their mean, shrunk to what all do
    as if four more did that; and 5/32 of the gap count as one more. Without a second example or class there is none."""
    free, several = sum(c.distinct - 1 for c in classes), len(classes) > 1
    scatters = [int((c.scatter * weights).sum()) for c in classes]  # in quarters
    pooled = (sum(scatters) + (_gap(weights, classes) // 8 * 5 if several else 0)) // max(free + several, 1)
    for c, scatter in zip(classes, scatters, strict=True):
        spread = ((scatter >> 2) + pooled) // (c.distinct + 3)
        loose = min((spread * setting >> 4) + 1, 0x7FFFFFFF) if free + several else 0
        c.words[1] = loose + loose // c.distinct


def _alarm_limit(kept: Array, weights: Array, one_in: int) -> int:
    """Return the distance that one in `one_in` normal recordings passes, 0 where no two recordings differ.

    It is from the tail of the distances between those that were learnt.
    """
    n = len(kept)
    apart = np.abs(kept[:, None] - kept) @ weights
    nearest = np.where(apart, apart, _MOST).min(1)
    mean = int(nearest.sum()) // n
    above = nearest[nearest > mean]
    beyond = int((above - mean).sum()) // max(len(above), 1)
    tail = int(log2(np.array([max((one_in * len(above) << 8) // n, 256)]))[0]) - (8 << 16)
    return min((mean + 1 & _MOST) + (beyond * (tail * 45426 >> 16) >> 16), _MOST)


def _distance(c: _Class, weights: Array, x: Array) -> int:
    """To the mean of a class, squared, in 16ths: the mean is rounded to quarters, and a weight of 16 is 1."""
    mean = (8 * (c.sum + 128 * c.n) + c.n) // (2 * c.n) - 512
    return min(int((4 * x - mean) ** 2 @ weights) >> 4, _MOST)


def _parts(distance: int, of: int) -> int:
    """The distance in 256ths of `of`."""
    down = max(distance.bit_length() - 23, 0)
    return 256 * (distance >> down) // max(of >> down, 1)


def _judge(kind: int, weights: Array, centre: Array, classes: list[_Class], x: Array) -> tuple[int, int, int]:
    """Class, score and margin, the last two in 256ths."""
    anomaly = kind == ANOMALY
    far = [int((np.abs(c.kept - x) @ weights).min()) if anomaly else _distance(c, weights, x) for c in classes]
    best, score = int(np.argmin(far)), None
    if kind == SOFTMAX:
        rows = np.stack([c.row for c in classes])
        bias, shift = np.stack([c.signed[2:] for c in classes]).T
        best, e = _numerators(rows.astype(np.int64), bias, shift, clip_s8(x - centre).astype(np.int64))
        score = (4096 * 256 + int(e.sum()) // 2) // int(e.sum())
    far = [_parts(f, int(c.words[1])) for f, c in zip(far, classes, strict=True)]
    own, margin = far.pop(best), 0
    if classes[best].words[1]:
        # Beside the distance itself it counts how much nearer this class is than the next.
        margin = 256 - min(own + (0 if anomaly else _parts(own, min(far, default=_MOST)) // 2), 65535)
    return best, margin if score is None else score, margin
