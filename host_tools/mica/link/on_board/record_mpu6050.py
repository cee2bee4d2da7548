# n rows of six numbers, acceleration and rotation, of an MPU6050, one row each `period` microseconds. Returns them and how
# many came late.
def _mica_record_mpu6050(id, sda, scl, address, n, period):
    from array import array
    from struct import unpack_from
    from time import ticks_add, ticks_diff, ticks_us

    from machine import I2C, Pin

    i2c = I2C(id, sda=Pin(sda), scl=Pin(scl), freq=400000)
    i2c.writeto_mem(address, 0x6B, b"\0")
    raw = bytearray(14)
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
        i2c.readfrom_mem_into(address, 0x3B, raw)
        v = unpack_from(">7h", raw)
        for k in range(6):
            x[6 * i + k] = v[k if k < 3 else k + 1]
        due = ticks_add(due, period)
    return x, late
