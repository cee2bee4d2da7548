"""Boot loader drives: what a board in BOOTSEL mode shows, found on Linux, macOS and Windows.

Such a drive has a file INFO_UF2.TXT with the lines "Model: ..." and "Board-ID: ...".
"""

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mica.errors import MicaError

INFO = "INFO_UF2.TXT"

# Board-ID of the chip's own boot loader -> the chip as board.toml calls it.
CHIPS = {"RPI-RP2": "RP2040", "RP2350": "RP2350"}

_MOUNTED_AS = ("vfat", "msdos", "exfat", "fuseblk", "9p", "drvfs")


@dataclass(frozen=True)
class Drive:
    """A boot loader's drive. `chip` is empty for one of a kind that mica does not know."""

    path: Path
    board_id: str
    model: str

    @property
    def chip(self) -> str:
        return CHIPS.get(self.board_id, "")

    def __str__(self) -> str:
        return f"{self.path} ({self.model or self.board_id})"


def find() -> list[Drive]:
    """All boot loader drives that are there now."""
    return [drive for folder in candidates() if (drive := read(folder))]


def read(folder: Path) -> Drive | None:
    """The drive mounted at `folder`, or None when it is no boot loader's."""
    try:
        text = (folder / INFO).read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    facts = dict(re.findall(r"^([\w-]+):\s*(.*?)\s*$", text, flags=re.M))
    return Drive(folder, facts.get("Board-ID", ""), facts.get("Model", ""))


def candidates(system: str = sys.platform, root: Path = Path("/")) -> list[Path]:
    """Folders where a drive may be mounted. `root` is where the system's folders are; MICA_DRIVES replaces them all."""
    if "MICA_DRIVES" in os.environ:
        return [Path(name) for name in os.environ["MICA_DRIVES"].split(os.pathsep) if name]
    if system == "win32":
        return [Path(f"{letter}:\\") for letter in _letters(_logical_drives())]
    if system == "darwin":
        return _folders(root, ["Volumes/*"])
    try:
        mounts = (root / "proc" / "mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        mounts = ""
    # What udisks has mounted for a user is among the mounts; the folders are for systems that hide those.
    found = [*mount_points(mounts), *_folders(root, ["media/*", "media/*/*", "run/media/*/*"])]
    return list(dict.fromkeys(found))


def mount_points(mounts: str) -> list[Path]:
    """Return of the text of /proc/mounts those that can be a drive; blanks in a name are written as \\040 there."""
    lines = [line.split() for line in mounts.splitlines()]
    names = [words[1] for words in lines if len(words) > 2 and words[2] in _MOUNTED_AS]
    return [Path(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), name)) for name in names]


def unmounted(root: Path = Path("/")) -> list[Path]:
    """Linux: devices of boot loaders that nobody has mounted."""
    labels = root / "dev" / "disk" / "by-label"
    return [labels / name for name in CHIPS if (labels / name).exists()]


def choose(chip: str, board: str, found: Sequence[Drive]) -> Drive:
    """The one drive that suits a board with this chip; MicaError when there is none, or several."""
    suitable = [drive for drive in found if drive.chip == chip]
    if len(suitable) == 1:
        return suitable[0]
    if suitable:
        names = ", ".join(str(drive.path) for drive in suitable)
        raise MicaError(
            f"several boards are in BOOTSEL mode: {names}", todo="choose one with --drive, or unplug the others"
        )
    if found:
        raise MicaError(f"{found[0]} is not the drive of an {chip}, which {board} has")
    if sys.platform == "linux" and (devices := unmounted()):
        raise MicaError(
            "a board is in BOOTSEL mode, but its drive is not mounted", todo=f"type: udisksctl mount -b {devices[0]}"
        )
    raise MicaError(
        f"no {board} is in BOOTSEL mode",
        todo="hold its BOOTSEL button while you plug it in, or give the port of one that runs MicroPython with --on",
    )


def _folders(root: Path, patterns: Sequence[str]) -> list[Path]:
    found: list[Path] = []
    for pattern in patterns:
        try:
            found += sorted(root.glob(pattern))
        except OSError:
            continue  # somebody else's
    return found


def _letters(mask: int) -> list[str]:
    """Letters of the drives in a bit mask; not A and B, where looking for a diskette takes long."""
    return [chr(ord("A") + bit) for bit in range(2, 26) if mask >> bit & 1]


def _logical_drives() -> int:
    """Windows: a bit for each letter that is in use."""
    import ctypes

    return int(ctypes.windll.kernel32.GetLogicalDrives())  # type: ignore[attr-defined, unused-ignore]
