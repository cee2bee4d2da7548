"""Fetches the sources of MicroPython and, for RP2 boards, of what it needs there.

On Debian they come as Debian source packages through the mirror this machine already uses, in an apt
configuration of our own (no root, the machine's state untouched). Elsewhere they come from the upstream git tags.
Everything ends up in one tree in the cache, which is never patched. Once there, no network is needed. Every archive is
compared with its SHA-256 in archives.sha256, every git tag with its commit.
"""

import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mica.errors import MicaError, Unsupported
from mica.toolchain import pins
from mica.toolchain.cache import Progress, cache_dir, locked, quiet
from mica.toolchain.micropython import MicroPython, Release, choose
from mica.toolchain.process import Command, ProgramFailed, clean_environment, need_program, run_logged

_UPSTREAM = "https://github.com/micropython/micropython"


@dataclass(frozen=True)
class _Archive:
    """A file of a Debian package: the original sources of a source package, or a binary package whole."""

    package: str
    file: str
    suite: str

    @property
    def is_source(self) -> bool:
        return not self.file.endswith(".deb")


TOOLS_SUITE = "trixie"  # of what is not a MicroPython: all releases so far build with these
_RP2 = (
    _Archive("mbedtls", "mbedtls_3.6.6.orig.tar.bz2", TOOLS_SUITE),
    _Archive("pico-sdk-source", "pico-sdk-source_2.1.1-1_all.deb", TOOLS_SUITE),
    _Archive("tinyusb-source", "tinyusb-source_0.18.0+dfsg-1_all.deb", TOOLS_SUITE),
)
_RP2_MARK = ".mica-rp2-2"  # in lib/ when all of it is there


class _NoMirror(Exception):
    """There is no apt here, or it knows no Debian mirror."""


def fetch(
    micropython: MicroPython | None = None,
    *,
    libraries: Sequence[str] = (),
    submodules: Sequence[str] = (),
    jobs: int = 2,
    progress: Progress = quiet,
) -> Path:
    """Return the MicroPython tree with mpy-cross built; fetch what is missing. `micropython` is choose()'s by default.

    `libraries` are those of the rp2 port, mbedtls, pico-sdk and tinyusb.
    `submodules` are to be had by git only, so the tree is then one from git. A tree appears whole or not at all.
    A tree of the user's is returned as it is.
    """
    mp = micropython or choose()
    tree = mp.tree
    log = cache_dir() / "src" / "fetch.log"
    release = mp.release
    with locked("src/fetch", progress):
        if release:
            _remove_unfinished(tree)
            if submodules:
                tree = _tree_from_git(mp, release, submodules, log, progress)
            elif not tree.is_dir():
                _fetch_tree(mp, release, log, progress)
            if libraries and not (tree / "lib" / _RP2_MARK).exists():
                _fetch_libraries(mp, tree, libraries, log, progress)
        _build_mpy_cross(mp, tree, jobs, log, progress)
    return tree


def _build_mpy_cross(mp: MicroPython, tree: Path, jobs: int, log: Path, progress: Progress) -> None:
    """In a tree of the user's it may have to be built again: make knows."""
    if mp.release and (tree / "mpy-cross" / "build" / "mpy-cross").exists():
        return
    need_program("make", "make")
    need_program("gcc", "gcc libc6-dev")
    where: list[str] = []
    if not mp.release:
        mp.mpy_cross.parent.mkdir(parents=True, exist_ok=True)
        where = [f"BUILD={mp.mpy_cross.parent}"]
    run_logged(["make", "-C", tree / "mpy-cross", f"-j{jobs}", *where], "building mpy-cross", log, progress=progress)


def _fetch_tree(mp: MicroPython, release: Release, log: Path, progress: Progress) -> None:
    mp.tree.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=mp.tree.parent, prefix=".unpack-") as folder:
        new = Path(folder) / "tree"
        try:
            expected = [_Archive("micropython", release.archive, release.suite)]
            (archive,) = _from_debian(expected, mp.unpinned, log, progress)
        except _NoMirror as reason:
            _clone(new, mp, release, reason, log, progress)
        else:
            progress("unpacking MicroPython")
            _unpack_tar(archive, new)
        # The ports' Makefiles test for this file; nothing of micropython-lib is used.
        (new / "lib" / "micropython-lib").mkdir(parents=True, exist_ok=True)
        (new / "lib" / "micropython-lib" / "README.md").touch()
        new.rename(mp.tree)


