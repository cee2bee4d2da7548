"""Pictures of a circle, a square or nothing: `data` draws them, `train` learns from them and writes net.onnx.

pip install pillow                              (for `data`)
pip install torch==2.13.0 onnx onnxscript       (for `train`)
"""

import sys
from pathlib import Path

import numpy as np

SIZE = 32
LABELS = ("circle", "nothing", "square")


def drawn(kind: str, rng: np.random.Generator, width: int = SIZE, height: int = SIZE) -> np.ndarray:
    """A grey picture, uint8 [height, width]: a dark shape on a light, uneven ground."""
    y, x = np.mgrid[:height, :width]
    picture = rng.uniform(140, 220) + rng.uniform(-1, 1) * 40 * x / width + rng.normal(0, 6, (height, width))
    radius = rng.uniform(0.2, 0.35) * height
    dx, dy = x - width * rng.uniform(0.4, 0.6), y - height * rng.uniform(0.4, 0.6)
    if kind == "circle":
        picture[dx**2 + dy**2 < radius**2] -= 110
    elif kind == "square":
        picture[np.maximum(abs(dx), abs(dy)) < radius * 0.9] -= 110
    return np.clip(picture, 0, 255).astype(np.uint8)


def data() -> None:
    """photos/ and test/ with a folder for each label, and frame.bin: a camera's frame, RGB565 of 120 x 120."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for folder, n in (("photos", 40), ("test", 20)):
        for kind in LABELS:
            (Path(folder) / kind).mkdir(parents=True, exist_ok=True)
            for i in range(n):
                Image.fromarray(drawn(kind, rng)).save(Path(folder) / kind / f"{i:04d}.png")
    grey = drawn("circle", rng, 120, 120).astype(np.uint16)
    (grey >> 3 << 11 | grey >> 2 << 5 | grey >> 3).astype(">u2").tofile("frame.bin")  # the high byte first
    Path("labels.txt").write_text("\n".join(LABELS) + "\n")


def train() -> None:
    import torch
    from PIL import Image
    from torch import nn

    torch.manual_seed(0)
    paths = sorted(Path("photos").glob("*/*.png"))
    x = np.array([[np.asarray(Image.open(path)) / 255] for path in paths], np.float32)  # [n, 1, 32, 32], 0 to 1
    y = np.array([LABELS.index(path.parent.name) for path in paths])
    inputs, targets = torch.from_numpy(x), torch.from_numpy(y)
    net = nn.Sequential(
        nn.Conv2d(1, 6, 3, stride=2), nn.ReLU(),
        nn.Conv2d(6, 12, 3, stride=2), nn.ReLU(),
        nn.Conv2d(12, 12, 3, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(108, 3),
    )  # fmt: skip
    optimiser = torch.optim.Adam(net.parameters(), 0.005)
    for _ in range(60):
        for batch in torch.randperm(len(inputs)).split(24):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(inputs[batch]), targets[batch]).backward()
            optimiser.step()
    print(f"accuracy on the training data: {(net(inputs).argmax(1) == targets).float().mean():.3f}")
    model = nn.Sequential(net, nn.Softmax(1)).eval()
    example = (torch.zeros(1, 1, SIZE, SIZE),)
    torch.onnx.export(model, example, "net.onnx", input_names=["picture"], dynamo=True, external_data=False)


if __name__ == "__main__":
    {"data": data, "train": train}[sys.argv[1]]()
