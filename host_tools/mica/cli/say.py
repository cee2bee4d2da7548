"""Remarks for people, apart from results."""

import sys

from mica.printable import printable_lines


def say(message: str) -> None:
    """Print a remark on stderr; stdout is for results."""
    print(f"mica: {printable_lines(message)}", file=sys.stderr, flush=True)
