"""Lists of source files: `sources.txt` in usermod_c, and in its folders of kernels.

One path a line, relative to the list's folder; # begins a comment. `include FOLDER` stands for another folder's list.
make and CMake read them too (`usermod_c/micropython.mk`, `.cmake`);
this is what reads them in Python, `setup.py` included, so it imports nothing.
"""

from pathlib import Path


def listed(path: Path) -> list[Path]:
    """The files that a list names, in its order."""
    files: list[Path] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        words = line.partition("#")[0].split()
        if words[:1] == ["include"]:
            files += listed(path.parent / words[1] / path.name)
        elif words:
            files.append(path.parent / words[0])
    return files


def engine(usermod: Path, isa: str) -> list[Path]:
    """Return the engine's files, and those of the kernels of an instruction set."""
    own = usermod / "kernels" / "isa" / isa / "sources.txt"
    return listed(usermod / "sources.txt") + (listed(own) if own.exists() else [])
