"""Expected SHA-256 of fetched archives, from archives.sha256 beside this file.

apt checks what it fetches against the archive's signature. The sums also prove that we have built with it, even
where a file is kept from earlier or a suite has moved on. `--unpinned`, or MICA_UNPINNED=1,
goes on with something else.
"""

import functools
import hashlib
import os
from pathlib import Path

from mica.errors import Unsupported

OPTION = "--unpinned (or MICA_UNPINNED=1) goes on with it"


def unpinned_by_environment() -> bool:
    """True if MICA_UNPINNED is set, and not to 0."""
    return os.environ.get("MICA_UNPINNED", "0") not in ("", "0")


@functools.cache
def sums() -> dict[str, str]:
    """File name to SHA-256."""
    lines = (Path(__file__).parent / "archives.sha256").read_text(encoding="utf-8").splitlines()
    return {name: digest for digest, name in (line.split("  ") for line in lines if line and line[0] != "#")}


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        whole = hashlib.sha256()
        while block := file.read(1 << 20):
            whole.update(block)
    return whole.hexdigest()


def is_pinned(path: Path) -> bool:
    """True if the file's SHA-256 is the one pinned for its name."""
    return path.is_file() and sums().get(path.name) == digest_of(path)


def refuse(where: str, name: str, digest: str, expected: str) -> Unsupported:
    """The error for an archive `name` that is not `expected`: what is there, its hash, what to do."""
    pinned = sums().get(expected)
    want = f"{expected} ({pinned})" if pinned else "a file with a known SHA-256"
    return Unsupported(f"{where} has {name} with SHA-256 {digest}", todo=f"expected {want}; {OPTION}")


def check_all(paths: list[Path], where: str) -> None:
    """Raise Unsupported for the first of these files that is not pinned."""
    for path in paths:
        if not is_pinned(path):
            raise refuse(where, path.name, digest_of(path), path.name)
