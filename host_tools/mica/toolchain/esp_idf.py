"""Espressif's ESP-IDF: where it is, whether MicroPython builds with it, and how to get it."""

import os
import re
from pathlib import Path

from mica.errors import Unsupported
from mica.toolchain.micropython import MicroPython, Version, choose

_UPSTREAM = "https://github.com/espressif/esp-idf"


def find(chip: str, micropython: MicroPython | None = None) -> Path:
    """The folder of an ESP-IDF that a MicroPython (by default choose()'s) builds with;
    else Unsupported, with the commands that install one for `chip`."""
    mp = micropython or choose()
    if os.environ.get("IDF_PATH"):
        folder = Path(os.environ["IDF_PATH"])
        if not _is_idf(folder):
            raise Unsupported(f"IDF_PATH is {folder}, where no ESP-IDF is", todo=f"to get one: {_commands(chip, mp)}")
        _check_version(folder, chip, mp)
        return folder
    found = [folder for folder in _usual_places() if _is_idf(folder)]
    good = [folder for folder in found if mp.idf.first <= version(folder) <= mp.idf.last]
    if good:
        return max(good, key=version)
    if found:
        _check_version(found[0], chip, mp)
    raise Unsupported(
        f"an {chip.upper()} needs Espressif's ESP-IDF, which is not here", todo=f"to get it: {_commands(chip, mp)}"
    )


def version(folder: Path) -> Version:
    """Major and minor version, of the file that ESP-IDF's own build reads; (0, 0) when it does not tell."""
    try:
        text = (folder / "tools" / "cmake" / "version.cmake").read_text(encoding="utf-8")
    except OSError:
        return (0, 0)
    numbers = dict(re.findall(r"IDF_VERSION_(MAJOR|MINOR)\s+(\d+)", text))
    return int(numbers.get("MAJOR", 0)), int(numbers.get("MINOR", 0))


def _usual_places() -> list[Path]:
    """Folders in which Espressif's instructions and installers put ESP-IDF."""
    home = Path.home()
    places = [home / "esp" / "esp-idf", home / "esp-idf", Path("/opt/esp/idf"), Path("/opt/esp-idf")]
    return [*places, *sorted((home / "esp").glob("v5*/esp-idf")), *sorted((home / ".espressif").glob("v5*/esp-idf"))]


def _is_idf(folder: Path) -> bool:
    return (folder / "tools" / "idf.py").is_file() and (folder / "export.sh").is_file()


def _check_version(folder: Path, chip: str, mp: MicroPython) -> None:
    found = version(folder)
    if not mp.idf.first <= found <= mp.idf.last:
        expected = " to ".join(f"{major}.{minor}" for major, minor in (mp.idf.first, mp.idf.last))
        raise Unsupported(
            f"{folder} is ESP-IDF {found[0]}.{found[1]}, and MicroPython {mp.version} wants {expected}",
            todo=f"to get one: {_commands(chip, mp)}",
        )


def _commands(chip: str, mp: MicroPython) -> str:
    folder = "~/esp/esp-idf"
    return (
        f"git clone -b {mp.idf.advised} --depth 1 --recursive --shallow-submodules {_UPSTREAM} {folder} && "
        f"{folder}/install.sh {chip} && export IDF_PATH={folder}"
    )
