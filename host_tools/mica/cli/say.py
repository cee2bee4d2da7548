"""Remarks for people, apart from results."""

import sys


def say(message: str) -> None:
    """Print a remark on stderr; stdout is for results."""
    print(f"mica: {message}", file=sys.stderr, flush=True)
