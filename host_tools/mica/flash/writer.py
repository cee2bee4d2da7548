"""The interface of all Writers, which write boards, and the callbacks by which they report."""

import abc
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from mica.flash.firmware_image import Image
from mica.flash.flash_map import Span
from mica.link.board import Link, PutProgress


@dataclass(frozen=True)
class FlashCallbacks:
    """Callbacks for reports: remarks, and a meter `with meter(what, unit) as progress: progress(done, of)`."""

    say: Callable[[str], None]
    meter: Callable[[str, str], AbstractContextManager[PutProgress]]


class Writer(abc.ABC):
    """One way to write a board's flash with `image`."""

    image: Image

    @abc.abstractmethod
    def files_of_board(self, board: Link) -> Span | None:
        """Place of the files of the firmware that runs; None if it does not tell."""

    @abc.abstractmethod
    def files_without_repl(self) -> Span | str | None:
        """The same of a board whose REPL does not answer: a place, None for surely no files, or why it is unknown."""

    @abc.abstractmethod
    def write(self, board: Link | None, moved: bool) -> None:
        """Write the image and start it; `board` is the open REPL, if there is one. `moved`: the files' place is new."""
