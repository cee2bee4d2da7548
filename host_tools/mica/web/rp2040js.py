"""rp2040js, the core and the registers of the page's Pico, which npm fetches."""

import shutil
from pathlib import Path

from mica.errors import MicaError
from mica.resources import data_dir
from mica.toolchain.cache import Progress, cache_dir, locked, quiet
from mica.toolchain.process import need_program, run_logged


def install(progress: Progress = quiet) -> Path:
    """Return the package's folder. Made when missing. Raises MicaError."""
    source = data_dir("boards") / "common" / "rp2040"
    lock = (source / "package-lock.json").read_bytes()
    modules = cache_dir() / "npm"
    with locked("npm", progress):  # before the look: what another process is fetching is not whole yet
        if not _installed(modules, lock):
            _fetch(source, modules, progress)
    return modules / "node_modules" / "rp2040js"


def _installed(modules: Path, lock: bytes) -> bool:
    """True if npm has installed the packages of this lock file; the copy of it is absent if that failed."""
    copy = modules / "package-lock.json"
    return (modules / "node_modules" / "rp2040js").is_dir() and copy.is_file() and copy.read_bytes() == lock


def _fetch(source: Path, folder: Path, progress: Progress) -> None:
    """Have npm fetch rp2040js, of the version and checksum that the lock file names."""
    need_program("npm", "npm")
    shutil.rmtree(folder / "node_modules", ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(source / name, folder / name)
    log = folder / "npm.log"
    progress("fetching rp2040js by npm")
    command = ["npm", "ci", "--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts"]
    try:
        run_logged(command, "fetching rp2040js by npm", log, cwd=folder, progress=progress)
    except MicaError:
        (folder / "package-lock.json").unlink(missing_ok=True)
        raise MicaError("npm could not fetch rp2040js", todo=f"is there a network? The log is {log}") from None
