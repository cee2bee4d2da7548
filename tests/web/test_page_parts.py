"""Modules of the page that work without one: images for a board's ROM, files of recordings and firmware,
and the rule of fit."""

from __future__ import annotations

import base64
import dataclasses
import io
import json
import os
import subprocess
import threading
import wave
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import npm_packages
import numpy as np
import pytest
from models import MODELS
from targets import sampled

from mica.boards import load_board
from mica.cost.prediction import predict
from mica.cost.table import Table
from mica.data import sounds
from mica.file import codec
from mica.images import romfs, uf2
from mica.toolchain import wasm
from mica.training import examples
from mica.web import rp2040js, site

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = ROOT / "host_tools" / "web" / "page"
GOLDEN = sorted((ROOT / "tests" / "format" / "golden").glob("*.mica"))
RNG = np.random.default_rng(0)
CLIPS = {f"{label}/000{k}.wav": RNG.normal(0, 900, 16000).astype(np.int16) for label in ("oui", "où") for k in range(3)}
SAMPLES = RNG.integers(-(2**15), 2**15, (50, 6)).astype(np.int16)
SPANS = [[0, 8192], [0x8000, 4096]]
FAMILY = uf2.RP2040


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def files() -> list[dict[str, bytes]]:
    """Files of many sizes: where a length takes a byte more, where the padding does, in folders, and empty."""
    sets: list[dict[str, bytes]] = [
        {"a.mica": RNG.bytes(n)} for n in (0, 1, 95, 96, 127, 128, 129, 16_380, 16_400, 70_001)
    ]
    for _ in range(60):
        names = [
            f"{'lib/' * int(RNG.integers(0, 3))}n{k}{'x' * int(RNG.integers(0, 60))}.mica"
            for k in range(int(RNG.integers(1, 7)))
        ]
        sets.append({name: RNG.bytes(int(RNG.integers(0, 700))) for name in names})
    return sets


@pytest.fixture(scope="module")
def models() -> list[bytes]:
    return [path.read_bytes() for path in GOLDEN] + [codec.encode(make()) for make in MODELS] + [site.digits()]


@pytest.fixture(scope="module")
def boards() -> list[dict[str, Any]]:
    """Those of the page, and one of each kind of want: no ROM, no room, no heap that was measured."""
    (pico,) = [site._facts(board, Table.read()) for board in site._flashed() if board.name == "RPI_PICO"]
    return [site._facts(board, Table.read()) for board in site._flashed()] + [
        pico | {"romFile": 0, "pushFile": 0, "window": 0},
        pico | {"romFile": 0, "pushFile": 0, "window": 0, "storage": 100},
        pico | {"heap": 3000},
        pico | {"arena": 0},
        pico | {"heap": 900, "arena": 0},
    ]


