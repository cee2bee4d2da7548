"""Pictures as a model's input: the metadata `picture`, and a frame in the form that the engine takes.

SPEC.md, "Pictures", defines both. `grey 1052688,-133169152`: the colours, and for each channel a factor and an addend,
in 2**-20; byte p of the resized picture becomes (p * factor + addend) >> 20, limited to int8.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mica.errors import MicaError
from mica.file.codec import ModelFile, TensorRecord
from mica.format.schema import PICTURE_COLOURS, PICTURE_FLAGS, PICTURE_FORMATS, PICTURE_MAX_COVER, PICTURE_MAX_SIDE
from mica.format.values import clip_s8

KEY = "picture"
FRACTION = 20
LIMIT = 2**30  # of a factor; of an addend 2**8 times as much
UNLIKE = 16  # times that the range of pixels may be that of the input, or the other way round
CHANNELS = {"grey": 1, "rgb": 3, "bgr": 3, "rgba": 4}


@dataclass(frozen=True)
class Frame:
    """The fields of mica_picture_t, in their order."""

    width: int
    height: int
    x: int
    y: int
    w: int
    h: int
    out_w: int
    out_h: int
    format: int
    flags: int

    def has(self, flag: str) -> bool:
        return bool(self.flags & PICTURE_FLAGS[flag])

    @property
    def channels(self) -> int:
        return 3 if self.has("COLOUR") else 1

    @property
    def bytes(self) -> int:
        """Count the bytes of the frame."""
        return self.width * self.height * PIXEL_BYTES[PICTURE_FORMATS[self.format]]


PIXEL_BYTES = {name: 1 if name == "grey" else 3 if name.endswith("888") else 2 for name in PICTURE_FORMATS}


@dataclass(frozen=True)
class Desired:
    """The picture that a model takes. steps: factor and addend by channel; planes: [1, channels, height, width]."""

    colours: str
    width: int
    height: int
    planes: bool
    steps: tuple[tuple[int, int], ...]

    @property
    def channels(self) -> int:
        return len(self.steps)

    @property
    def table(self) -> np.ndarray:
        """int8 [channels, 256]: what bytes become."""
        p = np.arange(256, dtype=np.int64)
        return np.array([clip_s8((p * factor + addend) >> FRACTION) for factor, addend in self.steps], np.int8)

    def real(self, tensor: TensorRecord) -> np.ndarray:
        """float32 [channels, 256]: the numbers that bytes stand for, not rounded to the input's steps."""
        p = np.arange(256, dtype=np.float64)
        steps = [(p * factor + addend) / 2**FRACTION - 0.5 for factor, addend in self.steps]
        return np.array([(v - tensor.zero_point) * tensor.scale for v in steps], np.float32)

    def frame(
        self, width: int, height: int, format_: str, part: Sequence[int] | None = None, area: bool | None = None
    ) -> Frame:
        """The conversion of a frame into that picture. Raises MicaError if there is none."""
        if format_ not in PICTURE_FORMATS:
            raise MicaError(f"{format_!r} is no format of a frame", todo=f"expected {', '.join(PICTURE_FORMATS)}")
        if format_ == "grey" and self.colours != "grey":
            raise MicaError("the frame is grey, and the model takes colours")
        if not (1 <= width <= PICTURE_MAX_SIDE and 1 <= height <= PICTURE_MAX_SIDE):
            raise MicaError(f"a frame of {width} x {height} pixels", todo=f"expected 1 to {PICTURE_MAX_SIDE}")
        if format_ in ("yuyv", "uyvy") and width % 2:
            raise MicaError(f"a frame of {width} x {height} pixels: {format_} has pairs of them")
        x, y, w, h = part or (0, 0, width, height)
        if min(x, y) < 0 or min(w, h) < 1 or x + w > width or y + h > height:
            raise MicaError(f"part {x}, {y}, {w} x {h} is not inside of a frame of {width} x {height}")
        if area is None:
            area = w >= 2 * self.width and h >= 2 * self.height
        if area and max(math.ceil(w / self.width), math.ceil(h / self.height)) > PICTURE_MAX_COVER:
            raise MicaError(
                f"{w} x {h} pixels are too many for {self.width} x {self.height}", todo="look at a part of them"
            )
        flags = {
            "COLOUR": self.colours != "grey",
            "BGR": self.colours == "bgr",
            "PLANES": self.planes and self.channels > 1,
            "AREA": area,
        }
        number = sum(PICTURE_FLAGS[name] for name, is_set in flags.items() if is_set)
        return Frame(width, height, x, y, w, h, self.width, self.height, PICTURE_FORMATS.index(format_), number)


