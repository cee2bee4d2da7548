"""Front ends of sound, and of windows of several axes, alone in their files, to be measured."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import text_nets
from audio_cases import sound
from axes_cases import window_of
from case import _rng

from mica.compile import PlacedFrontEnd, compile_file
from mica.ir.axes import Front
from mica.sound.front_ends import find_front, parse


def frames(words: str, rows: int, folder: Path) -> bytes:
    """A front end of so many frames, and next to nothing behind it. words: as for --frontend."""
    asked = parse(words)
    shape = (1, rows, asked.columns)
    rng = _rng(words)
    return _alone(
        words, shape, folder, lambda f: np.stack([sound(rng, f.input_shape[1], "") for _ in range(8)])[:, None]
    )


def windows(words: str, shape: tuple[int, ...], folder: Path) -> bytes:
    """A front end of a window of several axes likewise, whose features lie in that shape."""
    rng = _rng(words)

    def samples(f: Front) -> np.ndarray:
        axes = f.input_shape[2] if len(f.input_shape) > 2 else 1
        x = np.concatenate([window_of(rng, f.input_shape[1], axes, "mixed") for _ in range(8)])
        return x.reshape(-1, *f.input_shape)

    return _alone(words, shape, folder, samples)


def _alone(words: str, shape: tuple[int, ...], folder: Path, samples: Callable[[Front], np.ndarray]) -> bytes:
    text_nets.save(folder / "net.onnx", f"(float{list(shape)} x) => (float{list(shape)} y) {{ y = Relu(x) }}")
    front, _ = find_front(words, shape, "input 'x'")
    calibration = {"samples": samples(front).astype(np.float32)}
    return compile_file(folder / "net.onnx", calibration, front_end=PlacedFrontEnd("x", front, words)).data


def swept() -> Iterator[tuple[str, int]]:
    """Words of front ends and rows: transforms and filters of all sizes, with and without a DCT and pre-emphasis."""
    for k, (fft, power, mels) in enumerate(itertools.product((128, 256, 512, 1024, 2048), (1, 2), (10, 32, 64))):
        frame = fft if k % 2 else fft * 7 // 10
        kind = "mfcc:coefs=8," if k % 3 == 1 else "logmel:"
        more = ",preemphasis=0.97" if k % 4 in (1, 2) else ""
        more += ",fmax=4000" if k % 5 in (0, 1) else ""
        yield f"{kind}frame={frame},hop={frame // 2},fft={fft},power={power},mels={mels},floor=1e-6{more}", 1 + k % 2
    for fft, mels in ((n, n // k) for n in (128, 256, 512, 1024) for k in (32, 25, 16)):
        yield f"pcan:frame={fft * 3 // 4},hop={fft // 2},fft={fft},mels={mels},fmin=125", 1 + mels % 3
    for fft, power, mels in itertools.product((128, 256, 512, 1024), (1, 2), (8, 20, 40)):
        frame, fmax = fft - mels * power, 4000 if mels == 20 else 7500
        yield f"pcen:frame={frame},hop={fft // 2},fft={fft},mels={mels},fmin=125,fmax={fmax},power={power}", 1 + fft % 3


def swept_windows() -> Iterator[tuple[str, tuple[int, ...]]]:
    """Words of front ends of sensors, and the shapes of their features: windows of all sizes, with bands and without,
    few statistics and all."""
    every = ("mean+std+min+max+ptp+cross", "rms", "mean+std+rms+min+max+ptp+cross+zeros", "min+max")
    for k, (rows, axes, bands) in enumerate(
        itertools.product((20, 50, 64, 100, 128, 256, 500, 1024), (1, 3, 6), (0, 1, 4, 10))
    ):
        stats = every[(k + k // 4) % len(every)]
        if rows * axes > 3100:
            continue
        energy = ("rms", "ln", "power")[k % 3]
        text = f"features:rows={rows},axes={axes},stats={stats},bands={bands},energy={energy}"
        yield text, (1, axes, len(stats.split("+")) + bands)
