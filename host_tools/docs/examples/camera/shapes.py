"""Pictures of a circle, a square or nothing, for `mica train`. pip install pillow"""

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
    """photos/ and test/ with a folder for each label."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for folder, n in (("photos", 40), ("test", 20)):
        for kind in LABELS:
            (Path(folder) / kind).mkdir(parents=True, exist_ok=True)
            for i in range(n):
                Image.fromarray(drawn(kind, rng)).save(Path(folder) / kind / f"{i:04d}.png")


if __name__ == "__main__":
    data()
