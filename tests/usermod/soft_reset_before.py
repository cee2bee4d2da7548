# models: small
# First half: a loaded model, and a run that never ends, when the soft reset comes. See soft_reset_after.py.
import mica

m = mica.Model(small)
m._m.begin()
m._m.steps[0]()
print(m.arena.busy)
