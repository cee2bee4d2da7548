# Random calls with odd arguments, of the Model and of the C module, also from inside a run (a hook's)
# and with little heap left.
# Last line: calls made, calls that raised, runs that were right in between.
import gc
from array import array

import _mica
import mica

state = seed * 2654435761 + 99991 & 0x3FFFFFFF
x = bytes(range(64))
first = mica.Model(small)
want = first.predict([x])
models = [first, mica.Model(two), mica.Model(golden_state)]
calls = raised = right = 0
held = []


def rnd(n):
    global state
    state = state * 1103515245 + 12345 & 0x3FFFFFFF
    return (state >> 12) % n


class Sly:
    """Looks like a number, and closes a model when it is asked for it."""

    def __init__(self, m):
        self.m = m

    def __int__(self):
        self.m.deinit()
        return 0

    def __float__(self):
        self.m.deinit()
        return 0.0

    def __bool__(self):
        raise ValueError("not now")


def odd():
    return (
        Sly(models[rnd(3)]._m), None, 0, 1, -1, 2, 1 << 29, 1 << 40, -(1 << 40), 0.5, float("nan"), "", "x", "picture",
        b"", x, small, bytearray(64),
        array("f", [1.0] * 64), array("b", bytes(64)), memoryview(x), memoryview(small)[1:], [], [x], [[x]], (),
        {"picture": x},
        {}, object(), first, first._m, first.arena, first.input(0), _mica.Arena(16), range(64), lambda *a: None,
        list(range(64)),
    )[rnd(37)]  # fmt: skip


METHODS = (
    "input", "output", "run", "predict", "predict_into", "selftest", "reset", "top", "start", "resume", "stop", "hook",
    "profile", "__repr__",
)  # fmt: skip
RAW = (
    "begin", "end", "input", "output", "write", "read", "tensor", "tensor_data", "tensor_view", "step_info", "meta",
    "golden",
    "golden_crcs", "check", "reset_state", "rearm", "load", "store", "step_params", "step_constant",
)  # fmt: skip
KERNELS = ("load", "info", "cores", "Arena", "run_kernel")


def one():
    global calls, raised
    m = models[rnd(3)]
    kind = rnd(5)
    if kind < 2:
        target, name = m, METHODS[rnd(len(METHODS))]
    elif kind < 4:
        target, name = m._m, RAW[rnd(len(RAW))]
    else:
        target, name = _mica, KERNELS[rnd(len(KERNELS))]
    calls += 1
    try:
        args = [1] if name == "profile" else [odd() for _ in range(6 if name == "run_kernel" else rnd(4))]
        held.append(getattr(target, name)(*args))
        if len(held) > 4:
            held.pop(0)
    except Exception:
        raised += 1


def clear_up():
    # Whatever was done: afterwards the answer is as before.
    global right
    held.clear()
    for m in models:
        m.stop()
        m._m.end()
        m._m.rearm()
        while m._hooks:
            m._hooks[0].remove()
        m.reset()
    _mica.cores(1)
    if first.predict([x]) != want:
        raise AssertionError(f"another answer after call {k}")
    right += 1


for k in range(rounds):
    one()
    if k % 10 == 5:
        # From inside a run: the answer may be another, but nothing else.
        handle = None
        try:
            handle = first.hook(rnd(4), after=lambda layer: one())
            first.predict([x])
        except Exception:
            pass
        if handle is not None:
            handle.remove()
    if k % 10 == 9:
        clear_up()
    if k % 50 == 49:
        # Little heap: calls fail, and nothing breaks.
        gc.collect()
        hog = []
        size = 4096
        while size >= 32:
            try:
                hog.append(bytearray(size))
            except MemoryError:
                size >>= 1
        for _ in range(8):
            try:
                one()
            except MemoryError:  # even the next random number may be more than there is
                raised += 1
        hog = None
        gc.collect()
clear_up()
print(calls, raised, right)
