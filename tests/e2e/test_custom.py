"""An operator of the user's own: from an ONNX node of a domain of its own to a function on the board."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import text_nets
from helpers import Result, mica

from mica.custom import CustomOps, Operator
from mica.errors import Unsupported
from mica.file import codec
from mica.kernels.custom import custom_definition

HOST = """
import numpy as np

def bump(x, gain=1.0, shifts=()):
    return gain * x * x + np.float32(sum(shifts))

OPERATORS = {"Bump": bump, "Both": lambda a, b: a * b}
SHAPES = {"Both": lambda a, b: a}
BOARD = '''
import mica

def bump(inputs, outputs, attributes):
    gain, more = attributes["gain"], sum(attributes["shifts"])
    outputs[0].store([gain * v * v + more for v in inputs[0].load()])

def both(inputs, outputs, attributes):
    a, b = inputs
    outputs[0].store([p * q for p, q in zip(a.load(), b.load())])

mica.register("Bump", bump)
mica.register("Both", both)
'''
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model: a convolution, Bump of it, both multiplied, a Relu; the file of operators, and samples."""
    folder = tmp_path_factory.mktemp("custom")
    (folder / "ops.py").write_text(HOST)
    rng = np.random.default_rng(1)
    weights = rng.normal(0, 0.3, (4, 2, 3, 3)).astype(np.float32)
    text = """(float[1,2,5,6] x) => (float[1,4,5,6] y) {
        [conv] c = Conv<pads = [1, 1, 1, 1]>(x, w)
        [bump] d = user.Bump<gain = 0.5, shifts = [1, -2]>(c)
        [both] e = user.Both(c, d)
        [relu] y = Relu(e)
    }"""
    text_nets.save(folder / "mine.onnx", text, domains=("user",), w=weights)
    np.savez(folder / "x.npz", x=rng.normal(0, 1, (20, 2, 5, 6)).astype(np.float32))
    return folder


@pytest.fixture(scope="module")
def packed(folder: Path) -> Path:
    result = mica(
        *("pack", folder / "mine.onnx", "--calib", folder / "x.npz", "--custom", folder / "ops.py"),
        *("-o", folder / "mine.mica", "--golden", 1),
    )
    assert result.code == 0, result.err
    return folder / "mine.mica"


def test_file(packed: Path) -> None:
    """The steps carry name and attributes, and the kernel's bit is set."""
    model = codec.decode(packed.read_bytes())
    steps = [s for s in model.steps if s.kernel == "custom_s8"]
    said = [custom_definition(s.blobs["definition"].tobytes()) for s in steps]
    assert said == [("Bump", {"gain": 0.5, "shifts": [1, -2]}), ("Both", {})]
    assert "custom_s8" in model.kernels


def test_host_is_near_the_float_function(packed: Path, folder: Path) -> None:
    from mica.run.host import HostRunner

    with HostRunner(packed.read_bytes(), CustomOps.read([folder / "ops.py"])) as runner:
        samples = np.load(folder / "x.npz")["x"]
        y = runner.predict(samples)
        file = runner.model
        steps = [s for s in file.steps if s.kernel == "custom_s8"]
        runner.run([runner.quantise([samples[0]])])
        c, d = (runner.loaded.tensor(t) for t in (steps[0].inputs[0], steps[0].outputs[0]))
        qc, qd = (file.tensors[t] for t in (steps[0].inputs[0], steps[0].outputs[0]))
    real = 0.5 * (qc.scale * (c.astype(np.float64) - qc.zero_point)) ** 2 - 1
    expected = np.clip(np.rint(real / qd.scale) + qd.zero_point, -128, 127)
    assert np.abs(expected - d).max() <= 1 and np.unique(d).size > 20
    assert y.shape == (20, 1, 4, 5, 6) or y.shape == (20, 4, 5, 6)
    assert y.std() > 0.05


def test_two_sets_of_operators_do_not_meet(folder: Path) -> None:
    """Operators are values: one program compiles and runs the same file with others of the same names."""
    from mica.compile import compile_file
    from mica.run.host import HostRunner

    with np.load(folder / "x.npz") as file:
        x = file["x"]
    both = Operator("Both", lambda a, b: a * b)
    outputs = []
    for factor in (1.0, 3.0):
        ops = CustomOps({"Bump": Operator("Bump", lambda x, gain, shifts, k=factor: k * x * x), "Both": both})
        compiled = compile_file(folder / "mine.onnx", {"x": x}, custom=ops)
        with HostRunner(compiled.data, compiled.custom) as runner:
            outputs.append((runner, runner.predict(x[:4])))
    (first, once), (_, thrice) = outputs
    assert np.allclose(3 * once, thrice, atol=0.05 * thrice.max()) and once.max() > 0
    assert np.array_equal(first.predict(x[:4]), once)  # as if there were no other
    with HostRunner(first.data) as runner, pytest.raises(Unsupported, match="operator Bump is the user's own"):
        runner.predict(x[:1])


@pytest.mark.parametrize("target", ["UNIX", "MPS2_AN385"])
def test_board_gives_the_same_bytes(packed: Path, folder: Path, target: str) -> None:
    result = mica("verify", packed, "--on", target, "--custom", folder / "ops.py", "--json")
    assert result.code == 0, result.err
    assert result.json["equal"] and result.json["layers"] >= 3


def one_line(result: Result, *said: str) -> None:
    assert result.code in (1, 2) and len(result.err.splitlines()) == 1, result.err
    for text in said:
        assert text in result.err


def test_refusals(packed: Path, folder: Path, tmp_path: Path) -> None:
    one_line(
        mica("pack", folder / "mine.onnx", "-o", tmp_path / "m.mica", "--custom", tmp_path / "no.py"), "no such file"
    )
    one_line(mica("run", packed, folder / "x.npz"), "Bump", "--custom")
    bad = tmp_path / "bad.py"
    bad.write_text("OPERATORS = 3\n")
    one_line(mica("run", packed, folder / "x.npz", "--custom", bad), "OPERATORS")
    bad.write_text("1 / 0\n")
    one_line(mica("run", packed, folder / "x.npz", "--custom", bad), "ZeroDivisionError")
    bad.write_text("OPERATORS = {'Bump': lambda x, gain, shifts: x[0], 'Both': lambda a, b: a}\n")
    one_line(mica("run", packed, folder / "x.npz", "--custom", bad), "Bump gave shape")
    unknown = mica("pack", folder / "mine.onnx", "-o", tmp_path / "m.mica")
    assert unknown.code == 2 and "domain 'user'" in unknown.err and "--custom" in unknown.err


def test_board_without_the_function(packed: Path) -> None:
    one_line(mica("run", packed, packed.with_name("x.npz"), "--on", "UNIX"), "mica.register('Bump', f)")
