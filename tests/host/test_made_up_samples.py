"""A file that came quantised and is packed without --calib: made-up samples fill its own input range,
and no line accuses it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nets import Net

from mica.compile import compile_file, quality
from mica.data.calibration import default_samples
from mica.importer import import_onnx
from mica.passes import pipeline


def quantised(low: float, high: float) -> Net:
    """A convolution, a mean over the picture and a dense layer, all with scales of their own;
    input: from low to high."""
    net = Net()
    rng = np.random.default_rng(4)

    def rounded(x: str, low: float, high: float) -> str:
        scale = (high - low) / 255
        s, z = net.const(np.float32(scale)), net.const(np.int8(np.rint(-128 - low / scale)))
        return net.add("DequantizeLinear", net.add("QuantizeLinear", x, s, z), s, z)

    def weights(*shape: int, axis: int, size: float) -> str:
        w = net.const(rng.integers(-127, 128, shape).astype(np.int8))
        return net.add("DequantizeLinear", w, net.const(np.float32(size / 127)), net.const(np.int8(0)))

    size = 1 / (high - low)
    x = rounded(net.input([1, 3, 16, 16]), low, high)
    y = net.add("Relu", net.add("Conv", x, weights(8, 3, 3, 3, axis=0, size=size)))
    y = rounded(net.add("GlobalAveragePool", rounded(y, 0, 12)), 0, 8)
    y = net.add("Gemm", net.add("Flatten", y), weights(5, 8, axis=0, size=0.5), transB=1)
    net.output(rounded(y, -5, 5))
    return net


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 1), (0, 255), (-3, 0.5)])
def test_they_fill_the_range_of_the_file(low: float, high: float, tmp_path: Path) -> None:
    """Normal numbers of variance 1 fill none of these, and the mean of noise over a picture hardly varies."""
    path = quantised(low, high).save(tmp_path)
    x = np.array([s["x"] for s in default_samples(pipeline.run(import_onnx(path)))])
    step = (high - low) / 255
    assert low - step <= x.min() < low + 0.02 * (high - low) and high - 0.02 * (high - low) < x.max() <= high + step
    assert x.mean(axis=(3, 4)).std() > 0.15 * (high - low)
    found = quality.measure(compile_file(path))
    assert found is not None
    q = found.facts()
    assert q["data"] == "made up, own scales" and "+/-" not in q["line"]
    assert ("dB below the signal" in q["line"] and " made-up samples" in q["line"]) == (q["sqnr_db"] >= quality.GOOD)
    assert q["sqnr_db"] > 25 or low < 0, q["line"]  # the other files clip what they compute from such inputs


def test_a_poor_ratio_of_made_up_samples_is_not_told(tmp_path: Path) -> None:
    """The integers come from the file's maker, and nothing tells for which inputs."""
    net = quantised(-1, 1)
    found = quality.measure(compile_file(net.save(tmp_path)))
    assert found is not None
    for output in found.errors.outputs:
        output.found = [np.zeros_like(y) for y in output.found]
    line = found.facts()["line"]
    assert line.startswith("unknown: the file keeps its own integers; give real samples with --calib")
    assert " dB" not in line and "same answer" not in line and "worst" not in line
