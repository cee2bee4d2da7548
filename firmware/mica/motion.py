"""Motion: from the rows of a sensor, six numbers each, to events.

    sensor = mica.motion.MPU6050(I2C(0, sda=Pin(4), scl=Pin(5), freq=400_000), rate=100)
    sensor = mica.motion.LSM6DS3(I2C(0, sda=Pin(12), scl=Pin(13), freq=400_000), rate=104)
    sensor = mica.motion.MPU6500(SPI(0, 1_000_000, sck=Pin(2), mosi=Pin(3), miso=Pin(4)), cs=Pin(5), rate=100)
    for event in mica.motion.watch(model, sensor):       # or: async for
        print(event.label, event.score, event.ms)

The model takes the last rows [1, n, 6] in the sensor's counts, as `mica record --imu` has recorded them. The sensor
keeps its rows in a FIFO of its own while the model runs. A source is an object with `rate`, `axes` and read(buffer, at,
most). Its read() puts up to `most` rows into an array of int16, from row `at` on. It returns their number, or -1 if
rows were lost.
"""

from array import array
from struct import unpack_from
from time import sleep_ms, ticks_diff, ticks_ms

from mica.audio import Listener

_ROW = 12
_BURST = 20  # rows of a reading
_RATES = (26, 52, 104, 208, 416, 833)  # an LSM6DS3's, from its code 2 on


