"""A front end of sound as an SVG picture: the gain of each of its bands, over the frequency."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from mica.file.codec import ModelFile
from mica.kernels import speech

_Part = tuple[int, np.ndarray]  # first bin, and gains of the bins from there on

WIDTH, HIGH = 720, 190  # pixels
LEFT, RIGHT, TOP, BOTTOM = 10, 10, 14, 26


def facts(model: ModelFile) -> dict[str, Any] | None:
    """Return those of the first front end of a model, None where there is none.

    Keys: rate (Hz; None where the file does not say), frame, hop, fft (samples), rows, columns, bands ([first bin,
    gains of the bins from there on] each, the largest of all 1).
    """
    step = next((s for s in model.steps if s.kernel in ("log_mel_s8", "pcan_s8", "pcen_s8")), None)
    if step is None:
        return None
    filters, gains = step.blobs["filters"].astype(int), step.blobs["gains"].astype(float)
    most = max(float(gains.max(initial=0.0)), 1.0)
    ends = np.cumsum(filters[:, 1])
    parts = [
        (int(first), gains[end - count : end] / most)
        for (first, count), end in zip(filters.tolist(), ends.tolist(), strict=True)
    ]
    rows, columns = model.tensors[step.outputs[0]].dims[-2:]
    if step.kernel != "log_mel_s8":
        rows = speech.frames_of(len(step.inputs), (rows, columns))
    if step.kernel == "pcan_s8":
        parts = [_joined(before, own) for before, own in pairwise(parts)]
    bands = [[first, [round(g, 4) for g in part.tolist()]] for first, part in parts]
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


def _joined(before: _Part, own: _Part) -> _Part:
    """A band of `pcan_s8`: its own filter with the first of two gains, and the filter before it with the second."""
    parts = [(first, gains[:, k]) for (first, gains), k in ((before, 1), (own, 0)) if len(gains)]
    low = min((first for first, _ in parts), default=0)
    out = np.zeros(max((first + len(gains) for first, gains in parts), default=0) - low)
    for first, gains in parts:
        out[first - low : first - low + len(gains)] += gains
    return low, out


def text(f: Mapping[str, Any]) -> str:
    """One sentence."""
    rate = f"{f['rate']:,} samples a second; " if f["rate"] else ""
    transform = "" if f["columns"] == len(f["bands"]) else f", of which a cosine transform makes {f['columns']}"
    return (
        f"{rate}{f['rows']} rows, each of a frame of {f['frame']} samples every {f['hop']}; a Fourier transform of "
        f"{f['fft']} points; {len(f['bands'])} bands{transform}."
    )


def draw(f: Mapping[str, Any]) -> str:
    """The gains of all bands. Colours are the page's: `currentColor` and the class wire."""
    bins = f["fft"] // 2
    across, down = (WIDTH - LEFT - RIGHT) / bins, HIGH - TOP - BOTTOM
    floor = HIGH - BOTTOM

    def x(k: float) -> float:
        return LEFT + k * across

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HIGH}" width="{WIDTH}" height="{HIGH}" '
        'role="img" '
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
