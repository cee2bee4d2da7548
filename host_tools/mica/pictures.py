"""Picture files as a board's camera would give them: decoded by Pillow, then resized by the engine, to the same bytes everywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mica import engine
from mica.errors import MicaError
from mica.format.pictures import FRACTION, Wanted

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp")
FAINT = 1 << 12  # 16-bit pixels that stay below this would keep fewer than 16 greys
# A byte p becomes p - 128.
_AS_IT_IS = (1 << FRACTION, -128 << FRACTION)


def is_picture(path: str | Path) -> bool:
    """By its ending."""
    return Path(path).suffix.lower() in ENDINGS


def files(folder: str | Path) -> list[Path]:
    """The pictures of a folder, in order of their names."""
    return sorted(p for p in Path(folder).iterdir() if is_picture(p))


def decoded(path: str | Path) -> np.ndarray:
    """uint8 [height, width, 4]: red, green, blue, alpha. Raises MicaError."""
    try:
        from PIL import Image
    except ImportError:
        raise MicaError(
            f"{path}: reading pictures needs the Python package Pillow",
            todo="pip install 'mica[pictures]', or give an .npz file",
        ) from None
    try:
        with Image.open(path) as picture:
            sixteen = ";16" in str(picture.tile)
            if picture.mode[0] in "IF":  # Pillow cuts these off at 255
                return _of_deep_grey(path, picture.format, np.asarray(picture))
            pixels = np.asarray(picture.convert("RGBA"), np.uint8)
            if sixteen:
                _require_light(path, (int(pixels[..., :3].max(initial=0)) << 8) + 255)
            return pixels
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as e:
        raise MicaError(f"{path}: cannot be read as a picture: {[*str(e).splitlines(), type(e).__name__][0]}") from None


def _of_deep_grey(path: str | Path, kind: str | None, pixels: np.ndarray) -> np.ndarray:
    """RGBA of a grey picture of more than 8 bits: the upper 8 of 16, as Pillow takes them of colours. Raises MicaError."""
    older = kind in ("PNG", "PPM") and pixels.dtype.kind == "i"  # what an older Pillow makes of 16 bits
    if not older and (pixels.dtype.kind, pixels.dtype.itemsize) != ("u", 2):
        raise MicaError(
            f"{path}: its pixels are {pixels.dtype}; expected 8 or 16 bits",
            todo="scale them to 0..255, and save it again",
        )
    if pixels.any():
        _require_light(path, int(pixels.max()))
    grey = (pixels >> 8).astype(np.uint8)
    return np.stack([grey, grey, grey, np.full_like(grey, 255)], axis=-1)


def _require_light(path: str | Path, most: int) -> None:
    """Raises MicaError where pixels of 16 bits would keep next to no greys, as those of 10 or 12 bits in 16 would."""
    if most < FAINT:
        raise MicaError(
            f"{path}: its 16-bit pixels are at most {most:,} of 65,535, which leaves {(most >> 8) + 1} of 256 greys",
            todo="multiply them by 65,535 / the largest value that the camera gives, and save it again",
        )


def resized(path: str | Path, colours: str, height: int, width: int) -> np.ndarray:
    """uint8 [height, width, channels] of a file; colours: grey, rgb, bgr, or rgba. Raises MicaError."""
    whole = decoded(path)
    if colours == "rgba":
        return np.concatenate(
            [_made(path, whole[..., :3], "rgb", height, width), _alpha(path, whole, height, width)], axis=2
        )
    return _made(path, whole[..., :3], colours, height, width)


def _alpha(path: str | Path, whole: np.ndarray, height: int, width: int) -> np.ndarray:
    return _made(path, whole[..., 3:], "grey", height, width)


def _made(path: str | Path, pixels: np.ndarray, colours: str, height: int, width: int) -> np.ndarray:
    wanted = Wanted(colours, width, height, False, (_AS_IT_IS,) * (1 if colours == "grey" else 3))
    try:
        frame = wanted.frame(pixels.shape[1], pixels.shape[0], "grey" if pixels.shape[2] == 1 else "rgb888")
    except MicaError as e:
        raise e.at(str(path)) from None
    made = engine.see(frame, np.ascontiguousarray(pixels).tobytes(), wanted.table)
    return np.asarray(made.astype(np.int16) + 128, np.uint8)
