# n bytes from the REPL's own line, `piece` at a time, each asked for by "+". patience: milliseconds for one.
# Reads straight into a fresh bytes object: a bytearray and a copy of it would need the RAM twice. Ctrl-C is off
# because byte 3 is data. Should the host vanish between two pieces, the poll ends the wait.
def _mica_put(n, piece, patience):
    import binascii
    import select
    import sys

    import micropython
    import uctypes

    b = bytes(n)
    m = memoryview(uctypes.bytearray_at(uctypes.addressof(b), n))
    p = select.poll()
    p.register(sys.stdin, select.POLLIN)
    r = sys.stdin.buffer.readinto
    w = sys.stdout.write
    micropython.kbd_intr(-1)
    try:
        for i in range(0, n, piece):
            w("+")
            if not p.poll(patience):
                raise OSError("no data")
            r(m[i : i + piece])
    finally:
        micropython.kbd_intr(3)
    print(binascii.crc32(b))
    return b
