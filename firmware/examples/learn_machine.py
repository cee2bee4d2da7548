# Tells when a machine begins to sound odd: a vibration sensor, ADXL1002, output to pin 26, 3.3 V.
# boards: RPI_PICO@emu
from array import array

import mica
from mica.analog import Analog

# Features without a network: mica pack --frontend features:rate=8000,rows=800,... --calib recordings/ -o odd.mica
h = mica.Learner(mica.Model("odd.mica"), "anomaly", path=None, alarms=1, judged=1440)
x = array("h", bytes(2 * 800))
rest = memoryview(x)

with Analog(26, rate=8000, ring=8192) as sensor:

    def recording():
        n = 0
        while n < 800:
            n += (sensor.readinto(rest[n:]) or 0) // 2
        return x

    for _ in range(12):  # it starts
        recording()
    for _ in range(8):
        h.teach([recording()], "smooth")
    print(h)
    for _ in range(6):
        answer = h.predict([recording()])
        print(answer[0] if answer else "odd")
#: <mica.Learner anomaly: smooth (8)>
#: smooth
#: smooth
#: smooth
#: ...
#: odd
#: odd
