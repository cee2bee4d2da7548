"""`scripts/bench/run --only host`: both are asked for the same model. How long they take is not looked at."""

from pathlib import Path

import host_bench
import pytest

from mica import demo, engine

TFLITE = Path(__file__).resolve().parents[3] / "shared" / "models" / "tflite" / "ad_int8.tflite"


def _is_whole(row: dict[str, float]) -> None:
    assert set(row) == {"engine", "peer", "ratio"} and min(row.values()) > 0


def test_beside_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_bench, "SECONDS", 0.001)
    folder = Path(demo.__file__).parent
    _is_whole(host_bench.beside_onnxruntime(folder / "digits.onnx", folder / "digits_calib.npz"))
    assert engine.NAME.endswith(("vector kernels)", "avx2 kernels)", "avx512vnni kernels)"))


@pytest.mark.skipif(not TFLITE.exists(), reason="the reference models are not beside this checkout")
def test_beside_litert(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_bench, "SECONDS", 0.001)
    _is_whole(host_bench.beside_litert(TFLITE))
