"""microWakeWord's published models with the words, thresholds and means of their own .json: hits are those of
pymicro-wakeword."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import speech
from speech import WAKE_WORD, wake_word
from test_front_end_goes_on import FRAME, HOP, SMALL
from tflite_nets import stream

from mica.cli.main import main
from mica.compile import compile_file
from mica.file.codec import decode
from mica.listen import detection
from mica.run.host import HostRunner

OTHER = "yellow banana"
DEAD = 1000  # ms from one event to the next
LEAST = {"okay_nabu": 2, "alexa": 2, "hey_jarvis": 1, "hey_mycroft": 1}  # of four voices


def theirs(path: Path, x: np.ndarray) -> list[int]:
    """Times in ms at which pymicro-wakeword's verdict becomes true, after a run of three frames."""
    package = pytest.importorskip("pymicro_wakeword")
    model = package.MicroWakeWord.from_config(path.with_suffix(".json"))
    hits, before = [], False
    for k, row in enumerate(package.MicroWakeWordFeatures().process_streaming(x.tobytes())):
        said = model.process_streaming(row)
        if k % 3 == 2:
            if said and not before and (FRAME + k * HOP) // 16 - (hits[-1] if hits else -DEAD) >= DEAD:
                hits.append((FRAME + k * HOP) // 16)
            before = bool(said)
    return hits


@pytest.mark.parametrize("name", sorted(LEAST))
def test_hits(name: str) -> None:
    """From samples, at the same moment; four voices say the word and another one."""
    path = wake_word(name)
    x, _ = speech.talk([name.replace("_", " "), OTHER])
    packed = compile_file(path, front_end=WAKE_WORD)
    micro = json.loads(path.with_suffix(".json").read_text())["micro"]
    chosen = detection.settings_of(packed.model)
    assert chosen.threshold == pytest.approx(micro["probability_cutoff"], abs=2e-6)
    assert chosen.mean == micro["sliding_window_size"]
    with HostRunner(packed.data) as runner:
        found = list(detection.detect(runner, x, chosen))
    assert [e.ms for e in found] == theirs(path, x)
    assert len(found) >= LEAST[name] and {e.label for e in found} <= {name.replace("_", " ").title()}


def test_metadata(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Options of the command come before what the file says; another .json is none of pack's business."""
    net, beside, out = tmp_path / "net.tflite", tmp_path / "net.json", tmp_path / "net.mica"
    net.write_bytes(stream())
    pack = ["pack", str(net), "--frontend", SMALL, "-o", str(out)]
    said = {"wake_word": "Hey You", "micro": {"probability_cutoff": 0.6, "sliding_window_size": 4}}

    def packed(text: str, *words: str) -> dict[str, str]:
        beside.write_text(text)
        assert main([*pack, *words]) == 0
        return decode(out.read_bytes()).metadata

    keys = ("listen_threshold", "listen_mean", "labels")
    assert [packed(json.dumps(said)).get(k) for k in keys] == ["0.600001", "4", "Hey You"]
    assert "net.json beside the model says: listen_threshold 0.600001, listen_mean 4" in capsys.readouterr().err
    for other in ("{", "[]", "[" * 9999, '{"micro": 1}', '{"micro": {"probability_cutoff": 1}}'):
        assert not {*keys} & {*packed(other)}
    for key, value in (
        ("probability_cutoff", 1.5),
        ("probability_cutoff", "a"),
        ("sliding_window_size", 0),
        *((key, True) for key in said["micro"]),
    ):
        beside.write_text(json.dumps({**said, "micro": {**said["micro"], key: value}}))
        assert main(pack) == 1 and f"net.json: {key} is {value!r}" in capsys.readouterr().err
