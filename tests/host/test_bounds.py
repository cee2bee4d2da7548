"""Small files that ask for much memory are refused with one line, before the memory is taken."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mica.cli.main import main
from mica.errors import MicaError
from mica.importer.bounds import Bound, range_size
from mica.ir.graph import Value

ROOM = 2 << 30  # bytes of address space besides what Python and its libraries have
Inits = dict[str, np.ndarray]


def made(path: Path, nodes: list[onnx.NodeProto], inits: Inits, x: Sequence[int] = (1, 4)) -> Path:
    """A graph from x to y; the constants are folded into one number, c, that is added to x unless y is made already."""
    if not any("y" in n.output for n in nodes):
        nodes = [
            *nodes,
            helper.make_node("ReduceSum", ["c"], ["sum"], keepdims=0),
            helper.make_node("Add", ["x", "sum"], ["y"]),
        ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [f"d{k}" for k in range(len(x))])],
        [numpy_helper.from_array(a, name) for name, a in inits.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def node(op: str, *inputs: str, to: str = "c", **attrs: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs, [to], f"{op} {to}", **attrs)


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


TILES = [node("Tile", f"t{k}", "ten", to=f"t{k + 1}") for k in range(9)] + [node("Tile", "t9", "ten")]
TWO = [node("ConstantOfShape", "s", to="a"), node("ConstantOfShape", "s", to="b"), node("MatMul", "a", "b")]
SPARSE = helper.make_sparse_tensor(
    helper.make_tensor("v", TensorProto.FLOAT, [1], [1.0]),
    helper.make_tensor("i", TensorProto.INT64, [1], [5]),
    [10**9],
)

# name, nodes, constants, shape of the input, what the line must hold
GREEDY: list[tuple[str, list[onnx.NodeProto], Inits, Sequence[int], str]] = [
    ("ConstantOfShape", [node("ConstantOfShape", "s")], {"s": ints(2 * 10**9)}, (1, 4), "8,000,000,000 bytes"),
    ("ten Tile(10)", TILES, {"t0": np.ones(4, np.float32), "ten": ints(10)}, (1, 4), "(Tile): it would fold"),
    ("MatMul of two", TWO, {"s": ints(20000, 20000)}, (1, 4), "1,600,000,000 bytes"),
    ("sparse", [helper.make_node("Constant", [], ["c"], sparse_value=SPARSE)], {}, (1, 4), "4,000,000,000 bytes"),
    ("Expand", [node("Expand", "k", "s")], {"k": np.ones(1, np.float32), "s": ints(10**9)}, (1, 4), "(Expand)"),
    (
        "Einsum",
        [node("Einsum", "k", "k", equation="i,j->ij")],
        {"k": np.ones(40000, np.float32)},
        (1, 4),
        "6,400,000,000 bytes",
    ),
    (
        "Range",
        [node("Range", "from", "to", "by")],
        {"from": np.array([0]), "to": np.array([2 * 10**9]), "by": np.array([1])},
        (1, 4),
        "16,000,000,000 bytes",
    ),
    (
        "Pad of a constant",
        [node("Pad", "k", "p")],
        {"k": np.ones(2, np.float32), "p": ints(0, 2 * 10**9)},
        (1, 4),
        "(Pad): it would fold",
    ),
    ("Pad", [node("Pad", "x", "p", to="y")], {"p": ints(0, 2 * 10**9, 0, 0)}, (1, 4), "2,000,000,004 elements"),
    ("large input", [node("Relu", "x", to="y")], {}, (1, 60000, 60000), "3,600,000,000 elements"),
    ("input of 2**93", [node("Relu", "x", to="y")], {}, (1, 2**31, 2**31, 2**31), "input 'x': a tensor of shape"),
    ("made-up input", [node("Relu", "x", to="y")], {}, (1, 9, 1000, 1000), "Give real ones with --calib"),
]


def limited(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run mica with a limit on memory and on processor time: a command that passes either has not refused promptly."""
    code = (
        "import resource, sys; import numpy, onnx, mica.cli.pack, mica.compile, mica.importer\n"
        "from mica.cli.main import main\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        f"resource.setrlimit(resource.RLIMIT_AS, (used + {ROOM},) * 2)\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (60, 60))\n"
        "sys.exit(main())"
    )
    return subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("nodes", "inits", "x", "words"), [row[1:] for row in GREEDY], ids=[row[0] for row in GREEDY])
