"""The split into examples to learn from and examples held out: recordings of one speaker, day or file stay together."""

import numpy as np

from mica.errors import MicaError
from mica.training.examples import SAID, Examples


def split(examples: Examples, seed: int, share: int = 4) -> tuple[Examples, Examples]:
    """Return those to learn from and those held out, about one of `share` of each label. Groups stay whole, and each
    label is on both sides. Raises MicaError where that cannot be."""
    made = np.array([f"/{SAID}" in path for path in examples.paths])  # by training/say.py: what counts is people
    people = [np.unique(examples.groups[~made & (examples.labels == k)]) for k in range(len(examples.names))]
    if made.any() and min(len(groups) for groups in people) > 1:
        judge = split(examples.of(np.flatnonzero(~made)), seed, share)[1]
        rows = {path: k for k, path in enumerate(examples.paths)}
        kept = np.array([rows[path] for path in judge.paths])
        return examples.of(np.setdiff1d(np.arange(len(examples)), kept)), judge
    groups, labels = np.unique(examples.groups, return_inverse=True)[1].reshape(-1), examples.labels
    counts = np.zeros((groups.max() + 1, len(examples.names)), np.int64)
    np.add.at(counts, (groups, labels), 1)
    total = counts.sum(axis=0)
    held = np.zeros(len(counts), bool)
    order = np.random.default_rng(seed).permutation(len(counts))
    # Large groups come last: they rarely fit, and small ones fill what is left.
    for group in order[np.argsort(counts[order].sum(axis=1), kind="stable")]:
        after = counts[held].sum(axis=0) + counts[group]
        if (after * share <= total + share // 2)[counts[group] > 0].all() and _learns(counts, held, group):
            held[group] = True
    for label in np.flatnonzero(counts[held].sum(axis=0) == 0):
        able = [g for g in order if counts[g, label] and _learns(counts, held, g)]
        if not able:
            raise MicaError(
                f"label '{examples.names[label]}': all of it is of one speaker, day or file",
                todo="record it again at another time, or of another person",
            )
        held[min(able, key=lambda g: int(counts[g].sum()))] = True
    chosen = held[groups]
    return examples.of(np.flatnonzero(~chosen)), examples.of(np.flatnonzero(chosen))


def _learns(counts: np.ndarray, held: np.ndarray, group: int) -> bool:
    """Return True if each label of a group has others to learn from when that is held out."""
    left = counts[~held].sum(axis=0) - counts[group]
    return bool((left > 0)[counts[group] > 0].all())
