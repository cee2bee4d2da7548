"""Prints a table: bytes of models as C programs (mica cc) on a Cortex-M0+ and M4, beside those of other engines.

    python scripts/bench/c_bytes.py kws.mica vww.mica

Those of mica are measured with this computer's compilers, at -O2; those of the others are recorded in peers.json.
"""

import json
import sys
from pathlib import Path

from mica.c_program.measure import of_program

CORES = {"M0+": "armv6m", "M4": "armv7em"}


def table(paths: list[Path]) -> str:
    """Return the table in Markdown."""
    peers: dict[str, dict[str, int]] = json.loads(Path(__file__).with_name("peers.json").read_text())["code"]
    heads = ["network", "constants", "RAM", *(f"mica, {core}" for core in CORES), *peers]
    rows = [heads, ["---"] + ["---:"] * (len(heads) - 1)]
    for path in paths:
        found = [of_program(path.read_bytes(), isa) for isa in CORES.values()]
        theirs = [peer.get(path.stem) for peer in peers.values()]
        numbers = [found[0]["constants"], found[0]["ram"], *(f["code"] for f in found), *theirs]
        rows.append([path.stem, *("" if n is None else f"{n:,}" for n in numbers)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    print(table([Path(name) for name in sys.argv[1:]]))
