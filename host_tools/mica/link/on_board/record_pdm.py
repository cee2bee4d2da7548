# n samples of a PDM microphone, after as many that it needs to wake up. Returns them and how many were lost.
def _mica_record_pdm(clk, data, ratio, gain, rate, n, skip):
    from array import array
    from time import sleep_ms

    microphones = __import__("mica.pdm").pdm  # of the board's mica, not of this one
    x = array("h", bytes(2 * n))
    m = memoryview(x)
    ring = microphones.Microphone(clk, data, rate, ratio=ratio, gain=gain).ring(4096, 256)
    try:
        at = late = 0
        while at < n:
            some = min(256, n - at)
            while ring.count < skip + at + some:
                sleep_ms(1)
            late += max(0, ring.count - skip - at - ring.size)
            ring.copy(skip + at + some, m[at : at + some])
            at += some
    finally:
        ring.close()
    return x, late
