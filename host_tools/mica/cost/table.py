"""The measured costs of every core, and what they predict.

`table.json` is written by `scripts/costs`: for each core, the factors of each kind of step (`features.py`),
how far they were off where they were fitted, and the revision of the kernels that were measured.
Boards with the same core and kernels share an entry.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mica.boards import BoardSpec
from mica.boards.isa import isas
from mica.cost import features, waits
from mica.errors import MicaError
from mica.file.codec import ModelFile, StepRecord, TensorRecord

PATH = Path(__file__).with_name("table.json")

# Of a board, in units of its core: "call" a step's call from Python, "run" and "layer" what a run adds outside of its
# steps, once and for each of them; in bytes of heap: "heap_fixed" the runtime and a model's object, "heap_step" tables
# and callable of a step. "cycles": of an instruction on average, where the core's unit is instructions and the board's
# emulator estimates cycles. "run_misses" and "layer_misses": of the flash cache, by MicroPython's loop.
BOARD_FACTS = ("call", "run", "layer", "heap_fixed", "heap_step", "cycles", "run_misses", "layer_misses")

GUESS = 4.0  # cycles for a multiplication, or a byte that is read or written, where nothing was measured


@dataclass(frozen=True)
class StepCost:
    """Predicted cost of a step, and its relative error on the steps it was fitted to (9 of 10 are within)."""

    kind: str
    cost: float
    error: float
    cycles: float = 0.0  # where the cost is instructions; 0: not known


class Table:
    """Costs by core."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.content = content

    @classmethod
    def read(cls) -> Table:
        """The table that came with mica. Raises MicaError."""
        try:
            return cls(json.loads(PATH.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            raise MicaError(f"{PATH} is missing or damaged: install mica again") from None

    def core_of(self, board: BoardSpec) -> str | None:
        """The core whose costs a board's are; None where none was measured."""
        isa = isas().get(board.isa)
        core = isa.cost_of.get(board.core, isa.cost) if isa else None
        return core if core in self.content["cores"] else None

    def unit(self, core: str) -> str:
        """cycles or instructions."""
        return str(self.content["cores"][core]["unit"])

    def revision(self, core: str) -> str:
        """Name the revision of the kernels that were measured."""
        return str(self.content["cores"][core]["revision"])

    def board(self, board: BoardSpec) -> dict[str, float]:
        """Return the costs that MicroPython adds on a board (`BOARD_FACTS`); if not measured there, those of another
        with its core, or of the one where they are most.

        Bytes of heap are about the same on every 32-bit board.
        """
        boards = self.content["boards"]
        core = self.core_of(board)
        most: dict[str, Any] = max(boards.values(), key=lambda facts: facts["run"], default={})
        near = next((facts for facts in boards.values() if facts["core"] == core), most)
        any_: dict[str, Any] = next(iter(boards.values()), {})
        facts = boards.get(board.name) or {
            name: (any_ if name.startswith("heap") else near).get(name, 0) for name in BOARD_FACTS
        }
        found = {name: float(facts.get(name, 0)) for name in BOARD_FACTS}
        return found if near.get("port") == board.port.name else found | {"cycles": 0.0}

    def heap(self, board: BoardSpec) -> tuple[int | None, bool]:
        """Bytes of heap that are free at the prompt, and whether they were measured on this board.

        A board whose heap its facts name has that. A board of the same port that was measured lends what MicroPython
        keeps for itself. None where there is neither.
        """
        boards = self.content["boards"]
        if board.heap:
            return max(0, board.heap), False
        if board.name in boards:
            return int(boards[board.name]["free_heap"]), True
        for facts in sorted(boards.values(), key=lambda facts: facts["core"] != self.core_of(board)):
            if board.port.heap_is_rest and facts["port"] == board.port.name:
                kept = facts["ram"] - facts["arena"] - facts["free_heap"]
                return max(0, board.ram - board.arena - kept), False
        return None, False

    def price(self, core: str) -> Callable[[str, StepRecord, Sequence[TensorRecord], TensorRecord, int], float]:
        """(kernel, step, inputs, output, scratch) -> cost on a core, for whoever compares;
        of a kind that was never measured a guess."""

        def cost(kernel: str, step: StepRecord, xs: Sequence[TensorRecord], y: TensorRecord, scratch: int) -> float:
            known = self._known(core, features.shape_counts(kernel, step, xs, y, scratch))
            if not known:
                return float(step.macs + sum(x.bytes for x in xs) + y.bytes) * GUESS
            return min(algorithm.cost for algorithm in known)

        return cost

    def _entry(self, core: str, kind: str) -> Mapping[str, Any] | None:
        """Return the entry of a kind of step; of weights in codes, which were not measured, that of whole ones."""
        kinds: Mapping[str, Any] = self.content["cores"][core]["kinds"]
        found: Mapping[str, Any] | None = kinds.get(kind) or kinds.get(features.without_codes(kind))
        return found

    def step(self, core: str, model: ModelFile, step: StepRecord, scratch: int) -> StepCost | None:
        """The cost of a step on a core; None for a kind that was never measured. scratch: bytes beside the tensors."""
        known = self._known(core, features.step_counts(model, step, scratch))
        return min(known, key=lambda way: way.cost) if known else None

    def reads(
        self, core: str, model: ModelFile, step: StepRecord, scratch: int, elsewhere: float = 0.0
    ) -> tuple[str, features.Counts]:
        """Return the kind of a step that `step` finds cheapest, and the counts of what it reads from flash.

        elsewhere: words of its constants that do not come through the cache.
        """
        algorithms = features.step_counts(model, step, scratch)
        kinds = dict(algorithms)
        cheapest = min(self._known(core, algorithms), key=lambda way: way.cost, default=None)
        kind = cheapest.kind if cheapest else algorithms[0][0]
        return kind, waits.counts(step, kinds[kind], core not in waits.BY_PIXEL, elsewhere)

    def misses(
        self,
        core: str,
        model: ModelFile,
        step: StepRecord,
        scratch: int,
        elsewhere: float = 0.0,
        cache: waits.Cache | None = None,
    ) -> float:
        """Return how often the flash cache has not what a step reads; 0 on cores of which that was not measured.

        cache: what the steps before it have left there; None: nothing.
        """
        kind, counts = self.reads(core, model, step, scratch, elsewhere)
        if cache is not None:
            cache.run(kind, counts)
        kinds: Mapping[str, Any] = self.content["cores"][core].get("misses", {})
        entry = kinds.get(kind) or kinds.get(features.without_codes(kind))
        return _sum(counts, entry) if entry else 0.0

    def _known(self, core: str, algorithms: Sequence[tuple[str, features.Counts]]) -> list[StepCost]:
        """The cost of each algorithm of a step; empty if the first, which every core has, was never measured."""
        found = [(kind, counts, self._entry(core, kind)) for kind, counts in algorithms]
        if found[0][2] is None:
            return []
        costs = [(StepCost(kind, _sum(counts, e), e["error"]), counts, e) for kind, counts, e in found if e]
        return [
            replace(c, cycles=_sum({**n, "cost": c.cost}, e["cycles"])) if "cycles" in e else c for c, n, e in costs
        ]


def _sum(counts: features.Counts, entry: Mapping[str, Any]) -> float:
    """A kind's counts, each times its factor."""
    return float(sum(counts.get(name, 0.0) * factor for name, factor in entry["factors"].items()))
