"""Features of speech as TensorFlow Lite Micro's front end has them: its tables, its numbers,
and its model from recordings to answers."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import sound_graphs
from nets import MODELS

from mica.cli.main import main
from mica.compile import PlacedFrontEnd, compile_file
from mica.data.sounds import read
from mica.errors import MicaError
from mica.importer import import_model
from mica.importer.tflite import model as tflite
from mica.ir.front_end import Speech
from mica.kernels.speech import log_of
from mica.listen.detection import usual_step
from mica.passes.streaming import Window
from mica.reference import front_end as reference
from mica.report.front_end import facts
from mica.run.host import HostRunner
from mica.sound import front_ends

TFLITE = MODELS / "tflite"
PRESET = "pcan:micro-speech"
STEP = 666 / 256  # of the logarithms: what becomes a step of int8
reference_models = pytest.mark.skipif(
    not TFLITE.exists(), reason=f"{TFLITE} is missing: it is not part of the repository"
)

# Frames of `made_up()` every 160 samples by the microfrontend of pymicro-features 2.0.2,
# before they are rounded to int8.
MICROFRONTEND = {
    2: "339 287 553 512 568 434 401 361 455 371 420 426 558 498 500 434 455 505 557 490 451 423 515 495 498 444 536 "
    "484 492 492 526 441 "
    "532 496 522 453 514 465 519 475",
    9: "613 554 635 592 643 559 614 554 610 551 609 554 639 579 603 548 611 584 639 577 610 547 628 580 604 544 638 "
    "580 593 578 630 560 "
    "636 580 633 565 633 574 634 570",
    16: "0 0 515 450 526 266 0 0 0 0 0 353 521 433 334 0 0 437 521 429 0 0 512 432 479 0 515 427 0 425 513 402 515 "
    "433 514 414 514 423 "
    "515 420",
}  # fmt: skip


def made_up() -> np.ndarray:
    """int16 [4800]: two square waves in noise, quiet, loud, and less loud."""
    state, out = 1, []
    for i in range(4800):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        loud = 60 if i < 1600 else 9000 if i < 3400 else 300
        out.append((loud if i // 23 % 2 else -loud) + (loud // 3 if i // 5 % 2 else -loud // 3) + state % 41 - 20)
    return np.array(out, np.int16)


def tables() -> Speech:
    """Tables of the preset."""
    found = front_ends.parse(PRESET).front_end(49).speech
    assert found is not None
    return found


def test_beside_the_microfrontend() -> None:
    """Its tables are rounded and those of the preprocessor cut off, so a few numbers differ by a step."""
    front_end = front_ends.parse(f"{PRESET},hop=160").front_end(28)
    found = np.rint(reference.features(front_end, made_up()) / tables().worth)
    for row, text in MICROFRONTEND.items():
        expected = np.array([int(v) for v in text.split()])
        assert np.abs(found[row] - expected).max() <= 2 * STEP
        assert np.mean(found[row] == expected) > 0.8


@reference_models
def test_tables_are_those_of_the_file() -> None:
    """Window, filters and curve beside the constants of tflite-micro's audio_preprocessor."""
    found = tflite.read(TFLITE / "audio_preprocessor_int8.tflite")
    constants = {o.kind: [found.tensors[i].data for i in o.inputs] for o in found.operators}
    blobs = tables().blobs
    window, curve = constants["SignalWindow"][1], constants["SignalPCAN"][2]
    assert window is not None and curve is not None
    np.testing.assert_array_equal(blobs["window"], window.reshape(-1))
    np.testing.assert_array_equal(blobs["lut"], curve.reshape(-1))
    gains, other, first, at, width = (
        v.reshape(-1).astype(int) for v in constants["SignalFilterBank"][1:] if v is not None
    )
    ours, theirs = np.zeros((41, 257, 2), int), np.zeros((41, 257, 2), int)
    place = 0
    for b, (low, n) in enumerate(blobs["filters"].tolist()):
        ours[b, low : low + n] = blobs["gains"][place : place + n]
        place += n
        theirs[b, first[b] : first[b] + width[b]] = np.stack([gains, other], 1)[at[b] : at[b] + width[b]]
    theirs[:, :5], theirs[:, 241:] = 0, 0  # which the graph cuts off
    np.testing.assert_array_equal(ours, theirs)


