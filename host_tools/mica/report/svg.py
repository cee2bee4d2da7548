"""The arena chart as an SVG picture: across the steps, down the bytes of the arena, each tensor a labelled block."""

from html import escape

from mica.report.arena_chart import Block, Chart

LEFT, TOP, BOTTOM, RIGHT = 74, 98, 170, 24  # margins, pixels
HEIGHT = 420  # of the arena
CHAR = 6.1  # width of a character of the 11-pixel font, about

# Colours of blocks by the kernel that writes them: (part of the kernel's name, what the legend says, fill, border).
KINDS = (
    ("input", "input", "#fbe7a2", "#c79a1b"),
    ("depthwise", "depthwise", "#bfe5df", "#3b9486"),
    ("conv", "convolution", "#c3d9f5", "#4a7fc1"),
    ("fully_connected", "matrix product", "#cfd2f3", "#6468b8"),
    ("matmul", "matrix product", "#cfd2f3", "#6468b8"),
    ("pool", "pool", "#cfe8bf", "#6a9c3f"),
    ("reduce", "pool", "#cfe8bf", "#6a9c3f"),
    ("add", "arithmetic", "#fbd5b5", "#cf7c2e"),
    ("mul", "arithmetic", "#fbd5b5", "#cf7c2e"),
    ("div", "arithmetic", "#fbd5b5", "#cf7c2e"),
    ("minmax", "arithmetic", "#fbd5b5", "#cf7c2e"),
    ("lut", "function", "#ead0ee", "#9c55a8"),
    ("softmax", "function", "#ead0ee", "#9c55a8"),
    ("norm", "function", "#ead0ee", "#9c55a8"),
    ("", "other", "#e0e0e0", "#8c8c8c"),
)


def _kind(b: Block) -> tuple[str, str, str]:
    maker = b.maker or "input"
    return next((label, fill, line) for part, label, fill, line in KINDS if part in maker)


def draw(c: Chart) -> str:
    """The picture as SVG text."""
    n = max(len(c.steps), 1)
    step = max(18.0, min(96.0, 1100.0 / n))  # width of a column
    width, height = LEFT + RIGHT + step * n, TOP + HEIGHT + BOTTOM
    width = max(width, 560.0)
    scale = HEIGHT / max(c.arena_bytes, 1)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="11">',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
        _text(LEFT, 24, c.title or "arena", 'font-size="16" font-weight="bold"'),
        _text(LEFT, 42, f"{c.arena_bytes:,} bytes of arena over {len(c.steps)} steps", 'fill="#555"'),
    ]
    out += _legend(c, LEFT, 54)
    out += _axes(c, step, scale)
    out += [_block(b, step, scale) for b in c.blocks]
    if c.steps:
        out += _peak(c, step)
    out += [_label(b, step, scale) for b in c.blocks if not b.joined]  # last: nothing runs through a text
    return "\n".join([*out, "</svg>\n"])


def _peak(c: Chart, step: float) -> list[str]:
    """A frame round the step that sets the peak, and what it needs."""
    x = LEFT + c.peak * step
    late = c.peak > len(c.steps) / 2
    anchor = 'text-anchor="end" ' if late else ""
    return [
        f'<rect x="{x - 1:.1f}" y="{TOP - 5}" width="{step + 2:.1f}" height="{HEIGHT + 10}" rx="3" fill="#c0392b" '
        'fill-opacity="0.05" stroke="#c0392b" stroke-width="1.5" pointer-events="none"/>',
        _text(
            x + step if late else x,
            TOP - 11,
            f"peak: {c.in_use(c.peak):,} bytes in use",
            f'{anchor}fill="#c0392b" font-weight="bold"',
        ),
    ]