def layout(shape: Sequence[int], colours: str = "") -> tuple[str, int, int, bool] | None:
    """(colours, height, width, planes) of a picture input, of these colours if given; None if it is no picture."""
    names = [colours] if colours else ["grey", "rgb", "rgba"]
    if len(shape) != 4 or shape[0] != 1 or max(shape) > PICTURE_MAX_SIDE:
        return None
    for name in names:
        if shape[3] == CHANNELS[name]:
            return name, shape[1], shape[2], False
    for name in names:
        if shape[1] == CHANNELS[name]:
            return name, shape[2], shape[3], CHANNELS[name] > 1
    return None


def write(colours: str, scale: Sequence[float], offset: Sequence[float], tensor: TensorRecord) -> str:
    """The metadata of a model whose input is pixel * scale + offset. Raises MicaError where it cannot take pictures."""
    channels = CHANNELS[colours]
    if tensor.dtype != "int8" or layout(tensor.dims, colours) is None:
        raise MicaError(
            f"--picture {colours}: input '{tensor.name}' is {tensor.dtype} {list(tensor.dims)}",
            todo=f"expected int8 [1, height, width, {channels}] or [1, {channels}, height, width]",
        )
    steps = []
    for numbers in (scale, offset):
        if len(numbers) not in (1, channels):
            raise MicaError(f"--picture {colours}: {len(numbers)} numbers for the pixels of {channels} channels")
    for k in range(channels):
        s, o = (float(numbers[k if len(numbers) > 1 else 0]) for numbers in (scale, offset))
        factor, addend = s / tensor.scale, o / tensor.scale + tensor.zero_point + 0.5
        if not 1 / UNLIKE < abs(factor) < UNLIKE or not abs(addend) * 2**FRACTION < LIMIT * 256:
            low, high = ((q - tensor.zero_point) * tensor.scale for q in (-128, 127))
            raise MicaError(
                f"--picture {colours}: pixels become {o:.4g} to {o + 255 * s:.4g}; input '{tensor.name}' takes "
                f"{low:.4g} to {high:.4g}",
                todo="give --pixel-scale and --pixel-offset as in training",
            )
        steps.append(f"{round(factor * 2**FRACTION)},{round(addend * 2**FRACTION)}")
    return " ".join([colours, *steps])


def read(model: ModelFile) -> Desired | None:
    """The picture that a model takes; None without the metadata. Raises MicaError if the metadata is wrong."""
    text = model.metadata.get(KEY)
    if text is None:
        return None
    colours, *words = text.split(" ")
    tensor = model.tensors[model.inputs[0]]
    found = layout(tensor.dims, colours) if colours in PICTURE_COLOURS else None
    try:
        steps = tuple((int(a), int(b)) for a, b in (word.split(",") for word in words))
    except ValueError:
        steps = ()
    small = all(abs(a) < LIMIT and abs(b) < LIMIT * 256 for a, b in steps)
    if (
        found is None
        or len(steps) != CHANNELS[colours]
        or not small
        or tensor.dtype != "int8"
        or len(model.inputs) != 1
    ):
        raise MicaError(f"the model's metadata '{KEY}' is wrong: {text!r}", todo="pack the model again")
    _, height, width, planes = found
    return Desired(colours, width, height, planes, steps)
