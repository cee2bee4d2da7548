"""Heads on a board, where mica.Learner takes them up."""

from mica.errors import MicaError
from mica.link.answers import require_mica
from mica.link.board import BoardError, Link


def store(board: Link, state: bytes, path: str) -> None:
    """Save the state of a head at `path` on the board, as its own save() does. Raises MicaError."""
    version = require_mica(board)
    board.put(state, "_data")
    try:
        board.exec(f"from mica import learn as _learn\n_learn.store({path!r}, bytes(_data))\ndel _data, _learn")
    except BoardError as error:
        if error.exception not in ("ImportError", "AttributeError"):
            raise
        raise MicaError(
            f"{board.name} has mica {version}, which learns nothing", todo="flash a newer firmware"
        ) from None
