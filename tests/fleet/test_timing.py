"""The counts of `mica fleet bench`. No test asserts how fast this computer is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mica.cli.main import main


def test_a_fleet_is_measured(digits_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["fleet", "bench", "fleet:host*2", str(digits_file), "--seconds", "0.2"]
    assert main([*words, "--json"]) == 0
    r = json.loads(capsys.readouterr().out)
    assert r["wrong"] == 0 and r["samples"] >= 64 and sum(r["boards"].values()) == r["samples"]
    assert 0 < r["p50_ms"] <= r["p99_ms"] <= r["longest_ms"] < 1000 * r["seconds"] and r["rate"] > 0
    # of a model in parts each part is a request; any of them names the others
    assert main(["fleet", "cut", str(digits_file), "--parts", "2", "-o", str(tmp_path / "d")]) == 0
    capsys.readouterr()
    words[3] = str(tmp_path / "d.2of2.mica")
    assert main([*words, "--json"]) == 0
    r = json.loads(capsys.readouterr().out)
    assert r["wrong"] == 0 and sum(r["boards"].values()) == 2 * r["samples"]
    assert {s["part"] for s in r["stages"]} == {1, 2}
    assert main(words) == 0
    assert "samples a second" in capsys.readouterr().out
    assert main([*words[:-1], "0"]) == 1
    assert "--seconds 0" in capsys.readouterr().err
