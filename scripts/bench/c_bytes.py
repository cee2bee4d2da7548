"""Writes a table into usermod_c/BENCH.md: bytes of the four reference models as C programs, beside other engines' code.

Run by scripts/launch. mica's are measured with this computer's compilers, at -O2; the others' stand in peers.json.
"""

import re
import tempfile
from pathlib import Path

import layers
from bench_page import PAGE, ROOT
from reference_models import MODEL_FOLDERS, packed_file

from mica.c_program.measure import measure_program

CORES = {"M0+": "armv6m", "M4": "armv7em", "RV32": "rv32imc"}


def table(folder: Path) -> str:
    """Return the table in Markdown."""
    rows = [["network", *CORES, *layers.PEERS["code"]], ["---"] * (1 + len(CORES) + len(layers.PEERS["code"]))]
    for name, short in MODEL_FOLDERS.items():
        data = packed_file(ROOT.parent / "shared" / "models", name, folder).read_bytes()
        codes = [measure_program(data, isa)["code"] for isa in CORES.values()]
        codes += [peer.get(short) for peer in layers.PEERS["code"].values()]
        rows.append([short, *("" if n is None else f"{n:,}" for n in codes)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        made = table(Path(work))
    PAGE.write_text(re.sub(r"(?m)^\| network \|.*\n(\|.*\n)+", lambda _: made, PAGE.read_text(encoding="utf-8")))
