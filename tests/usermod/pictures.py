# models: seen seen_fed small seen_wrong
# Frames of cameras as pictures: the bytes of the host, whole and row by row, and what is refused.
from array import array
from binascii import crc32

import _mica
import mica
from mica import pictures

# As in test_picture.py
SIZES = ((20, 15, 0, 0, 20, 15, 12, 11), (20, 15, 3, 2, 13, 9, 5, 4), (24, 9, 0, 0, 24, 9, 8, 4))
memory = bytes([(i * 73 + (i >> 3) * 5) & 255 for i in range(904)])
table = bytes([(i * 11 + 3) & 255 for i in range(768)])


def allowed(format, flags):
    return format != 0 if flags & 1 else not flags & 6


for format in range(7):
    crc, same = 0, True
    for size in SIZES:
        for flags in range(16):
            if not allowed(format, flags):
                continue
            n = array("H", size + (format, flags))
            channels = 3 if flags & 1 else 1
            frame = memoryview(memory)[: size[0] * size[1] * (1, 2, 2, 3, 3, 2, 2)[format]]
            out = bytearray(size[6] * size[7] * channels)
            _mica.see(n, frame, memoryview(table)[: 256 * channels], 0, size[7], out)
            crc = crc32(out, crc)
            if not flags & 4:
                half = bytearray(2 * size[6] * channels)
                _mica.see(n, frame, memoryview(table)[: 256 * channels], 1, 3, half)
                same = same and half == out[len(half) // 2 : len(half) // 2 + len(half)]
    print(pictures.FORMATS[format], crc, same)

m = mica.Model(seen)
fed = mica.Model(seen_fed)
frame = memoryview(memory)[:600]
for part, area in ((None, None), ((3, 2, 13, 9), None), (None, True)):
    m.see(frame, 20, 15, "rgb565be", part, area)
    x = bytes(m.input())
    m.run()
    y = bytes(m.output())
    fed.see(frame, 20, 15, "rgb565be", part, area)
    fed.run()
    print(crc32(x), crc32(y), bytes(fed.output()) == y)
m.see(memory[:64], 8, 8, "grey")
print(bytes(m.input()) == bytes([(v - 128) & 255 for v in memory[:64]]))

# The file, the frame's format, size and bytes.
fails(mica.Model(small).see, frame, 20, 15, "rgb565be")
fails(mica.Model(seen_wrong).see, frame, 20, 15, "rgb565be")
fails(m.see, frame, 20, 15, "rgb565")
fails(m.see, frame, 15, 20, "rgb565be", (0, 0, 16, 1))
fails(m.see, frame, 20, 15, "grey")
fails(m.see, frame, 21, 15, "rgb565be")
fails(fed.see, frame, 20, 14, "rgb565be")
fails(m.see, frame, 0, 15, "rgb565be")
fails(m.see, frame, 20, -15, "rgb565be")
fails(m.see, frame, 20, 1 << 40, "rgb565be")
fails(m.see, frame, 15, 20, "yuyv")
fails(m.see, memory, 1100, 1, "grey", None, True)
fails(m.see, "frame", 5, 1, "grey")
fails(m.see, None, 5, 1, "grey")
with m:
    pass
fails(m.see, frame, 20, 15, "rgb565be")

# The C function by itself, as a hostile caller has it.
n = array("H", SIZES[1] + (1, 0))
out = bytearray(20)
short = memoryview(table)[:256]
_mica.see(n, frame, short, 0, 4, out)
fails(_mica.see, array("H", n[:9]), frame, short, 0, 4, out)
for i, v in ((0, 0), (0, 19), (1, 65535), (2, 8), (3, 65535), (4, 0), (5, 14), (6, 0), (7, 65535), (8, 7), (9, 2),
             (9, 16)):
    bad = array("H", n)
    bad[i] = v
    try:
        _mica.see(bad, frame, short, 0, 4, out)
        print(i, v, "no exception")
    except ValueError:
        pass
for begin, end in ((-1, 4), (1, 0), (0, 5), (0, 3), (1 << 70, 4)):
    try:
        _mica.see(n, frame, short, begin, end, out)
        print(begin, end, "no exception")
    except (ValueError, OverflowError):
        pass
fails(_mica.see, n, frame, table, 0, 4, out)
fails(_mica.see, n, frame, short, 0, 4, bytes(20))
fails(_mica.see, n, frame, short, 0, 4, out[:19])
