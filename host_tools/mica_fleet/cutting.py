"""Cuts the file of a model into files of its parts, which several boards run one after the other.

The cuts make the objective smallest: the time of the slowest stage, or the RAM or the flash of the part that needs
most. A stage's time is that of its steps, by the cost table, and of its transfers, by the speed of the links. A board
computes or transfers, never both at once.
"""

import itertools
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mica import engine
from mica.boards import BoardSpec
from mica.cost.prediction import Prediction, predict
from mica.cost.table import Table
from mica.custom import NO_CUSTOM, CustomOps
from mica.errors import MicaError
from mica.file import codec, parts
from mica.file.codec import GoldenVector, ModelFile
from mica.packing.parts import as_parts, packed
from mica.packing.unpack import Unpacked, unpack
from mica.plan.arena import lower_bound
from mica.plan.cut import Cutter, Piece, best_cuts
from mica.plan.lifetimes import analyse
from mica.run.golden import random_input

MOST = 16  # parts
LARGEST = 32768  # bytes that a board takes in one request; firmware/mica_fleet
_TRIES = 400  # cuts whose parts are looked at in full, until they fit


@dataclass(frozen=True)
class LinkSpeed:
    """Between a board and the one that carries what is between parts.
    `delay`: seconds of a message beside its bytes."""

    rate: float  # bytes a second
    delay: float

    def seconds(self, size: int) -> float:
        return self.delay + size / self.rate


@dataclass(frozen=True)
class Stage:
    """A part. Sizes in bytes; `seconds` with what comes and goes, None where the cost table has nothing."""

    model: ModelFile
    data: bytes
    piece: Piece
    prediction: Prediction
    takes: int
    gives: int
    seconds: float | None


@dataclass(frozen=True)
class Cut:
    """Parts in order, and the whole as one stage."""

    stages: list[Stage]
    whole: Stage
    objective: str

    @property
    def rate(self) -> float | None:
        """Samples a second, with a board for each part."""
        times = [s.seconds for s in self.stages]
        return None if None in times else 1 / max(t for t in times if t is not None)

    @property
    def latency(self) -> float | None:
        """Seconds of one sample that meets no other."""
        times = [s.seconds for s in self.stages]
        return None if None in times else sum(t for t in times if t is not None)

    @property
    def whole_rate(self) -> float | None:
        """Samples a second of as many boards that have the whole model each."""
        return None if self.whole.seconds is None else len(self.stages) / self.whole.seconds


class _Cutting:
    def __init__(self, data: bytes, board: BoardSpec, link: LinkSpeed, objective: str, must_fit: bool) -> None:
        self.data, self.model = data, codec.decode(data)
        if parts.KEY in self.model.metadata:
            raise MicaError("it is a part of a model already", todo="cut the whole model")
        self.board, self.link, self.objective, self.must_fit = board, link, objective, must_fit
        self.table = Table.read()
        self.unpacked: Unpacked = unpack(self.model)
        self.cutter = Cutter(self.unpacked.graph)
        whole = Piece(0, len(self.cutter), self.cutter.g.inputs, self.cutter.g.outputs)
        self.whole = self._stage(self.model, data, whole)
        in_layers = predict(replace(self.model, strips=[]), data, board, self.table)
        if objective == "slowest" and (in_layers.time is None or not board.clock):
            raise MicaError(
                f"how long steps take on {board.name} is not known", todo="name another board, or --objective ram"
            )
        facts = self.table.board(board)
        self._step_costs = [layer["cost"] or 0 for layer in in_layers.layers]
        self._each = facts["run"], facts["layer"]
        constants = [s.constant_bytes for s in self.model.steps]
        rest = (len(data) - sum(constants)) // max(1, len(constants))  # tables and names
        self._flash = [size + rest for size in constants]
        self._costs: dict[tuple[int, int], float] = {}
        self._stages: dict[tuple[int, int], Stage] = {}
        self._misfit: Stage | None = None  # the last that was found not to fit

    def _stage(self, model: ModelFile, data: bytes, piece: Piece) -> Stage:
        p = predict(model, data, self.board, self.table)
        takes, gives = self.cutter.bytes(piece.takes), self.cutter.bytes(piece.gives)
        seconds = None
        if p.time is not None and p.time["milliseconds"] is not None:
            seconds = p.time["milliseconds"] / 1000 + self.link.seconds(takes) + self.link.seconds(gives)
        return Stage(model, data, piece, p, takes, gives, seconds)

    def cost(self, first: int, end: int) -> float:
        """Return the cost by the objective; infinite where a request would be too large, or the part was found not
        to fit."""
        known = self._costs.get((first, end))
        if known is None:
            known = self._costs[first, end] = self._cost(first, end)
        return known

    def _cost(self, first: int, end: int) -> float:
        piece = self.cutter.piece(first, end)
        takes = self.cutter.bytes(piece.takes)
        if takes > LARGEST:
            return math.inf
        if self.objective == "flash":
            return float(sum(self._flash[first:end]))
        if self.objective == "ram":
            lives = analyse(self.cutter.graph(piece))
            return float(lower_bound(lives.storages, len(lives.steps))[0])
        return self._seconds(first, end)

    def _seconds(self, first: int, end: int) -> float:
        """Return those of a stage; of a board without a clock, cycles."""
        piece = self.cutter.piece(first, end)
        run, layer = self._each
        cycles = run + layer * (end - first) + sum(self._step_costs[first:end])
        hops = (self.link.seconds(self.cutter.bytes(names)) for names in (piece.takes, piece.gives))
        return cycles / self.board.clock + sum(hops) if self.board.clock else cycles

    def stage(self, first: int, end: int) -> Stage:
        """The piece as a model, planned."""
        if (first, end) not in self._stages:
            piece = self.cutter.piece(first, end)
            model = packed(self.cutter, piece, self.board.scratch)
            self._stages[first, end] = self._stage(model, codec.encode(model), piece)
        return self._stages[first, end]

    def _cuts(self, n: int) -> list[int] | None:
        """Return of those that are best by the objective the fastest."""
        cuts = best_cuts(len(self.cutter), n, self.cost)
        if cuts is None or self.objective == "slowest":
            return cuts
        ends = [0, *cuts, len(self.cutter)]
        most = max(self.cost(i, j) for i, j in itertools.pairwise(ends))
        return best_cuts(len(self.cutter), n, lambda i, j: math.inf if self.cost(i, j) > most else self._seconds(i, j))

    def best(self, n: int) -> list[Stage]:
        """Raises MicaError where it cannot be cut into n parts, or they do not fit."""
        for _ in range(_TRIES):
            cuts = self._cuts(n)
            if cuts is None:
                break
            ends = [0, *cuts, len(self.cutter)]
            stages = [self.stage(i, j) for i, j in itertools.pairwise(ends)]
            wrong = [s for s in stages if not s.prediction.fits] if self.must_fit else []
            if not wrong:
                return stages
            self._misfit = wrong[0]
            for s in wrong:
                self._costs[s.piece.first, s.piece.end] = math.inf
        if n > len(self.cutter):
            raise MicaError(f"{n} parts of a model with {len(self.cutter)} steps", todo="try fewer parts")
        if (misfit := self._misfit) is not None:
            raise MicaError(
                f"no cut into {n} parts fits {self.board.name}; steps {misfit.piece.first} to {misfit.piece.end - 1} "
                f"do not: {misfit.prediction.reasons[0]}",
                todo="try more parts",
            )
        raise MicaError(f"no cut into {n} parts: each has one that takes more than {LARGEST:,} bytes in a request")


