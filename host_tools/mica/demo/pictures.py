"""Greyscale pictures in a terminal, several side by side, a caption under each.

    from mica.demo.pictures import caption, gallery
    print(gallery([x[0], x[1]], [caption("7", 0.98, "7"), caption("1", 0.45, "8")]))

A character cell is about twice as high as wide, so half blocks show two square pixels one above the other.
Three styles, chosen by `pick_style` from what the output can do:

    colour   half blocks in 24 greys, with the 256-colour codes that terminals have understood for decades
    blocks   half blocks, ink or no ink: NO_COLOR is set (https://no-color.org), or the output is no terminal
    ascii    two characters a pixel, denser ones for more ink: the output's encoding has no half blocks
"""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Literal, TextIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

Style = Literal["colour", "blocks", "ascii"]

HALVES = " ▄▀█"  # index: upper pixel * 2 + lower pixel
INK = 0.5  # from this value on, `blocks` draws a pixel
RAMP = " .:-=+*#%@"  # ascii, from no ink to full ink
GREY, GREYS = 232, 24  # the greys of the 256-colour palette: 232 is nearly black, 255 nearly white
RESET = "\x1b[0m"
GAP = "  "  # between two pictures


def pick_style(stream: TextIO | None = None, environ: Mapping[str, str] | None = None) -> Style:
    """The best style that `stream` (stdout unless told) can show and its user wants."""
    stream = sys.stdout if stream is None else stream
    environ = os.environ if environ is None else environ
    try:
        HALVES.encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return "ascii"
    if environ.get("NO_COLOR") or environ.get("TERM") == "dumb" or not stream.isatty():
        return "blocks"
    return "colour"


def caption(answer: str, probability: float, truth: str | None = None) -> str:
    """`7 (98%) ok`, `1 (45%) not 8`, or `7 (98%)` where the truth isn't known. probability: 0..1."""
    text = f"{answer} ({probability:.0%})"
    if truth is None:
        return text
    return f"{text} ok" if answer == truth else f"{text} not {truth}"


def picture(image: ArrayLike, style: Style, zoom: int = 2) -> list[str]:
    """The lines of one picture, all of the same visible width. image: [H,W] or [1,H,W] or [H,W,1], 0 blank to 1 ink.

    A pixel is `zoom` characters wide and half as many lines high. `ascii` cannot draw half a line, so there a pixel is
    at least two characters and one line, which is what it is in the other styles too at the default zoom.
    """
    pixels = _pixels(image)
    if zoom < 1:
        raise ValueError(f"zoom is {zoom}, it must be 1 or more")
    if style == "ascii":
        scale = max(1, zoom // 2)
        levels = np.rint(_enlarged(pixels, scale, 2 * scale) * (len(RAMP) - 1)).astype(int)
        return ["".join(RAMP[level] for level in row) for row in levels]
    pixels = _enlarged(pixels, zoom, zoom)
    if len(pixels) % 2:  # the lower half of the last line stays blank
        pixels = np.vstack([pixels, np.zeros_like(pixels[:1])])
    upper, lower = pixels[0::2], pixels[1::2]
    if style == "blocks":
        cells = (upper >= INK) * 2 + (lower >= INK)
        return ["".join(HALVES[cell] for cell in row) for row in cells]
    return [_coloured(above, below) for above, below in zip(_greys(upper), _greys(lower), strict=True)]


def gallery(
    images: Sequence[ArrayLike],
    captions: Sequence[str],
    *,
    style: Style | None = None,
    zoom: int = 2,
    columns: int | None = None,
) -> str:
    """Pictures side by side, each with its caption centred below, in as many rows as `columns` characters ask for.

    Pictures may differ in size. `style` and `columns` are taken from stdout and its terminal unless given.
    """
    if len(images) != len(captions):
        raise ValueError(f"{len(images)} images but {len(captions)} captions")
    if not images:
        return ""
    style = pick_style() if style is None else style
    columns = shutil.get_terminal_size().columns if columns is None else columns
    drawn = [picture(image, style, zoom) for image in images]
    widths = [_pixels(image).shape[1] * (2 * max(1, zoom // 2) if style == "ascii" else zoom) for image in images]
    place = max(*widths, *map(len, captions))  # characters for a picture and its caption
    across = max(1, (columns + len(GAP)) // (place + len(GAP)))
    rows = (range(first, min(first + across, len(drawn))) for first in range(0, len(drawn), across))
    return "\n\n".join(_row([(drawn[i], widths[i], captions[i]) for i in row], place) for row in rows)


def _row(entries: Sequence[tuple[list[str], int, str]], place: int) -> str:
    """One row of the gallery from (lines, their visible width, caption)."""
    height = max(len(lines) for lines, _, _ in entries)
    text = []
    for y in range(height):
        cells = []
        for lines, width, _ in entries:
            left = (place - width) // 2
            line = lines[y] if y < len(lines) else " " * width
            cells.append(" " * left + line + " " * (place - width - left))
        text.append(GAP.join(cells).rstrip(" "))
    text.append(GAP.join(words.center(place) for _, _, words in entries).rstrip(" "))
    return "\n".join(text)


def _pixels(image: ArrayLike) -> NDArray[np.float64]:
    """[H,W] float64 in 0..1; NaN counts as blank."""
    array = np.asarray(image, dtype=np.float64)
    if array.ndim == 3 and 1 in (array.shape[0], array.shape[2]):
        array = array[0] if array.shape[0] == 1 else array[:, :, 0]
    if array.ndim != 2 or not array.size:
        raise ValueError(f"a picture has shape [H,W], this array has {list(array.shape)}")
    return np.clip(np.nan_to_num(array, nan=0.0), 0.0, 1.0)


def _enlarged(pixels: NDArray[np.float64], down: int, across: int) -> NDArray[np.float64]:
    return pixels.repeat(down, axis=0).repeat(across, axis=1)


def _greys(pixels: NDArray[np.float64]) -> list[list[int]]:
    greys: list[list[int]] = (GREY + np.rint(pixels * (GREYS - 1)).astype(int)).tolist()
    return greys


def _coloured(above: Sequence[int], below: Sequence[int]) -> str:
    """One line of upper half blocks, ink colour over paper colour; codes only where they change, reset at the end."""
    line, last = "", None
    for pair in zip(above, below, strict=True):
        if pair != last:
            line += f"\x1b[38;5;{pair[0]};48;5;{pair[1]}m"
            last = pair
        line += "▀"
    return line + RESET
