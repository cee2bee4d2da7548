"""An OV7670 or OV2640 with eight lines of data, on an RP2040 or RP2350: mica.camera.OV7670 and mica.camera.OV2640.

    with mica.camera.OV7670(I2C(1, sda=Pin(14), scl=Pin(15), freq=100_000), width=96, height=96) as cam:
        label, score = model.see(cam)

Its pins: D0 to D7 from `data` on, behind them VSYNC, HREF and PCLK, and `xclk`, which is the camera's clock by PWM. The
page host_tools/docs/camera.md has a drawing. A state machine takes each byte where PCLK rises and counts the bytes of a
row and the rows; a second one sees where the frame ends. DMA puts the bytes into the frame's buffer, also while a model
runs.

No camera of copper has been tried.
"""

from array import array
from time import sleep_ms, ticks_diff, ticks_ms

import rp2
from machine import PWM, Pin, mem8
from rp2 import DMA, PIO, StateMachine

HREF = 9  # behind D0; VSYNC is 8 there, and PCLK 10
# Flags of the block of PIO. 4: a frame begins, for the second machine; 5: it has ended; 6: a row is torn; 7: a frame
# has begun, for the program.
_TORN, _OVER = 1 << 6, 1 << 7 | 1 << 5


def _taking(skip):
    """Return a frame's program. It is sent the numbers, less one, of its rows and of a row's bytes that are taken.

    skip: leave out the second of two bytes.
    """

    @rp2.asm_pio(in_shiftdir=PIO.SHIFT_RIGHT, autopush=True, push_thresh=32)
    def frame(skip=skip):
        # fmt: off
        pull()
        mov(y, osr)
        pull()
        wait(1, pin, 8)
        wait(0, pin, 8)
        irq(clear, 5)
        irq(7)
        irq(4)
        label("row")
        mov(x, osr)
        wait(1, pin, 9)
        label("byte")
        wait(0, pin, 10)
        wait(1, pin, 10)
        jmp(pin, "take")
        label("torn")
        irq(block, 6)
        label("take")
        in_(pins, 8)
        if skip:
            wait(0, pin, 10)
            wait(1, pin, 10)
            jmp(pin, "pair")
            jmp("torn")
            label("pair")
        jmp(x_dec, "byte")
        wait(0, pin, 10)
        wait(1, pin, 10)
        jmp(pin, "torn")  # the row goes on
        jmp(y_dec, "row")
        wait(0, irq, 5)   # for ever where the frame ended before
        push()            # a word behind the frame: all of it has come
        # fmt: on

    return frame


@rp2.asm_pio()
def _watching():
    # fmt: off
    wait(1, irq, 4)
    wait(1, pin, 8)
    irq(5)
    # fmt: on


def _end(dma):
    # First disabled: where an RP2350 ends a channel, the one behind it may start (erratum E5).
    dma.ctrl = dma.pack_ctrl(enable=False)
    dma.active(0)


# Once, for the assembler takes the module's names away while it works.
_GREY, _COLOUR = _taking(True), _taking(False)


