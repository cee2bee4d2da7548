"""Cameras that are wired to a virtual Pico: their registers at SCCB, of which camera.c gets what it sends.

A picture has 160 x 120 pixels, each for 4 x 4 of a sensor of 640 x 480. (OV7670 datasheet 1.4, table 5; OV2640
datasheet 1.8, tables 12 and 13.) Reserved registers and all that is about colours only keep what is written.
"""

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from blocks import Block
from clock import Clock
from pio import UNIT, Io

WIDTH, HEIGHT = 160, 120
PWM = 4  # function of a pin
LINE = 784  # pixels of a line with its blank
FIRST_COLUMN, FIRST_LINE = 180, 10  # of the OV7670's window for a whole picture of this size
SETTLES = 1e6  # nanoseconds after the last register


class Sent(NamedTuple):
    """columns, rows: of the picture, those that are sent. divider: periods of XCLK in one of PCLK."""

    columns: np.ndarray
    rows: np.ndarray
    coloured: bool
    divider: int
    lines: int | None  # of exposure; None: by itself


def mirrored(columns: np.ndarray, rows: np.ndarray, mirror: int, flip: int) -> tuple[np.ndarray, np.ndarray]:
    return columns[::-1] if mirror else columns, rows[::-1] if flip else rows


def ov7670(r: bytearray) -> Sent:
    shift = r[0x72] & 3 if r[0x0C] & 4 and r[0x3E] & 0x10 else 0
    left = (r[0x17] << 3 | r[0x32] & 7) - FIRST_COLUMN
    width = ((r[0x18] << 3 | r[0x32] >> 3 & 7) - FIRST_COLUMN - left) % LINE >> shift
    top = (r[0x19] << 2 | r[0x03] & 3) - FIRST_LINE
    height = (r[0x1A] << 2 | r[0x03] >> 2 & 3) - FIRST_LINE - top >> shift
    columns, rows = (left + (np.arange(width) << shift)) // 4, (top + (np.arange(height) << shift)) // 4
    divider = (1 + (r[0x11] & 0x3F)) << (r[0x73] & 7 if r[0x3E] & 0x10 else 0)
    lines = None if r[0x13] & 1 else (r[0x07] & 0x3F) << 10 | r[0x10] << 2 | r[0x04] & 3
    return Sent(*mirrored(columns, rows, r[0x1E] & 0x20, r[0x1E] & 0x10), r[0x12] & 4 != 0, divider, lines)


def ov2640(r: bytearray) -> Sent:
    """Its DSP's registers stand before the sensor's, which begin at 0x100."""
    width, height = 4 * (r[0x5A] | (r[0x5C] & 3) << 8), 4 * (r[0x5B] | (r[0x5C] & 4) << 6)
    whole = {0x00: (1600, 1200), 0x10: (400, 296), 0x20: (400, 296), 0x40: (800, 600)}[r[0x112] & 0x70]
    covers = 4 * (r[0x51] | (r[0x55] & 8) << 5), 4 * (r[0x52] | (r[0x55] & 0x80) << 1)
    begins = r[0x53] | (r[0x55] & 7) << 8, r[0x54] | (r[0x55] & 0x70) << 4
    columns, rows = (
        ((begins[k] + (np.arange(n) + 0.5) * covers[k] / n) * (WIDTH, HEIGHT)[k] / whole[k]).astype(int)
        for k, n in enumerate((width, height))
    )
    lines = None if r[0x113] & 1 else (r[0x145] & 0x3F) << 10 | r[0x110] << 2 | r[0x104] & 3
    divider = (1 + (r[0x111] & 0x3F)) * max(1, r[0xD3] & 0x7F)
    return Sent(*mirrored(columns, rows, r[0x104] & 0x80, r[0x104] & 0x40), r[0xDA] & 0xC == 8, divider, lines)


# Address; registers after a reset, those of its name and those that have an effect here; COM7, whose bit 7 resets it;
# how to read them.
KINDS: dict[str, tuple[int, dict[int, int], int, Callable[[bytearray], Sent]]] = {
    "ov7670": (
        0x21,
        {0x0A: 0x76, 0x0B: 0x73, 0x13: 0x8F, 0x17: 0x11, 0x18: 0x61, 0x19: 3, 0x1A: 0x7B, 0x32: 0x80},
        0x12,
        ov7670,
    ),
    "ov2640": (0x30, {0x10A: 0x26, 0x10B: 0x42, 0x113: 0xC7}, 0x112, ov2640),
}