def _tree_from_git(mp: MicroPython, release: Release, submodules: Sequence[str], log: Path, progress: Progress) -> Path:
    """The tree if it is one from git, else one beside it; with these submodules, of the commits that the tree names."""
    tree = mp.tree
    if not (tree / ".git").exists():
        tree = tree.with_name(f"{tree.name}-git")
    what = " and ".join(submodules)
    need_program("git", "git")
    try:
        if not tree.is_dir():
            with tempfile.TemporaryDirectory(dir=tree.parent, prefix=".unpack-") as folder:
                reason = f"for {what}, of which there is no Debian package"
                _clone(Path(folder) / "tree", mp, release, reason, log, progress)
                (Path(folder) / "tree").rename(tree)
        missing = [name for name in submodules if not (tree / name).is_dir() or not any((tree / name).iterdir())]
        if missing:
            command: Command = ["git", "-C", tree, "submodule", "update", "--init", "--depth", "1", *missing]
            run_logged(command, f"fetching {what}", log, progress=progress)
    except MicaError as error:
        why = error.lines[0].strip() if isinstance(error, ProgramFailed) and error.lines else str(error)
        raise Unsupported(
            f"it needs {what} of MicroPython's git repository, which git cannot fetch here ({why})",
            todo=f"with a network: git clone --depth 1 --branch v{mp.version} {_UPSTREAM} {tree}",
        ) from None
    return tree


def _fetch_libraries(mp: MicroPython, tree: Path, names: Sequence[str], log: Path, progress: Progress) -> None:
    lib = tree / "lib"
    if (tree / ".git").exists():
        need_program("git", "git")
        command: Command = ["git", "-C", tree, "submodule", "update", "--init", "--depth", "1", *names]
        run_logged(command, "fetching pico-sdk, tinyusb and mbedtls", log, progress=progress)
    else:
        try:
            files = _from_debian(_RP2, mp.unpinned, log, progress)
        except _NoMirror as reason:
            raise MicaError(
                f"cannot fetch pico-sdk: {reason}", todo=f"remove {tree} to fetch everything by git"
            ) from None
        progress("unpacking pico-sdk, tinyusb and mbedtls")
        with tempfile.TemporaryDirectory(dir=lib, prefix=".unpack-") as folder:
            new = Path(folder)
            _unpack_tar(files[0], new / "mbedtls")
            for file in files[1:]:  # into one folder, as pico-sdk has a link to its neighbour tinyusb
                _unpack_deb(file, "./usr/src/", new)
            for name, file in (("pico-sdk", files[1]), ("tinyusb", files[2])):
                # Whose it is, for notices.py: Debian has that elsewhere.
                documents = new / f"{name}-doc"
                _unpack_deb(file, f"./usr/share/doc/{name}-source/", documents)
                shutil.copyfile(documents / "copyright", new / name / "copyright")
            (new / "pico-sdk" / "README.md").touch()  # the port tests for it
            for name in ("mbedtls", "pico-sdk", "tinyusb"):
                shutil.rmtree(lib / name, ignore_errors=True)
                (new / name).rename(lib / name)
    (lib / _RP2_MARK).touch()


def _clone(new: Path, mp: MicroPython, release: Release, reason: object, log: Path, progress: Progress) -> None:
    """The release's tag, if it still is the commit that we know; of that, git's hashes prove the rest."""
    progress(f"fetching MicroPython {mp.version} by git ({reason})")
    need_program("git", "git")
    what = f"fetching MicroPython {mp.version} by git"
    command: Command = ["git", "clone", "--quiet", "--depth", "1", "--branch", f"v{mp.version}", _UPSTREAM, new]
    run_logged(command, what, log, progress=progress)
    head = ["git", "-C", str(new), "rev-parse", "HEAD"]
    found = subprocess.run(head, capture_output=True, text=True, env=clean_environment(), check=False).stdout.strip()
    if found != release.commit and not mp.unpinned:
        raise Unsupported(f"{what}: its tag is commit {found}", todo=f"expected {release.commit}; {pins.OPTION}")


