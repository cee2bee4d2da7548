"""`mica build --for`: only what some models need is in the image; `--with fallback` lets others run in MicroPython."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from helpers import DEMO, Result, mica

from mica.boards import load_board
from mica.file import codec
from mica.file.codec import ModelFile, StepRecord, TensorRecord
from mica.kernels import KERNELS
from mica.link.board import BoardError, Link
from mica.link.emulated import EmulatedBoard
from mica.run.host import HostRunner

BOARD = "MPS2_AN385"
KEPT = {"max_pool2d_s8", "fully_connected_s8", "softmax_s8"}


def _file(path: Path, kernels: set[str]) -> Path:
    """A model of these kernels, one step each: never run, only looked at."""
    ones = {"bias": np.zeros(1, np.int32), "mult": np.full(1, 2**30, np.int32), "shift": np.zeros(1, np.int8)}
    act = {"act_min": -128, "act_max": 127}
    window = {f"{n}_{a}": 1 for n in ("kernel", "stride", "dilation") for a in "hw"}
    table = {"table": np.full(512, 2**15, np.uint32)}
    what: dict[str, tuple[dict[str, int], dict[str, np.ndarray]]] = {
        "max_pool2d_s8": (act | window, {}),
        "fully_connected_s8": (act, {"weights": np.ones((1, 1), np.int8)} | ones),
        "softmax_s8": ({}, table),
    }
    tensors = [TensorRecord(f"t{i}", "int8", (1, 1, 1, 1), offset=16 * i) for i in range(len(kernels) + 1)]
    steps = [StepRecord(k, k, (i,), (i + 1,), *what[k]) for i, k in enumerate(sorted(kernels))]
    path.write_bytes(codec.encode(ModelFile(tensors, steps, [0], [len(kernels)])))
    return path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """The image for two models, which need three kernels together."""
    folder = tmp_path_factory.mktemp("for")
    models = [
        _file(folder / "a.mica", {"max_pool2d_s8", "softmax_s8"}),
        _file(folder / "b.mica", KEPT - {"softmax_s8"}),
    ]
    result = mica("build", "--board", BOARD, "--for", *models, "--with", "fallback", "--json")
    assert result.code == 0, result.err
    return result


@pytest.fixture(scope="module")
def running(built: Result, digits: Path) -> Iterator[Link]:
    with EmulatedBoard(
        load_board(BOARD), Path(built.json["image"]), rom_files={"d.mica": digits.read_bytes()}
    ) as board:
        yield board


def test_the_map_has_the_kernels_and_no_others(built: Result) -> None:
    """Of the project's object files, only those of the three kernels and of the shared code have code in the image."""
    answer = built.json
    assert set(answer["kernels"]) == KEPT
    linker_map = Path(answer["elf"]).with_suffix(".map").read_text()
    # Sections that were thrown away are listed before the memory map; a section is its name, address, size and file.
    kept = linker_map[linker_map.index("\nLinker script and memory map") :]
    placed = r"^ *(?:\S+\s+)?0x[0-9a-f]+\s+(0x[0-9a-f]+)\s+(\S*/mica/(?:runtime|kernels)/\S+)\.o$"
    pieces = [(size, path) for size, path in re.findall(placed, kept, re.M) if int(size, 16)]
    found = {Path(path).name for _, path in pieces}
    assert {"load", "execute", "operators"} <= found
    assert {kernel.name for kernel in KERNELS if kernel.op in found} == KEPT
    # Assembly has names of its own: of what this core's folder has, only what the kept kernels call.
    isa = {Path(p).name for _, p in pieces if "/kernels/isa/" in p}
    assert isa - {k.removesuffix("_s8") for k in KEPT} <= {"dense"}


def test_sizes(built: Result) -> None:
    """The sizes before and after, as a table and as JSON."""
    answer = built.json
    assert answer["before"]["text"] - answer["text"] > 20_000
    assert answer["before"]["bss"] == answer["bss"]


