"""Batches to learn from: examples as other days, rooms, voices and hands would have given them, as the network takes
them.

Sound is shifted, played faster or slower, gets noise (a folder's, made, and other people's words) and another loudness;
its spectrum is tilted as by another microphone, stretched as by another throat, and parts of it are hidden. Motion is
scaled, stretched, moved in time and shaken. Pictures are moved, mirrored, lit otherwise. Rows of tables stay as they
are.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from mica.data import sounds
from mica.errors import MicaError
from mica.ir.axes import Front
from mica.listen.detection import recordings
from mica.sound import front_ends
from mica.training import families, spectra
from mica.training.examples import Examples, frames

F = np.float32
OTHER = 0.3  # of a batch of sound: everything else at least, where there is such a label
HARD = 0.5  # of that: by how much a network takes it for a word
QUIET = 0.15  # of everything else beside one word: nobody speaks
AT_ONCE = 256  # examples that the network judges
MELS = 20
SHIFT = 0.3  # seconds
NOISY, TALK = 0.8, 0.3  # of the clips get noise; of these, so many other people's words
NOISE_DB = (5.0, 30.0)  # speech above noise
GAIN_DB = (-20.0, 3.0)
SPEED = (0.85, 1.18)
WARP = (0.85, 1.15)
MOST_MIRRORED = 500  # pictures that are looked at, before any is mirrored
MADE = 6  # noises of ten seconds that are made
ONE_G = 16384  # int16 steps of a motion sensor; of smaller numbers a front end takes each as 1


@dataclass(frozen=True)
class Recipe:
    """front_end: what packing puts before the network, None of one that takes what is recorded. mean, spread:
    float32, of an x: the network's first step is (x - mean) / spread. shape: of an x."""

    examples: Examples
    front_end: str | None
    shape: tuple[int, ...]
    mean: np.ndarray
    spread: np.ndarray
    _front: Front | None = None
    _noises: tuple[np.ndarray, ...] = field(default=(), repr=False)
    _mirrors: bool = False
    _hard: np.ndarray | None = None  # how often to draw each example, where it is of everything else

    def harder(self, network: families.Model) -> "Recipe":
        """Return a recipe that draws of everything else what a network takes for the word more often, if there is one
        word."""
        inputs, other = self.examples.inputs, self.examples.background
        if self.examples.kind != "sound" or not self._one_word:
            return self
        some = [inputs[k : k + AT_ONCE] for k in range(0, len(inputs), AT_ONCE)]
        p = np.concatenate([network.probabilities(self.plain(x)) for x in some])
        hard = np.where(other[self.examples.labels], 1e-3 + p[:, ~other].sum(axis=1), 0)
        return replace(self, _hard=hard / hard.sum())

    @property
    def _one_word(self) -> bool:
        other = self.examples.background
        return bool(other.any() and (~other).sum() == 1)

    def raw(self, inputs: np.ndarray) -> np.ndarray:
        """Return examples as calibration and the packed model take them: int16 samples, pixels from 0 to 1, numbers."""
        if self.examples.kind == "sound":
            return np.clip(np.rint(inputs * 32768), -(2**15), 2**15 - 1).astype(np.int16)
        if self.examples.kind == "picture":
            return (inputs / 255).astype(F)
        if self.examples.kind == "motion" and _whole(inputs):
            return inputs.astype(np.int16)
        return inputs

    def plain(self, inputs: np.ndarray) -> np.ndarray:
        """Return examples as the network takes them, float32 [n, *shape]: as they are."""
        x = self.raw(inputs)
        return np.asarray(x if self._front is None else spectra.compute(self._front, x), F)

    def batch(self, rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Return so many changed examples, float32 [size, *shape], and their labels int64 [size]; as many of each
        label."""
        rows = self._drawn(rng, size)
        x = self.examples.inputs[rows]
        kind = self.examples.kind
        if kind == "sound":
            share = QUIET if self._one_word else 0.0
            quiet = self.examples.background[self.examples.labels[rows]] & (rng.random(size) < share)
            x = self.plain(self._heard(rng, x, quiet))
            return (_hidden(rng, x) if self._front and x.ndim == 3 else x), self.examples.labels[rows]
        if kind != "table":
            x = _moved(rng, x) if kind == "motion" else _seen(rng, x, self._mirrors)
        return self.plain(x), self.examples.labels[rows]

    def _drawn(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return numbers of examples."""
        labels, other = self.examples.labels, self.examples.background
        share = np.ones(len(other)) / len(other)
        if self.examples.kind == "sound" and 0 < other.sum() < len(other):
            of = max(OTHER, 1 / len(other))
            share = np.where(other, of / other.sum(), (1 - of) / (~other).sum())
        there = np.bincount(labels, minlength=len(other))
        share = np.where(there > 0, share, 0)
        chosen = rng.choice(len(share), size, p=share / share.sum())
        order = np.argsort(labels, kind="stable")
        first = np.concatenate([[0], np.cumsum(there)])[:-1]
        rows = order[first[chosen] + (rng.random(size) * there[chosen]).astype(np.int64)]
        if self._hard is not None:
            again = other[labels[rows]] & (rng.random(size) < HARD)
            rows[again] = rng.choice(len(labels), again.sum(), p=self._hard)
        return rows

    def _heard(self, rng: np.random.Generator, x: np.ndarray, quiet: np.ndarray) -> np.ndarray:
        """Return clips [n, samples] of another place in time, speed, loudness, and with noise; quiet: with it alone."""
        out = np.zeros_like(x)
        samples = x.shape[1]
        reach = int(min(SHIFT * self.examples.rate, 0.3 * samples))
        other = np.flatnonzero(self.examples.background[self.examples.labels])
        for row, clip, alone in zip(out, x, quiet, strict=True):
            at = (
                (np.arange(samples) - samples / 2) * rng.uniform(*SPEED) + samples / 2 + rng.integers(-reach, reach + 1)
            )
            row[:] = np.interp(at, np.arange(samples), clip, left=0.0, right=0.0)
            loud = np.abs(clip) > 0.05 * np.abs(clip).max()
            power = np.sqrt(np.mean(clip[loud] ** 2)) if loud.any() else 1e-3
            row *= not alone
            if rng.random() < NOISY:
                noise = self._noise(rng, samples, other)
                row += noise * F(max(power, 1e-3) * 10 ** (-rng.uniform(*NOISE_DB) / 20))
            else:
                row += rng.standard_normal(samples, F) * F(10 ** rng.uniform(-5.5, -3))
            row *= F(10 ** (rng.uniform(*GAIN_DB) / 20))
        return np.clip(out, -1, 1)

    def _noise(self, rng: np.random.Generator, samples: int, other: np.ndarray) -> np.ndarray:
        """Return a piece of noise, or of several people who talk, of size 1."""
        if len(other) and rng.random() < TALK:
            n = sum(np.roll(self.examples.inputs[k], rng.integers(samples)) for k in rng.choice(other, 4))
        else:
            whole = self._noises[rng.integers(len(self._noises))]
            start = rng.integers(max(1, len(whole) - samples))
            n = np.resize(whole[start : start + samples], samples)
        return np.asarray(n / (np.std(n) + 1e-6), F)


def recipe_of(examples: Examples, noise: Path | None = None, front_end: str | None = None) -> Recipe:
    """Return how to learn from these examples. noise: a folder of recordings that sound may be mixed with. front_end:
    in place of the usual one of the kind; "features": statistics and spectra of motion. Raises MicaError."""
    if examples.kind == "sound":
        return _of_sound(examples, noise, front_end)
    shape = examples.inputs.shape[1:]
    if front_end is None:
        return _normal(Recipe(examples, None, shape, *_one(), _mirrors=_mirrors(examples)))
    if examples.kind != "motion" or not _whole(examples.inputs):
        raise MicaError(f"--frontend {front_end}", todo="expected sound, or motion in the sensor's whole numbers")
    if front_end == "features":
        unit = 1 / ONE_G if np.abs(examples.inputs).max() > 100 else 1
        front_end = f"features:rows={shape[0]},axes={shape[1]},rate={round(examples.rate)},unit={unit:g},bands=4"
    alone = front_ends.shape_alone(front_end)
    front, text = front_ends.find_front(front_end, alone, "the network")
    return _normal(Recipe(examples, text, alone[1:], *_one(), front))


def _of_sound(examples: Examples, noise: Path | None, text: str | None) -> Recipe:
    samples, rate = examples.inputs.shape[1], round(examples.rate)
    noises = _noises(rate, noise)
    frame, hop = frames(rate)
    rows = 1 + (samples - frame) // hop
    if rows < 4:
        raise MicaError(f"recordings of {samples} samples", todo=f"expected {frame + 3 * hop} or more at {rate:,} Hz")
    own = f"logmel:rate={rate},frame={frame},hop={hop},mels={MELS},floor=1e-6"

    def made(text: str) -> Recipe:
        front, text = front_ends.find_front(text, (1, rows, MELS), "the network")
        return Recipe(examples, text, (rows, MELS), *_one(), front, noises)

    if text:
        return made(f"{own},{text}")
    first = made(own)  # of the features that are learnt from, so with noise
    x, _ = first.batch(np.random.default_rng(0), min(256, 4 * len(examples)))
    times = float(f"{1 / max(float(x.std()), 1e-3):.4g}")
    return made(f"{own},times={times:g},plus={-float(x.mean()) * times:.4g}")


def _one() -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(1, F), np.ones(1, F)


def _normal(recipe: Recipe) -> Recipe:
    """Return it with mean and spread, by columns, of what is learnt from."""
    x, _ = recipe.batch(np.random.default_rng(0), min(256, 4 * len(recipe.examples)))
    axes = tuple(range(x.ndim - 1))
    mean, spread = x.mean(axis=axes), x.std(axis=axes)
    return replace(recipe, mean=mean, spread=np.where(spread > 1e-6 * max(1e-6, float(np.abs(x).max())), spread, 1))


def _noises(rate: int, folder: Path | None) -> tuple[np.ndarray, ...]:
    """Return what sound is mixed with: white, pink and brown noise, and recordings of a folder. Raises MicaError."""
    found = []
    for k in range(MADE):
        wave = np.fft.rfft(np.random.default_rng(k).standard_normal(10 * rate))
        x = np.fft.irfft(wave / np.arange(1, len(wave) + 1) ** (0, 0.5, 1)[k % 3], 10 * rate)
        found.append((x / x.std()).astype(F))
    for path in recordings(folder, all_of_them=True) if folder else []:
        x = sounds.read(path, rate).astype(F) / 32768
        if x.std() > 1e-5:
            found.append(x)
    return tuple(found)


def _hidden(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Stretch spectra [n, rows, columns] along the bands, tilt them, and hide some bands and some frames."""
    n, rows, columns = x.shape
    band = np.clip(np.arange(columns) * rng.uniform(*WARP, (n, 1)) + rng.uniform(-0.5, 0.5, (n, 1)), 0, columns - 1)
    below = np.minimum(band.astype(np.int64), columns - 2)
    part = (band - below).astype(F)[:, None]
    left, right = (np.take_along_axis(x, np.broadcast_to((below + k)[:, None], x.shape), axis=2) for k in (0, 1))
    x = left * (1 - part) + right * part
    spread, z = F(x.std()), np.linspace(-1, 1, columns, dtype=F)
    colour = rng.standard_normal((n, 3)).astype(F) * spread * F(0.3)
    x += (colour @ np.stack([z, z * z - F(0.33), np.sin(3 * z)]))[:, None]
    middle = x.mean(axis=(1, 2), keepdims=True)
    for axis, length, most in ((2, columns, 5), (1, rows, 9)):
        first, wide = rng.integers(0, length, (n, 1)), rng.integers(0, most, (n, 1))
        place = np.arange(length)
        hide = (place >= first) & (place < first + wide)
        x = np.where(hide[:, None, :] if axis == 2 else hide[:, :, None], middle, x)
    return np.asarray(x, F)


def _moved(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Change motion [n, rows, axes]: another strength, speed and moment, a tremble, a sensor that lies a little
    askew."""
    n, rows, axes = x.shape
    size = x.std(axis=(0, 1))
    out = np.empty_like(x)
    reach = max(1, rows // 20)
    for row, clip in zip(out, x, strict=True):
        at = np.clip(np.linspace(0, rows - 1, rows) * rng.uniform(0.9, 1.1) + rng.uniform(-reach, reach), 0, rows - 1)
        below = np.minimum(at.astype(np.int64), rows - 2)
        part = (at - below)[:, None]
        row[:] = clip[below] * (1 - part) + clip[below + 1] * part
        for k in range(0, axes - axes % 3, 3) if axes in (3, 6, 9) else ():
            row[:, k : k + 3] = row[:, k : k + 3] @ _askew(rng)
    out *= rng.uniform(0.85, 1.15, (n, 1, 1))
    out += rng.standard_normal(x.shape, F) * (0.03 * size).astype(F)
    return np.rint(out) if _whole(x) else out


def _askew(rng: np.random.Generator) -> np.ndarray:
    """Return a turn by some ten degrees at most, [3, 3]."""
    a, b, c = rng.uniform(-0.1, 0.1, 3)
    turn = np.array([[1, -c, b], [c, 1, -a], [-b, a, 1]])
    return np.asarray(turn / np.linalg.norm(turn, axis=0), F)


def _mirrors(examples: Examples) -> bool:
    """Return True if pictures may be mirrored: the nearest others say the same label of a mirrored one as of itself."""
    if examples.kind != "picture":
        return False
    step = max(1, len(examples) // MOST_MIRRORED)
    x, labels = examples.inputs[::step], examples.labels[::step]
    right = []
    for given in (x, x[:, :, ::-1]):
        a, b = (v.reshape(len(v), -1) for v in (given, x))
        apart = (b * b).sum(axis=1) - 2 * a @ b.T  # but for a part that is the same in each row
        np.fill_diagonal(apart, np.inf)
        right.append(float((labels[apart.argmin(axis=1)] == labels).mean()))
    return right[1] >= right[0] - 0.05


def _seen(rng: np.random.Generator, x: np.ndarray, mirrors: bool) -> np.ndarray:
    """Change pictures [n, height, width, channels] of bytes: moved, mirrored, lighter, with more or less contrast,
    grainy."""
    n, height, width, channels = x.shape
    down, right = (rng.integers(-(m // 10), m // 10 + 1, n) for m in (height, width))
    rows = np.clip(np.arange(height) + down[:, None], 0, height - 1)
    columns = np.clip(np.arange(width) + right[:, None], 0, width - 1)
    if mirrors:
        columns = np.where(rng.random((n, 1)) < 0.5, columns[:, ::-1], columns)
    out = x[np.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]]
    middle = out.mean(axis=(1, 2, 3), keepdims=True)
    out = middle + (out - middle) * rng.uniform(0.7, 1.3, (n, 1, 1, 1)).astype(F)
    out += rng.uniform(-30, 30, (n, 1, 1, 1)).astype(F)
    if channels == 3:
        out *= rng.uniform(0.9, 1.1, (n, 1, 1, 3)).astype(F)
    out += rng.standard_normal(x.shape, F) * rng.uniform(0, 6, (n, 1, 1, 1)).astype(F)
    return np.clip(np.rint(out), 0, 255).astype(F)


def _whole(x: np.ndarray) -> bool:
    """Return True if numbers are a sensor's counts, which int16 holds."""
    return bool(np.abs(x).max(initial=0) < 2**15 and (x == np.rint(x)).all())
