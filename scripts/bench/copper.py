"""The virtual Picos beside real ones: MicroPython's perf_bench, scores of both, the worst first.

`python scripts/bench/copper.py [RPI_PICO | RPI_PICO2]...` prints it. The published scores come from other builds:
version, compiler and places in the cache alone move a score by 10 to 15 %. MicroPython's linker script takes the
bytecode loop, the collector and the parser into RAM if they are *.obj, as pico-sdk named them until 2.0.0. The Pico's
scores of 2023 have them there, the Pico 2's of 2026 do not; mica's images have them there on an RP2350. Both are
linked again as the published builds were, unless `--ours`.
"""

import argparse
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mica.boards import BoardSpec, load_board
from mica.images import uf2
from mica.link.emulated import EmulatedBoard
from mica.toolchain import sources
from mica.toolchain.build import build

# micropython#12846 (November 2023, two builds, 125 MHz); micropython#19352 (2026, 150 MHz).
PUBLISHED: dict[str, dict[str, tuple[float, ...]]] = {
    "RPI_PICO": {
        "bm_chaos": (211, 213),
        "bm_fannkuch": (52.4, 55.6),
        "bm_fft": (1547, 1581),
        "bm_float": (3770, 3784),
        "bm_hexiom": (33.8, 37.2),
        "bm_nqueens": (2445, 2595),
        "bm_pidigits": (362, 381),
        "bm_wordcount": (37.9, 39.2),
        "core_str": (18.9, 19.1),
    },
    "RPI_PICO2": {
        "bm_chaos": (307,),
        "bm_fannkuch": (92.6,),
        "bm_fft": (2989,),
        "bm_float": (4833,),
        "bm_hexiom": (43.8,),
        "bm_nqueens": (3708,),
        "bm_pidigits": (774,),
    },
}
IN_RAM = {"RPI_PICO": True, "RPI_PICO2": False}  # bytecode loop, collector and parser in those builds
N = {"RPI_PICO": 100, "RPI_PICO2": 168}  # of each publication, in MHz; M is 100 kB


def like_stock(facts: BoardSpec, folder: Path) -> Path:
    """Link mica's firmware again, with those parts in RAM that the published build had there; return the new image."""
    objects = build(facts).image.parent
    command = (objects / "CMakeFiles" / "firmware.dir" / "link.txt").read_text(encoding="utf-8")
    (script,) = re.findall(r"--script=(\S+memmap\S+\.ld)", command)
    text = Path(script).read_text(encoding="utf-8")
    mended, elf, binary = folder / "memmap.ld", folder / "stock.elf", folder / "stock.bin"
    names = r"\1.c.o" if IN_RAM[facts.name] else r"\1.none"
    mended.write_text(re.sub(r"\b(gc|vm|parse)\.c\.obj", names, text), encoding="utf-8")
    command = command.replace(script, str(mended)).replace("-o firmware.elf", f"-o {elf}")
    command = command.replace("-Map=firmware.elf.map", f"-Map={folder / 'stock.map'}")
    compiler, *options = shlex.split(command)
    subprocess.run([Path(compiler).name, *options], cwd=objects, check=True, capture_output=True)
    subprocess.run(["arm-none-eabi-objcopy", "-O", "binary", elf, binary], check=True)
    assert facts.uf2 is not None
    image = folder / "stock.uf2"
    image.write_bytes(uf2.build([(facts.uf2.base, binary.read_bytes())], facts.uf2.family))
    return image


@dataclass(frozen=True)
class Score:
    name: str
    here: float
    copper: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Modelled by measured; of several measured ones by the nearest."""
        return min((self.here / c for c in self.copper), key=lambda r: abs(r - 1))


def scores(board: str, firmware: Path, only: str = "") -> Iterator[Score]:
    """Run each test on a board of its own."""
    folder = sources.fetch() / "tests" / "perf_bench"
    facts = load_board(board)
    run = (folder / "benchrun.py").read_text(encoding="utf-8")
    for name, copper in PUBLISHED[board].items():
        if only not in name:
            continue
        with EmulatedBoard(facts, firmware, rom_files={"x": b"x"}) as there:  # so that its flash is its own
            code = (folder / f"{name}.py").read_text(encoding="utf-8") + run
            said = there.exec(f"{code}\nbm_run({N[board]}, 100)\n", timeout=900).decode()
        us, work, _ = said.split(None, 2)
        yield Score(name, 1e6 * float(work) / int(us), copper)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("board", nargs="*", default=list(PUBLISHED))
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--ours", action="store_true", help="mica's firmware as it is")
    args = parser.parse_args()
    for board in args.board:
        facts = load_board(board)
        with tempfile.TemporaryDirectory() as folder:
            firmware = build(facts).image if args.ours else like_stock(facts, Path(folder))
            found = sorted(scores(board, firmware, args.only), key=lambda s: -abs(s.ratio - 1))
        print(f"| {board} | real board | here | here / real |\n| --- | --- | --- | --- |")
        for s in found:
            print(f"| {s.name} | {', '.join(f'{c:,g}' for c in s.copper)} | {s.here:,.4g} | {s.ratio:.2f} |")


if __name__ == "__main__":
    main()
