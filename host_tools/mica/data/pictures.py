"""Picture files as a board's camera would give them: decoded by Pillow, then resized by the engine,
to the same bytes everywhere."""

import struct
import warnings
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from mica import engine
from mica.errors import MicaError
from mica.file.pictures import FRACTION, Desired
from mica.notes import note

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")
MOST_PIXELS = 1 << 26  # of a file; each takes up to 8 bytes while it is decoded
SLACK, FACTOR = 1 << 24, 4  # pixels that any file may have, and so many more for each of its bytes
FAINT = 1 << 12  # 16-bit pixels that stay below this would keep fewer than 16 greys
# A byte p becomes p - 128.
_AS_IT_IS = (1 << FRACTION, -128 << FRACTION)


def is_picture(path: str | Path) -> bool:
    """Return True if the name has a picture's ending."""
    return Path(path).suffix.lower() in ENDINGS


def files(folder: str | Path) -> list[Path]:
    """The pictures of a folder, in order of their names."""
    return sorted(p for p in Path(folder).iterdir() if is_picture(p))


def png(pixels: np.ndarray) -> bytes:
    """A file of uint8 [height, width, 1 or 3]. (PNG, third edition, 5 and 7.)"""
    height, width, channels = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)  # unfiltered
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    chunks = (b"IHDR" + header, b"IDAT" + zlib.compress(rows.tobytes()), b"IEND")
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in chunks
    )


def decoded(path: str | Path) -> np.ndarray:
    """uint8 [height, width, 4]: red, green, blue, alpha. Raises MicaError."""
    try:
        from PIL import Image
    except ImportError:
        raise MicaError(
            f"{path}: reading pictures needs the Python package Pillow",
            todo="pip install 'mica-mcu[pictures]', or give an .npz file",
        ) from None
    try:
        with Image.open(path) as picture:
            sixteen = ";16" in str(picture.tile)
            if picture.mode[0] in "IF":  # Pillow cuts these off at 255
                return _of_deep_grey(path, picture.format, np.asarray(picture))
            whole = picture.convert("RGBA")
        pixels = np.asarray(whole, np.uint8)  # behind the end of what it was converted from
        if sixteen:
            _require_light(path, (int(pixels[..., :3].max(initial=0)) << 8) + 255)
        return pixels
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as e:
        raise MicaError(f"{path}: cannot be read as a picture: {[*str(e).splitlines(), type(e).__name__][0]}") from None


def _of_deep_grey(path: str | Path, kind: str | None, pixels: np.ndarray) -> np.ndarray:
    """RGBA of a grey picture of more than 8 bits: the upper 8 of 16, as Pillow has colours. Raises MicaError."""
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
    (w, h), turn = _header(path)
    try:  # before it is decoded
        _desired("rgb", height, width).frame(w, h, "rgb888")
    except MicaError as e:
        raise e.at(str(path)) from None
    whole = decoded(path)
    if turn != 1:
        whole = np.ascontiguousarray(_upright(whole, turn))
        note(path, "turned upright, as its EXIF says")
    rgb, alpha = whole[..., :3], whole[..., 3:]
    if colours == "rgba":
        rgb = np.where(alpha == 0, np.uint8(0), rgb)  # what nobody sees
        return np.concatenate([_made(rgb, "rgb", height, width), _made(alpha, "grey", height, width)], axis=2)
    if alpha.min() < 255:
        rgb = np.stack([_on_white(row, row_alpha) for row, row_alpha in zip(rgb, alpha, strict=True)])
        note(path, "transparent pixels become white")
    return _made(rgb, colours, height, width)


def _on_white(rgb: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """uint8 [width, 3] of a row; a row at a time takes little memory."""
    seen = alpha.astype(np.uint32)
    return np.asarray((rgb * seen + 255 * (255 - seen) + 127) // 255, np.uint8)


def readable(paths: Sequence[Path], read: Callable[[Path], np.ndarray]) -> list[tuple[Path, np.ndarray]]:
    """Pictures of a folder, read by `read`. Names and leaves out those that it refuses.

    Raises MicaError if it refuses all.
    """
    found, refused = [], []
    for path in paths:
        try:
            found.append((path, read(path)))
        except MicaError as e:
            refused.append(e)
    if refused and not found:
        raise refused[0]
    for error in refused:
        note(paths[0].parent, f"left out: {error}")
    return found


def size(path: str | Path) -> tuple[int, int] | None:
    """Return width and height of a file, upright; None of one that cannot be read.
    Raises MicaError where it is too large."""
    found = _header(path)[0]
    return None if found == (1, 1) else found


def _header(path: str | Path) -> tuple[tuple[int, int], int]:
    """Width and height, upright, and the orientation that EXIF says, 1 to 8: before anything is decoded.
    Raises MicaError."""
    try:
        from PIL import Image
    except ImportError:
        return (1, 1), 1  # `decoded` says so, and what is wrong with a file
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(path) as picture:
            w, h = picture.size
            _require_small(path, w, h)
            in_info = (
                picture.format != "PNG" or "exif" in picture.info
            )  # else Pillow decodes it to look behind the pixels
            turn = int(picture.getexif().get(_ORIENTATION, 1)) if in_info else 1
            if (frames := getattr(picture, "n_frames", 1)) > 1:
                note(path, f"the first of its {frames} pictures")
    except Image.DecompressionBombError:
        raise MicaError(
            f"{path}: has too many pixels", todo=f"expected at most {MOST_PIXELS:,}: make it smaller"
        ) from None
    except (OSError, ValueError, SyntaxError):
        return (1, 1), 1
    return (h, w) if 4 < turn <= 8 else (w, h), turn if 1 <= turn <= 8 else 1


def _require_small(path: str | Path, w: int, h: int) -> None:
    """Raises MicaError where a file has too many pixels to be decoded."""
    most = min(MOST_PIXELS, SLACK + FACTOR * Path(path).stat().st_size)
    if w * h > most:
        raise MicaError(
            f"{path}: has {w} x {h} pixels, {w * h:,}",
            todo=f"expected at most {most:,} of such a file: make it smaller",
        )


_ORIENTATION = 0x0112  # EXIF


def _upright(pixels: np.ndarray, turn: int) -> np.ndarray:
    """Pixels [height, width, ...] as a person sees them; turn: 2 to 8, of EXIF 2.3,
    4.6.4 A: where row 0 and column 0 are."""
    if turn > 4:
        pixels = pixels.swapaxes(0, 1)
    rows, columns = {2: (1, -1), 3: (-1, -1), 4: (-1, 1), 5: (1, 1), 6: (1, -1), 7: (-1, -1), 8: (-1, 1)}[turn]
    return pixels[::rows, ::columns]


def _desired(colours: str, height: int, width: int) -> Desired:
    return Desired(colours, width, height, False, (_AS_IT_IS,) * (1 if colours == "grey" else 3))


def _made(pixels: np.ndarray, colours: str, height: int, width: int) -> np.ndarray:
    desired = _desired(colours, height, width)
    frame = desired.frame(pixels.shape[1], pixels.shape[0], "grey" if pixels.shape[2] == 1 else "rgb888")
    made = engine.see(frame, pixels.tobytes(), desired.table)
    return np.asarray(made.astype(np.int16) + 128, np.uint8)
