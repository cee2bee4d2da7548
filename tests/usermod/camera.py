# Adapters of cameras, with stand-ins for their drivers: what frame() gives, and what is refused.
from mica.camera import Buffered, Esp32, OpenMV


class Image:
    def __init__(self, size):
        self._size = size

    def bytearray(self):
        return bytearray(self._size)

    def width(self):
        return 8

    def height(self):
        return 6


class Sensor:
    """A stand-in for csi.CSI(), and for the module sensor."""

    def __init__(self, size):
        self._size = size

    def snapshot(self):
        return Image(self._size)


class Camera:
    """A stand-in for the Camera of the module camera."""

    def __init__(self, data):
        self._data = data

    def capture(self):
        return self._data

    def get_pixel_width(self):
        return 8

    def get_pixel_height(self):
        return 6


class Driver:
    def __init__(self, n):
        self._n = n

    def capture(self, buffer):
        for i in range(len(buffer)):
            buffer[i] = i
        return self._n


class Reader(Driver):
    def readinto(self, buffer):
        return self.capture(buffer)


class Giver(Driver):
    """Gives back the buffer that it has filled."""

    def capture(self, buffer):
        super().capture(buffer)
        return buffer


def show(frame):
    print(len(frame[0]), frame[1:])


for size in (48, 96, 144):
    show(OpenMV(Sensor(size)).frame())
    show(Esp32(Camera(bytes(size))).frame())
show(OpenMV(Sensor(96), "yuyv").frame())
show(Esp32(Camera(bytes(32)), 4, 4, "rgb565le").frame())
for driver in (Driver(None), Driver(96), Reader(96), Giver(None)):
    camera = Buffered(driver, 8, 6, "rgb565be")
    frame = camera.frame()
    show(frame)
    print(frame[0][95], camera.frame()[0] is frame[0])
show(Buffered(Driver(None), 8, 6, "grey").frame())
show(Buffered(Driver(None), 8, 6, "bgr888").frame())
fails(OpenMV(Sensor(50)).frame)
fails(Esp32(Camera(b"\xff\xd8")).frame)
fails(Esp32(Camera(None)).frame)
fails(Buffered(Driver(40), 8, 6, "rgb565be").frame)
