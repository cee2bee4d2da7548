# A watchdog that only progress feeds, and a layer that fails now and then: the model stays usable.
# boards: UNIX MPS2_AN385
import mica
from mica import hooks

m = mica.Model("digits.mica")
x = [0.5] * 64
answer = m.predict([x])


class Watchdog:  # on a board: machine.WDT(timeout=2000)
    fed = 0

    def feed(self):
        self.fed += 1


dog = Watchdog()
hooks.feed(m, dog)
broken = hooks.fault(m, 0, OSError("sensor unplugged"), every=3)
for n in range(6):
    try:
        print(n, m.predict([x]) == answer, dog.fed)
    except OSError as e:
        print(n, "failed:", e)
broken.remove()
with hooks.fault(m, "matmul", 4):  # four bits of its output flip in every run
    print(m.predict([x]) == answer)
#: 0 True 9
#: 1 True 18
#: 2 failed: sensor unplugged
#: 3 True 28
#: 4 True 37
#: 5 failed: sensor unplugged
#: False
