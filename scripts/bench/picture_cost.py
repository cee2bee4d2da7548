"""Cost of pictures on a core: bare/see.c with kernels/picture.c, built and run as bare_metal.py does with models.

`python scripts/bench/picture_cost.py [CORE]` prints it all.
"""

import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import bare_metal
import numpy as np
from bare_metal import BARE, CORES, USERMOD, Core, fnv

from mica.file.pictures import Frame
from mica.format.schema import PICTURE_FLAGS, PICTURE_FORMATS
from mica.reference import pictures

Array = np.ndarray
SIDES = (160, 120), (320, 240), (192, 192)
OUT = 96


@dataclass(frozen=True)
class Cost:
    """Cost in cycles, or in the core's unit, per pixel: of the output for bilinear, of the frame for area."""

    name: str
    area: bool
    each: float


def frames() -> list[tuple[str, Frame]]:
    """From 160 x 120 bilinear, from 320 x 240 and 192 x 192 area, to 96 x 96: every format, to grey and to colours."""
    found = []
    for side in SIDES:
        area = side[0] >= 2 * OUT
        for format_ in PICTURE_FORMATS:
            for colour in (False, True):
                if format_ == "bgr888" or (colour and format_ == "grey"):
                    continue
                flags = PICTURE_FLAGS["COLOUR"] * colour + PICTURE_FLAGS["AREA"] * area
                frame = Frame(*side, 0, 0, *side, OUT, OUT, PICTURE_FORMATS.index(format_), flags)
                kind = "area" if area else "bilinear"
                found.append((f"{side[0]} x {side[1]} {format_} to {'rgb' if colour else 'grey'}, {kind}", frame))
    return found


def build(core: Core, folder: Path) -> Path:
    program, own, kernels = folder / "see.elf", bare_metal.isa_folder(core.isa), USERMOD / "kernels"
    options = [f"-DBENCH_JOBS={core.jobs:#x}", "-DBENCH_ARENA_BYTES=65536"]
    options += [f"-I{place}" for place in (USERMOD / "include", kernels, own)]
    sources = [BARE / "see.c", BARE / core.start, *kernels.glob("picture*.c"), *own.glob("picture.S")]
    bare_metal.link(core, program, sources, options)
    return program


def measure(core: Core, named: Sequence[tuple[str, Frame]], xip: int | None = None) -> list[Cost]:
    """Raises AssertionError where a picture is not the oracle's."""
    rng = np.random.default_rng(9)
    table = rng.integers(-128, 128, (3, 256)).astype(np.int8)
    data = [rng.integers(0, 256, frame.bytes, dtype=np.uint8).tobytes() for _, frame in named]
    head = 4 + 28 * len(named)
    jobs, body = b"", table.tobytes()
    for (_, frame), pixels in zip(named, data, strict=True):
        jobs += struct.pack("<10HII", *astuple(frame), head + len(body), head)
        body += pixels + bytes(-len(pixels) % 4)
    with tempfile.TemporaryDirectory() as folder:
        program = build(core, Path(folder))
        block = Path(folder) / "block"
        block.write_bytes(struct.pack("<I", len(named)) + jobs + body)
        options = [f"--xip={xip}"] if xip is not None else []
        command = bare_metal.command(core, program, block, options)
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    lines = [line.split() for line in (done.stdout + done.stderr).splitlines()]
    found = [[int(word, 16) for word in line[1:]] for line in lines if line[:1] == ["S"]]
    assert ["D"] in lines and len(found) == len(named), done.stdout + done.stderr
    costs = []
    for (name, frame), pixels, (_, count, value) in zip(named, data, found, strict=True):
        made = pictures.rows(frame, pixels, table)
        assert value == fnv(made.tobytes()), name
        area = frame.has("AREA")
        of = frame.width * frame.height if area else OUT * OUT
        costs.append(Cost(name, area, count * core.per_tick / of))
    return costs


if __name__ == "__main__":
    chosen = CORES[sys.argv[1] if len(sys.argv) > 1 else "m0plus"]
    if why := bare_metal.available(chosen):
        sys.exit(why)
    xip_ = os.environ.get("XIP")
    for cost in measure(chosen, frames(), int(xip_) if xip_ else None):
        print(f"{cost.each:7.1f} {chosen.unit} {'a pixel of the frame' if cost.area else 'a pixel'}: {cost.name}")