@reference_models
def test_micro_speech() -> None:
    """From recordings to answers, and the features that the network is given beside the preprocessor's formula."""
    front_end = ("", front_ends.parse(PRESET).front_end(49), PRESET)
    path = TFLITE / "micro_speech_int8.tflite"
    (name,) = import_model(path).inputs
    packed = compile_file(path, front_end=PlacedFrontEnd(name, *front_end[1:]))
    assert packed.model.steps[0].kernel == "pcan_s8" and packed.model.steps[0].scratch_min == 4 * 297
    assert packed.model.metadata["sample_rate"] == "16000"
    labels = ("silence", "unknown", "yes", "no")
    with HostRunner(packed.data) as runner:
        for word in ("yes", "no", "silence"):
            x = read(TFLITE / f"{word}_1000ms.wav", 16000)[: front_end[1].samples]
            answer = runner.predict(x.astype(np.float32)[None, None])[0]
            assert labels[int(np.argmax(answer))] == word
            logs = np.rint(reference.features(front_end[1], x) / tables().worth).astype(int)
            runner.loaded.set_input(0, x[None])
            rows, *_ = runner.loaded.layers()
            np.testing.assert_array_equal(rows.reshape(49, 40), np.minimum((logs * 256 + 333) // 666 - 128, 127))


@reference_models
def test_micro_speech_frame_by_frame() -> None:
    """With --stream a frame goes in, and its noise is that of all frames before: after a window,
    every byte is the window's."""
    front_end, path = front_ends.parse(PRESET).front_end(49), TFLITE / "micro_speech_int8.tflite"
    (name,) = import_model(path).inputs
    window = compile_file(path, front_end=PlacedFrontEnd(name, front_end, PRESET))
    packed = compile_file(path, front_end=PlacedFrontEnd(name, front_end, PRESET), step=Window(name, None, 1))
    assert packed.model.tensors[packed.model.inputs[0]].dims == (1, 480)
    assert packed.model.state_bytes == 4 * 40 + 48 * 40 and usual_step(packed.model) == 320
    page = facts(packed.model)
    assert page is not None and (page["rows"], page["columns"], len(page["bands"])) == (1, 40, 40)
    assert page["bands"][1] == [6, [0.3037, 0.9214, 0.4812]]  # the second half of a filter, and the first of the next
    with HostRunner(packed.data) as runner, HostRunner(window.data) as whole:
        for word in ("yes", "no"):
            x = read(TFLITE / f"{word}_1000ms.wav", 16000)[: front_end.samples]
            runner.loaded.reset_state()
            for at in range(0, 49 * 320, 320):
                runner.loaded.set_input(0, x[None, at : at + 480])
                runner.loaded.run()
            whole.loaded.set_input(0, x[None])
            whole.loaded.run()
            np.testing.assert_array_equal(runner.loaded.output(0), whole.loaded.output(0))


def test_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The front end refuses words that it does not have, bands without a bin, and windows that slide."""
    with pytest.raises(MicaError, match=r"'floor=1' is none of its words; expected KEY=VALUE with rate, samples"):
        front_ends.parse("pcan:micro-speech,floor=1")
    with pytest.raises(MicaError, match="holds no bin of the transform; take a larger fft"):
        front_ends.parse("pcan:mels=200").front_end(3)
    net = sound_graphs.Net(9 * 40, 17)
    net.shaped(1, 9, 40)
    path = net.save(tmp_path / "net.onnx", 9, 40, turned=False)
    assert main(["pack", str(path), "--frontend", PRESET]) == 0
    assert "pcan_s8" in capsys.readouterr().out
    assert main(["pack", str(path), "--frontend", PRESET, "--window", "x=40"]) == 1
    assert "its noise goes on from frame to frame; take --stream" in capsys.readouterr().err


def test_logarithms() -> None:
    """The table's logarithm is the natural one to a step."""
    logs = tables().blobs["logs"].tolist()
    for v in (2, 3, 17, 1000, 65535, 65536, 10**9, 2**32 - 1):
        assert abs(log_of(logs, v, 6) - 64 * math.log(v)) < 1
