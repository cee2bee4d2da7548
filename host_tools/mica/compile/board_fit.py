"""A compiled model for a board: planned again for less memory, and what makes it fit where it does not."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from mica.boards import BoardSpec
from mica.compile.job import Ram
from mica.compile.state import Compiled, InStrips, State
from mica.cost.prediction import predict, room, unhindered
from mica.cost.table import Table
from mica.errors import MicaError, Unsupported
from mica.file.codec import encode
from mica.format.schema import SCRATCH_LIMIT
from mica.packing.model import pack
from mica.plan.budget import within_budget

CORE = "m0plus"  # whose costs count where no board is named: the slowest
SPARE = 4096  # bytes beside a file in the window for models: names, and where it begins


def budget(size: int | None, board: BoardSpec | None, feed: bool = False) -> Ram:
    """`size` bytes on a board; feed: the input comes row by row."""
    table = Table.read()
    core = table.core_of(board) if board else CORE
    return Ram(size, table.price(core or CORE), feed)


def within(compiled: Compiled, ram: Ram, scratch_limit: int = SCRATCH_LIMIT, say_least: bool = True) -> Compiled:
    """The same model, planned again for less memory. Raises MicaError, with the least that can be if `say_least`."""
    if compiled.model.state_bytes:
        raise MicaError(
            "a streaming model that is compiled already cannot be planned again for less memory",
            todo="name the memory when it is packed, with --ram",
        )
    layout = None if compiled.plan.strips else compiled.plan
    integer, plan = within_budget(compiled.integer, layout, ram.bytes, scratch_limit, ram.price, ram.feed, say_least)
    model = pack(integer, plan, compiled.model.metadata, scratch_limit if plan.scratch is None else plan.scratch)
    return replace(compiled, data=encode(model), model=model, plan=plan, integer=integer)


def in_strips(compiled: Compiled, board: BoardSpec, feed: bool = False) -> InStrips | None:
    """The model in strips, where it does not fit the board's RAM otherwise and does so then;
    with `feed`, its input fed, too."""
    table = Table.read()
    before = predict(compiled.model, compiled.data, board, table)
    if before.fits or not any(reason.startswith("RAM") for reason in before.reasons):
        return None
    if compiled.model.strips and compiled.model.fed is None:
        return None
    size = room(before, compiled.model, feed)
    try:
        found = within(compiled, budget(size, board, feed), board.scratch, say_least=False)
    except MicaError:
        return None
    return InStrips(found, compiled, size)


@dataclass(frozen=True)
class Proposal:
    """The model as it fits, the options of `mica pack` that make it so, and its time against int8 layer by layer (1.04:
    4 % more)."""

    compiled: Compiled
    options: tuple[str, ...]
    time: float | None
    what: str

    @property
    def by_board(self) -> bool:
        """True where `mica pack --board` does so by itself: it costs time, but no accuracy, and no program changes."""
        return not {"--weights", "--feed"} & set(self.options)

    def text(self, path: str, board: BoardSpec) -> str:
        """The line that proposes these options to the user."""
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


def proposal(s: State, in_four_bits: Callable[[], State], board: BoardSpec) -> Proposal | None:
    """The change that makes a compiled model fit the board, as little as it takes; None if it fits unchanged, or never.

    in_four_bits: compiles it again so. It is called only where flash is short and four bits may be enough.
    """
    table = Table.read()
    whole = unhindered((s.strips.whole if s.strips else s.compiled).model, board, table)
    options: tuple[str, ...] = ()
    words: list[str] = []

    def found(compiled: Compiled, *more: str) -> Proposal | None:
        after = predict(compiled.model, compiled.data, board, table)
        time = after.time["total"] / whole["total"] if after.time and whole else None
        return Proposal(compiled, (*options, *more), time, " and ".join(words)) if after.fits else None

    before = predict(s.compiled.model, s.compiled.data, board, table)
    if before.fits and s.strips is None:
        return None
    if any(reason.startswith("flash") for reason in before.reasons):
        if len(s.compiled.data) - _most_saved(s.compiled) > max(board.romfs.size if board.romfs else 0, board.storage):
            return None
        s, options, words = in_four_bits(), ("--weights", "4"), ["weights of four bits"]
        if s.strips is None and (fitting := found(s.compiled)):
            return fitting
    if s.strips is not None:
        words.append("layers in strips")
        return found(s.compiled, "--ram", str(s.strips.bytes))
    fed = in_strips(s.compiled, board, feed=True)
    if fed is None:
        return None
    words.append("layers in strips and its input fed")
    return found(fed.compiled, "--feed", "--ram", str(fed.bytes))


def _most_saved(compiled: Compiled) -> int:
    """Bytes that four bits save wherever they may be."""
    from mica.quantise.choose_bits import saved
    from mica.quantise.lowbits import candidates

    core = compiled.tuned.exact
    return sum(saved(core, name) for name in candidates(core))


def require_fit(s: State) -> State:
    """Refuses a file that does not fit the job's board, with the reasons of `mica fit`."""
    if s.job.board is not None and s.job.must_fit:
        require_board(s.compiled, s.job.board, s.job.model)
    return s


def require_board(compiled: Compiled, board: BoardSpec, path: Path) -> None:
    """Raises Unsupported, with the reasons of `mica fit`, where a compiled model does not fit the board."""
    prediction = predict(compiled.model, compiled.data, board, Table.read())
    if not prediction.fits:
        raise Unsupported.because(f"{path} does not fit {board.name}", prediction.reasons)
