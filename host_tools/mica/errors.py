"""Errors that mica shows to people: one line that says what was found, what was wanted, what to try."""

from collections.abc import Sequence


class MicaError(Exception):
    """Something the user can act on. The command line prints it in one line and ends with `exit_code`."""

    exit_code = 1


class Unsupported(MicaError):
    """This model or board cannot do that. `reasons`: one text for each thing that is in the way, where they were collected."""

    exit_code = 2

    def __init__(self, message: str, reasons: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.reasons = tuple(reasons)
