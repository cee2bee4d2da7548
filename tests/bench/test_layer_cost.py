"""Cost of layers in MicroPython, counted on an emulated Cortex-M3: a step of a model of many tiny layers, a hook, and
the time until another asyncio task runs.

With `-icount shift=0` the emulator's clock counts instructions: one tick of the 25 MHz counter is 40 of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from nets import Net

from mica.compile import Ram, compile_file
from mica.cost.table import Table
from mica.file.codec import ModelFile, StepRecord, TensorRecord, encode, step_flags
from mica.link.board import Link
from mica.link.targets import open_board

STEPS = 256
INSTRUCTIONS_PER_TICK = 40
LIMIT = 3000  # instructions per layer

# Few against many steps: what a run costs once (begin, end, the call itself) cancels out.
# With the heap locked, the frame of run() goes onto the stack: how long the heap would have been searched for it says
# nothing of run().
DEFINITION = """
import micropython, time, mica
def ticks(model):
    best = 1 << 29
    for _ in range(8):  # the smallest: an interrupt in between only adds
        micropython.heap_lock()
        t = time.ticks_cpu()
        model.run()
        t = time.ticks_diff(time.ticks_cpu(), t)
        micropython.heap_unlock()
        best = min(best, t)
    return best
"""
SCRIPT = (
    DEFINITION
    + """
print(ticks(mica.Model(few)), ticks(mica.Model(many)))
"""
)


def tiny_model(steps: int) -> bytes:
    """`steps` lookup tables over one element, each in place: as little work in C as a layer can have."""
    table = np.arange(-128, 128, dtype=np.int8)
    tensors = [TensorRecord(f"t{i}", "int8", (1, 1), 1.0, 0, "arena", 0) for i in range(steps + 1)]
    records = [StepRecord(f"s{i}", "lut_s8", (i,), (i + 1,), {}, {"table": table}) for i in range(steps)]
    return encode(ModelFile(tensors, records, [0], [steps], {}))


@pytest.fixture(scope="module")
def board() -> Iterator[Link]:
    """The emulated Cortex-M3 with a clock of instructions, and models on it."""
    with open_board("MPS2_AN385", icount=True) as board:
        board.put(tiny_model(1), "few")
        board.put(tiny_model(STEPS), "many")
        board.put(big_model(), "big")
        yield board


def test_instructions_per_layer(board: Link, capsys: pytest.CaptureFixture[str]) -> None:
    few, many = (int(word) for word in board.exec(SCRIPT).split())
    again_few, again_many = (int(word) for word in board.exec(SCRIPT).split())
    per_step = (many - few) * INSTRUCTIONS_PER_TICK / (STEPS - 1)
    with capsys.disabled():
        print(
            f"\n{board.name}: {per_step:.0f} instructions per layer in run(), of which the kernel is a "
            "lookup of one byte"
        )
    again = (again_many - again_few) * INSTRUCTIONS_PER_TICK / (STEPS - 1)
    assert again == pytest.approx(per_step, rel=0.02), "the count is not repeatable"
    assert 0 < per_step < LIMIT


HOOKED = """
from mica import hooks
m = mica.Model(many)
plain = ticks(m)
with m.hook(0, after=lambda layer: None):
    one = ticks(m)
with m.hook(after=lambda layer: None):
    all_ = ticks(m)
