"""Per-channel energy normalisation: beside librosa, beside its published formula,
and with a state from frame to frame."""

from __future__ import annotations

import wave
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import text_nets
from nets import MODELS

from mica.cli.main import main
from mica.compile import PlacedFrontEnd, Ram, compile_file
from mica.errors import MicaError
from mica.listen.detection import usual_step
from mica.passes.streaming import Window
from mica.reference import front_end as reference
from mica.report.front_end import facts
from mica.run.host import HostRunner
from mica.sound import front_ends

reference_models = pytest.mark.skipif(
    not MODELS.exists(), reason=f"{MODELS} is missing: it is not part of the repository"
)
SMALL = "frame=480,hop=160,fft=512,mels=40,fmin=125,fmax=7500,rate=16000"
LIBROSA = f"pcen:librosa,{SMALL}"
OTHER = f"{LIBROSA},s=0.1,alpha=0.8,delta=10,r=0.25,eps=1e-3"
# Every fourth band of frames of `made_up()` by librosa.pcen of librosa 0.11.0, with its own mel filters,
# of 2**31 times the sizes.
PUBLISHED = {
    LIBROSA: {
        2: "1.9310 2.4566 2.4316 3.0931 2.9774 2.9282 3.1080 3.0748 2.6872 2.6436",
        9: "4.1287 4.0960 4.0024 5.0786 3.9717 4.6916 4.7859 4.8659 4.0713 4.2265",
        16: "0.3831 0.7425 0.0445 1.6908 0.1281 1.5632 1.6131 1.5975 1.0786 1.3178",
        27: "0.0194 0.0236 0.0199 0.0758 0.0376 0.0715 0.0721 0.0697 0.0936 0.0764",
    },
    OTHER: {
        2: "0.5615 0.7044 0.6891 1.1243 0.8176 0.9478 0.9853 0.9415 0.7638 0.7540",
        9: "1.8383 1.9376 1.7598 2.3409 1.6811 2.0512 2.0402 1.9633 1.6085 1.6479",
        16: "0.3427 0.6476 0.0445 1.3587 0.1138 1.1395 1.1515 1.0736 0.6789 0.8072",
        27: "0.0284 0.0417 0.0305 0.1711 0.0482 0.1320 0.1303 0.1140 0.1154 0.0970",
    },
}


