# Two models in arenas of their own, a piece of one, then of the other: the bytes are those of one after the other.
# boards: UNIX MPS2_AN385
import mica

a = mica.Model("digits.mica", arena=mica.Arena(16384))
b = mica.Model("digits.mica", arena=mica.Arena(16384))
xa, xb = [0.5] * 64, [i / 64 for i in range(64)]
expected = a.predict([xa], raw=True)[0], b.predict([xb], raw=True)[0]

a.start([xa])  # the arena is its own until it has ended, or a.stop()
b.start([xb])
turns = 0
more_a = more_b = True
while more_a or more_b:
    more_a = more_a and a.resume(slice_us=10)  # about 10 us of work, a row of a layer at least
    more_b = more_b and b.resume(slice_us=10)
    turns += 1
print(turns > 5, bytes(a.output()) == bytes(expected[0]), bytes(b.output()) == bytes(expected[1]))

a.start([xa])
a.resume(0)
try:
    a.run()
except RuntimeError as e:
    print(e)
a.stop()
#: True True True
#: arena is busy: a run in it has not ended; its model's stop() gives it up
