"""Normalisation over whole maps: constants a channel in the file, not an element.
ONNX Runtime gives the expected values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nets import Net, assert_same, core, ops

from mica.compile import compile_file

TRIAL = Path(__file__).resolve().parents[2].parent / "shared" / "trials" / "norm-of-a-map"


def normalised(form: str) -> Net:
    """A convolution, a normalisation over channels and time with a gain and shift a channel, and a convolution."""
    net = Net(23)
    x = net.add("Conv", net.input([1, 3, 64]), net.random(16, 3, 3))
    gain, shift = net.random(16, 1), net.random(16, 1)
    if form in ("global", "one pixel"):  # as Conv-TasNet's gLN is exported
        axes = net.const(np.array([1, 2]))
        d = net.add("Sub", x, net.add("ReduceMean", x, axes))
        e = net.add("Add", net.add("ReduceMean", net.add("Mul", d, d), axes), net.const(np.float32(1e-5)))
        y = net.add("Div", d, net.add("Sqrt", e))
    elif form == "last":  # Keras' order: channels are the last axis
        t = net.add("Transpose", x, perm=[0, 2, 1])
        gamma, beta = (net.const(np.tile(net.rng.normal(1, 0.3, 16).astype(np.float32), (62, 1))) for _ in "gb")
        y = net.add("Transpose", net.add("LayerNormalization", t, gamma, beta, axis=1), perm=[0, 2, 1])
    else:
        y = net.add("LayerNormalization", x, net.const(np.ones((16, 62), np.float32)), axis=1)
    if form in ("global", "one pixel"):
        y = net.add("Add", net.add("Mul", y, gain), shift)
    width = 1 if form == "one pixel" else 3
    net.output(net.add("Conv", y, net.random(4, 16, width), pads=[width // 2] * 2))
    return net


@pytest.mark.parametrize("form", ["global", "last", "without", "one pixel"])
def test_constants_of_channels(form: str, tmp_path: Path) -> None:
    net = normalised(form)
    g = core(net, tmp_path)
    assert_same(net, g)
    (norm,) = (n for n in g.nodes if n.op == "LayerNorm")
    assert g.value(norm.inputs[1]).size == (1 if form in ("without", "one pixel") else 16), (
        "a convolution of one pixel takes them"
    )
    moves = [o for o in ops(g) if o not in ("Conv2d", "LayerNorm")]
    assert moves in ([], ["Transpose"] * 2), "one before the first layer and one behind the last"


@pytest.mark.skipif(not TRIAL.is_dir(), reason="the folder ../shared/trials is missing")
def test_a_small_conv_tasnet() -> None:
    """Nine global norms: 692,672 bytes at 8260eed; and as near to ONNX Runtime as then."""
    data = dict(np.load(TRIAL / "calib.npz"))
    packed = compile_file(TRIAL / "model.onnx", data, plain=True)
    assert len(packed.data) < 44_600, "1.2 times its integers"
