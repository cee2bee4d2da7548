"""Errors that mica shows to people: one line that says what was found, what was wanted, what to try."""

import re
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


NAMED = 2  # of many nodes with one problem

_PROBLEM = re.compile(r"node '(?P<node>.*?)' \((?P<op>\w*)\): (?P<reason>.*)", re.DOTALL)


def one_line_a_cause(problems: Sequence[str]) -> list[str]:
    """Problems of nodes, those of one operator for one reason as one: "node 'a', 'b' and 64 more (Op): the reason".

    Each in the place of its first; two are said as they are.
    """
    alike: dict[tuple[str, ...], list[str]] = {}
    for text in problems:
        found = _PROBLEM.fullmatch(text)
        key: tuple[str, ...] = (found["op"], found["reason"]) if found else (text,)
        alike.setdefault(key, []).append(found["node"] if found else "")
    lines: list[str] = []
    for key, named in alike.items():
        if len(key) == 1:
            lines.append(key[0])
            continue
        op, reason = key
        nodes = list(dict.fromkeys(named))
        if len(nodes) <= NAMED:
            lines += [f"node '{node}' ({op}): {reason}" for node in nodes]
        else:
            names = ", ".join(f"'{node}'" for node in nodes[:NAMED])
            lines.append(f"node {names} and {len(nodes) - NAMED} more ({op}): {reason}")
    return lines