print(plain, one, all_, ticks(m))
"""


def test_no_hook_no_cost(board: Link, capsys: pytest.CaptureFixture[str]) -> None:
    """Hooks cost where they are, and nothing once they are gone."""
    plain, one, everywhere, after = (int(word) for word in board.exec(DEFINITION + HOOKED).split())
    with capsys.disabled():
        hooked = (everywhere - plain) * INSTRUCTIONS_PER_TICK / STEPS
        print(f"\n{board.name}: {hooked:.0f} instructions for a hook that does nothing, on each layer that has one")
    assert abs(after - plain) < (one - plain) / 10, "runs end a few ticks apart; one hook is 66"
    assert plain < one < plain + 10_000 / INSTRUCTIONS_PER_TICK
    assert one < everywhere


def big_model() -> bytes:
    """Three convolutions of 0.9 million multiplications each, in 20 rows."""
    rng = np.random.default_rng(3)
    size, channels = 20, 16
    shape = (1, size, size, channels)
    tensors = [TensorRecord(f"t{i}", "int8", shape, 0.05, 0, offset=i % 2 * size * size * channels) for i in range(4)]
    params = dict.fromkeys(("stride_h", "stride_w", "dilation_h", "dilation_w", "pad_top", "pad_left", "groups"), 1)
    params |= {"kernel_h": 3, "kernel_w": 3, "act_min": -128, "act_max": 127}
    steps = [
        StepRecord(
            f"conv{i}",
            "conv2d_s8",
            (i,),
            (i + 1,),
            params=params,
            blobs={
                "weights": rng.integers(-127, 128, (channels, 3, 3, channels), dtype=np.int8),
                "bias": rng.integers(-2000, 2000, channels, dtype=np.int32),
                "mult": np.full(channels, 2**30, np.int32),
                "shift": np.full(channels, 9, np.int8),
            },
            macs=size * size * channels * channels * 9,
        )
        for i in range(3)
    ]
    for step in steps:
        step.flags = step_flags(step)
    return encode(ModelFile(tensors, steps, [0], [3], {}))


SHARING = """
import asyncio, time, mica
from array import array
same = []
m = mica.Model({model})
m.start()  # the first time it also imports a module
m.stop()
x = memoryview(array("b", (bytes(range(128)) * 64)[:len(m.input())]))
m.input()[:] = x
m.run()
want = bytes(m.output())

async def other(gaps):
    was = time.ticks_us()
    while True:
        await asyncio.sleep_ms(0)
        now = time.ticks_us()
        gaps.append(time.ticks_diff(now, was))
        was = now

async def main(us):
    for _ in range(2):
        gaps = []
        task = asyncio.create_task(other(gaps))
        await asyncio.sleep_ms(0)
        m.input()[:] = x
        begin = time.ticks_us()
        await m.arun(slice_us=us)
        took = time.ticks_diff(time.ticks_us(), begin)
        task.cancel()
        same.append(bytes(m.output()) == want)
        print(us, took, len(gaps), max(gaps))

begin = time.ticks_us()
m.run()
print(time.ticks_diff(time.ticks_us(), begin))
for us in {slices}:
    m = mica.Model({model})
    asyncio.run(main(us))
print(all(same))
"""


def served(
    board: Link, slices: tuple[int, ...], capsys: pytest.CaptureFixture[str], model: str = "big", over: float = 1.25
) -> None:
    """Another task runs again at least after each slice and a quarter, and not much more often."""
    first, *lines, same = board.exec(SHARING.format(slices=slices, model=model), timeout=600).decode().splitlines()
    alone = int(first)
    with capsys.disabled():
        print(f"\n{board.name}: run() takes {alone} us")
        for number, line in enumerate(lines):
            us, took, times, longest = map(int, line.split())
            print(f"  arun(slice_us={us}), run {number % 2 + 1}: {took} us, served {times} times, {longest} us at most")
    for line in lines:
        us, took, times, longest = map(int, line.split())
        assert longest <= over * us < alone / 4
        assert alone / us - 1 <= times <= 4 * alone / us
        assert took < 1.5 * alone
    assert same == "True"


def test_asyncio_is_served(board: Link, capsys: pytest.CaptureFixture[str]) -> None:
    served(board, (300, 1000), capsys)


def in_strips(folder: Path) -> bytes:
    """Three convolutions over 32 x 32 pixels, in less than two of their tensors take."""
    net = Net()
    y = net.add("Transpose", net.input([1, 32, 32, 8]), perm=[0, 3, 1, 2])
    for n_in, n_out in ((8, 16), (16, 16), (16, 16)):
        y = net.add("Relu", net.conv(y, n_in, n_out, pads=[1, 1, 1, 1]))
    net.output(net.add("GlobalAveragePool", y))
    ram = Ram(29_000, Table.read().price("m3"))
    packed = compile_file(net.save(folder), plain=True, calib_method="minmax", ram=ram)
    assert packed.model.strips
    return packed.data


def test_asyncio_is_served_in_strips(board: Link, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Slices of 1 ms, of a model whose layers run in strips."""
    board.put(in_strips(tmp_path), "strips")
    served(board, (1000,), capsys, "strips", over=1.2)


def test_asyncio_is_served_on_a_pico(pico_board: Link, capsys: pytest.CaptureFixture[str]) -> None:
    pico_board.put(big_model(), "big")
    served(pico_board, (10000,), capsys)
