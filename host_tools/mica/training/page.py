"""A trained model as a page: what it confuses, the recordings that it got wrong, how it learnt,
and what else was tried.

One file of HTML, without scripts, that asks nothing of any network: wrong clips are in it, to play or to look at.
"""

import base64
import io
import wave
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from mica.data import pictures
from mica.printable import three_digits
from mica.report import page
from mica.training.examples import Examples
from mica.training.wake import Wake

if TYPE_CHECKING:
    from mica.training.run import Result
    from mica.training.search import Candidate

MOST_WRONG = 40  # clips that are shown, the surest mistakes first
WIDTH, HEIGHT, EDGE = 640, 300, 50  # of a chart, pixels; its margins
_INK = ("#2f6fb5", "#c0392b", "#3b9486", "#cf7c2e", "#9c55a8", "#6a9c3f")


def html(r: "Result", wake: Wake | None = None) -> str:
    """Return the whole page."""
    counts = r.confusion
    answered, right, said = counts.sum(axis=0), counts.diagonal(), counts.sum(axis=1)
    classes = [
        {
            "class": name,
            "samples": int(said[k]),
            "recall": right[k] / said[k] if said[k] else None,
            "precision": right[k] / answered[k] if answered[k] else None,
        }
        for k, name in enumerate(r.labels)
    ]
    target = f"int8; float {100 * r.float_accuracy:.2f} %"
    held = {"metric": "top1", "value": r.accuracy, "samples": len(r.held), "target": target}
    data = {
        "accuracy": r.accuracy,
        "float_accuracy": r.float_accuracy,
        "labels": list(r.labels),
        "confusion": counts.tolist(),
        "history": [list(map(float, at)) for at in r.history],
        "tried": [[c.name, c.ms, c.accuracy, c.chosen] for c in r.tried],
    }
    notes = "".join(f"<li>{escape(line)}</li>" for line in (*r.held.notes, *r.notes))
    parts = [
        f"<h1>{escape(', '.join(r.labels))}</h1>",
        f"<p>{len(r.train)} examples to learn from; {len(r.held)} that training never saw judge below. {_costs(r)}</p>",
        f"<ul>{notes}</ul>" if notes else "",
        page.evaluation({**held, "confusion": counts.tolist(), "classes": classes}),
        page.section("Wake words", "".join(f"<p>{escape(line)}</p>" for line in wake.lines())) if wake else "",
        page.section("Wrong answers", _wrong(r), "mistakes"),
        page.section("Learning curve", page.region("learning curve", _curve(r.history), "picture")),
        page.section("What was tried", page.region("candidates", _front(r.tried), "picture") + _tried(r.tried)),
    ]
    return page.whole(", ".join(r.labels), "\n".join(part for part in parts if part), data, skip="mistakes")


def _costs(r: "Result") -> str:
    ms = "" if r.cost.ms is None else f"{three_digits(r.cost.ms)} ms, "
    return f"On {escape(r.board)}: {ms}{r.cost.ram:,} bytes of RAM, {r.cost.flash:,} of flash."


def _wrong(r: "Result") -> str:
    """Return a table of the surest mistakes."""
    answers = r.answers.argmax(axis=1)
    wrong = np.flatnonzero(answers != r.held.labels)
    if not len(wrong):
        return "<p>None.</p>"
    order = wrong[np.argsort(-r.answers[wrong, answers[wrong]], kind="stable")][:MOST_WRONG]
    rows = [
        (
            escape(r.held.paths[k]),
            escape(r.labels[r.held.labels[k]]),
            f"{escape(r.labels[answers[k]])} {100 * r.answers[k, answers[k]]:.0f} %",
            shown(r.held, int(k)),
        )
        for k in order
    ]
    more = f"<p>{len(wrong) - len(rows)} more are not shown.</p>" if len(wrong) > len(rows) else ""
    return page.region("wrong answers", page.table(("example", "is", "taken for", ""), rows, left=(0, 1, 2, 3))) + more


