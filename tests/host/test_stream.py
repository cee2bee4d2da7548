"""`pack --stream`: a model that computes new rows only answers as the whole window, byte for byte,
on networks of every kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nets import Net

from mica import engine
from mica.cli.main import main
from mica.compile import compile_file
from mica.errors import MicaError
from mica.file import codec
from mica.format.values import quantise_input
from mica.passes.streaming import Window

RUNS = 6  # after the first whole window


def conv(net: Net, x: str, c_in: int, c_out: int, k: int, pad: int = 0, **attrs: int) -> str:
    """Along time, which is the last axis but one, and ReLU."""
    group = attrs.pop("group", 1)
    w = net.random(c_out, c_in // group, k, 1)
    more = {name: [n, 1] for name, n in attrs.items()}
    y = net.add("Conv", x, w, net.random(c_out), kernel_shape=[k, 1], pads=[pad, 0, pad, 0], group=group, **more)
    return net.add("Relu", y)


def head(net: Net, x: str, features: int) -> None:
    x = net.add("Flatten", x)
    net.output(net.add("Softmax", net.add("Gemm", x, net.random(3, features), transB=1)))


def chain(net: Net) -> None:
    """A chain of layers as in keyword spotting, down to one row."""
    x = net.input([1, 4, 14, 1])
    x = conv(net, conv(net, x, 4, 8, 3), 8, 8, 5, group=8)
    head(net, conv(net, x, 8, 6, 8), 6)


def mean(net: Net) -> None:
    """A mean over the rest of the time: that layer needs all rows."""
    x = conv(net, conv(net, net.input([1, 4, 12, 1]), 4, 8, 3), 8, 8, 3, dilations=2)
    head(net, net.add("GlobalAveragePool", x), 8)


def strides(net: Net) -> None:
    """Two new rows make one, and a row at the end is left over."""
    x = conv(net, net.input([1, 4, 16, 1]), 4, 8, 3, strides=2)
    x = net.add("MaxPool", x, kernel_shape=[3, 1], strides=[1, 1])
    head(net, conv(net, x, 8, 4, 2), 16)


def sides(net: Net) -> None:
    """Sums of branches, which see different rows; a layer that pads; the same rows read by three layers."""
    x = conv(net, net.input([1, 4, 11, 1]), 4, 4, 3)
    y = net.add("Add", x, conv(net, x, 4, 4, 1))
    y = net.add("Add", y, net.add("Sigmoid", conv(net, y, 4, 4, 1)))
    y = conv(net, conv(net, y, 4, 4, 3), 4, 4, 3, pad=1)
    head(net, y, 28)


def weighted(net: Net) -> None:
    """Weights over all of the time, which are not rows of their own, times new rows; and the other way round."""
    x = conv(net, net.input([1, 4, 12, 1]), 4, 4, 3)
    a = net.add("Softmax", conv(net, x, 4, 4, 1), axis=2)
    head(net, net.add("Add", net.add("Mul", a, x), net.add("Mul", x, a)), 40)


CASES = [
    (weighted, 1),
    (chain, 1),
    (chain, 3),
    (mean, 1),
    (mean, 2),
    (strides, 2),
    (strides, 4),
    (sides, 1),
    (sides, 2),
]


def data(shape: tuple[int, ...], n: int) -> np.ndarray:
    """A signal [1, channels, n, 1] that changes from row to row."""
    rng = np.random.default_rng(5)
    return (np.sin(np.arange(n) * 0.7)[:, None] + rng.standard_normal((1, shape[1], n, 1)) * 0.5).astype(np.float32)


@pytest.mark.parametrize(("build", "rows"), CASES, ids=lambda v: getattr(v, "__name__", str(v)))
def test_equals_the_window(build, rows: int, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    net = Net(seed=2)
    build(net)
    path = net.save(tmp_path)
    shape = tuple(d.dim_value for d in net.inputs[0].type.tensor_type.shape.dim)
    length = shape[2]
    x = data(shape, length + (RUNS + 1) * rows)
    calib = {"x": np.stack([x[0, :, k : k + length] for k in range(RUNS)])}
    whole, step = (compile_file(path, calib, step=w) for w in (None, Window("x", 2, rows)))
    assert step.macs < whole.macs and step.model.state_bytes
    first, later = engine.load(whole.data), engine.load(step.data)
    same, answers = [], []
    t = whole.model.tensors[whole.model.inputs[0]]
    q = np.clip(np.rint(x / t.scale) + t.zero_point, -128, 127).astype(np.int8)
    for end in range(rows, q.shape[2] + 1, rows):
        later.set_input(0, np.ascontiguousarray(q[:, :, end - rows : end]))
        later.run()
        if end >= length:
            first.set_input(0, np.ascontiguousarray(q[:, :, end - length : end]))
            first.run()
            answers.append(first.output(0).copy())
            same.append(bool((answers[-1] == later.output(0)).all()))
    assert len(same) >= RUNS and all(same), same
    assert len(set(map(bytes, answers))) > 1, "a network that always says the same"


def test_golden_vectors(tmp_path: Path) -> None:
    """The newest rows of calibration windows; the first run's answers, from states of zeros."""
    net = Net(seed=2)
    chain(net)
    path, packed = net.save(tmp_path), tmp_path / "net.mica"
    windows = np.random.default_rng(0).standard_normal((16, 4, 14, 1)).astype(np.float32)
    np.savez(tmp_path / "calib.npz", x=windows)
    words = ["--calib", str(tmp_path / "calib.npz"), "--stream", "x:2=2", "--golden", "2", "-o", str(packed)]
    assert main(["pack", str(path), *words]) == 0
    model = codec.decode(packed.read_bytes())
    t = model.tensors[model.inputs[0]]
    assert t.dims == (1, 4, 2, 1) and len(model.golden) == 2
    for k, vector in enumerate(model.golden):
        (x,) = vector.inputs
        np.testing.assert_array_equal(x.reshape(t.dims), quantise_input(windows[k : k + 1, :, -2:], t))


def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = Net(seed=2)
    x = net.input([1, 4, 12, 1])
    head(net, conv(net, x, 4, 8, 3, pad=1), 96)
    path = net.save(tmp_path)
    with pytest.raises(MicaError, match=r"--stream x=1: no layer can work on new rows alone; .* needs all of them"):
        compile_file(path, step=Window("x", 2, 1))
    for words, said in (
        (["--stream", "x:2=12"], "has 12 rows on axis 2; expected 1 to 11"),
        (["--stream", "x:1"], "expected INPUT=N"),
        (["--stream", "z=1"], "no input 'z'; its inputs are x"),
        (["--stream", "x=1", "--window", "x=1"], "leave --window and --state out"),
        (["--stream", "x:9=1"], "axis 9"),
    ):
        assert main(["pack", str(path), "-o", str(tmp_path / "m.mica"), *words]) == 1
        error = capsys.readouterr().err
        assert said in error and "Traceback" not in error, error
