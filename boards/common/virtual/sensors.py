"""Sensors that are wired to a virtual Pico, with the facts of ../sensors.json, by this description:

    {"i2s": {"file": int16 samples, "name": ..., "rate": 16000, "sck": 16, "ws": 17, "sd": 18},
     "pdm": {"file": int16 samples, "name": ..., "rate": 16000, "clk": 3, "data": 2},
     "adc": {"file": int16 samples, "name": ..., "rate": 1000, "pin": 26},
     "imu": {"file": rows of six int16, "name": ..., "rate": 100, "sda": 4, "scl": 5, "addr": 104}} or
            {..., "sck": 2, "mosi": 3, "miso": 4, "cs": 5}
     "camera": {"file": of cameras.py, "name": ..., "kind": "ov7670", "data": 0, "xclk": 11, "sda": 14, "scl": 15}
"""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from blocks import Block
from buses import Adc, Device, I2c, Spi
from cameras import HEIGHT, WIDTH, Camera
from clock import Clock
from pio import I2C, SIO, SPI, Io

FACTS = json.loads((Path(__file__).parents[1] / "sensors.json").read_text(encoding="utf-8"))
MIDDLE, FIRST_PIN = 1 << 15, 26  # of the analogue range; of channel 0


class Places(NamedTuple):
    """Parts of a chip that have wires."""

    clock: Clock
    io: Io
    adc: Adc
    spis: tuple[Spi, Spi]
    i2cs: tuple[I2c, I2c]
    pwm: Block


class Sensors:
    """say(text): what a sensor has to say to the user. Files are read once."""

    def __init__(self, description: dict[str, dict[str, Any]], say: Callable[[str], None]) -> None:
        self.say = say
        self.wired = [(bus, sensor, np.fromfile(sensor["file"], "<i2")) for bus, sensor in description.items()]

    def connect(self, chip: Places) -> None:
        for bus, sensor, data in self.wired:
            others = {"adc": self.analogue, "imu": self.motion, "camera": self.camera}
            others.get(bus, self.microphone)(chip, sensor, data)

    def tell(self, what: str, sensor: dict[str, Any], n: int, got: int = 0) -> None:
        """n: samples of the recording."""
        self.say(FACTS["says"][what].format(**sensor, seconds=f"{n / sensor['rate']:.2f}", got=got))

    def microphone(self, chip: Places, sensor: dict[str, Any], data: np.ndarray) -> None:
        kind = "i2s" if "ws" in sensor else "pdm"
        chip.io.say = lambda news, got: self.tell(f"{kind} {news}", sensor, len(data), got)
        pins = (sensor["sck"], sensor["ws"], sensor["sd"]) if kind == "i2s" else (sensor["clk"], None, sensor["data"])
        chip.io.sound(kind, pins, sensor["rate"], FACTS["pause"][kind], np.ctypeslib.as_ctypes(data))

    def analogue(self, chip: Places, sensor: dict[str, Any], data: np.ndarray) -> None:
        """Its sample that is nearest, whenever the board converts.
        The recording begins with the first conversion, and after a pause."""
        clock = chip.clock
        begun, last, told = 0.0, -math.inf, False

        def value(channel: int) -> int:
            nonlocal begun, last, told
            if channel != sensor["pin"] - FIRST_PIN:
                return 0
            now = clock.nanos
            if now - last > FACTS["pause"]["adc"]:
                begun, told = now, False
            last = now
            at = round((now - begun) * sensor["rate"] / 1e9)
            if at < len(data):
                return int(data[at]) + MIDDLE >> 4
            if not told:
                told = True
                self.tell("adc ended", sensor, len(data))
            return MIDDLE >> 4

        chip.adc.value = value

    def motion(self, chip: Places, sensor: dict[str, Any], data: np.ndarray) -> None:
        rows = data.reshape(-1, 6).astype(int)
        kind = Lsm6ds3 if sensor.get("addr", 0) in FACTS["lsm6ds3"]["addresses"] else MotionSensor
        device = kind(chip.clock, sensor, rows, lambda: self.tell("imu ended", sensor, len(rows)))
        function = chip.io.pins.function
        if "cs" in sensor:
            spi, wires = chip.spis[sensor["sck"] >> 3 & 1], [sensor[w] for w in ("sck", "mosi", "miso")]

            def chosen() -> None:
                spi.reads = spi.reads if chip.io.low(sensor["cs"]) else None

            spi.device = device
            cs = sensor["cs"]
            spi.wired = lambda: all(function(p) == SPI for p in wires) and function(cs) == SIO and chip.io.low(cs)
            chip.io.watchers.append(chosen)
            return
        self.at_i2c(chip, sensor, device)

    def camera(self, chip: Places, sensor: dict[str, Any], data: np.ndarray) -> None:
        device = Camera(chip.clock, chip.io, chip.pwm, sensor, data.view(np.uint8).reshape(-1, HEIGHT, WIDTH, 3))
        chip.io.watchers.append(device.looks)
        self.at_i2c(chip, sensor, device)

    def at_i2c(self, chip: Places, sensor: dict[str, Any], device: Device) -> None:
        i2c, pins = chip.i2cs[sensor["sda"] >> 1 & 1], (sensor["sda"], sensor["scl"])
        i2c.device = device
        i2c.wired = lambda: all(chip.io.pins.function(p) == I2C for p in pins)
        chip.io.watchers.append(Wires(chip.io, *pins, device).look)


