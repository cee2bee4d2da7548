"""The tables that the bench prints and `usermod_c/BENCH.md` has."""

from collections.abc import Mapping, Sequence
from typing import Any

import cycle_tables
import layers
from bare_metal import Core

from mica.cli import text


def report(core: Core, entry: Mapping[str, Any], old: Mapping[str, Any] | None) -> str:
    """One core's tables."""
    lines = [
        f"== {core.name}, {entry['isa']} kernels",
        "",
        layer_table(core, entry, old),
        "",
        model_table(core, entry, old),
    ]
    return "\n".join([*lines, "", f"kernels: {sum(entry['code'].values()):,} bytes of code and constants"])


def layer_table(core: Core, entry: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> str:
    """The layers, one a line; cycles by the published table beside instructions, where the core has one."""
    peers = layers.PEERS["layers"].get(core.name, {})
    by_table = _cycles_name(core, entry)
    head = [
        "layer",
        core.unit,
        "per MAC",
        *([by_table, "per MAC"] if by_table else ()),
        "scratch",
        "best peer",
        "TFLM ref",
        "trial",
    ]
    rows = []
    for layer in layers.LAYERS:
        r = entry["layers"][layer.name]
        figures = [f"{v:.2f}" if v is not None else "" for v in peers.get(layer.name, (None, None, None))]
        counted = [f"{n:,.0f}|{n / layer.work:.2f}" for n in (r["count"], *([r["cycles"]] if by_table else ()))]
        row = [layer.name, *"|".join(counted).split("|"), f"{r['scratch']:,}", *figures]
        if old:
            row.append(_ratio(r["count"], old["layers"].get(layer.name, {}).get("count")))
        rows.append(tuple(row))
    return text.table((*head, "against") if old else tuple(head), rows, "l" + "r" * (len(rows[0]) - 1))


def model_table(core: Core, entry: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> str:
    """The models."""
    rows = []
    known = layers.PEERS["models"].get(core.name, {})
    by_table = _cycles_name(core, entry)
    for name in layers.MODELS:
        peer, trial, goal = known.get(name, (None, None, None))
        model = entry["models"].get(name, {})
        row = [
            name,
            f"{entry['sums'][name] / 1e6:.2f}",
            f"{model['count'] / 1e6:.2f}" if model else "",
            f"{model['lean'] / 1e6:.2f}" if model else "",
            *([f"{entry['cycle_sums'][name] / 1e6:.2f}"] if by_table else ()),
            *([f"{model['cycles'] / 1e6:.2f}" if model else ""] if by_table else ()),
            *(f"{v:.2f}" if v is not None else "" for v in (goal, peer, trial)),
            f"{model['arena']:,}" if model else "",
            f"{model['scratch']:,}" if model else "",
        ]
        if old:
            row.append(_ratio(entry["sums"][name], old["sums"].get(name)))
        rows.append(tuple(row))
    cycles = (f"layers, M {by_table}", "whole file") if by_table else ()
    names = (
        "model",
        f"layers, M {core.unit}",
        "whole file",
        "lean",
        *cycles,
        "goal",
        "best peer",
        "trial",
        "arena",
        "scratch",
    )
    return text.table((*names, "against") if old else names, rows, "l" + "r" * (len(rows[0]) - 1))


def _cycles_name(core: Core, entry: Mapping[str, Any]) -> str:
    """The head of the column of cycles by a table; nothing where there is none."""
    return cycle_tables.NAMES[cycle_tables.TABLES[core.name]] if "cycle_sums" in entry else ""


def _ratio(new: float, old: float | None) -> str:
    return f"{new / old:.3f}" if old else ""


def size_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The same as a table."""
    parts = ("ref", "fast", "from_ram", "loaders", "runtime", "binding")
    head = ("board", "for", "kernels", *parts, "C in all", "Python", "of firmware", "firmware")
    lines = []
    for r in rows:
        k = r["kernels"]
        engine = sum(k[name] for name in parts) - k["from_ram"]
        counts = (f"{n:,}" for n in (*(k[name] for name in parts), engine, k["python"]))
        share = (engine + k["python"]) / r["firmware"]
        lines.append((r["board"], r["built_for"], r["isa"], *counts, f"{100 * share:.1f} %", f"{r['firmware']:,}"))
    return text.table(head, lines, "lll" + "r" * 10)
