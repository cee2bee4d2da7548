"""Packages of npm that tests run, of the versions and checksums that tests/npm/package-lock.json names."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from mica.toolchain.cache import cache_dir, locked

SOURCE = Path(__file__).resolve().parent / "npm"


def run(script: Path, *args: object) -> str:
    """Install missing packages, run a program with Node.js beside them, and return its output. Fails if it fails."""
    folder = cache_dir() / "npm-tests"
    with locked("npm-tests"):
        lock = folder / "package-lock.json"
        if not lock.is_file() or lock.read_bytes() != (SOURCE / lock.name).read_bytes():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            shutil.copy(SOURCE / "package.json", folder)
            shutil.copy(SOURCE / lock.name, folder / "lock")
            (folder / "lock").rename(lock)
            npm = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
            done = subprocess.run(npm, cwd=folder, capture_output=True, text=True, check=False, timeout=600)
            if done.returncode:
                lock.unlink()
            assert done.returncode == 0, done.stderr
        for path in [*script.parent.glob("*.mjs"), *script.parent.glob("*.js")]:
            there = folder / path.name
            if not there.is_file() or there.read_bytes() != path.read_bytes():
                shutil.copy(path, half := folder / f"{path.name}.half")
                half.rename(there)  # whole: another process may be running it
    command = ["node", script.name, *map(str, args)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


if __name__ == "__main__":
    print(run(Path(sys.argv[1]), *sys.argv[2:]), end="")
