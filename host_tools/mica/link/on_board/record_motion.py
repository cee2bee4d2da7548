# n rows of six numbers, acceleration and rotation, one row each `period` microseconds: of an MPU6050 or LSM6DS3 at
# `wires` id, SDA, SCL, address, or of an MPU6500 at id, SCK, MOSI, MISO, chip select. Returns them, and how many were
# late.
def _mica_record_motion(wires, n, period):
    from array import array
    from struct import unpack_from
    from time import ticks_add, ticks_diff, ticks_us

    from machine import Pin

    raw = bytearray(14)
    form, places = ">7h", (0, 1, 2, 4, 5, 6)
    if len(wires) == 4:
        from machine import I2C

        i2c = I2C(wires[0], sda=Pin(wires[1]), scl=Pin(wires[2]), freq=400000)
        first, wakes = 0x3B, ((0x6B, 0),)
        if wires[3] in (0x6A, 0x6B):
            form, places, first, wakes = "<7h", (4, 5, 6, 1, 2, 3), 0x20, ((0x12, 0x44), (0x10, 0x70), (0x11, 0x70))
        for register, value in wakes:
            i2c.writeto_mem(wires[3], register, bytes((value,)))

        def read():
            i2c.readfrom_mem_into(wires[3], first, raw)

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
        v = unpack_from(form, raw)
        for k in range(6):
            x[6 * i + k] = v[places[k]]
        due = ticks_add(due, period)
    return x, late
