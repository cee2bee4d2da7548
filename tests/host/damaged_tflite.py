"""Damaged .tflite files: each is packed, or refused in a line; never a traceback, never much memory or time.

`run(count, seed)` for a soak; `tests/host/test_tflite_damage.py` has a short one.
As a program, of a count and a seed, it prints the figures as JSON, or what failed and where that file is.
"""

from __future__ import annotations

import json
import struct
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "nets"))
from tflite_nets import NETS

from mica.compile import compile_file
from mica.errors import MicaError

EDGES = (
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    127,
    128,
    255,
    256,
    0x7FFF,
    0xFFFF,
    0x10000,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFE,
    0xFFFFFFFF,
)
MOST_SECONDS = 20.0  # of one file, of this process: a loaded machine lets it wait as long as it likes
MOST_BYTES = 256 << 20  # of address space, beyond what good models take; tracemalloc takes four times as long
MOST_LINES = 25  # of one refusal: a line for each operator that is in the way


class Found(AssertionError):
    """A file that made mica fail: its bytes, and how."""

    def __init__(self, data: bytes, report: str) -> None:
        super().__init__(f"a damaged .tflite file of {len(data)} bytes: {report}")
        self.data = data


def damaged(rng: np.random.Generator, good: bytes) -> bytes:
    """One to four changes: bits, bytes, words at their edges, pieces moved, the end cut off."""
    data = bytearray(good)
    for _ in range(int(rng.integers(1, 5))):
        kind, at = int(rng.integers(0, 7)), int(rng.integers(0, max(len(data) - 4, 1)))
        if len(data) < 16:
            break
        if kind == 0:
            data[at] ^= 1 << int(rng.integers(0, 8))
        elif kind == 1:
            data[at] = int(rng.integers(0, 256))
        elif kind == 2:
            at &= ~3
            data[at : at + 4] = struct.pack("<I", EDGES[rng.integers(0, len(EDGES))])
        elif kind == 3:
            at &= ~3
            value = struct.unpack_from("<i", data, at)[0] + int(rng.integers(-16, 17))
            data[at : at + 4] = struct.pack("<I", value & 0xFFFFFFFF)
        elif kind == 4:
            n, source = int(rng.integers(1, 64)), int(rng.integers(0, len(data)))
            piece = data[source : source + n]
            data[at : at + len(piece)] = piece
        elif kind == 5:
            at &= ~1
            data[at : at + 2] = struct.pack("<H", EDGES[rng.integers(0, 13)])
        elif rng.integers(0, 8) == 0:
            del data[int(rng.integers(8, len(data))) :]
    return bytes(data)


@contextmanager
def bounded() -> Iterator[None]:
    """No allocation may take the process's address space further than MOST_BYTES from here.
    Only Linux keeps such a limit."""
    if sys.platform != "linux":
        yield
        return
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MOST_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def verdict(path: Path) -> str:
    """ "packed", or the refusal. Raises Found."""
    data = path.read_bytes()
    start = time.process_time()
    try:
        compile_file(path)
        found = "packed"
    except MicaError as e:
        found = str(e)
        lines = found.splitlines()
        # Numbers so large that a run on made-up samples overflows are found by that run.
        begins = found.startswith((str(path), "calibration sample 0: "))
        if len(lines) > MOST_LINES or not begins or max(map(len, lines)) > 600:
            raise Found(data, f"no clear line: {found[:400]}") from None
    except MemoryError as e:
        raise Found(data, f"took more than {MOST_BYTES >> 20} MB: {e}") from None
    except Exception:
        raise Found(data, traceback.format_exc()) from None
    if time.process_time() - start > MOST_SECONDS:
        raise Found(data, f"took {time.process_time() - start:.1f} s; {found[:200]}")
    return found


def run(count: int, seed: int) -> dict[str, int]:
    """Damages `count` files; the figures. Raises Found at the first that fails."""
    rng = np.random.default_rng(seed)
    good = [make() for make in NETS.values()]
    sums: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.tflite"
        for data in good:  # so that what is imported late counts for none of the others
            path.write_bytes(data)
            verdict(path)
        with bounded():
            for _ in range(count):
                path.write_bytes(damaged(rng, good[rng.integers(0, len(good))]))
                sums["packed" if verdict(path) == "packed" else "refused"] += 1
    return {"files": count, **sums}


def main(count: int, seed: int) -> int:
    try:
        print(json.dumps(run(count, seed)))
    except Found as e:
        with tempfile.NamedTemporaryFile(prefix="damaged.", suffix=".tflite", delete=False) as f:
            f.write(e.data)
        print(f"{f.name}: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
