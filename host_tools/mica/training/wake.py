"""Words that wake: a label for all other sound, and thresholds for so many false alarms an hour as the user accepts.

Thresholds are chosen on one half of recordings that training never saw, and counted on the other half.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mica.data import sounds
from mica.errors import MicaError
from mica.listen import detection, suggest
from mica.run.host import HostRunner
from mica.training.examples import Examples

LEVELS = (*(level for level in suggest.LEVELS if level >= 0.5), 0.995)  # an output reaches 255/256
MEAN = 2  # outputs: more, a quarter of what the network takes apart, do not all see a whole word
QUIET = 10.0  # size of the noise between recordings, in int16 steps
SURE = 0.05  # how often the bound of a rate may be wrong


def with_other(examples: Examples, folder: Path | None = None) -> Examples:
    """Return examples with more under the label of all other sound, which is added where there is none: pieces of a
    folder's recordings, and halves of words put together wrongly. To be called before a split."""
    if examples.kind != "sound":
        return examples
    rng = np.random.default_rng(0)
    n, other = examples.inputs.shape[1], examples.background
    pieces: list[np.ndarray] = []
    groups: list[int] = []
    paths: list[str] = []
    for file in detection.recordings(folder, all_of_them=True) if folder else []:
        cut = sounds.pieces(file, round(examples.rate), n).astype(np.float32) / 32768
        pieces += list(cut)
        groups += [len(set(groups))] * len(cut)
        paths += [f"{file.name} at {k * n / examples.rate:.1f} s" for k in range(len(cut))]
    if not other.any():
        words = rng.permutation(len(examples))[: max(20, len(examples) // len(examples.names))]
        for k in words:  # the end of one before the beginning of another
            ends = examples.inputs[[k, rng.integers(len(examples))]]
            pieces.append(np.concatenate([ends[0, n // 2 :], ends[1, : n - (n - n // 2)]]))
            groups.append(10**6 + int(k))
            paths.append(f"halves of {examples.paths[k]}")
    if not pieces:
        return examples
    names = examples.names if other.any() else tuple(sorted((*examples.names, "other")))
    moved = np.array([names.index(name) for name in examples.names])
    label = names.index("other") if not other.any() else int(np.argmax(other))
    return replace(
        examples,
        inputs=np.concatenate([examples.inputs, np.stack(pieces).astype(np.float32)]),
        labels=np.concatenate([moved[examples.labels], np.full(len(pieces), label)]),
        names=names,
        groups=np.concatenate([examples.groups, int(examples.groups.max()) + 1 + np.array(groups)]),
        paths=(*examples.paths, *paths),
        notes=(
            *examples.notes,
            f"{len(pieces)} examples of '{names[label]}' were made; record real ones: speech, noise",
        ),
    )


@dataclass(frozen=True)
class Wake:
    """thresholds: of each word. hits: of `words` held recordings;
    false_alarms: in `hours` that neither training nor the choice saw;
    most: false alarms an hour that these allow, at 95 %. asked: those that the user accepts."""

    thresholds: dict[str, float]
    hits: int
    words: int
    false_alarms: int
    hours: float
    chosen_on: float
    most: float
    asked: float

    @property
    def text(self) -> str:
        """Return what `mica listen --threshold` takes."""
        return ",".join(f"{word}={x:g}" for word, x in self.thresholds.items())

    def lines(self) -> list[str]:
        """Return what the figures say, and what they cannot say."""
        lines = [
            f"--threshold {self.text} --mean {MEAN}",
            f"hits: {self.hits} of {self.words} held recordings, each amid silence",
            f"false alarms: {self.false_alarms} in {self.hours:.2f} h that neither training nor the choice of "
            f"thresholds ({self.chosen_on:.2f} h) saw: at 95 % up to {self.most:.1f} an hour",
        ]
        if self.most > self.asked:
            needed = suggest.AT_95 / self.asked
            lines.append(
                f"{self.asked:g} an hour is not shown: that takes {needed:.1f} h to count on without a false alarm; "
                "record where the board will stand, with its radio or television"
            )
        return lines


def choose(
    packed: bytes,
    held: Examples,
    background: Path,
    per_hour: float,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Wake:
    """Return thresholds of a packed model. held: recordings that training never saw; background: long ones without the
    words. Raises MicaError."""
    if not per_hour > 0:
        raise MicaError(f"--alarms {per_hour:g}", todo="expected false alarms an hour, more than 0")
    files = detection.recordings(background, all_of_them=True)
    rate = round(held.rate)
    with HostRunner(packed) as runner:
        model = runner.model
        settings = replace(detection.settings_of(model), mean=MEAN)
        found: list[list[_Heard]] = [[], []]
        for k, file in enumerate(files):
            samples = sounds.read(file, rate)
            parts = [samples] if len(files) > 1 else np.array_split(samples, 2)
            for j, part in enumerate(parts):
                answers = list(detection.outputs(runner, part, settings))
                found[(j + k) % 2].append(_Heard((), answers, len(part) * 1000 // rate))
            progress(k + 1, len(files) + 1)
        stream, said = _stream(held)
        spoken = _Heard(said, list(detection.outputs(runner, stream, settings)), len(stream) * 1000 // rate)
        progress(len(files) + 1, len(files) + 1)

    def figures(heard: Sequence[_Heard], settings: detection.Settings) -> dict[str, Any]:
        counts = detection.Counts()
        for one in heard:
            counts.add(one.said, list(detection.events(model, one.answers, settings)), one.ms)
        return counts.figures(detection.Detector(model, settings))

    hours = [sum(one.ms for one in part) / 3.6e6 for part in found]
    words = sorted({word.label for word in said})
    at = [figures(found[0], replace(settings, threshold=level))["labels"] for level in LEVELS]
    false = [{row["label"]: row["false_alarms"] for row in rows} for rows in at]
    most = per_hour / max(1, len(words)) * hours[0]
    thresholds = {word: _lowest([counts.get(word, 0) for counts in false], most) for word in words}
    final = replace(settings, thresholds=thresholds)
    hits, alarms = figures([spoken], final)["hits"], figures(found[1], final)["false_alarms"]
    return Wake(thresholds, hits, len(said), alarms, hours[1], hours[0], bound(alarms) / hours[1], per_hour)


def _lowest(alarms: Sequence[int], most: float) -> float:
    """Return the lowest level with so many false alarms at most, else that with the fewest."""
    over = [max(0.0, n - most) for n in alarms]
    return LEVELS[over.index(min(over))]


@dataclass(frozen=True)
class _Heard:
    """The words said in a recording, the model's answers, and its length."""

    said: Sequence[detection.Said]
    answers: Sequence[tuple[np.ndarray, int]]
    ms: int


def _stream(held: Examples) -> tuple[np.ndarray, list[detection.Said]]:
    """Return int16 [n] of the words among held recordings with as much quiet between them, and when each is said."""
    n, rate = held.inputs.shape[1], held.rate
    words = [k for k in range(len(held)) if not held.background[held.labels[k]]]
    if not words:
        raise MicaError("no recordings of words are held out", todo="record more of each word")
    noise = np.random.default_rng(0).normal(0, QUIET, (2 * len(words) + 1) * n)
    said = []
    for j, k in enumerate(words):
        start = (2 * j + 1) * n
        noise[start : start + n] += held.inputs[k] * 32768
        begin, end = (round(1000 * at / rate) for at in (start, start + n))
        said.append(detection.Said(begin, end, held.names[held.labels[k]]))
    return np.clip(np.rint(noise), -(2**15), 2**15 - 1).astype(np.int16), said


def bound(events: int) -> float:
    """Return the largest mean of Poisson counts of which so few events still come in one case of twenty."""
    low, high = float(events), 3.0 * events + 10
    for _ in range(60):
        mean = (low + high) / 2
        chance = sum(math.exp(-mean + k * math.log(mean) - math.lgamma(k + 1)) for k in range(events + 1))
        low, high = (mean, high) if chance > SURE else (low, mean)
    return high
