"""Seeded cases for the kernel that turns sound into features."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from case import Array, Case, Rng, _data, _rng

from mica.kernels import audio
from mica.kernels.integers import Output


def sound(rng: Rng, n: int, kind: str) -> Array:
    """int16 [n]."""
    t = np.arange(n)
    if kind == "silence":
        return np.zeros(n, np.int16)
    if kind == "negative":
        return np.full(n, -32768, np.int16)
    if kind == "ends":
        return rng.choice(np.array([-32768, 32767], np.int16), n)
    if kind == "square":
        return np.where(t // 5 % 2, -32768, 32767).astype(np.int16)
    if kind == "click":
        x = np.zeros(n, np.int16)
        x[n // 3] = 32767
        return x
    if kind == "quiet":
        return rng.integers(-1, 2, n).astype(np.int16)
    if kind == "edge":  # its largest product is -2^28, and all differ by no more than rounding is worth
        return (t % 64 * 37 % 101 - (1 << 14)).astype(np.int16)
    if kind == "power":  # its largest product is -2^28, far from all others
        x = rng.integers(-300, 300, n, np.int16)
        x[n // 3] = -(1 << 14)
        return x
    if kind == "noise":
        return rng.integers(-1000, 1000, n).astype(np.int16)
    size = 10.0 ** rng.uniform(0.5, 4.4)
    x = size * (np.sin(0.05 * t) + 0.3 * rng.standard_normal(n)) * np.exp(-3 * t / n)
    return np.clip(np.rint(x), -32768, 32767).astype(np.int16)


def tables(rng: Rng, p: dict[str, int], columns: int, kind: str = "") -> dict[str, Array]:
    """Constants of a front end with random filters. kind "full": as large as they may be."""
    fft, bins = p["fft"], p["fft"] // 2 + 1
    angle = 2 * np.pi * np.arange(bins) / fft
    window = np.minimum(np.rint((0.54 - 0.46 * np.cos(2 * np.pi * np.arange(p["frame"]) / p["frame"])) * 32768), 32767)
    first = np.sort(rng.integers(0, bins - 1, p["bands"]))
    width = np.array([rng.integers(0, min(bins - f, 12) + 1) for f in first])
    if kind == "full":
        window = rng.choice(np.array([-32767, 32767]), p["frame"])
        first, width = np.zeros(p["bands"], np.int64), np.full(p["bands"], bins)
    if kind == "edge":
        window = sound(rng, p["frame"], kind) + float(1 << 15)
    if kind == "power":
        window[p["frame"] // 3] = 1 << 14
    if kind == "deaf":
        width[:] = 0
    n = int(width.sum())
    p["gains"] = n
    gains = np.full(n, 65535) if kind == "full" else rng.integers(0, 65536, n)
    dct = np.zeros(0)
    if p["flags"] & audio.DCT:
        most = audio.DCT_LIMIT // p["bands"]
        ends = min(most, 32767)
        dct = rng.integers(-ends, ends + 1, (columns, p["bands"]))
        if kind == "full":
            dct = np.full((columns, p["bands"]), ends)
    if kind == "skew":  # no circle's
        angle = angle + 0.01
    bias = rng.integers(-(2**22), 2**22, columns) if kind != "full" else np.full(columns, audio.BIAS_LIMIT - 1)
    return {
        "window": window.astype(np.int16),
        "twiddles": np.rint(np.stack([np.cos(angle), np.sin(angle)], axis=1) * 2**audio.UNIT).astype(np.int16),
        "filters": np.stack([first, width], axis=1).astype(np.uint16),
        "gains": gains.astype(np.uint16),
        "dct": dct.astype(np.int16),
        "bias": bias.astype(np.int32),
    }


def audio_cases() -> Iterator[Case]:
    """Frames shorter than the transform and as long; every flag; sound as loud, as quiet and as sharp as it can be;
    logarithms to their last place."""
    mirror = audio.PAD | audio.MIRROR
    for samples, frame, hop, fft, bands, columns, flags, preemphasis, kinds, *edges in (
        (400, 60, 40, 64, 7, 4, audio.DCT, 0, ("", "ends", "silence", "quiet", "click")),
        (33, 32, 1, 32, 1, 1, 0, 0, ("", "ends", "negative", "silence")),
        (64, 64, 64, 64, 30, 30, 0, 0, ("edge",)),
        (480, 480, 1, 512, 40, 40, 0, 0, ("fine", "fine noise", "fine square", "fine power")),
        (1000, 1000, 1, 1024, 40, 40, audio.POWER, 31744, ("fine", "fine ends", "fine noise")),
        (1600, 480, 320, 512, 40, 10, audio.DCT | audio.PEAK, 0, ("", "square", "negative", "full")),
        (1100, 200, 300, 256, 9, 9, audio.LIMIT, 0, ("", "silence", "quiet")),
        (2560, 1024, 512, 1024, 40, 40, audio.POWER | audio.LIMIT, 31744, ("", "ends", "square", "full", "silence")),
        (4200, 2048, 1000, 2048, 5, 3, audio.POWER | audio.PEAK | audio.DCT, 32768, ("", "ends", "click")),
        (31, 31, 65535, 32, 3, 3, audio.POWER, 1, ("", "negative", "full", "quiet")),
        (240, 240, 1, 256, 6, 6, audio.POWER, 0, ("skew", "deaf", "quiet", "click")),
        (72, 72, 1, 128, 6, 3, audio.DCT, 31744, ("skew", "deaf", "quiet", "silence")),
        (101, 60, 40, 64, 3, 3, audio.POWER | audio.BEFORE, 31744, ("", "ends")),
        (400, 61, 40, 64, 7, 7, audio.POWER | mirror, 0, ("", "ends", "quiet", "full"), 30, 11),
        (90, 64, 16, 64, 5, 3, audio.DCT | audio.PEAK | audio.PAD, 0, ("", "ends", "full"), 32, 6),
        (300, 64, 100, 128, 3, 3, mirror, 0, ("",), 0, 2),  # less than all frames
        (33, 32, 32, 32, 3, 3, mirror, 0, ("", "ends"), 32, 3),  # as far outside as it goes
        (20, 32, 3, 32, 3, 3, audio.PAD | audio.POWER, 0, ("", "ends"), 6, 5),  # a sound shorter than a frame
    ):
        for kind in kinds:
            name = f"log_mel {samples} {frame} {hop} {fft} {bands} {columns} {flags} {kind}"
            rng = _rng(name)
            fine, kind = kind.startswith("fine"), kind.removeprefix("fine").strip()
            x = sound(rng, samples, "ends" if kind == "full" else kind)[None]
            pad, frames = edges or (0, audio.frames_of(samples - bool(flags & audio.BEFORE), frame, hop))
            p = {"frame": frame, "hop": hop, "fft": fft, "bands": bands, "flags": flags, "preemphasis": preemphasis}
            p |= {"pad": pad}
            p |= {"floor": int(rng.integers(0, 2**31)), "floor_exponent": int(rng.integers(-60, -15))}
            if kind == "full":
                p |= {"floor": 2**31 - 1, "floor_exponent": 63}
            blobs = tables(rng, p, columns, kind)
            p |= {"mult": 2**30 + 4321, "shift": 14 if flags & audio.DCT else 12, "act_min": -120, "act_max": 127}
            if fine:  # a last place of a logarithm is one of the output
                p |= {"mult": 2**30, "shift": -1, "floor": 0}
                blobs["bias"] = -audio.logarithms(x, blobs, p, frames)[0].astype(np.int32)
            dims = (1, frames, columns)
            yield Case(name, "log_mel_s8", [x], p, Output(dims, 0, 7), blobs, rows=frames)


def speech_tables(rng: Rng, p: dict[str, int], kind: str = "") -> dict[str, Array]:
    """Constants of features of speech with random filters. kind "full": as large as they may be; "wild": any numbers;
    "bent": the same behind the first."""
    n, bins = p["fft"] // 2, p["fft"] // 2 + 1
    angle = -2 * np.pi * np.arange(n) / n
    more = -np.pi * ((np.arange(n // 2) + 1) / n + 0.5)
    both = np.concatenate([angle, more])
    twiddles = np.floor(0.5 + 32767 * np.stack([np.cos(both), np.sin(both)], axis=1))
    first = np.sort(rng.integers(0, bins - 1, p["bands"] + 1))
    width = np.array([rng.integers(0, min(bins - f, 9) + 1) for f in first])
    if kind == "full":
        first, width = np.zeros(p["bands"] + 1, np.int64), np.full(p["bands"] + 1, bins)
    p["gains"] = int(width.sum())
    window = np.rint(4096 * (0.5 - 0.5 * np.cos(2 * np.pi * (np.arange(p["frame"]) + 0.5) / p["frame"])))
    gains = rng.integers(0, 4097, (p["gains"], 2))
    lut = np.sort(rng.integers(0, 32768, 125))[::-1]
    logs = (np.log2(1 + np.arange(129) / 128) - np.arange(129) / 128) * 65536
    if kind == "full":
        window, gains = np.full(p["frame"], -32768), np.full((p["gains"], 2), 65535)
    if kind in ("full", "wild", "bent"):
        first_factor = twiddles[0]
        twiddles, lut, logs = (rng.choice(np.array(v), a.shape) for v, a in (
            ([-32768, 32767], twiddles), ([-32768, 32767], lut), ([0, 65535], logs)))  # fmt: skip
    if kind == "bent":
        twiddles[0] = first_factor
        window = rng.choice(np.array([-32768, -4096, 4096, 32767]), p["frame"])
    return {
        "window": window.astype(np.int16),
        "twiddles": twiddles.astype(np.int16),
        "filters": np.stack([first, width], axis=1).astype(np.uint16),
        "gains": gains.astype(np.uint16),
        "lut": lut.astype(np.int16),
        "logs": np.rint(logs).astype(np.uint16),
    }


def speech_cases() -> Iterator[Case]:
    """Transforms whose last stage is of two numbers and of four; noise that rises and falls;
    constants at the ends of their ranges."""
    for samples, frame, hop, fft, bands, places, snr, correction, kinds in (
        (1500, 480, 160, 512, 40, 10, 6, 3, ("", "ends", "silence", "quiet", "click", "square")),
        (700, 60, 40, 64, 5, 10, 6, 3, ("", "negative", "full", "wild", "bent")),
        (400, 32, 50, 32, 3, 0, 0, -2, ("", "ends", "full", "wild", "bent")),
        (3000, 1000, 700, 1024, 8, 16, 12, 31, ("", "full")),
        (2100, 2048, 9, 2048, 2, 4, 31, 0, ("", "ends")),
        (300, 200, 50, 256, 3, 10, 6, 3, ("", "square")),
    ):
        for kind in kinds:
            name = f"pcan {samples} {frame} {hop} {fft} {bands} {kind}"
            rng = _rng(name)
            x = sound(rng, samples, "ends" if kind in ("full", "wild", "bent") else kind)[None]
            p = {"frame": frame, "hop": hop, "fft": fft, "bands": bands, "places": places, "snr_shift": snr}
            p |= {"correction": correction, "log_places": 6, "even": 409, "odd": 983, "least": 819}
            if kind in ("full", "wild"):
                p |= {"even": 1 << 14, "odd": 0, "least": 1 << 14, "log_places": 10}
            blobs = speech_tables(rng, p, kind)
            p |= {"mult": 1651910498, "shift": 1, "act_min": -120, "act_max": 127}
            frames = audio.frames_of(samples, frame, hop)
            yield Case(name, "pcan_s8", [x], p, Output((1, frames, bands), 0, -128), blobs, rows=1)
            if kind in ("", "wild"):  # noise goes on from what was before
                noise = _data(rng, (1, 4, bands), "extreme" if kind else "")
                q = Output((1, frames + 4, bands), 0, -128, 7)
                yield Case(f"{name} goes on", "pcan_s8", [x, noise], p, q, blobs, rows=1)


def pcen_cases() -> Iterator[Case]:
    """Noise that begins with a frame, with a number, and with any bytes; curves that rise, and any numbers;
    numbers as large and as small as there are."""
    power, before = audio.POWER, audio.BEFORE
    for samples, frame, hop, fft, bands, flags, emphasis, places, kinds in (
        (1500, 480, 160, 512, 40, power, 0, 4, ("", "ends", "silence", "quiet", "click", "square")),
        (701, 60, 40, 64, 5, before, 31744, 2, ("", "negative", "full", "wild")),
        (400, 32, 50, 32, 3, power, 0, 8, ("", "ends", "full", "wild")),
        (2100, 2048, 9, 2048, 2, 0, 1, 3, ("", "deaf")),
        (300, 64, 30, 64, 3, power | before, 0, 5, ("", "skew")),
    ):
        for kind in kinds:
            name = f"pcen {samples} {frame} {hop} {fft} {bands} {kind}"
            rng = _rng(name)
            x = sound(rng, samples, "ends" if kind in ("full", "wild") else kind)[None]
            frames = audio.frames_of(samples - bool(flags & before), frame, hop)
            p = {"frame": frame, "hop": hop, "fft": fft, "bands": bands, "flags": flags, "preemphasis": emphasis}
            blobs = tables(rng, p, bands, kind)
            p |= {"smooth": 1638, "alpha": 64225, "eps": 2**30 + 12345, "eps_exponent": -40, "start": 0}
            p |= {"start_exponent": int(rng.integers(-60, 20)), "origin": -(1 << 18), "points": 50 << places}
            p |= {"places": places}
            curve = np.linspace(-32000, 32000, p["points"]) + rng.integers(-300, 300, p["points"])
            if kind in ("full", "wild"):
                curve = rng.choice(np.array([-32768, 32767]), p["points"])
                p |= {"alpha": 1 << 16, "eps": 2**31 - 1, "eps_exponent": 127, "origin": -(1 << 24)}
            if kind == "full":
                p |= {"smooth": 1 << 16, "alpha": 0, "eps": 0, "eps_exponent": -128, "origin": 1 << 24}
            if kind in ("click", "wild", "skew"):
                p |= {"start": int(rng.integers(1, 2**31))}
            blobs = {k: blobs[k] for k in ("window", "twiddles", "filters", "gains")} | {
                "curve": curve.astype(np.int16)
            }
            yield Case(name, "pcen_s8", [x], p, Output((1, frames, bands), 0, -128), blobs, rows=1)
            if kind in ("", "wild", "full"):
                noise = _data(rng, (1, 4, bands), "extreme" if kind else "")
                q = Output((1, frames + 4, bands), 0, -128, 7)
                yield Case(f"{name} goes on", "pcen_s8", [x, noise], p, q, blobs, rows=1)
