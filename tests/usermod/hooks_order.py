# models: small two many
# Hooks: which layers they are on, the order of the calls, and that the model stays as it was.
import mica
from mica import hooks


m = mica.Model(small)
plain = m._steps
want = m.predict([mica.Quantised(small_x)])
calls = []

# Which layers.
for which in (
    "*", "conv*", "/conv", "c?nv", "conv2d", "conv2d_s8", "d?", "*s*", "matmul", "pool", "activation", "conv", 0,
    [0, "pool"],
    m.layers[3], (m.layers[1], "softmax"),
):
    with m.hook(which) as h:
        print(which if isinstance(which, (str, int)) else "", [layer.index for layer in h.layers])
for which in ("conv", "no such", "shape", 5, [], "conv2d_s", ""):
    fails(m.hook(which).remove if which == "conv" else lambda: m.hook(which))
print(m._steps is plain, [hooks.match(p, "abcab") for p in ("*", "a*b", "*ca?", "a*c", "?bcab*", "", "abcab?", "**b")])


def say(text):
    return lambda layer: calls.append(f"{text} {layer.index}")


def around(layer, step):
    calls.append(f"in {layer.index}")
    step()
    calls.append(f"out {layer.index}")


def run():
    calls.clear()
    same = m.predict([mica.Quantised(small_x)]) == want
    print(same, ", ".join(calls))


one = m.hook("conv", before=say("before"), after=say("after"))
run()
two_ = m.hook(0, around=around)
three = m.hook("/conv", before=say("BEFORE"), after=say("AFTER"))
run()
one.remove()
run()
one.remove()
three.remove()
two_.remove()
run()
print(m._steps is plain)

# A hook that raises ends the run, and only the run.
for where in ("before", "after", "around"):
    def fail(*args):
        raise OSError(where)

    h = m.hook("pool", **{where: fail})
    fails(m.predict, [mica.Quantised(small_x)])
    fails(m.output)
    print("busy", m.arena.busy)
    h.remove()
    print(m.predict([mica.Quantised(small_x)]) == want)

# From a hook: a second run is refused, another arena is free; what is removed in mid-run goes after it.
other = mica.Model(two, arena=bytearray(256))


def inside(layer):
    fails(m.run)
    print(other.predict([[1] * 6, [1] * 3])[0])
    h.remove()


h = m.hook("/dense", after=inside)
print(m.predict([mica.Quantised(small_x)]) == want, m._steps is plain)

# Only after the last layer are the outputs there, whoever carries it out.
kept = m.predict([mica.Quantised(small_x)], raw=True)[0]


def last(layer, step):
    y = layer.output()
    for i in range(10):
        y[i] = kept[9 - i]


with m.hook("softmax", around=last) as h:
    print(list(m.predict([mica.Quantised(small_x)], raw=True)[0]) == list(reversed(kept)))
print(m.predict([mica.Quantised(small_x)]) == want)
with mica.Model(small) as closed:
    h = closed.hook()
h.remove()
fails(closed.run)
fails(closed.hook)
fails(lambda: m.layers[0].output(1))
