"""What `mica fit` proposes where a model does not fit a board as it is: layers in strips, a fed input, weights of four bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mica.cli import ram
from mica.cost.prediction import Prediction, predict, unhindered
from mica.cost.table import Table

if TYPE_CHECKING:
    from mica.boards import BoardSpec
    from mica.compiler import Compiled

SPARE = 4096  # bytes beside a file in the window for models: names, and where it begins


@dataclass(frozen=True)
class Proposal:
    """The model as it fits, the options of `mica pack` that make it so, and its time against int8 layer by layer (1.04: 4 % more)."""

    compiled: Compiled
    options: tuple[str, ...]
    time: float | None
    what: str

    @property
    def by_board(self) -> bool:
        """True where `mica pack --board` does so by itself: it costs time, but no accuracy, and no program changes."""
        return not {"--weights", "--feed"} & set(self.options)

    def text(self, path: str, board: BoardSpec) -> str:
        """What is said of it."""
        price = (
            ""
            if self.time is None
            else f", for {100 * abs(self.time - 1):.1f} % {'more' if self.time >= 1 else 'less'} time"
        )
        begun = "layer by layer it does not fit; this is" if self.by_board else "it fits"
        line = f"{begun} with {self.what}{price}: mica pack {path} {' '.join(self.options)}"
        if "--weights" in self.options:
            size = (max(board.romfs.size if board.romfs else 0, board.storage) - SPARE) // 1024
            return line + f" --calib X; --weights auto --size {size}K takes no more layers than it must"
        return line + f", or {'--feed ' * ('--feed' in self.options)}--board {board.name}"


def find(compiled: Compiled, in_four_bits: Callable[[], Compiled], board: BoardSpec) -> Proposal | None:
    """What fits the board, with as little change as it takes; None where the model itself does, or nothing.

    in_four_bits: compiles it once more so, which is asked for only where flash is short and four bits may be enough.
    """
    table = Table.read()
    told = predict(compiled.model, compiled.data, board, table)
    whole = unhindered(compiled.model, board, table)

    def against(model: Compiled, after: Prediction) -> float | None:
        return after.time["total"] / whole["total"] if after.time and whole else None

    if told.fits:
        return None
    candidate = compiled
    options: tuple[str, ...] = ()
    words: list[str] = []
    if _short_of(told, "flash"):
        if len(compiled.data) - _most_saved(compiled) > max(board.romfs.size if board.romfs else 0, board.storage):
            return None
        candidate, options, words = in_four_bits(), ("--weights", "4"), ["weights of four bits"]
        told = predict(candidate.model, candidate.data, board, table)
        if told.fits:
            return Proposal(candidate, options, against(candidate, told), words[0])
        if _short_of(told, "flash"):
            return None
    for feed in (False, True):
        if (found := ram.for_board(candidate, board, feed)) is not None:
            after = predict(found.compiled.model, found.compiled.data, board, table)
            if after.fits:
                more = (*options, *["--feed"] * feed, "--ram", str(found.bytes))
                what = [*words, "layers in strips" + " and its input fed" * feed]
                return Proposal(found.compiled, more, against(found.compiled, after), " and ".join(what))
    return None


def _short_of(p: Prediction, what: str) -> bool:
    return any(reason.startswith(what) for reason in p.reasons)


def _most_saved(compiled: Compiled) -> int:
    """Bytes that four bits save wherever they may be."""
    from mica.quantise.choose_bits import saved
    from mica.quantise.lowbits import candidates

    core = compiled.tuned.exact
    return sum(saved(core, name) for name in candidates(core))
