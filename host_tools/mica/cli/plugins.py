"""Commands and targets of packages beside mica, found by their entry points.

Group `mica.commands`: a module, as those of this folder. Group `mica.targets`, by what stands before the colon of
`--on`: a function that opens a model there, open_fleet(data, target, say, *, custom, others) -> Runner.
"""

from importlib.metadata import entry_points
from typing import Any

from mica.errors import MicaError

# What installs ours, by the words that they bring. Their distribution is mica's, and may be without their folder.
INSTALL = dict.fromkeys(("fleet", "usb"), "pip install 'mica-mcu[fleet]'")


def load(group: str, name: str) -> Any:
    """The object of an entry point; None where there is none.
    Raises MicaError where it is one of ours, or cannot be imported."""
    for entry in entry_points(group=group, name=name):
        try:
            return entry.load()
        except ModuleNotFoundError as e:
            error = MicaError(f"{name}: the Python package {e.name} is missing", todo=INSTALL.get(name, ""))
            raise error from None
    if name in INSTALL:
        raise MicaError(f"{name}: the part of mica for it is not installed", todo=INSTALL[name])
    return None
