"""scripts/mutants: the mistakes have their places, and the command tells a mistake that tests see from one that they
don't."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path, PurePath

import mutants
import placing
import pytest
from named import NAMED, SETS, Named

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("m", NAMED, ids=lambda m: m.name)
def test_named_has_its_place(m: Named) -> None:
    """The code changes: then the mistake has to be written again, or taken from the list."""
    assert (ROOT / m.file).read_text(encoding="utf-8").count(m.before) == 1 and m.before != m.after
    assert all((ROOT / word).exists() for word in SETS[m.tests] if word.startswith("tests/"))


def test_sets_are_whole_on_each_run() -> None:
    """Nothing of the files that see mistakes waits for `scripts/test --all` (tests/targets.py)."""
    files = {ROOT / word for words in SETS.values() for word in words if word.startswith("tests/")}
    assert [
        path.name for path in files if re.search(r"\bALL\b|\bnightly\b|\bsampled\(", path.read_text(encoding="utf-8"))
    ] == []


def test_equivalents_have_their_place() -> None:
    for e in json.loads((ROOT / "tests" / "mutants" / "equivalent.json").read_text(encoding="utf-8")):
        lines = [line.strip() for line in (ROOT / e["file"]).read_text(encoding="utf-8").splitlines()]
        assert e["before"] in lines and e["after"] != e["before"] and len(e["reason"]) > 40, e


def test_places() -> None:
    """One seed, the same places; each area and kind has its share; another seed, others."""
    first, again, other = placing.places(ROOT, 1, 8), placing.places(ROOT, 1, 8), placing.places(ROOT, 2, 8)
    assert first == again and first != other
    assert {p.kind for p in first[:12]} == {"comparison", "constant", "statement"}
    areas = list(placing.AREAS.values())
    assert all(any(PurePath(first[i].file).match(glob) for glob, _ in areas[i % 4]) for i in range(8))
    assert all(p.tests == placing.OTHERS[p.file] for p in placing.places(ROOT, 3, 40) if p.file in placing.OTHERS)


def test_code_only() -> None:
    """No comments, no texts, no preprocessor, no arrows and shifts."""
    text = '#if A < 1\nint f(int n) {\n    // n < 3\n    s->x = a << 2;\n    puts("a < b");\n    return n < 4;\n}\n'
    found = placing.c_places("f.c", text, "load")
    assert [(p.kind, text[p.begin : p.end]) for p in found] == [
        ("constant", "2"),
        ("statement", "s->x = a << 2;"),
        ("statement", 'puts("a < b");'),
        ("comparison", "<"),
        ("constant", "4"),
    ]
    python = 'def f(n):\n    """1 < 2"""\n    a = n  # 3\n    g(a)\n    return a >= 7\n'
    found = placing.python_places("f.py", python, "push")
    assert sorted((p.kind, p.apply(python).splitlines()[python[: p.begin].count("\n")].strip()) for p in found) == [
        ("comparison", "return a > 7"),
        ("constant", "return a >= 8"),
        ("statement", "pass"),
        ("statement", "pass  # 3"),
    ]


FILE = "host_tools/sum.py"


class FakeCopy:
    """A copy whose tests are one comparison: those of a sum."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, name: str, data: bytes) -> None:
        (self.root / name).write_bytes(data)

    def run(self, tests: str, build_engine: bool, seconds: float) -> tuple[str, str]:
        said = (self.root / FILE).read_text()
        return ("passed", "1 passed") if "a + b" in said else ("failed", "FAILED test_sum")


