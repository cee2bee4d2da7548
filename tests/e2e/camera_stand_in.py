"""A module `camera` for boards that have none, with a camera that shows a dark picture first and a bright one then."""

import sys


class Camera:
    def __init__(self, pixel_format, frame_size):
        assert (pixel_format, frame_size) == (PixelFormat.RGB565, FrameSize.QQVGA)
        self._bright = False

    def get_pixel_width(self):
        return 160

    def get_pixel_height(self):
        return 120

    def capture(self):
        word = b"\xef\x5d" if self._bright else b"\x10\x82"  # the high byte first
        self._bright = not self._bright
        return memoryview(word * (160 * 120))


class PixelFormat:
    RGB565 = 0


class FrameSize:
    QQVGA = 1


class _Module:
    pass


_Module.Camera, _Module.PixelFormat, _Module.FrameSize = Camera, PixelFormat, FrameSize
sys.modules["camera"] = _Module
