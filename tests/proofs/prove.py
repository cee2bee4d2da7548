"""Proves all theorems, or those that are named; one line each. scripts/prove runs it."""

from __future__ import annotations

import argparse
import resource
import sys
import textwrap
from pathlib import Path

from theorems import NOT_PROVED, SPEC, THEOREMS
from words import Tree

PAGE = Path(__file__).parent / "README.md"


def seconds() -> float:
    return sum(resource.getrusage(who).ru_utime for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


DITTO = "〃"
HEAD = """\
# Theorems

`scripts/prove [NAMES]` proves these. Sentences are of SPEC.md, of the file named, or of the fault's. A test plants each
fault. s: seconds of a core, from 10 on.

* **model**: of the C; up to 100,000 inputs compare both.
* **FAST**: the step claims it, and the loader agreed.
* **constants**: registers hold what the macro's comment says.
* **CBMC**: of files up to 2^31 - 1 bytes. If not **any file**: their sections lie inside it, no dimension is 0.
* **runs**, **states**: all are tried.

<!-- gen: scripts/prove --page -->
| name | proves | assumes | by | s | planted fault |
|---|---|---|---|---|---|
"""


def diff(old: str, new: str) -> str:
    """Return the words that a planted fault changes, without blanks."""
    a, b = old.split(), new.split()
    while a and b and a[0] == b[0]:
        a, b = a[1:], b[1:]
    while a and b and a[-1] == b[-1]:
        a, b = a[:-1], b[:-1]
    return "→".join(f"`{''.join(words)}`" if words else "-" for words in (a, b))


def page() -> str:
    """Return the page of all theorems; what is the same as in the row above is not said again."""
    parts, last = [HEAD], ("", "", "", "")
    for t in sorted(THEOREMS, key=lambda t: [s.sentence for s in THEOREMS].index(t.sentence)):
        of = "" if t.page in (SPEC, t.fault[0]) else f"{Path(t.page).name}: "
        said = of + t.sentence, t.assumes, t.tool, f"{Path(t.fault[0]).name}:"
        proves, assumes, tool, file = (DITTO if a == b != "" else a for a, b in zip(said, last, strict=True))
        cells = (t.name, proves, assumes, tool, f"{t.seconds:g}" * (t.seconds >= 10), f"{file} {diff(*t.fault[1:])}")
        parts.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |\n")
        last = said
    parts.append("<!-- end -->\n\n## What is not proved\n\n")
    for line in NOT_PROVED:
        parts.append(
            textwrap.fill(line, 118, initial_indent="* ", subsequent_indent="  ", break_on_hyphens=False) + "\n"
        )
    return "".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="scripts/prove")
    parser.add_argument("names", nargs="*", help="theorems; none: all")
    parser.add_argument("--page", action="store_true", help="write tests/proofs/README.md, and prove nothing")
    args = parser.parse_args()
    names = args.names
    if args.page:
        PAGE.write_text(page(), encoding="utf-8")
        print(PAGE)
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
