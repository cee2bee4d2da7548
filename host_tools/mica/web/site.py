"""The page as a folder of files that any server can give: host_tools/web/page, the engine, models,
and what is known of them (site.json).

index.html  *.mjs  page.css  site.json
pico/       the virtual Pico: worker.mjs and its scripts, rp2040js, bootrom.bin, flash.gz, places.json, embedding.mica
native/     the package of `mica natmod --package`
examples/   of firmware/
engine/     mica.mjs  mica.wasm  mica-plain.wasm
models/     digits.mica  command.mica  own/...  and beside each a .json of what it costs on boards
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import mica
from mica.boards import BoardSpec, all_boards, load_board
from mica.cost.table import Table
from mica.errors import MicaError
from mica.file import codec
from mica.flash import firmware_image
from mica.images import romfs, uf2
from mica.link import emulator, on_board, virtual_pico
from mica.report.facts import facts
from mica.resources import data_dir
from mica.toolchain import mip_package, natmod, notices, wasm
from mica.toolchain.build import build
from mica.toolchain.cache import Progress, cache_dir, locked, quiet
from mica.web import rp2040js

_DEMO = Path(mica.__file__).parent / "demo"
LATER = ("pico", "examples")  # what a first visit does not load
FOR_BOARDS = "native"
ARCHS = tuple(name for name in natmod.USUAL if name != "x64")  # of native modules: those of boards at a cable
_WRITTEN = (0, 22, 3, 23, 1, 42, 2, 18, 17, 6, 282)  # pictures of the test set; the last is read wrong


def make(
    out: Path,
    models: Path | None = None,
    pico: bool = True,
    native: Sequence[str] = ARCHS,
    progress: Progress = quiet,
) -> list[str]:
    """Write the page into `out`, a new folder, with the .mica files of `models`, the virtual Pico,
    and the native modules of these architectures.

    Returns what is left out, and why. Raises MicaError.
    """
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
        except MicaError as error:
            wrong.append(f"{path}: {error}")
        except OSError as error:
            raise MicaError(f"{path}: cannot be read: {error.strerror}") from None
    if pico:
        try:
            _pico(out / "pico", [out / "models" / "digits.mica", out / "models" / "command.mica"], progress)
            embedding = mica.pack(_DEMO / "digits.onnx", _DEMO / "digits_calib.npz", embedding="", plain=True)
            embedding.save(out / "pico" / "embedding.mica")
        except MicaError as error:
            wrong.append(f"the virtual Pico: {error}")
    archs = _native(out / FOR_BOARDS, native, wrong, progress)
    examples = data_dir("firmware") / "examples"
    shutil.copytree(examples, out / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    files = [path.relative_to(out).as_posix() for path in sorted(out.rglob("*")) if path.is_file()]
    of_visit = [name for name in files if name.partition("/")[0] not in (*LATER, FOR_BOARDS) and "/own/" not in name]
    table = Table.read()
    site = {
        "version": mica.__version__,
        "pico": (out / "pico" / "flash.gz").is_file(),
        "models": listed,
        "digits": _written(),
        "examples": sorted(path.name for path in examples.glob("*.py")),
        "programs": _programs(),
        "native": archs,
        "firmware": {board.name: _firmware(board) for board in _flashed()},
        "boards": [_facts(board, table) for board in _flashed()],
        # for offline.js
        "files": ["./", "site.json", *of_visit],
        "later": [name for name in files if name.partition("/")[0] in LATER],
    }
    (out / "site.json").write_text(json.dumps(site), encoding="utf-8")
    return wrong


def _flashed() -> list[BoardSpec]:
    """Boards that are flashed, Raspberry Pi's first."""
    boards = [board for board in all_boards() if board.flasher != "none"]
    return sorted(boards, key=lambda board: not board.name.startswith("RPI_"))


def _programs() -> dict[str, str]:
    """Python that boards execute for the page."""
    names = ("probe", "get", "record_adc", "record_i2s", "record_motion")
    install = (data_dir("firmware") / "mica" / "install.py").read_text(encoding="utf-8")
    return {**{name: on_board.source(name) for name in names}, "install": install}


def _native(folder: Path, archs: Sequence[str], wrong: list[str], progress: Progress) -> list[str]:
    """The native modules that can be made here, as a package; their architectures. Adds what is left out to `wrong`."""
    made = []
    for arch in archs:
        try:
            natmod.build(arch, progress=progress)
            made.append(arch)
        except MicaError as error:
            wrong.append(f"the native module for {arch}: {error}")
    if made:
        mip_package.write(folder, made, progress=progress)
    return made


def _firmware(board: BoardSpec) -> dict[str, Any]:
    """The firmware's file in a release, and where esptool writes it."""
    suffix = ".uf2" if board.flasher == "uf2" else ".bin"
    return {
        "file": f"mica-{mica.__version__}-{board.name}{suffix}",
        "offset": hex(board.esptool.offset) if board.esptool else None,
    }


