"""What `scripts/soak` tries: PARTS, a function each. All go on side by side until the time is over.

To add a part, write a function from Settings to Found and a row of PARTS.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "host_tools"), *(str(ROOT / "tests" / name) for name in ("format", "robustness", "faults"))]

import c_build  # noqa: E402
import fuzzing  # noqa: E402
import injecting  # noqa: E402
import mutants  # noqa: E402
import troubling  # noqa: E402

from mica.toolchain.cache import cache_dir  # noqa: E402


@dataclass(frozen=True)
class Settings:
    """`seconds` from now; `seed` of random numbers; `jobs` processes for the fuzzers; names of `boards` to trouble."""

    seconds: float
    seed: int
    jobs: int
    boards: tuple[str, ...]


@dataclass
class Found:
    """Counts of what was tried, by a name for people; and each problem, with all that is known of it."""

    figures: dict[str, dict[str, int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, name: str, tried: dict[str, int]) -> None:
        sums = self.figures.setdefault(name, {})
        for what, n in tried.items():
            sums[what] = max(sums.get(what, 0), n) if what == "edges" else sums.get(what, 0) + n


def fuzz(s: Settings) -> Found:
    """Damaged files through the loader and the engine on this computer: builds of 64 and 32 bits, ref and c32, with all that a
    sanitizer sees; and files that change under a running model."""
    kinds = [(build, False) for build in c_build.BUILDS] + [
        (build, True) for build in (c_build.BUILDS[0], c_build.BUILDS[-1])
    ]
    kinds = list(dict.fromkeys(kinds))
    found = Found()
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(s.jobs) as pool:
        programs = {}
        for build, changed in kinds:
            folder = Path(name) / f"{build.name} {changed}"
            folder.mkdir()
            programs[build, changed] = fuzzing.make(folder, build, changed)
        each = max(1, int(s.seconds / len(kinds)))
        end = time.monotonic() + s.seconds

        def one(i: int) -> None:
            # No two processes write to one corpus; each begins with another build.
            for k in range(len(kinds)):
                build, changed = kinds[(i + k) % len(kinds)]
                title = f"files on this computer, {build.name}" + (", rewritten under the model" if changed else "")
                mine = cache_dir() / "fuzz" / title.replace(",", "").replace(" ", "-") / str(i)
                seconds = min(each, int(end - time.monotonic()) + 1)
                if seconds < 1:
                    return
                outcome = fuzzing.run(
                    programs[build, changed], mine, seed=s.seed + i, seconds=seconds, corpus=str(mine)
                )
                f = outcome.figures
                tried = (
                    {"inputs": f["inputs"], "inferences": f["loaded"], "kept": f["kept"], "edges": f["edges"]}
                    if f
                    else {}
                )
                found.add(title, tried | {"crashes": int(not f)})
                if not f:
                    found.problems.append(f"{title}, {outcome.found}:\n{outcome.report[:4000]}")
                    return

        list(pool.map(one, range(s.jobs)))
    return found


def boards(s: Settings) -> Found:
    """Boards in trouble, in rounds: damaged files, odd calls, also in mid-run, Ctrl-C, soft resets."""
    found = Found()
    end, seed = time.monotonic() + s.seconds, s.seed
    while s.boards and time.monotonic() < end:
        for name in s.boards:
            try:
                found.add(name, {"rounds": 1} | troubling.one_round(name, seed) | {"crashes": 0})
            except AssertionError as e:
                found.add(name, {"crashes": 1})
                found.problems.append(str(e))
                return found
        seed += 1
    return found


def memory(s: Settings) -> Found:
    """Allocations that fail, and Ctrl-C, in MicroPython's unix port: in each scenario in turn, other places in each round."""
    found = Found()
    seed = s.seed
    with injecting.board() as board:
        names = injecting.scenarios(board)
        end = time.monotonic() + s.seconds  # to build that firmware can take longer than a short soak
        while time.monotonic() < end:
            for name in names:
                if time.monotonic() >= end:
                    break
                try:
                    tried = {"scenarios": 1} | injecting.inject(board, name, 500, seed)
                except AssertionError as e:
                    found.add("memory and Ctrl-C", {"crashes": 1})
                    found.problems.append(str(e))
                    return found
                found.add("memory and Ctrl-C", tried | {"crashes": 0})
            seed += 1
    return found


def mutation(s: Settings) -> Found:
    """Mistakes in a copy of this tree, that the tests should see (scripts/mutants), as many as there is time for. One that was
    decided before is counted, not tried again."""
    found = Found()
    chosen = [*mutants.named_mutants(), *mutants.placed_mutants(mutants.SEED, mutants.PLACED)]
    records = mutants.run(chosen, 1, s.seconds / 60, lambda line: print(line, file=sys.stderr, flush=True))
    found.add("mistakes in a copy of the tree", mutants.counts(records))
    for r in records:
        if r["verdict"] in ("survived", "timeout"):
            found.problems.append(
                f"mutant {r['verdict']}: {r['name']}, {r['file']}:{r['line']}: {r['before']} -> {r['after']}"
            )
    return found


def tflite(s: Settings) -> Found:
    """Damaged .tflite files through `pack`, by the hundred, in a process of its own: it measures its memory."""
    found, name = Found(), "damaged .tflite files"
    end, seed = time.monotonic() + s.seconds, s.seed
    program = [sys.executable, str(ROOT / "tests" / "host" / "damaged_tflite.py"), "100"]
    while time.monotonic() < end:
        done = subprocess.run([*program, str(seed)], capture_output=True, text=True, check=False)
        if done.returncode:
            found.add(name, {"crashes": 1})
            found.problems.append(done.stderr[-4000:])
            return found
        found.add(name, json.loads(done.stdout) | {"crashes": 0})
        seed += 1
    return found


PARTS: dict[str, Callable[[Settings], Found]] = {
    "fuzz": fuzz,
    "boards": boards,
    "memory": memory,
    "mutants": mutation,
    "tflite": tflite,
}
