"""A model in parts: any cut gives the bytes of the whole, and the chosen cut is the best by the chosen measure."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import re
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from nets import MODELS, Net
from random_nets import RandomNet

from mica.boards import load_board
from mica.cli.main import main
from mica.compile import compile_file
from mica.errors import MicaError
from mica.file import codec, parts
from mica.packing.parts import as_parts, packed
from mica.packing.unpack import unpack
from mica.plan.cut import Cutter, best_cuts
from mica.run.golden import random_input
from mica.run.host import HostRunner
from mica_fleet import cutting
from mica_fleet.cutting import LinkSpeed, cut, run_parts

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "host_tools" / "mica" / "demo" / "digits.onnx"
FAST = LinkSpeed(400e3, 0.003)


def all_cuts_are_equal(data: bytes, more: bool = False) -> tuple[int, list[str]]:
    """Into two, and with `more` some into three as well. How many there were, and the names that no step makes."""
    model = codec.decode(data)
    unpacked = unpack(model)
    cutter = Cutter(unpacked.graph)
    rng = np.random.default_rng(0)
    xs = [random_input(model, model.tensors[t], rng) for t in model.inputs]
    with HostRunner(data) as host:
        right = [y.tobytes() for y in host.run([xs])[0]]
    n = len(cutter)
    ends = [(0, k, n) for k in range(1, n)]
    if more:
        ends += [(0, k, (k + n) // 2, n) for k in range(1, n - 1)]
    for each in ends:
        pieces = [cutter.piece(i, j) for i, j in itertools.pairwise(each)]
        models = as_parts(model, zlib.crc32(data), unpacked, pieces, [packed(cutter, p) for p in pieces])
        found, _ = run_parts([codec.encode(m) for m in models], xs)
        assert [y.tobytes() for y in found] == right, each
    return len(ends), [node.op for node in unpacked.graph.nodes if node.op in ("Join", "View", "Reshape")]


@pytest.mark.parametrize(("name", "cuts"), [("digits", 8), ("kws", 11), ("ic", 14), ("vww", 29), ("ad", 9)])
def test_every_cut_gives_the_bytes_of_the_whole(name: str, cuts: int) -> None:
    if name != "digits" and not MODELS.is_dir():
        pytest.skip(f"{MODELS} is missing: the reference models are not part of the repository")
    path = DIGITS if name == "digits" else MODELS / name / "model.onnx"
    assert all_cuts_are_equal(compile_file(path, plain=True).data)[0] == cuts


def test_cuts_through_what_lies_inside_other_tensors(tmp_path: Path) -> None:
    """Tensors that are joined without a copy, are read, and are joined again; parts of tensors; two outputs."""
    net = Net()
    x = net.input([1, 16])

    def dense(y: str, n: int, of: int) -> str:
        return net.add("Gemm", y, net.random(n, of), net.random(of))

    a, b = net.add("Relu", dense(x, 16, 8)), net.add("Sigmoid", dense(x, 16, 12))
    ab = net.add("Concat", a, b, axis=1)
    both = net.add("Concat", ab, dense(ab, 20, 16), axis=1)
    net.output(dense(both, 36, 4))
    net.output(net.add("Softmax", b, axis=1))
    nets = [net, *(RandomNet(seed) for seed in (49, 59, 77, 82))]
    found = [all_cuts_are_equal(compile_file(net.save(tmp_path), plain=True).data, more=True) for net in nets]
    assert found[0][1].count("Join") == 2
    assert {op for _, ops in found for op in ops} == {"Join", "View", "Reshape"}


def test_the_best_cut_is_the_best_of_all() -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        n, k = int(rng.integers(2, 9)), int(rng.integers(1, 5))
        costs = rng.integers(1, 12, (n, n + 1)).astype(float)
        costs[rng.random(costs.shape) < 0.3] = math.inf

        def of(cuts: Sequence[int], costs: np.ndarray = costs, n: int = n) -> tuple[float, float]:
            each = [costs[i, j] for i, j in itertools.pairwise((0, *cuts, n))]
            return max(each), sum(each)

        ways = [of(c) for c in itertools.combinations(range(1, n), k - 1)]
        least = min((w[0] for w in ways), default=math.inf)
        found = best_cuts(n, k, lambda i, j, costs=costs: costs[i, j])  # type: ignore[misc]
        if math.isinf(least):
            assert found is None
        else:
            assert found is not None and of(found)[0] == least


@pytest.fixture(scope="module")
def digits() -> bytes:
    return compile_file(DIGITS, plain=True).data


def test_what_is_named_is_least(digits: bytes) -> None:
    board = load_board("RPI_PICO")
    found = {o: cut(digits, 3, board, FAST, o) for o in ("slowest", "ram", "flash")}
    most = {
        "slowest": lambda c: max(s.seconds for s in c.stages),
        "ram": lambda c: max(s.model.arena_bytes for s in c.stages),
        "flash": lambda c: max(sum(step.constant_bytes for step in s.model.steps) for s in c.stages),
    }
    for objective, of in most.items():
        assert of(found[objective]) == min(of(c) for c in found.values()), objective
    assert of(found["flash"]) < of(found["slowest"])
    for c in found.values():
        assert [s.piece.first for s in c.stages[1:]] == [s.piece.end for s in c.stages[:-1]]
        assert c.rate is not None and c.whole_rate is not None and c.whole_rate > c.rate
    slow = cut(digits, 2, board, LinkSpeed(1000, 0.01))
    quick = cut(digits, 2, board, LinkSpeed(1e9, 0))
    assert slow.stages[0].gives <= quick.stages[0].gives, "a slow link wants little sent"


def test_parts_fit_where_the_whole_does_not(digits: bytes) -> None:
    board = load_board("RPI_PICO")
    assert board.romfs is not None
    small = dataclasses.replace(board, romfs=dataclasses.replace(board.romfs, size=512), storage=4100)
    with pytest.raises(MicaError, match=r"no cut into 2 parts fits RPI_PICO; .*flash"):
        cut(digits, 2, small, FAST)
    found = cut(digits, None, small, FAST)
    assert len(found.stages) == 3 and all(s.prediction.fits for s in found.stages) and not found.whole.prediction.fits
    with pytest.raises(MicaError, match="fits RPI_PICO whole"):
        cut(digits, None, board, FAST)
    none = dataclasses.replace(small, storage=800)
    with pytest.raises(MicaError, match="auto: no cut into 9 parts fits"):
        cut(digits, None, none, FAST)


def test_what_cannot_be_cut(digits: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    from usermod_models import golden_state  # type: ignore[import-not-found]

    board = load_board("RPI_PICO")
    with pytest.raises(MicaError, match="a model with state"):
        cut(bytes(codec.encode(golden_state())), 2, board, FAST)
    with pytest.raises(MicaError, match="12 parts of a model with 9 steps"):
        cut(digits, 12, board, FAST)
    with pytest.raises(MicaError, match="is a part of a model already"):
        cut(cut(digits, 2, board, FAST).stages[0].data, 2, board, FAST)
    monkeypatch.setattr(cutting, "LARGEST", 60)
    with pytest.raises(MicaError, match="more than 60 bytes in a request"):
        cut(digits, 2, board, FAST)


def test_a_board_takes_what_the_host_counts_on() -> None:
    text = (ROOT / "firmware" / "mica_fleet" / "__init__.py").read_text()
    assert re.search(rf"^LARGEST = {cutting.LARGEST}\b", text, re.MULTILINE)


def test_parts_that_do_not_belong_together(digits: bytes) -> None:
    board = load_board("RPI_PICO")
    three = [codec.decode(s.data) for s in cut(digits, 3, board, FAST).stages]
    two = [codec.decode(s.data) for s in cut(digits, 2, board, FAST).stages]
    whole = codec.decode(digits)
    chain = parts.chain([three[2], three[0], three[1]])
    assert [p.number for p in chain.parts] == [1, 2, 3] and len(parts.chain([whole]).parts) == 1
    assert chain.whole.metadata["name"] == whole.metadata["name"]
    for models, text in (
        (three[:2], "has 3 parts; these are 1, 2"),
        ([*three, three[0]], "these are 1, 1, 2, 3"),
        ([three[0], two[1]], "different models"),
        ([three[0], whole], "stands among parts"),
    ):
        with pytest.raises(MicaError, match=text):
            parts.chain(models)
    good = three[1].metadata[parts.KEY]
    bad = ["", "2/3", "0/3 1\n1\n2\n3\n4", "x/3 1\n1\n2\n3\n4", good + "\n1", good.replace("\n", "\n7 ", 1)]
    for text in bad:
        damaged = dataclasses.replace(three[1], metadata={**three[1].metadata, parts.KEY: text})
        with pytest.raises(MicaError, match="metadata part"):
            parts.chain([three[0], damaged, three[2]])
    nothing = good.split("\n")
    nothing[1] = "99"
    damaged = dataclasses.replace(three[1], metadata={**three[1].metadata, parts.KEY: "\n".join(nothing)})
    with pytest.raises(MicaError, match="takes what none before it gives"):
        parts.chain([three[0], damaged, three[2]])


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    m = tmp_path / "m.mica"
    options = ["--plain", "--golden", "2", "--board", "RPI_PICO"]
    assert main(["pack", str(DIGITS), *options, "-o", str(m)]) == 0
    capsys.readouterr()
    assert main(["fleet", "cut", str(m), "--parts", "2", "--board", "RPI_PICO", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    files = [tmp_path / f"m.{k}of2.mica" for k in (1, 2)]
    before = [f.read_bytes() for f in files]
    assert [p["file"] for p in found["parts"]] == [str(f) for f in files]
    # A model that is not packed yet gives the same parts.
    again = ["fleet", "cut", str(DIGITS), *options, "--parts", "2", "-o", str(tmp_path / "m"), "--json"]
    assert main(again) == 0
    assert json.loads(capsys.readouterr().out) == found and [f.read_bytes() for f in files] == before
    for file in files:  # each has golden vectors of its own
        assert main(["verify", str(file)]) == 0
        assert "2 samples" in capsys.readouterr().out
    assert main(["fleet", "cut", str(m), "--parts", "2", "-o", str(tmp_path / "n")]) == 0
    said = capsys.readouterr().out
    assert (tmp_path / "n.2of2.mica").is_file() and "best by     slowest" in said and "better      the whole" in said

    def fails(*more: str) -> str:
        assert main(["fleet", "cut", *more]) == 1
        said = capsys.readouterr().err.strip().splitlines()
        assert len(said) == 1 and said[0].startswith("mica: error: ")
        return said[0]

    assert "--parts 1: expected" in fails(str(m), "--parts", "1")
    assert "--link-rate 0" in fails(str(m), "--parts", "2", "--link-rate", "0")
    assert "--link-delay -1" in fails(str(m), "--parts", "2", "--link-delay", "-1")
    assert "is a part of a model" in fails(str(files[0]), "--parts", "2")
    assert "--parts x: expected" in fails(str(m), "--parts", "x")
    assert "--link-rate x" in fails(str(m), "--parts", "2", "--link-rate", "x")
    assert "--golden is for .onnx and .tflite files" in fails(str(m), "--parts", "2", "--golden", "1")
    assert "how long steps take on UNIX" in fails(str(m), "--parts", "2", "--board", "UNIX")
    assert "plant.toml is missing" in fails(str(m), "--parts", "2", "--fleet", str(tmp_path / "plant"))
