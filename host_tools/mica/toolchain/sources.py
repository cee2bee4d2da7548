"""Fetches the sources of MicroPython 1.25.0 and, for RP2 boards, of what it needs there.

On Debian they come as Debian source packages through the mirror this machine already uses, in an apt
configuration of our own (no root, the machine's state untouched). Elsewhere they come from the upstream git tags.
Everything ends up in one tree in the cache, which is never patched. Once there, no network is needed.
"""

import hashlib
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mica.errors import MicaError, Unsupported
from mica.toolchain.cache import Progress, cache_dir, locked, quiet
from mica.toolchain.process import Command, clean_environment, need_program, run_logged

VERSION = "1.25.0"
_SUITE = "trixie"  # the Debian release that has this version
_UPSTREAM = "https://github.com/micropython/micropython"

# apt checks what it fetches against the signed index; these sums also cover files kept from earlier, and a mirror
# that changes its mind. mbedtls moves with Debian's security updates, so another version of it is let through.
_SHA256 = {
    "micropython_1.25.0+ds.orig.tar.xz": "7b25be99a502f070b2de81dafc08da7051d992325d6e67daa9045a918fffdbea",
    "mbedtls_3.6.6.orig.tar.bz2": "8fb65fae8dcae5840f793c0a334860a411f884cc537ea290ce1c52bb64ca007a",
    "pico-sdk-source_2.1.1-1_all.deb": "507a3ca37636641bc90239d7c04dc9dc28c5008087a8162102ea94d2273153d3",
    "tinyusb-source_0.18.0+dfsg-1_all.deb": "01ce2c645df68f14a8a7dcfc8fb355713152543757955820479a87949a61154e",
}


class _NoMirror(Exception):
    """There is no apt here, or it knows no Debian mirror."""


def micropython_tree() -> Path:
    """Where the tree is, or will be."""
    return cache_dir() / "src" / f"micropython-{VERSION}"


def fetch(*, rp2: bool = False, submodules: Sequence[str] = (), jobs: int = 2, progress: Progress = quiet) -> Path:
    """Return the MicroPython tree with mpy-cross built, fetching what is missing.

    With `rp2`, mbedtls, pico-sdk and tinyusb are in its lib/. `submodules` are to be had by git only, so the tree is
    then one from git. A tree appears whole or not at all.
    """
    tree = micropython_tree()
    log = cache_dir() / "src" / "fetch.log"
    with locked("src/fetch", progress):
        _remove_unfinished()
        if submodules:
            tree = _tree_from_git(tree, submodules, log, progress)
        elif not tree.is_dir():
            _fetch_tree(tree, log, progress)
        if rp2 and not (tree / "lib" / ".mica-rp2").exists():
            _fetch_rp2(tree, log, progress)
        if not (tree / "mpy-cross" / "build" / "mpy-cross").exists():
            need_program("make", "make")
            need_program("gcc", "gcc libc6-dev")
            run_logged(["make", "-C", tree / "mpy-cross", f"-j{jobs}"], "building mpy-cross", log, progress=progress)
    return tree


def _fetch_tree(tree: Path, log: Path, progress: Progress) -> None:
    tree.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=tree.parent, prefix=".unpack-") as folder:
        new = Path(folder) / "tree"
        try:
            files = _from_debian(["micropython_1.25.0+ds.orig.tar.xz"], ["micropython=1.25.0+ds-1"], [], log, progress)
        except _NoMirror as reason:
            _clone(new, reason, log, progress)
        else:
            progress("unpacking MicroPython")
            _unpack_tar(files[0], new)
        # The ports' Makefiles test for this file; nothing of micropython-lib is used.
        (new / "lib" / "micropython-lib").mkdir(parents=True, exist_ok=True)
        (new / "lib" / "micropython-lib" / "README.md").touch()
        new.rename(tree)


def _tree_from_git(tree: Path, submodules: Sequence[str], log: Path, progress: Progress) -> Path:
    """The tree if it is one from git, else one beside it; with these submodules."""
    if not (tree / ".git").exists():
        tree = tree.with_name(f"{tree.name}-git")
    what = " and ".join(submodules)
    need_program("git", "git")
    try:
        if not tree.is_dir():
            with tempfile.TemporaryDirectory(dir=tree.parent, prefix=".unpack-") as folder:
                reason = f"for {what}, of which there is no Debian package"
                _clone(Path(folder) / "tree", reason, log, progress)
                (Path(folder) / "tree").rename(tree)
        missing = [name for name in submodules if not (tree / name).is_dir() or not any((tree / name).iterdir())]
        if missing:
            command: Command = ["git", "-C", tree, "submodule", "update", "--init", "--depth", "1", *missing]
            run_logged(command, f"fetching {what}", log, progress=progress)
    except MicaError as error:
        said = str(error).splitlines()
        raise Unsupported(
            f"it needs {what} of MicroPython's git repository, which git cannot fetch here ({said[min(1, len(said) - 1)].strip()}); "
            f"with a network: git clone --depth 1 --branch v{VERSION} {_UPSTREAM} {tree}"
        ) from None
    return tree


