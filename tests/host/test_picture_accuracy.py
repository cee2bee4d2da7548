"""Person detection from a camera's frames: RGB565 of 160 x 120, made of the evaluation pictures, costs no accuracy;
mistakes do."""

from __future__ import annotations

import numpy as np
import pytest
from nets import MODELS

from mica import engine
from mica.compile import compile_file
from mica.data.calibration import load_calibration
from mica.file.pictures import Desired, read, write

VWW = MODELS / "vww"
AS_IT_IS = (1 << 20, -(128 << 20))


def words(pixels: np.ndarray, order: str) -> bytes:
    """Red, green and blue as RGB565; order: < or >."""
    r, g, b = (pixels[..., k].astype(np.uint16) for k in range(3))
    return (r >> 3 << 11 | g >> 2 << 5 | b >> 3).astype(f"{order}u2").tobytes()


@pytest.mark.skipif(not VWW.is_dir(), reason="the reference models are not part of the repository")
def test_a_cameras_frames(capsys: pytest.CaptureFixture[str]) -> None:
    compiled = compile_file(VWW / "model.onnx", load_calibration(VWW / "calib.npz", ["input"]), plain=True)
    file = compiled.model
    file.metadata["picture"] = write("rgb", (1 / 255,), (0.0,), file.tensors[file.inputs[0]])
    desired = read(file)
    assert desired is not None
    with np.load(VWW / "eval.npz") as data:
        x, y = data["x"], data["y"]
    model = engine.load(compiled.data)

    def answer(q: np.ndarray) -> int:
        model.set_input(0, q.reshape(file.tensors[file.inputs[0]].dims))
        model.run()
        return int(np.argmax(model.output(0)))

    large = Desired("rgb", 160, 120, False, (AS_IT_IS,) * 3)
    enlarging, original = large.frame(96, 96, "rgb888"), desired.frame(96, 96, "rgb888")
    right = dict.fromkeys(("original", "rgb565be", "rgb565le"), 0)
    seen = dict(right)
    for picture, label in zip(x, y, strict=True):
        right["original"] += answer(engine.see(original, picture.tobytes(), desired.table)) == label
        frame = words(engine.see(enlarging, picture.tobytes(), large.table).astype(np.int16) + 128, ">")
        # As it is; and said to be swapped, of every fourth.
        for name in ("rgb565be", "rgb565le")[: 2 if seen["rgb565be"] % 4 == 0 else 1]:
            right[name] += answer(engine.see(desired.frame(160, 120, name), frame, desired.table)) == label
            seen[name] += 1
        seen["original"] += 1
    top1 = {name: n / seen[name] for name, n in right.items()}
    with capsys.disabled():
        print("\nvww: " + ", ".join(f"{name} {value:.4f}" for name, value in top1.items()))
    assert top1["original"] > 0.8
    assert abs(top1["rgb565be"] - top1["original"]) <= 0.01
    assert top1["rgb565le"] < 0.6  # what bytes cannot show
