"""`mica train` from a table or folder to a file: figures, contracts, the same bytes for a seed, and a run that goes
on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import onnxruntime
import pytest
from targets import nightly, sampled

import mica
from mica.boards import load_board
from mica.cli.main import main
from mica.cost.prediction import predict
from mica.cost.table import Table
from mica.errors import MicaError, Unsupported
from mica.file.codec import decode
from mica.training import families, run, search
from mica.training.families import Plan
from mica.training.optimise import Training

MICA = os.path.dirname(mica.__file__)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few candidates of few steps: what is tested here does not hang on how well they learn."""

    def few(kind: str, shape: tuple[int, ...]) -> list[Plan]:
        found = [p for p in families.plans(kind, shape)[::3] if p.family != "forest"]
        return [replace(p, steps=min(p.steps, 80)) for p in found]

    monkeypatch.setattr(run, "plans", few)
    monkeypatch.setattr(search, "RUNG", 40)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three kinds of rows, each around a place of its own; the columns have very different units."""
    rng = np.random.default_rng(0)
    lines = ["weight,length,heat,label"]
    for k in range(120):
        x = np.array([3000, 0.02, 20.0]) * (1 + 0.12 * rng.standard_normal(3) + 0.5 * np.eye(3)[k % 3])
        lines.append(",".join(f"{v:.6g}" for v in x) + f",{'abc'[k % 3]}")
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_forest_where_it_is_better(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The label says if two columns have one sign: dense networks of 40 steps do not learn it."""
    monkeypatch.setattr(run, "plans", families.plans)
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (240, 2))
    rows = [f"{a:.4f},{b:.4f},{'same' if a * b > 0 else 'other'}" for a, b in x]
    table.write_text("\n".join(["a,b,label", *rows]) + "\n")
    r = mica.train(table)
    assert r.cost.plan.family == "forest" and r.accuracy > 0.85 and not r.history


def _motion(folder: Path) -> Path:
    rng = np.random.default_rng(1)
    t = np.arange(60)
    for k, label in enumerate(("slow", "fast")):
        (folder / label).mkdir(parents=True)
        for i in range(12):
            x = 8000 * np.sin(t / (6 / (1 + 2 * k)) + rng.uniform(0, 6))[:, None] * [
                1,
                0.5,
                0,
            ] + 300 * rng.standard_normal((60, 3))
            np.savez(folder / label / f"{i:04d}.npz", x=x[None].astype(np.int16), rate=100)
    return folder


