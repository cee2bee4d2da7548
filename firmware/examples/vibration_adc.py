# Listens to a machine by a vibration sensor, ADXL1002: output to pin 26, 3.3 V; a LED at pin 15, 330 ohms.
# boards: RPI_PICO@emu
from machine import Pin

import mica
from mica.analog import Analog
from mica.audio import listen

# Packed with a front end, --frontend features:rate=8000,rows=800,..., and calibrated with what `mica record --adc` has
# recorded.
m = mica.Model("fan.mica")
led = Pin(15, Pin.OUT)

# DMA takes the samples while the model runs, until the end of `with`.
sensor = Analog(26, rate=8000)
with sensor, listen(m, sensor, threshold=0.8, mean=2, step=400, dead_ms=300, ms=1150) as sounds:
    for event in sounds:
        print(event.label or event.problem, "at", event.ms, "ms")
        led.toggle()
    print("busy", sounds.used < 0.8)
#: smooth at ... ms
#: rattle at ... ms
#: busy True
