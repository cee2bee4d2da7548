"""The page's Pico: the scripts of boards/common/rp2040 and rp2040js, which npm fetches."""

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from mica.errors import MicaError
from mica.resources import data_dir
from mica.toolchain.cache import Progress, cache_dir, locked, quiet
from mica.toolchain.process import need_program, run_logged


def install(progress: Progress = quiet) -> Path:
    """Return the folder with everything that runs: our scripts and rp2040js. Made when missing. Raises MicaError."""
    source = data_dir("boards") / "common" / "rp2040"
    lock = (source / "package-lock.json").read_bytes()
    modules = cache_dir() / "npm"
    files = sorted(path for path in source.iterdir() if path.suffix == ".mjs")
    files.append(source.parent / "flash.json")
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files))
    folder = modules / f"run-{digest.hexdigest()[:8]}"
    need_program("node", "nodejs")
    if not _installed(modules, lock) or not folder.is_dir():
        with locked("npm", progress):
            if not _installed(modules, lock):
                _install_modules(source, modules, progress)
            if not folder.is_dir():
                _install_files(files, folder)
    return folder


def _installed(modules: Path, lock: bytes) -> bool:
    """True if npm has installed the packages of this lock file; the copy of it is absent if that failed."""
    copy = modules / "package-lock.json"
    return (modules / "node_modules" / "rp2040js").is_dir() and copy.is_file() and copy.read_bytes() == lock


def _install_modules(source: Path, folder: Path, progress: Progress) -> None:
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


def _install_files(files: Sequence[Path], folder: Path) -> None:
    """Copy our scripts to where Node.js finds rp2040js above them."""
    half = folder.with_suffix(".half")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    for path in files:
        if path.suffix == ".json":  # as a module: a browser imports it, too
            text = path.read_text(encoding="utf-8")
            (half / f"{path.name}.mjs").write_text(f"export default {text};\n", encoding="utf-8")
        else:
            shutil.copyfile(path, half / path.name)
    half.replace(folder)