class Camera:
    """A device at SCCB. It answers, and sends, while its XCLK comes from the board."""

    def __init__(self, clock: Clock, io: Io, pwm: Block, sensor: dict[str, Any], pictures: np.ndarray) -> None:
        """pictures: uint8 [n, 120, 160, 3]."""
        self.io, self.pwm, self.sensor, self.pictures = io, pwm, sensor, pictures
        self.address, self.values, self.com7, self.sent = KINDS[sensor["kind"]]
        self.alarm = clock.alarm(self.begin)
        self.pointed, self.at = False, 0
        self.cuts = np.array(sensor.get("cuts", []), np.uint32)
        self.frames = np.zeros(0, np.uint8)
        self.reset()

    def reset(self) -> None:
        self.registers = bytearray(0x200)
        for o, value in self.values.items():
            self.registers[o] = value
        self.registers[0xFF] = self.com7 >> 8

    def xclk(self) -> float:
        """Return cycles of the chip in a period of XCLK; 0: there is none."""
        pin = self.sensor["xclk"]
        control, divider, _, compare, top = (self.pwm.get(0x14 * (pin >> 1 & 7) + o) for o in range(0, 0x14, 4))
        high = compare >> 16 * (pin & 1) & 0xFFFF
        on = self.io.pins.function(pin) == PWM and control & 1 and 0 < high <= top
        return (top + 1) * divider / 16 if on else 0.0

    def looks(self) -> None:
        """Pins have changed."""
        if not self.xclk():
            self.io.native.camera.on = 0

    # --- SCCB

    def select(self, address: int) -> bool:
        self.pointed = False
        return address == self.address and self.xclk() > 0

    def point(self, register: int) -> None:
        bank = self.registers[0xFF] & 1 if self.com7 >> 8 and register != 0xFF else 0
        self.pointed, self.at = True, register | bank << 8

    def read(self) -> int:
        return self.registers[self.at]

    def write(self, byte: int) -> None:
        if not self.pointed:
            self.point(byte)
            return
        if self.at == self.com7 and byte & 0x80:
            self.reset()
        elif self.at not in (0x0A, 0x0B, 0x10A, 0x10B):
            self.registers[self.at] = byte
        self.io.native.camera.on = 0
        self.alarm.schedule(SETTLES)

    # --- pins

    def begin(self) -> None:
        """Send frames as the registers have them, from the first line on."""
        sent, c, pins = self.sent(self.registers), self.io.native.camera, self.sensor
        if not self.xclk() or not (len(sent.rows) and len(sent.columns)):
            return
        self.frames = self.bytes_of(sent)
        height, row = self.frames.shape[1:]
        c.vsync, c.href, c.pclk, c.data = (*(1 << pins["data"] + n for n in (8, 9, 10)), pins["data"])
        c.row, c.rows, c.apart = row, height, 480 // HEIGHT
        c.line = 4 * LINE // (c.apart if height <= HEIGHT else 1)
        c.frames, c.bytes = len(self.frames), self.frames.ctypes.data
        c.cuts, c.cut = len(self.cuts), self.cuts.ctypes.data
        c.period = max(1, round(self.xclk() * sent.divider * UNIT / 2))
        self.io.step()
        c.taken += c.seen
        c.due, c.tick, c.seen, c.on = self.io.native.now + c.period, 0, 0, 1

    def bytes_of(self, sent: Sent) -> np.ndarray:
        """Return uint8 [n, height, 2 * width]: RGB565, its high byte first, or YUYV with the grey of ITU-R BT.601."""
        x = self.pictures[:, sent.rows.clip(0, HEIGHT - 1)][:, :, sent.columns.clip(0, WIDTH - 1)].astype(np.uint32)
        if sent.lines is not None:
            x = np.minimum(x * sent.lines // 480, 255)
        if sent.coloured:
            words = (x[..., 0] >> 3) << 11 | (x[..., 1] >> 2) << 5 | x[..., 2] >> 3
            pairs = np.stack([words >> 8, words & 0xFF], axis=-1)
        else:
            grey = (x @ np.array([77, 150, 29], np.uint32)) >> 8
            pairs = np.stack([grey, np.full_like(grey, 128)], axis=-1)
        return np.ascontiguousarray(pairs.reshape(*pairs.shape[:2], -1), np.uint8)
