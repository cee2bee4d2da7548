# models: small two
# The hooks that come with the runtime.
import mica
from mica import hooks


m = mica.Model(small)
want = m.predict([mica.Quantised(small_x)])


def same():
    return m.predict([mica.Quantised(small_x)]) == want


lines = []
with hooks.log(m, "conv", lines.append):
    print(same(), len(lines), [line.split()[1:3] + line.split()[4:] for line in lines])
print(same(), len(lines))

with hooks.timing(m) as t:
    print(same(), same(), sorted(t.us), t.runs, all(us >= 0 for us in t.us.values()))

with hooks.tap(m, ["/conv", "pool"]) as t:
    print(same(), len(t["/conv"]), len(t[2]), round(max(t.values("/pool")), 2))
    # The oracle: the same model, its layers run one by one.
    m._m.begin()
    m._m.write(0, mica.Quantised(small_x))
    m._steps[0]()
    m._m.end()
    print(t["/conv"] == m._m.tensor_data(m._m.step_info(0).outputs[0]))
    fails(lambda: t["/dw"])

with hooks.minmax(m, ("/conv", "softmax")) as s, hooks.tap(m, "/conv") as t:
    print(s.ranges(), same(), same())
    for layer, low, high in s.ranges():
        print(layer.name, low <= high)
    _, low, high = s.ranges()[0]
    print((min(t.values(0)), max(t.values(0))) == (low, high))

# A layer replaced: what it reads and where it writes.
p = mica.Model(two)
print(p.predict([[1, 2, 3, 4, 5, 6], [1, 1, 1]]))


def double(layer):
    x = layer.input()
    y = layer.output()
    for i in range(len(y)):
        y[i] = 2 * x[i]


with hooks.replace(p, "neg", double):
    print(p.predict([[1, 2, 3, 4, 5, 6], [1, 1, 1]]))
with hooks.replace(p, "arithmetic", lambda layer: print(len(layer.input(0)), len(layer.input(1)))):
    p.run()
print(p.predict([[1, 2, 3, 4, 5, 6], [1, 1, 1]]))

# Faults: bits that flip, the same ones each time; exceptions; a function.
answers = []
for _ in range(2):
    with hooks.fault(m, "/dense", 3, every=2) as f:
        answers.append([m.predict([mica.Quantised(small_x)]) == want for _ in range(4)] + [m._m.tensor_data(4),
            f.count])
print(answers[0][:4], answers[0] == answers[1], answers[0][5])
with hooks.fault(m, "pool", OSError("sensor"), every=3) as f:
    print(same(), same(), end=" ")
    fails(m.predict, [mica.Quantised(small_x)])
    print(same(), f.count)
with hooks.fault(m, "pool", ValueError):
    fails(m.predict, [mica.Quantised(small_x)])
with hooks.fault(m, "pool", lambda layer: print("at", layer.name)):
    print(same())


class Dog:
    fed = 0

    def feed(self):
        self.fed += 1


dog = Dog()
with hooks.feed(m, dog):
    print(same(), dog.fed)
print(same(), dog.fed)
