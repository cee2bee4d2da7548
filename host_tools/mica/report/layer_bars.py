"""Drawings of the cost of layers: bars for a terminal, and a trace for chrome://tracing or ui.perfetto.dev."""

from pathlib import Path
from typing import Any

WIDTH = 50  # of the longest bar
_EIGHTHS = " ▏▎▍▌▋▊▉"


def chart(r: dict[str, Any]) -> str:
    """A bar for each layer of `mica bench --json`, and one for what is outside of layers."""
    rows = [(f"{layer['index']} {layer['kernel']}", layer["cost"]) for layer in r["layers"]]
    rows.append(("outside", max(0, r["overhead"])))
    most = max(cost for _, cost in rows) or 1
    names = max(len(name) for name, _ in rows)
    return "\n".join(
        f"{name.ljust(names)}  {bar(cost / most).ljust(WIDTH)}  {100 * cost / (r['total'] or 1):6.2f} %"
        for name, cost in rows
    )


def bar(share: float, width: int = WIDTH) -> str:
    """share: from 0 to 1, of the width in characters."""
    whole, rest = divmod(round(share * width * 8), 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def trace(r: dict[str, Any], clock: int) -> dict[str, Any]:
    """The layers one after the other as Chrome-trace JSON.

    Its times are microseconds where the unit is seconds, or cycles of a known `clock` in Hz; else one microsecond is
    one of the unit, and `otherData` says so.
    """
    each = 1e6 if r["unit"] == "seconds" else 1e6 / clock if r["unit"] == "cycles" and clock else 1.0
    file = Path(r["file"]).name
    events: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": f"{file} on {r['target']}"}}
    ]
    at = 0.0
    for layer in r["layers"]:
        took = layer["cost"] * each
        arguments = {key: layer[key] for key in ("index", "kernel", "macs", "cost", "runs_in")}
        name = layer["name"] or layer["kernel"]
        events.append(
            {
                "name": name,
                "cat": layer["kernel"],
                "ph": "X",
                "pid": 1,
                "tid": 1,
                "ts": at,
                "dur": took,
                "args": arguments,
            }
        )
        at += took
    unit = "microseconds" if each != 1.0 else f"one microsecond stands for one of: {r['unit']}"
    return {
        "displayTimeUnit": "ms",
        "otherData": {"file": file, "target": r["target"], "unit": unit, "runs": r["runs"]},
        "traceEvents": events,
    }
