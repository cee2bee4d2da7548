"""Finds the files that are not Python: boards, firmware and the C sources.

In a checkout they are at the project's root; in an installed wheel they are package data (see setup.py).
"""

from pathlib import Path

from mica.errors import MicaError

_PACKAGE = Path(__file__).resolve().parent


def data_dir(name: str) -> Path:
    """Return the folder `boards`, `firmware`, `usermod_c` or `host_tools/web`."""
    checkout = _PACKAGE.parent.parent
    if (checkout / "host_tools" / "mica").is_dir():
        folder = checkout / name
    else:
        folder = _PACKAGE / "_data" / name
    if not folder.is_dir():
        raise MicaError(f"{folder} is missing: this installation of mica is incomplete", todo="install it again")
    return folder