def made_up() -> np.ndarray:
    """int16 [4800]: two square waves in noise, quiet, loud, and less loud."""
    state, out = 1, []
    for i in range(4800):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        loud = 60 if i < 1600 else 9000 if i < 3400 else 300
        out.append((loud if i // 23 % 2 else -loud) + (loud // 3 if i // 5 % 2 else -loud // 3) + state % 41 - 20)
    return np.array(out, np.int16)


def packed_alone(words: str, clips: Sequence[np.ndarray], folder: Path, step: Window | None = None) -> Ram:
    """A front end and next to nothing behind it, for clips of that many samples."""
    described = front_ends.parse(words)
    frame, hop = described.values["frame"], described.values["hop"]
    assert isinstance(frame, int) and isinstance(hop, int)
    shape = (1, 1 + (len(clips[0]) - frame) // hop, described.columns)
    text_nets.save(folder / "net.onnx", f"(float{list(shape)} x) => (float{list(shape)} y) {{ y = Relu(x) }}")
    front_end = described.front_end(shape[1])
    samples = np.stack([c[: front_end.samples] for c in clips])[:, None].astype(np.float32)
    return compile_file(
        folder / "net.onnx", {"samples": samples}, front_end=PlacedFrontEnd("x", front_end, words), step=step
    )


def recordings() -> list[np.ndarray]:
    """Seconds of speech and noise, int16 [16000] each."""
    found = []
    for path in sorted((MODELS / "tflite").glob("*.wav")):
        with wave.open(str(path)) as sound:
            x = np.frombuffer(sound.readframes(sound.getnframes()), np.int16).reshape(-1, sound.getnchannels())[:, 0]
        found += [x[k : k + 16000] for k in range(0, len(x) - 15999, 16000)]
    return [*found, *np.load(MODELS / "kws" / "pcm_calib.npz")["x"][::5]]


@pytest.mark.parametrize("words", PUBLISHED)
def test_librosa(words: str) -> None:
    features = reference.features(front_ends.parse(words).front_end(28), made_up())
    for row, text in PUBLISHED[words].items():
        expected = np.array([float(v) for v in text.split()])
        np.testing.assert_allclose(features[row, ::4], expected, atol=1e-4)


def by_the_book(words: str, rows: int, x: np.ndarray) -> np.ndarray:
    """The published formula, with numpy's transform: float64 [rows, bands]."""
    f = front_ends.parse(words).front_end(rows)
    p = f.pcen
    assert p is not None
    cut = np.lib.stride_tricks.sliding_window_view(x * f.unit, f.frame)[:: f.hop][:rows]
    energies = np.abs(np.fft.rfft(cut * f.window, f.fft)) ** (2 if f.power else 1) @ f.filters.T
    out, smooth = np.empty_like(energies), energies[0] if p.start is None else p.start
    for k, e in enumerate(energies):
        smooth = (1 - p.s) * smooth + p.s * e
        out[k] = (e / (p.eps + smooth) ** p.alpha + p.delta) ** p.r - p.delta**p.r
    return out


@reference_models
@pytest.mark.parametrize(
    "words",
    [
        "pcen:frame=400,hop=160,fft=512,s=0.025",
        "pcen:librosa,rate=16000,frame=480,hop=320,fft=512,mels=40",
        "pcen:frame=480,hop=320,delta=0,r=0.3,alpha=0.5,start=0",
    ],
)
def test_bytes_are_those_of_floats(words: str, tmp_path: Path) -> None:
    clips = recordings()
    packed = packed_alone(words, clips[::3], tmp_path)
    (step,) = (s for s in packed.model.steps if s.kernel == "pcen_s8")
    y = packed.model.tensors[step.outputs[0]]
    samples, rows = packed.model.tensors[packed.model.inputs[0]].dims[-1], y.dims[-2]
    off = []
    with HostRunner(packed.data) as runner:
        for x in clips:
            runner.loaded.set_input(0, x[None, :samples])
            found = next(iter(runner.loaded.layers())).reshape(y.dims[-2:]).astype(int)
            expected = np.rint(by_the_book(words, rows, x) / y.scale) + y.zero_point
            off.append(np.abs(found - np.clip(expected, -128, 127)))
    assert np.mean(np.stack(off) <= 1) >= 0.99
    assert np.mean(np.stack(off) == 0) >= 0.96


@reference_models
def test_frame_by_frame(tmp_path: Path) -> None:
    """With --stream a frame goes in, and the noise is that of all frames before: every byte is that of a whole
    window."""
    words = "pcen:frame=400,hop=160,fft=512,s=0.025,preemphasis=0.97,before=yes,start=1e-9"
    clips = [c[:8000] for c in recordings()[:20]]
    window = packed_alone(words, clips, tmp_path)
    packed = packed_alone(words, clips, tmp_path, Window("x", None, 1))
    rows = window.model.tensors[window.model.outputs[0]].dims[1]
    assert packed.model.tensors[packed.model.inputs[0]].dims == (1, 401)
    assert 0 <= packed.model.state_bytes - (4 * 40 + (rows - 1) * 40) < 16 and usual_step(packed.model) == 160
    page = facts(packed.model)
    assert page is not None and (page["rows"], page["columns"], len(page["bands"])) == (1, 40, 40)
    with HostRunner(packed.data) as runner, HostRunner(window.data) as whole:
        for x in clips[:3]:
            runner.loaded.reset_state()
            for at in range(0, rows * 160, 160):
                runner.loaded.set_input(0, x[None, at : at + 401])
                runner.loaded.run()
            whole.loaded.set_input(0, x[None, : 401 + (rows - 1) * 160])
            whole.loaded.run()
            np.testing.assert_array_equal(runner.loaded.output(0), whole.loaded.output(0))


def test_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, message in (
        ("pcen:floor=1", r"'floor=1' is none of its words; expected KEY=VALUE with rate, .*, eps, start"),
        ("logmel:alpha=1", "'alpha=1' is none of its words"),
        ("pcen:alpha=2", "alpha=2; expected a number from 0 to 1"),
        ("pcen:start=last", "start=last; expected first, or a number of 0 or more"),
        ("pcen:eps=0", "eps has to be more than 0"),
        ("pcen:r=0", "r has to be more than 0"),
        ("pcen:s=0", "s and time have to be more than 0"),
        ("pcen:time=0", "s and time have to be more than 0"),
    ):
        with pytest.raises(MicaError, match=message):
            front_ends.parse(words).front_end(9)
    packed_alone(f"pcen:{SMALL}", [made_up()], tmp_path)
    command = ["pack", str(tmp_path / "net.onnx"), "--frontend", f"pcen:{SMALL}"]
    np.savez(tmp_path / "calib.npz", samples=made_up()[None, None])
    assert main([*command, "--calib", str(tmp_path / "calib.npz")]) == 0
    assert "pcen_s8" in capsys.readouterr().out
    assert main([*command, "--window", "x=4"]) == 1
    assert "its noise goes on from frame to frame; take --stream" in capsys.readouterr().err


def test_time_is_another_way_to_say_s() -> None:
    """The last of several settings counts, also after a preset."""
    both = [front_ends.parse(f"pcen:librosa,{w}").front_end(9).pcen for w in ("time=0.2", "s=0.5", "time=0.2,s=0.5")]
    assert [round(p.s, 4) for p in both if p] == [0.1096, 0.5, 0.5]
