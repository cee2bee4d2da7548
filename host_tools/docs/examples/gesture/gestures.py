"""Pretend gestures of a motion sensor: `data` writes recordings, for `mica train`;
`windows` cuts them, for `mica teach`."""

import sys
from pathlib import Path

import numpy as np

ROWS, RATE = 100, 100  # of a window of one second; a second


def pretend(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Two seconds of a gesture, int16 [200, 6]: acceleration x, y, z and rotation x, y, z in counts."""
    t = np.arange(200) / RATE
    x = rng.normal(0, 300, (200, 6))
    x[:, 2] += 16384  # gravity
    size, phase = rng.uniform(0.7, 1.3), rng.uniform(0, 6)
    if kind == "shake":
        x[:, 0] += 9000 * size * np.sin(2 * np.pi * rng.uniform(4, 6) * t + phase)
    elif kind == "turn":
        x[:, 5] += 12000 * size * np.sin(2 * np.pi * rng.uniform(0.8, 1.2) * t + phase)
    return np.clip(x, -32768, 32767).astype(np.int16)


def data(folder: Path = Path("gestures"), clips: int = 30) -> None:
    """Files as `mica record --imu` writes them: x int16 [1, n, 6] and the rate, in a folder for each label."""
    rng = np.random.default_rng(0)
    for kind in ("rest", "shake", "turn"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for i in range(clips):
            np.savez(folder / kind / f"{i:04d}.npz", x=pretend(kind, rng)[None], rate=RATE)
    parts = [pretend(kind, rng) for kind in ("rest", "shake", "rest", "turn", "rest")]
    np.savez("wave.npz", x=np.concatenate(parts)[None], rate=RATE)  # what the virtual sensor does


def windows(folder: Path = Path("gestures")) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """All windows of the recordings, half a second apart, with the numbers of their labels."""
    labels = sorted(path.name for path in folder.iterdir())
    x, y = [], []
    for number, label in enumerate(labels):
        for path in sorted((folder / label).glob("*.npz")):
            clip = np.load(path)["x"][0]
            starts = range(0, len(clip) - ROWS + 1, ROWS // 2)
            x += [clip[start : start + ROWS] for start in starts]
            y += [number] * len(starts)
    return np.array(x), np.array(y), labels


def pack_data() -> None:
    """windows.npz and labelled.npz of the recordings."""
    x, y, _ = windows()
    half = np.arange(len(x)) % 4 < 2
    np.savez("windows.npz", x=x[half])
    np.savez("labelled.npz", x=x[~half], y=y[~half])


if __name__ == "__main__":
    {"data": data, "windows": pack_data}[sys.argv[1]]()
