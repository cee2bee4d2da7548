# models: golden golden_state golden_old small
# Golden vectors: what they say of a sound model, of one with a flipped bit, and of files without.
import _mica
import mica


def loose(data):
    # the file in memory that may be written to, and is used in place
    block = _mica.Arena(len(data))
    memoryview(block)[:] = data
    return block, mica.Model(block)


m = mica.Model(golden)
print(m._m.info.n_golden, m.selftest(), m.selftest())
x = bytes(range(64))
want = m.predict([mica.Quantised(x)])
print(m.selftest(), m.predict([mica.Quantised(x)]) == want, m.arena.busy)
fails(m._m.golden, 2)
fails(m._m.golden_crcs, -1)
print(len(m._m.golden(0)), len(m._m.golden_crcs(1)))

# The state is what it was before the test.
s = mica.Model(golden_state)
for _ in range(3):
    s.predict([[1, 2, 3, 4]])
print(s.selftest(), bytes(s._m.state), s.predict([[1, 2, 3, 4]]))
s._m.reset_state()
print(s.predict([[1, 2, 3, 4]]), m._m.state)

# One bit, all over the file: a layer is named where its constants are hit; none passes as sound.
block, m = loose(golden)
view = memoryview(block)
names = set()
for at in range(len(view) - 1, 64, -97):
    view[at] ^= 0x40
    try:
        bad = m.selftest()
        names.add("none" if bad is None else bad.name)
    except ValueError:
        names.add("checksum")
    view[at] ^= 0x40
print(sorted(names))
print(m.selftest())

# A byte that no layer reads is found by the checksum.
at = golden.find(b"small")
view[at] ^= 1
fails(m.selftest)
view[at] ^= 1

# check(): in slices, in place, and again from the start.
n = 0
while m._m.check(100):
    n += 1
print(n == (len(golden) - 1) // 100, m._m.check(), m._m.check(1) == len(golden) - 1, m._m.check())
view[len(golden) - 1] ^= 1
fails(m._m.check)
view[len(golden) - 1] ^= 1
print(m._m.check())
fails(m._m.check, -1)

# check(0): what an interrupted check had seen says nothing; from the beginning again.
m._m.check(100)
view[70] ^= 1
print(m._m.check(0) == len(golden))
fails(m._m.check)
view[70] ^= 1

fails(mica.Model(small).selftest)
print(mica.Model(golden_old).selftest().name)
