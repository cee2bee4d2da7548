"""Tells what a head accepts, and what it takes of others, by leaving examples out while others are taught.

Softmax rejects by the distances and limits of prototypes, which stand in for it here.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mica.format.values import quantise_f64
from mica.learn import Head

Given = Sequence[tuple[str, np.ndarray]]
FOLDS = 5
MOST = 300  # examples judged
SETTINGS = (2 / 3, 1, 3 / 2)  # times the head's own
CHANGES = (0, 1, 2, 4)  # standard deviations by which a quarter of the numbers move


def _taught(head: Head, given: Given, setting: int) -> Head:
    """Return a head like this one, taught these."""
    kind = "anomaly" if head.kind == "anomaly" else "prototype"
    made = Head(kind, head.width, model=head.model)
    made._numbers[3] = setting
    for label, x in given:
        made.teach(x, label)
    return made


def _folds(given: Given) -> Iterator[tuple[Given, Given]]:
    """Yield what is taught and what is judged, a few times: another part of each label is left out."""
    at, names = [], [label for label, _ in given]
    for k, label in enumerate(names):
        at.append(names[:k].count(label) % FOLDS if names.count(label) > 1 else -1)
    for fold in sorted(set(at) - {-1}):
        yield (
            [one for one, k in zip(given, at, strict=True) if k != fold],
            [one for one, k in zip(given, at, strict=True) if k == fold][: MOST // FOLDS],
        )


def settings(head: Head, given: Given) -> list[dict[str, Any]]:
    """Return, at three settings of `loose`, the share accepted, and that of a label left out taken for another."""
    labels = list(dict.fromkeys(label for label, _ in given))
    pairs = [(t, j, True) for t, j in _folds(given)]
    for label in labels[: MOST // 20] if len(labels) > 1 else ():
        others = [one for one in given if one[0] != label]
        pairs.append((others, [one for one in given if one[0] == label][:20], False))
    own = head._numbers[3]
    heads = [
        (judged, known, [_taught(head, taught, round(own * s)) for s in SETTINGS]) for taught, judged, known in pairs
    ]
    rows = []
    for i, s in enumerate(SETTINGS):
        answers: dict[bool, list[bool]] = {True: [], False: []}
        for judged, known, of in heads:
            answers[known] += [of[i].predict(x) is not None for _, x in judged]
        shares = [float(np.mean(a)) if a else None for a in (answers[True], answers[False])]
        rows.append({"loose": round(own * s) / 16, "accepted": shares[0], "taken": shares[1]})
    return rows


def changes(head: Head, given: Given) -> list[dict[str, Any]]:
    """Return the share of alarms of an anomaly head for recordings left out, after some numbers have moved."""
    rng = np.random.default_rng(0)
    spread = np.std([x for _, x in given], axis=0) + 0.5
    alarms: dict[int, list[bool]] = {c: [] for c in CHANGES}
    for taught, judged in _folds(given):
        made = _taught(head, taught, head._numbers[3])
        if min(made.counts) < 2:
            continue
        for _, x in judged:
            moved = rng.choice((-1, 1), head.width) * spread * (rng.permutation(head.width) < (head.width + 3) // 4)
            for c in CHANGES:
                changed = quantise_f64(x + c * moved, 1, 0)
                alarms[c].append(made.predict(changed) is None)
    return [{"change": c, "alarms": float(np.mean(a)) if a else None} for c, a in alarms.items()]
