# Learns two gestures by an MPU6050 motion sensor: SDA to pin 4, SCL to pin 5, 3.3 V. Press a button for each.
# boards: RPI_PICO@emu
from array import array

from machine import I2C, Pin

import mica
from mica.motion import MPU6050

# Without a network: mica pack --frontend features:rows=50,axes=6,rate=100,... --calib recordings/ -o motion.mica
h = mica.Learner(mica.Model("motion.mica"), path="gestures", fresh=True)
sensor = MPU6050(I2C(0, sda=Pin(4), scl=Pin(5), freq=400_000), rate=100)
rows = array("h", bytes(2 * 60 * 6))


def gesture():
    """Return half a second of rows, of the 0.6 s that a gesture takes."""
    n = 0
    while n < 60:
        n += max(0, sensor.read(rows, n, 60 - n))
    return memoryview(rows)[:300]


for label in ("still", "shake", "still", "turn") * 2:
    h.teach([gesture()], label)
h.save()  # what was taught is there after a reset
print(h)
for _ in range(4):
    print(h.closest([gesture()])[0])
#: <mica.Learner prototype: still (4), shake (2), turn (2)>
#: still
#: shake
#: still
#: turn
