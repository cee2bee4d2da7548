"""Networks in several files become one model: the answers are those of ONNX Runtime, one network after the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import text_nets

from mica.cli.main import main
from mica.compile import compile_file
from mica.file.codec import decode
from mica.passes.streaming import Window
from mica.run.host import HostRunner

MELS, ROWS, NEW, EMBEDDED, KEPT = 6, 12, 4, 8, 3  # as openWakeWord's: 32 bands, 76 rows of which 8 are new, 96, 16


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """An embedding [1, ROWS, MELS, 1] -> [1, 1, 1, EMBEDDED], and a classifier of the last KEPT;
    some of their names are the same."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=(EMBEDDED, 1, ROWS, MELS)).astype(np.float32) / 8
    text = f"(float[1,{ROWS},{MELS},1] x) => (float[1,1,1,{EMBEDDED}] y) {{ "
    text += "t = Transpose<perm = [0, 3, 1, 2]>(x) c = Conv(t, w) r = Relu(c) y = Transpose<perm = [0, 2, 3, 1]>(r) }"
    first = text_nets.save(tmp_path / "embed.onnx", text, w=w)
    w = rng.normal(size=(KEPT * EMBEDDED, 1)).astype(np.float32) / 2
    text = f"(float[1,{KEPT},{EMBEDDED}] x) => (float[1,1] y) {{ r = Flatten(x) g = MatMul(r, w) y = Sigmoid(g) }}"
    return first, text_nets.save(tmp_path / "word.onnx", text, w=w)


def test_rows_of_earlier_runs(files: tuple[Path, Path]) -> None:
    """Features slide, and so do embeddings: each run takes NEW rows and gives one answer."""
    rng, n = np.random.default_rng(1), 60
    rows = rng.normal(size=(n * NEW, MELS)).astype(np.float32)
    given = rows.reshape(n, 1, NEW, MELS, 1)
    compiled = compile_file(
        files[0], {"x": given[:, 0]}, joined=(files[1],), windows=(Window("x", 1, NEW),), plain=True
    )
    model = compiled.model
    assert [model.tensors[i].dims for i in model.inputs] == [(1, NEW, MELS, 1)]
    embed, word = (onnxruntime.InferenceSession(str(path)) for path in files)
    padded = np.concatenate([np.zeros((ROWS - NEW, MELS), np.float32), rows])
    seen = [np.zeros(EMBEDDED, np.float32)] * KEPT
    expected = []
    for end in range(ROWS, len(padded) + 1, NEW):
        seen = [*seen[1:], embed.run(None, {"x": padded[None, end - ROWS : end, :, None]})[0].reshape(-1)]
        expected.append(word.run(None, {"x": np.stack(seen)[None]})[0].item())
    with HostRunner(compiled.data) as runner:
        found = [runner.predict(x[None])[0].item() for x in given]
    assert np.ptp(expected) > 0.5 and np.abs(np.array(found) - expected).max() < 0.05


def test_front_end_of_openwakeword(tmp_path: Path, files: tuple[Path, Path]) -> None:
    """`pack EMBEDDING CLASSIFIER --frontend logmel:openwakeword`; in the file is the command that made it."""
    rng = np.random.default_rng(2)
    w = rng.normal(size=(EMBEDDED, 1, ROWS, 32)).astype(np.float32) / 30
    text = f"(float[1,{ROWS},32,1] x) => (float[1,1,1,{EMBEDDED}] y) "
    text += "{ t = Transpose<perm = [0, 3, 1, 2]>(x) c = Conv(t, w) "
    text_nets.save(files[0], text + "y = Transpose<perm = [0, 2, 3, 1]>(c) }", w=w)
    np.savez(tmp_path / "x.npz", x=rng.normal(size=(40, 400 + (NEW - 1) * 160)) * 1000)
    words = ["--frontend", "logmel:openwakeword", "--window", f"x:1={NEW}", "--calib", str(tmp_path / "x.npz")]
    out = tmp_path / "word.mica"
    assert main(["pack", *map(str, files), *words, "--plain", "-o", str(out)]) == 0
    model = decode(out.read_bytes())
    assert [model.tensors[i].dims for i in model.inputs] == [(1, 400 + (NEW - 1) * 160)]
    assert model.metadata["command"].startswith("mica pack embed.onnx word.onnx ")


def test_refused(files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["-o", str(tmp_path / "net.mica")]
    assert main(["pack", str(files[1]), str(files[0]), *out]) == 1
    line = "word.onnx gives 'y' [1, 1], and embed.onnx takes 'x.2' [1, 12, 6, 1]; expected one, with as many numbers"
    assert line in capsys.readouterr().err
    two = text_nets.save(tmp_path / "two.onnx", "(float[1,4] a, float[1,4] b) => (float[1,4] c) { c = Add(a, b) }")
    assert main(["pack", str(files[1]), str(two), *out]) == 1
    assert "word.onnx has the outputs y, and two.onnx takes a, b" in capsys.readouterr().err
    assert main(["pack", *map(str, files), "--data", str(tmp_path / "x.npz"), *out]) == 1
    assert "--data compares with one float model" in capsys.readouterr().err
