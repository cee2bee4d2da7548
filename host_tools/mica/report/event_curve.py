"""Hits, false alarms an hour and delays over thresholds, as bars for a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from mica.report.layer_bars import bar

WIDTH = 24  # characters of the longest bar

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
