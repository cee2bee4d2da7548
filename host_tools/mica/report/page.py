"""A packed model as a page that one can look at: one file of HTML, without scripts, that asks nothing of any network.

Every number on it is a number of `facts`, which the page also holds as JSON,
in <script type="application/json" id="facts">.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any

from mica.file.codec import ModelFile
from mica.printable import three_digits
from mica.report import arena_chart, front_end, graph, svg


@dataclass(frozen=True)
class Report:
    """facts: of `report.facts.facts`; where they are known also `quality` and `layers[].sqnr_db` (`mica pack`),
    `evaluation` (`mica eval`) and `source` (`kept`: layers that an operator of the source became, `gone`: {operator:
    how often} of those that became part of others). model: for the picture of the arena."""

    facts: Mapping[str, Any]
    model: ModelFile

    def html(self) -> str:
        """The whole page."""
        return whole(self.facts["name"], self._body(), self.facts, skip="layers")

    def _repr_html_(self) -> str:
        """In a notebook: a frame, so that the page's style stays its own."""
        title, page = escape(self.facts["name"]), escape(self.html())
        return f'<iframe title="{title}" srcdoc="{page}" width="100%" height="700"></iframe>'

    def _body(self) -> str:
        f = self.facts
        parts = [
            f"<h1>{escape(f['name'])}</h1>",
            f'<p class="soft"><code>{escape(f["metadata"].get("command", ""))}</code></p>',
            _cards(f),
            _boards(f),
            _quality(f) if f.get("quality") else "",
            evaluation(f["evaluation"]) if f.get("evaluation") else "",
            _front_end(f["front_end"]) if f["front_end"] else "",
            section("Graph", region("graph", graph.draw(f), "tall")),
            section("Memory over time", region("arena", svg.draw(arena_chart.chart(self.model)), "picture")),
            _strips(f) if f["strips"] else "",
            _layers(f),
            _source(f["source"]) if f.get("source") else "",
        ]
        return "\n".join(part for part in parts if part)


def whole(title: str, body: str, data: Mapping[str, Any], skip: str) -> str:
    """Return a page; data: its numbers as JSON; skip: the part that a link at its top leads to."""
    style = (files("mica.report") / "page.css").read_text(encoding="utf-8")
    # "<" may not stand in a script: a name could end it.
    numbers = json.dumps(data).replace("<", "\\u003c")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,">\n<title>{escape(title)}: '
        f"mica</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f'<a class="skip" href="#{skip}">To the table of {skip}</a>\n<main>\n{body}\n</main>\n'
        f'<script type="application/json" id="facts">{numbers}</script>\n</body>\n</html>\n'
    )


def section(title: str, body: str, id_: str = "") -> str:
    name = f' id="{id_}"' if id_ else ""
    return f"<section{name}>\n<h2>{title}</h2>\n{body}\n</section>"


def region(name: str, body: str, kind: str = "") -> str:
    """A part that may be wider than a phone; scrolled with the keyboard too."""
    hint = '<p class="hint" aria-hidden="true">more to the right →</p>'
    return f'<div class="wide {kind}" role="region" aria-label="{name}" tabindex="0">{hint}{body}</div>'


def _cards(f: Mapping[str, Any]) -> str:
    rows = [
        ("file", f"{f['size']:,} bytes"),
        ("tensors", f"{f['arena_bytes']:,} bytes"),
        ("scratch for speed", f"{f['scratch_want']:,} bytes"),
        ("multiplications", f"{f['macs']:,}"),
        ("layers", str(len(f["layers"]))),
    ]
    if f["state_bytes"]:
        rows.append(("state", f"{f['state_bytes']:,} bytes"))
    cards = "".join(f'<li><span class="soft">{name}</span><b>{value}</b></li>' for name, value in rows)
    ends = [
        f"<p>{role} <b>{escape(t['name'])}</b>: {t['dtype']} {graph.shape(t['shape'])}, scale {t['scale']:.6g}, "
        f"zero point {t['zero_point']}</p>"
        for role, tensors in (("Input", f["inputs"]), ("Output", f["outputs"]))
        for t in tensors
    ]
    return f'<ul class="cards">{cards}</ul>\n' + "\n".join(ends)


def _boards(f: Mapping[str, Any]) -> str:
    rows = []
    for b in f["boards"]:
        time = "never measured" if b["total"] is None else f"{b['total']:,} {b['unit']}"
        ms = "" if b["milliseconds"] is None else f"{three_digits(b['milliseconds'])} ms"
        if b["flash_milliseconds"]:
            ms += f", of which flash {three_digits(b['flash_milliseconds'])}"
        fits = "fits" if b["fits"] else f'<span class="warn">does not fit: {escape("; ".join(b["reasons"]))}</span>'
        rows.append((escape(b["board"]), escape(b["core"]), fits, time, ms))
    head = ("board", "core", "", "an inference, predicted", "at its clock")
    return section("Boards", region("boards", table(head, rows, left=(0, 1, 2))))