# --- Debian ---------------------------------------------------------------------------------------------

_SUITES = ("stable", "oldstable", "testing", "unstable", "sid", "bullseye", "bookworm", "trixie", "forky")
_OTHER_SUITES = "security|updates|backports|proposed"


def _from_debian(archives: Sequence[_Archive], unpinned: bool, log: Path, progress: Progress) -> list[Path]:
    """Return the downloaded file for each of `archives`, fetching those that are missing.

    Raises Unsupported where a suite has another file now, or the same with another hash, unless `unpinned`.
    """
    downloads = cache_dir() / "downloads"
    downloads.mkdir(parents=True, exist_ok=True)
    found = {a: downloads / a.file for a in archives if pins.is_pinned(downloads / a.file)}
    missing = [a for a in archives if a not in found]
    for suite in sorted({a.suite for a in missing}):
        if shutil.which("apt-get") is None:
            raise _NoMirror("there is no apt-get here")
        need_program("dpkg-deb", "dpkg")
        mirror = debian_mirror()
        if mirror is None:
            raise _NoMirror("apt knows no Debian mirror here")
        progress("fetching sources through this machine's Debian mirror")
        what = "fetching sources through apt"
        with tempfile.TemporaryDirectory(dir=downloads, prefix=".apt-") as folder:
            options = apt_options(Path(folder), mirror, suite)
            work = Path(folder) / "work"
            work.mkdir()
            run_logged(["apt-get", *options, "-qq", "update"], what, log, progress=progress)
            for archive in missing:
                if archive.suite != suite:
                    continue
                offered = _offered(options, archive)
                if offered.digest != pins.sums().get(archive.file) and not unpinned:
                    raise pins.refuse(f"Debian {suite}", offered.file, offered.digest, archive.file)
                get = ["source", "--download-only"] if archive.is_source else ["download"]
                command = ["apt-get", *options, "-qq", *get, f"{archive.package}={offered.version}"]
                run_logged(command, what, log, cwd=work, progress=progress)
                path = work / offered.file
                if not path.is_file() or pins.digest_of(path) != offered.digest:
                    raise MicaError(f"apt gave no good {offered.file}; the log is {log}")
                found[archive] = path.replace(downloads / path.name)
    return [found[archive] for archive in archives]


@dataclass(frozen=True)
class _Offer:
    """A version of a package that a suite offers."""

    version: str
    file: str
    digest: str


def _offered(options: Sequence[str], archive: _Archive) -> _Offer:
    """The file that we know where the suite has it, else what the suite has in its place."""
    query = ["showsrc", "--only-source"] if archive.is_source else ["show"]
    command = ["apt-cache", *options, *query, archive.package]
    text = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), check=False).stdout
    offers = offers_in(text)
    for offer in offers:
        if offer.file == archive.file:
            return offer
    if not offers:
        raise Unsupported(f"Debian {archive.suite} has no package {archive.package}", todo=f"expected {archive.file}")
    return offers[0]


def offers_in(text: str) -> list[_Offer]:
    """Offers in the output of `apt-cache showsrc` (original sources) or `apt-cache show`."""
    found = []
    for stanza in text.split("\n\n"):
        version = re.search(r"^Version: (\S+)$", stanza, flags=re.M)
        source = re.search(r"^ ([0-9a-f]{64}) \d+ (\S+\.orig\.tar\.\w+)$", stanza, flags=re.M)
        digest = re.search(r"^SHA256: ([0-9a-f]{64})$", stanza, flags=re.M)
        name = re.search(r"^Filename: (?:\S*/)?(\S+)$", stanza, flags=re.M)
        if version and source:
            found.append(_Offer(version[1], source[2], source[1]))
        elif version and digest and name:
            found.append(_Offer(version[1], name[1], digest[1]))
    return found


