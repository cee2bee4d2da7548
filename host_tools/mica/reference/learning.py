"""A head that learns, in integers alone: the oracle of usermod_c/kernels/learn.c, on the same buffers.

A class is a block: words count, limit, bias, shift (of a prototype the last two are the sum of squares, 64 bits); then for
prototypes int32 sums, for softmax int32 weights; then for softmax and anomaly the kept examples, int8
[up to keep][width].
work is int8 [2][width]: the centre of a softmax head, and an example. Example n of a class replaces example n - keep.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mica.format.values import clip_s8
from mica.kernels.integers import log2

PROTOTYPE, SOFTMAX, ANOMALY = range(3)
TEACH, FIT, JUDGE = range(3)
MOST_CLASSES, MOST_WIDTH, MOST_KEPT, MOST_COUNT = 64, 4096, 1024, 65535
# 4096 * exp(-j / 16), from two tables; 0 from 145 on.
WHOLE, SIXTEENTHS = (np.array([round(32768 * math.exp(-i / by)) for i in range(n)]) for n, by in ((10, 1), (16, 16)))
EXP = ((WHOLE[:, None] * SIXTEENTHS + (1 << 17)) >> 18).reshape(-1)

_MOST = 0xFFFFFFFF

Array = np.ndarray


def block_bytes(kind: int, width: int, keep: int) -> int:
    """Bytes of a class: a multiple of 4."""
    return (16 + 4 * width * (kind != ANOMALY) + keep * width * (kind != PROTOTYPE) + 3) & ~3


class _Class:
    """Views of a block. n: the examples that it stands for, all of a prototype, else those that are kept; sum, squares: of them."""

    def __init__(self, kind: int, width: int, keep: int, block: Any):
        self.words = np.frombuffer(block, "<u4", 4)
        self.signed = self.words.view("<i4")
        self.square = np.frombuffer(block, "<u8", 1, 8)
        row = width * (kind != ANOMALY)
        room = min(keep, (len(block) - 16 - 4 * row) // width) * (kind != PROTOTYPE)
        self.row = np.frombuffer(block, "<i4", row, 16)
        self.shots = np.frombuffer(block, np.int8, room * width, 16 + 4 * row).reshape(room, width)
        self.n = min(int(self.words[0]), room or MOST_COUNT)
        self.kept = self.shots[: self.n].astype(np.int64)
        self.sum = self.kept.sum(0) if room else self.row.astype(np.int64)
        self.squares = int((self.kept**2).sum()) if room else int(self.square[0])


def learn(op: int, numbers: Any, work: Any, blocks: Sequence[Any], arg: int) -> bool:
    """One operation, as _mica.learn() has it. numbers: kind, width, keep, setting; and best, score, margin, which JUDGE finds.

    TEACH adds the example in `work` to class arg. FIT is done step by step, arg = 0, 1, ..., until it returns False.
    """
    kind, width, keep, setting = numbers[:4]
    work = np.frombuffer(work, np.int8)
    x = work[width:].astype(np.int64)
    if op == TEACH:
        c = _Class(kind, width, keep, blocks[arg])
        if kind == PROTOTYPE:
            c.row[:] += x.astype(np.int32)
            c.square[0] += np.uint64((x**2).sum())
        else:
            c.shots[int(c.words[0]) % keep] = x
        c.words[0] += 1
        return False
    classes = [_Class(kind, width, keep, block) for block in blocks]
    if op == FIT:
        return _epoch(work[:width], classes, arg) if arg else _begin(kind, setting, work[:width], classes)
    numbers[4], numbers[5], numbers[6] = _judge(kind, work[:width], classes, x)
    return False


def _begin(kind: int, setting: int, centre: Array, classes: list[_Class]) -> bool:
    if kind == ANOMALY:
        for c in classes:
            c.words[1] = _alarm_limit(c.kept, setting)
    else:
        _spread_limits(setting, classes)
    if kind != SOFTMAX or not classes:
        return False
    every = np.concatenate([c.kept for c in classes])
    total = len(every)
    centre[:] = (every.sum(0) * 2 + total) // (2 * total)
    power = (int((every**2).sum()) - int((every.sum(0) ** 2).sum()) // total) // total
    for c in classes:
        c.row[:] = 0
        c.signed[2:] = 0, max(power, 16).bit_length() - 16
    return True


def _epoch(centre: Array, classes: list[_Class], step: int) -> bool:
    """Gradient descent, an example of each class in turn. Stops where a weight leaves [-2^bits, 2^bits): sums of products fit 32 bits."""
    rows = np.stack([c.row for c in classes]).astype(np.int64)
    bias, shift = np.stack([c.signed[2:] for c in classes]).astype(np.int64).T
    bits = 31 - max(6, (len(centre) - 1).bit_length())
    apart = [clip_s8(c.kept - centre).astype(np.int64) for c in classes]
    turns = [(apart[k][j], k) for j in range(max(c.n for c in classes)) for k, c in enumerate(classes) if j < c.n]
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
    """The most probable class, and numerators of probabilities: 4096 of that one. Logits are in 16ths."""
    o = ((rows >> 8) @ x >> 11 + shift) + (bias >> 14)
    return int(o.argmax()), EXP[np.minimum(o.max() - o, 159)]


def _spread_limits(setting: int, classes: list[_Class]) -> None:
    """Set the limit of each class: a multiple of the mean squared distance of all examples from their means, in 16ths."""
    scatter = sum(c.squares - int((c.sum**2).sum()) // c.n for c in classes)
    free = sum(c.n for c in classes) - len(classes)
    loose = min((16 * scatter // free * setting >> 4) + 1, 0x7FFFFFFF) if free else 0
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
    one, tail, all_of = log2(np.array([one_in, len(above), n])).tolist()
    return min(mean + 1 + (beyond * (max(one + tail - all_of, 0) * 45426 >> 16) >> 16), _MOST)


def _distance(c: _Class, x: Array) -> int:
    """To the mean of a class, squared, in 16ths: the mean is rounded to quarters."""
    mean = (8 * (c.sum + 128 * c.n) + c.n) // (2 * c.n) - 512
    return int(((4 * x - mean) ** 2).sum())


def _parts(n: int, distance: int, of: int) -> int:
    """The distance in nth parts of `of`."""
    down = max(distance.bit_length() - 23, 0)
    return n * (distance >> down) // max(of >> down, 1)


def _judge(kind: int, centre: Array, classes: list[_Class], x: Array) -> tuple[int, int, int]:
    """Class, score and margin, the last two in 256ths."""
    far = [int(np.abs(c.kept - x).sum(1).min()) if kind == ANOMALY else _distance(c, x) for c in classes]
    best, score = int(np.argmin(far)), None
    if kind == SOFTMAX:
        rows = np.stack([c.row for c in classes])
        bias, shift = np.stack([c.signed[2:] for c in classes]).T
        best, e = _numerators(rows.astype(np.int64), bias, shift, clip_s8(x - centre).astype(np.int64))
        score = (4096 * 256 + int(e.sum()) // 2) // int(e.sum())
    margin, limit = 0, int(classes[best].words[1])
    if limit:
        # Beside the distance itself it counts how much nearer this class is than the next.
        others = [f for k, f in enumerate(far) if k != best]
        ratio = 0 if kind == ANOMALY else _parts(192, far[best], min(others, default=_MOST))
        margin = 256 - min(_parts(256, far[best], limit) + ratio, 65535)
    return best, margin if score is None else score, margin