def test_copies_are_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A soak and a person may both have mutants: neither writes into a copy that the other tests."""
    monkeypatch.setattr(mutants, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(mutants, "ROOT", tmp_path / "tree")
    (tmp_path / "tree" / "tests").mkdir(parents=True)
    (tmp_path / "tree" / "tests" / "a.py").write_text("a = 1\n")
    subprocess.run(["git", "init", "-q", tmp_path / "tree"], check=True)
    stale = tmp_path / "mutants" / "0" / "tests" / "gone.py"
    stale.parent.mkdir(parents=True)
    stale.write_text("gone\n")
    first, second = mutants.Copy(), mutants.Copy()
    assert first.root != second.root and not stale.exists()
    assert (first.root / "tests" / "a.py").read_text() == (second.root / "tests" / "a.py").read_text() == "a = 1\n"


def test_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed, survived, decided before; the copy is as it was after each; tests that fail anyway decide nothing."""
    monkeypatch.setattr(mutants, "cache_dir", lambda: tmp_path)
    (tmp_path / "mutants").mkdir()
    (tmp_path / FILE).parent.mkdir()
    sound = "def f(a, b):\n    return a + b\n"
    (tmp_path / FILE).write_text(sound)
    copy, results, later = FakeCopy(tmp_path), mutants.Results(), float("inf")
    seen = mutants.mutant("minus", FILE, sound, sound.replace("+", "-"), "wire")
    unseen = mutants.mutant("comment", FILE, sound, sound.replace("a + b", "a + b + 0"), "wire")
    assert (seen.line, seen.before, seen.after) == (2, "return a + b", "return a - b")
    assert mutants.decide(seen, copy, results, later) == ("killed", "FAILED test_sum")
    assert (tmp_path / FILE).read_text() == sound
    assert mutants.decide(unseen, copy, results, later)[0] == "survived"
    again = mutants.Results()
    assert mutants.decide(seen, copy, again, 0)[0] == "killed", "known"
    other = mutants.mutant("times", FILE, sound, sound.replace("+", "*"), "wire")
    assert mutants.decide(other, copy, again, 0)[0] == "not run"
    (tmp_path / FILE).write_text(sound.replace("+", "-"))
    with pytest.raises(RuntimeError, match="fail without a mistake"):
        mutants.decide(other, copy, mutants.Results(), later)


class SlowCopy(FakeCopy):
    """Its tests go on until they are stopped."""

    clock = 1000.0

    def run(self, tests: str, build_engine: bool, seconds: float) -> tuple[str, str]:
        SlowCopy.clock += seconds
        return "timeout", f"more than {seconds:.0f} s"


def test_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A soak ends when its time is over, before its set of tests does; a stopped mutant has no verdict."""
    monkeypatch.setattr(mutants, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(mutants.time, "monotonic", lambda: SlowCopy.clock)
    (tmp_path / "host_tools").mkdir()
    sound = "def f(a, b):\n    return a + b\n"
    (tmp_path / FILE).write_text(sound)
    m = mutants.mutant("minus", FILE, sound, sound.replace("+", "-"), "wire")
    results = mutants.Results()
    end = SlowCopy.clock + 60
    assert mutants.decide(m, SlowCopy(tmp_path), results, end) == ("not run", "no time left")
    assert SlowCopy.clock == end and not results.known
    assert mutants.decide(m, FakeCopy(tmp_path), results, end + 60)[0] == "killed"
    results.known = {key: r for key, r in results.known.items() if r["verdict"] == "sound"}
    assert mutants.decide(m, SlowCopy(tmp_path), results, SlowCopy.clock + 60) == ("not run", "no time left")
    assert mutants.decide(m, SlowCopy(tmp_path), results, float("inf"))[0] == "timeout", "a hang"
    assert (tmp_path / FILE).read_text() == sound


def test_stopped_tests_end_what_they_started(tmp_path: Path) -> None:
    """Tests get a signal before they are killed, so a build that they started ends with them."""
    copy = FakeCopy(tmp_path)
    program = "import time\ntry:\n    time.sleep(60)\nfinally:\n    open('ended', 'w').close()"
    command = [sys.executable, "-I", "-S", "-c", program]
    code, _ = mutants.Copy._call(copy, command, dict(os.environ), 4)  # type: ignore[arg-type]
    assert code is None and (tmp_path / "ended").exists()
