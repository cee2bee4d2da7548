"""A small model before a large one: a board and this computer run the large one at the same steps,
and it recognises what it did without."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tones import tone, write_wav

from mica.cli.main import main
from mica.link.board import Link
from mica.link.targets import open_board
from mica.listen import detection, gate
from mica.run.host import HostRunner

LISTEN = """
import asyncio, mica
from mica.gate import listen
from mica.wav import Wav
SETTINGS = {"threshold": 0.8, "mean": 4, "gate_threshold": 0.5, "lead_ms": 200, "hold_ms": 300, "labels": ["high"]}
def begin():
    return listen(mica.Model("tones_rows.mica"), Wav("long.wav"), mica.Model("tones.mica"), **SETTINGS)
"""
AT_ONCE = """
words = begin()
for e in words:
    if e.label:
        print(e.label, e.ms)
print(words._runs, words._end > 16000 * 7, 0 < words.used < 1)
"""
IN_TASKS = """
async def main():
    words = begin()
    async for e in words:
        if e.label:
            print(e.label, e.ms)
    print(words._runs, words._end > 16000 * 7, 0 < words.used < 1)
asyncio.run(main())
"""


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """A recording of 8 s, of which 1 s are tones."""
    rng, parts = (
        np.random.default_rng(5),
        (("silence", 2), ("high", 0.5), ("silence", 2.5), ("low", 0.5), ("silence", 2.5)),
    )
    x = np.concatenate([tone(rng, label, int(16000 * s)) for label, s in parts])
    return write_wav(tmp_path_factory.mktemp("gate") / "long.wav", x), x


@pytest.fixture
def board(unix_board: Link, tones: Path, tones_rows: Path, long: tuple[Path, np.ndarray]) -> Iterator[Link]:
    for file in (tones, tones_rows, long[0]):
        unix_board.put(file.read_bytes(), "_data")
        unix_board.exec(f"with open('{file.name}', 'wb') as _f: _f.write(_data)\ndel _f, _data")
    unix_board.exec(LISTEN)
    yield unix_board


def test_board_and_host(board: Link, tones: Path, tones_rows: Path, long: tuple[Path, np.ndarray]) -> None:
    """At most 500 ms of sound round each answer of the small model, and 1 s of tones: a quarter of the steps."""
    chosen = detection.Settings(0.8, 4, labels=["high"])
    before = gate.Gate("tones.mica", 0.5, 200, 300)
    with HostRunner(tones_rows.read_bytes()) as large, HostRunner(tones.read_bytes()) as small:
        plain = list(detection.detect(large, long[1], chosen))
        share = gate.Share()
        found = list(gate.detect(large, small, before, long[1], chosen, share))
    assert [(e.label, e.ms) for e in found] == [(e.label, e.ms) for e in plain] and len(found) == 1
    assert 0.15 < share.share < 0.3
    expected = [*(f"{e.label} {e.ms}" for e in found), f"{share.runs} True True"]
    for way in (AT_ONCE, IN_TASKS):
        assert board.exec(way, timeout=120).decode().splitlines() == expected


def test_an_overrun_is_reported(board: Link) -> None:
    """Samples that neither model has taken in time: both begin again behind them."""
    code = """
from array import array
from mica.audio import Ring
words = begin()
ring = words._ring
next_end = words._end
ring.count += 2 * ring.size
e = next(words)
print(e.problem, words._end == ring.count == words._small._end)
"""
    line = board.exec(code).decode().strip()
    assert line.startswith("overrun: ") and line.endswith("smaller model True")


def test_command(
    tones: Path, tones_rows: Path, long: tuple[Path, np.ndarray], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["listen", str(tones_rows), str(long[0]), "--threshold", "0.8", "--mean", "4", "--words", "high"]
    assert main([*words, "--gate", f"{tones},lead=200,hold=300", "--json"]) == 0
    r = json.loads(capsys.readouterr().out)
    assert [e["label"] for e in r["events"]] == ["high"] and 0.15 < r["ran"] < 0.3
    assert main([*words, "--gate", str(tones)]) == 0
    assert "the model ran in " in capsys.readouterr().out
    for text, said in (("x=1", "'x=1'"), ("hold=a", "'hold=a'"), ("lead=-1", "no negative times")):
        assert main([*words, "--gate", f"{tones},{text}"]) == 1
        assert said in capsys.readouterr().err


def test_eval_compares_thresholds_of_the_gate(
    tones: Path, tones_rows: Path, long: tuple[Path, np.ndarray], capsys: pytest.CaptureFixture[str]
) -> None:
    """A gate that stays shut loses words without a sound: the table has what each threshold costs and spares."""
    long[0].with_suffix(".txt").write_text("2.0 2.5 high\n")
    words = ["eval", str(tones_rows), "--data", str(long[0]), "--threshold", "0.8", "--mean", "4", "--words", "high"]
    assert main([*words, "--gate", f"{tones},threshold=1,lead=200,hold=300", "--json"]) == 0
    r = json.loads(capsys.readouterr().out)
    rows = {row["gate"]: row for row in r["gates"]}
    assert set(rows) == {0.1, 0.3, 0.5, 0.7, 0.9, 1.0} and r["hits"] == 1
    assert rows[0.5]["hits"] == 1 and 0.15 < rows[0.5]["ran"] < 0.3
    assert rows[1.0]["missed"] == 1 and rows[1.0]["ran"] == 0
    assert main([*words, "--gate", f"{tones},threshold=1,lead=200,hold=300"]) == 0
    assert re.search(
        r"gate +hits +missed +false alarms +runs\n.*\n( .*\n)+ +1 +0 +1 +0 +0.00 %", capsys.readouterr().out
    )
    assert main(words) == 0 and "gate" not in capsys.readouterr().out


def test_microphone(tones: Path, tones_rows: Path) -> None:
    """`mica listen --gate` at a board's microphone."""
    from mica.listen.microphone import Microphone, listen_at

    with open_board("UNIX", rom_files={}) as board:
        data = tones.with_suffix(".wav").read_bytes()
        board.put(data, "_data")
        board.exec("with open('tones.wav', 'wb') as _f: _f.write(_data)\ndel _f, _data")
        board.exec((Path(__file__).parent / "i2s_stand_in.py").read_text())
        events: list[detection.Event] = []
        chosen, before = detection.Settings(0.8, 4, labels=["high"]), gate.Gate("tones.mica", 0.5, 200, 300)
        pins = Microphone.read("sck=16,ws=17,sd=18")
        listen_at(board, tones_rows.read_bytes(), pins, chosen, 1.7, events.append, print, (before, tones.read_bytes()))
    assert [e.label for e in events] == ["high"]
