#!/usr/bin/env python3
"""Try for hours what tests try for seconds: fuzzers, boards in trouble, mistakes in a copy of the tree.

What the fuzzers keep on the way stays in the cache, and is where the next soak begins.
Ends with the figures, and with exit code 1 and what broke. The figures also go to soak.json in the cache;
`--note` keeps them in the tree.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from soak_parts import PARTS, Found, Settings

from mica.toolchain.cache import cache_dir

ROOT = Path(__file__).resolve().parents[2]

NOTED = Path(__file__).with_name("soak.json")  # the figures of the last soak that was noted


def revision() -> str:
    """Revision of this tree, with a + if files differ from it."""
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--exclude=*"]
    return subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()


def soak(names: list[str], settings: Settings) -> tuple[dict[str, Any], list[str]]:
    """Run the parts side by side; return the summary, and the problems."""

    def part(name: str) -> Found:
        found = Found()
        try:
            PARTS[name](settings, found)
        except Exception:  # the others go on, and the figures of all count
            found.problems.append(f"{name}:\n{traceback.format_exc()}")
        return found

    began = time.monotonic()
    with ThreadPoolExecutor(len(names)) as pool:
        found = dict(zip(names, pool.map(part, names), strict=True))
    summary = {
        "revision": revision(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seed": settings.seed,
        "minutes": round((time.monotonic() - began) / 60, 2),
        "problems": sum(len(f.problems) for f in found.values()),
        "parts": {title: figures for f in found.values() for title, figures in f.figures.items()},
    }
    return summary, [problem for f in found.values() for problem in f.problems]


def as_text(summary: dict[str, Any]) -> str:
    lines = [f"revision {summary['revision']}, seed {summary['seed']}, {summary['minutes']:g} minutes"]
    for title, figures in summary["parts"].items():
        lines.append(f"  {title}: " + ", ".join(f"{key} {value:,}" for key, value in figures.items()))
    return "\n".join(lines)


def note(path: Path) -> int:
    """Keep the summary at `path` in the tree."""
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
        shown = as_text(summary)
    except (OSError, KeyError, TypeError, ValueError) as e:
        print(f"soak: cannot note {path}: {e}; scripts/soak writes such a file", file=sys.stderr)
        return 1
    NOTED.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    print(f"{NOTED}: {shown}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--hours", type=float, default=1.0, help="how long (default 1)")
    length.add_argument("--minutes", type=float, help="how long, for less than an hour")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the random numbers (default: the time)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="fuzzers (default: one for each core)")
    parser.add_argument("--boards", default="UNIX,MPS2_AN385", metavar="NAMES", help="to trouble (default %(default)s)")
    for name, function in PARTS.items():
        if name != "boards":
            said = " ".join((function.__doc__ or "").partition(":")[0].split())
            parser.add_argument(
                f"--{name}", action="store_true", help=f"only this and other parts that are named: {said}"
            )
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    parser.add_argument(
        "--note", nargs="?", type=Path, const=cache_dir() / "soak.json", metavar="FILE", help="see above"
    )
    args = parser.parse_args()
    if args.note:
        return note(args.note)
    duration = args.hours * 3600 if args.minutes is None else args.minutes * 60
    if args.jobs < 1 or duration <= 0:
        parser.error("--jobs: 1 or more, and a time above 0, are expected; else nothing would be tried")
    named = [name for name in PARTS if name != "boards" and getattr(args, name)]
    names = named or list(PARTS)
    if named and args.boards != parser.get_default("boards"):
        names.append("boards")
    boards = tuple(name for name in args.boards.split(",") if name)
    summary, problems = soak(names, Settings(duration, args.seed, args.jobs, boards))
    (cache_dir() / "soak.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(summary) if args.json else as_text(summary))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
