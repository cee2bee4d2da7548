"""Heads that learn, on cores without an operating system: the bytes of the oracle, cycles of the Cortex-M0+,
and bytes of code."""

from __future__ import annotations

import struct
import subprocess
import tempfile
from pathlib import Path

import bare_metal
import numpy as np
import pytest
from bare_metal import BARE, CORES, FLAGS, USERMOD, Core, fnv
from targets import ALL

from mica.reference import learning
from mica.reference.learning import ANOMALY, FIT, JUDGE, PROTOTYPE, SOFTMAX, TEACH, block_bytes
from mica.toolchain.process import need_program

HERE = Path(__file__).resolve().parent
CLASSES, WIDTH, KEEP, STEPS = 5, 64, 20, 3
MOST_CYCLES = 9000  # of an update of 5 classes of 64
MOST_CODE = 4096  # of the kernel on a Cortex-M0+


def build(core: Core, folder: Path) -> Path:
    program = folder / "learn.elf"
    options = [f"-DBENCH_JOBS={core.jobs:#x}", "-DBENCH_ARENA_BYTES=65536"]
    options += [f"-I{USERMOD / name}" for name in ("include", "kernels")]
    bare_metal.link(core, program, [HERE / "learn.c", BARE / core.start, USERMOD / "kernels" / "learn.c"], options)
    return program


def measure(core: Core, kind: int, setting: int, x: np.ndarray) -> list[tuple[int, int, int]]:
    """(op, count, hash of all blocks) of teaching, of each step and of judging, in cycles or instructions."""
    steps = STEPS if kind == SOFTMAX else 1
    with tempfile.TemporaryDirectory() as folder:
        program, block = build(core, Path(folder)), Path(folder) / "block"
        head = struct.pack("<9i", kind, WIDTH, KEEP, setting, 0, 0, 0, CLASSES, steps)
        block.write_bytes(head + x.tobytes())
        command = bare_metal.command(core, program, block)
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    lines = [line.split() for line in (done.stdout + done.stderr).splitlines()]
    assert ["D"] in lines, done.stdout + done.stderr
    return [
        (int(a, 16), int(int(b, 16) * core.per_tick), int(c, 16)) for s, a, b, c in (w for w in lines if w[:1] == ["S"])
    ]


def _by_oracle(kind: int, setting: int, x: np.ndarray) -> list[tuple[int, int]]:
    numbers, work = [kind, WIDTH, KEEP, setting, 0, 0, 0], bytearray(3 * WIDTH)
    blocks = [bytearray(block_bytes(kind, WIDTH, KEEP)) for _ in range(CLASSES)]
    found = []
    for i, row in enumerate(x.reshape(-1, WIDTH)):
        work[WIDTH : 2 * WIDTH] = row.tobytes()
        learning.learn(TEACH, numbers, work, blocks, i % CLASSES)
    found.append((TEACH, fnv(b"".join(blocks))))
    for step in range(STEPS if kind == SOFTMAX else 1):
        learning.learn(FIT, numbers, work, blocks, step)
        found.append((FIT, fnv(b"".join(blocks))))
    return [*found, (JUDGE, fnv(b"".join(blocks)))]


def examples() -> np.ndarray:
    rng = np.random.default_rng(3)
    return np.clip(
        rng.integers(-60, 60, (CLASSES, WIDTH)) + rng.normal(0, 25, (KEEP, CLASSES, WIDTH)), -128, 127
    ).astype(np.int8)


NAMES = {"prototype": PROTOTYPE, "softmax": SOFTMAX, "anomaly": ANOMALY}


@pytest.mark.parametrize("name", sorted(CORES) if ALL else ["m0plus"])
def test_cost_and_bytes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    core = CORES[name]
    if why := bare_metal.available(core):
        assert ALL and name != "m0plus", why
        pytest.skip(why)
    x = examples()
    for kind, number in NAMES.items():
        setting = 1440 if number == ANOMALY else 36
        got = measure(core, number, setting, x)
        assert [(op, value) for op, _, value in got] == _by_oracle(number, setting, x), kind
        updates = [count // (CLASSES * KEEP) for op, count, _ in got[1:-1] if op == FIT][1:]
        with capsys.disabled():
            print(
                f"\n{name} {kind}: teach {got[0][1] // (CLASSES * KEEP)}, update {updates}, judge "
                f"{got[-1][1]} {core.unit}",
                end="",
            )
        if name == "m0plus":
            assert all(count <= MOST_CYCLES for count in updates) and len(updates) == (2 if kind == "softmax" else 0)


def test_bytes_of_code(tmp_path: Path) -> None:
    """Of the kernel alone, as the ports build it, tables and all."""
    core = CORES["m0plus"]
    target = tmp_path / "learn.o"
    compiler = need_program(f"{core.tools[0]}gcc", core.tools[1])
    source = USERMOD / "kernels" / "learn.c"
    flags = (
        *core.flags,
        *FLAGS[:5],
        f"-I{USERMOD / 'include'}",
        f"-I{USERMOD / 'kernels'}",
        "-c",
        str(source),
        "-o",
        str(target),
    )
    subprocess.run([compiler, *flags], check=True)
    size = subprocess.run([f"{core.tools[0]}size", str(target)], check=True, capture_output=True, text=True).stdout
    text, data, bss = map(int, size.splitlines()[1].split()[:3])
    assert 1000 < text <= MOST_CODE and data == bss == 0, size
