"""`scripts/bench/run --only host`: both are asked for the same model. How long they take is not looked at."""

from pathlib import Path

import host_bench
import pytest

from mica import demo, engine


def test_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_bench, "SECONDS", 0.001)
    folder = Path(demo.__file__).parent
    row = host_bench.ratio(folder / "digits.onnx", folder / "digits_calib.npz")
    assert set(row) == {"engine", "onnxruntime", "ratio"} and min(row.values()) > 0
    assert row["ratio"] == pytest.approx(row["engine"] / row["onnxruntime"])
    assert engine.NAME.endswith(("vector kernels)", "avx2 kernels)", "avx512vnni kernels)"))
