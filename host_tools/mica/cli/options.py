"""Options of commands as a text: one begins at the margin, with its METAVAR if it takes a value,
then two spaces and its help.

--runs N        take the shortest of N runs
--trace F.json  write the layers for chrome://tracing as well;
    a help that goes on is indented
--plain         an option without a METAVAR is a switch
"""

import argparse
import inspect
import re
from collections.abc import Mapping
from typing import Any


def add(to: argparse._ActionsContainer, text: str, **more: Mapping[str, Any]) -> None:
    """Add the options of a text. more: of an option, by its name with _ for -, what else add_argument() takes of it."""
    for entry in re.split(r"\n(?=\S)", inspect.cleandoc(text)):
        head, _, said = entry.partition("  ")
        flags = re.findall(r"(?<!\S)--?[\w-]+(?!\S)", head)
        metavar = head[head.index(flags[-1]) + len(flags[-1]) :].strip()
        own = {**more.get(flags[-1].lstrip("-").replace("-", "_"), {}), "help": " ".join(said.split())}
        if metavar:
            own["metavar"] = metavar
        elif not {"action", "choices"} & own.keys():
            own["action"] = "store_true"
        to.add_argument(*flags, **own)
