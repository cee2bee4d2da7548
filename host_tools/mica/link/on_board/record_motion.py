# n rows of six numbers, acceleration and rotation, one row each `period` microseconds: of an MPU6050 at `wires` id, SDA, SCL, address, or of
# an MPU6500 at id, SCK, MOSI, MISO, chip select. Returns them and how many came late.
def _mica_record_motion(wires, n, period):
    from array import array
    from struct import unpack_from
    from time import ticks_add, ticks_diff, ticks_us

    from machine import Pin

    raw = bytearray(14)
    if len(wires) == 4:
        from machine import I2C

        i2c = I2C(wires[0], sda=Pin(wires[1]), scl=Pin(wires[2]), freq=400000)
        i2c.writeto_mem(wires[3], 0x6B, b"\0")

        def read():
            i2c.readfrom_mem_into(wires[3], 0x3B, raw)

    else:
        from machine import SPI

        spi = SPI(wires[0], 1_000_000, sck=Pin(wires[1]), mosi=Pin(wires[2]), miso=Pin(wires[3]))
        cs = Pin(wires[4], Pin.OUT, value=1)

        def send(*out):
            cs(0)
            spi.write(bytes(out))

        def read(register=0xBB, into=raw):
            send(register)
            spi.readinto(into)
            cs(1)

        for register, value in ((0x6B, 0), (0x6A, 0x10)):
            send(register, value)
            cs(1)
        known = bytearray(1)
        read(0xF5, known)
        if known[0] in (0, 255):
            raise OSError(19)
    x = array("h", bytes(12 * n))
    late = 0
    due = ticks_us()
    for i in range(n):
        while True:
            left = ticks_diff(due, ticks_us())
            if left <= 0:
                break
        if left < -period:
            late += 1
            due = ticks_us()
        read()
        v = unpack_from(">7h", raw)
        for k in range(6):
            x[6 * i + k] = v[k if k < 3 else k + 1]
        due = ticks_add(due, period)
    return x, late
