#!/usr/bin/env python3
"""Fuzz the loader and the engine on this computer, with sanitizers, guided by what code is reached.

What is kept on the way stays in the cache, and is where the next soak begins. Ends with the figures, and with exit code 1
and the file where one made the engine read or write where it must not, or take longer than half a minute.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "host_tools"), *(str(ROOT / "tests" / name) for name in ("format", "trouble", "faults"))]

import c_build  # noqa: E402
import fuzzing  # noqa: E402
import injecting  # noqa: E402
import troubling  # noqa: E402

from mica.device.cache import cache_dir  # noqa: E402


def trouble_boards(names: list[str], seed: int, seconds: float) -> tuple[dict[str, dict[str, int]], str]:
    """Rounds of trouble on each board in turn; what was tried on each, and what broke."""
    sums: dict[str, dict[str, int]] = {name: {} for name in names}
    end = time.monotonic() + seconds
    while names and time.monotonic() < end:
        for name in names:
            try:
                tried = {"rounds": 1} | troubling.one_round(name, seed) | {"crashes": 0}
            except AssertionError as e:
                sums[name]["crashes"] = sums[name].get("crashes", 0) + 1
                return sums, str(e)
            for what, n in tried.items():
                sums[name][what] = sums[name].get(what, 0) + n
        seed += 1
    return sums, ""


def memory_faults(wanted: bool, seed: int, seconds: float) -> tuple[dict[str, int], str]:
    """Faults in each scenario in turn, other places in each round: what was tried, and what broke."""
    sums: dict[str, int] = {}
    end = time.monotonic() + seconds
    if not wanted:
        return sums, ""
    with injecting.board() as board:
        names = injecting.scenarios(board)
        while time.monotonic() < end:
            for name in names:
                if time.monotonic() >= end:
                    break
                try:
                    tried = {"scenarios": 1} | injecting.inject(board, name, 500, seed)
                except AssertionError as e:
                    return sums | {"crashes": 1}, str(e)
                for what, n in tried.items():
                    sums[what] = sums.get(what, 0) + n
            seed += 1
    return sums | {"crashes": 0}, ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--hours", type=float, default=1.0, help="how long (default 1)")
    length.add_argument("--minutes", type=float, help="how long, for less than an hour")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the random numbers (default: the time)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one for each core)")
    parser.add_argument(
        "--boards", default="", metavar="NAMES", help="meanwhile, trouble these boards too: UNIX,MPS2_AN385"
    )
    parser.add_argument(
        "--memory",
        action="store_true",
        help="meanwhile, let allocations fail and Ctrl-C come in MicroPython's unix port",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    args = parser.parse_args()
    duration = args.hours * 3600 if args.minutes is None else args.minutes * 60
    if args.jobs < 1 or duration <= 0:
        parser.error("--jobs: 1 or more, and a time above 0, are wanted; else nothing would be tried")
    corpus = cache_dir() / "fuzz"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fuzzing.compile_engine(folder, c_build.SOURCES)
        fuzz = fuzzing.link(folder)

        def one(i: int) -> fuzzing.Outcome:
            mine = corpus / str(i)
            seconds = max(1, int(duration))
            return fuzzing.run(fuzz, mine, seed=args.seed + i, seconds=seconds, corpus=str(mine))

        with ThreadPoolExecutor(args.jobs + 2) as pool:
            names = [name for name in args.boards.split(",") if name]
            troubled = pool.submit(trouble_boards, names, args.seed, duration)
            faults = pool.submit(memory_faults, args.memory, args.seed, duration)
            outcomes = list(pool.map(one, range(args.jobs)))
    bad = [o for o in outcomes if not o.figures]
    git = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    revision = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    total = {k: sum(o.figures.get(k, 0) for o in outcomes) for k in ("inputs", "loaded", "kept")}
    edges = max((o.figures.get("edges", 0) for o in outcomes), default=0)
    parts: dict[str, dict[str, int]] = {
        "files on this computer": {
            "inputs": total["inputs"],
            "inferences": total["loaded"],
            "kept": total["kept"],
            "edges": edges,
            "crashes": len(bad),
        }
    } | troubled.result()[0]
    if args.memory:
        parts["memory and Ctrl-C"] = faults.result()[0]
    result = {"revision": revision, "seed": args.seed, "minutes": round(duration / 60, 2), "parts": parts}
    if args.json:
        print(json.dumps(result))
    else:
        print(f"revision {revision}, seed {args.seed}, {duration / 60:g} minutes")
        for part, figures in parts.items():
            print(f"  {part}: " + ", ".join(f"{key} {value:,}" for key, value in figures.items()))
    for o in bad:
        print(f"{o.found}:\n{o.report[:4000]}", file=sys.stderr)
    broken = [text for text in (troubled.result()[1], faults.result()[1]) if text]
    print(*broken, sep="\n", end="\n" if broken else "", file=sys.stderr)
    return 1 if bad or broken else 0


if __name__ == "__main__":
    sys.exit(main())
