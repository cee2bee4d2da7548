"""Head: labels, and a block of integers for each, which the C engine or its oracle in numpy changes."""

from __future__ import annotations

from typing import Any

import numpy as np

from mica import engine
from mica.errors import MicaError
from mica.learn import state
from mica.reference import learning
from mica.reference.learning import FIT, JUDGE, TEACH, Shape

KEEP = 20
LOOSE = 2.25


class Head:
    """`kind`: "prototype" (nearest mean), "softmax", or "anomaly" (nearest of the recordings that were learnt).

    width: elements of an embedding. model: mica.learn.digest() of the .mica file. keep: examples kept of a label, the newest; a
    prototype keeps sums of all. loose: an example is unknown where its squared distance from its label's mean is more than so many
    times the usual one, or less where another mean is as near. alarms: for "anomaly", false alarms a day that are tolerated, where `judged` recordings are judged a day.
    """

    def __init__(
        self,
        kind: str,
        width: int,
        *,
        model: bytes,
        keep: int = KEEP,
        loose: float = LOOSE,
        alarms: float = 1,
        judged: float = 1440,
    ):
        if kind not in state.KINDS:
            raise MicaError(f"kind {kind!r} of a head", todo=f"there are {', '.join(state.KINDS)}")
        if not (1 <= width <= learning.MOST_WIDTH and 1 <= keep <= learning.MOST_KEPT and len(model) == 8):
            raise MicaError(
                f"a head of width {width} that keeps {keep} examples of a label", todo="both have limits: 4096, 1024"
            )
        setting = (judged / alarms if alarms > 0 else 0) if kind == "anomaly" else 16 * loose
        shape = Shape(state.KINDS.index(kind), width, keep, int(setting + 0.5) if setting < 1 << 30 else 0)
        if not 1 <= shape.setting <= shape.most_setting:
            raise MicaError(
                f"a head with loose={loose}, alarms={alarms}, judged={judged}", todo="give positive numbers"
            )
        self._learnt = state.Learnt(shape, model, bytes(width), [], [])
        self._work = bytearray(2 * width)
        self._fitted = True

    @classmethod
    def from_state(cls, data: bytes, *, model: bytes | None = None) -> Head:
        """The head that state() wrote here or on a board. With `model`, one that was taught with another model raises MicaError."""
        learnt = state.decode(data)
        if model is not None and learnt.model != model:
            raise MicaError(
                "the head was taught with another model", todo="teach again, or take the model it was taught with"
            )
        head = cls(state.KINDS[learnt.shape.kind], learnt.shape.width, model=learnt.model)
        head._learnt = learnt
        head._work[: len(learnt.centre)] = learnt.centre
        return head

    @property
    def kind(self) -> str:
        """prototype, softmax or anomaly."""
        return state.KINDS[self._learnt.shape.kind]

    @property
    def width(self) -> int:
        """Elements of an embedding."""
        return self._learnt.shape.width

    @property
    def model(self) -> bytes:
        """The digest of the model that it was taught with."""
        return self._learnt.model

    @property
    def labels(self) -> list[str]:
        """In the order in which they were taught first."""
        return list(self._learnt.labels)

    @property
    def counts(self) -> list[int]:
        """Examples taught of each label."""
        return [int.from_bytes(block[:4], "little") for block in self._learnt.blocks]

    def _op(self, op: int, x: Any, arg: int = 0) -> tuple[int, int, int]:
        return engine.learn(op, self._learnt.shape, self._work, self._learnt.blocks, x, arg)

    def _embedding(self, embedding: Any) -> bytes:
        x = np.asarray(embedding)
        if x.dtype != np.int8 or x.size != self.width:
            raise MicaError(
                f"an embedding of {x.size} elements of {x.dtype}", todo=f"{self.width} of int8 are expected"
            )
        return x.tobytes()

    def teach(self, embedding: Any, label: str) -> None:
        """Add an example of a label: int8, `width` elements."""
        x = self._embedding(embedding)
        if not state.is_label(label):
            raise MicaError(f"label {label!r}", todo="a text of 1 to 63 bytes is expected")
        learnt = self._learnt
        if label not in learnt.labels:
            if len(learnt.labels) == learning.MOST_CLASSES:
                raise MicaError(f"label {label!r} is one too many", todo=f"a head has at most {learning.MOST_CLASSES}")
            learnt.labels.append(label)
            learnt.blocks.append(bytearray(learnt.shape.block_bytes))
        c = learnt.labels.index(label)
        if self.counts[c] == learning.MOST_COUNT:
            raise MicaError(f"label {label!r} has {learning.MOST_COUNT} examples, and takes no more")
        self._op(TEACH, x, c)
        self._fitted = False

    def forget(self, label: str) -> None:
        """Take a label away, with all its examples."""
        if label not in self._learnt.labels:
            raise MicaError(f"label {label!r} was not taught", todo=f"there are {', '.join(self.labels) or 'none'}")
        c = self._learnt.labels.index(label)
        del self._learnt.labels[c], self._learnt.blocks[c]
        self._fitted = False

    def fit(self) -> None:
        """Learn from the examples. closest(), predict() and state() do it where it is to be done."""
        step = 0
        while not self._fitted:
            self._fitted = not self._op(FIT, b"", step)[0]
            step += 1

    def closest(self, embedding: Any) -> tuple[str, float, float]:
        """(label, score, margin) of the label that comes closest, known or not: it is unknown where the margin is below 0.

        score: of softmax a probability, else the margin, which is 1 where there is no distance and 0 at the limit.
        """
        x = self._embedding(embedding)
        if not self._learnt.labels:
            raise MicaError("this head was taught nothing yet")
        alone = [label for label, n in zip(self.labels, self.counts, strict=True) if n < 2]
        if self.kind == "anomaly" and alone:
            raise MicaError(
                f"one recording of {alone[0]!r} says nothing of how much they differ",
                todo="teach two at least, better 20",
            )
        self.fit()
        best, score, margin = self._op(JUDGE, x)
        return self._learnt.labels[best], score / 256, margin / 256

    def predict(self, embedding: Any) -> tuple[str, float] | None:
        """(label, score), or None for something unknown; of "anomaly" None is the alarm."""
        label, score, margin = self.closest(embedding)
        return (label, score) if margin >= 0 else None

    def add(self, other: Head) -> None:
        """Add what another head of the same model was taught, as if all had been taught to this one. Prototypes alone can be added."""
        self._alike(other)
        sums = dict(zip(self.labels, self._learnt.blocks, strict=True))
        for label, block in zip(other.labels, other._learnt.blocks, strict=True):
            if not learning.is_sum(block):
                raise MicaError(f"label {label!r} has sums that no examples have", todo="teach again")
            sums[label] = learning.summed(sums[label], block, 1) if label in sums else bytearray(block)
            if int.from_bytes(sums[label][:4], "little") > learning.MOST_COUNT:
                raise MicaError(f"label {label!r} would have more than {learning.MOST_COUNT} examples")
        if len(sums) > learning.MOST_CLASSES:
            raise MicaError(f"{len(sums)} labels in all", todo=f"a head has at most {learning.MOST_CLASSES}")
        self._put(sums)

    def take_away(self, other: Head) -> None:
        """Undo the add() of another head. A label that does not go on from the other's, since it was forgotten meanwhile, stays whole."""
        self._alike(other)
        sums = dict(zip(self.labels, self._learnt.blocks, strict=True))
        for label, block in zip(other.labels, other._learnt.blocks, strict=True):
            if label not in sums:
                continue
            rest = learning.summed(sums[label], block, -1)
            if learning.is_sum(rest):
                sums[label] = rest
            elif not any(rest[:4]) and not any(rest[8:]):
                del sums[label]
        self._put(sums)

    def _alike(self, other: Head) -> None:
        if self.kind != "prototype" or (other.kind, other.width, other.model) != (self.kind, self.width, self.model):
            raise MicaError("only prototypes of the same model and width can be added up")

    def _put(self, sums: dict[str, bytearray]) -> None:
        self._learnt.labels, self._learnt.blocks = list(sums), list(sums.values())
        self._fitted = False

    def state(self) -> bytes:
        """All of it, as bytes: the same here and on boards after the same examples in the same order."""
        self.fit()
        self._learnt.centre = bytes(self._work[: self.width])
        return state.encode(self._learnt)
