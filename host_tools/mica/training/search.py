"""The choice of a network under a contract: the cost model judges all candidates before any of them is trained.

Those that keep the contract are trained in rungs on a part of the training examples, and judged on the rest of them;
after each rung the better half goes on. Examples that are held out never choose.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from mica.boards import BoardSpec
from mica.compile import stages
from mica.compile.job import Watch
from mica.compile.packed import Options, job_of
from mica.compile.state import State
from mica.cost.prediction import predict
from mica.cost.table import Table
from mica.errors import Unsupported
from mica.training import onnx_file
from mica.training.families import SPOKEN, Model, Plan
from mica.training.layers import Array

MADE_UP = 8  # samples of a compile that only asks for the cost
TRAINED = 4  # candidates of the first rung
OFF = 0.15  # share by which a prediction may be off, the loop around the layers with it: 13 % of a run of 0.26 ms
RUNG = 500  # steps; a shorter rung judges chance


@dataclass(frozen=True)
class Contract:
    """Limits of a model: milliseconds a run, bytes of tensors and scratch, bytes of the file; None where it does not
    matter.

    With limits the error of the prediction counts, too, so that the board keeps them.
    """

    board: BoardSpec
    ms: float | None = None
    ram: int | None = None
    flash: int | None = None


@dataclass(frozen=True)
class Candidate:
    """A network with its costs. error: of the milliseconds, a share. no_room: why the board has no room for it, ""
    where it has.

    fault: why it breaks the contract, "" where it keeps it; over: by which factor. accuracy: on examples that its
    rung did not train on; None where it was not trained.
    """

    plan: Plan
    ms: float | None
    ram: int
    flash: int
    error: float = 0.0
    no_room: str = ""
    fault: str = ""
    over: float = 0.0
    accuracy: float | None = None
    steps: int = 0
    chosen: bool = False

    @property
    def name(self) -> str:
        return self.plan.name

    def under(self, contract: Contract) -> Candidate:
        """Return the candidate as a contract sees it."""
        limits = (
            ("--ms", None if self.ms is None else self.ms * (1 + self.error), contract.ms, "{:.3g} ms"),
            ("--ram", self.ram, contract.ram, "{:,} bytes"),
            ("--flash", self.flash, contract.flash, "{:,} bytes"),
        )
        over = {
            f"{name}: takes {unit.format(value)}, and {unit.format(limit)} are allowed": value / max(limit, 1e-9)
            for name, value, limit, unit in limits
            if limit is not None and value is not None and value > limit
        }
        if contract.ms is not None and self.ms is None:
            over["--ms: the time on this board was never measured"] = np.inf
        if not over and self.no_room:
            over[self.no_room] = np.inf
        worst = max(over, key=lambda text: over[text], default="")
        return replace(self, fault=worst, over=over.get(worst, 0.0))


def costs(plan: Plan, state: State, contract: Contract) -> Candidate:
    """Return the costs of a packed model on the contract's board."""
    compiled = state.compiled
    p = predict(compiled.model, compiled.data, contract.board, Table.read())
    time = p.time or {"complete": False}
    ms, error = (time["milliseconds"], max(time["error"], OFF)) if time["complete"] else (None, 0.0)
    ram = p.ram["tensors"] + p.ram["scratch_want"]
    return Candidate(plan, ms, ram, p.flash["file"], error, "" if p.fits else p.reasons[0]).under(contract)


def compiled(
    onnx: bytes, samples: Array, contract: Contract, watch: Watch | None = None, **options: Unpack[Options]
) -> State:
    """Return the packed model of an .onnx file's bytes for the contract's board; options: of `mica.pack`. Raises
    MicaError."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trained.onnx"
        path.write_bytes(onnx)
        job = job_of(path, samples, options)
        return stages.run(replace(job, board=contract.board, must_fit=False, picture=samples.ndim == 4), watch)


def judged(
    plan: Plan, model: Model, recipe: Any, samples: Array, labels: tuple[str, ...], contract: Contract
) -> Candidate:
    """Return the candidate with its costs, as the tuned file of the trained network will have them."""
    try:
        file = onnx_file.model(model, recipe.shape, labels)
        state = compiled(file, samples, contract, **(front_end(recipe) | {"plain": True, "labels": labels}))
    except Unsupported as e:
        return Candidate(plan, None, 0, 0, 0.0, str(e), str(e), np.inf)
    return costs(plan, state, contract)


def front_end(recipe: Any) -> Options:
    """Return what a recipe puts before the network, as an option of `mica.pack`."""
    return {} if recipe.front_end is None else {"frontend": recipe.front_end}


def entrants(found: Sequence[Candidate], most: int = TRAINED) -> list[Candidate]:
    """Return the candidates that are worth training: of each family those that keep the contract, the largest and
    some smaller.

    Raises Unsupported where none keeps it: one line says what is too tight.
    """
    fit = sorted((c for c in found if not c.fault), key=size)
    if not fit:
        nearest = min(found, key=lambda c: c.over)
        raise Unsupported(
            f"no network keeps the contract; the nearest, {nearest.name}: {nearest.fault}", todo="allow more of it"
        )
    chosen = []
    for family in dict.fromkeys(c.plan.family for c in fit):
        of = [c for c in fit if c.plan.family == family]
        n = max(1, round(most * len(of) / len(fit)))
        places = np.unique(np.linspace(len(of) // 3 if n > 1 else len(of) - 1, len(of) - 1, n).round().astype(int))
        chosen += [of[k] for k in places]
    return chosen


def size(c: Candidate) -> tuple[float, int]:
    return (c.ms or 0.0, c.flash)


def better_half(scores: Mapping[int, float], found: Sequence[Candidate]) -> list[int]:
    """Return the places of the candidates that go on; of equal scores the faster one is better."""
    order = sorted(scores, key=lambda k: (-scores[k], size(found[k])))
    return order[: max(1, len(order) // 2)]


def preferred(best: int, scores: Mapping[int, float], found: Sequence[Candidate], judged_by: int) -> int:
    """Return the place that comes first: of the networks that many voices taught before the one of which least is
    trained, if it is within two standard errors of the best; else the best. Examples of few voices tell no more."""
    near = scores[best] - 2 * np.sqrt(scores[best] * (1 - scores[best]) / judged_by)
    begun = [k for k, score in scores.items() if found[k].plan.family in SPOKEN and score >= near]
    return min(begun, key=lambda k: SPOKEN[found[k].plan.family], default=best)