def cut(
    data: bytes,
    n: int | None,
    board: BoardSpec,
    link: LinkSpeed,
    objective: str = "slowest",
    must_fit: bool = True,
    custom: CustomOps = NO_CUSTOM,
) -> Cut:
    """The file `data` in n parts (None: as few as fit), best by the objective.
    Each part has the golden vectors of the file, and the answers of all together were compared with the uncut ones.
    Raises MicaError."""
    c = _Cutting(data, board, link, objective, must_fit)
    if n is None:
        if c.whole.prediction.fits:
            raise MicaError(f"it fits {board.name} whole", todo="say how many parts, as --parts 2")
        stages: list[Stage] = []
        for some in range(2, MOST + 1):
            try:
                stages = c.best(some)
                break
            except MicaError as e:
                if some == min(MOST, len(c.cutter)):
                    raise e.at("--parts auto") from None
    else:
        stages = c.best(n)
    crc = zlib.crc32(data)
    models = as_parts(c.model, crc, c.unpacked, [s.piece for s in stages], [s.model for s in stages])
    models = _with_golden(c.model, data, models, custom)
    return Cut([c._stage(m, codec.encode(m), s.piece) for m, s in zip(models, stages, strict=True)], c.whole, objective)


def run_parts(
    files: Sequence[bytes], inputs: Sequence[np.ndarray], custom: CustomOps = NO_CUSTOM
) -> tuple[list[np.ndarray], list[GoldenVector]]:
    """Outputs of the whole, from parts one after the other in this process, or from a whole model;
    and what each was given and gave."""
    decoded = [(codec.decode(data), data) for data in files]
    decoded.sort(key=lambda pair: part.number if (part := parts.read(pair[0])) else 1)
    places = parts.chain([model for model, _ in decoded]).parts
    pool = dict(zip(places[0].inputs, inputs, strict=True))
    vectors = []
    for (model, data), place in zip(decoded, places, strict=True):
        loaded = engine.load(data, custom)
        given = [pool[t].reshape(model.tensors[i].dims) for t, i in zip(place.takes, model.inputs, strict=True)]
        for i, x in enumerate(given):
            loaded.set_input(i, x)
        crcs = [zlib.crc32(np.ascontiguousarray(y).tobytes()) for y in loaded.layers()]
        gave = [loaded.output(i) for i in range(len(model.outputs))]
        pool |= dict(zip(place.gives, gave, strict=True))
        vectors.append(GoldenVector(given, gave, crcs))
    return [pool[t] for t in places[0].outputs], vectors


def _with_golden(model: ModelFile, data: bytes, models: list[ModelFile], custom: CustomOps) -> list[ModelFile]:
    """The parts with the vectors of the whole. Raises MicaError where their answers are not its answers."""
    files = [codec.encode(m) for m in models]
    rng = np.random.default_rng(0)
    made_up = [[random_input(model, model.tensors[t], rng) for t in model.inputs] for _ in range(2)]
    whole = engine.load(data, custom)
    vectors = []
    for inputs in [g.inputs for g in model.golden] + made_up:
        for i, x in enumerate(inputs):
            whole.set_input(i, x)
        whole.run()
        right = [whole.output(i).tobytes() for i in range(len(model.outputs))]
        found, each = run_parts(files, inputs, custom)
        if [y.tobytes() for y in found] != right:
            raise MicaError(
                "its parts do not give the answers of the whole: a bug of mica's", todo="report it, with the file"
            )
        vectors.append(each)
    golden = vectors[: len(model.golden)]
    return [replace(m, golden=[v[k] for v in golden]) for k, m in enumerate(models)]
