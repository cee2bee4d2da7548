"""scripts/soak: its parts' figures as JSON, and as text."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import soak
import soak_parts
from soak_parts import Found, Settings

SETTINGS = Settings(seconds=1, seed=1, jobs=1, boards=())


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One part finds a problem, one raises: both are reported with the figures of all, and the exit code is 1."""

    def broken(settings: Settings, found: Found) -> None:
        found.add("rounds", {"before it broke": 3})
        raise ValueError("of no use")

    def tried(settings: Settings, found: Found) -> None:
        if settings.seed == 2:
            found.problems.append("it broke")
        found.add("things", {"inputs": 1000, "edges": 7})
        found.add("things", {"inputs": 500, "edges": 5})

    monkeypatch.setattr(soak, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(soak, "PARTS", {"boards": tried, "broken": broken})
    monkeypatch.setattr(sys, "argv", ["soak", "--minutes", "0.01", "--seed", "2", "--json"])
    assert soak.main() == 1
    out, err = capsys.readouterr()
    summary = json.loads(out)
    assert summary["parts"] == {"things": {"inputs": 1500, "edges": 7}, "rounds": {"before it broke": 3}}
    assert summary["problems"] == 2
    assert "it broke" in err and "ValueError: of no use" in err
    assert json.loads((tmp_path / "soak.json").read_text()) == summary
    monkeypatch.setattr(soak, "PARTS", {"boards": tried})
    monkeypatch.setattr(sys, "argv", ["soak", "--minutes", "0.01", "--seed", "1"])
    assert soak.main() == 0 and "things: inputs 1,500, edges 7" in capsys.readouterr().out


def test_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """--note keeps the figures; a file that is no summary is refused."""
    monkeypatch.setattr(soak, "NOTED", tmp_path / "noted.json")
    (tmp_path / "bad.json").write_text("[1]")
    assert soak.note(tmp_path / "bad.json") == 1 and "cannot note" in capsys.readouterr().err
    assert not soak.NOTED.exists()
    parts = {"files": {"inputs": 1234567}}
    summary = {"revision": "abc", "date": "2026-01-02", "seed": 3, "minutes": 120.5, "problems": 0, "parts": parts}
    (tmp_path / "good.json").write_text(json.dumps(summary))
    assert soak.note(tmp_path / "good.json") == 0
    assert "files: inputs 1,234,567" in capsys.readouterr().out
    assert json.loads(soak.NOTED.read_text()) == summary


def test_boards_that_break(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(name: str, seed: int) -> dict[str, int]:
        raise AssertionError(f"{name} went away")

    monkeypatch.setattr(soak_parts.troubling, "one_round", crash)
    found = Found()
    soak_parts.boards(Settings(5, 1, 1, ("UNIX",)), found)
    assert found.problems == ["UNIX went away"] and found.figures == {"UNIX": {"crashes": 1}}


def test_both_chips_are_troubled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions on a Pico and a Pico 2; where one goes wrong, the other goes on."""
    clock = itertools.count()

    @contextmanager
    def board(target: str) -> Iterator[str]:
        yield target

    def session(target: str, seed: int, runs: int) -> dict[str, int]:
        if target == "RPI_PICO@emu":
            raise AssertionError(f"{target} went away")
        return {"runs on two cores": runs}

    monkeypatch.setattr(soak_parts.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(soak_parts.troubling, "board_with_digits", board)
    monkeypatch.setattr(soak_parts.troubling, "cores", session)
    found = Found()
    soak_parts.cores(Settings(20, 1, 1, ()), found)
    first, second = (found.figures[title] for title in soak_parts.TWO_CORES.values())
    assert first == {"crashes": 1} and found.problems == ["RPI_PICO@emu went away"]
    assert second["crashes"] == 0 and second["runs on two cores"] == 100 * second["sessions"] > 100


def test_memory_is_tried_however_long_its_firmware_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    @contextmanager
    def board() -> Iterator[None]:
        clock[0] += 1000
        yield

    def inject(there: None, name: str, most: int, seed: int) -> dict[str, int]:
        clock[0] += 3
        return {"interrupts": 2}

    monkeypatch.setattr(soak_parts.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(soak_parts.injecting, "board", board)
    monkeypatch.setattr(soak_parts.injecting, "scenarios", lambda there: ["first", "second"])
    monkeypatch.setattr(soak_parts.injecting, "inject", inject)
    found = Found()
    soak_parts.memory(Settings(5, 1, 1, ()), found)
    assert (
        found.figures == {"memory and Ctrl-C": {"scenarios": 2, "interrupts": 4, "crashes": 0}} and not found.problems
    )