def _axes(c: Chart, step: float, scale: float) -> list[str]:
    out = []
    right = LEFT + step * max(len(c.steps), 1)
    tick = 1 << max(4, (max(c.arena_bytes, 1) // 8).bit_length())
    for at in [*range(0, c.arena_bytes - tick // 3, tick), c.arena_bytes]:
        y = TOP + at * scale
        out.append(f'<path d="M{LEFT} {y:.1f}H{right:.1f}" stroke="#ddd"/>')
        out.append(_text(LEFT - 6, y + 4, f"{at:,}", 'text-anchor="end" fill="#555"'))
    for k, name in enumerate(c.steps):
        x, y = LEFT + (k + 0.5) * step, TOP + HEIGHT + 12
        mark = 'fill="#c0392b" font-weight="bold"' if k == c.peak else 'fill="#333"'
        turned = f'transform="rotate(-60 {x:.1f} {y})" text-anchor="end" {mark}'
        out.append(_text(x + 3, y + 2, f"{k} {_short(name, 24)}", turned))
    return out


def _place(b: Block, step: float, scale: float) -> tuple[float, float, float, float]:
    """Left, top, width, height of a block, pixels."""
    return LEFT + b.first * step, TOP + b.offset * scale, (b.last - b.first + 1) * step, max(b.bytes * scale, 1.5)


def _block(b: Block, step: float, scale: float) -> str:
    x, y, w, h = _place(b, step, scale)
    kind, fill, line = _kind(b)
    tip = f"{b.name} [{_dims(b)}], {b.bytes:,} bytes at {b.offset:,}, steps {b.first} to {b.last}: {b.maker or kind}"
    style = f'fill="none" stroke="{line}" stroke-dasharray="4 3"' if b.joined else f'fill="{fill}" stroke="{line}"'
    return (
        f'<rect x="{x + 1:.1f}" y="{y:.1f}" width="{w - 2:.1f}" height="{h:.1f}" rx="2" {style}>'
        f"<title>{escape(tip)}</title></rect>"
    )


def _label(b: Block, step: float, scale: float) -> str:
    """Name, shape and bytes, as much as there is room for; upright in a block that is too narrow for its name."""
    x, y, w, h = _place(b, step, scale)
    across, down = int((w - 8) / CHAR), int((h - 8) / CHAR)
    upright = across < len(b.label) and down > across and w >= 14
    room, depth = (down, w) if upright else (across, h)
    name = b.label if len(b.label) <= room or room > 8 else str(b.first)  # the number of its step, as below the picture
    lines = max(int(depth / 13.5), depth >= 11.5)
    texts = [t for t in (name, _dims(b), f"{b.bytes:,}") if len(t) <= room or t == name][:lines]
    if room < len(str(b.first)) or not texts:
        return ""
    turn = " rotate(-90)" if upright else ""
    spans = "".join(
        f'<tspan x="0" dy="{13 if i else 0}">{escape(_short(t, room))}</tspan>' for i, t in enumerate(texts)
    )
    return (
        f'<g transform="translate({x + w / 2:.1f} {y + h / 2:.1f}){turn}">'
        f'<text y="{4 - 6.5 * (len(texts) - 1):.1f}" text-anchor="middle" pointer-events="none">{spans}</text></g>'
    )


def _dims(b: Block) -> str:
    return "×".join(str(d) for d in b.dims)


def _legend(c: Chart, x: float, y: float) -> list[str]:
    out = []
    kinds = {_kind(b) for b in c.blocks if not b.joined}
    for label, fill, line in sorted(kinds, key=lambda k: [row[1] for row in KINDS].index(k[0])):
        out.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="12" height="10" rx="2" fill="{fill}" stroke="{line}"/>')
        out.append(_text(x + 17, y + 9, label, 'fill="#555"'))
        x += 17 + len(label) * CHAR + 18
    return out


def _text(x: float, y: float, text: str, attrs: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {attrs}>{escape(text)}</text>'


def _short(name: str, n: int) -> str:
    """The end of a name tells more than its beginning: /features/features.3/conv/Conv."""
    return name if len(name) <= n else f"…{name[len(name) - n + 1 :]}" if n > 1 else ""
