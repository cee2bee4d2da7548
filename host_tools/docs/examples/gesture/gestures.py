"""Gestures of a motion sensor: `data` writes pretend recordings, `train` learns from recordings and writes net.onnx.

pip install scikit-learn skl2onnx      (for `train` only)
"""

import sys
from pathlib import Path

import numpy as np

ROWS, RATE, FFT, BANDS = 100, 100, 128, 4  # a window of one second; points of the transform; bands of the spectrum
UNIT = 1 / 16384  # g of a count, of a sensor whose range is 2 g


def features(window: np.ndarray) -> np.ndarray:
    """int16 [100, 6] -> [60]: what `--frontend features:rows=100,axes=6,rate=100,unit=1/16384,bands=4` computes."""
    u = window * UNIT
    c = u - u.mean(0)
    power = np.abs(np.fft.rfft(c * np.hanning(ROWS + 1)[:-1, None], FFT, axis=0)) ** 2
    stats = [u.mean(0), u.std(0), u.min(0), u.max(0), np.ptp(u, 0), (np.diff(c >= 0, axis=0) != 0).sum(0)]
    lines = np.array_split(power[1:], BANDS)  # without the first line, which is the mean
    return np.stack([*stats, *(np.sqrt(band.sum(0)) for band in lines)], axis=1).reshape(-1)


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


def train() -> None:
    from skl2onnx import to_onnx
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y, _ = windows()
    table = np.array([features(window) for window in x], np.float32)
    half = np.arange(len(x)) % 4 < 2
    net = make_pipeline(StandardScaler(), MLPClassifier((12,), max_iter=500, random_state=0)).fit(table[half], y[half])
    print(f"accuracy in scikit-learn: {net.score(table[~half], y[~half]):.3f}")
    onnx = to_onnx(net, table[:1], options={"zipmap": False})
    Path("net.onnx").write_bytes(onnx.SerializeToString())


def pack_data() -> None:
    """windows.npz and labelled.npz of the recordings, and labels.txt."""
    x, y, labels = windows()
    half = np.arange(len(x)) % 4 < 2
    np.savez("windows.npz", x=x[half])
    np.savez("labelled.npz", x=x[~half], y=y[~half])
    Path("labels.txt").write_text("\n".join(labels) + "\n")


if __name__ == "__main__":
    {"data": data, "train": train, "windows": pack_data}[sys.argv[1]]()
