"""No kernel of an instruction set goes unseen: winners.txt has each one that a core has of its own."""

from __future__ import annotations

import re
from pathlib import Path

ISA = Path(__file__).resolve().parents[2] / "usermod_c" / "kernels" / "isa"
LISTED = Path(__file__).with_name("winners.txt")


def _winners() -> list[str]:
    """The lines that mica_select.h of each folder decides: instruction set, operator, kernel."""
    lines = []
    for header in sorted(ISA.glob("*/mica_select.h")):
        found = re.findall(r"^#define (MICA_\w+) (mica_\w+)$", header.read_text(encoding="utf-8"), re.M)
        lines += [f"{header.parent.name} {operator} {kernel}" for operator, kernel in sorted(found)]
    return lines


def test_each_kernel_is_listed() -> None:
    """A line that is missing here is a kernel that was lost; one that is new belongs into the list."""
    assert _winners() == LISTED.read_text(encoding="utf-8").splitlines()


def test_each_kernel_has_its_file() -> None:
    """Every winner is defined in a source of its folder, or of one that the folder includes."""
    sources = "\n".join(p.read_text(encoding="utf-8") for p in ISA.glob("*/*.[cS]"))
    sources += "\n".join(p.read_text(encoding="utf-8") for p in ISA.parent.glob("ref/*.c"))
    names = {line.split()[2] for line in LISTED.read_text(encoding="utf-8").splitlines()}
    assert len(names) > 60
    assert {name for name in names if not re.search(rf"^(?!//).*\b{name}\b", sources, re.M)} == set()
