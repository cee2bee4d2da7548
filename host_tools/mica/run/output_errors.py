"""Errors of a model's outputs: SQNR of each output, its error, and how often the answers are the same.

SQNR, the signal to quantisation noise ratio: 10 log10(sum of (exact - mean)**2 / sum of (exact - found)**2) in dB, over
all samples; mean: of each element over the samples. 6 dB are one bit. An output around 1,013 that varies by 10 has the
ratio of the 10, not of the 1,013.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mica.file.codec import ModelFile, StepRecord, TensorRecord
from mica.format.values import LOW, QUANTISED

LARGEST = 120.0  # dB; what is exact
SHIFT = 0.15  # of what others may lose, in dB, that the ratio is told lower
DOUBT = 1.25  # of that, that it may be off
SURE = 2.0  # dB; no ratio is told surer


def decibels(signal: float, noise: float) -> float | None:
    """None where there is no signal."""
    if signal <= 0:
        return None
    return LARGEST if noise <= 0 else min(LARGEST, float(10 * np.log10(signal / noise)))


class Sums:
    """Energy of what varies in signals, and of their errors, by name. Each channel (last axis) has its own mean."""

    def __init__(self) -> None:
        self.signal: dict[str, np.ndarray] = {}  # name -> [3, channels]: sums of exact**2, of exact, and how many
        self.noise: dict[str, float] = {}

    def add(self, name: str, exact: np.ndarray, found: np.ndarray) -> None:
        channels = exact.shape[-1] if exact.ndim else 1
        x = exact.reshape(-1, channels).astype(np.float64)
        now = np.array([np.sum(x * x, axis=0), np.sum(x, axis=0), np.full(channels, len(x))])
        self.signal[name] = self.signal[name] + now if name in self.signal else now
        self.noise[name] = self.noise.get(name, 0.0) + float(np.sum((found.reshape(-1, channels) - x) ** 2))

    def db(self, name: str) -> float | None:
        if name not in self.signal:
            return None
        squares, sums, n = self.signal[name]
        varies = np.maximum(squares - sums**2 / n, 0.0) * n / np.maximum(n - 1, 1)
        return decibels(float(np.sum(varies)), self.noise[name])


class ChannelSums:
    """Sums as `Sums` does, but each channel (last axis) may differ by a factor: packing makes the channels of a layer
    alike and takes that back in the next one, which is no error."""

    def __init__(self) -> None:
        self.sums: dict[str, np.ndarray] = {}  # name -> [3, channels]: exact**2, exact * found, found**2

    def add(self, name: str, exact: np.ndarray, found: np.ndarray) -> None:
        channels = exact.shape[-1] if exact.ndim else 1
        a, b = (x.reshape(-1, channels).astype(np.float64) for x in (exact, found))
        now = np.array([np.sum(a * a, axis=0), np.sum(a * b, axis=0), np.sum(b * b, axis=0)])
        self.sums[name] = self.sums[name] + now if name in self.sums else now

    def db(self, name: str) -> float | None:
        aa, ab, bb = self.sums[name]
        explained = np.where(bb > 0, np.maximum(ab, 0) ** 2 / np.maximum(bb, 1e-300), 0.0)
        return decibels(float(np.sum(aa)), float(np.sum(np.maximum(aa - explained, 0.0))))


@dataclass(frozen=True)
class OutputError:
    """Holds the error of one output over all samples. kind: see `CLASS`. sqnr_db: None where nothing varies; error: the
    root of the mean square, and largest, both in the output's unit. distinct: different answers of the element that has
    most of them, and expected: as many in float. alike: of `of` classes; found: of `of` scores above 0.5 in float,
    others: besides. beyond_db: what samples that calibration did not see may lose, compared with those that it saw; a
    part of it is off sqnr_db. flat: float's answers vary by less than one step."""

    name: str
    kind: str
    sqnr_db: float | None
    plus_minus_db: float | None
    error: float
    largest: float
    distinct: int
    expected: int
    alike: int
    found: int
    others: int
    of: int
    beyond_db: float
    flat: bool


