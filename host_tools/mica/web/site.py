"""The page as a folder of files that any server can give: host_tools/web/page, the engine, models, and what is known of them (site.json).

index.html  *.mjs  page.css  site.json
engine/     mica.mjs  mica.wasm  mica-plain.wasm
models/     digits.mica  command.mica  own/...  and beside each a .json of what it costs on boards
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import mica
from mica.boards import all_boards
from mica.errors import MicaError
from mica.format import codec
from mica.report.facts import facts
from mica.resources import data_dir
from mica.toolchain import wasm
from mica.toolchain.cache import Progress, cache_dir, locked, quiet

_DEMO = Path(mica.__file__).parent / "demo"
_WRITTEN = (0, 22, 3, 23, 1, 42, 2, 18, 17, 6, 282)  # pictures of the test set; the last is read wrong


def make(out: Path, models: Path | None = None, progress: Progress = quiet) -> list[str]:
    """Write the page into `out`, a new folder, with the .mica files of `models`. Returns what is wrong with those left out. Raises MicaError."""
    engine = wasm.engine(progress)
    shutil.copytree(data_dir("host_tools/web") / "page", out)
    shutil.copytree(engine, out / "engine", ignore=shutil.ignore_patterns("*.json", "*.md"))
    (out / "models" / "own").mkdir(parents=True)
    listed = [
        _add(out, "digits.mica", digits(progress)),
        _add(out, "command.mica", (_DEMO / "command.mica").read_bytes()),
    ]
    wrong = []
    for path in sorted(models.glob("*.mica")) if models else []:
        try:
            listed.append(_add(out, f"own/{path.name}", path.read_bytes()))
        except codec.FormatError as error:
            wrong.append(str(error.at(str(path))))
        except OSError as error:
            raise MicaError(f"{path}: cannot be read: {error.strerror}") from None
    files = [path.relative_to(out).as_posix() for path in sorted(out.rglob("*")) if path.is_file()]
    kept = ["site.json", *(name for name in files if not name.startswith("models/own/"))]  # for offline.js
    site = {"version": mica.__version__, "models": listed, "digits": _written(), "files": kept}
    (out / "site.json").write_text(json.dumps(site), encoding="utf-8")
    return wrong


def costs(data: bytes) -> list[dict[str, Any]]:
    """What a file costs on each board that is flashed. Raises FormatError."""
    boards = [board.name for board in all_boards() if board.flasher != "none"]
    found: list[dict[str, Any]] = facts(codec.decode(data), data, boards)["boards"]
    return found


def digits(progress: Progress = quiet) -> bytes:
    """The digits of `mica demo`, packed; kept in the cache."""
    sources = [_DEMO / name for name in ("digits.onnx", "digits_calib.npz", "labels.txt")]
    digest = hashlib.sha256(mica.__version__.encode() + b"".join(path.read_bytes() for path in sources)).hexdigest()
    path = cache_dir() / "build" / f"web-digits-{digest[:12]}.mica"
    if not path.is_file():
        with locked("web-digits", progress):
            progress("packing the digits")
            labels = sources[2].read_text(encoding="utf-8").split("\n")
            packed = mica.pack(
                sources[0], sources[1], golden=2, name="digits", labels=[line for line in labels if line]
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
                file.write(packed.data)
            Path(file.name).replace(path)
    return path.read_bytes()


def _add(out: Path, name: str, data: bytes) -> dict[str, Any]:
    """A model's file and costs; its entry in site.json."""
    known = costs(data)
    path = out / "models" / name
    path.write_bytes(data)
    path.with_suffix(".json").write_text(json.dumps(known), encoding="utf-8")
    said = codec.decode(data).metadata
    rate = said.get("sample_rate", "")
    return {
        "file": name,
        "name": said.get("name") or path.stem,
        "facts": Path(name).with_suffix(".json").as_posix(),
        "rate": int(rate) if rate.isdecimal() else 0,
    }


def _written() -> list[dict[str, Any]]:
    """Some pictures of the test set, 64 shades from 0 to 16 each."""
    data = np.load(_DEMO / "digits_test.npz")
    return [{"digit": int(data["y"][i]), "pixels": data["x"][i].ravel().tolist()} for i in _WRITTEN]
