"""The place of a model on a board: in its flash, if an equal file is there, else in its RAM, without golden vectors."""

from dataclasses import dataclass

from mica.errors import MicaError
from mica.file import codec
from mica.format import schema
from mica.link import answers, on_board
from mica.link.answers import ask
from mica.link.board import Link, PutProgress, Say
from mica.link.diagnosis import out_of_memory
from mica.printable import printable

_HEAD = schema.record_bytes(schema.HEADER)


@dataclass(frozen=True)
class Placed:
    """source: the expression that mica.Model takes on the board. copied: whether RAM holds the file's bytes."""

    source: str
    copied: bool


def place(board: Link, data: bytes, name: str, progress: PutProgress | None = None, say: Say | None = None) -> Placed:
    """Find the model on the board by its checksum, else send it as the variable `name`. Raises BoardError."""
    lean = codec.without_golden(data)
    answer = ask(board, on_board.call("find_model", data[:_HEAD], lean[:_HEAD]))
    for (path,) in answer.all("found", answers.name)[:1]:
        if say is not None and not board.rom_files:
            say(f"{board.name} has this model: its own copy {printable(path)} is used")
        return Placed(repr(path), not path.startswith("/rom/"))
    board.put(lean, name, progress)
    return Placed(name, True)


def out_of_memory_of(board: Link, data: bytes, placed: Placed | None) -> MicaError:
    """The error for the user after a MemoryError, raised as the model was sent (placed is None then) or loaded."""
    model = codec.decode(data)
    size = len(codec.without_golden(data)) if placed is None or placed.copied else 0
    return out_of_memory(board, (model.arena_bytes or 0) + model.scratch_min, size)
