"""The virtual Picos beside real ones: MicroPython's perf_bench, scores of both, the worst first.

`python scripts/bench/copper.py [--only TEXT] [--image STOCK.uf2] [RPI_PICO | RPI_PICO2]...` prints it. Scores are of other builds (version, compiler, what lies
where in the cache), which alone move a score by 10 to 15 %.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mica.boards import load_board
from mica.errors import MicaError
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
N = {"RPI_PICO": 100, "RPI_PICO2": 168}  # of each publication, in MHz; M is 100 kB
SECONDS = 900  # of ours that a test may take


@dataclass(frozen=True)
class Score:
    name: str
    here: float
    copper: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Modelled by measured; of several measured ones by the nearest."""
        return min((self.here / c for c in self.copper), key=lambda r: abs(r - 1))


def scores(board: str, image: Path | None = None, only: str = "") -> Iterator[Score]:
    """Run each test on a board of its own. Raises MicaError where one does not come to its end."""
    folder = sources.fetch() / "tests" / "perf_bench"
    facts = load_board(board)
    firmware = image or build(facts).image
    run = (folder / "benchrun.py").read_text(encoding="utf-8")
    for name, copper in PUBLISHED[board].items():
        if only not in name:
            continue
        with EmulatedBoard(facts, firmware, rom_files={"x": b"x"}) as there:  # so that its flash is its own
            code = (folder / f"{name}.py").read_text(encoding="utf-8") + run
            said = there.exec(f"{code}\nbm_run({N[board]}, 100)\n", timeout=SECONDS).decode()
        us, work, _ = said.split(None, 2)
        score = Score(name, 1e6 * float(work) / int(us), copper)
        print(f"{board} {name}: {score.ratio:.2f}", file=sys.stderr, flush=True)
        yield score


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("board", nargs="*", default=list(PUBLISHED))
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--image", type=Path, help="of one board: a firmware in the place of mica's")
    args = parser.parse_args()
    for board in args.board:
        if board not in PUBLISHED:
            raise MicaError(f"{board}: expected {' or '.join(PUBLISHED)}")
        found = sorted(scores(board, args.image, args.only), key=lambda s: -abs(s.ratio - 1))
        print(f"| {board} | real board | here | here / real |\n| --- | --- | --- | --- |")
        for s in found:
            print(
                f"| {s.name} | {', '.join(f'{c:,g}' for c in s.copper)} | {s.here:,.4g} | {s.ratio:.2f} |", flush=True
            )


if __name__ == "__main__":
    main()
