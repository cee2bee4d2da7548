"""The packed model as a Python object, and the options of `mica.pack`."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from mica import whole
from mica.boards import load_board
from mica.compile import board_fit, quality, stages
from mica.compile.job import Job, Ram
from mica.compile.quality import Quality
from mica.compile.state import State
from mica.cost.prediction import Prediction, predict
from mica.cost.table import Table
from mica.custom import NO_CUSTOM, CustomOps
from mica.errors import MicaError
from mica.passes.streaming import Window
from mica.quantise.choose_bits import Bits

Samples = np.ndarray | Mapping[str, np.ndarray] | str | Path | None


class Options(TypedDict, total=False):
    """Options of `mica.pack`; each has the name and meaning of the option of `mica pack`."""

    board: str  # a board of `mica boards`: refuses a model that does not fit, and takes the scratch that the board has
    name: str
    labels: Sequence[str] | str | Path  # names of the classes, or a file with one in each line
    shapes: Mapping[str, int]  # sizes of dynamic dimensions
    frontend: str  # such as "mfcc:mlperf-kws"; samples are then int16
    ram: int  # bytes for tensors and scratch together
    feed: bool  # the caller gives the input row by row
    weights: int  # bits of a weight, 8 or 4
    plain: bool  # ranges and nearest integers only
    calib_method: str
    states: Sequence[tuple[str, str]]  # pairs of an input and an output; () for none
    windows: Sequence[tuple[str, int]]  # an input and its new rows a run
    stream: tuple[str, int]
    golden: int  # vectors for self-tests
    key: bytes  # signs the file
    embedding: (
        str  # the tensor that is the output, for heads that learn; "" for what stands before the last dense layer
    )
    custom: Sequence[str | Path]  # files with operators of your own


class Packed:
    """A packed model, with the figures that its compile found.

    data: the bytes of the .mica file. warnings: lines for a person. accuracy: None without labelled data.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self.data = state.compiled.data
        self.warnings = tuple(state.warnings)
        self.accuracy: Mapping[str, Any] | None = state.accuracy

    def __repr__(self) -> str:
        model = self._state.compiled.model
        return f"<mica.Packed {model.metadata['name']}: {len(self.data):,} bytes, arena {model.arena_bytes:,}>"

    def save(self, path: str | Path) -> Path:
        """Writes the file, whole or not at all; returns its path. Raises MicaError."""
        path = Path(path)
        whole.write(path, self.data)
        return path

    @cached_property
    def quality(self) -> Quality | None:
        """The error against the float model, measured on samples that the calibration did not see;
        None where none can be had."""
        return quality.measure(self._state.compiled, self._state.labelled)

    def fit(self, board: str) -> Prediction:
        """RAM, flash and time on a board of `mica boards`. Raises MicaError where there is no such board."""
        return predict(self._state.compiled.model, self.data, load_board(board), Table.read())

    def report(self) -> str:
        """A page of HTML: graph, memory, costs."""
        from mica.report.facts import facts
        from mica.report.page import Report

        model = self._state.compiled.model
        return Report(facts(model, self.data), model).html()


def pack(model: str | Path, samples: Samples = None, **options: Unpack[Options]) -> Packed:
    """See `mica.pack`."""
    job = job_of(Path(model), samples, options)
    return Packed(stages.run(job))


def job_of(model: Path, samples: Samples, options: Options) -> Job:
    """The job that these options ask for. Raises MicaError."""
    if unknown := set(options) - set(Options.__annotations__):
        raise MicaError(f"pack(): no option '{min(unknown)}'", todo=f"known are {', '.join(Options.__annotations__)}")
    board = load_board(options["board"]) if "board" in options else None
    bits = options.get("weights", 8)
    if bits not in (4, 8):
        raise MicaError(f"pack(): weights={bits}", todo="expected 8 or 4")
    ram, feed = options.get("ram"), options.get("feed", False)
    limit: Ram | None = board_fit.budget(ram, board, feed) if ram is not None or feed else None
    stream, states, labels = options.get("stream"), options.get("states"), options.get("labels", ())
    custom = options.get("custom", ())
    ops = CustomOps.read([str(path) for path in custom]) if custom else NO_CUSTOM
    return Job(
        model=model,
        samples=samples,
        shapes=options.get("shapes", {}),
        metadata={"name": options["name"]} if "name" in options else {},
        labels=labels if isinstance(labels, str | Path) else tuple(labels),
        board=board,
        ram=limit,
        bits=Bits() if bits == 4 else None,
        calib_method=options.get("calib_method", "auto"),
        plain=options.get("plain", False),
        states=None if states is None else tuple(states),
        windows=tuple(Window(name, None, rows) for name, rows in options.get("windows", ())),
        step=None if stream is None else Window(stream[0], None, stream[1]),
        front_end=options.get("frontend"),
        embedding=options.get("embedding"),
        custom=ops,
        golden=options.get("golden", 0),
        key=options.get("key"),
    )
