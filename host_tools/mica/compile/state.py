"""The value that the stages of a compile hand on, and the packed model at its end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mica.compile.job import Job, PlacedFrontEnd, Watch
from mica.custom import CustomOps
from mica.file.codec import ModelFile
from mica.ir import check
from mica.ir.graph import Graph, StatePair
from mica.plan.plan import Plan
from mica.quantise.calibrate import Samples
from mica.quantise.parts import Split
from mica.quantise.tune import Tuned
from mica.run.evaluation import Dataset
from mica.sound.insert import SAMPLES


@dataclass(frozen=True)
class Compiled:
    """A packed model, and the graphs that it came from, for reports and tests."""

    data: bytes
    model: ModelFile
    plan: Plan
    core: Graph  # float core operators, with the activations of the integer graph (channels equalised)
    tuned: Tuned
    integer: Graph  # kernels
    custom: CustomOps  # that it was compiled with
    made_up: bool  # the samples were

    @property
    def macs(self) -> int:
        return sum(s.macs for s in self.model.steps)

    @property
    def weight_bytes(self) -> int:
        """Bytes of all constants of all steps: weights, biases, multipliers, tables."""
        return sum(s.constant_bytes for s in self.model.steps)


@dataclass(frozen=True)
class InStrips:
    """A model in strips, the same layer by layer, and the bytes of tensors and scratch that the board has for it."""

    compiled: Compiled
    whole: Compiled
    bytes: int


@dataclass
class State:
    """Everything that is known of a model so far. A stage sets the fields of its line in `stages.STAGES`,
    which later stages read.

    graph: the imported one, then core operators. sound: the front end, wherever it comes from. pairs: states, as pairs
    of an input and an output of the graph. calibration: real samples by input name, None where they are made up.
    samples: one dict a sample, of all inputs of the core graph. unknown: activations without a range.
    """

    job: Job
    watch: Watch
    warnings: list[str] = field(default_factory=list)
    operators: list[tuple[str, str]] = field(default_factory=list)  # of the source: operator, name of the node
    labels: list[str] = field(default_factory=list)  # of the classes
    labels_in_graph: bool = False
    widths: tuple[int, ...] = ()  # answers of each network, of several side by side
    graph: Graph = field(init=False)
    in_graph: bool = False  # the front end was found in the graph
    sound: PlacedFrontEnd | None = None
    pairs: list[StatePair] = field(default_factory=list)
    missing: bool = False  # the model has learnt missing values
    columns: list[str] = field(default_factory=list)  # of the table of samples, else of that of labelled data
    labelled: Dataset | None = None
    calibration: Mapping[str, np.ndarray] | None = None
    facts: dict[str, str] = field(default_factory=dict)
    samples: Samples = ()
    doubts: Sequence[str] = ()  # why calibration samples cannot be right
    unknown: Sequence[str] = ()
    splits: Sequence[Split] = ()
    tuned: Tuned = field(init=False)
    integer: Graph = field(init=False)
    plan: Plan = field(init=False)
    scratch: int = 0  # bytes that steps may use for speed
    compiled: Compiled = field(init=False)
    changed: bool = False  # the model has more than its bytes: `finish.write` makes them again
    strips: InStrips | None = None  # where the model fits the board only so
    accuracy: dict[str, Any] | None = None

    def warn(self, text: str) -> None:
        self.warnings.append(text)
        self.watch.warn(text)

    def progress(self, what: str) -> Callable[[int, int], None]:
        """The `progress(done, of)` of one stage."""
        return lambda done, of: self.watch.progress(what, done, of)

    def fed_inputs(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the inputs by name, without the states, which come from the runs before;
        of a front end its samples."""
        if self.sound is not None and not self.in_graph:
            return {SAMPLES: self.sound.front.input_shape}
        states = {source for source, _ in (*self.pairs, *self.graph.states)}
        return {name: self.graph.value(name).shape for name in self.graph.inputs if name not in states}

    def check(self, stage: str) -> None:
        """Raises BrokenGraph where a stage left a graph that is not sound."""
        for name in ("graph", "integer"):
            if (g := getattr(self, name, None)) is not None:
                check.structure(g, stage)

    def __str__(self) -> str:
        """The newest graph or the packed model, for MICA_DUMP."""
        if hasattr(self, "compiled"):
            model = self.compiled.model
            return f"{len(self.compiled.data)} bytes, {len(model.steps)} steps, arena {model.arena_bytes}"
        return str(getattr(self, "integer", None) or getattr(self, "graph", ""))