@pytest.fixture(scope="module")
def said(models: list[bytes], boards: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    cases = {
        "images": [
            {"files": {k: text(v) for k, v in one.items()}, "trial": list(one)[: 1 + len(one) // 2]}
            for one in files_asked
        ],
        "models": [text(data) for data in models],
        "boards": boards,
        "samples": text(SAMPLES.tobytes()),
        "clips": [[name, text(clip.tobytes())] for name, clip in CLIPS.items()],
        "uf2": {"base": 0x10000000, "family": FAMILY, "spans": SPANS},
    }
    path = tmp_path_factory.mktemp("parts") / "cases.json"
    path.write_text(json.dumps(cases))
    command = ["node", HERE / "run_parts.mjs", PAGE, wasm.engine(), path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


files_asked = files()


def test_images_of_a_half(said: dict[str, Any]) -> None:
    """Those of mica push, byte for byte, and the page that commits them."""
    for one, found in zip(files_asked, said["images"], strict=True):
        image = romfs.half_image(one)
        assert found["image"] == text(image), {name: len(data) for name, data in one.items()}
        assert found["places"] == {name: at for name, (at, _) in romfs.places(image).items()}
        trial = list(one)[: 1 + len(one) // 2]
        assert found["page"] == text(romfs.commit_page(7, len(image), 123456789, (4096, 0xFEDCBA98), trial))


def test_files_of_recordings_and_firmware(said: dict[str, Any]) -> None:
    with np.load(io.BytesIO(base64.b64decode(said["npz"]))) as arrays:
        assert set(arrays) == {"x", "rate"} and int(arrays["rate"]) == 100
        assert arrays["x"].dtype == np.int16 and np.array_equal(arrays["x"], SAMPLES[None])
    with wave.open(io.BytesIO(base64.b64decode(said["wav"]))) as file:
        assert file.getparams()[:4] == (1, 2, 16000, SAMPLES.size)
        assert file.readframes(SAMPLES.size) == SAMPLES.tobytes()
    flash = bytes(i * 7 & 255 for i in range(1 << 16))
    parts = [(0x10000000 + at, flash[at : at + n]) for at, n in SPANS]
    assert base64.b64decode(said["uf2"]) == uf2.build(parts, FAMILY)


def test_an_archive_of_recordings(said: dict[str, Any], tmp_path: Path) -> None:
    """The archive that the page hands out is one that mica train takes."""
    (tmp_path / "recordings.zip").write_bytes(base64.b64decode(said["zip"]))
    found = examples.read(tmp_path / "recordings.zip")
    assert found.paths == tuple(CLIPS) and found.names == ("oui", "où") and found.rate == 16000
    n = found.inputs.shape[1]  # what the front end takes of a second: its loudest part
    clips = [sounds.cut(clip, n)[0] for clip in CLIPS.values()]
    assert 15_000 < n <= 16_000 and np.array_equal(np.rint(found.inputs * 32768).astype(np.int16), clips)


def test_fit(
    said: dict[str, Any], models: list[bytes], boards: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As mica fit says, for every board and for boards with less."""
    outcomes, table = set(), Table.read()
    for data, row in list(zip(models, said["fits"], strict=True))[:: sampled(1, 5)]:
        for facts, found in zip(boards, row, strict=True):
            monkeypatch.setattr(Table, "heap", lambda *_, facts=facts: (facts["heap"], True))
            board = load_board(facts["board"])
            changes = {
                "romfs": board.romfs if facts["window"] else None,
                "storage": facts["storage"],
                "arena": facts["arena"],
            }
            board = dataclasses.replace(board, **changes)
            expected = predict(codec.decode(data), data, board, table)
            assert (not found["reasons"]) == expected.fits, (facts, found, expected.reasons)
            assert found["heap"] == expected.ram["heap_needed"], (facts, found, expected)
            outcomes.add((expected.fits, expected.flash["place"], bool(expected.ram["arena_on_heap"])))
    assert {fits for fits, *_ in outcomes} == {True, False} and len(outcomes) >= 5, outcomes


def test_the_terminals_lines_are_bounded() -> None:
    """A board's word moves the cursor anywhere: at most to the end of a line, and a longer line goes on in the next."""
    program = f"""
    const made = () => ({{ setAttribute() {{}}, append() {{}} }});
    globalThis.document = {{ createElement: made, getElementById: () => ({{ replaceChildren() {{}} }}) }};
    const {{ COLUMNS, Terminal }} = await import( {json.dumps((PAGE / "terminal.mjs").as_uri())});
    const element = {{ addEventListener() {{}} }};
    const terminal = new Terminal(element, () => {{}});
    const texts = ['\\x1b[500000000Cx', '\\x1b[9999999C\\x1b[9999999Cab\\n', 'y'.repeat(2 * COLUMNS + 5)];
    const found = texts.map((text) => {{
      terminal.write(new TextEncoder().encode(text));
      return element.textContent.split('\\n').map((line) => line.length);
    }});
    console.log(JSON.stringify({{ COLUMNS, found }}));
    """
    done = subprocess.run(
        ["node", "--max-old-space-size=64", "--input-type=module", "-e", program],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["COLUMNS"] == 1000
    assert max(max(lengths) for lengths in said["found"]) == 1000
    assert said["found"][2][-3:] == [1000, 1000, 5]


def test_a_script_that_runs_stays_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may be reading it: it is not written again, and a new one takes its place at once."""
    monkeypatch.setenv("MICA_CACHE", str(tmp_path / "cache"))
    folder, script = tmp_path / "cache" / "npm-tests", tmp_path / "one.mjs"
    folder.mkdir(parents=True)
    (folder / "package-lock.json").write_bytes((npm_packages.SOURCE / "package-lock.json").read_bytes())
    script.write_text("console.log(1);")
    assert npm_packages.run(script) == "1\n"
    with (folder / script.name).open() as running:
        assert npm_packages.run(script) == "1\n"
        assert os.fstat(running.fileno()).st_ino == (folder / script.name).stat().st_ino
        script.write_text("console.log(2);")
        assert npm_packages.run(script) == "2\n"
        assert running.read() == "console.log(1);"


def test_a_package_that_is_being_fetched_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder and its lock file are there before it is whole."""
    monkeypatch.setenv("MICA_CACHE", str(tmp_path))
    begun, go_on = threading.Event(), threading.Event()

    def fetch(source: Path, folder: Path, progress: object) -> None:
        made = folder / "node_modules" / "rp2040js"
        made.mkdir(parents=True)
        (folder / "package-lock.json").write_bytes((source / "package-lock.json").read_bytes())
        begun.set()
        assert go_on.wait(60)
        (made / "whole").write_text("")

    monkeypatch.setattr(rp2040js, "_fetch", fetch)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(rp2040js.install)
        assert begun.wait(60)
        second = pool.submit(lambda: (rp2040js.install() / "whole").exists())
        with pytest.raises(TimeoutError):
            second.result(0.3)
        go_on.set()
        assert second.result() and first.result() == tmp_path / "npm" / "node_modules" / "rp2040js"
