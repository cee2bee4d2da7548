# Recognises gestures by an MPU6050 motion sensor: SDA to pin 4, SCL to pin 5, 3.3 V; a LED at pin 15, 330 ohms.
# boards: RPI_PICO@emu
import asyncio

from machine import I2C, Pin

import mica
from mica.motion import MPU6050, watch

# Trained on features of what `mica record --imu` has recorded, and packed with --frontend
# features:rows=50,axes=6,rate=100,... so that it takes windows of 50 rows of six numbers, in the sensor's counts.
m = mica.Model("gestures.mica")
sensor = MPU6050(I2C(0, sda=Pin(4), scl=Pin(5), freq=400_000), rate=100)
led = Pin(15, Pin.OUT)


async def main():
    with watch(m, sensor, mean=2, step=10, ms=2400) as gestures:
        async for event in gestures:
            if event.problem:  # rows lost, or a sensor that gives always the same
                print(event.problem)
                continue
            print(event.label, "at", event.ms, "ms")
            led.toggle()
    print("busy", gestures.used < 0.5)


asyncio.run(main())
#: shake at ... ms
#: turn at ... ms
#: busy True
