"""The options --chart and --chart-file of `mica pack` and `mica info`."""

import argparse
from pathlib import Path

from mica.cli import outputs
from mica.file.codec import ModelFile
from mica.printable import printable_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--chart", action="store_true", help="show who lies where in the arena, step by step")
    parser.add_argument("--chart-file", metavar="F.svg", type=_svg, help="the same as a picture")


def _svg(name: str) -> str:
    if Path(name).suffix.lower() != ".svg":
        raise argparse.ArgumentTypeError(f"{name}: pictures are SVG; give a name that ends in .svg")
    return name


def draw(args: argparse.Namespace, model: ModelFile) -> str:
    """Writes the picture where one is asked for; returns the lines for the terminal, or "". Raises MicaError."""
    from mica.report import arena_chart, svg

    found = arena_chart.chart(model) if args.chart or args.chart_file else None
    if found is None:
        return ""
    if args.chart_file:
        outputs.write(Path(args.chart_file), svg.draw(found).encode())
    return f"\n{printable_lines(arena_chart.lines(found))}\n" if args.chart else ""
