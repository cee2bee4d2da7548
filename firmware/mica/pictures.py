"""Frames of cameras for a model: m.see(frame, width, height, format), for models packed with pictures or `mica pack
--picture`.

The file gives the picture's size, its colours, and the integers that their bytes become. The host does the same with
picture files, to the same bytes.
The arithmetic is that of host_tools/mica/format/SPEC.md, "Pictures".
"""

from array import array

try:
    from _mica import see as rows
except ImportError:  # a firmware that was built for models without pictures
    rows = None

# What the bytes of a frame are; rgb565: a word of 16 bits with its low byte first (le), or its high one (be).
FORMATS: tuple[str, ...] = ("grey", "rgb565le", "rgb565be", "rgb888", "bgr888", "yuyv", "uyvy")

_COLOUR, _BGR, _PLANES, _AREA = 1, 2, 4, 8
_MOST_SIDE, _MOST_COVER = 16384, 128


def _steps(text):
    """Return the colours of the metadata, and a factor and an addend for each."""
    words = text.split(" ")
    steps = []
    for word in words[1:]:
        factor, addend = word.split(",")
        steps.append((int(factor), int(addend)))
        if abs(steps[-1][0]) >= 1 << 30 or abs(steps[-1][1]) >= 1 << 38:
            raise ValueError
    if words[0] not in ("grey", "rgb", "bgr") or len(steps) != (1 if words[0] == "grey" else 3):
        raise ValueError
    return words[0], steps


class Picture:
    """The picture that a model takes: width, height, colours ("grey", "rgb" or "bgr")."""

    colours: str
    width: int
    height: int

    def __init__(self, m: _mica.Model) -> None:
        text = m.meta("picture")
        if text is None:
            raise ValueError("see: this model does not say which pictures it takes; pack it with --picture")
        if rows is None:
            raise ValueError("see: this firmware was built for models without pictures")
        t = m.tensor(m.inputs[0])
        try:
            self.colours, steps = _steps(text)
            channels = len(steps)
            one, a, b, c = t.shape
            if t.dtype != "b" or one != 1 or len(m.inputs) != 1 or channels not in (a, c):
                raise ValueError
        except ValueError:
            raise ValueError(f"see: the file's picture {text!r} is not for its input; pack the model again") from None
        self._flags = 0 if channels == 1 else _COLOUR | (_BGR if self.colours == "bgr" else 0)
        if c == channels:
            self.height, self.width = a, b
        else:
            self.height, self.width = b, c
            self._flags |= _PLANES if channels > 1 else 0
        self._table = bytearray(256 * channels)
        i = 0
        for factor, addend in steps:
            for p in range(256):
                self._table[i] = max(-128, min((p * factor + addend) >> 20, 127)) & 255
                i += 1
        self._numbers = array("H", [0] * 10)
        self._frame = None
        self._m = m
        self._fill = self.fill  # once, so that a frame allocates nothing for it

    def see(
        self, frame: Any, width: int, height: int, format: str, part: Part | None = None, area: bool | None = None
    ) -> None:
        """Put a frame into the model's input, as Model.see() does."""
        x, y, w, h = part or (0, 0, width, height)
        if format not in FORMATS:
            raise ValueError(f"see: {format!r} is no format of a frame; there are {', '.join(FORMATS)}")
        if format == "grey" and self.colours != "grey":
            raise ValueError("see: the frame is grey, and the model takes colours")
        if not (0 < width <= _MOST_SIDE and 0 < height <= _MOST_SIDE):
            raise ValueError(f"see: a frame of {width} x {height} pixels; 1 to {_MOST_SIDE} are expected")
        if width & 1 and format in ("yuyv", "uyvy"):
            raise ValueError(f"see: {width} x {height} pixels of {format}, which has pairs of them")
        if x < 0 or y < 0 or w < 1 or h < 1 or x + w > width or y + h > height:
            raise ValueError(f"see: part {x}, {y}, {w} x {h} is not inside of {width} x {height}")
        if area is None:
            area = w >= 2 * self.width and h >= 2 * self.height
        if area and (w > _MOST_COVER * self.width or h > _MOST_COVER * self.height):
            raise ValueError(f"see: {w} x {h} pixels are too many for {self.width} x {self.height}; see a part of them")
        n = self._numbers
        n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7] = width, height, x, y, w, h, self.width, self.height
        n[8] = FORMATS.index(format)
        n[9] = self._flags | (_AREA if area else 0)
        m = self._m
        if m.fed is None:
            rows(n, frame, self._table, 0, self.height, m.input(0))
        else:
            rows(n, frame, self._table, 0, 0, bytearray(0))  # to refuse it now
            self._frame = frame
            m.write(m.fed, self._fill)

    def look(self, camera: Any, model: Model, part: Part | None = None, area: bool | None = None) -> tuple[str, float]:
        """See a frame of a camera, run, and return the best label and its score.

        The next frame comes while the model runs.
        """
        data, width, height, format = camera.frame()
        self.see(data, width, height, format, part, area)
        if self._m.fed is None and hasattr(camera, "begin"):
            camera.begin()
        model.run()
        return model.top()[0]

    def fill(self, begin: int, end: int, buffer: Any) -> None:
        """Write rows [begin, end) of the last frame into the buffer. A fed model asks for them while it runs."""
        rows(self._numbers, self._frame, self._table, begin, end, buffer)
