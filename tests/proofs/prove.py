"""Proves all theorems, or those that are named; one line each. scripts/prove runs it."""

from __future__ import annotations

import argparse
import resource
import sys

from theorems import NOT_PROVED, THEOREMS
from words import Tree


def seconds() -> float:
    return sum(resource.getrusage(who).ru_utime for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def show() -> None:
    for t in THEOREMS:
        print(f"{t.name} ({t.tool}, {t.seconds:g} s of a core)\n    {t.page}: {t.sentence}")
        print(f"    assumes: {t.assumes or 'nothing'}\n    finds: {t.fault[2].strip()!r} in {t.fault[0]}")
    print(f"\nNot proved:\n{NOT_PROVED}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="scripts/prove")
    parser.add_argument("names", nargs="*", help="theorems; none: all")
    parser.add_argument(
        "--list", action="store_true", help="say what is proved, from what, and what is not; prove nothing"
    )
    args = parser.parse_args()
    names = args.names
    if args.list:
        show()
        return 0
    unknown = set(names) - {t.name for t in THEOREMS}
    if unknown:
        parser.error(f"no theorem is named {', '.join(sorted(unknown))}")
    failed = 0
    for theorem in THEOREMS:
        if names and theorem.name not in names:
            continue
        begin = seconds()
        problem = theorem.prove(Tree())
        failed += problem is not None
        print(f"{theorem.name:20} {theorem.tool:12} {seconds() - begin:7.1f} s  {problem or 'proved'}", flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
