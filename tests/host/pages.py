"""The pages of this tree."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "host_tools" / "docs"
PACKING = DOCS / "packing.md"
MEMORY = DOCS / "memory.md"
BENCH = ROOT / "usermod_c" / "BENCH.md"
# Not ROOT.rglob: caches and environments beside have many thousand files.
FOLDERS = [ROOT / name for name in (".github", "host_tools", "firmware", "usermod_c", "boards", "tests", "scripts")]
NOT_OURS = {"build", "node_modules"}


def pages() -> list[Path]:
    found = sorted(page for folder in FOLDERS for page in folder.rglob("*.md"))
    return [README, *(page for page in found if not NOT_OURS & set(page.relative_to(ROOT).parts))]


PAGES = pages()
