"""Seeded cases for the kernel that turns windows of several axes into features."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from audio_cases import sound
from case import Array, Case, Rng, _rng

from mica.kernels import audio, axes
from mica.kernels.integers import Output


def window_of(rng: Rng, rows: int, n: int, kind: str) -> Array:
    """int16 [1, rows, n]."""
    if kind == "mixed":  # quiet beside loud, each upon a mean of its own
        parts = [
            np.clip(rng.normal(rng.integers(-20000, 20000), 10.0 ** rng.uniform(-1, 3.5), rows), -32768, 32767)
            for _ in range(n)
        ]
        return np.rint(np.stack(parts, axis=1)).astype(np.int16)[None]
    if kind == "steady":
        return np.tile(rng.integers(-32768, 32768, n), (rows, 1)).astype(np.int16)[None]
    return np.stack([sound(rng, rows, kind) for _ in range(n)], axis=1)[None]


def tables(rng: Rng, p: dict[str, int], stats: tuple[int, ...], kind: str = "") -> dict[str, Array]:
    """Constants with random bands. kind "full": as large as they may be; "skew": no circle's."""
    rows, n, bands, fft = p["rows"], p["axes"], p["bands"], p["fft"]
    bins, each = fft // 2 + 1, len(stats) + bands
    angle = 2 * np.pi * np.arange(bins) / max(fft, 1) + (0.01 if kind == "skew" else 0)
    window = np.minimum(np.rint((0.5 - 0.5 * np.cos(2 * np.pi * np.arange(rows) / rows)) * 32768), 32767)
    first = np.sort(rng.integers(0, max(bins - 1, 1), bands))
    width = np.array([rng.integers(0, min(bins - f, 12) + 1) for f in first], np.int64)
    least = rng.integers(-(20 << 16), 60 << 16, n)
    bias, shift = rng.integers(-(2**20), 2**20, each * n), rng.integers(6, 24, each * n)
    if kind == "full":
        window, first, width = np.full(rows, 32767), np.zeros(bands, np.int64), np.full(bands, bins)
        bias, shift = (
            rng.choice(np.array([1 - axes.BIAS_LIMIT, axes.BIAS_LIMIT - 1]), each * n),
            rng.integers(-30, 32, each * n),
        )
        least = np.full(n, -axes.VALUE_LIMIT)
    with_bands = bands > 0
    turns = np.rint(np.stack([np.cos(angle), np.sin(angle)], axis=1) * 2**audio.UNIT)
    return {
        "tables": np.concatenate([turns.reshape(-1), window]).astype(np.int16) if with_bands else np.zeros(0, np.int16),
        "filters": np.stack([first, width], axis=1).astype(np.uint16) if with_bands else np.zeros(0, np.uint16),
        "least": least.astype(np.int32) if with_bands else np.zeros(0, np.int32),
        "bias": bias.astype(np.int32),
        "mult": rng.integers(2**30, 2**31, each * n).astype(np.int32),
        "shift": shift.astype(np.int8),
    }  # fmt: skip


ALL = tuple(range(len(axes.STATS)))


def axes_cases() -> Iterator[Case]:
    """Windows shorter than the transform and as long, of one axis and many; every statistic and energy;
    samples at the ends of their range."""
    for rows, n, stats, bands, fft, energy, places, flags, kinds in (
        (50, 6, ALL, 4, 64, axes.LOG, 0, 0, ("", "mixed", "silence", "ends", "quiet")),
        (2, 1, ALL, 0, 0, 0, 0, axes.ACROSS, ("", "ends", "negative")),
        (2, 3, (6, 1), 2, 32, axes.RMS, 5, axes.ACROSS, ("", "ends", "steady", "full")),
        (128, 3, (0, 2, 1), 5, 128, axes.RMS, 3, axes.ACROSS, ("", "mixed", "square", "full", "skew")),
        (128, 3, (5,), 5, 256, axes.POWER, -20, 0, ("", "mixed", "ends", "quiet")),
        (200, 2, (), 3, 256, axes.POWER, 96, 0, ("", "silence", "steady")),
        (200, 2, (), 3, 256, axes.RMS, -96, 0, ("", "full")),
        (2048, 1, ALL, 8, 2048, axes.RMS, 2, 0, ("", "ends", "square", "negative", "mixed")),
        (2047, 2, ALL, 3, 2048, axes.LOG, 0, 0, ("full", "click")),
        (2048, 1, (1, 2, 0), 0, 0, 0, 0, 0, ("ends", "negative", "full")),
        (33, 40, (7, 3, 4, 6), 1, 64, axes.LOG, 0, axes.ACROSS, ("mixed", "click")),
    ):  # fmt: skip
        for kind in kinds:
            name = f"axes {rows} {n} {len(stats)} {bands} {fft} {energy} {places} {flags} {kind}"
            rng = _rng(name)
            x = window_of(rng, rows, n, {"full": "ends", "skew": "mixed"}.get(kind, kind))
            x = x.reshape(1, rows) if n == 1 and flags == 0 else x
            p = {
                "rows": rows,
                "axes": n,
                "bands": bands,
                "fft": fft,
                "energy": energy,
                "places": places,
                "flags": flags,
            }
            p["stats"] = sum(v << 4 * k for k, v in enumerate(stats))
            blobs = tables(rng, p, stats, kind)
            p |= {"act_min": -120, "act_max": 127}
            each = len(stats) + bands
            dims = (1, each, n) if flags else (1, n, each)
            yield Case(name, "axes_s8", [x], p, Output(dims, 0, 5), blobs, rows=1 if flags else n)
