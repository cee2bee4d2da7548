"""`mica demo command`: the house that obeys, and the sentences that reach it. Boards: tests/host/test_text.py, examples."""

from __future__ import annotations

import io
import json

import pytest

from mica.cli.main import main
from mica.demo.house import ROOMS, House


def test_calls_change_the_house() -> None:
    h = House()
    assert h.do("light office on", 0) and h.light["office"] == 100 and h.light["hall"] == 0
    assert h.do("light all 37", 0) and set(h.light.values()) == {37}
    assert h.do("heat attic 23", 0) and h.heat["attic"] == 23
    assert h.do("blind all close", 0) and not any(h.open["blind"].values())
    assert h.do("door garage open", 0) and h.open["door"]["garage"]
    assert h.do("fan hall on", 0) and h.rows()[ROOMS.index("hall")][-1] == "fan"
    assert "19.5 degrees" in h.do("ask temperature hall", 0)
    assert h.do("timer 2m", 10.0) and h.timers(70.0) == ["a timer rings in 60 s"]
    assert h.timers(130.0) == ["a timer rings!"] and h.timers(131.0) == []


@pytest.mark.parametrize(
    "call",
    ["", "none", "light moon on", "light office", "light office up", "fan hall 7", "timer xm", "ask x hall", "a b c d"],
)
def test_other_texts_change_nothing(call: str) -> None:
    h = House()
    before = h.rows()
    assert h.do(call, 0) == "" and h.rows() == before and h.timers(0) == []


def test_what_is_typed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Its too dark in the office\nwhat?\n\nno more\n"))
    assert main(["demo", "command", "--on", "host"]) == 0
    out = capsys.readouterr().out
    assert "light office on" in out and "***** 100" in out and "no piece for '?'" in out


def test_what_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--say", "open the blinds in the living room please", "--say", "tell me a joke", "--json"]
    assert main(["demo", "command", "--on", "host", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [c["call"] for c in found["calls"]] == ["blind living open", "none"] and found["target"] == "host"
    assert main(["demo", "--say", "x"]) == 1
    assert "--say goes with `mica demo command`" in capsys.readouterr().err