class _Output:
    """The exact and the found values of one output."""

    def __init__(self, t: TensorRecord, kind: str, labels: int) -> None:
        self.t, self.kind, self.labels = t, kind, labels
        self.exact: list[np.ndarray] = []  # a sample each
        self.found: list[np.ndarray] = []
        self.other: list[float] = []  # squared error of each sample in the second model
        self.far: list[float] = []  # and of each sample that is further out, in the file

    def add(self, exact: np.ndarray, found: np.ndarray) -> None:
        keep = np.float32 if self.t.dtype in QUANTISED else np.int64
        self.exact.append(np.asarray(exact, keep).reshape(self.t.dims))
        self.found.append(np.asarray(found, keep).reshape(self.t.dims))

    def add_other(self, found: np.ndarray) -> None:
        exact = self.exact[len(self.other)]
        self.other.append(float(np.sum((exact - np.asarray(found, np.float64).reshape(self.t.dims)) ** 2)))

    def add_far(self, exact: np.ndarray, found: np.ndarray) -> None:
        """Add one sample that is further out than any: real numbers."""
        self.far.append(
            float(np.sum((exact.reshape(self.t.dims).astype(np.float64) - found.reshape(self.t.dims)) ** 2))
        )

    def powers(self) -> tuple[np.ndarray, np.ndarray]:
        """(energy of what varies, of the error), float64, of each sample."""
        n = len(self.exact)
        mean = np.mean(self.exact, axis=0, dtype=np.float64)
        signal = [float(np.sum((x - mean) ** 2)) for x in self.exact]
        noise = [float(np.sum((a - b.astype(np.float64)) ** 2)) for a, b in zip(self.exact, self.found, strict=True)]
        return np.array(signal) * n / max(n - 1, 1), np.array(noise)

    def result(self, held: np.ndarray, share: float, jumps: bool) -> OutputError:
        """held, share, jumps: as `OutputErrors` has them."""
        signal, noise = self.powers() if self.t.dtype in QUANTISED else (np.zeros(1), np.zeros(1))
        exact, found = np.stack(self.exact), np.stack(self.found)
        wrong = np.abs(exact - found.astype(np.float64))
        alike, hit, others, of = self._answers(exact, found)
        varies = math.sqrt(float(signal.sum()) / exact.size)
        ratio = decibels(float(signal.sum()), float(noise.sum())) if len(exact) > 1 else None
        lost = 0.0
        if share and ratio is not None and self.far:
            measured = max(float(noise.mean()), float(signal.mean()) * 10 ** (-LARGEST / 10))
            more = max(self._unseen(noise, held) * share * measured, jumps * float(signal.mean()) / len(exact))
            lost = max(decibels(measured + more, measured) or 0.0, decibels(float(np.mean(self.far)), measured) or 0.0)
        few = _uncertainty(signal, noise)
        return OutputError(
            name=self.t.name,
            kind=self.kind,
            sqnr_db=None if ratio is None else ratio - SHIFT * lost,
            plus_minus_db=None if few is None else max(SURE, math.hypot(few, DOUBT * lost)),
            error=float(np.sqrt(np.mean(wrong**2))),
            largest=float(wrong.max()),
            distinct=_distinct(found),
            expected=_distinct(exact),
            alike=alike,
            found=hit,
            others=others,
            of=of,
            beyond_db=lost,
            flat=self.t.dtype in QUANTISED and varies < self.t.scale,
        )

    def _unseen(self, noise: np.ndarray, held: np.ndarray) -> float:
        """Return the part of the error that the second model adds for most samples that it did not see."""
        if len(self.other) < len(noise) or held.all() or not held.any():
            return 0.0
        more = np.array(self.other) / np.maximum(noise, 1e-30)
        return max(0.0, float(np.median(more[held]) - np.median(more[~held])))

    def _answers(self, exact: np.ndarray, found: np.ndarray) -> tuple[int, int, int, int]:
        """alike, found, others, of."""
        if self.kind == SCORES:
            real, ours = exact > 0.5, found > 0.5
            return 0, int(np.sum(real & ours)), int(np.sum(ours & ~real)), int(np.sum(real))
        if self.kind == NUMBERS:
            return 0, 0, 0, 0
        if self.t.dtype in QUANTISED:
            axis = 1 + self._class_axis(exact)
            exact, found = exact.argmax(axis=axis), found.argmax(axis=axis)
        if self.kind == CLASS:
            exact, found = exact.reshape(len(exact), -1), found.reshape(len(found), -1)
        return int(np.sum(exact == found)), 0, 0, exact.size

    def _class_axis(self, exact: np.ndarray) -> int:
        """The axis of a sample along which classes lie: as many as labels, or probabilities that add up to 1."""
        if self.labels > 1 and self.labels in self.t.dims:
            return self.t.dims.index(self.labels)
        long = [k for k, n in enumerate(self.t.dims) if n > 1]
        p = exact if exact.max() > 0 else np.exp(exact)  # of a log softmax
        return min(long, key=lambda k: float(np.abs(p.sum(axis=k + 1) - 1).mean()), default=0)


def _distinct(x: np.ndarray) -> int:
    """Different values over samples, of the element that has most."""
    rows = np.sort(x.reshape(len(x), -1), axis=0)
    return 1 + int((np.diff(rows, axis=0) != 0).sum(axis=0).max(initial=0))


def _uncertainty(signal: np.ndarray, noise: np.ndarray) -> float | None:
    """Return the error of the ratio in dB, 9 times of 10, by a jackknife over samples; None where there are too few."""
    n = len(noise)
    if n < 3 or not signal.sum():
        return None
    left = [decibels(float(signal.sum() - s), float(noise.sum() - e)) for s, e in zip(signal, noise, strict=True)]
    known = np.array([db for db in left if db is not None])
    return float((1.65 + 3 / (n - 1)) * np.sqrt((n - 1) * np.var(known)))