def test_table(built: Result, tmp_path: Path) -> None:
    folder = tmp_path / "again"  # the names are part of the image
    folder.mkdir()
    models = [_file(folder / "a.mica", KEPT - {"fully_connected_s8"}), _file(folder / "b.mica", KEPT)]
    result = mica("build", "--board", BOARD, "--for", *models, "--with", "fallback")
    assert result.code == 0
    assert "up to date" in result.out  # the same kernels, so the same image
    row = re.search(r"^text +([\d,]+) +([\d,]+) +([\d,]+) +[\d.]+ %$", result.out, re.M)
    assert row is not None
    before, after, saved = (int(n.replace(",", "")) for n in row.groups())
    assert (before, after, saved) == (built.json["before"]["text"], built.json["text"], before - after)
    assert "kernels: fully_connected_s8, max_pool2d_s8, softmax_s8\n" in result.out
    assert re.search(r"left out: conv2d_s8, .*recurrent_s8", result.out)


@pytest.mark.parametrize("content", [None, b"MICA but not"])
def test_not_a_model(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "x.mica"
    if content is not None:
        path.write_bytes(content)
    result = mica("build", "--board", BOARD, "--for", path)
    assert result.code in (1, 2) and result.out == ""
    assert str(path) in result.err and len(result.err.splitlines()) == 1


def test_a_missing_kernel_runs_in_python(running: Link, digits: Path) -> None:
    """The demo's model, whose convolutions are not in the image: the host's bytes, layer by layer."""
    data = digits.read_bytes()
    steps = codec.decode(data).steps
    assert {"conv2d_s8", "softmax_s8"} <= {s.kernel for s in steps}
    says = running.exec("import mica\nm = mica.Model('/rom/d.mica')\nfor l in m.layers: print(l.op, l.runs_in)")
    lines = [line.split() for line in says.decode().splitlines()]
    assert lines == [[s.kernel, "C" if s.kernel in KEPT else "Python"] for s in steps]
    running.exec("from mica import remote\nremote.load('/rom/d.mica')")
    x = np.load(DEMO / "digits_test.npz")["x"][0]
    with HostRunner(data) as host:
        inputs = host.quantise([x])
        running.put(inputs[0].tobytes(), "x")
        answer = running.exec("remote.layer_hashes(x)", timeout=60).decode().splitlines()
        assert [int(line.split()[2], 16) for line in answer] == host.layer_hashes(inputs)
        running.exec("remote.run(x)")
        y = host.run([inputs])[0][0]
        assert int(running.exec("import binascii\nprint(binascii.crc32(remote.model.output(0)))")) == zlib.crc32(
            y.tobytes()
        )


def test_strict(running: Link) -> None:
    with pytest.raises(BoardError, match=r"step 0 \(\S+\): kernel \w+_s8 is not in this firmware"):
        running.exec("mica.Model('/rom/d.mica', strict=True)")


@pytest.mark.parametrize(
    "says",
    ["mica.motion.watch", "from mica.motion import watch", "import mica.motion", "from mica import motion; motion.x"],
)
def test_a_module_that_is_left_out(running: Link, says: str) -> None:
    """One line, however it is asked for, each time; and asking spoils nothing."""
    line = "ImportError: this firmware was built for a, b and has no mica.motion: build it --with motion"
    for _ in range(2):
        with pytest.raises(BoardError) as failed:
            running.exec(says)
        assert str(failed.value).splitlines()[-1].endswith(line)


def test_what_else_is_left_out(running: Link, digits: Path) -> None:
    """Code of the engine: kernels for the REPL, vocabularies. Files that need it are refused;
    m.see() says why it cannot."""
    assert running.exec("import _mica\nprint([n for n in ('gemm', 'sample', 'see') if hasattr(_mica, n)])") == b"[]\n"
    with pytest.raises(BoardError, match=r"has no mica.kernels: build it --with kernels"):
        running.exec("mica.kernels.gemm")
    with pytest.raises(BoardError, match=r"has no mica.pictures: build it --with pictures"):
        running.exec("mica.Model('/rom/d.mica').see(bytes(64), 8, 8, 'grey')")
    names = "('hooks', 'remote', 'slots', 'operators')"
    assert running.exec(f"for n in {names}: print(getattr(mica, n).__name__)").split()[0] == b"mica.hooks"
