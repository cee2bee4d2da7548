"""Everything that a person can ask of a compile, as one value.

A `Job` names files or holds arrays; the stages of `compile/stages.py` read them. The command line makes it in
`cli/model_options.py`, a program with `mica.pack`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mica.custom import NO_CUSTOM, CustomOps
from mica.data.calibration import Pixels
from mica.errors import MicaError
from mica.file.tokens import Tokens
from mica.format.schema import SCRATCH_ANY, SCRATCH_LIMIT
from mica.ir.axes import Front
from mica.ir.graph import StatePair
from mica.passes.streaming import Window
from mica.plan.strips.search import Price
from mica.quantise.choose_bits import Bits
from mica.quantise.tune import AUTO

if TYPE_CHECKING:
    from mica.boards import BoardSpec
    from mica.run.evaluation import Dataset

Samples = Mapping[str, np.ndarray]  # input name -> samples [n, ...input shape without the batch]


@dataclass(frozen=True)
class Ram:
    """A limit in bytes for tensors and scratch together (None: no limit),
    and the price of steps on the core that counts.

    feed: the caller gives the first picture among the inputs row by row, and it is no tensor.
    """

    bytes: int | None
    price: Price
    feed: bool = False


@dataclass(frozen=True)
class PlacedFrontEnd:
    """The input `name` becomes samples of a sensor; `front` turns them into its features;
    `text` is how the user asked for it."""

    name: str
    front: Front
    text: str


@dataclass(frozen=True)
class Job:
    """One compile.

    model: an .onnx or .tflite file. samples: a file or folder as for `--calib`, arrays by input name,
    or the array of the only input; None takes made-up samples, which costs accuracy,
    unless the model is quantised already. The samples of a streaming model are consecutive runs,
    and those of a window's input its new rows only; with `step` they are whole windows.
    shapes: sizes of dynamic dimensions. metadata: what the file says of itself, beside its name and source.
    labels: names of the classes, or a file with one in each line.
    front_end: a description such as "mfcc:mlperf-kws", or the front end itself;
    samples are then int16 values of the sensor.
    states: pairs of an input and an output that are one tensor; None finds them by their names.
    windows, step: inputs that slide.
    bits: the weights that take four bits. tokens: the vocabulary of a language model.
    plain: ranges and nearest integers only.
    calib_method: one of `quantise.tune.CHOICES`. scratch_limit: bytes of RAM for speed; None takes the board's.
    picture: the input is a picture, and the file says so. labelled: data with answers,
    whose accuracy goes into the file.
    golden: how many vectors for self-tests. key: signs the file.
    must_fit: refuse a model that does not fit the board, before it is calibrated where that can be known.
    custom: operators of the user's own.
    joined: files of networks that follow, each taking what the one before gives; with `together`, of networks that
    take the same input.
    embedding: the tensor that becomes the output, "" for the one before the last dense layer.
    alone: the front end is the whole model, and `model` its name.
    """

    model: Path
    samples: str | Path | np.ndarray | Samples | None = None
    shapes: Mapping[str, int] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    labels: str | Path | tuple[str, ...] = ()
    board: BoardSpec | None = None
    scratch_limit: int | None = None
    ram: Ram | None = None
    bits: Bits | None = None
    calib_method: str = AUTO
    plain: bool = False
    states: tuple[StatePair, ...] | None = None
    windows: tuple[Window, ...] = ()
    step: Window | None = None
    front_end: str | PlacedFrontEnd | None = None
    pixels: Pixels = field(default_factory=Pixels)
    picture: bool = False
    tokens: Tokens | None = None
    custom: CustomOps = NO_CUSTOM
    embedding: str | None = None
    alone: bool = False
    joined: tuple[Path, ...] = ()
    together: bool = False
    labelled: Dataset | str | Path | None = None
    golden: int = 0
    key: bytes | None = None
    must_fit: bool = True

    def __post_init__(self) -> None:
        """Raises MicaError where two wishes exclude each other."""
        object.__setattr__(self, "model", Path(self.model))
        streams = bool(self.states or self.windows or self.step)
        if self.step and (self.states or self.windows):
            raise MicaError("--stream keeps its states itself", todo="leave --window and --state out")
        if self.labelled is not None and streams:
            raise MicaError(
                "--data measures one sample at a time", todo="pack a streaming model without it, then use mica eval"
            )
        if self.embedding is not None and (self.labels or self.labelled is not None):
            raise MicaError(
                "--labels and --data are for classes, and an embedding has none", todo="mica teach gives it some"
            )
        if self.labelled is not None and self.joined:
            raise MicaError(
                "--data compares with one float model, and these are several", todo="use mica eval afterwards"
            )
        if self.together and not self.joined:
            raise MicaError(
                "--together: there is one model", todo="give several: mica pack A.tflite B.tflite --together"
            )
        if self.golden < 0:
            raise MicaError("--golden: expected a number of vectors, 0 for none")

    @property
    def scratch(self) -> int:
        """Bytes of RAM that the file may ask for to be faster."""
        if self.scratch_limit is not None:
            return self.scratch_limit
        if self.board:
            return self.board.scratch
        return SCRATCH_LIMIT if self.ram and self.ram.bytes is not None else SCRATCH_ANY


def ignore(*_: object) -> None:
    """Nobody asked to be told."""


@dataclass(frozen=True)
class Watch:
    """Functions that a compile calls: progress(what, done, of), warn(text) for what a person should know, note(text)
    for what was found."""

    progress: Callable[[str, int, int], None] = ignore
    warn: Callable[[str], None] = ignore
    note: Callable[[str], None] = ignore