class MotionSensor:
    """An MPU6050 at I2C, an MPU6500 at SPI. It measures rows of a recording, which begins when it is woken;
    at its end it lies still."""

    def __init__(self, clock: Clock, sensor: dict[str, Any], rows: np.ndarray, ended: Callable[[], None]) -> None:
        self.clock, self.sensor, self.rows, self.ended = clock, sensor, rows, ended
        self.r, self.bits = (type("Facts", (), FACTS["imu"][name]) for name in ("registers", "bits"))
        self.kind = FACTS["imu"]["kinds"]["spi" if "cs" in sensor else "i2c"]
        self.pointed = False  # False: the next byte written says where to
        self.at = 0
        self.reset()

    def reset(self) -> None:
        self.registers = bytearray(128)
        self.registers[self.r.PWR_MGMT_1], self.registers[self.r.WHO_AM_I] = self.bits.SLEEP, self.kind["known"]
        self.at = 0
        self.fifo = bytearray()
        self.latched = bytes(14)
        self.begun = self.counted = self.clock.nanos
        self.taken = 0  # samples that the FIFO was given since `counted`
        self.told = False

    def select(self, address: int) -> bool:
        self.pointed = False
        return address == self.sensor["addr"]

    def point(self, register: int) -> None:
        self.pointed, self.at = True, register & 0x7F

    def write(self, byte: int) -> None:
        if not self.pointed:
            self.point(byte)
            return
        self.fill()
        r, register = self.r, self.at
        self.point(register + 1)
        if register == r.PWR_MGMT_1:
            if byte & self.bits.DEVICE_RESET:
                self.reset()
                return
            self.begun, self.told = self.clock.nanos, False
        if register == r.USER_CTRL:
            if byte & self.bits.FIFO_RESET:
                self.fifo.clear()
                self.registers[r.INT_STATUS] = 0
            byte &= ~7
        if r.SMPLRT_DIV <= register <= r.FIFO_EN or register in (r.USER_CTRL, r.PWR_MGMT_1):
            self.counted, self.taken = self.clock.nanos, 0
        self.registers[register] = byte

    def read(self) -> int:
        self.fill()
        r, register = self.r, self.at
        if register == r.FIFO_R_W:
            return self.fifo.pop(0) if self.fifo else 0xFF
        self.at = register + 1 & 0x7F
        if register == r.ACCEL_XOUT_H:
            self.latched = self.row(self.clock.nanos)  # a burst belongs together
        if register == r.INT_STATUS:
            status, self.registers[register] = self.registers[register], 0
            return status
        if r.ACCEL_XOUT_H <= register < r.ACCEL_XOUT_H + 14:
            return self.latched[register - r.ACCEL_XOUT_H]
        if register in (r.FIFO_COUNTH, r.FIFO_COUNTH + 1):
            return len(self.fifo) >> (8 if register == r.FIFO_COUNTH else 0) & 0xFF
        return self.registers[register]

    def period(self) -> float:
        """Nanoseconds from one sample of the sensor's own to the next."""
        base = 8000 if self.registers[self.r.CONFIG] & 7 in (0, 7) else 1000
        return (1 + self.registers[self.r.SMPLRT_DIV]) * 1e9 / base

    def row(self, nanos: float) -> bytes:
        """Acceleration, temperature, rotation at the ranges that are set, as in the registers."""
        if self.registers[self.r.PWR_MGMT_1] & self.bits.SLEEP:
            return bytes(14)
        ranges = (self.registers[o] >> 3 & 3 for o in (self.r.ACCEL_CONFIG, self.r.GYRO_CONFIG))
        moved, turned = self.moves(nanos, *ranges)
        return np.r_[moved, FACTS["imu"]["temperature"], turned].astype(">i2").tobytes()

    def moves(self, nanos: float, by: int, turns_by: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the recording's acceleration and rotation, shifted by so many bits."""
        at = round((nanos - self.begun) * self.sensor["rate"] / 1e9)
        if at >= len(self.rows):
            at = len(self.rows) - 1
            if not self.told:
                self.told = True
                self.ended()
        return self.rows[at, :3] >> by, self.rows[at, 3:] >> turns_by

    def fill(self) -> None:
        """Give the FIFO the samples of the time that has gone by."""
        wanted = self.registers[self.r.FIFO_EN]
        due = int((self.clock.nanos - self.counted) / self.period() + 1e-6)
        asleep = self.registers[self.r.PWR_MGMT_1] & self.bits.SLEEP
        if not self.registers[self.r.USER_CTRL] & self.bits.USE_FIFO or not wanted or asleep:
            self.taken = due
        for k in range(max(self.taken, due - self.kind["fifo"]), due):  # of what was written over, nothing can be read
            row = self.row(self.counted + (k + 1) * self.period())
            self.fifo += b"".join(row[start:end] for bit, start, end in FACTS["imu"]["parts"] if wanted & bit)
        self.taken = due
        if len(self.fifo) > self.kind["fifo"]:
            del self.fifo[: -self.kind["fifo"]]
            self.registers[self.r.INT_STATUS] |= self.bits.OVERFLOW


class Lsm6ds3(MotionSensor):
    """An LSM6DS3 at I2C. Its recording begins when its accelerometer wakes. (LSM6DS3 datasheet, rev. 10, 9.)"""

    def reset(self) -> None:
        self.facts = FACTS["lsm6ds3"]
        self.r = type("Facts", (), self.facts["registers"])
        self.registers = bytearray(128)
        self.registers[self.r.WHO_AM_I], self.registers[self.r.CTRL3_C] = self.facts["known"], 4
        self.fifo, self.latched = bytearray(), bytes(12)
        self.begun = self.counted = self.clock.nanos
        self.taken, self.told, self.over = 0, False, False

    def write(self, byte: int) -> None:
        if not self.pointed:
            self.point(byte)
            return
        self.fill()
        register = self.at
        self.point(register + 1)
        if register == self.r.CTRL3_C and byte & 1:
            self.reset()
            return
        if register == self.r.CTRL1_XL and not self.registers[register]:
            self.begun, self.told = self.clock.nanos, False
        if register == self.r.FIFO_CTRL5:
            self.counted, self.taken = self.clock.nanos, 0
            if not byte & 7:
                self.fifo.clear()
                self.over = False
        self.registers[register] = byte

    def read(self) -> int:
        self.fill()
        r, register = self.r, self.at
        if register & ~1 == r.FIFO_DATA_OUT_L:
            self.at = register ^ 1
            return self.fifo.pop(0) if self.fifo else 0
        self.at = register + 1 & 0x7F
        if register == r.OUTX_L_G:
            self.latched = self.row(self.clock.nanos)
        if r.OUTX_L_G <= register < r.OUTX_L_G + 12:
            return self.latched[register - r.OUTX_L_G]
        words = len(self.fifo) // 2
        status = {r.FIFO_STATUS1: words & 0xFF, r.FIFO_STATUS2: words >> 8 & 15 | (not words) << 4 | self.over << 6}
        return status.get(register, self.registers[register])

    def period(self) -> float:
        return 1e9 / self.facts["rates"][self.registers[self.r.FIFO_CTRL5] >> 3 & 15]

    def row(self, nanos: float) -> bytes:
        if not self.registers[self.r.CTRL1_XL]:
            return bytes(12)
        ranges = [self.registers[o] >> 2 & 3 for o in (self.r.CTRL1_XL, self.r.CTRL2_G)]
        moved, turned = self.moves(nanos, self.facts["shifts"][ranges[0]], ranges[1])
        return np.r_[turned, moved].astype("<i2").tobytes()

    def fill(self) -> None:
        if self.registers[self.r.FIFO_CTRL5] & 7 == 0:
            return
        due = int((self.clock.nanos - self.counted) / self.period() + 1e-6)
        most = self.facts["fifo"]
        for k in range(max(self.taken, due - most // 12 - 1), due):  # one more than it has room for
            self.fifo += self.row(self.counted + (k + 1) * self.period())
        self.taken = due
        if len(self.fifo) > most:
            del self.fifo[:-most]
            self.over = True


class Wires:
    """The far end of an I2C bus that a program drives by hand. Both lines are pulled up."""

    def __init__(self, io: Io, sda: int, scl: int, device: Device) -> None:
        self.io, self.sda, self.scl, self.device = io, sda, scl, device
        self.data = self.clock = True
        self.stop("idle")
        self.io.give(sda, True)
        self.io.give(scl, True)

    def stop(self, kind: str) -> None:
        """kind: idle; address, write: bits come in; read: they go out."""
        self.kind = self.next = kind
        self.bits, self.byte = -1, 0  # the clock falls once before the first bit
        self.holds = False

    def look(self) -> None:
        data, clock = not self.io.low(self.sda), not self.io.low(self.scl)
        if self.clock and clock and data != self.data:
            self.stop("idle" if data else "address")
        self.data = data
        if clock != self.clock:
            self.clock = clock
            if self.kind != "idle":
                self.rise() if clock else self.fall()
        self.io.give(self.sda, not self.holds)

    def rise(self) -> None:
        if 0 <= self.bits < 8 and self.kind != "read":
            self.byte = (self.byte << 1 | self.data) & 0xFF
        elif self.bits == 8 and self.kind == "read" and self.data:
            self.kind = "idle"  # the program wants no more

    def fall(self) -> None:
        self.bits += 1
        if self.bits == 8:
            self.holds = self.kind != "read" and self.take()
        elif self.bits == 9:
            self.bits, self.holds, self.kind = 0, False, self.next
            self.byte = self.device.read() if self.kind == "read" else 0
        if self.kind == "read" and self.bits < 8:
            self.holds = not self.byte >> 7 - self.bits & 1

    def take(self) -> bool:
        """A whole byte has come; return whether it is acknowledged."""
        if self.kind == "write":
            self.device.write(self.byte)
        elif self.device.select(self.byte >> 1):
            self.next = "read" if self.byte & 1 else "write"
        else:
            self.kind = "idle"
            return False
        return True
