"""Front ends in the graph: their steps, compared with ONNX Runtime's float answers; and refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import sound_graphs
from nets import MODELS
from tones import LABELS, tone, write_wav

from mica import engine
from mica.cli.main import main
from mica.compile import compile_file
from mica.errors import Unsupported
from mica.importer import import_onnx
from mica.reference import front_end as reference
from mica.sound import recognise

SAMPLES = 1600
Make = Callable[[Path], Path]
MODELS_OF_SOUND: dict[str, Make] = {
    "torchaudio": lambda p: sound_graphs.torchaudio(p, SAMPLES, 256, 160, win=200),
    "sizes": lambda p: sound_graphs.torchaudio(p, SAMPLES, 128, 64, power=1.0),
    "decibels": lambda p: sound_graphs.torchaudio(p, SAMPLES, 256, 100, db="db"),
    "top_db": lambda p: sound_graphs.torchaudio(p, SAMPLES, 256, 100, db="db80"),
    "200 points": lambda p: sound_graphs.torchaudio(p, SAMPLES, 200, 80),
    "convolutions": lambda p: sound_graphs.convolutions(p, SAMPLES, 128, 80),
    "matrices": lambda p: sound_graphs.matrices(p, SAMPLES, 256, 128),
    "ONNX's operators": lambda p: sound_graphs.onnx_operators(p, SAMPLES, 256, 128),
}


def sounds(seed: int, n: int = SAMPLES, count: int = 12) -> np.ndarray:
    """int16 [count, 1, n], of all labels in turn, some quieter than others."""
    rng = np.random.default_rng(seed)
    clips = [tone(rng, LABELS[k % 3], n) * rng.uniform(0.1, 1) for k in range(count)]
    return np.stack(clips)[:, None].astype(np.int16)


def floats(path: Path, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ONNX Runtime's features and answers for int16 sounds [n, 1, samples]."""
    model = onnx.load(path)
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info(sound_graphs.FEATURES))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    answers = [session.run(None, {"x": (clip / 32768).astype(np.float32)}) for clip in x]
    return np.stack([a[1] for a in answers]), np.concatenate([a[0] for a in answers])


@pytest.mark.parametrize("name", MODELS_OF_SOUND)
def test_found(name: str, tmp_path: Path) -> None:
    """The definition that comes out of a graph gives the graph's features;
    then packed, the engine gives its answers."""
    path, x = MODELS_OF_SOUND[name](tmp_path / "net.onnx"), sounds(1)
    features, answers = floats(path, x)
    g = recognise.run(import_onnx(path))
    recognised = recognise.found(g)
    assert recognised is not None and recognised[0] == "x"
    assert {n.op for n in g.nodes} <= {
        "LogMel",
        "Transpose",
        "Reshape",
        "Identity",
        "Flatten",
        "Gemm",
        "ReduceMax",
        "Sub",
        "Max",
    }
    if name != "top_db":
        ours = np.stack([reference.features(recognised[1], clip * 2.0**-15) for clip in x])
        theirs = features.reshape(
            len(x), *(ours.shape[:0:-1] if features.shape[-1] != ours.shape[-1] else ours.shape[1:])
        )
        theirs = theirs.swapaxes(1, 2) if theirs.shape != ours.shape else theirs
        np.testing.assert_allclose(ours, theirs, atol=0.6 if name == "200 points" else 5e-3)
        assert np.abs(ours - theirs).mean() < 0.03
    packed = compile_file(path, {"x": (sounds(2, count=90) / 32768).astype(np.float32)}, plain=True)
    given, y = (packed.model.tensors[t[0]] for t in (packed.model.inputs, packed.model.outputs))
    assert given.dtype == "int16" and given.scale == 2.0**-15 and packed.model.steps[0].kernel == "log_mel_s8"
    loaded, found = engine.load(packed.data), []
    for clip in x:
        loaded.set_input(0, clip)
        list(loaded.layers())
        found.append((loaded.output(0).astype(np.float64).reshape(-1) - y.zero_point) * y.scale)
    error = np.abs(np.stack(found) - answers).max() / (answers.max() - answers.min())
    assert error < 0.02, f"{error:.3f} of the range of all answers"


