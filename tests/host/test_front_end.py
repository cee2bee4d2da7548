"""Front ends: their definition beside the published features of MLPerf Tiny, their integers beside float64,
and models with them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from nets import MODELS
from tones import FRONT_END, LABELS, save_net, tone, write_wav

from mica import engine
from mica.cli.main import main
from mica.compile import PlacedFrontEnd, compile_file
from mica.data import sounds
from mica.data.calibration import load_calibration
from mica.errors import MicaError
from mica.format.values import quantise_f32
from mica.reference import front_end as reference
from mica.run.float_model import FloatModel
from mica.sound import front_ends
from mica.sound.insert import SAMPLES

KWS = MODELS / "kws"
reference_models = pytest.mark.skipif(
    not KWS.exists(), reason=f"{MODELS} is missing: the reference models are not part of the repository"
)


def test_a_step_of_the_samples_is_a_32768th() -> None:
    """By default the largest int16 is 1, so that features are those of sound from -1 to 1."""
    for words in ("mfcc:samples=16000,fmax=4000", "logmel:samples=16000,fmax=4000"):
        assert front_ends.parse(words).front_end(49).unit == 2.0**-15


def by_the_book(clip: np.ndarray) -> np.ndarray:
    """The keyword model's features as its training code defines them, by numpy's FFT: float64 [49, 10]."""
    x = clip.astype(np.float64) / clip.max()
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(480) / 480)
    sizes = np.abs(np.fft.rfft(np.lib.stride_tricks.sliding_window_view(x, 480)[::320] * hann, 512))
    mel = 1127 * np.log(1 + np.arange(257) * 16000 / 512 / 700)
    edges = np.linspace(*(1127 * np.log(1 + np.array([20, 4000]) / 700)), 42)
    rise = (mel - edges[:-2, None]) / np.diff(edges)[:-1, None]
    fall = (edges[2:, None] - mel) / np.diff(edges)[1:, None]
    filters = np.maximum(0, np.minimum(rise, fall))
    filters[:, 0] = 0
    logs = np.log(sizes @ filters.T + 1e-6)
    k, j = np.arange(10)[:, None], np.arange(40)
    return logs @ (2 * np.cos(np.pi * k * (2 * j + 1) / 80)).T * np.sqrt(1 / 80)


@reference_models
def test_published_features() -> None:
    """MLPerf Tiny's own features are int8, truncated: of 0.5847029 a step, zero point 83."""
    front_end = front_ends.parse("mfcc:mlperf-kws").front_end(49)
    clips, published = np.load(KWS / "pcm_eval.npz")["x"][:60], np.load(KWS / "eval.npz")["x"][:60]
    ours = np.stack([reference.features(front_end, clip) for clip in clips])
    same = np.clip(np.trunc(ours / 0.5847029 + 83), -128, 127) == published.reshape(ours.shape)
    assert same.mean() > 0.995
    assert np.abs(ours - np.stack([by_the_book(clip) for clip in clips])).max() < 0.01


@reference_models
def test_keywords_from_sound() -> None:
    """All clips: integers from samples to answer beside a float front end and the float network in ONNX Runtime."""
    arrays = np.load(KWS / "pcm_eval.npz")
    clips, labels = arrays["x"], arrays["y"]
    text = "mfcc:mlperf-kws"
    front_end = PlacedFrontEnd("input", front_ends.parse(text).front_end(49), text)
    calibration = load_calibration(KWS / "pcm_calib.npz", [SAMPLES])
    packed = compile_file(KWS / "model.onnx", calibration, front_end=front_end, plain=True)
    t = packed.model.tensors[packed.model.steps[0].outputs[0]]
    assert packed.model.steps[0].kernel == "log_mel_s8"
    assert packed.model.tensors[packed.model.inputs[0]].dtype == "int16"
    assert packed.model.metadata["sample_rate"] == "16000" and packed.model.metadata["frontend"] == text
    assert packed.model.steps[0].scratch_min == 2048
    loaded = engine.load(packed.data)
    network = onnxruntime.InferenceSession(str(KWS / "model.onnx"), providers=["CPUExecutionProvider"])
    right, float_right, same, worst = 0, 0, 0.0, 0
    for clip, label in zip(clips, labels, strict=True):
        features = by_the_book(clip)
        loaded.set_input(0, clip[None])
        expected = quantise_f32(features, t.scale, t.zero_point)
        rows, *_ = loaded.layers()
        found = rows.reshape(49, 10)
        right += int(np.argmax(loaded.output(0)) == label)
        float_right += int(
            np.argmax(network.run(None, {"input": features.astype(np.float32)[None, :, :, None]})[0]) == label
        )
        difference = np.abs(found.astype(int) - expected)
        same, worst = same + np.mean(difference == 0), max(worst, int(difference.max()))
    n = len(clips)
    print(f"top-1 {right / n:.4f}, float {float_right / n:.4f}; {same / n:.4%} of feature bytes equal, worst {worst}")
    assert abs(right - float_right) / n <= 0.005
    assert same / n >= 0.99


def test_definitions() -> None:
    """Mel scales beside the figures in librosa's manual; a cosine transform is orthonormal;
    windows end as they should."""
    hz = np.array([60.0, 110, 220, 440])
    np.testing.assert_allclose(front_ends._to_mel(hz, "slaney"), [0.9, 1.65, 3.3, 6.6], atol=1e-12)
    np.testing.assert_allclose(front_ends._to_hz(np.arange(1, 6), "slaney"), np.arange(1, 6) * 200 / 3)
    for scale in ("htk", "slaney"):
        np.testing.assert_allclose(front_ends._to_hz(front_ends._to_mel(hz * 20, scale), scale), hz * 20)
    full = front_ends.dct("ortho", 40, 40)
    np.testing.assert_allclose(full @ full.T, np.eye(40), atol=1e-12)
    assert front_ends.window("hann-symmetric", 9)[-1] == pytest.approx(0, abs=1e-15)
    assert front_ends.window("hamming", 8)[4] == pytest.approx(1)
    np.testing.assert_allclose(
        front_ends.mel_filters(16000, 512, 40, 0, 8000, "htk", "slaney").sum() * 16000 / 512, 40, rtol=0.01
    )


