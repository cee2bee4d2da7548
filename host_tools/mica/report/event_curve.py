"""Hits, false alarms an hour and delays over thresholds, as bars for a terminal and as an SVG picture."""

from collections.abc import Mapping, Sequence
from typing import Any

from mica.report.layer_bars import bar
from mica.report.svg import text

WIDTH = 24  # characters of the longest bar
_LEFT, _RIGHT, _TOP, _HEIGHT, _GAP, _ACROSS = 60, 20, 46, 120, 44, 520  # of the picture, in pixels

Rows = Sequence[Mapping[str, Any]]  # of `mica eval --json`: the list `thresholds`


def lines(rows: Rows) -> list[str]:
    """A line for each threshold: share of the words that are hits, false alarms an hour, delay in ms."""
    most = max(row["false_alarms_an_hour"] or 0 for row in rows) or 1
    out = [f"threshold  {'hits':{WIDTH + 10}}{'false alarms an hour':{WIDTH + 10}}delay"]
    for row in rows:
        hits, hour, delay = row["value"] or 0, row["false_alarms_an_hour"] or 0, row["delay_ms"]
        shown = "-" if delay is None else f"{delay:.0f} ms"
        out.append(
            f"{row['threshold']:9g}  {bar(hits, WIDTH):{WIDTH}} {100 * hits:5.1f} %  "
            f"{bar(hour / most, WIDTH):{WIDTH}} {hour:7.1f}  {shown}"
        )
    return out


def svg(rows: Rows, title: str) -> str:
    """Three curves over the threshold, one below the other."""
    curves = (
        ("hits, % of the words", [None if r["value"] is None else 100 * r["value"] for r in rows], 100.0),
        ("false alarms an hour", [r["false_alarms_an_hour"] for r in rows], 0.0),
        ("delay behind a word's end, ms", [r["delay_ms"] for r in rows], 0.0),
    )
    height = _TOP + len(curves) * (_HEIGHT + _GAP)
    width = _LEFT + _ACROSS + _RIGHT
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        text(_LEFT, 20, title, 'font-size="14" font-weight="bold"'),
    ]
    for k, (name, values, least) in enumerate(curves):
        out += _panel(_TOP + k * (_HEIGHT + _GAP), name, [r["threshold"] for r in rows], values, least)
    return "\n".join([*out, "</svg>\n"])


def _panel(top: int, name: str, at: Sequence[float], values: Sequence[float | None], least: float) -> list[str]:
    """One curve and its axes. least: what its axis reaches at least."""
    known = [v for v in values if v is not None]
    high, low = max([least, *known]) or 1.0, min([0.0, *known])
    bottom = top + _HEIGHT

    def place(x: float, y: float) -> str:
        return f"{_LEFT + x * _ACROSS:.1f},{bottom - (y - low) / (high - low) * _HEIGHT:.1f}"

    out = [text(_LEFT, top - 6, name, 'font-weight="bold"')]
    for share in (0.0, 0.5, 1.0):
        y = bottom - share * _HEIGHT
        out.append(f'<path d="M{_LEFT} {y:.1f}h{_ACROSS}" stroke="#ddd"/>')
        out.append(text(_LEFT - 6, y + 4, f"{low + share * (high - low):.4g}", 'text-anchor="end" fill="#555"'))
    for tenth in range(0, 11, 2):
        x = _LEFT + tenth / 10 * _ACROSS
        out.append(text(x, bottom + 14, f"{tenth / 10:g}", 'text-anchor="middle" fill="#555"'))
    points = [place(x, v) for x, v in zip(at, values, strict=True) if v is not None]
    out.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="#4a7fc1" stroke-width="2"/>')
    return out
