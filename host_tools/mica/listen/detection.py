"""A model that listens: from samples to events, by the rules of `firmware/mica/audio.py`;
and how events compare with what is said.

An event comes when the mean of a label's last outputs reaches the threshold. A least time separates two events.
The same label comes again only after its mean has been below the threshold.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mica.data import sounds
from mica.errors import MicaError
from mica.file import scores
from mica.file.codec import ModelFile, decode, encode
from mica.format import output_groups
from mica.format.schema import LISTEN_MEAN, LISTEN_THRESHOLD, MEAN, THRESHOLD
from mica.run import sound
from mica.run.runner import Runner

BACKGROUND = ("silence", "unknown", "other", "noise")
LATE_MS = 1000  # an event may come so long after the end of what is said
STAMPS = ".txt"  # the ending of a file that says what is in a sound file of the same name
_EXPECTED = "expected lines of BEGIN END LABEL, in seconds, as Audacity exports its labels"


@dataclass(frozen=True)
class Settings:
    """Holds the settings of `mica.audio.listen`. labels: those that count, none: all but silence and the like. step:
    samples between two runs, 0: the usual number.
    thresholds: of labels with one of their own. means: one for each label of a file of `pack --together`, which judges
    each label alone; then `mean` is not used.
    """

    threshold: float = THRESHOLD
    mean: int = MEAN
    dead_ms: int = 1000
    step: int = 0
    labels: Sequence[str] = ()
    thresholds: Mapping[str, float] = field(default_factory=dict)
    means: tuple[int, ...] = ()

    @property
    def longest(self) -> int:
        """Outputs that an event needs."""
        return max(self.means, default=self.mean)


def settings_of(model: ModelFile) -> Settings:
    """With the thresholds and means that the file has. Raises MicaError."""
    said = model.metadata
    levels, means = said.get(LISTEN_THRESHOLD, f"{THRESHOLD}").split(), said.get(LISTEN_MEAN, f"{MEAN}").split()
    try:
        if len(levels) == len(means) == 1:
            return Settings(float(levels[0]), int(means[0]))
        own = dict(zip(scores.labels(model), map(float, levels), strict=True))
        return Settings(thresholds=own, means=tuple(map(int, means[: len(own)])) if len(means) == len(own) else ())
    except ValueError:
        raise MicaError(
            f"metadata {LISTEN_THRESHOLD} and {LISTEN_MEAN}: expected two numbers, or two for each label",
            todo="pack the model again",
        ) from None


def with_thresholds(packed: bytes, thresholds: Mapping[str, float], mean: int) -> bytes:
    """Return a packed model whose file names its words' thresholds and mean: a board needs none in its program."""
    model = decode(packed)
    levels = {label: thresholds.get(label, THRESHOLD) for label in scores.labels(model)}
    model.metadata[LISTEN_THRESHOLD] = " ".join(f"{level:g}" for level in levels.values())
    model.metadata[LISTEN_MEAN] = " ".join([str(mean)] * len(levels))
    return encode(model)


@dataclass(frozen=True)
class Event:
    """A label that was recognised, the mean of its last outputs, and the time from the first sample to its end."""

    label: str
    score: float
    ms: int


