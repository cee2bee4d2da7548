# n samples of a microphone, after as many that it needs to wake up; of 32 bits the upper halves. Returns them and 0.
def _mica_record_i2s(id, sck, ws, sd, bits, rate, n, skip):
    from array import array

    from machine import I2S, Pin

    i2s = I2S(id, sck=Pin(sck), ws=Pin(ws), sd=Pin(sd), mode=I2S.RX, bits=bits, format=I2S.MONO, rate=rate, ibuf=20000)
    x = array("h", bytes(2 * n))
    m = memoryview(x)
    wide = memoryview(array("h", bytes(1024))) if bits == 32 else None
    try:
        at = -skip
        while at < n:
            if wide is None:
                buffer = m[at : at + 256] if at >= 0 else m[: min(256, n, -at)]
                got = i2s.readinto(buffer) // 2
            else:
                got = i2s.readinto(wide) // 4
                for i in range(max(0, -at), min(got, n - at)):
                    x[at + i] = wide[2 * i + 1]
            if not got:
                raise OSError("the microphone gives no samples: is its clock running?")
            at += got
    finally:
        i2s.deinit()
    return x, 0
