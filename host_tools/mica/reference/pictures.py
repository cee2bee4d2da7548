"""Frames as pictures, in numpy: what usermod_c/kernels/picture.c computes, to the bit. SPEC.md, "Pictures"."""

import numpy as np

from mica.file.pictures import Frame
from mica.format.schema import PICTURE_FORMATS

Array = np.ndarray


def rows(frame: Frame, data: bytes, table: Array, begin: int = 0, end: int | None = None) -> Array:
    """Rows [begin, end) -> int8 [rows, out_w, channels]; with PLANES [channels, rows, out_w].
    table: int8 [channels, 256]."""
    stop = frame.out_h if end is None else end
    sums = [
        _area(frame, c, begin, stop) if frame.has("AREA") else _bilinear(frame, c, begin, stop)
        for c in _colours(frame, data)
    ]
    pixels = np.stack(_bytes(frame, sums), axis=-1)
    if frame.has("BGR"):
        pixels = pixels[..., ::-1]
    made = np.stack([table[k][pixels[..., k]] for k in range(frame.channels)], axis=0 if frame.has("PLANES") else -1)
    return np.ascontiguousarray(made, np.int8)


def _colours(frame: Frame, data: bytes) -> list[Array]:
    """The part's pixels, int64 [h, w] each: grey; red, green, blue of 5, 6, 5 bits or of 8; Y; or Y, U, V."""
    kind = PICTURE_FORMATS[frame.format]
    x = np.frombuffer(data, np.uint8).reshape(frame.height, frame.width, -1).astype(np.int64)
    if kind == "grey":
        found = [x[..., 0]]
    elif kind in ("rgb565le", "rgb565be"):
        low, high = (0, 1) if kind == "rgb565le" else (1, 0)
        word = x[..., low] | x[..., high] << 8
        found = [word >> 11, word >> 5 & 63, word & 31]
    elif kind in ("rgb888", "bgr888"):
        found = [x[..., k] for k in ((0, 1, 2) if kind == "rgb888" else (2, 1, 0))]
    else:
        y, other = (0, 1) if kind == "yuyv" else (1, 0)
        found = [x[..., y]]
        if frame.has("COLOUR"):
            found += [np.repeat(x[:, k::2, other], 2, axis=1) for k in (0, 1)]
    part = np.s_[frame.y : frame.y + frame.h, frame.x : frame.x + frame.w]
    return [c[part] for c in found]


def _places(n: int, of: int) -> tuple[Array, Array, Array]:
    """Return for n pixels between `of`: the one before, the one behind, and the 32nds of the way between them."""
    step = (of << 16) // n
    at = np.clip(np.arange(n, dtype=np.int64) * step + (step >> 1) - 32768, 0, (of - 1) << 16)
    first = at >> 16
    return first, np.minimum(first + 1, of - 1), at >> 11 & 31


def _bilinear(frame: Frame, c: Array, begin: int, end: int) -> Array:
    x0, x1, wx = _places(frame.out_w, frame.w)
    y0, y1, wy = (v[begin:end, None] for v in _places(frame.out_h, frame.h))
    both = wx * wy >> 5
    return np.asarray(
        c[y0, x0] * (32 - wx - wy + both) + c[y0, x1] * (wx - both) + c[y1, x0] * (wy - both) + c[y1, x1] * both
    )


def _boxes(n: int, of: int) -> tuple[Array, Array]:
    """Begin and end of the pixels that each of n covers."""
    edges = np.arange(n + 1, dtype=np.int64) * of // n
    return edges[:-1], np.maximum(edges[1:], edges[:-1] + 1)


def _area(frame: Frame, c: Array, begin: int, end: int) -> Array:
    x0, x1 = _boxes(frame.out_w, frame.w)
    y0, y1 = (v[begin:end, None] for v in _boxes(frame.out_h, frame.h))
    sums = np.pad(c, ((1, 0), (1, 0))).cumsum(axis=0).cumsum(axis=1)
    total = sums[y1, x1] - sums[y0, x1] - sums[y1, x0] + sums[y0, x0]
    return np.asarray(total * ((1 << 24) // ((x1 - x0) * (y1 - y0))) >> 19)


def _bytes(frame: Frame, sums: list[Array]) -> list[Array]:
    """Grey, or red, green and blue, of 0 to 255."""
    a = sums[0]
    kind = PICTURE_FORMATS[frame.format]
    if len(sums) == 1:
        return [a + 16 >> 5]
    _, b, c = sums
    if kind in ("rgb888", "bgr888"):
        return [v + 16 >> 5 for v in sums] if frame.has("COLOUR") else [77 * a + 150 * b + 29 * c + 4096 >> 13]
    if kind in ("rgb565le", "rgb565be"):
        if not frame.has("COLOUR"):
            return [5067 * a + 4857 * b + 1908 * c + 32768 >> 16]
        return [16847 * a + 32768 >> 16, 8290 * b + 32768 >> 16, 16847 * c + 32768 >> 16]
    y, u, v = 256 * a + 4096, b - 4096, c - 4096
    return [np.clip(w >> 13, 0, 255) for w in (y + 359 * v, y - 88 * u - 183 * v, y + 454 * u)]