def _fetch_rp2(tree: Path, log: Path, progress: Progress) -> None:
    lib = tree / "lib"
    if (tree / ".git").exists():
        need_program("git", "git")
        names = ["lib/mbedtls", "lib/pico-sdk", "lib/tinyusb"]
        command: Command = ["git", "-C", tree, "submodule", "update", "--init", "--depth", "1", *names]
        run_logged(command, "fetching pico-sdk, tinyusb and mbedtls", log, progress=progress)
    else:
        try:
            files = _from_debian(
                ["mbedtls_*.orig.tar.bz2", "pico-sdk-source_2.1.1-1_all.deb", "tinyusb-source_0.18.0+dfsg-1_all.deb"],
                ["mbedtls"],
                ["pico-sdk-source=2.1.1-1", "tinyusb-source=0.18.0+dfsg-1"],
                log,
                progress,
            )
        except _NoMirror as reason:
            raise MicaError(f"cannot fetch pico-sdk: {reason}; remove {tree} to fetch everything by git") from None
        progress("unpacking pico-sdk, tinyusb and mbedtls")
        with tempfile.TemporaryDirectory(dir=lib, prefix=".unpack-") as folder:
            new = Path(folder)
            _unpack_tar(files[0], new / "mbedtls")
            _unpack_deb(files[1], "./usr/src/pico-sdk/", new / "pico-sdk")
            _unpack_deb(files[2], "./usr/src/tinyusb/", new / "tinyusb")
            (new / "pico-sdk" / "README.md").touch()  # the port tests for it
            for name in ("mbedtls", "pico-sdk", "tinyusb"):
                shutil.rmtree(lib / name, ignore_errors=True)
                (new / name).rename(lib / name)
    (lib / ".mica-rp2").touch()


def _clone(new: Path, reason: object, log: Path, progress: Progress) -> None:
    progress(f"fetching MicroPython {VERSION} by git ({reason})")
    need_program("git", "git")
    command: Command = ["git", "clone", "--quiet", "--depth", "1", "--branch", f"v{VERSION}", _UPSTREAM, new]
    run_logged(command, f"fetching MicroPython {VERSION} by git", log, progress=progress)


# --- Debian ---------------------------------------------------------------------------------------------


def _from_debian(
    patterns: Sequence[str], sources: Sequence[str], binaries: Sequence[str], log: Path, progress: Progress
) -> list[Path]:
    """Return the downloaded file for each of `patterns`, fetching source and binary packages when one is missing."""
    downloads = cache_dir() / "downloads"
    downloads.mkdir(parents=True, exist_ok=True)
    found = [_good_download(downloads, pattern) for pattern in patterns]
    if None in found:
        if shutil.which("apt-get") is None:
            raise _NoMirror("there is no apt-get here")
        need_program("dpkg-deb", "dpkg")
        mirror = debian_mirror()
        if mirror is None:
            raise _NoMirror("apt knows no Debian mirror here")
        progress("fetching sources through this machine's Debian mirror")
        with tempfile.TemporaryDirectory(dir=downloads, prefix=".apt-") as folder:
            options = _apt_options(Path(folder), mirror)
            work = Path(folder) / "work"
            work.mkdir()
            what = "fetching sources through apt"
            run_logged(["apt-get", *options, "-qq", "update"], what, log, progress=progress)
            if sources:
                command = ["apt-get", *options, "-qq", "source", "--download-only", *sources]
                run_logged(command, what, log, cwd=work, progress=progress)
            if binaries:
                run_logged(["apt-get", *options, "-qq", "download", *binaries], what, log, cwd=work, progress=progress)
            for pattern in patterns:
                for path in work.glob(pattern):
                    path.replace(downloads / path.name)
        found = [_good_download(downloads, pattern) for pattern in patterns]
    for pattern, good in zip(patterns, found, strict=True):
        if good is None:
            raise MicaError(f"apt gave no good {pattern}; the log is {log}")
    return [path for path in found if path is not None]


