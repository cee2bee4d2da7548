"""A head that learns on a frozen network's embeddings: mica.Learner's own code, firmware/mica/heads.py,
with the oracle's integers.

head = Head("softmax", 64, model=digest(data))
head.teach(embedding, "yes")    # int8 [64]
head.predict(embedding)         # ("yes", 0.97), or None for something unknown
Path("head.learnt").write_bytes(head.state())
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from mica import board_code
from mica.errors import MicaError
from mica.format.records import unpack_record
from mica.format.schema import HEADER
from mica.reference import learning

_heads = board_code.load("heads", Refused=MicaError)
_Base: Any = _heads.Head
ENOUGH = 3  # examples of a label that tell how it varies
Learnt = tuple[tuple[str, ...], tuple[bytearray, ...]]
KINDS: tuple[str, ...] = _heads.KINDS
MOST_LABELS: int = _heads.MOST_LABELS


def digest(mica_file: bytes) -> bytes:
    """The digest that binds a head to its model: length and CRC-32 as they are in the .mica file's header."""
    header = unpack_record(HEADER, mica_file, 0)
    return struct.pack("<II", header["file_bytes"], header["crc32"])


class Head(_Base):
    """A head as mica.Learner is one: labels, counts, teach(), forget(), closest(), predict(), state()
    take an embedding for inputs.

    width: elements of an embedding. model: digest() of the .mica file.
    settings: keep, loose, alarms, judged, as of mica.Learner.
    """

    _learnt: Learnt

    def __init__(self, kind: str, width: int, *, model: bytes, **settings: float | None):
        self.width, self.model = width, model
        self._begin(kind, width, **settings)

    @classmethod
    def from_state(cls, data: bytes, *, model: bytes | None = None) -> Head:
        """The head that state() wrote here or on a board. With `model`, one that was taught with another model raises
        MicaError."""
        kind, width, own = _heads.header(data)
        head = cls(kind, width, model=model or own)
        head.restore(data)
        if kind == "prototype" and not all(_is_sum(block) for block in head._learnt[1]):
            raise MicaError("the state of a head has sums that no examples have", todo="teach again")
        return head

    def _digest(self) -> bytes:
        return self.model

    def _op(self, op: int, blocks: tuple[bytearray, ...], arg: int, numbers: Any = None) -> bool:
        return learning.learn(op, numbers or self._numbers, self._work, blocks, arg)

    def _embed(self, embedding: Any) -> None:
        x = np.asarray(embedding)
        if x.dtype != np.int8 or x.size != self.width:
            raise MicaError(
                f"an embedding of {x.size} elements of {x.dtype}", todo=f"{self.width} of int8 are expected"
            )
        self._x[:] = x.tobytes()

    def add(self, other: Head, sign: int = 1) -> None:
        """Add what another head of the same model was taught, as if all had been taught to this one.
        Prototypes alone can be added.

        sign -1 undoes that. A label that does not go on from the other's, since it was forgotten meanwhile,
        stays whole then.
        """
        if self.kind != "prototype" or (other.kind, other.width, other.model) != (self.kind, self.width, self.model):
            raise MicaError("only prototypes of the same model and width can be added up")
        if min(self._numbers[2], other._numbers[2]) < learning.MOST_COUNT:
            raise MicaError("a head that forgets (keep=) can't be added up: its sums lack examples")
        sums = dict(zip(*self._learnt, strict=True))
        for label, block in zip(*other._learnt, strict=True):
            found = _summed(sums.get(label, bytes(len(block))), block, sign)
            if sign > 0 and (n := int.from_bytes(found[:4], "little")) > learning.MOST_COUNT:
                raise MicaError(f"label {label!r} would have more than {learning.MOST_COUNT} examples: {n}")
            if sign > 0 or _is_sum(found):
                sums[label] = found
            elif not any(found[:4]) and not any(found[12:]):
                del sums[label]
        if len(sums) > MOST_LABELS:
            raise MicaError(f"{len(sums)} labels in all", todo=f"a head has at most {MOST_LABELS}")
        self._learnt = tuple(sums), tuple(sums.values())
        self._numbers[4] = -1

    def strange(self, other: Head) -> list[str]:
        """Return the labels of a head, which is in this sum, whose mean lies beyond the limits of all the others."""
        rest = Head.from_state(self.state())
        rest.add(other, -1)
        rest.fit()
        own, its = (dict(zip(*head._learnt, strict=True)) for head in (rest, other))
        known = [
            label
            for label in its
            if label in own and min(h.counts[h.labels.index(label)] for h in (rest, other)) >= ENOUGH
        ]
        return [label for label in known if rest._away(other._mean(its[label]), own[label]) > 1]


def _summed(block: Any, other: Any, sign: int) -> bytearray:
    """Block of a prototype with the sums of another's added, or with sign -1 taken away."""
    to = bytearray(block)
    for kind, at, n in (("<u4", 0, 1), ("<u4", 16, -1)):  # counts, sums and squares alike, modulo 2^32
        np.frombuffer(to, kind, n, at)[:] += (sign * np.frombuffer(other, kind, n, at).astype(np.int64)).astype(kind)
    np.frombuffer(to, "<u4", 1, 8)[:] |= np.frombuffer(other, "<u4", 1, 8)  # bits of examples can't be taken away
    return to


def _is_sum(block: Any) -> bool:
    """Return True if some examples may have the sums of this block of a prototype."""
    n, words = int.from_bytes(block[:4], "little"), np.frombuffer(block, "<u4", -1, 16)
    row, squares = words.view("<i4").astype(np.int64).reshape(2, -1)[0], words.astype(np.int64).reshape(2, -1)[1]
    if not 1 <= n <= learning.MOST_COUNT or row.min() < -128 * n or row.max() > 127 * n:
        return False
    return bool((row**2 <= n * squares).all()) and int(squares.sum()) <= n * 128**2 * len(row)
