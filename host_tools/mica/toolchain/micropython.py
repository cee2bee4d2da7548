"""The MicroPython of a firmware: a release that mica fetches, or a tree of the user's.

One value holds the choice. It is made once, from `--micropython` or $MICA_MICROPYTHON, and handed to the build, whose
folder bears its name. Everything that depends on the release is asked of it.
"""

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from mica.errors import MicaError
from mica.toolchain.cache import cache_dir
from mica.toolchain.pins import unpinned_by_environment

Version = tuple[int, int]


@dataclass(frozen=True)
class Idf:
    """The versions of ESP-IDF that a MicroPython builds with, and the one it builds its own firmware with."""

    first: Version
    last: Version
    advised: str


@dataclass(frozen=True)
class Release:
    """A release that can be fetched: from a suite of Debian, or by git."""

    suite: str
    archive: str  # its SHA-256 is in archives.sha256
    commit: str  # of the tag; a tag can be moved
    idf: Idf


# The first is what is built when nothing else is said; the last is the newest that Debian's suites have.
RELEASES = {
    "1.25.0": Release(
        "trixie",
        "micropython_1.25.0+ds.orig.tar.xz",
        "f498a16c7db6d4b2de200b3e0856528dfe0613c3",
        Idf((5, 2), (5, 4), "v5.2.2"),
    ),
    "1.26.1": Release(
        "sid",
        "micropython_1.26.1+ds.orig.tar.xz",
        "647c8b96cae7e202c7a020395b7cfe65e5b8ce04",
        Idf((5, 2), (5, 4), "v5.4.2"),
    ),
}
DEFAULT, NEWEST = next(iter(RELEASES)), next(reversed(RELEASES))

# Of a user's tree, where a change can change flags or lists of files.
_RULES = {".mk", ".cmake", ".ld", ".csv", ".txt"}


@dataclass(frozen=True)
class MicroPython:
    """The choice. `folder` is a tree of the user's, None for a release that is fetched."""

    version: str
    folder: Path | None = None
    unpinned: bool = False  # whether archives may be others than those we know

    @property
    def tree(self) -> Path:
        """Folder of its sources; it need not exist yet."""
        if self.folder is not None:
            return self.folder
        return cache_dir() / "src" / f"micropython-{self.version}{'-unpinned' if self.unpinned else ''}"

    @property
    def mpy_cross(self) -> Path:
        """Its compiler of bytecode: in a fetched tree where the tree's own build puts it, else in the cache."""
        if self.folder is None:
            return self.tree / "mpy-cross" / "build" / "mpy-cross"
        return cache_dir() / "mpy-cross" / hashlib.sha256(self.key.encode()).hexdigest()[:8] / "mpy-cross"

    @property
    def key(self) -> str:
        """Text that differs for each choice, for the name of a build's folder."""
        return str(self.tree)

    @property
    def release(self) -> Release | None:
        return None if self.folder else RELEASES[self.version]

    @property
    def idf(self) -> Idf:
        """Versions of ESP-IDF that this release supports; of a user's tree, from its ports/esp32/README.md."""
        if self.release:
            return self.release.idf
        try:
            text = (self.tree / "ports" / "esp32" / "README.md").read_text(encoding="utf-8")
        except OSError:
            text = ""
        # "MicroPython only supports certain versions. The ... recommended version ... is v5.5.2. ...
        # also supports v5.3, ..."
        paragraph = next((part for part in text.split("\n\n") if "only supports certain versions" in part), "")
        named = re.findall(r"v(\d+)\.(\d+)", paragraph)
        advised = re.search(r"git clone -b (v[\d.]+)", text)
        if not named or not advised:
            raise MicaError(f"{self.tree}: ports/esp32/README.md does not say which ESP-IDF it builds with")
        versions = sorted((int(a), int(b)) for a, b in named)
        return Idf(versions[0], versions[-1], advised[1])

    def check(self, port: str, submodules: tuple[str, ...] = ()) -> None:
        """Raise MicaError where a user's tree lacks what a port needs: it is never written to, so not fetched."""
        if self.folder is None:
            return
        if not (self.tree / "ports" / port).is_dir():
            raise MicaError(f"{self.tree} has no ports/{port}")
        expected = ("lib/micropython-lib", *submodules)
        missing = [
            name for name in expected if not (self.tree / name).is_dir() or not any((self.tree / name).iterdir())
        ]
        if missing:
            raise MicaError(
                f"{self.tree} has no {' and no '.join(missing)}, which ports/{port} needs",
                todo=f"git -C {self.tree} submodule update --init {' '.join(missing)}",
            )

    def state(self, port: str) -> tuple[str, str]:
        """Digests of a user's tree as it is now: of the files that are rules of a build, and of all others.

        By size and time, as make goes by. A fetched tree does not change: of it the name says all.
        """
        rules, contents = hashlib.sha256(self.key.encode()), hashlib.sha256()
        if self.folder is not None:
            parts = ("py", "extmod", "shared", "drivers", "lib", "tools", "mpy-cross", f"ports/{port}")
            for part in parts:
                for root, folders, files in os.walk(self.tree / part):
                    folders[:] = sorted(f for f in folders if not f.startswith((".", "build", "__pycache__")))
                    for name in sorted(files):
                        facts = os.lstat(os.path.join(root, name))
                        is_rule = name == "Makefile" or os.path.splitext(name)[1] in _RULES
                        line = f"{root}/{name} {facts.st_size} {facts.st_mtime_ns}\n"
                        (rules if is_rule else contents).update(line.encode(errors="surrogateescape"))
        return rules.hexdigest(), contents.hexdigest()


