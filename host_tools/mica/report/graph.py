"""The layers of a model as an SVG picture: a box for each, a line for each tensor that one hands to another.

Layers stand below each other in the order of execution. A tensor for the next layer is a straight line; one that is
kept for later goes round on the right, the further the later it is read.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

BOX, HIGH, GAP = 330, 40, 22  # pixels: width and height of a box, and what lies between two
LEFT, TOP = 10, 10
NAME = 44  # characters of a name that a box has room for
LANE = 12  # pixels between two lines on the right
LANES = 8


def draw(facts: Mapping[str, Any]) -> str:
    """Draw the graph of `report.facts.facts`. Colours are the page's: `currentColor` and the classes box, wire."""
    boxes = [{"name": t["name"], "label": "input", "tensor": t} for t in facts["inputs"]]
    boxes += [{"name": s["name"], "label": s["kernel"], "tensor": s["output"]} for s in facts["layers"]]
    places = {b["tensor"]["name"]: k for k, b in enumerate(boxes)}
    wires = [
        (places[name], k + len(facts["inputs"]))
        for k, layer in enumerate(facts["layers"])
        for name in dict.fromkeys(layer["inputs"])
        if places.get(name, len(boxes)) < k + len(facts["inputs"])
    ]
    width = LEFT + BOX + LANE * (LANES + 1)
    height = TOP + len(boxes) * (HIGH + GAP)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'role="img" '
        f'aria-label="{len(facts["layers"])} layers; the table below names them" font-size="12">'
    ]
    out += [_wire(a, b) for a, b in wires]
    out += [_box(k, b) for k, b in enumerate(boxes)]
    return "\n".join([*out, "</svg>"])


def _box(k: int, b: Mapping[str, Any]) -> str:
    y, t = TOP + k * (HIGH + GAP), b["tensor"]
    quant = f", scale {t['scale']:.4g}, zero point {t['zero_point']}" if t["dtype"] != "int32" else ""
    second = f"{b['label']}  {shape(t['shape'])}"
    return (
        f'<g><rect class="box" x="{LEFT}" y="{y}" width="{BOX}" height="{HIGH}" rx="5"/>'
        f"<title>{escape(b['name'])}: {escape(b['label'])}, {t['dtype']} {shape(t['shape'])}{quant}</title>"
        f'<text x="{LEFT + 10}" y="{y + 17}" font-weight="600" fill="currentColor">{escape(short(b["name"]))}</text>'
        f'<text x="{LEFT + 10}" y="{y + 33}" fill="currentColor" opacity="0.75">{escape(second)}</text></g>'
    )


def _wire(a: int, b: int) -> str:
    """From the box that makes a tensor to one that reads it."""
    bottom, top = TOP + a * (HIGH + GAP) + HIGH, TOP + b * (HIGH + GAP)
    if b == a + 1:
        return f'<path class="wire" d="M{LEFT + BOX // 2} {bottom}V{top}"/>'
    side = LEFT + BOX
    out = side + LANE * (1 + min(b - a - 2, LANES - 1))
    y0, y1 = bottom - HIGH // 2, top + HIGH // 2
    curve = f"M{side} {y0}C{out} {y0} {out} {y0} {out} {y0 + 14}V{y1 - 14}C{out} {y1} {out} {y1} {side} {y1}"
    return f'<path class="wire" d="{curve}"/>'


def shape(dims: Sequence[int]) -> str:
    return "×".join(map(str, dims)) or "scalar"


def short(name: str) -> str:
    return name if len(name) <= NAME else "…" + name[-NAME + 1 :]