def test_words_in_real_recordings(tmp_path: Path) -> None:
    """The features of a torchaudio front end, as bytes, beside ONNX Runtime's on recordings of words."""
    if not (MODELS / "kws").exists():
        pytest.skip(f"{MODELS} is missing: the recordings are not part of the repository")
    path = sound_graphs.torchaudio(tmp_path / "net.onnx", 16000, 512, 160, win=400)
    calib, x = (np.load(MODELS / "kws" / f"pcm_{part}.npz")["x"][:50, None] for part in ("calib", "eval"))
    features, _ = floats(path, x)
    packed = compile_file(path, {"x": calib}, plain=True)
    loaded, t = engine.load(packed.data), packed.model.tensors[packed.model.steps[0].outputs[0]]
    steps = np.clip(np.rint(features / t.scale) + t.zero_point, -128, 127).reshape(len(x), 20, -1).swapaxes(1, 2)
    same, near = [], []
    for clip, expected in zip(x, steps, strict=True):
        loaded.set_input(0, clip)
        rows, *_ = loaded.layers()
        difference = np.abs(rows.reshape(expected.shape) - expected)
        same.append(np.mean(difference == 0))
        near.append(np.mean(difference <= 1))
    print(f"{np.mean(same):.4%} of the bytes are those of float, {np.mean(near):.4%} within one step")
    assert np.mean(same) > 0.98 and np.mean(near) > 0.995


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """pack without a flag, with wav files or floats; run and eval on files and on arrays;
    --float gives the same answers."""
    path, packed = sound_graphs.torchaudio(tmp_path / "net.onnx", SAMPLES, 256, 160), tmp_path / "net.mica"
    for k, clip in enumerate(sounds(3)):
        write_wav(tmp_path / "data" / LABELS[k % 3] / f"{k}.wav", clip[0])
    (tmp_path / "labels.txt").write_text("\n".join(LABELS))
    labels = ["--labels", str(tmp_path / "labels.txt")]
    assert (
        main(["pack", str(path), "--calib", str(tmp_path / "data"), *labels, "-o", str(packed), "--golden", "2"]) == 0
    )
    assert "log_mel_s8" in capsys.readouterr().out
    assert main(["eval", str(packed), str(tmp_path / "data"), "--float", str(path)]) == 0
    assert "same answer as float on 100" in capsys.readouterr().out
    x = sounds(3)
    _, answers = floats(path, x)
    for kind, array in (("int16", x), ("float", (x / 32768).astype(np.float32))):
        np.savez(tmp_path / f"{kind}.npz", x=array, y=answers.argmax(1))
        assert main(["eval", str(packed), str(tmp_path / f"{kind}.npz"), "--float", str(path)]) == 0
        assert "same answer as float on 100" in capsys.readouterr().out
    assert main(["run", str(packed), str(tmp_path / "data" / "low" / "0.wav")]) == 0
    assert "low" in capsys.readouterr().out
    assert main(["pack", str(path), "--window", "x=160"]) == 1
    assert "takes all at once" in capsys.readouterr().err
    np.save(tmp_path / "g.npy", 16 * np.random.default_rng(0).standard_normal((4, 1, SAMPLES)).astype(np.float32))
    assert main(["pack", str(path), "--calib", str(tmp_path / "g.npy")]) == 1
    assert "int16 samples, or numbers from -1 to 1" in capsys.readouterr().err


def test_made_up_sound(tmp_path: Path) -> None:
    """Without samples, sound is taken to be from silent to loud, so that no recording saturates the features."""
    path, x = sound_graphs.torchaudio(tmp_path / "net.onnx", SAMPLES, 256, 160), sounds(4)
    packed = compile_file(path)
    t = packed.model.tensors[packed.model.steps[0].outputs[0]]
    features, _ = floats(path, x)
    low, high = (float((q - t.zero_point) * t.scale) for q in (-128, 127))
    assert np.mean((features > low) & (features < high)) > 0.95


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda p: sound_graphs.spectrum_alone(p, SAMPLES, 256, 128),
            r"'v1' \(STFT\): of it energies of bands go into node 'y' \(Gemm\); expected squares",
        ),
        (lambda p: sound_graphs.torchaudio(p, 8000, 4096, 1000), "no frames, of 2,048 samples at most"),
        (lambda p: sound_graphs.torchaudio(p, 4000, 1000, 1000), "take n_fft = 1024"),
    ],
)
def test_refused(make: Make, said: str, tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=said):
        compile_file(make(tmp_path / "net.onnx"))


def test_other_graphs_stay(tmp_path: Path) -> None:
    """A network that reads sound in another way: its convolution is none of cosines."""
    path = sound_graphs.convolutions(tmp_path / "net.onnx", SAMPLES, 128, 80)
    model = onnx.load(path)
    for t in model.graph.initializer:
        if list(t.dims) == [65, 1, 128]:
            noise = np.random.default_rng(0).standard_normal((65, 1, 128)).astype(np.float32)
            t.CopyFrom(onnx.numpy_helper.from_array(noise, t.name))
    onnx.save(model, path)
    g = recognise.run(import_onnx(path))
    assert recognise.found(g) is None and [n.op for n in g.nodes][:3] == ["Unsqueeze", "Conv", "Mul"]
