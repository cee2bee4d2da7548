"""The same command gives the same bytes, whichever float kernels it runs on. All of them: `scripts/same_bytes`."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import sys
from pathlib import Path

from mica.cli import model_options, pack
from mica.cli.main import main
from mica.file import codec

ROOT = Path(__file__).resolve().parent.parent.parent
DEMO = ROOT / "host_tools" / "mica" / "demo"
_spec = importlib.util.spec_from_file_location("same_bytes", ROOT / "scripts" / "same_bytes.py")
assert _spec is not None and _spec.loader is not None
same_bytes = importlib.util.module_from_spec(_spec)
sys.modules["same_bytes"] = same_bytes
_spec.loader.exec_module(same_bytes)


def test_digits() -> None:
    """The least that this machine has, with two threads, against the most."""
    cores = same_bytes.cores() or [None]
    settings = [same_bytes.Setting(cores[0], threads=2, simd=False), same_bytes.Setting(cores[-1])]
    processes = [same_bytes.start("digits", setting) for setting in settings]
    found = [json.loads(process.communicate()[0]) for process in processes]
    assert [same_bytes.without_effect(s, f) for s, f in zip(settings, found, strict=True)] == [[], []]
    assert found[0]["functions"] == found[1]["functions"]
    assert found[0]["file"] == found[1]["file"]


def test_the_file_says_which_command_made_it(tmp_path: Path) -> None:
    """The command in the file does not depend on folders, or on the order of options."""
    (tmp_path / "a folder").mkdir()
    there = tmp_path / "a folder" / "digits.onnx"
    there.write_bytes((DEMO / "digits.onnx").read_bytes())
    calib = ["--calib", str(DEMO / "digits_calib.npz")]
    plain = ["--plain", "--calib-method", "minmax", "--name", "two words"]
    assert main(["pack", str(DEMO / "digits.onnx"), *calib, *plain, "-o", str(tmp_path / "a.mica"), "--json"]) == 0
    assert main(["pack", *plain, *calib, str(there), "-o", str(tmp_path / "b.mica"), "--json"]) == 0
    data = (tmp_path / "a.mica").read_bytes()
    assert data == (tmp_path / "b.mica").read_bytes()
    said = codec.decode(data).metadata["command"]
    assert said == ("mica pack digits.onnx --plain --calib digits_calib.npz --calib-method minmax --name 'two words'")


def test_the_command_has_all_options_that_reach_the_file() -> None:
    parser = argparse.ArgumentParser()
    pack.add_arguments(parser)
    words = [
        *("f/m.onnx", "-o", "out.mica", "--calib", "f/c.npz", "--plain", "--pixel-scale", "1/2", "--pixel-offset", "1"),
        *("--data", "f/e.npz", "--shape", "N=1", "--shape", "M=2", "--labels", "f/l.txt", "--board", "RPI_PICO"),
        *("--state", "a=b", "--window", "x=3", "--golden", "2", "--custom", "f/o.py"),
    ]
    said = model_options.command(parser.parse_args(words), "f/m.onnx").split()
    assert sorted(said) == sorted(
        ["mica", "pack", *(w.removeprefix("f/") for w in words if "out" not in w and w != "-o")]
    )


# numpy's results of these depend on the processor. Matrix products are for modules whose operands are whole numbers.
INEXACT = {
    *("arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "cos", "cosh", "sin", "sinh", "tan", "tanh"),
    *("exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "logaddexp", "power", "cbrt", "hypot"),
    *("dot", "einsum", "inner", "linalg", "tensordot", "vdot", "convolve", "correlate"),
}
WHOLE = {
    "exact.py",
    "float_ops.py",
    "int8.py",
    "learning.py",
    "lowbits.py",
    "lstm_effect.py",
    "moments.py",
    "products.py",
}
WHOLE |= {"rounding.py"}


def test_nothing_inexact_on_the_way_to_the_file() -> None:
    bad = []
    for path in [
        p for room in ("quantise", "reference", "pack") for p in (ROOT / "host_tools/mica" / room).rglob("*.py")
    ]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            of_numpy = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "np"
            if of_numpy and node.attr in INEXACT and path.name not in ("int8.py", "pdm.py"):
                bad.append(f"{path.name}:{node.lineno}: np.{node.attr}")
            product = (isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)) or (
                of_numpy and node.attr == "matmul"
            )
            if product and path.name not in WHOLE:
                bad.append(f"{path.name}:{node.lineno}: a matrix product")
    assert not bad
