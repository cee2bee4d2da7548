"""CBMC on functions of the loader, through loader.c. Debian 13 has it: where it is not installed, its packages come
from the mirror that this machine uses, into the cache, and run with their own C library."""

from __future__ import annotations

import hashlib
import lzma
import platform
import re
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable
from pathlib import Path

from words import Tree

from mica.toolchain.sources import cache_dir, debian_mirror

SUITE = "trixie"
PACKAGES = ("cbmc", "libc6", "libgcc-s1", "libstdc++6", "minisat")
CHECKS = (
    "--bounds-check", "--pointer-check", "--signed-overflow-check", "--undefined-shift-check", "--div-by-zero-check",
    "--no-standard-checks", "--unwinding-assertions",
)  # fmt: skip
SECONDS = 300


class NoCbmc(Exception):
    """There is none here, and none can be fetched."""


def _get(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=120) as answer:
        return bytes(answer.read())


def _fetch(folder: Path) -> None:
    mirror = debian_mirror()
    if mirror is None or platform.machine() != "x86_64":
        raise NoCbmc("CBMC is not installed, and this is no Debian with x86-64 that could fetch it")
    index = lzma.decompress(_get(f"{mirror}/dists/{SUITE}/main/binary-amd64/Packages.xz")).decode()
    with tempfile.TemporaryDirectory() as name:
        for package in PACKAGES:
            found = re.search(rf"^Package: {re.escape(package)}\n(.*?)(\n\n|\Z)", index, flags=re.S | re.M)
            assert found, package
            fields = dict(re.findall(r"^(Filename|SHA256): (.*)$", found[1], flags=re.M))
            deb = Path(name) / f"{package}.deb"
            deb.write_bytes(_get(f"{mirror}/{fields['Filename']}"))
            if hashlib.sha256(deb.read_bytes()).hexdigest() != fields["SHA256"]:
                raise NoCbmc(f"{package} is not what the mirror's index says")
            subprocess.run(["dpkg-deb", "-x", str(deb), name + "/root"], check=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(name + "/root", folder)


def command() -> list[str]:
    """Return the command that starts CBMC; fetch it once."""
    if shutil.which("cbmc"):
        return ["cbmc"]
    folder = cache_dir() / "cbmc"
    if not folder.exists():
        _fetch(folder)
    libraries = f"{folder}/usr/lib/x86_64-linux-gnu:{folder}/usr/lib"
    return [f"{folder}/usr/lib64/ld-linux-x86-64.so.2", "--library-path", libraries, f"{folder}/usr/bin/cbmc"]


def proof(name: str) -> Callable[[Tree], str | None]:
    """A function of loader.c as a theorem's proof."""

    def prove(tree: Tree) -> str | None:
        with tree.folder() as root:
            c = root / "usermod_c"
            include = [f"-I{c / part}" for part in ("include", "kernels", "runtime")]
            source = str(Path(__file__).parent / "loader.c")
            call = [*command(), *include, *CHECKS, "--function", f"prove_{name}", "--unwind", "12", source]
            try:
                result = subprocess.run(call, capture_output=True, text=True, timeout=SECONDS, check=False)
            except subprocess.TimeoutExpired:
                return f"no answer in {SECONDS} s"
        if result.returncode == 0:
            return None
        failures = [line for line in result.stdout.splitlines() if line.endswith("FAILURE")]
        return "; ".join(failures[:3]) or f"CBMC ends with {result.returncode}: {result.stderr[-300:]}"

    return prove
