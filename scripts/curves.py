"""Curves as an SVG picture: a logarithmic axis across, and one that is logarithmic or from nought up."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

LEFT, TOP, WIDTH, HEIGHT, RIGHT, BOTTOM = 84, 52, 560, 320, 190, 56  # pixels
COLOURS = ("#4a7fc1", "#cf7c2e", "#3b9486", "#9c55a8", "#c0392b", "#6a9c3f")


@dataclass(frozen=True)
class Curve:
    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Curves:
    """Points have x above 0, and y above 0 where `log` says so."""

    title: str
    x: str
    y: str
    curves: Sequence[Curve]
    log: bool = True  # of y


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten that enclose the values."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def draw(c: Curves) -> str:
    """The picture as SVG text."""
    xs = [x for curve in c.curves for x, _ in curve.points]
    ys = [y for curve in c.curves for _, y in curve.points]
    x0, x1 = _decades(xs)
    y0, y1 = _decades(ys) if c.log else (0, 100)

    def across(x: float) -> float:
        return LEFT + WIDTH * (math.log10(x) - x0) / (x1 - x0)

    def up(y: float) -> float:
        return TOP + HEIGHT * (1 - ((math.log10(y) if c.log else y) - y0) / (y1 - y0))

    width, height = LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="28" font-size="16" font-weight="bold">{escape(c.title)}</text>',
    ]
    for k in range(x0, x1 + 1):
        out.append(_line(across(10.0**k), TOP, across(10.0**k), TOP + HEIGHT))
        out.append(_text(across(10.0**k), TOP + HEIGHT + 18, f"{10.0**k:,.10g}", "middle"))
    ticks = [10.0**k for k in range(y0, y1 + 1)] if c.log else [float(y) for y in range(y0, y1 + 1, 20)]
    for y in ticks:
        out.append(_line(LEFT, up(y), LEFT + WIDTH, up(y)))
        out.append(_text(LEFT - 8, up(y) + 4, f"{y:,.10g}", "end"))
    out.append(_text(LEFT + WIDTH / 2, TOP + HEIGHT + 42, c.x, "middle"))
    out.append(_text(8, TOP - 8, c.y, "start"))
    for k, curve in enumerate(c.curves):
        colour = COLOURS[k % len(COLOURS)]
        points = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in curve.points)
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        if len(curve.points) == 1:
            ((x, y),) = curve.points
            out.append(f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="3" fill="{colour}"/>')
        at = TOP + 12 + 20 * k
        out.append(
            f'<line x1="{LEFT + WIDTH + 14}" y1="{at - 4}" x2="{LEFT + WIDTH + 38}" y2="{at - 4}" stroke="{colour}" stroke-width="2"/>'
        )
        out.append(_text(LEFT + WIDTH + 44, at, curve.name, "start"))
    return "\n".join([*out, "</svg>\n"])


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