def _facts(board: BoardSpec, table: Table) -> dict[str, Any]:
    """The facts by which page/fit.mjs says if a model fits: bytes, None where nothing is known.

    romFile, pushFile: the largest model for the ROMFS window, and for a half of it.
    """
    window = board.romfs.size if board.romfs else 0
    half = romfs.half_size(window) - romfs.BLOCK if window else 0
    kept, heap = table.board(board), table.heap(board)[0]
    return {
        "board": board.name,
        "ram": board.ram,
        "arena": board.arena,
        "storage": board.storage,
        "window": window,
        "romFile": _largest(window, b""),
        "pushFile": _largest(half, romfs.TAG),
        "heap": heap,
        "heapFixed": kept["heap_fixed"],
        "heapStep": kept["heap_step"],
    }


def _largest(room: int, tag: bytes) -> int:
    """Bytes of the largest model whose ROMFS image has no more than `room`."""
    size = max(0, room)
    while size and len(romfs.build({"model.mica": bytes(size)}, tag=tag)) > room:
        size -= 1
    return size


def _pico(folder: Path, models: list[Path], progress: Progress) -> None:
    """The image of a Pico with models in its ROM, and what runs it. Raises MicaError."""
    board = load_board("RPI_PICO")
    built = build(board, progress=progress)
    image = firmware_image.read(board, built.image)
    content = firmware_image.with_models(image, firmware_image.read_models(models)).as_file()
    flash = bytearray()
    spans: list[list[int]] = []  # of the file: offset, bytes
    for block in uf2.parse(content, "the image"):
        at = block.address - virtual_pico.FLASH_BASE
        if spans and sum(spans[-1]) == at:
            spans[-1][1] += len(block.data)
        else:
            spans.append([at, len(block.data)])
        flash.extend(b"\xff" * max(0, at + len(block.data) - len(flash)))
        flash[at : at + len(block.data)] = block.data
    # The models travel once: the page puts them where they belong.
    places = {}
    for path in models:
        data = path.read_bytes()
        places[path.name] = flash.index(data)
        flash[places[path.name] : places[path.name] + len(data)] = b"\xff" * len(data)
    said = {"models": places, "base": virtual_pico.FLASH_BASE, "family": image.family, "spans": spans}
    (folder / "places.json").write_text(json.dumps(said), encoding="utf-8")
    (folder / "flash.gz").write_bytes(gzip.compress(bytes(flash), 9, mtime=0))
    notices.write(board, built, folder / "flash.gz")
    shutil.copyfile(emulator.boot_rom(progress), folder / "bootrom.bin")
    write_emulator(folder, progress)


def write_emulator(folder: Path, progress: Progress = quiet) -> None:
    """Put into the folder of the page's scripts for its Pico what they import. Raises MicaError."""
    table = (data_dir("boards") / "common" / "flash.json").read_text(encoding="utf-8")
    (folder / "flash.json.mjs").write_text(f"export default {table};\n", encoding="utf-8")
    library = rp2040js.install(progress)
    shutil.copytree(library / "dist" / "esm", folder / "rp2040js", ignore=shutil.ignore_patterns("*.d.ts", "gdb"))
    shutil.copyfile(library / "LICENSE", folder / "rp2040js" / "LICENSE")
    index = folder / "rp2040js" / "index.js"
    text = index.read_text(encoding="utf-8")
    index.write_text(re.sub(r"export \{[^}]*\} from '\./gdb/.*\n", "", text), encoding="utf-8")


def costs(data: bytes) -> list[dict[str, Any]]:
    """Costs of a file on each board that is flashed. Raises MicaError."""
    boards = [board.name for board in _flashed()]
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
            packed.save(path)
    return path.read_bytes()


def _add(out: Path, name: str, data: bytes) -> dict[str, Any]:
    """A model's file and costs; its entry in site.json."""
    known = costs(data)
    path = out / "models" / name
    path.write_bytes(data)
    path.with_suffix(".json").write_text(json.dumps(known), encoding="utf-8")
    model = codec.decode(data)
    said, dims = model.metadata, model.tensors[model.inputs[0]].dims
    rate = said.get("sample_rate", "")
    return {
        "file": name,
        "name": said.get("name") or path.stem,
        "facts": Path(name).with_suffix(".json").as_posix(),
        "rate": int(rate) if rate.isdecimal() else 0,
        "columns": dims[-1] if len(dims) == 3 else 1,  # of motion, one an axis
    }


def _written() -> list[dict[str, Any]]:
    """Some pictures of the test set, 64 shades from 0 to 16 each."""
    data = np.load(_DEMO / "digits_test.npz")
    return [{"digit": int(data["y"][i]), "pixels": data["x"][i].ravel().tolist()} for i in _WRITTEN]
