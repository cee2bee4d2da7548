"""Cost of Model(), and of predict() beyond run(), on the virtual Pico with a dense model of 280 kB in its ROMFS."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from targets import ALL

from mica.compile import compile_file
from mica.file.codec import ModelFile, StepRecord, TensorRecord, decode, encode, step_flags
from mica.format.weights import OFFSET_ROWS
from mica.link.board import Link
from mica.link.targets import open_board
from mica.link.virtual_pico import CYCLES_ON_BOARD
from mica.packing.model import set_scratch

# As the autoencoder of MLPerf Tiny.
WIDTHS = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640)
HZ = 125_000_000


def autoencoder() -> bytes:
    rng = np.random.default_rng(5)
    tensors = [TensorRecord(f"t{i}", "int8", (1, w), 0.05, 0, offset=i % 2 * 640) for i, w in enumerate(WIDTHS)]
    steps = []
    for i, (k, n) in enumerate(pairwise(WIDTHS)):
        blobs = {
            "weights": rng.integers(-127, 128, (n, k), dtype=np.int8),
            "bias": rng.integers(-2000, 2000, n, dtype=np.int32),
            "mult": np.full(n, 2**30, np.int32),
            "shift": np.full(n, 9, np.int8),
        }
        act = {"act_min": -128, "act_max": 127}
        steps.append(
            StepRecord(f"fc{i}", "fully_connected_s8", (i,), (i + 1,), act, blobs, OFFSET_ROWS.code, macs=k * n)
        )
        steps[-1].flags = step_flags(steps[-1])
    model = ModelFile(tensors, steps, [0], [len(steps)], {})
    set_scratch(model, 16384)
    return encode(model)


MODEL = autoencoder()


@pytest.fixture(scope="module")
def pico() -> Iterator[Link]:
    """The virtual Pico with ideal memory: the bounds are for the core's work."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MICA_MEMORY", "ideal")
        with open_board("RPI_PICO@emu", rom_files={"ad.mica": MODEL}) as board:
            yield board


SCRIPT = f"""
import gc, machine, mica
from array import array
def cycles(f):
    gc.collect()
    t = machine.mem32[{CYCLES_ON_BOARD + 4}]
    f()
    return machine.mem32[{CYCLES_ON_BOARD + 4}] - t & 0x3fffffff
nothing = cycles(lambda: None)
def report(name, f):
    print(name, cycles(f) - nothing)
def load():
    global m
    m = mica.Model("ad.mica")
report("Model", load)
x = bytes(range(128)) * 5
q = mica.Quantised(x)
floats = array("f", [0.5] * 640)
y = [array("b", x)]
report("check", m._m.check)
report("run", m.run)
for again in ("", "_again"):
    report("raw" + again, lambda: m.predict([q], raw=True))
    report("into" + again, lambda: m.predict_into([q], y))
    report("lists" + again, lambda: m.predict([q]))
    report("bytes" + again, lambda: m.predict([x], raw=True))
    report("floats" + again, lambda: m.predict([floats], raw=True))
print(len(m.predict([q], raw=True)[0]))
"""


def test_load_and_predict(pico: Link, capsys: pytest.CaptureFixture[str]) -> None:
    said = pico.exec(SCRIPT, timeout=200).decode().splitlines()
    *lines, last = [line for line in said if not line.startswith("mica: ")]  # some numbers are far out of range
    assert last == "640"
    took = {name: int(n) for name, n in (line.split() for line in lines)}
    run = took["run"]
    with capsys.disabled():
        print(f"\n{pico.name}, {len(MODEL):,} bytes: Model() {took['Model'] / HZ * 1000:.1f} ms; run() {run:,} cycles")
        for name in ("raw", "into", "lists", "bytes", "floats"):
            first, later = took[name] - run, took[name + "_again"] - run
            print(f"  {name}: {first:,} more, later {later:,}, {later / run:.1%}; {later / 640:.0f} a value")
    assert took["Model"] <= 0.024 * HZ
    assert took["check"] <= 7.5 * len(MODEL)
    assert took["raw_again"] <= 1.08 * run
    assert took["lists_again"] <= 1.12 * run  # equal floats are made once
    # Each of the 128 values that there are is quantised once.
    assert took["bytes_again"] <= took["raw_again"] + 128 * 900 + 640 * 30
    # A value quantised; most of it is the library's arithmetic.
    assert took["floats_again"] <= run + 640 * 900


VWW = Path(__file__).resolve().parents[3] / "shared" / "models" / "vww"
PICTURE = f"""
import gc, machine, mica
def cycles(f):
    gc.collect()
    t = machine.mem32[{CYCLES_ON_BOARD + 4}]
    f()
    return machine.mem32[{CYCLES_ON_BOARD + 4}] - t & 0x3fffffff
m = mica.Model("vww.mica")
x = bytes(k * 7 & 255 for k in range(len(m.input())))
m.predict([x])
print(cycles(m.run), cycles(lambda: m.predict([x])))
"""


@pytest.mark.skipif(not ALL, reason="scripts/test --all")
@pytest.mark.skipif(not VWW.is_dir(), reason="the folder ../shared/models is missing")
def test_bytes_of_a_picture(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """27,648 bytes of a picture cost at most 3 % of a run, for an input whose range is a byte's."""
    monkeypatch.setenv("MICA_MEMORY", "ideal")
    file = decode(compile_file(VWW / "model.onnx", plain=True).data)
    picture = file.inputs[0]
    file.tensors[picture] = dataclasses.replace(file.tensors[picture], scale=1.0, zero_point=-128)
    model = encode(file)
    with open_board("RPI_PICO@emu", rom_files={"vww.mica": model}) as board:
        run, given = (int(word) for word in board.exec(PICTURE, timeout=300).split()[-2:])
    with capsys.disabled():
        print(f"\nvww: run() {run:,} cycles, predict([bytes]) {given:,}: {given / run - 1:.2%} more")
    assert run < given <= 1.03 * run