class Camera:
    """width and height: 160 and 120, or 96 and 96. format: "grey" or "rgb565be".

    exposure: in lines of the sensor, or None, by itself. clock: of XCLK, in hertz. late: milliseconds in which a frame
    has to come. sm: two free state machines of one block from this number on; the block has room for 29 instructions.
    """

    _address: int
    _reset: bytes  # pairs of register and value
    _known: tuple[int, int]  # a register that tells the kind, and what it has
    size: tuple[int, int]

    def __init__(
        self,
        i2c: Any,
        width: int = 160,
        height: int = 120,
        format: str = "grey",
        **words: int | None,
    ) -> None:
        if (width, height) not in ((160, 120), (96, 96)) or format not in ("grey", "rgb565be"):
            what = f"camera: {width} x {height} of {format!r}"
            raise ValueError(f"{what}; 160 x 120 or 96 x 96 of 'grey' or 'rgb565be' are expected")
        settings = {"data": 0, "xclk": 11, "sm": 0, "clock": 20_000_000, "late": 500}
        settings.update({"exposure": None, "mirror": False, "flip": False})
        settings.update(words)
        data, sm = settings["data"], settings["sm"]
        if len(settings) > 8 or not 0 <= data <= 18 or not 0 <= sm <= 10 or sm % 4 == 3:
            what = "data 0 to 18, xclk, sm (two of one block), clock, late, exposure, mirror, flip are expected"
            raise ValueError(f"camera: {words}; {what}")
        self._i2c, self._settings = i2c, settings
        self._format, self._exposure = format, settings["exposure"]
        self._mirror, self._flip = settings["mirror"], settings["flip"]
        self.size = width, height
        self._late: int = settings["late"]
        grey = format == "grey"
        self._program = _GREY if grey else _COLOUR
        self._row = (1 if grey else 2) * width - 1
        self._flags = 0x50200030 + 0x100000 * (sm // 4)  # IRQ of the block
        self._word = array("I", (0,))
        self._frame = memoryview(bytearray(width * height * (1 if grey else 2))), width, height, format
        self._clock = self._dma = self._machine = self._second = None
        self._begun = False
        self._since = 0

    # --- registers

    def _put(self, pairs):
        view = memoryview(pairs)
        for k in range(0, len(view), 2):
            self._i2c.writeto(self._address, view[k : k + 2])

    def _get(self, register):
        self._i2c.writeto(self._address, bytes((register,)))
        return self._i2c.readfrom(self._address, 1)[0]

    def _set_up(self):
        self._put(self._reset)
        sleep_ms(10)
        register, known = self._known
        found = self._get(register)
        if found != known:
            raise OSError(f"camera: its register {register:#x} has {found:#x}, and {known:#x} is expected")
        for pairs in self._registers():
            self._put(pairs)
        sleep_ms(10)

    def _registers(self) -> Iterator[bytes]:
        raise NotImplementedError

    # --- pins, machines and a channel of DMA, which are all given back by close()

    def __enter__(self) -> Camera:
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        return self

    def _open(self):
        settings = self._settings
        sm, first = settings["sm"], Pin(settings["data"], Pin.IN)
        for n in range(1, 11):
            Pin(settings["data"] + n, Pin.IN)
        xclk, href = Pin(settings["xclk"]), Pin(settings["data"] + HREF)
        # In each of these lines one thing is taken and kept: Ctrl-C can come between lines only.
        self._clock = PWM(xclk, freq=settings["clock"], duty_u16=32768)
        sleep_ms(1)
        self._set_up()
        self._dma = DMA()
        self._second = StateMachine(sm + 1, _watching, in_base=first)
        self._machine = StateMachine(sm, self._program, in_base=first, jmp_pin=href)
        request = 4 + sm % 4 + 8 * (sm // 4)  # DREQ_PIO0_RX0 and so on
        self._control = self._dma.pack_ctrl(inc_read=False, treq_sel=request)
        self._second.active(1)
        self._machine.active(1)

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back what the camera has taken, each thing also where giving back another fails or is interrupted."""
        machine, second, dma, clock = self._machine, self._second, self._dma, self._clock
        try:
            try:
                try:
                    if dma is not None:
                        _end(dma)
                        dma.close()
                        self._dma = None
                finally:
                    if machine is not None:
                        machine.active(0)
                        rp2.PIO(self._settings["sm"] // 4).remove_program(self._program)
                        self._machine = None
            finally:
                if second is not None:
                    second.active(0)
                    rp2.PIO(self._settings["sm"] // 4).remove_program(_watching)
                    self._second = None
        finally:
            self._begun = False
            if clock is not None:
                clock.deinit()
                Pin(self._settings["xclk"], Pin.IN)
                self._clock = None

    # --- frames

    def begin(self) -> None:
        """Have the next frame taken, also while a model runs; frame() waits for it. Allocates nothing."""
        machine = self._machine
        if machine is None:
            raise ValueError("camera: it is closed; use it as `with ... as cam`")
        if self._begun:
            self._stop()
        self._begun = True
        mem8[self._flags] = 0xF0
        data = self._frame[0]
        self._dma.config(read=machine, write=data, count=len(data) // 4, ctrl=self._control, trigger=True)
        self._since = ticks_ms()
        machine.put(self.size[1] - 1)
        machine.put(self._row if self._program is _COLOUR else self.size[0] - 1)

    def _stop(self):
        """Forget the frame that has begun."""
        machine = self._machine
        self._begun = False
        machine.active(0)
        _end(self._dma)
        machine.restart()
        while machine.rx_fifo():
            machine.get(self._word)
        machine.active(1)

    def frame(self) -> Frame:
        """Return the arguments of see(), of a frame that began at most `late` ms ago.

        Raises OSError if it is torn or late.

        The buffer is the same each time, and stays as it is until the next begin() or frame(). Allocates nothing.
        """
        if not self._begun or ticks_diff(ticks_ms(), self._since) > self._late:
            self.begin()
        machine, dma = self._machine, self._dma
        while True:
            flags = mem8[self._flags]
            if machine.rx_fifo() and not dma.active():
                break
            if flags & _TORN or flags & _OVER == _OVER:
                self._stop()
                raise OSError("camera: a torn frame: its rows, or bytes of a row, are not as many as expected")
            if ticks_diff(ticks_ms(), self._since) > self._late:
                self._stop()
                raise OSError("camera: no frame came in time; are VSYNC, HREF, PCLK and XCLK connected?")
        machine.get(self._word)
        self._begun = False
        return self._frame


class OV7670(Camera):
    """An OV7670 at SCCB address 0x21.

    Its registers are those of OmniVision's OV7670 datasheet 1.4, table 5 (D), and implementation guide 1.0 (G), as
    public descriptions quote them: the documents themselves were not at hand, and no camera was.
    """

    _address = 0x21
    _reset = b"\x12\x80"  # COM7 (D)
    _known = 0x0A, 0x76  # PID (D)
    _BOTH = (
        b"\x11\x00\x15\x00"  # CLKRC: XCLK undivided; COM10: PCLK never rests, VSYNC and HREF are high (D)
        # COM3, COM14, SCALING_*: a quarter each way, and of PCLK (G)
        b"\x0c\x04\x3e\x1a\x70\x3a\x71\x35\x72\x22\x73\xf2\xa2\x02"
    )
    _GREY = b"\x12\x00\x3a\x04\x3d\xc0\x40\xc0"  # COM7, TSLB, COM13, COM15: YUYV, 0 to 255 (D)
    _COLOUR = (
        b"\x12\x04\x8c\x00\x40\xd0\x3d\xc0"  # COM7, RGB444, COM15, COM13: RGB565, 0 to 255 (D)
        b"\x4f\xb3\x50\xb3\x51\x00\x52\x3d\x53\xa7\x54\xe4\x58\x9e\xb0\x84"  # MTX1 to MTXS; reserved (G)
    )

    def _registers(self):
        yield self._BOTH
        yield self._GREY if self._format == "grey" else self._COLOUR
        width, height = self.size
        # HSTART, HSTOP, HREF, VSTRT, VSTOP, VREF (D): the middle of QQVGA's columns from 180 and lines from 10 on (G)
        left, top = 180 + 2 * (160 - width), 10 + 2 * (120 - height)
        right, bottom = (left + 4 * width) % 784, top + 4 * height
        low = left & 7 | (right & 7) << 3 | 0x80
        yield bytes((0x17, left >> 3, 0x18, right >> 3, 0x32, low))
        yield bytes((0x19, top >> 2, 0x1A, bottom >> 2, 0x03, top & 3 | (bottom & 3) << 2))
        yield bytes((0x1E, self._get(0x1E) & 0xCF | 0x20 * self._mirror | 0x10 * self._flip))  # MVFP (D)
        n = self._exposure
        if n is not None:  # COM8, AECHH, AECH, COM1 (D)
            yield bytes((0x13, 0x8E, 0x07, n >> 10 & 0x3F, 0x10, n >> 2 & 0xFF, 0x04, n & 3))


class OV2640(Camera):
    """An OV2640 at SCCB address 0x30. Its registers: OmniVision's OV2640 datasheet 1.8, tables 12 and 13.

    They are written as public descriptions quote them: the document was not at hand, and no camera was. Colours and
    gamma are as after a reset.
    """

    _address = 0x30
    _reset = b"\xff\x01\x12\x80"  # the sensor's bank; COM7
    _known = 0x0A, 0x26  # PIDH

    def _registers(self):
        n = self._exposure
        # COM7: 800 x 600; HREFST, HREFEND, VSTRT, VEND, REG32: all of it; CLKRC: XCLK undivided; COM10: PCLK goes on
        yield b"\xff\x01\x12\x40\x17\x11\x18\x43\x19\x00\x1a\x4b\x32\x09\x11\x00\x15\x00"
        # COM8: gain and exposure by itself, or REG45, AEC, and REG04, which also has HREF and mirrors
        turned = 0x80 * self._mirror | 0x40 * self._flip
        yield bytes((0x13, 0xE5 if n is None else 0xE4, 0x04, turned | 8 | (n or 0) & 3))
        if n is not None:
            yield bytes((0x45, n >> 10 & 0x3F, 0x10, n >> 2 & 0xFF))
        # The DSP's bank; RESET: its output rests; HSIZE8, VSIZE8; CTRL2: scaling and colours; CTRLI: a quarter each way
        yield b"\xff\x00\xe0\x04\xc0\x64\xc1\x4b\x86\x3d\x50\x92"
        width, height = self.size
        # HSIZE, VSIZE, XOFFL, YOFFL, VHYX, TEST: the middle, five pixels each way for one; ZMOW, ZMOH, ZMHH: the output
        x, y = (800 - 5 * width) // 2, (600 - 5 * height) // 2
        yield bytes((0x51, width * 5 // 4, 0x52, height * 5 // 4, 0x53, x, 0x54, y))
        yield bytes((0x55, 0, 0x57, 0, 0x5A, width // 4, 0x5B, height // 4, 0x5C, 0))
        # R_DVP_SP: PCLK; CTRL0: YUV and RGB; IMAGE_MODE: YUYV or RGB565, its high byte first; R_BYPASS: the DSP; RESET
        yield bytes((0xD3, 4, 0xC2, 0x0C, 0xDA, 0 if self._format == "grey" else 8, 0x05, 0, 0xE0, 0))