def test_greedy_models(
    nodes: list[onnx.NodeProto],
    inits: Inits,
    x: Sequence[int],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = made(tmp_path / "net.onnx", nodes, inits, x)
    code = main(["pack", str(path)])
    err = "\n".join(line for line in capsys.readouterr().err.splitlines() if "warning" not in line)
    assert code in (1, 2), err
    assert words in err
    assert "a bug in mica" not in err
    assert not path.with_suffix(".mica").exists()


def test_all_folded_constants_together() -> None:
    bound = Bound(0)
    one = np.zeros(bound.each, np.uint8)
    bound.check({"a": (one.shape, "uint8")})
    with pytest.raises(ValueError, match="would fold to a constant"):
        bound.check({"a": ((bound.each + 1,), "uint8")})
    with pytest.raises(ValueError, match="folded so far"):
        for _ in range(5):
            bound.take([one])


def test_elements_beyond_64_bits() -> None:
    assert Value("x", (2**31, 2**31, 2**31)).size == 2**93


def test_weights_next_to_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without samples, no message asks the user to clean them."""
    path = made(tmp_path / "net.onnx", [node("MatMul", "x", "w", to="y")], {"w": np.full((4, 4), 1e-45, np.float32)})
    assert main(["pack", str(path)]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert "no --calib" in line


def header(shape: tuple[int, ...]) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return file.getvalue()


def archive(path: Path, content: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as out:
        for name, data in content.items():
            out.writestr(name, data)
    return path


def test_arrays_that_claim_or_unpack_to_much(tmp_path: Path) -> None:
    from mica.data.calibration import read_arrays

    claims = header((10**12, 1, 8, 8)) + bytes(100)
    npy = tmp_path / "rows.npy"
    npy.write_bytes(claims)
    with pytest.raises(MicaError, match=r"claims 256,000,000,000,000 bytes of float32"):
        read_arrays(npy)
    with pytest.raises(MicaError, match="'x' claims"):
        read_arrays(archive(tmp_path / "rows.npz", {"x.npy": claims}))
    zeros = bytes(30 << 20)
    bomb = archive(tmp_path / "bomb.npz", {f"a{k}.npy": header((30 << 18,)) + zeros for k in range(9)})
    with pytest.raises(MicaError, match=r"holds numbers of 283,115,520 bytes.*8 MB and 20 times"):
        read_arrays(bomb)
    np.savez_compressed(tmp_path / "small.npz", x=np.zeros((100, 1, 8, 8), np.float32))
    assert read_arrays(tmp_path / "small.npz")["x"].shape == (100, 1, 8, 8)


def test_scale_may_not_make_samples_larger(tmp_path: Path) -> None:
    from mica.data.calibration import decode

    with pytest.raises(MicaError, match=r"'scale' \[4, 1\]"):
        decode({"x": np.ones((4,), np.float32), "scale": np.ones((4, 1), np.float32)}, "a.npz")


def test_too_little_memory_is_one_line(tmp_path: Path) -> None:
    """Within the bounds, on a computer that has not even that."""
    path = made(tmp_path / "net.onnx", [node("Relu", "x", to="y")], {}, (1, 4))
    samples = tmp_path / "x.npy"
    with samples.open("wb") as file:
        file.write(header((ROOM // 8, 4)))  # a file with a hole, which takes no room on the disk
        file.truncate(file.tell() + 2 * ROOM)
    done = limited(["pack", str(path), "--calib", str(samples)])
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("mica: error: this computer has not enough memory: "), done.stderr
    assert "a bug in mica" not in done.stderr and len(done.stderr.splitlines()) == 1


def test_range() -> None:
    assert range_size(*(np.array([n]) for n in (3, 11, 4))) == ((2,), "int64")
    assert range_size(*(np.array(n, np.float32) for n in (0, -1, 1))) == ((0,), "float32")
    for ends in ((0, 5, 0), (np.nan, 5, 1), (-1e308, 1e308, 1)):
        with pytest.raises(ValueError, match="no steps"):
            range_size(*(np.array(n, np.float64) for n in ends))
    with pytest.raises(ValueError, match="one number"):
        range_size(np.array([1, 2]), np.array(3), np.array(1))