def shown(examples: Examples, k: int) -> str:
    """Return an example as HTML: sound that can be played, a picture, lines of motion, or numbers."""
    x = examples.inputs[k]
    if examples.kind == "sound":
        data = _base64(_wav(x, round(examples.rate)))
        return f'<audio controls preload="none" src="data:audio/wav;base64,{data}"></audio>'
    if examples.kind == "picture":
        size = f'width="{4 * x.shape[1]}" height="{4 * x.shape[0]}" style="image-rendering: pixelated"'
        data = _base64(pictures.png(x.astype(np.uint8)))
        return f'<img alt="{escape(examples.paths[k])}" {size} src="data:image/png;base64,{data}">'
    if examples.kind == "motion":
        spread = max(float(np.ptp(x)), 1e-9)
        lines = [[(j, (float(v) - float(x.min())) / spread) for j, v in enumerate(column)] for column in x.T]
        paths = "".join(_line([(2.0 * j, 58 - 56 * v) for j, v in line], _INK[n % 6]) for n, line in enumerate(lines))
        return f'<svg width="{2 * len(x)}" height="60" role="img" aria-label="{x.shape[1]} axes">{paths}</svg>'
    return ", ".join(f"{v:g}" for v in x[:12])


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _wav(x: np.ndarray, rate: int) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 2, rate, 0, "NONE", ""))
        sound.writeframes(np.clip(np.rint(x * 32768), -(2**15), 2**15 - 1).astype("<i2").tobytes())
    return file.getvalue()


def _line(points: Sequence[tuple[float, float]], colour: str) -> str:
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'


def _ends(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values, default=0.0), max(values, default=1.0)
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _chart(
    x: Sequence[float], y: Sequence[float], names: tuple[str, str], draw: Callable[[list[tuple[float, float]]], str]
) -> str:
    """Return an SVG picture with its axes. draw: points in it, of these places in pixels."""
    across, up = _ends(x), _ends(y)
    right, above = (WIDTH - EDGE - 30) / (across[1] - across[0]), (HEIGHT - EDGE - 20) / (up[1] - up[0])
    places = [
        (EDGE + 8 + (a - across[0]) * right, HEIGHT - EDGE - 8 - (b - up[0]) * above) for a, b in zip(x, y, strict=True)
    ]
    texts = [
        (EDGE, HEIGHT - EDGE + 16, f"{across[0]:.3g}", "start"),
        (WIDTH - 10, HEIGHT - EDGE + 16, f"{across[1]:.3g} {names[0]}", "end"),
        (EDGE - 6, HEIGHT - EDGE, f"{up[0]:.3g}", "end"),
        (EDGE - 6, 14, f"{up[1]:.3g}", "end"),
        (EDGE + 6, 14, names[1], "start"),
    ]
    labels = "".join(f'<text x="{x}" y="{y}" text-anchor="{end}">{escape(text)}</text>' for x, y, text, end in texts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="{names[1]}" font-family="Helvetica, Arial, sans-serif" font-size="11">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
        f'<path d="M{EDGE} 4V{HEIGHT - EDGE}H{WIDTH - 10}" fill="none" stroke="#555"/>{labels}{draw(places)}</svg>'
    )


def _curve(history: Sequence[tuple[int, float]]) -> str:
    steps, losses = [float(step) for step, _ in history], [loss for _, loss in history]
    return _chart(steps, losses, ("steps", "mean loss"), lambda at: _line(at, _INK[0]) if at else "")


def _front(tried: Sequence["Candidate"]) -> str:
    """Return accuracy over milliseconds, or over bytes of flash where no time is known."""
    found = [c for c in tried if c.accuracy is not None]
    timed = all(c.ms is not None for c in found)

    def dots(places: Sequence[tuple[float, float]]) -> str:
        parts = []
        for c, (x, y) in zip(found, places, strict=True):
            dot = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{7 if c.chosen else 4}" fill="{_INK[int(c.chosen)]}"/>'
            end, beside = ("end", x - 10) if x > WIDTH / 2 else ("start", x + 10)
            name = f'<text x="{beside:.1f}" y="{y + 4:.1f}" text-anchor="{end}">{escape(c.name)}</text>'
            shown = name if c.chosen or len(found) < 8 else ""
            parts.append(f"<g>{dot}{shown}<title>{escape(c.name)}</title></g>")
        return "".join(parts)

    x = [float((c.ms if timed else c.flash) or 0) for c in found]
    return _chart(
        x, [100 * (c.accuracy or 0) for c in found], ("ms" if timed else "bytes", "% right; red: chosen"), dots
    )


def _tried(tried: Sequence["Candidate"]) -> str:
    rows = [
        (
            escape(c.name) + (" ← chosen" if c.chosen else ""),
            "–" if c.ms is None else three_digits(c.ms),
            f"{c.ram:,}",
            f"{c.flash:,}",
            "–" if c.accuracy is None else f"{100 * c.accuracy:.1f} %",
            escape(c.fault),
        )
        for c in tried
    ]
    head = ("network", "ms", "RAM", "flash", "right", "why not")
    caption = "Right: of learning recordings that were kept aside to choose by, not of those above."
    return page.region("networks", page.table(head, rows, left=(0, 5), caption=caption))
