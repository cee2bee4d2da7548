# Tells whether somebody is in front of an ESP32's camera: an OV2640, of a firmware with the module `camera`.
# boards: UNIX
from camera import Camera, FrameSize, PixelFormat

import mica
from mica.camera import Esp32

m = mica.Model("person.mica")  # packed with pictures, so the file says which picture it takes
camera = Esp32(Camera(pixel_format=PixelFormat.RGB565, frame_size=FrameSize.QQVGA))

for _ in range(2):
    m.see(*camera.frame())
    m.run()
    print(m.top()[0])

# A frame that is not what it is said to be is no picture; two bytes the wrong way round are,
# and cost the answer (docs/sound.md).
data, width, height, format = camera.frame()
try:
    m.see(data, height, width * 2, format)
except ValueError as e:
    print(e)
#: ('non_person', ...)
#: ('person', ...)
#: see: the frame has 38400 bytes; 120 x 320 pixels of its format have 76800