class MPU6050:
    """A motion sensor, also an MPU6500 or MPU9250, that takes a row `rate` times a second: acceleration x, y, z,
    rotation x, y, z."""

    axes = 6
    _control = 0
    _fifo, _form, _turn = 0x74, ">6h", 0  # how a row comes

    def __init__(self, i2c: Any, rate: int = 100, address: int = 0x68) -> None:
        self._i2c, self._address = i2c, address
        self._begin(rate)

    def _put(self, register, value):
        self._i2c.writeto_mem(self._address, register, bytes([value]))

    def _get(self, register, buffer):
        self._i2c.readfrom_mem_into(self._address, register, buffer)

    def _begin(self, rate):
        if not 4 <= rate <= 1000 or 1000 % rate:
            raise ValueError(f"rate is {rate}; a divisor of 1000 from 4 to 1000 is expected")
        self.rate: int = rate
        self._raw = memoryview(bytearray(_ROW * _BURST))
        self._count = bytearray(2)
        # Awake; 188 Hz filter, which makes its clock 1 kHz; 2 g and 250 degrees a second.
        for register, value in ((0x6B, 0), (0x1A, 1), (0x19, 1000 // rate - 1), (0x1B, 0), (0x1C, 0), (0x23, 0x78)):
            self._put(register, value)
        self._get(0x75, self._count)
        if self._count[0] in (0, 0xFF):
            raise OSError("no motion sensor answers: is it connected, at these pins?")
        self._most = 1024 if self._count[0] == 0x68 else 512  # bytes of its FIFO
        self._empty()

    def _empty(self):
        self._put(0x6A, self._control | 0x04)
        self._put(0x6A, self._control | 0x40)

    def _there(self):
        """Return how many bytes its FIFO has, or -1 if it is full."""
        self._get(0x72, self._count)
        there = self._count[0] << 8 | self._count[1]
        return there if there < self._most else -1

    def read(self, buffer: Any, at: int, most: int) -> int:
        there = self._there()
        if there < 0:  # what is in it does not begin with a row
            self._empty()
            return -1
        n = min(there // _ROW, most, _BURST)
        if n:
            self._get(self._fifo, self._raw[: _ROW * n])
            for i in range(n):
                row = unpack_from(self._form, self._raw, _ROW * i)
                k = 6 * (at + i)
                for j in range(6):
                    buffer[k + j] = row[j - self._turn]
        return n


class LSM6DS3(MPU6050):
    """An LSM6DS3 or LSM6DS3TR-C at I2C, as Nano RP2040 Connect and XIAO Sense have. rate: 26, 52, 104, 208, 416 or 833.

    The same six numbers, but of 245 degrees a second. Registers: ST's LSM6DS3 datasheet, rev. 10, chapter 9.
    """

    _fifo, _form, _turn = 0x3E, "<6h", 3  # rotation comes first

    def __init__(self, i2c: Any, rate: int = 104, address: int = 0x6A) -> None:
        super().__init__(i2c, rate, address)

    def _begin(self, rate):
        if rate not in _RATES:
            raise ValueError(f"rate is {rate}; one of {', '.join(map(str, _RATES))} is expected")
        self.rate: int = rate
        self._code = 2 + _RATES.index(rate)
        self._raw = memoryview(bytearray(_ROW * _BURST))
        self._count = bytearray(2)
        self._get(0x0F, self._count)
        if self._count[0] not in (0x69, 0x6A):
            raise OSError("no LSM6DS3 answers: is it connected, at these pins?")
        # Registers count on; 2 g and 245 degrees a second; its FIFO has each row of both.
        for register, value in ((0x12, 0x44), (0x10, self._code << 4), (0x11, self._code << 4), (0x08, 9)):
            self._put(register, value)
        self._empty()

    def _empty(self):
        self._put(0x0A, 0)
        self._put(0x0A, self._code << 3 | 6)

    def _there(self):
        self._get(0x3A, self._count)
        low, high = self._count
        return -1 if high & 0x60 else 2 * ((high & 15) << 8 | low)


class MPU6500(MPU6050):
    """The same, or an MPU9250, at SPI: at most 1 MHz, mode 0 or 3; cs is its pin."""

    _control = 0x10  # no I2C: other chips' bytes on the bus are none for it

    def __init__(self, spi: Any, cs: Any, rate: int = 100) -> None:
        self._spi, self._cs = spi, cs
        cs.init(cs.OUT, value=1)
        self._begin(rate)

    def _put(self, register, value):
        self._cs(0)
        try:
            self._spi.write(bytes((register, value)))
        finally:
            self._cs(1)

    def _get(self, register, buffer):
        self._cs(0)
        try:
            self._spi.write(bytes((register | 0x80,)))
            self._spi.readinto(buffer)
        finally:
            self._cs(1)


class Rows:
    """The newest rows of a source. count: how many came so far; lost: whether some did not. by_irq: never."""

    by_irq = False
    block = 0

    def __init__(self, source: Any, rows: int) -> None:
        self.source = source
        self.count = 0
        self.size = rows
        self.lost = False
        self._axes = source.axes
        self._data = array("h", bytes(2 * rows * source.axes))
        self._view = memoryview(self._data)
        self._every = 500 // source.rate  # ms: half a row
        self._looked = ticks_ms()

    def read(self) -> bool:
        """Read the rows that the sensor has; its data never ends."""
        if ticks_diff(ticks_ms(), self._looked) < self._every:
            sleep_ms(1)
            return True
        self._looked = ticks_ms()
        at = self.count % self.size
        lost, self.lost = self.lost, True  # where the reading is broken off
        n = self.source.read(self._data, at, min(self.size - at, _BURST))
        if n >= 0:
            n += self.count
            self.count = n
            self.lost = lost
        return True

    def copy(self, end: int, buffer: Any) -> None:
        """Fill an array of int16 with the rows before `end`."""
        axes = self._axes
        n = len(buffer) // axes
        at = (end - n) % self.size
        first = min(n, self.size - at)
        buffer[: first * axes] = self._view[at * axes : (at + first) * axes]
        if first < n:
            buffer[first * axes :] = self._view[: (n - first) * axes]

    def still(self, end: int, n: int) -> bool:
        """Return True if the n rows before `end` are all the same."""
        axes, data = self._axes, self._data
        at = (end - 1) % self.size * axes
        for k in range(1, n):
            other = (end - 1 - k) % self.size * axes
            for i in range(axes):
                if data[at + i] != data[other + i]:
                    return False
        return True

    def close(self) -> None:
        pass


class Watcher(Listener):
    """An iterator over the model's events from a sensor: a Listener without rate, bits, block and spare.

    step is in rows: by default a quarter of what the model takes, and all of it for a model with a window.
    """

    _SETTINGS = ("labels", "threshold", "mean", "dead_ms", "step", "ms", "slice_us")
    _SAME = "all rows are the same: is the sensor awake, and connected?"

    def __init__(self, model: Model, source: Any, **settings) -> None:
        shape = model.input_shape[0]
        if len(model.input_shape) != 1 or len(shape) < 2 or shape[-1] != source.axes:
            raise ValueError(f"the model takes {shape}, and the sensor gives rows of {source.axes}")
        self._n = 1
        for d in shape[:-1]:
            self._n *= d
        self._prepare(model, source.rate, settings)
        self._window = array("h", bytes(2 * self._n * source.axes))
        self._view = memoryview(self._window)
        self._listed = model.input_dtype[0] == "h" and model.input_scale[0] != 1  # an array could be the tensor itself
        self._ring = Rows(source, self._n + _BURST)  # read only where some are missing

    def _usual_step(self):
        """All rows of a model that keeps those before; of others a quarter."""
        return self._n if self._stream else self._n // 4 or 1

    @property
    def _fill(self):
        self._ring.copy(self._end, self._view)
        return list(self._window) if self._listed else self._window

    def _answer(self):
        return self.model.predict([self._fill])[self._place]

    def _problem(self):
        ring = self._ring
        if ring.lost:
            text = "overrun: the sensor's FIFO was full; take a lower rate, or a smaller model"
            self._lost(ring.count + self._n, self._end, text)
            ring.lost = False
            return True
        return super()._problem()

    def _missing(self):
        return self._ring.count < self._end and not self._ring.lost


watch = Watcher
