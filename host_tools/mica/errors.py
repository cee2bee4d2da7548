"""Errors that mica shows to people: one line that says what was found, what was expected, what to try."""

from collections.abc import Sequence

from mica.printable import printable_lines


class MicaError(Exception):
    """Something the user can act on. The command line prints it in one line and ends with `exit_code`.

    Control characters of whatever the message quotes do not come through.
    """

    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(printable_lines(message))


class Unsupported(MicaError):
    """This model or board cannot do that. `reasons`: one text for each thing that is in the way, where they were collected."""

    exit_code = 2

    def __init__(self, message: str, reasons: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.reasons = tuple(reasons)