def choose(name: str | None = None, *, unpinned: bool = False) -> MicroPython:
    """The MicroPython called `name`: a release in RELEASES, or a folder with a tree.

    Without a name it is $MICA_MICROPYTHON's, else DEFAULT. `unpinned`, or MICA_UNPINNED=1,
    lets in archives whose hash is not known. Raises MicaError for a name that is neither.
    """
    said = "--micropython" if name else "MICA_MICROPYTHON"
    name = name or os.environ.get("MICA_MICROPYTHON") or DEFAULT
    unpinned = unpinned or unpinned_by_environment()
    if name in RELEASES:
        return MicroPython(name, unpinned=unpinned)
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise MicaError(f"{said} is {name}: no folder, and no release that mica knows ({', '.join(RELEASES)})")
    folder = folder.resolve()
    if re.search(r"\s", str(folder)):
        raise MicaError(
            f"{said}: {str(folder)!r} has white space in its path, which MicroPython's makefiles cannot read"
        )
    return MicroPython(version_of(folder), folder, unpinned)


def version_of(tree: Path) -> str:
    """Version from the tree's py/mpconfig.h, such as 1.29.0 or 1.30.0-preview."""
    try:
        text = (tree / "py" / "mpconfig.h").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise MicaError(f"{tree} is no MicroPython tree: it has no py/mpconfig.h") from None
    found = dict(re.findall(r"^#define MICROPY_VERSION_(MAJOR|MINOR|MICRO|PRERELEASE) (\d+)$", text, flags=re.M))
    if not {"MAJOR", "MINOR", "MICRO"} <= set(found):
        raise MicaError(f"{tree}/py/mpconfig.h names no version", todo="expected a tree of MicroPython 1.25 or later")
    if (int(found["MAJOR"]), int(found["MINOR"])) < (1, 25):
        raise MicaError(f"{tree} is MicroPython {found['MAJOR']}.{found['MINOR']}", todo="expected 1.25 or later")
    return "{MAJOR}.{MINOR}.{MICRO}".format(**found) + ("-preview" if found.get("PRERELEASE", "0") != "0" else "")
