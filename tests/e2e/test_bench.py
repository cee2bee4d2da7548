"""`mica bench`, and the reference models in a virtual Pico's flash."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers import mica, pack, reference_model

from mica.boards import load_board
from mica.cli.bench import function_table
from mica.cli.bench import report as layer_table
from mica.cli.verify import report, verify
from mica.data.calibration import decode, read_arrays
from mica.run.board import BoardRunner
from mica.run.host import HostRunner

PICO = "RPI_PICO@emu"


@pytest.mark.parametrize(
    ("target", "unit"), [("host", "seconds"), ("UNIX", "seconds"), ("MPS2_AN385", "instructions"), (PICO, "cycles")]
)
def test_bench(digits: Path, target: str, unit: str) -> None:
    result = mica("bench", digits, "--on", target, "--runs", 2, "--json")
    assert result.code == 0, result.err
    r = result.json
    assert (r["target"], r["unit"], r["runs"]) == (target, unit, 2)
    assert [layer["index"] for layer in r["layers"]] == list(range(9))
    assert all(layer["cost"] >= 0 for layer in r["layers"])
    assert r["overhead"] == pytest.approx(r["total"] - sum(layer["cost"] for layer in r["layers"]), abs=9)
    if target == "host":
        assert r["free_heap"] is None
    else:
        assert r["free_heap"] > 100_000
    if unit != "seconds":
        # The first convolution has the most multiplications by far, and a multiplication is at least an instruction.
        most = max(r["layers"], key=lambda layer: layer["macs"])
        assert most["cost"] > most["macs"]
        assert r["total"] > sum(layer["macs"] for layer in r["layers"])


def test_counts_of_a_pico_2(digits: Path) -> None:
    """Instructions by layer and by function make up the same run; cycles are said to be an estimate."""
    result = mica("bench", digits, "--on", "RPI_PICO2@emu", "--runs", 1, "--functions", "--json")
    assert result.code == 0, result.err
    r = result.json
    assert r["unit"] == "cycles" and r["estimate"] is True
    assert all(0 < layer["instructions"] < layer["cost"] for layer in r["layers"])
    layers = sum(layer["instructions"] for layer in r["layers"])
    assert layers < r["instructions"] < 1.1 * layers
    assert sum(f["instructions"] for f in r["functions"]) == pytest.approx(r["instructions"], rel=0.05)
    # An instruction multiplies twice; three convolutions and the dense layer go through these two.
    cost = {f["name"]: f["instructions"] for f in r["functions"]}
    macs = sum(layer["macs"] for layer in r["layers"] if not layer["kernel"].startswith("depthwise"))
    assert macs / 2 < cost["mica_dsp_gemm"] + cost["mica_dsp_dense"] < 2 * macs
    assert sum(f["share"] for f in r["functions"]) == pytest.approx(1)
    text = function_table(r["functions"])
    assert f"{cost['mica_dsp_gemm']:,}" in text.splitlines()[2] and "mica_dsp_gemm" in text
    assert "cycles (estimate) on RPI_PICO2@emu: " in layer_table(r)


def test_only_a_pico_2_counts_by_function(digits: Path) -> None:
    result = mica("bench", digits, "--on", "host", "--functions")
    assert result.code == 1 and "host does not count by function; RPI_PICO2@emu does" in result.err


def test_cycles_repeat(digits: Path) -> None:
    """A run in which no interrupt came is the shortest, and costs the same each time."""
    totals = [mica("bench", digits, "--on", PICO, "--json").json["total"] for _ in range(2)]
    assert totals[0] == pytest.approx(totals[1], rel=0.005)


def test_bench_for_people(digits: Path) -> None:
    result = mica("bench", digits, "--on", PICO, "--runs", 1)
    assert result.code == 0, result.err
    assert "conv2d_s8" in result.out
    assert "cycles on RPI_PICO@emu: " in result.out
    assert "free heap, with the model and the program that serves this computer loaded: " in result.out


@pytest.mark.parametrize("target", ["host", PICO])
def test_drawn(digits: Path, target: str, tmp_path: Path) -> None:
    """A bar for each layer, and a trace whose events follow each other without a gap and last as long as the layers."""
    file = tmp_path / "trace.json"
    result = mica("bench", digits, "--on", target, "--runs", 1, "--chart", "--trace", file)
    assert result.code == 0, result.err
    bars = [line for line in result.out.splitlines() if line.startswith(("0 conv2d_s8", "8 softmax_s8", "outside"))]
    assert len(bars) == 3 and "█" in result.out
    assert "million multiply-accumulates a second" in result.out
    trace = json.loads(file.read_text())
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert [e["args"]["index"] for e in events] == list(range(9))
    assert all(e["args"]["runs_in"] == "C" for e in events)
    assert trace["otherData"]["unit"] == "microseconds"
    each = 1e6 if target == "host" else 1 / 125  # of a second, or of a cycle at 125 MHz
    at = 0.0
    for e in events:
        assert e["ts"] == pytest.approx(at)
        assert e["dur"] == pytest.approx(e["args"]["cost"] * each)
        at += e["dur"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--runs", "0"], "--runs: at least 1 is expected"),
        (["--data", "none.npz"], "none.npz"),
        (["--trace", "no/folder/t.json"], "no/folder/t.json: cannot be written: No such file or directory"),
        (["--trace", "/"], "--trace /: is a folder; give the name of a file"),
    ],
)
def test_wrong_arguments(digits: Path, args: list[str], said: str) -> None:
    result = mica("bench", digits, *args)
    assert result.code == 1
    assert said in result.err and result.err.count("\n") == 1


@pytest.mark.parametrize("name", ["kws", "ic"])
def test_reference_models_in_flash(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ten samples with the host's bytes, layer by layer, from weights that stay in flash; free heap and cycles."""
    folder = reference_model(name)
    packed = pack(folder / "model.onnx", tmp_path / "m.mica", "--calib", folder / "calib.npz", "--plain")
    data = packed.read_bytes()
    x = decode(read_arrays(folder / "eval.npz"), "eval.npz")[:10]
    facts = load_board("RPI_PICO")
    assert facts.romfs
    with HostRunner(data) as host, BoardRunner(data, PICO) as board:
        shape = host.model.tensors[host.model.inputs[0]].dims
        samples = [host.quantise([sample.reshape(shape)]) for sample in x]
        result = verify(host, board, samples)
        assert result["equal"], report(result)
        for a, b in zip(host.run(samples), board.run(samples), strict=True):
            assert a[0].tobytes() == b[0].tobytes()
        # Where the file lies, by its address on the board; and that the engine took it as it is.
        code = "import uctypes\nm = memoryview(open('/rom/model.mica', 'rb'))\nprint(uctypes.addressof(m), len(m))"
        address, size = map(int, board.board.exec(code).split())
        assert size == len(data)
        assert address % 16 == 0
        assert facts.romfs.base <= address < facts.romfs.base + facts.romfs.size
        assert not board.copied
        # Activations and scratch as planned; the constants are not among them.
        working = host.model.arena_bytes + host.model.scratch_want
        assert board.ram < working + 8192
        times = board.bench(samples[0], 1)
        assert times.free_heap is not None
        with capsys.disabled():
            print(f"\n{name} on {PICO}: {times.total:,.0f} cycles, {times.free_heap:,} bytes of heap free")
    assert times.unit == "cycles"
    assert times.total > sum(step.macs for step in host.model.steps)
    # Nothing of the model is in the heap but activations and scratch, where the board's arena cannot hold both.
    beyond = 0 if working <= facts.arena else working
    # With the server and the model loaded 193,408 are free; `import mica` takes 3,568,
    # of which 976 stand for what is not yet imported.
    assert times.free_heap > 193_000 - beyond
