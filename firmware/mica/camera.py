"""Cameras for m.see(): frame() takes a picture and returns the arguments of see(): m.see(*camera.frame()).

The camera's own driver sets it up. JPEG is refused: choose grey or RGB565, and a size little larger than the model's
picture. OV7670 and OV2640 are cameras at the pins of an RP2040 or RP2350, whose driver is mica.dvp. What bytes cannot
show, two bytes the wrong way round or blue for red, is for you to look at: host_tools/docs/sound.md says what it costs.
"""


def __getattr__(name):
    if name not in ("OV7670", "OV2640"):
        raise AttributeError(name)
    from mica import dvp

    return getattr(dvp, name)


def _format(n, width, height, words):
    """Return the format of n bytes, by their number; words: that of two a pixel."""
    for size, name in ((1, "grey"), (2, words), (3, "rgb888")):
        if n == size * width * height:
            return name
    raise ValueError(f"camera: {n} bytes are no {width} x {height} pixels; is its format JPEG, or its size another?")


class OpenMV:
    """A camera of OpenMV's firmware: csi.CSI(), or the older module sensor itself. words: format of two-byte pixels."""

    def __init__(self, camera: Any, words: str = "rgb565le") -> None:
        self._camera = camera
        self._words = words

    def frame(self) -> Frame:
        image = self._camera.snapshot()
        data, width, height = image.bytearray(), image.width(), image.height()
        return data, width, height, _format(len(data), width, height, self._words)


class Esp32:
    """A camera of an ESP32 firmware with a module `camera`: its Camera(...),
    or the module itself with the size of its frames."""

    def __init__(self, camera: Any, width: int = 0, height: int = 0, words: str = "rgb565be") -> None:
        self._camera = camera
        self._size = width, height
        self._words = words

    def frame(self) -> Frame:
        data = self._camera.capture()
        if not data:
            raise OSError("camera: no frame came; is it connected, and its PSRAM enabled?")
        width, height = self._size
        if not width:
            width, height = self._camera.get_pixel_width(), self._camera.get_pixel_height()
        return data, width, height, _format(len(data), width, height, self._words)


class Buffered:
    """A driver that fills a buffer, by capture(buffer) or readinto(buffer),
    such as those of OV7670 and HM01B0 on a Pico.

    The buffer is made once, here. format: one of mica.pictures.FORMATS.
    """

    def __init__(self, camera: Any, width: int, height: int, format: str) -> None:
        size = 1 if format == "grey" else 3 if format.endswith("888") else 2
        self._fill = camera.readinto if hasattr(camera, "readinto") else camera.capture
        self._frame = bytearray(width * height * size), width, height, format

    def frame(self) -> Frame:
        n = self._fill(self._frame[0])
        if n is not None and n is not self._frame[0] and n != len(self._frame[0]):
            raise OSError(f"camera: {n} of {len(self._frame[0])} bytes came")
        return self._frame
