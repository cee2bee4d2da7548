"""Embeddings and heads as people type them: pack --embedding, info, teach, eval --head, push."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import DEMO, ROOT
from targets import VIRTUAL

from mica.cli import heads
from mica.cli.main import main
from mica.file.codec import decode
from mica.learn import KINDS, Head, digest
from mica.link.push import store_head
from mica.link.targets import open_board
from mica.run.evaluation import load
from mica.run.host import HostRunner
from mica.toolchain.build import BuildResult

Type = Callable[..., Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits cut before their classes, and pictures of three of them with their names."""
    made = tmp_path_factory.mktemp("teach")
    words = "--calib", str(DEMO / "digits_calib.npz"), "--plain", "-o", str(made / "e.mica")
    assert main(["pack", str(DEMO / "digits.onnx"), "--embedding", *words]) == 0
    d = np.load(DEMO / "digits_test.npz")
    names = np.array(["zero", "one", "two"])
    few = d["y"] < 3
    np.savez(made / "few.npz", x=d["x"][few], y=names[d["y"][few]], scale=d["scale"])
    np.savez(made / "all.npz", x=d["x"], y=np.array([*names, *"3456789"])[d["y"]], scale=d["scale"])
    return made


@pytest.fixture
def typed(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Type:
    """Types a line in the folder; the object of --json, or of a line that fails its error."""
    monkeypatch.chdir(folder)

    def run(line: str) -> Any:
        code = main([*line.split(), "--json"])
        found = json.loads(capsys.readouterr().out)
        assert (code == 0) == ("error" not in found), found
        return found["error"] if code else found

    return run


def test_the_output_is_what_stood_before_the_last_dense_layer(folder: Path) -> None:
    model = decode((folder / "e.mica").read_bytes())
    (out,) = (model.tensors[t] for t in model.outputs)
    assert out.dtype == "int8" and out.dims == (1, 128)
    assert model.metadata["embedding"] == "/flatten/Flatten_output_0"
    assert "labels" not in model.metadata and "--embedding" in model.metadata["command"]


def test_a_feature_map_is_pooled(typed: Type, folder: Path) -> None:
    model = DEMO / "digits.onnx"
    listed = typed(f"info {model}")["embeddings"]
    assert listed[0]["default"] and listed[0]["size"] == 128
    pooled = next(c for c in listed if c["name"].endswith(":max"))
    typed(f"pack {model} --embedding {pooled['name']} --plain -o pooled.mica")
    packed = decode((folder / "pooled.mica").read_bytes())
    assert packed.tensors[packed.outputs[0]].dims == (1, pooled["size"])


def test_info_tells_how_well_each_tensor_separates_classes(typed: Type) -> None:
    found = typed(f"info {DEMO / 'digits.onnx'} --data {DEMO / 'digits_test.npz'}")
    scores = [c["accuracy"] for c in found["embeddings"]]
    assert (found["ways"], found["shots"]) == (5, 5)
    assert scores[0] > 0.95 and scores[0] == max(scores) and min(scores) < 0.7


def test_teach_and_eval(typed: Type, folder: Path) -> None:
    made = typed("teach e.mica few.npz --shots 4 -o h.learnt")
    assert made["labels"] == [{"label": label, "examples": 4} for label in ("one", "two", "zero")]
    known, every = typed("eval e.mica few.npz --head h.learnt"), typed("eval e.mica all.npz --head h.learnt")
    assert known["value"] > 0.7 and known["taken"] is None and known["samples"] == known["taught"]
    assert every["taught"] == known["samples"] and every["value"] == known["value"]
    assert every["taken"] < 0.2 and every["auc"] > 0.9
    assert sum(sum(row["answers"]) for row in every["confusion"]) == 360


def test_the_bytes_are_those_of_the_library(typed: Type, folder: Path) -> None:
    typed("teach e.mica few.npz --kind softmax --shots 3 -o s.learnt")
    data = load(folder / "few.npz")
    blob = (folder / "e.mica").read_bytes()
    head = Head("softmax", 128, model=digest(blob))
    with HostRunner(blob) as runner:
        for label in ("one", "two", "zero"):
            for x in data.x[data.y == label][:3]:
                head.teach(runner.run([runner.quantise([x])])[0][0], label)
    assert (folder / "s.learnt").read_bytes() == head.state()


def test_a_head_goes_on(typed: Type, folder: Path) -> None:
    typed("teach e.mica few.npz --shots 2 -o a.learnt")
    more = typed("teach e.mica all.npz --shots 1 --head a.learnt -o b.learnt")
    assert {row["label"]: row["examples"] for row in more["labels"]} == {
        **dict.fromkeys(("one", "two", "zero"), 3),
        **dict.fromkeys("3456789", 1),
    }


def test_heads_of_two_boards_are_added_up(typed: Type, folder: Path) -> None:
    """The sum is the head that was taught all of it."""
    d = np.load(folder / "few.npz")
    for name, rows in (("a", slice(0, 40)), ("b", slice(40, 80)), ("both", slice(0, 80))):
        np.savez(folder / f"{name}.npz", x=d["x"][rows], y=d["y"][rows], scale=d["scale"])
        typed(f"teach e.mica {name}.npz -o {name}.learnt")
    typed("teach e.mica --head a.learnt --head b.learnt -o sum.learnt")
    assert (folder / "sum.learnt").read_bytes() == (folder / "both.learnt").read_bytes()
    typed("teach e.mica a.npz --kind softmax -o soft.learnt")
    assert "only prototypes" in typed("teach e.mica --head a.learnt --head soft.learnt")


def test_features_alone(typed: Type, folder: Path) -> None:
    rng = np.random.default_rng(0)
    for label, size in (("calm", 300), ("wild", 3000)):
        (folder / "moves" / label).mkdir(parents=True, exist_ok=True)
        for k in range(6):
            rows = (size * rng.standard_normal((1, 130, 3))).astype(np.int16)
            np.savez(folder / "moves" / label / f"{k}.npz", x=rows, rate=100)
    np.savez(folder / "calib.npz", x=(1000 * rng.standard_normal((20, 64, 3))).astype(np.int16))
    typed("pack --frontend features:rows=64,axes=3,rate=100 --calib calib.npz -o moves.mica")
    assert typed("teach moves.mica moves -o moves.learnt")["labels"][0] == {
        "label": "calm",
        "examples": 12,
    }  # two of each
    known = typed("eval moves.mica moves --head moves.learnt")
    assert known["value"] == known["accepted"] > 0.8  # the others are unknown
    alone = typed("teach moves.mica moves/calm --kind anomaly -o calm.learnt")
    assert [row["label"] for row in alone["labels"]] == ["calm"]
    judged = typed("eval moves.mica moves --head calm.learnt")
    assert judged["auc"] == 1 and judged["taken"] == 0


@pytest.mark.parametrize(
    ("words", "one_in"),
    [("", 1440), ("--alarms 2", 720), ("--alarms 1/week --every 5m", 2016), ("--alarms 1/hour --every 2s", 1800)],
)
def test_alarms_in_words_of_time(words: str, one_in: int, typed: Type, folder: Path) -> None:
    """The head knows which share of recordings may give a false alarm."""
    typed(f"teach e.mica few.npz --kind anomaly --shots 2 {words} -o t.learnt")
    assert Head.from_state((folder / "t.learnt").read_bytes())._numbers[3] == one_in


def test_what_heads_will_take(typed: Type, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """fit --head: bytes of a label as it is taught, and no more labels than the heap holds."""
    found = typed("fit e.mica --board RPI_PICO --head")
    free = found["ram"]["heap"] - found["ram"]["heap_needed"]
    for row in found["heads"]:
        head = Head(row["kind"], 128, model=bytes(8))
        sizes = {}
        for n in range(1, 21):
            head.teach(np.zeros(128, np.int8), "a")
            sizes[n] = len(head._learnt[1][0])
        assert row["bytes"] == [sizes[n] for n in row["examples"]]
        assert all(
            labels == 64 or labels * size < free for labels, size in zip(row["labels"], row["bytes"], strict=True)
        )
    assert [row["kind"] for row in found["heads"]] == list(KINDS) and 40 < found["heads"][1]["labels"][2] < 64
    assert main(["fit", "e.mica", "--board", "RPI_PICO", "--head"]) == 0
    assert "bytes of a label of 20" in capsys.readouterr().out
    kept = re.search("^SAVING = ([0-9]+)", (ROOT / "firmware" / "mica" / "learn.py").read_text(), re.MULTILINE)
    assert kept and int(kept[1]) == heads.SAVING


@pytest.mark.parametrize("target", VIRTUAL)
def test_a_board_takes_up_the_head(
    target: str, typed: Type, folder: Path, firmware: Callable[[str], BuildResult]
) -> None:
    firmware(target.removesuffix("@emu"))
    typed("teach e.mica few.npz --shots 2 -o p.learnt")
    state = (folder / "p.learnt").read_bytes()
    with open_board(target, rom_files={"e.mica": (folder / "e.mica").read_bytes()}) as board:
        store_head(board, state, "/learnt")
        found = board.exec("import mica\nh = mica.Learner(mica.Model('/rom/e.mica'))\nprint(h.labels, h.state().hex())")
    labels, taken = found.decode().strip().rsplit(" ", 1)
    assert labels == "['one', 'two', 'zero']" and bytes.fromhex(taken) == state


def test_demo_learn(typed: Type, firmware: Callable[[str], BuildResult]) -> None:
    firmware("RPI_PICO")
    shown = typed("demo learn")
    assert shown["equal"] and shown["right"] >= 6, shown


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (f"pack {DEMO / 'digits.onnx'} --embedding nothing -o x.mica", "the model has no such tensor"),
        (f"pack {DEMO / 'digits.onnx'} --embedding --labels l.txt -o x.mica", "an embedding has none"),
        ("pack -o x.mica", "there is no MODEL"),
        ("pack --frontend features:rows=8 -o x.mica", "needs --calib"),
        ("pack --frontend logmel:mels=20 --calib few.npz -o x.mica", "samples= is missing"),
        ("info e.mica --data few.npz", "are for .onnx and .tflite files"),
        (f"teach {DEMO / 'command.mica'} few.npz", "mica pack --embedding"),
        ("teach e.mica nowhere", "no such file"),
        ("teach e.mica", "there is no DATA"),
        ("teach e.mica few.npz --shots 0", "expected 1 or more"),
        ("teach e.mica few.npz --loose 0", "positive numbers are expected"),
        ("teach e.mica few.npz --kind anomaly --alarms 0/day", "positive numbers are expected"),
        ("teach e.mica few.npz --kind anomaly --alarms 1/year", "1/year: expected such as 1/hour, 1/day"),
        ("teach e.mica few.npz --kind anomaly --every soon", "soon: expected such as 60s"),
        ("teach e.mica few.npz --kind anomaly --every 0s", "positive numbers are expected"),
        ("teach e.mica few.npz --head old.learnt --every 5m", "--every: the head of --head has its own"),
        (f"fit {DEMO / 'command.mica'} --board RPI_PICO --head", "mica pack --embedding"),
        ("eval e.mica few.npz --head few.npz", "few.npz: these bytes are no state of a head"),
        ("push e.mica nothing.learnt", "no such file"),
        ("push few.learnt", "a head goes beside its model"),
    ],
)
def test_mistakes_are_one_line(line: str, says: str, typed: Type) -> None:
    assert says in typed(line)


def test_a_head_of_another_model(typed: Type) -> None:
    typed(f"pack {DEMO / 'digits.onnx'} --embedding --plain -o other.mica")
    typed("teach other.mica few.npz --shots 2 -o other.learnt")
    assert "taught with another model" in typed("eval e.mica few.npz --head other.learnt")
    assert "taught with another model" in typed("push e.mica other.learnt")
