"""Words of your own: `data` writes pretend recordings (whistles), `train` learns from recordings and writes net.onnx.

pip install torch==2.13.0 onnx onnxscript      (for `train` only)
"""

import sys
import wave
from pathlib import Path

import numpy as np

RATE, FRAME, HOP, FFT, MELS = 16000, 480, 320, 512, 20
SAMPLES = FRAME + 48 * HOP  # 49 frames, about one second


def mel_filters() -> np.ndarray:
    """Triangles in Hz on HTK's mel scale, [20, 257], from 20 Hz to 8 kHz."""
    mels = np.linspace(2595 * np.log10(1 + 20 / 700), 2595 * np.log10(1 + 8000 / 700), MELS + 2)
    hz = 700 * (10 ** (mels / 2595) - 1)
    bins = np.arange(FFT // 2 + 1) * RATE / FFT
    rise = (bins - hz[:-2, None]) / (hz[1:-1] - hz[:-2])[:, None]
    fall = (hz[2:, None] - bins) / (hz[2:] - hz[1:-1])[:, None]
    return np.maximum(0, np.minimum(rise, fall))


def features(samples: np.ndarray) -> np.ndarray:
    """int16 [15840] -> [49, 20]: what `--frontend logmel:mels=20,floor=1e-6` computes."""
    x = samples / 32768
    frames = np.lib.stride_tricks.sliding_window_view(x, FRAME)[::HOP]
    power = np.abs(np.fft.rfft(frames * np.hanning(FRAME + 1)[:-1], FFT)) ** 2
    return np.log(power @ mel_filters().T + 1e-6)


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
    write_labels()


def labels() -> list[Path]:
    """The folders of the recordings, one for each label."""
    return sorted(folder for folder in Path("recordings").iterdir() if folder.is_dir())


def write_labels() -> None:
    """labels.txt, in the order of the network's outputs."""
    Path("labels.txt").write_text("".join(f"{folder.name}\n" for folder in labels()))


def clips() -> tuple[list[np.ndarray], np.ndarray]:
    """The samples of all recordings, int16, and the numbers of their labels."""
    x, y = [], []
    for number, folder in enumerate(labels()):
        for path in sorted(folder.glob("*.wav")):
            with wave.open(str(path)) as file:
                x.append(np.frombuffer(file.readframes(file.getnframes()), "<i2"))
            y.append(number)
    return x, np.array(y)


def shifted(samples: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The recording moved by up to 0.3 s: while the board listens, a word wanders through the window."""
    padded = np.concatenate([np.zeros(4800, np.int16), samples, np.zeros(4800 + SAMPLES, np.int16)])
    start = rng.integers(0, 9600)
    return padded[start : start + SAMPLES]


def train() -> None:
    import torch
    from torch import nn

    torch.manual_seed(0)
    rng = np.random.default_rng(1)
    sounds, y = clips()
    x = np.array([[features(shifted(s, rng))] for s in sounds for _ in range(8)], np.float32)  # [n, 1, 49, 20]
    inputs, targets = torch.from_numpy(x), torch.from_numpy(np.repeat(y, 8))
    mean, spread = x.mean(), x.std()

    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x - float(mean)) / float(spread)

    net = nn.Sequential(
        Scaled(),
        nn.Conv2d(1, 8, 3, stride=2), nn.ReLU(),
        nn.Conv2d(8, 12, 3, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(12 * 11 * 4, len(labels())),
    )  # fmt: skip
    optimiser = torch.optim.Adam(net.parameters(), 0.002)
    for _ in range(15):
        for batch in torch.randperm(len(inputs)).split(32):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(inputs[batch]), targets[batch]).backward()
            optimiser.step()
    write_labels()
    print(f"accuracy on the training data: {(net(inputs).argmax(1) == targets).float().mean():.3f}")
    model = nn.Sequential(net, nn.Softmax(1)).eval()
    example = (torch.zeros(1, 1, 49, 20),)
    torch.onnx.export(model, example, "net.onnx", input_names=["features"], dynamo=True, external_data=False)


if __name__ == "__main__":
    {"data": data, "train": train}[sys.argv[1]]()
