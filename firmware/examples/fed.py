# A fed model: rows come from a sensor while it runs, or from a buffer, and are never kept (mica pack --feed).
# boards: UNIX MPS2_AN385
import mica

picture = b"\x80\x80\xd0\x10\x10\x90\x80\x80" * 4 + b"\x80\xb0\x70\xa0\xa0\x40\xf0\x80" * 4
asked = bytearray()


def sensor(begin, end, rows):
    asked.append(end)
    rows[:] = memoryview(picture)[
        8 * begin : 8 * end
    ]  # as quantised integers: what m.input_scale and m.input_zero_point say


m = mica.Model("digits_fed.mica")
p = m.predict([sensor])[0]
print("rows up to", asked[0], "first, then up to", asked[-1])
print("as from a buffer:", p == m.predict([mica.Quantised(picture)])[0])


def unplugged(begin, end, rows):
    return 0 if begin else len(rows)  # how many bytes it has filled, as readinto() says


try:
    m.predict([unplugged])
except ValueError as e:
    print(e)
print("and again:", p == m.predict([mica.Quantised(picture)])[0], "with", m.ram, "bytes of RAM")
#: rows up to ... first, then up to 8
#: as from a buffer: True
#: rows ... of the input: the function has filled 0 of ... bytes
#: and again: True with ... bytes of RAM
