"""Files of a release that come out the same each time: archives, the wheel of Python alone, the list of parts,
the page."""

import base64
import gzip
import hashlib
import html
import io
import json
import re
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mica
from mica.resources import data_dir
from mica.toolchain.micropython import RELEASES
from mica.toolchain.pins import sums

ENGINE = re.compile(r"mica/engine/_engine\..*")
LIBRARIES = ("micropython_", "mbedtls_", "pico-sdk-", "tinyusb-")  # archives of which parts are in firmware images


def tar(path: Path, files: Mapping[str, tuple[bytes, int]], seconds: int) -> None:
    """Write a .tar.gz of these files, given by their names in it as bytes and mode, all of this time."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, (data, mode) in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(data), seconds
            entry.mode = 0o755 if mode & 0o100 else 0o644
            archive.addfile(entry, io.BytesIO(data))
    path.write_bytes(gzip.compress(made.getvalue(), 9, mtime=seconds))


def tar_again(path: Path, seconds: int) -> None:
    """Write a .tar.gz again, in order and all of this time."""
    files = {}
    with tarfile.open(path) as archive:
        for entry in archive:
            content = archive.extractfile(entry)
            if content is not None:
                files[entry.name] = content.read(), entry.mode
    tar(path, files, seconds)


def tar_folder(path: Path, folder: Path, seconds: int) -> None:
    """Write a folder as a .tar.gz."""
    found = (file for file in folder.rglob("*") if file.is_file())
    files = {file.relative_to(folder).as_posix(): (file.read_bytes(), file.stat().st_mode) for file in found}
    tar(path, files, seconds)


def wheels(made: Path, binary: Path, pure: Path, when: Sequence[int]) -> None:
    """Write a wheel again, in order and all of this time: whole as `binary`, and without the engine, for every system,
    as `pure`."""
    with zipfile.ZipFile(made) as archive:
        files = {name: archive.read(name) for name in sorted(archive.namelist()) if not name.endswith("/")}
    _zip(binary, files, when)
    (facts,) = (name for name in files if name.endswith(".dist-info/WHEEL"))
    record = facts.replace("WHEEL", "RECORD")
    python = {name: data for name, data in files.items() if not ENGINE.fullmatch(name)}
    text = re.sub(r"^Tag: .*\n", "", files[facts].decode(), flags=re.M)
    text = text.replace("Root-Is-Purelib: false", "Root-Is-Purelib: true").rstrip("\n") + "\nTag: py3-none-any\n"
    python[facts] = text.encode()
    lines = [f"{name},{_record(data)}\n" for name, data in python.items() if name != record]
    python[record] = "".join([*lines, f"{record},,\n"]).encode()
    _zip(pure, python, when)


def _record(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"sha256={digest},{len(data)}"


def _zip(path: Path, files: Mapping[str, bytes], when: Sequence[int]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, (when[0], when[1], when[2], when[3], when[4], when[5]))
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, 9)


def bill(files: Sequence[Mapping[str, Any]], needs: Sequence[str], revision: str, time: str) -> str:
    """Return the parts of a release as CycloneDX: its files, what the wheel needs,
    and what its firmware was built of."""
    parts: list[dict[str, Any]] = []
    for entry in files:
        digest = [{"alg": "SHA-256", "content": entry["sha256"]}]
        parts.append({"type": "file", "name": entry["file"], "hashes": digest})
    for need in needs:
        name = re.match(r"[\w.-]+", need)
        assert name
        parts.append({"type": "library", "name": name[0], "description": need, "purl": f"pkg:pypi/{name[0].lower()}"})
    for version, release in RELEASES.items():
        purl = f"pkg:github/micropython/micropython@{release.commit}"
        parts.append({"type": "library", "name": "micropython", "version": version, "purl": purl})
    for name, digest in sums().items():
        if name.startswith(LIBRARIES):
            parts.append({"type": "file", "name": name, "hashes": [{"alg": "SHA-256", "content": digest}]})
    script = json.loads((data_dir("boards") / "common" / "rp2040" / "package.json").read_text(encoding="utf-8"))
    for name, version in script["dependencies"].items():
        parts.append({"type": "library", "name": name, "version": version, "purl": f"pkg:npm/{name}@{version}"})
    for number, part in enumerate(parts):
        part["bom-ref"] = str(number)
    own = {"type": "application", "bom-ref": "mica", "name": "mica", "version": mica.__version__}
    licence = {"licenses": [{"license": {"id": "MIT"}}], "properties": [{"name": "revision", "value": revision}]}
    whole = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1}
    whole["metadata"] = {"timestamp": time, "component": own | licence}  # type: ignore[assignment]
    whole["components"] = parts  # type: ignore[assignment]
    return json.dumps(whole, indent=1) + "\n"


PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>mica {version}</title>
<style>body{{font:16px sans-serif;max-width:60em;margin:2em auto}}td,th{{text-align:left;padding:0 1em 0 0}}
code{{overflow-wrap:anywhere}}td:last-child{{font:12px monospace}}</style>
<h1>mica {version}</h1>
<p>Revision {revision}. <code>URL</code> stands for the address of this page.</p>
<pre>{lines}</pre>
<table><tr><th>file<th>bytes<th>SHA-256
{rows}</table>{skipped}
</html>
"""


def page(release: Any, revision: str, lines: Sequence[str]) -> str:
    """Return index.html: the lines that install, and each file that a person takes, with its size and SHA-256."""
    rows = []
    for entry in release.files:
        name, size = html.escape(entry["file"]), f"{entry['bytes']:,}"
        if entry["kind"] != "index":
            rows.append(f'<tr><td><a href="{name}">{name}</a><td>{size}<td>{entry["sha256"]}\n')
    left = "".join(f"<li>{html.escape(e['what'])}: {html.escape(e['why'])}\n" for e in release.skipped)
    return PAGE.format(
        version=mica.__version__,
        revision=revision,
        lines=html.escape("\n".join(lines)),
        rows="".join(rows),
        skipped=f"\n<p>Not here:<ul>{left}</ul>" if left else "",
    )