def apt_options(folder: Path, mirror: str, suite: str) -> list[str]:
    """Options that keep apt inside `folder`, with one source: a suite on the given mirror."""
    for name in ("lists/partial", "cache/archives/partial", "empty"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    keyrings = [Path("/usr/share/keyrings") / f"debian-archive-keyring.{end}" for end in ("gpg", "pgp")]
    signed = next((f"[signed-by={path}] " for path in keyrings if path.exists()), "")
    (folder / "sources.list").write_text(
        f"deb {signed}{mirror} {suite} main\ndeb-src {signed}{mirror} {suite} main\n", encoding="utf-8"
    )
    settings = {
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": folder / "empty",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": folder / "empty",
        "Dir::State::Lists": folder / "lists",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder / "cache",
        "Dir::Cache::archives": folder / "cache" / "archives",
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
        "Acquire::Retries": "3",
        # A mirror may lag, and a snapshot is old for ever. What is taken is compared with its hash.
        "Acquire::Check-Valid-Until": "false",
    }
    return [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]


def debian_mirror(etc: Path = Path("/etc")) -> str | None:
    """The base address of the Debian archive this machine uses, or None where it is not a Debian.

    After an `apt-get update` apt knows whose an archive is; before it, the machine's own system and the suite's name
    have to do.
    """
    fields = "$(CREATED_BY)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(ORIGIN)"
    command = ["apt-get", "-o", f"Dir::Etc={etc}/apt", "indextargets", "--format", fields]
    try:
        is_debian = "ID=debian" in (etc / "os-release").read_text(encoding="utf-8").split()
    except OSError:
        is_debian = False
    for blind in (False, True):
        options = ["--no-release-info"] if blind else []
        result = subprocess.run(
            [*command, *options], capture_output=True, text=True, env=clean_environment(), check=False
        )
        for line in result.stdout.splitlines():
            kind, uri, suite, component, origin = [*line.split("|"), *[""] * 5][:5]
            ours = is_debian and suite in _SUITES if blind else origin == "Debian"
            if (kind, component) == ("Packages", "main") and ours and not re.search(_OTHER_SUITES, suite):
                return uri.rstrip("/")
    return None


# --- unpacking ------------------------------------------------------------------------------------------


def _unpack_tar(path: Path, folder: Path) -> None:
    """Unpack a source tarball without its first folder."""
    folder.mkdir(parents=True)
    _tar(["-C", str(folder), "--strip-components=1", "-xf", str(path)], path)


def _unpack_deb(path: Path, prefix: str, folder: Path) -> None:
    """Unpack what a Debian package has under `prefix`. Raises MicaError for a file that would lie elsewhere."""
    folder.mkdir(parents=True, exist_ok=True)
    plain = folder / f".{path.name}.tar"
    with plain.open("wb") as file:
        subprocess.run(["dpkg-deb", "--fsys-tarfile", path], stdout=file, check=True)
    # Pythons before 3.10.12 and 3.11.4 have no filters.
    safe: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(plain) as archive:
        for member in archive:
            if member.name.startswith(prefix):
                member.name = member.name[len(prefix) :]
                if ".." in Path(member.name).parts or Path(member.name).is_absolute():
                    raise MicaError(f"{path.name} has a file outside of its folder: {member.name!r}")
                if member.name:
                    try:
                        archive.extract(member, folder, **safe)
                    except tarfile.TarError as error:
                        raise MicaError(f"cannot unpack {path.name}: {error}") from None
    plain.unlink()


def _tar(arguments: Sequence[str], path: Path) -> None:
    result = subprocess.run(["tar", *arguments], capture_output=True, text=True, env=clean_environment(), check=False)
    if result.returncode != 0:
        raise MicaError(f"cannot unpack {path}: {result.stderr.strip().splitlines()[-1]}")


def _remove_unfinished(tree: Path) -> None:
    """Remove what a fetch that was killed has left in the cache; called with the lock held."""
    for folder in (cache_dir() / "src", cache_dir() / "downloads", tree / "lib"):
        for pattern in (".unpack-*", ".apt-*"):
            for path in folder.glob(pattern):
                shutil.rmtree(path, ignore_errors=True)