def _good_download(downloads: Path, pattern: str) -> Path | None:
    """The newest downloaded file that matches, unless its checksum is known and wrong."""
    for path in sorted(downloads.glob(pattern), reverse=True):
        wanted = _SHA256.get(path.name)
        if wanted is None or hashlib.sha256(path.read_bytes()).hexdigest() == wanted:
            return path
    return None


def _apt_options(folder: Path, mirror: str) -> list[str]:
    """Options that keep apt inside `folder`, with one source: the suite we want, on the given mirror."""
    for name in ("lists/partial", "cache/archives/partial", "empty"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    keyrings = [Path("/usr/share/keyrings") / f"debian-archive-keyring.{end}" for end in ("gpg", "pgp")]
    signed = next((f"[signed-by={path}] " for path in keyrings if path.exists()), "")
    (folder / "sources.list").write_text(
        f"deb {signed}{mirror} {_SUITE} main\ndeb-src {signed}{mirror} {_SUITE} main\n", encoding="utf-8"
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
    }
    return [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]


def debian_mirror(etc: Path = Path("/etc")) -> str | None:
    """The base address of the Debian archive this machine uses, or None where it is not a Debian.

    apt itself knows best, but only after an `apt-get update`; without lists its files in /etc/apt are read.
    """
    line_format = "$(CREATED_BY)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(ORIGIN)"
    if etc == Path("/etc"):
        result = subprocess.run(
            ["apt-get", "indextargets", "--format", line_format],
            capture_output=True,
            text=True,
            env=clean_environment(),
            check=False,
        )
        for line in result.stdout.splitlines():
            kind, _, rest = line.partition("|")
            uri, _, rest = rest.partition("|")
            release, component, origin = [*rest.split("|"), "", ""][:3]
            if (kind, component, origin) == ("Packages", "main", "Debian") and _main_suite(release):
                return uri
    return _mirror_from_files(etc)


def _main_suite(suite: str) -> bool:
    return not re.search(r"security|updates|backports|proposed", suite)


def _mirror_from_files(etc: Path) -> str | None:
    try:
        if "ID=debian" not in (etc / "os-release").read_text(encoding="utf-8").split():
            return None
    except OSError:
        return None
    apt = etc / "apt"
    suites = re.compile(r"(stable|oldstable|testing|unstable|sid|bullseye|bookworm|trixie|forky)/?")
    for path in sorted((apt / "sources.list.d").glob("*.sources")):
        for stanza in re.split(r"\n\s*\n", path.read_text(encoding="utf-8")):
            fields = {
                key.lower(): value.split()
                for key, value in re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", stanza, flags=re.M)
            }
            named = any(suites.fullmatch(suite) for suite in fields.get("suites", []))
            if named and "main" in fields.get("components", []) and fields.get("uris"):
                return fields["uris"][0]
    for path in [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*.list"))]:
        if not path.exists():
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            match = re.match(r"\s*deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+(\S+)\s+(.*)", line)
            if match and suites.fullmatch(match[2]) and "main" in match[3].split():
                return match[1]
    return None


# --- unpacking ------------------------------------------------------------------------------------------


def _unpack_tar(path: Path, folder: Path) -> None:
    """Unpack a source tarball without its first folder."""
    folder.mkdir(parents=True)
    _tar(["-C", str(folder), "--strip-components=1", "-xf", str(path)], path)


def _unpack_deb(path: Path, prefix: str, folder: Path) -> None:
    """Unpack what a Debian package has under `prefix`."""
    folder.mkdir(parents=True)
    plain = folder.parent / f"{path.name}.tar"
    with plain.open("wb") as file:
        subprocess.run(["dpkg-deb", "--fsys-tarfile", path], stdout=file, check=True)
    with tarfile.open(plain) as archive:
        for member in archive:
            if member.name.startswith(prefix):
                member.name = member.name[len(prefix) :]
                if member.name:
                    archive.extract(member, folder)
    plain.unlink()


def _tar(arguments: Sequence[str], path: Path) -> None:
    result = subprocess.run(["tar", *arguments], capture_output=True, text=True, env=clean_environment(), check=False)
    if result.returncode != 0:
        raise MicaError(f"cannot unpack {path}: {result.stderr.strip().splitlines()[-1]}")


def _remove_unfinished() -> None:
    """Remove what a fetch that was killed has left in the cache; called with the lock held."""
    for folder in (cache_dir() / "src", cache_dir() / "downloads", micropython_tree() / "lib"):
        for pattern in (".unpack-*", ".apt-*"):
            for path in folder.glob(pattern):
                shutil.rmtree(path, ignore_errors=True)
