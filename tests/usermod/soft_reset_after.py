# models: small
# Second half: nothing of the earlier session is left in the way, and importing again clears no running arena.
import mica

m = mica.Model(small)
print(m.arena.busy)
try:
    m.output(0)
except RuntimeError as e:
    print(e)
print(len(m.predict([bytes(64)])[0]))
m._m.begin()
import _mica

print(m.arena.busy, _mica.arena is m.arena)
m._m.end()
print(m.arena.busy)
