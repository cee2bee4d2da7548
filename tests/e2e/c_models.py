"""Ten models for C programs: MLPerf Tiny's four, and one of each other kind that mica packs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import detectors
import numpy as np
import text_nets
from helpers import ROOT, reference_model

from mica.compile import compile_file
from mica.importer import vocabulary
from mica.passes.streaming import Window
from mica.quantise.choose_bits import Bits

MODELS = ROOT / "tests" / "models"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "rain", "snow", "sun", "soup", "bread", "salt", "##s", "##y"]
TEXTS = """(int32[1,16] ids) => (float[1,3] y) {
    words = Gather(e, ids)
    mean = ReduceMean<axes=[1], keepdims=0>(words)
    z = MatMul(mean, w)
    y = Softmax(z)
}"""


def _tflite(name: str, *windows: Window) -> bytes:
    return compile_file(reference_model("tflite") / f"{name}_int8.tflite", golden=2, windows=windows).data


def _with_samples(path: Path, bits: Bits | None = None) -> bytes:
    """Return a model packed with the samples beside it."""
    with np.load(path.with_suffix(".npz")) as data:
        samples = {k: data[k] for k in data.files if "/" not in k and k not in ("about", "y")}
    return compile_file(path, samples, golden=2, plain=True, bits=bits).data


def _texts(folder: Path) -> bytes:
    rng = np.random.default_rng(1)
    e, w = rng.normal(0, 1, (len(WORDS), 8)).astype(np.float32), rng.normal(0, 1, (8, 3)).astype(np.float32)
    net = text_nets.save(folder / "texts.onnx", TEXTS, e=e, w=w)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    samples = rng.integers(0, len(WORDS), (8, 16)).astype(np.int32)
    return compile_file(
        net, {"ids": samples}, tokens=vocabulary.read(str(folder / "vocab.txt")), golden=2, plain=True
    ).data


TEN: dict[str, Callable[[Path], bytes]] = {
    **{name: lambda _, name=name: _tflite(name) for name in ("kws", "ic", "vww", "ad")},  # type: ignore[misc]
    "wake_word": lambda _: _tflite("sww", Window("input_1", None, 1)),
    "gru": lambda _: _with_samples(MODELS / "exports" / "keras_gru.onnx"),
    "forest": lambda _: _with_samples(MODELS / "classic" / "forest.onnx"),
    "texts": _texts,
    "detector": lambda folder: compile_file(detectors.ultralytics().save(folder), golden=2, plain=True).data,
    "four_bits": lambda _: _with_samples(MODELS / "exports" / "dynamo_cnn.onnx", Bits()),
}
