"""Pretend recordings of words: whistles that go up or down, and everything else.
words.py writes them, for `mica train`."""

import wave
from pathlib import Path

import numpy as np

RATE = 16000


def pretend(kind: str, rng: np.random.Generator) -> np.ndarray:
    """A second of whistling up or down, or of something else, int16."""
    t = np.arange(8000) / RATE
    x = rng.normal(0, rng.uniform(50, 600), RATE)
    low, high = rng.uniform(500, 800), rng.uniform(1500, 2200)
    if kind == "up":
        hz = low + (high - low) * t / t[-1]
    elif kind == "down":
        hz = high - (high - low) * t / t[-1]
    else:
        hz = np.full(8000, rng.uniform(300, 3000)) * (rng.random() < 0.6)  # a steady tone, or only noise
    at = rng.integers(1000, 7000)
    x[at : at + 8000] += rng.uniform(3000, 9000) * np.sin(2 * np.pi * np.cumsum(hz) / RATE) * np.hanning(8000) ** 0.3
    return np.clip(x, -32768, 32767).astype(np.int16)


def write(path: Path, samples: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes(samples.astype("<i2").tobytes())


def data() -> None:
    """recordings/ with a folder for each label, talk.wav with talk.txt, and background/."""
    rng = np.random.default_rng(0)
    for kind in ("down", "other", "up"):
        for i in range(40):
            write(Path("recordings") / kind / f"{i:04d}.wav", pretend(kind, rng))
    talk = ["other", "up", "other", "down", "other", "up", "down", "other"]
    write(Path("talk.wav"), np.concatenate([pretend(kind, rng) for kind in talk]))
    lines = [f"{i}.0 {i + 1}.0 {kind}" for i, kind in enumerate(talk) if kind != "other"]
    Path("talk.txt").write_text("\n".join(lines) + "\n")
    write(Path("background/room.wav"), np.concatenate([pretend("other", rng) for _ in range(10)]))


if __name__ == "__main__":
    data()