def test_a_table(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = table.with_name("rows.mica")
    assert main(["train", str(table), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["file"] == str(output) and found["accuracy"] > 0.8 and found["labels"] == ["a", "b", "c"]
    assert found["held"] + found["trained"] == 120 and sum(map(sum, found["confusion"])) == found["held"]
    assert [c["chosen"] for c in found["tried"]].count(True) == 1
    assert sorted(p.name for p in table.parent.iterdir()) == ["rows.csv", "rows.mica", "rows.onnx"]
    model = mica.load(output)
    assert model.labels == ["a", "b", "c"] and found["flash"] == output.stat().st_size
    assert [o.name for o in onnxruntime.InferenceSession(table.with_name("rows.onnx")).get_outputs()] == [
        "probabilities"
    ]


def test_the_figures_are_of_the_file(tmp_path: Path) -> None:
    """Accuracy, time and sizes are those of the packed bytes, and held-out examples come from other recordings."""
    r = mica.train(_motion(tmp_path / "moves"), board="RPI_PICO2", name="moves")
    p = predict(decode(r.packed), r.packed, load_board("RPI_PICO2"), Table.read())
    assert p.time and r.cost.ms == p.time["milliseconds"] and r.cost.flash == len(r.packed)
    assert r.cost.ram == p.ram["tensors"] + p.ram["scratch_want"]
    answers = mica.load(r.packed).predict(r.held.inputs)
    assert isinstance(answers, np.ndarray) and np.array_equal(answers.argmax(1), r.answers.argmax(1))
    assert not set(r.train.groups) & set(r.held.groups) and set(r.held.labels) == {0, 1}
    assert r.accuracy == np.mean(r.answers.argmax(1) == r.held.labels) and abs(r.accuracy - r.float_accuracy) <= 0.1
    r.save(tmp_path / "moves.mica")
    assert (tmp_path / "moves.mica").read_bytes() == r.packed and (tmp_path / "moves.onnx").read_bytes() == r.onnx


def test_the_same_seed_gives_the_same_bytes(table: Path) -> None:
    a, b, c = (mica.train(table, seed=seed) for seed in (1, 1, 2))
    assert a.packed == b.packed and a.onnx == b.onnx and a.tried == b.tried
    assert c.onnx != a.onnx


@pytest.mark.parametrize("limit", ["ms", "ram", "flash"])
def test_where_nothing_fits_one_line_says_what_is_too_tight(table: Path, limit: str) -> None:
    with pytest.raises(Unsupported, match=f"no network keeps the contract.*--{limit}: takes ") as e:
        mica.train(table, **{limit: 0.001 if limit == "ms" else 10})
    assert "\n" not in str(e.value)


def test_wrong_options(table: Path) -> None:
    with pytest.raises(MicaError, match="no option 'bord'"):
        mica.train(table, bord="RPI_PICO")
    for options in ({"ms": 0}, {"minutes": -1}, {"weights": 5}, {"flash": "much"}, {"board": "NO_BOARD"}):
        with pytest.raises(MicaError):
            mica.train(table, **options)


class Pressed:
    """Press Ctrl-C in the call number `at` of a function of a folder; 0: count the calls."""

    def __init__(self, folder: str, at: int = 0) -> None:
        self.folder, self.at, self.calls = folder, at, 0

    def __enter__(self) -> Pressed:
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and self.folder in frame.f_code.co_filename:
            self.calls += 1
            if self.calls == self.at:
                sys.setprofile(None)
                os.kill(os.getpid(), signal.SIGINT)


def _same(a: Path, b: Path) -> bool:
    """Say if two models are the same but for their names."""
    first, second = (decode(path.read_bytes()) for path in (a, b))
    first.metadata["name"] = second.metadata["name"]
    return mica.file.codec.encode(first) == mica.file.codec.encode(second)


def test_ctrl_c_at_random_times(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Reading, weighing, between steps, packing, writing: one line; the old file or a whole one; nothing else but what
    a second run goes on with; and in the end the same bytes as without."""
    whole, broken, state = (table.with_name(name) for name in ("whole.mica", "new.mica", ".new.mica.training"))
    rng, kept, places = np.random.default_rng(55), 0, []
    for folder in (MICA, f"{MICA}/training"):  # most calls of all are the compiler's
        with Pressed(folder) as every:
            assert main(["train", str(table), "-o", str(whole)]) == 0
        places += [(folder, int(at)) for at in rng.integers(1, every.calls, sampled(5, 2))]
    for at in places:
        broken.write_bytes(b"old")
        capsys.readouterr()
        with Pressed(*at):
            code = main(["train", str(table), "-o", str(broken)])
        said = capsys.readouterr().err
        goes_on = state.exists()
        assert code in (0, 130) and said.count("mica: interrupted") == (code == 130), (at, said)
        assert "Traceback" not in said and "bug" not in said, said
        if code == 0:
            assert mica.load(broken).labels == ["a", "b", "c"]
            assert said.count("stopped: this is the best so far") == goes_on and (goes_on or _same(whole, broken))
            kept += goes_on
        else:
            assert broken.read_bytes() == b"old" or _same(whole, broken)
        assert {p.name for p in table.parent.iterdir() if p.name.startswith(".")} <= {state.name}, at
        assert main(["train", str(table), "-o", str(broken)]) == 0 and _same(whole, broken), at
        assert ("going on where" in capsys.readouterr().err) == goes_on and not state.exists()
    assert kept


@nightly
@pytest.mark.parametrize("share", [0.3, 0.5, 0.7, 0.9])
def test_ctrl_c_by_the_clock(table: Path, share: float) -> None:
    """The same to a process of its own, after a share of the time that it takes."""
    line = [sys.executable, "-m", "mica", "train", str(table), "-o"]
    begun = time.monotonic()
    subprocess.run([*line, str(table.with_name("whole.mica"))], check=True, capture_output=True)
    process = subprocess.Popen([*line, str(table.with_name("new.mica"))], stderr=subprocess.PIPE, text=True)
    try:
        process.communicate(timeout=share * (time.monotonic() - begun))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=600)
    assert process.returncode in (0, 130) and "Traceback" not in said, said
    assert process.returncode == 130 or mica.load(table.with_name("new.mica")).labels == ["a", "b", "c"]
    subprocess.run([*line, str(table.with_name("new.mica"))], check=True, capture_output=True)
    assert _same(table.with_name("whole.mica"), table.with_name("new.mica"))
    assert not [p for p in table.parent.iterdir() if p.name.startswith(".")]


@pytest.mark.parametrize("at", [1, 30, 90, 150])
def test_what_is_kept_came_furthest(table: Path, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A final training that has hardly begun knows less than the same network in the search: it was kept all the
    same."""
    taken, most = 0, 0
    real: Callable[..., None] = Training.step

    def step(self: Training, *args: Any) -> None:
        nonlocal taken, most
        taken += 1
        if taken == at:
            os.kill(os.getpid(), signal.SIGINT)
        real(self, *args)
        most = max(most, self.done)

    monkeypatch.setattr(Training, "step", step)
    r = mica.train(table, resume=table.with_name("state"))
    assert r.history[-1][0] == most and r.saved is None and table.with_name("state").is_file()


def test_ctrl_c_before_anything_was_learnt(
    table: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It failed with a bug where the first candidate was not weighed yet."""
    real = search.judged

    def judged(*args: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return real(*args)

    monkeypatch.setattr(search, "judged", judged)
    assert main(["train", str(table)]) == 130
    assert "interrupted" in capsys.readouterr().err and [p.name for p in table.parent.iterdir()] == ["rows.csv"]
