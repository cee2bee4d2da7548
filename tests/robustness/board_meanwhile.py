# Random calls with odd arguments that come in the middle of other runs,
# on the same arena: from functions that are scheduled one after the other, from a timer where the board has them, and
# from a thread where it has those. A run gives the right answer or is refused, because the arena is busy; nothing else.
# Last line: runs that were right, refused ones, calls meanwhile, calls meanwhile that raised, kinds of meanwhile.
import gc
import micropython
import time

import _mica
import mica

x = bytes(range(64))
METHODS = (
    "input", "output", "run", "predict", "predict_into", "selftest", "reset", "top", "start", "resume", "stop", "hook",
    "profile", "__repr__",
)  # fmt: skip
RAW = (
    "begin", "end", "input", "output", "write", "read", "tensor", "tensor_data", "tensor_view", "step_info", "meta",
    "golden",
    "golden_crcs", "check", "reset_state", "rearm",
)  # fmt: skip
KERNELS = ("load", "info", "Arena", "run_kernel")


class Caller:
    # Has models of its own, which share the arena with the run that it comes into; what it writes into is its own too.

    def __init__(self, seed):
        self.state = seed * 2654435761 + 99991 & 0x3FFFFFFF
        self.models = [mica.Model(small), mica.Model(two), mica.Model(golden_state)]
        self.buffer = bytearray(64)
        self.inputs = [x]
        self.calls = self.raised = self.right = self.refused = self.wrong = 0
        self.on = False
        self.ended = True

    def rnd(self, n):
        self.state = self.state * 1103515245 + 12345 & 0x3FFFFFFF
        return (self.state >> 12) % n

    def odd(self):
        return (
            None, 0, 1, -1, 1 << 29, -(1 << 40), 0.5, float("nan"), "", "picture", b"", x, small, self.buffer, [], [x],
            (),
            {"picture": x}, {}, object(), self.models[0], self.models[0]._m, range(64), lambda *a: None,
            memoryview(small)[1:],
        )[self.rnd(25)]  # fmt: skip

    def clear(self):
        for m in self.models:
            m.stop()
            m._m.end()
            while m._hooks:
                m._hooks[0].remove()

    def one(self):
        # One odd call, or a run.
        self.calls += 1
        kind = self.rnd(6)
        if self.calls % 8 == 0:
            self.clear()
        if kind == 0 or self.calls % 8 == 1:
            self.clear()
            self.run(self.models[0])
            return
        m = self.models[self.rnd(3)]
        if kind < 3:
            target, name = m, METHODS[self.rnd(len(METHODS))]
        elif kind < 5:
            target, name = m._m, RAW[self.rnd(len(RAW))]
        else:
            target, name = _mica, KERNELS[self.rnd(len(KERNELS))]
        try:
            args = [1] if name == "profile" else [self.odd() for _ in range(6 if name == "run_kernel" else self.rnd(4))]
            getattr(target, name)(*args)
        except Exception:
            self.raised += 1

    def run(self, m):
        try:
            if m.predict(self.inputs) == want:
                self.right += 1
            else:
                self.wrong += 1
        except RuntimeError:
            self.refused += 1

    def scheduled(self, _):
        self.one()
        if self.on:
            micropython.schedule(self.scheduled, None)

    def ticked(self, timer):
        if self.on:
            self.one()

    def thread(self):
        while self.on:
            self.one()
        self.ended = True


main = mica.Model(small)
want = main.predict([x])
right = refused = calls = raised = 0
kinds = []


def meanwhile(kind, caller, begin, end):
    # Runs, while the caller's calls come in between.
    global right, refused, calls, raised
    k = done = 0
    caller.on = True
    begin()
    try:
        while k < rounds or ((caller.calls < rounds or not caller.right) and k < 100 * rounds):
            k += 1
            if k % 8 == 0:
                time.sleep_ms(5)  # the arena is free for a while: not everything that comes meanwhile is refused
            try:
                if main.predict([x]) != want:
                    raise AssertionError(f"{kind}: another answer in run {k}, after {caller.calls} calls")
                done += 1
            except RuntimeError:
                refused += 1
    finally:
        caller.on = False
        end()
    caller.clear()
    if main.predict([x]) != want or main.arena.busy or not main.arena.intact:
        raise AssertionError(f"{kind}: another answer, or a busy arena, after {caller.calls} calls")
    if caller.wrong:
        raise AssertionError(f"{kind}: {caller.wrong} runs of the caller's gave another answer")
    if not done or not caller.right:
        raise AssertionError(f"{kind}: {done} runs, {caller.calls} calls, {caller.right} of them runs")
    right += done + caller.right
    refused += caller.refused
    calls += caller.calls
    raised += caller.raised
    kinds.append(kind)


caller = Caller(seed)
meanwhile("scheduled", caller, lambda: micropython.schedule(caller.scheduled, None), lambda: time.sleep_ms(10))

try:
    from machine import Timer
except ImportError:
    pass
else:
    timer = None
    caller = Caller(seed + 1)

    def begin():
        global timer
        timer = Timer(period=2, mode=Timer.PERIODIC, callback=caller.ticked)

    meanwhile("timer", caller, begin, lambda: timer.deinit())

try:
    import _thread
except ImportError:
    pass
else:
    caller = Caller(seed + 2)

    def begin():
        caller.ended = False
        _thread.start_new_thread(caller.thread, ())

    def end():
        for _ in range(2000):
            if caller.ended:
                return
            time.sleep_ms(5)
        raise AssertionError("the thread does not end")

    if threads:
        meanwhile("thread", caller, begin, end)
main.deinit()
gc.collect()
print(kinds)
print(right, refused, calls, raised, len(kinds))
