"""Errors that mica shows to people: one line that says what was found, what was wanted, what to try."""


class MicaError(Exception):
    """Something the user can act on. The command line prints it in one line and ends with `exit_code`."""

    exit_code = 1


class Unsupported(MicaError):
    """This model or board cannot do that."""

    exit_code = 2