class OutputErrors:
    """Errors of a model's outputs over samples, against the exact outputs.

    share: 0 for samples that calibration did not see; else of these, those that also made a second model, which tells
    what others lose: held are the places of the samples that had no part in that one. jumps: answers depend on
    comparisons of rounded numbers, so that one sample more may have another answer altogether.
    """

    def __init__(self, model: ModelFile, labels: int = 0, classes: bool = False) -> None:
        """labels, classes: as of `kind`."""
        self.outputs = [
            _Output(model.tensors[t], kind(model, k, labels, classes), labels) for k, t in enumerate(model.outputs)
        ]
        self.samples = 0
        self.share = 0.0
        self.jumps = False
        self.held: list[bool] = []

    def add_other(self, found: Sequence[np.ndarray], held: bool) -> None:
        """One sample of the second model, in the order of `add`."""
        for output, y in zip(self.outputs, found, strict=True):
            output.add_other(y)
        self.held.append(held)

    def add(self, exact: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> None:
        """One sample: real numbers, an array an output."""
        for output, a, b in zip(self.outputs, exact, found, strict=True):
            output.add(a, b)
        self.samples += 1

    @cached_property
    def each(self) -> list[OutputError]:
        """Return those of all outputs, in order."""
        held = np.array(self.held, bool)
        return [o.result(held, self.share, self.jumps) for o in self.outputs] if self.samples else []

    @property
    def answer(self) -> OutputError | None:
        """Return that of the output that says the class; else of the first that says something for each place."""
        return next((e for k in (CLASS, MAP, SCORES) for e in self.each if e.kind == k), None)

    @property
    def agreement(self) -> float | None:
        """Share of the same classes, over samples or places; None where no output tells any."""
        a = self.answer
        return None if a is None or a.kind == SCORES else a.alike / a.of

    @property
    def sqnr_db(self) -> float | None:
        """Mean over the outputs."""
        known = [e.sqnr_db for e in self.each if e.sqnr_db is not None]
        return float(np.mean(known)) if known else None

    @property
    def plus_minus_db(self) -> float | None:
        """The uncertainty of the mean SQNR: the mean of the outputs' own."""
        known = [e.plus_minus_db for e in self.each if e.sqnr_db is not None and e.plus_minus_db is not None]
        return float(np.mean(known)) if known else None

    @property
    def worst(self) -> OutputError | None:
        """The output with the lowest ratio."""
        known = [e for e in self.each if e.sqnr_db is not None]
        return min(known, key=lambda e: e.sqnr_db or 0.0, default=None)


# The kind of answer that an output gives, by the kernels that make it: which comparison with float has a meaning.
# CLASS: one class, from an ArgMax or a label, a softmax, or scores of as many classes as there are labels. MAP: a class
# for each place. SCORES: probabilities, each by itself; something is found where it is above 0.5. NUMBERS: anything
# else, such as forecasts, sound, pictures, logits without labels; there is an error, and no class.
CLASS, MAP, SCORES, NUMBERS = "class", "map", "scores", "numbers"
MOVES = ("concat_s8", "gather_s8", "move_s8", "narrow_s8", "pad_s8", "transpose_s8", "widen_s16")
SOFTMAX = ("softmax_s8", "softmax_s16", "log_softmax_s8")


def kind(model: ModelFile, output: int, labels: int = 0, classes: bool = False) -> str:
    """Return the kind of an output, by its place. labels: how many the model has. classes: the first output is known
    to tell classes."""
    t = model.tensors[model.outputs[output]]
    size = math.prod(t.dims)
    if t.dtype not in QUANTISED:
        return CLASS if size == 1 else MAP
    if labels > 1 and labels in t.dims:
        return CLASS if size == labels else MAP
    maker = _maker(model, t, len(model.steps))
    made = None if maker is None else model.tensors[maker.outputs[0]]
    if maker is not None and made is not None and maker.kernel in SOFTMAX:
        return CLASS if math.prod(made.dims) == made.dims[-1] else MAP
    if _is_probability(t) and size not in (math.prod(model.tensors[i].dims) for i in model.inputs):
        return SCORES
    return CLASS if classes and output == 0 and size > 1 else NUMBERS


def _is_probability(t: TensorRecord) -> bool:
    """True if its integers stand for 0 to 1. An autoencoder's output, as large as an input, is still a picture."""
    steps = 256 if t.dtype == "int8" else 2**15
    first = LOW if t.dtype == "int8" else 0
    return t.zero_point == first and math.isclose(t.scale * steps, 1.0, rel_tol=1.5 / 256)


def _maker(model: ModelFile, t: TensorRecord, before: int) -> StepRecord | None:
    """The step that computes a tensor, seen through those that only move it. A reshape is another tensor there."""
    for k in reversed(range(before)):
        step = model.steps[k]
        if any((y := model.tensors[i]).space == t.space and y.offset == t.offset for i in step.outputs):
            return _maker(model, model.tensors[step.inputs[0]], k) if step.kernel in MOVES else step
    return None