def _quality(f: Mapping[str, Any]) -> str:
    q = f["quality"]
    text = "".join(f"<p>{escape(part)}.</p>" for part in q["line"].replace("\n", "; ").split("; "))
    text += "".join(f'<p class="warn">{escape(w)}</p>' for w in q.get("warnings", ()))
    return section("Quality beside float", text)


def evaluation(e: Mapping[str, Any]) -> str:
    value = f"{100 * e['value']:.2f} %" if e["metric"] == "top1" else f"{e['value']:.4f}"
    body = f"<p>{escape(e['metric'])} <b>{value}</b> on {e['samples']} samples ({escape(e['target'])}).</p>"
    counts, classes = e.get("confusion"), e.get("classes")
    if counts and classes:
        names = [escape(c["class"]) for c in classes]
        rows = []
        for c, row in zip(classes, counts, strict=True):
            share = [n / c["samples"] if c["samples"] else 0.0 for n in row]
            cells = [bar(str(n) if n else "·", part) for n, part in zip(row, share, strict=True)]
            rows.append((escape(c["class"]), str(c["samples"]), percent(c["recall"]), percent(c["precision"]), *cells))
        head = ("class", "samples", "recall", "precision", *names)
        caption = "A row for each class, a column for each answer: how often the class was answered so."
        body += region("confusion matrix", table(head, rows, caption=caption))
    return section("Accuracy", body)


def percent(x: float | None) -> str:
    return "–" if x is None else f"{100 * x:.1f} %"


def _front_end(f: Mapping[str, Any]) -> str:
    return section("Front end", f"<p>{front_end.text(f)}</p>" + region("front end", front_end.draw(f)))


def _strips(f: Mapping[str, Any]) -> str:
    rows = [
        (escape(f["layers"][first]["name"]), escape(f["layers"][first + n - 1]["name"]), str(n), f"{calls:,}")
        for first, n, calls in f["strips"]
    ]
    text = "<p>These layers run some rows at a time, so that none of their tensors is ever whole in memory.</p>"
    head = ("first layer", "last layer", "layers", "calls")
    return section("Strips", text + region("strips", table(head, rows, left=(0, 1))))


def _layers(f: Mapping[str, Any]) -> str:
    boards = [b for b in f["boards"] if b["total"] is not None]
    most = [max((c for c in b["layers"] if c is not None), default=1) or 1 for b in boards]
    errors = any(layer.get("sqnr_db") is not None for layer in f["layers"])
    rows, at = [], arena_chart.peak_row(f["layers"], f["peak_step"])
    for k, s in enumerate(f["layers"]):
        t = s["output"]
        peak = " ← peak" if k == at else ""
        costs = [
            bar("–" if (c := b["layers"][k]) is None else f"{c:,}", (c or 0) / top)
            for b, top in zip(boards, most, strict=True)
        ]
        quant = f"{t['scale']:.4g}, {t['zero_point']}"
        row = [escape(s["name"]), escape(s["kernel"]), graph.shape(t["shape"]), quant, f"{s['macs']:,}"]
        row += [f"{s['weight_bytes']:,}", f"{s['live_bytes']:,}{peak}", *costs]
        if errors:
            row.append("–" if s.get("sqnr_db") is None else f"{s['sqnr_db']:.1f}")
        rows.append(tuple(row))
    head = ["layer", "kernel", "output", "scale, zero point", "multiplications", "weights", "bytes in use"]
    head += [f"{escape(b['board'])}, {b['unit']}" for b in boards] + ["SQNR, dB"] * errors
    return section("Layers", region("layers", table(tuple(head), rows, left=(0, 1, 2))), "layers")


def _source(source: Mapping[str, Any]) -> str:
    gone = ", ".join(
        f"{escape(op)} ×{n}" for op, n in sorted(source["gone"].items(), key=lambda item: (-item[1], item[0]))
    )
    text = f"<p>{source['kept']} operators of the source are layers under their own names.</p>"
    text += f"<p>Part of other layers, computed ahead or dropped: {gone}.</p>" if gone else ""
    return section("What was fused", text)


def bar(text: str, part: float) -> str:
    """A cell whose ground shows a share of the most, 0 to 1."""
    return f'<td class="bar" style="--part: {100 * part:.1f}%">{text}</td>'


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,), caption: str = "") -> str:
    """Cells are HTML, either whole <td> or what goes into one."""

    def mark(k: int) -> str:
        return ' class="left"' if k in left else ""

    top = "".join(f'<th scope="col"{mark(k)}>{cell}</th>' for k, cell in enumerate(head))
    body = "\n".join(
        "<tr>" + "".join(c if c.startswith("<td") else f"<td{mark(k)}>{c}</td>" for k, c in enumerate(row)) + "</tr>"
        for row in rows
    )
    about = f"<caption>{caption}</caption>" if caption else ""
    return f"<table>{about}<thead><tr>{top}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"
