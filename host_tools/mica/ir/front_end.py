"""A front end: what turns samples of sound into the features that a network was trained on."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mica.errors import MicaError

IN_GRAPH = "graph"  # how a front end was asked for that the model brought itself


@dataclass(frozen=True, eq=False, repr=False)
class Speech:
    """Integers of TensorFlow Lite Micro's front end for speech.

    Constants and parameters of `pcan_s8` by their names. worth: of a step of what it rounds to int8, as a feature.
    """

    blobs: Mapping[str, np.ndarray]
    params: Mapping[str, int]
    worth: float


@dataclass(frozen=True)
class Pcen:
    """y = (E / (eps + M)**alpha + delta)**r - delta**r, M = (1 - s) * M of the frame before + s * E.

    Per-channel energy normalisation: E are the energies of a front end's bands; it takes the place of the logarithm.
    0 < s <= 1, 0 <= alpha <= 1, delta >= 0, 0 < r <= 1, eps >= 0, and either eps or alpha is not 0. start: M before the
    first frame; None: the first E itself.
    Source: Y. Wang et al., "Trainable frontend for robust and far-field keyword spotting", ICASSP 2017,
    equations 1 and 2.
    """

    s: float
    alpha: float
    delta: float
    r: float
    eps: float
    start: float | None


@dataclass(frozen=True, eq=False, repr=False)  # equal to itself alone: two tables are not looked through
class FrontEnd:
    """features = factor * dct @ ln(filters @ |FFT(window * frame)| + floor) + shift, limited to `least` and `most`.

    samples: int16 of a whole sound. Each is worth `unit`; as a number that the graph reads, it is worth `step`. Frames
    of `frame` samples begin every `hop`, with zeros behind them to `fft`.
    window float64 [frame]; filters float64 [bands, fft / 2 + 1], none below 0; dct float64 [columns, bands], None if
    the columns are the bands. shift: for all columns, or float64 [columns]. factor > 0.
    power: squares of the sizes.
    peak: the samples are divided by the largest of them, in any unit.
    preemphasis p: each sample less p times the one before; the first of all has itself before it.
    limit: values below the floor become it, instead of adding the floor to all.
    before: the sound goes on, so the first sample of all is in no frame: it is the one before the first frame.
    edges: frames reach beyond the sound; the first begins `pad` samples before it, and there are `rows` of them.
    Outside the sound is zero, or its mirror image at the first and last sample.
    speech: these integers compute the features; of the formula's numbers only `least` and `most` are used.
    keeps: the estimate of the noise goes on from run to run.
    pcen: it replaces the logarithm; factor, floor and shift are not used.
    """

    rate: int  # samples a second
    samples: int
    frame: int
    hop: int
    fft: int
    window: np.ndarray
    filters: np.ndarray
    dct: np.ndarray | None
    power: bool
    peak: bool
    preemphasis: float
    floor: float
    limit: bool
    factor: float
    shift: float | np.ndarray
    unit: float
    least: float | None = None
    most: float | None = None
    before: bool = False
    pad: int = 0
    edges: str = ""  # "", "zeros" or "mirror"
    rows: int = 0
    step: float = 1.0
    speech: Speech | None = None
    keeps: bool = False
    pcen: Pcen | None = None

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Return the shape of the samples."""
        return (1, self.samples)

    @property
    def has_noise(self) -> bool:
        """True if a row depends on a noise that all rows before have changed."""
        return self.speech is not None or self.pcen is not None

    @property
    def bands(self) -> int:
        """Number of filters."""
        return len(self.filters)

    @property
    def frames(self) -> int:
        """Number of rows."""
        if self.edges:
            return self.rows
        return 1 + (self.samples - self.before - self.frame) // self.hop

    @property
    def columns(self) -> int:
        """Numbers of a row."""
        return self.bands if self.dct is None else len(self.dct)

    def laid(self, features: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Features [rows, columns] as an input of `shape`, which rows_of() took."""
        turned = order_of(shape, *features.shape) == "columns"
        return (features.T if turned else features).reshape(shape)


def speech_front_end(speech: Speech, rate: int, samples: int) -> FrontEnd:
    """The front end that these integers are."""
    p = speech.params
    return FrontEnd(
        rate=rate,
        samples=samples,
        frame=p["frame"],
        hop=p["hop"],
        fft=p["fft"],
        window=speech.blobs["window"] / 4096,
        filters=np.zeros((p["bands"], p["fft"] // 2 + 1)),
        dct=None,
        power=True,
        peak=False,
        preemphasis=0.0,
        floor=0.0,
        limit=False,
        factor=1.0,
        shift=0.0,
        unit=1.0,
        speech=speech,
    )


def rows_of(shape: tuple[int, ...], columns: int, what: str) -> int:
    """Number of rows of features that an input of `shape` takes. Raises MicaError if it takes none."""
    size = math.prod(shape)
    if size % columns or not order_of(shape, size // columns, columns):
        raise MicaError(
            f"--frontend: a row has {columns} features, and {what} is {list(shape)}",
            todo="expected an input of rows of so many; coefs= or mels= says how many there are",
        )
    return size // columns


def order_of(shape: tuple[int, ...], rows: int, columns: int) -> str:
    """Order of rows in an input: "rows" one behind the other, "columns" each column whole, "" unknown."""
    long = [n for n in shape if n > 1]
    if long in ([n for n in (rows, columns) if n > 1], [rows * columns]):
        return "rows"
    return "columns" if long == [columns, rows] else ""
