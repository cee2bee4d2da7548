"""A front end of sound as an SVG picture: what each of its bands hears, over the frequency."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mica.format.codec import ModelFile

WIDTH, HIGH = 720, 190  # pixels
LEFT, RIGHT, TOP, BOTTOM = 10, 10, 14, 26


def facts(model: ModelFile) -> dict[str, Any] | None:
    """Of the first log_mel_s8 of a model, None where there is none.

    Keys: rate (Hz; None where the file does not say), frame, hop, fft (samples), rows, columns, bands ([first bin, gains of the bins
    from there on] each, the largest of all 1).
    """
    step = next((s for s in model.steps if s.kernel == "log_mel_s8"), None)
    if step is None:
        return None
    filters, gains = step.blobs["filters"].astype(int), step.blobs["gains"].astype(float)
    most = max(float(gains.max(initial=0.0)), 1.0)
    ends = np.cumsum(filters[:, 1])
    bands = [
        [int(first), [round(g / most, 4) for g in gains[end - count : end].tolist()]]
        for (first, count), end in zip(filters.tolist(), ends.tolist(), strict=True)
    ]
    rows, columns = model.tensors[step.outputs[0]].dims[-2:]
    rate = model.metadata.get("sample_rate", "")
    return {
        "rate": int(rate) if rate.isdecimal() else None,
        "frame": step.params["frame"],
        "hop": step.params["hop"],
        "fft": step.params["fft"],
        "rows": rows,
        "columns": columns,
        "bands": bands,
    }


def text(f: Mapping[str, Any]) -> str:
    """One sentence."""
    rate = f"{f['rate']:,} samples a second; " if f["rate"] else ""
    transform = "" if f["columns"] == len(f["bands"]) else f", of which a cosine transform makes {f['columns']}"
    return (
        f"{rate}{f['rows']} rows, each of a frame of {f['frame']} samples every {f['hop']}; a Fourier transform of {f['fft']} points; "
        f"{len(f['bands'])} bands{transform}."
    )


def draw(f: Mapping[str, Any]) -> str:
    """The gains of all bands. Colours are the page's: `currentColor` and the class wire."""
    bins = f["fft"] // 2
    across, down = (WIDTH - LEFT - RIGHT) / bins, HIGH - TOP - BOTTOM
    floor = HIGH - BOTTOM

    def x(k: float) -> float:
        return LEFT + k * across

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HIGH}" width="{WIDTH}" height="{HIGH}" role="img" '
        f'aria-label="{len(f["bands"])} bands over the frequency" font-size="12">',
        f'<path class="wire" d="M{LEFT} {floor}H{WIDTH - RIGHT}" fill="none"/>',
    ]
    for first, gains in f["bands"]:
        points = [(first - 1, 0.0), *((first + i, g) for i, g in enumerate(gains)), (first + len(gains), 0.0)]
        line = " ".join(f"{x(min(max(k, 0), bins)):.1f},{floor - g * down:.1f}" for k, g in points)
        out.append(f'<polyline class="wire" points="{line}" fill="none"/>')
    for part in range(5):
        k = bins * part // 4
        name = f"{f['rate'] * k // f['fft']:,} Hz" if f["rate"] else f"bin {k}"
        anchor = ("start", "middle", "middle", "middle", "end")[part]
        out.append(f'<text x="{x(k):.1f}" y="{HIGH - 8}" text-anchor="{anchor}" fill="currentColor">{name}</text>')
    return "\n".join([*out, "</svg>"])