def test_a_sample_before() -> None:
    """before=yes: frames of a sound that goes on are those of the whole."""
    text = "logmel:frame=320,hop=160,mels=8,preemphasis=0.9,floor=1e-6"
    whole, part = front_ends.parse(text).front_end(5), front_ends.parse(f"{text},before=yes").front_end(4)
    assert (whole.samples, part.samples, part.frames) == (960, 801, 4)
    x = np.random.default_rng(0).integers(-3000, 3000, 960)
    np.testing.assert_allclose(reference.features(part, x[159:]), reference.features(whole, x)[1:], atol=1e-9)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mfcc", "no front end of that name"),
        ("mel:x", "no front end of that name"),
        ("mfcc:mlperf-wakeword", "has no preset"),
        ("logmel:frame=480,hops=3", "'hops=3' is none of its words"),
        ("logmel:frame=0", "a whole number from 1 to 65535"),
        ("logmel:floor=-1", "a number of 0 or more"),
        ("logmel:power=3", "expected 1 or 2"),
        ("logmel:floor=1e-6,least=1e-6", "give one of them"),
        ("logmel:unit=1/0", "unit=1/0"),
    ],
)
def test_words_refused(text: str, said: str) -> None:
    with pytest.raises(MicaError, match=said):
        front_ends.parse(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("logmel:fft=500", "fft=500: expected"),
        ("logmel:frame=480,fft=256", "longer than fft"),
        ("logmel:fmax=9000", "fmax <= 8000"),
        ("mfcc:coefs=41,mels=40", "coefs=41 of mels=40"),
        ("logmel:hop=60000", "samples: expected"),
        ("logmel:low=1,high=1", "low is not below high"),
    ],
)
def test_values_refused(text: str, said: str) -> None:
    with pytest.raises(MicaError, match=said):
        front_ends.parse(text).front_end(49)


def test_wav_files(tmp_path: Path) -> None:
    """A file that cannot be used gives an error that says what to change. Other kinds: test_sound_files.py."""
    x = np.arange(-50, 50)
    np.testing.assert_array_equal(sounds.read(write_wav(tmp_path / "good.wav", x), 16000), x)
    (tmp_path / "cut.wav").write_bytes((tmp_path / "good.wav").read_bytes()[:20])
    (tmp_path / "text.wav").write_text("no sound")
    for path, said in (
        (write_wav(tmp_path / "empty.wav", x[:0]), "holds no samples"),
        (tmp_path / "cut.wav", "cannot be read"),
        (tmp_path / "text.wav", "cannot be read"),
        (tmp_path / "none.wav", "no such file"),
    ):
        with pytest.raises(MicaError, match=said):
            sounds.read(path, 16000)
    assert sounds.pieces(tmp_path / "good.wav", 16000, 101).tolist() == [[*x, 0]]
    assert sounds.pieces(tmp_path / "good.wav", 16000, 30).shape == (3, 30)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each label, and a network of features that tells them apart by its bands."""
    folder = tmp_path_factory.mktemp("sounds")
    rng = np.random.default_rng(0)
    for label in LABELS:
        for k in range(6):
            write_wav(folder / "data" / label / f"{k}.wav", tone(rng, label))
    (folder / "labels.txt").write_text("\n".join(LABELS))
    save_net(folder / "net.onnx")
    return folder


def test_commands(recordings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """pack with recordings, eval on them by their folders' names, run on one;
    each beside the float front end and network."""
    net, data, packed = recordings / "net.onnx", recordings / "data", recordings / "net.mica"
    pack = ["pack", str(net), "--frontend", FRONT_END, "--calib", str(data), "--labels", str(recordings / "labels.txt")]
    assert main([*pack, "-o", str(packed)]) == 0
    assert "log_mel_s8" in capsys.readouterr().out
    assert main(["eval", str(packed), str(data), "--float", str(net), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["value"] == result["float_value"] == result["agreement"] == 1 and result["samples"] == 18
    wav = data / "high" / "0.wav"
    assert main(["run", str(packed), str(wav), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)["outputs"][0]["values"]
    exact = FloatModel(net, front_ends.parse(FRONT_END).front_end(9)).predict(sounds.read(wav, 16000)[None, None])
    np.testing.assert_allclose(values, exact.reshape(-1), atol=0.03)
    (data.parent / "none").mkdir()
    for args, said in (
        (["eval", str(packed), str(data.parent / "none")], "holds no sound files"),
        (
            ["eval", str(packed), str(write_wav(recordings / "other/loud/1.wav", np.ones(1600)).parents[1])],
            "'loud' is none",
        ),
        (["pack", str(net), "--calib", str(data)], "mica pack --frontend"),
        (["pack", str(net), "--frontend", "mfcc:mlperf-kws"], "a row has 10 features"),
        ([*pack[:5], str(np_file(recordings))], "expected int16 samples"),
    ):
        assert main(args) == 1
        out, err = capsys.readouterr()
        assert said in err and err.count("\n") == 1, (out, err)


def np_file(folder: Path) -> Path:
    """Samples from -1 to 1, as other programs have them."""
    np.save(folder / "real.npy", np.random.default_rng(0).uniform(-1, 1, (4, 1600)))
    return folder / "real.npy"
