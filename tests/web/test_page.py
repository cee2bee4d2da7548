"""The page in headless Chromium, wide and narrow, light and dark; and `mica web`, which serves it."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
import wave
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import npm_packages
import numpy as np
import pytest
from test_web_engine import front_end

from mica.cli.main import main
from mica.engine import NativeModel
from mica.format import codec
from mica.run.golden import with_golden
from mica.run.host import HostRunner
from mica.toolchain.build import BuildResult
from mica.web import site

HERE = Path(__file__).resolve().parent
FIRST_LOAD = 250_000  # bytes of Try without the virtual Pico, as a server sends them
WITH_PICO = 800_000
NAME = "<img src=x onerror=hacked=1>"


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models and a recording."""
    folder = tmp_path_factory.mktemp("given")
    (folder / "models").mkdir()
    model = codec.decode(front_end(folder, "logmel"))
    named = replace(model, metadata={**model.metadata, "labels": "yes\nno\n<b>up</b>\ndown", "name": "four words"})
    named = with_golden(named, codec.encode(named), None, 2)
    (folder / "models" / "words.mica").write_bytes(codec.encode(named))
    (folder / "models" / "broken.mica").write_bytes(b"MICA")
    (folder / "hostile.mica").write_bytes(
        codec.encode(
            replace(
                model, metadata={**model.metadata, "name": NAME, "labels": f"{NAME}\n<script>hacked=1</script>\nc\nd"}
            )
        )
    )
    (folder / "damaged.mica").write_bytes(codec.encode(named)[:-100])
    time = np.arange(16000)
    sound = (6000 * np.sin(time * (0.05 + time / 200000))).astype(np.int16)
    with wave.open(str(folder / "sound.wav"), "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes(sound.tobytes())
    return folder


@pytest.fixture(scope="module")
def made(given: Path, firmware: Callable[[str], BuildResult]) -> Path:
    firmware("RPI_PICO")
    out = given / "site"
    wrong = site.make(out, given / "models")
    assert len(wrong) == 1 and "broken.mica" in wrong[0]
    return out


def lines(data: bytes, x: np.ndarray, top: int = 3) -> list[tuple[str, str]]:
    """Labels and scores as the page shows them, by the host's engine."""
    file = codec.decode(data)
    model = NativeModel(data)
    model.set_input(0, x.reshape(file.tensors[file.inputs[0]].dims))
    model.run()
    t = file.tensors[file.outputs[0]]
    real = (model.output(0).reshape(-1).astype(np.float32) - np.float32(t.zero_point)) * np.float32(t.scale)
    labels = file.metadata["labels"].split("\n")
    return [(labels[i], f"{real[i]:.3f}") for i in np.argsort(-real, kind="stable")[:top]]


def shown(text: str) -> list[tuple[str, str]]:
    words = [line for line in text.split("\n") if line]
    return list(zip(words[::2], words[1::2], strict=True))


def check(layout: dict[str, Any]) -> None:
    assert layout["overflow"] <= 0 and layout["unnamed"] == [], layout
    light = layout["colorScheme"] == "light"
    assert (layout["back"] > 0.8 and layout["ink"] < 0.3) if light else (layout["back"] < 0.2 and layout["ink"] > 0.7)


def test_every_view(made: Path, given: Path, tmp_path: Path) -> None:
    browser = shutil.which("chromium")
    assert browser, "scripts/setup installs chromium"
    views: list[dict[str, Any]] = json.loads(npm_packages.run(HERE / "page_views.mjs", browser, made, given, tmp_path))
    digits = (made / "models" / "digits.mica").read_bytes()
    with HostRunner(digits) as host:
        pictures = [
            np.array(one["pixels"], np.float32) / 16 for one in json.loads((made / "site.json").read_text())["digits"]
        ]
        answers = [lines(digits, host.quantise([x.reshape(1, 1, 8, 8)])[0]) for x in pictures]
    with wave.open(str(given / "sound.wav")) as file:
        sound = np.frombuffer(file.readframes(1664), np.int16)
    expected_lines = lines((given / "models" / "words.mica").read_bytes(), sound)
    assert len(views) == 4 and views[0]["offline"] == answers[0][0][0]
    for view in views:
        assert view["errors"] == view["requests"] == [], view
        assert view["drawn"] == view["keys"] == "1"
        assert [shown(text) for _, text in view["written"]] == answers
        assert [label for label, _ in view["written"]] == [rows[0][0] for rows in answers]
        assert shown(view["scores"]) == expected_lines
        assert view["level"].endswith(" dB") and -30 < float(view["level"].split()[0]) < 0
        assert view["call"] == "light office on"
        assert "passed here" in view["report"] and "Memory over time" in view["report"]
        assert "It fits." in view["board"] and "cycles" in view["board"]
        assert view["boxes"] == len(codec.decode(digits).steps) + 1
        assert view["hostile"] == {"ran": None, "images": 0, "scripts": 1} and view["noServer"]
        assert view["damaged"].startswith("the file is cut short") and view["stale"] == ""
        assert len(view["layouts"]) == 3 and view["focus"] == "tab-look"
        for layout in view["layouts"]:
            check({**layout, "colorScheme": view["colorScheme"]})


def test_the_virtual_pico(made: Path, given: Path, tmp_path: Path) -> None:
    """Beside the engine, at its prompt, and as a board on a cable that is cut."""
    browser = shutil.which("chromium")
    assert browser, "scripts/setup installs chromium"
    seen = json.loads(npm_packages.run(HERE / "pico_views.mjs", browser, made, given, tmp_path))
    labels = {
        "digit": "4",
        "word": "(yes|no|<b>up</b>|down)",
        "microphone": "(yes|no|<b>up</b>|down)",
        "sentence": "light office on",
    }
    for what, label in labels.items():
        line = rf"{label}: the same bytes from a virtual Pico, which takes [\d.]+ ms"
        assert re.match(line, seen[what]), seen[what]
    assert "sound: True" in seen["prompt"] and "hello 111" in seen["prompt"]
    assert len(seen["layouts"]) == 8
    for layout in seen["layouts"]:
        check(layout)
    assert seen["left"] == "prompt-files"
    assert seen["silent"].startswith("the board does not answer")
    assert "RP2040" in seen["facts"] and "mica" in seen["facts"] and "kernels armv6m" in seen["facts"]
    assert "words.mica is on the board" in seen["push"] and "self-test passed" in seen["selftest"]
    assert "the same bytes as this page for 2 inputs" in seen["compare"]
    assert "is its cable plugged in?" in seen["cut"]
    assert "the same bytes as this page for 2 inputs" in seen["after"], "the old model is gone"
    assert seen["recorded"] == {"name": "still-1.wav", "bytes": 44 + 400, "head": "RIFF", "rate": 1000}
    assert "words.mica" in seen["files"]
    assert seen["errors"] == seen["requests"] == [], seen["errors"]


def test_first_load(made: Path) -> None:
    """Try, without models of one's own: what it needs, compressed."""
    parts = [
        "index.html",
        "page.css",
        "page.mjs",
        "dom.mjs",
        "try.mjs",
        "pico.mjs",
        "serial_board.mjs",
        "site.json",
        "engine/mica.mjs",
        "engine/mica.wasm",
    ]
    parts += ["models/digits.mica", "models/command.mica"]
    sizes = {name: len(gzip.compress((made / name).read_bytes(), 6)) for name in parts}
    print(f"first load: {sum(sizes.values()):,} bytes: {sizes}")
    assert sum(sizes.values()) <= FIRST_LOAD
    more = ["terminal.mjs", "prompt.mjs", "pico/flash.gz", "pico/bootrom.bin", "pico/models.json"]
    more += [path.relative_to(made).as_posix() for path in (made / "pico").rglob("*.*js")]
    pico = sum(len(gzip.compress((made / name).read_bytes(), 6)) for name in more)
    print(
        f"with the virtual Pico: {sum(sizes.values()) + pico:,} bytes, of which {(made / 'pico' / 'flash.gz').stat().st_size:,} are its flash"
    )
    assert sum(sizes.values()) + pico <= WITH_PICO
    assert "MicroPython" in (made / "pico" / "flash.gz.NOTICES.txt").read_text()
    assert (made / "pico" / "rp2040js" / "LICENSE").is_file()


def test_mica_web(given: Path) -> None:
    """It serves the page and costs of a dropped model, to pages of its own only."""
    command = [sys.executable, "-m", "mica", "web", str(given / "models"), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout and process.stderr
    try:
        address = process.stdout.readline().split()[0]
        assert address.startswith("http://127.0.0.1:")

        def ask(path: str, data: bytes | None = None, **headers: str) -> tuple[int, bytes, Any]:
            request = urllib.request.Request(address + path, data, headers)
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return answer.status, answer.read(), answer.headers
            except urllib.error.HTTPError as error:
                return error.code, error.read(), error.headers

        code, body, headers = ask("")
        assert code == 200 and b"<h1>mica</h1>" in body
        assert "script-src 'self' 'wasm-unsafe-eval'" in headers["Content-Security-Policy"]
        packed = ask("engine/mica.wasm", **{"Accept-Encoding": "gzip"})
        assert packed[2]["Content-Encoding"] == "gzip" and gzip.decompress(packed[1])[:4] == b"\0asm"
        names = [one["file"] for one in json.loads(ask("site.json")[1])["models"]]
        assert names == ["digits.mica", "command.mica", "own/words.mica"]
        data = (given / "models" / "words.mica").read_bytes()
        code, body, _ = ask("facts", data)
        assert code == 200 and json.loads(body) == site.costs(data)
        assert ask("facts", data[:-100])[0] == 422
        for path in ("../../etc/passwd", "%2e%2e/site.json", "models", "nothing"):
            assert ask(path)[0] == 404
        assert ask("facts", data, Origin="http://elsewhere.example")[0] == 404
        assert ask("site.json", Host="elsewhere.example")[0] == 404
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
        assert "broken.mica" in process.stderr.read()
    finally:
        process.kill()
        process.wait()


def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        ([tmp_path / "none"], "no such folder"),
        (["-o", tmp_path], "is there already"),
        (["--port", "70000"], "expected 0 to 65535"),
    ):
        assert main(["web", *map(str, words)]) == 1
        assert said in capsys.readouterr().err