def usual_step(model: ModelFile) -> int:
    """All that is new of a model that keeps what was before; of others a quarter of what they take."""
    n = int(np.prod(model.tensors[model.inputs[0]].dims))
    if model.state_bytes:
        for s in model.steps:
            if s.kernel in ("log_mel_s8", "pcan_s8", "pcen_s8"):
                frame, hop = s.params["frame"], s.params["hop"]
                return (1 + (n - frame) // hop) * hop
    return n // 4 or 1


class Detector:
    """A model's outputs, one after the other, to events. Raises MicaError if it has not the labels of the settings."""

    def __init__(self, model: ModelFile, settings: Settings) -> None:
        levels = (settings.threshold, *settings.thresholds.values())
        means = settings.means or (settings.mean,)
        if min(means) < 1 or settings.step < 0 or not 0 < min(levels) <= max(levels) <= 1 or settings.dead_ms < 0:
            raise MicaError(
                f"listening with threshold {', '.join(f'{x:g}' for x in levels)}, mean {', '.join(map(str, means))}, "
                f"step {settings.step}, dead time {settings.dead_ms} ms",
                todo="expected a threshold up to 1, a mean of 1 or more, and no negative times",
            )
        self.settings = settings
        self.place = scores.required(model)  # of the output
        self.names = scores.names(model, output_groups.size(output_groups.read(model)[self.place]))
        for label in (*settings.labels, *settings.thresholds):
            if label not in self.names:
                raise MicaError(f"the model has no label '{label}'", todo=f"its labels are {', '.join(self.names)}")
        self.chosen = np.array(
            [
                name in settings.labels if settings.labels else name.strip("_").lower() not in BACKGROUND
                for name in self.names
            ]
        )
        if not self.chosen.any():
            raise MicaError(f"of the labels {', '.join(self.names)} none counts", todo="name some with --words")
        self.least = np.array([settings.thresholds.get(name, settings.threshold) for name in self.names])
        self.means = settings.means or (settings.mean,) * len(self.names)
        if len(self.means) != len(self.names):
            raise MicaError(f"{len(self.means)} means for {len(self.names)} labels", todo="pack the model again")
        # Labels of one network: one of them at a time gives an event.
        every = np.arange(len(self.names))
        self._groups = [np.array([k]) for k in every] if settings.means else [every]
        self._last = [-settings.dead_ms for _ in self._groups]
        self.forget()

    def forget(self) -> None:
        """Begin again: the next answer follows no other."""
        self._past: list[np.ndarray] = []
        self._said: list[int | None] = [None for _ in self._groups]

    def take(self, output: np.ndarray, ms: int) -> list[Event]:
        """Return the events of one answer, float [labels]."""
        past = self._past = [*self._past, np.asarray(output, np.float64).reshape(-1)][-max(self.means) :]
        found = {n: np.mean(past[-n:], axis=0) for n in set(self.means)}
        means = np.array([found[n][k] for k, n in enumerate(self.means)])
        enough = self.chosen & (means >= self.least)
        events = []
        for number, group in enumerate(self._groups):
            said = self._said[number]
            if said is not None and not enough[said]:
                said = self._said[number] = None
            best = int(group[np.argmax(np.where(enough, means, -np.inf)[group])])
            if not enough[best] or len(past) < self.means[best] or best == said:
                continue
            if ms - self._last[number] >= self.settings.dead_ms:
                self._said[number], self._last[number] = best, ms
                events.append(Event(self.names[best], float(means[best]), ms))
        return events


def samples_needed(model: ModelFile, settings: Settings) -> int:
    """Samples from which an event can come: what the model takes, and a step for each further output of the mean."""
    given = sound.input_of(model, "the recording")
    return given.samples + (settings.longest - 1) * (settings.step or usual_step(model))


def outputs(runner: Runner, samples: np.ndarray, settings: Settings) -> Iterator[tuple[np.ndarray, int]]:
    """The model's answers to int16 samples [n], each with its time in ms.
    Silence is put around samples that are too few for an event."""
    given = sound.input_of(runner.model, "the recording")
    step, place = settings.step or usual_step(runner.model), scores.required(runner.model)
    samples = sounds.cut(samples, max(len(samples), samples_needed(runner.model, settings)))[0]
    if runner.model.state_bytes:
        runner.reset()
    for end in range(given.samples, len(samples) + 1, step):
        piece = samples[end - given.samples : end].astype(np.float32) * np.float32(given.step)
        yield runner.predict(piece[None, None], place)[0], end * 1000 // given.rate


def events(model: ModelFile, answers: Iterable[tuple[np.ndarray, int]], settings: Settings) -> Iterator[Event]:
    """Events that answers and their times give."""
    detector = Detector(model, settings)
    for answer, ms in answers:
        yield from detector.take(answer, ms)


def detect(runner: Runner, samples: np.ndarray, settings: Settings) -> Iterator[Event]:
    """Events of int16 samples [n], as they come."""
    return events(runner.model, outputs(runner, samples, settings), settings)


@dataclass(frozen=True)
class Said:
    """A word in a recording, in ms."""

    begin: int
    end: int
    label: str


def read_stamps(path: Path, labels: Sequence[str]) -> list[Said]:
    """The words of a recording. Raises MicaError, naming the line."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as e:
        raise MicaError(f"{path}: cannot be read: {e}", todo=_EXPECTED) from None
    words = []
    for k, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip()[0] in "#\\":  # a remark, or Audacity's range of frequencies
            continue
        try:
            begin, end, label = line.split(None, 2)
            times = float(begin.replace(",", ".")), float(end.replace(",", "."))
        except ValueError:
            raise MicaError(f"{path}, line {k}: '{line[:40]}'", todo=_EXPECTED) from None
        if not 0 <= times[0] <= times[1] < 1e6:
            raise MicaError(f"{path}, line {k}: from {begin} to {end} s", todo="expected a time and a later one")
        if label.strip() not in labels:
            raise MicaError(
                f"{path}, line {k}: the model has no label '{label.strip()}'",
                todo=f"its labels are {', '.join(labels)}",
            )
        words.append(Said(round(times[0] * 1000), round(times[1] * 1000), label.strip()))
    return sorted(words, key=lambda w: w.begin)


@dataclass
class Counts:
    """words, hits and false alarms for each label; delays: from a word's end to its event, in ms, negative before it;
    ms: of all recordings."""

    words: dict[str, int] = field(default_factory=dict)
    hits: dict[str, int] = field(default_factory=dict)
    false: dict[str, int] = field(default_factory=dict)
    delays: list[int] = field(default_factory=list)
    ms: int = 0

    def add(self, words: Sequence[Said], events: Sequence[Event], ms: int) -> None:
        """One recording. An event counts for the first word of its label that is said then and was not found yet."""
        self.ms += ms
        left = list(words)
        for word in words:
            self.words[word.label] = self.words.get(word.label, 0) + 1
        for event in events:
            hit = next((w for w in left if w.label == event.label and w.begin <= event.ms <= w.end + LATE_MS), None)
            counts = self.false if hit is None else self.hits
            counts[event.label] = counts.get(event.label, 0) + 1
            if hit is not None:
                left.remove(hit)
                self.delays.append(event.ms - hit.end)

    def figures(self, detector: Detector) -> dict[str, Any]:
        """The counts, as `mica eval --json` has them."""
        said, hits, false = (sum(counts.values()) for counts in (self.words, self.hits, self.false))
        rows = [
            (name, least, self.words.get(name, 0), self.hits.get(name, 0), self.false.get(name, 0))
            for name, least in zip(detector.names, detector.least.tolist(), strict=True)
            if name in self.words or name in self.false
        ]
        return {
            "value": hits / said if said else None,
            "words": said,
            "hits": hits,
            "missed": said - hits,
            "false_alarms": false,
            "false_alarms_an_hour": false * 3.6e6 / self.ms if self.ms else None,
            "delay_ms": sum(self.delays) / len(self.delays) if self.delays else None,
            "seconds": self.ms / 1000,
            "labels": [
                {"label": n, "threshold": t, "words": w, "hits": h, "missed": w - h, "false_alarms": f}
                for n, t, w, h, f in rows
            ],
        }


def recordings(path: str | Path, all_of_them: bool = False) -> list[Path]:
    """A .wav file, or those that lie in a folder itself; none where the folder has folders of them,
    and no time stamps: then those are labels.

    all_of_them: those in its folders, too. Raises MicaError where there are none then.
    """
    path = Path(path)
    if all_of_them:
        files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        if not (everywhere := [p for p in files if sounds.is_sound(p)]):
            raise MicaError(
                f"{path}: holds no sound files", todo="expected .wav files, and .txt files that say what is in them"
            )
        return everywhere
    if not path.is_dir():
        return [path] if sounds.is_sound(path) else []
    found = sorted(p for p in path.iterdir() if p.is_file() and sounds.is_sound(p))
    if any(p.with_suffix(STAMPS).is_file() for p in found):
        return found
    return [] if any(sounds.is_sound(p) for p in path.glob("*/*")) else found
