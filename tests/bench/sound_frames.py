"""Front ends alone in their files, to be measured."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from audio_cases import sound
from case import _rng
from onnx import TensorProto, helper

from mica.compiler import compile_model
from mica.front_ends import parse


def frames(words: str, rows: int, folder: Path) -> bytes:
    """A front end of so many frames, and next to nothing behind it. words: as for --frontend."""
    asked = parse(words)
    shape = [1, rows, asked.columns]
    net = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    onnx.save(helper.make_model(net, opset_imports=[helper.make_opsetid("", 17)]), folder / "net.onnx")
    front = asked.front_end(rows)
    rng = _rng(words)
    samples = np.stack([sound(rng, front.samples, "") for _ in range(8)])[:, None]
    calibration = {"samples": samples.astype(np.float32)}
    return compile_model(folder / "net.onnx", calibration, front_end=("x", front, words)).data


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
