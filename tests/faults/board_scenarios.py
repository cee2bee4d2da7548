# What a program does with models, to be done while memory runs out or Ctrl-C comes; and what has to hold afterwards.
#
# A scenario returns (body, after). body() is what the fault comes into.
# after(failed) looks at what is left, returns a text where that is wrong, and clears up.
# What every scenario must leave as it was is in well().
import asyncio
import gc
import sys
from array import array
from binascii import crc32, hexlify

import _faults
import _mica
import mica
import mica.profile
import mica.selftest
import mica.slices
from mica import hooks, kernels, remote_push

tensor = bytes(i * 37 & 255 for i in range(64))
x = mica.Quantised(tensor)
floats = [i / 8 for i in range(64)]
ab = [[1, 2, 3, 4, 5, 6], [7, 8, 9]]
s = [1, 2, 3, 4]

# Loaded once, and used by all: what a fault spoils in them is seen later, too.
first = mica.Model(golden, arena=mica.Arena(4096))
large = mica.Model(lent)  # its scratch is the static arena
pair = mica.Model(two, arena=mica.Arena(512))
streaming = mica.Model(state, arena=mica.Arena(512))
slow = mica.Model(golden, arena=mica.Arena(8192), python=True)
want = first.predict([x])
raw = bytes(first.output())
want_pair = pair.predict(ab)
large.input()[:] = array("b", [i & 127 for i in range(len(large.input()))])
large.run()
want_large = crc32(large.output())
plain = first._steps
box = [None] * 4
calls = []


def note(layer):
    calls.append(layer.index)


def loose(data):
    block = mica.Arena(len(data))
    memoryview(block)[:] = data
    return block


def well():
    """Return a line about what is wrong with the objects that all scenarios share, or None."""
    for m in (first, pair, streaming, slow):
        if m.arena.busy:
            return "the arena is busy"
        if not m.arena.intact:
            return "the arena was written past its end"
    if _mica.arena.busy or large.arena.busy or not _mica.arena.intact:
        return "the static arena was not given back"
    large.run()
    if crc32(large.output()) != want_large:
        return "another answer of the large model"
    if first.predict([x]) != want or slow.predict([x]) != want or pair.predict(ab) != want_pair:
        return "another answer"
    streaming.reset()
    if streaming.predict([s]) != [[1.0, 2.0, 3.0, 4.0]] or streaming.predict([s]) != [[2.0, 4.0, 6.0, 8.0]]:
        return "another answer of the streaming model"
    if first._hooks or first._steps is not plain or first._run is not None:
        return "hooks or a run are left on the shared model"


def nothing(failed):
    pass


def answer(failed):
    if not failed and box[0] != want:
        return "another answer"


def new(failed):
    # A model that was made answers as it should.
    if not failed and box[0].predict([x]) != want:
        return "another answer of the new model"


# --- Loading


def load():
    def body():
        box[0] = mica.Model(golden)

    return body, new


def load_large():
    def body():
        box[0] = mica.Model(lent)
        box[0].run()

    return body, nothing


def run_large():
    def body():
        large.run()

    def after(failed):
        if not failed and crc32(large.output()) != want_large:
            return "another answer"

    return body, after


def slice_large():
    def body():
        large.start()
        while large.resume(1):
            pass

    def after(failed):
        large.stop()

    return body, after


def load_arena():
    def body():
        box[0] = mica.Model(golden, arena=mica.Arena(4096))

    return body, new


def load_bytearray():
    buffer = bytearray(4096)

    def body():
        box[0] = mica.Model(golden, arena=buffer)

    return body, new


def load_copied():
    buffer = bytearray(golden)

    def body():
        box[0] = mica.Model(buffer)

    return body, new


def load_file():
    def body():
        box[0] = mica.Model("golden.mica")

    return body, new


def load_strict():
    def body():
        box[0] = mica.Model(golden, strict=True)
        box[0].deinit()

    return body, nothing


def load_damaged():
    damaged = golden[:-3]

    def body():
        try:
            mica.Model(damaged)
        except ValueError:
            pass

    return body, nothing


def load_fallbacks():
    def body():
        box[0] = mica.Model(golden, python=True)

    return body, new


def load_registered():
    def f(inputs, outputs, attributes):
        outputs[0].store([-v for v in inputs[0].load()])

    def body():
        mica.register("lut", f)
        box[0] = mica.Model(two, arena=mica.Arena(512))
        mica.register("lut", None)

    def after(failed):
        mica.register("lut", None)
        if not failed and box[0].predict(ab) != want_pair:
            return "another answer"

    return body, after


# --- Running


def predict():
    def body():
        box[0] = first.predict([x])

    return body, answer


def predict_floats():
    expected = first.predict([floats])

    def body():
        box[0] = first.predict([floats])

    def after(failed):
        if not failed and box[0] != expected:
            return "another answer"

    return body, after


def predict_raw():
    def body():
        box[0] = first.predict([x], raw=True)

    def after(failed):
        if not failed and bytes(box[0][0]) != raw:
            return "another answer"

    return body, after


def predict_named():
    m = mica.Model(two, arena=mica.Arena(512))

    def body():
        box[0] = m.predict({"b": ab[1], "a": ab[0]})

    def after(failed):
        if m.arena.busy or m.predict(ab) != want_pair or (not failed and box[0] != want_pair):
            return "another answer"

    return body, after


def predict_filled():
    def fill(buffer, shape, dtype):
        buffer[:] = array("b", tensor)

    def body():
        box[0] = first.predict([fill])

    return body, answer


def predict_into():
    out = array("f", [0] * 10)

    def body():
        first.predict_into([x], [out])

    def after(failed):
        if not failed and list(out) != want[0]:
            return "another answer"

    return body, after


def predict_fallbacks():
    def body():
        box[0] = slow.predict([x])

    return body, answer


def predict_state():
    def body():
        streaming.predict([s])

    return body, nothing


def run_and_look():
    m = mica.Model(golden)

    def body():
        m.input("picture")[:] = array("b", tensor)
        m.run()
        box[0] = m.output("probabilities")
        box[1] = m.top(2)

    def after(failed):
        if m.arena.busy or (not failed and (bytes(box[0]) != raw or len(box[1]) != 2)):
            return "another answer"

    return body, after


def describe():
    m = mica.Model(golden)

    def body():
        repr(m)
        box[0] = m.layers, m.labels, m.input_shape, m.ram

    return body, nothing


# --- Hooks


def handles_are_right(m, on):
    """`on`: (handle or None, layer's index) of each hook with note()."""
    calls.clear()
    if m.predict([x]) != want:
        return "another answer with hooks"
    expected = sorted([i for h, i in on if h is not None and h._model is not None])
    got = sorted(calls)
    for h, _ in on:
        if h is not None:
            h.remove()
    calls.clear()
    if m.predict([x]) != want or calls or m._hooks:
        return "a hook stays"
    if got != expected:
        return f"called: {got}, handles: {expected}"


def hook_first():
    m = mica.Model(golden)

    def body():
        box[0] = m.hook(1, after=note)

    return body, lambda failed: handles_are_right(m, [(box[0], 1)])


def hook_second():
    m = mica.Model(golden)
    h = m.hook(0, before=note)

    def body():
        box[0] = m.hook("/pool", before=note)

    def after(failed):
        if h._model is None:
            return "the other hook is gone"
        return handles_are_right(m, [(h, 0), (box[0], 2)])

    return body, after


def hook_remove():
    m = mica.Model(golden)
    h = m.hook(0, after=note)
    g = m.hook(1, after=note)

    def body():
        h.remove()

    def after(failed):
        if not failed and h._model is not None:
            return "remove() did nothing"
        return handles_are_right(m, [(h, 0), (g, 1)])

    return body, after


def hook_remove_last():
    m = mica.Model(golden)
    steps = m._steps
    h = m.hook(0, after=note)

    def body():
        h.remove()

    def after(failed):
        return handles_are_right(m, [(h, 0)]) or (None if m._steps is steps else "not the steps of before")

    return body, after


def hook_with():
    def body():
        box[0] = first.hook("*", before=note, around=lambda layer, step: step())
        with box[0]:
            box[1] = first.predict([x])

    def after(failed):
        if box[0] is not None:
            box[0].remove()
        if not failed and box[1] != want:
            return "another answer"

    return body, after


def hooks_ready():
    def body():
        box[0] = hooks.timing(first)
        box[1] = hooks.tap(first, "pool")
        box[2] = hooks.minmax(first)
        box[3] = hooks.fault(first, "softmax", lambda layer: None)
        first.predict([x])
        box[1].values("/pool")
        box[2].ranges()
        for h in box:
            h.remove()

    def after(failed):
        for h in box:
            if h is not None:
                h.remove()

    return body, after


def hook_bytearray():
    # In a model whose arena is a bytearray, which every step looks at.
    m = mica.Model(golden, arena=bytearray(4096))
    h = m.hook("*", after=note)

    def body():
        m.predict([x])

    def after(failed):
        h.remove()
        if m.arena.busy or m.predict([x]) != want:
            return "another answer"

    return body, after


# --- In pieces. Where Ctrl-C leaves a run, stop() ends it, as the error says.


def stopped(m):
    if m.arena.busy:
        try:
            m.run()
            return "a busy arena was taken"
        except RuntimeError as e:
            if "stop()" not in str(e):
                return str(e)
        m.stop()
    if m._run is not None:
        m.stop()
    if m.arena.busy or m._run is not None or m.predict([x]) != want:
        return "stop() did not free the arena"
    m.start([x])
    while m.resume(0):
        pass
    if bytes(m.output()) != raw:
        return "another answer in pieces"


def pieces():
    m = mica.Model(golden)

    def body():
        m.start([x])
        while m.resume(0):
            pass

    def after(failed):
        if not failed and (m.arena.busy or bytes(m.output()) != raw):
            return "another answer in pieces"
        return stopped(m)

    return body, after


def start_fails():
    m = mica.Model(golden)

    def body():
        try:
            m.start([mica.Quantised(tensor[:9])])
        except ValueError:
            pass

    def after(failed):
        return "start() left the arena busy" if m.arena.busy and not failed else stopped(m)

    return body, after


def given_up():
    m = mica.Model(golden)

    def body():
        m.start([x])
        m.resume(0)
        m.stop()

    return body, lambda failed: stopped(m)


def arun():
    m = mica.Model(golden)

    def body():
        box[0] = asyncio.run(m.arun([x], slice_us=0))

    def after(failed):
        asyncio.new_event_loop()
        if not failed and (m.arena.busy or box[0] != want):
            return "another answer of arun()"
        return stopped(m)

    return body, after


def arun_two():
    m = mica.Model(golden)
    other = mica.Model(golden, arena=mica.Arena(4096))

    async def both():
        box[0], box[1] = await asyncio.gather(m.arun([x], slice_us=0), other.arun([x], slice_us=1))

    def body():
        asyncio.run(both())

    def after(failed):
        asyncio.new_event_loop()
        if not failed and (m.arena.busy or other.arena.busy or box[0] != want or box[1] != want):
            return "another answer of arun()"
        return stopped(m) or stopped(other)

    return body, after


def arun_cancelled():
    m = mica.Model(golden)

    async def main():
        t = asyncio.create_task(m.arun([x], slice_us=0))
        for _ in range(3):
            await asyncio.sleep_ms(0)
        t.cancel()
        try:
            await t
        except asyncio.CancelledError:
            pass

    def body():
        asyncio.run(main())

    def after(failed):
        asyncio.new_event_loop()
        if not failed and m.arena.busy:
            return "cancelled, and the arena is busy"
        return stopped(m)

    return body, after


# --- Tests and measurements


def selftest_small():
    def body():
        box[0] = first.selftest()

    def after(failed):
        if not failed and box[0] is not None:
            return "a sound model fails its test"

    return body, after


def selftest_state():
    streaming.reset()
    streaming.predict([s])
    kept = bytes(streaming._m.state)

    def body():
        streaming.selftest()

    def after(failed):
        if bytes(streaming._m.state) != kept:
            return "the self-test left another state"

    return body, after


def selftest_imports():
    def body():
        for name in ("mica.selftest", "mica.hooks", "mica.profile", "mica.slices"):
            sys.modules.pop(name, None)
        first.selftest()
        first.hook(0).remove()
        first.profile(1)
        first.start([x])
        first.stop()

    def after(failed):
        if first._run is not None or first.arena.busy:
            first.stop()
        for h in list(first._hooks):
            h.remove()

    return body, after


def profiled():
    def body():
        box[0] = repr(first.profile(1, [x]))

    def after(failed):
        if not gc.isenabled():
            gc.enable()
            return "the collector is off"

    return body, after


def raw_kernels():
    a = array("b", range(6))
    w = array("b", range(6))
    y = array("b", bytes(4))

    def body():
        mult, shift = kernels.requant(0.01)
        bias = kernels.fold_bias([1, 2], w, 3)
        kernels.gemm(a, w, bias, array("i", [mult] * 2), array("b", [shift] * 2), y)

    return body, nothing


# --- Supervisor

import mica.supervisor  # mica.Supervisor alone imports it when it is used

RUNS_OUT = (mica.supervisor.Failed,)


def supervisor_new():
    def body():
        box[0] = mica.Supervisor(golden, spare=golden)
        box[1] = box[0].predict([x])

    def after(failed):
        if not failed and box[1] != want:
            return "another answer"
        if box[0] is not None and box[0].predict([x]) != want:
            return "another answer of the Supervisor"

    return body, after


def supervisor_predict():
    v = mica.Supervisor(golden, spare=golden, check_every=1)

    def body():
        box[0] = v.predict([x])

    def after(failed):
        if (not failed and box[0] != want) or v.predict([x]) != want or not v._sound:
            return "another answer of the Supervisor"

    return body, after


def supervisor_damaged():
    block = loose(golden)
    v = mica.Supervisor(block, spare=golden)
    tensors = int.from_bytes(golden[68:72], "little")
    memoryview(block)[tensors + 5] ^= 0x40

    def body():
        box[0] = v.predict([x])

    def after(failed):
        if not failed and (box[0] != want or not v.on_spare):
            return "another answer of the spare"
        if v.predict([x]) != want or v.counts["checksum"] + v.counts["exception"] < 1:
            return "another answer of the spare later"
        memoryview(block)[tensors + 5] ^= 0x40
        if not v.restore() or v.predict([x]) != want:
            return "not restored"

    return body, after


def supervisor_run():
    v = mica.Supervisor(golden, spare=golden, check_every=1)

    def body():
        v.input(0)[:] = array("b", tensor)
        v.run()
        box[0] = bytes(v.output())

    def after(failed):
        if not failed and box[0] != raw:
            return "another answer of the Supervisor"
        v.predict([x])
        v.input(0)[:] = array("b", tensor)
        v.run()
        if bytes(v.output()) != raw:
            return "another answer of the Supervisor later"

    return body, after


def supervisor_state():
    v = mica.Supervisor(state, check_every=1)
    v.predict([s])

    def body():
        box[0] = v.predict([s])

    def after(failed):
        expected = [[n * (2.0 if failed else 3.0) for n in s]]
        got = v.predict([s])
        if got != expected:
            return f"state: {got}, not {expected}"

    return body, after


def supervisor_restore():
    block = loose(golden)
    v = mica.Supervisor(block, spare=golden, check_every=1)
    memoryview(block)[len(golden) // 2] ^= 0x10
    v.predict([x])
    memoryview(block)[len(golden) // 2] ^= 0x10

    def body():
        v.restore()

    def after(failed):
        if v.predict([x]) != want or not v.restore() or v.predict([x]) != want or v.on_spare:
            return "not restored"

    return body, after


# --- A file that was pushed: there is the one before, or the new one


def push_finish():
    import hashlib

    with open("golden.mica", "wb") as f:
        f.write(small)
    name = str(hexlify(b"golden.mica"), "ascii")
    remote_push.append(name, 0, golden)
    sha = str(hexlify(hashlib.sha256(golden).digest()), "ascii")

    def body():
        remote_push.finish(name, len(golden), sha)

    def after(failed):
        with open("golden.mica", "rb") as f:
            there = f.read()
        with open("golden.mica", "wb") as f:
            f.write(golden)
        if there not in (small, golden):
            return "neither the file before nor the new one"

    return body, after


SCENARIOS = (
    load_large,
    run_large,
    slice_large,
    load, load_arena, load_bytearray, load_copied, load_file, load_strict, load_damaged, load_fallbacks,
    load_registered, predict,
    predict_floats, predict_raw, predict_named, predict_filled, predict_into, predict_fallbacks, predict_state,
    run_and_look, describe,
    hook_first, hook_second, hook_remove, hook_remove_last, hook_with, hooks_ready, hook_bytearray, pieces, start_fails,
    given_up, arun,
    arun_two, arun_cancelled, selftest_small, selftest_state, selftest_imports, profiled, raw_kernels, supervisor_new,
    supervisor_predict, supervisor_damaged, supervisor_run, supervisor_state, supervisor_restore, push_finish,
)  # fmt: skip

problems = []
placed = [0, 0, 0]


def lasting():
    """Return True if memory has run out for good, so that no clean-up could allocate either."""
    return placed[1] > placed[0]


def inject(make, begin, last, poll):
    """Do it once with this fault; return (allocations, polls) of it. What is wrong goes to `problems`."""
    for i in range(4):
        box[i] = None
    placed[:] = begin, last, poll
    body, after = make()
    gc.collect()
    counts = raised = None
    _faults.start(begin, last, poll)
    try:
        body()
        counts = _faults.stop()
    except BaseException as e:
        counts = _faults.stop()
        raised = e
    wrong = None
    allowed = (KeyboardInterrupt,) if poll else (MemoryError,)
    if make.__name__.startswith("supervisor"):
        allowed += RUNS_OUT
    if raised is not None and not isinstance(raised, allowed):
        wrong = repr(raised)
    try:
        wrong = wrong or after(raised is not None) or well()
    except Exception as e:
        wrong = "afterwards " + repr(e)
    if wrong:
        fault = f"Ctrl-C at {poll}" if poll else f"allocations {begin} to {last}"
        said = "" if raised is None else f" (raised {raised!r})"
        problems.append(f"{make.__name__}, {fault}{said}: {wrong}")
    return counts


def places(n, most, seed):
    """All of 1 to n, or `most` of them: the last few, as clean-up comes at the end, and the others spread out."""
    if n <= most or not most:
        return range(1, n + 1)
    ends = min(4, most // 3)
    few = most - ends
    step = (n - ends) / few
    return [1 + int(i * step + seed * 7 % 10 / 10 * step) for i in range(few)] + list(range(n - ends + 1, n + 1))


def one(make, most, seed):
    """Faults of each kind in one scenario; returns how many. Ends early where something broke: the rest would follow
    from it."""
    problems.clear()
    inject(make, 0, 0, 0)
    allocations, polls = inject(make, 0, 0, 0)
    once = places(allocations, most, seed)
    on = places(allocations, most, seed + 3)
    interrupts = places(polls, most, seed)
    for points, fault in (
        (once, lambda n: (n, n, 0)),
        (on, lambda n: (n, 1 << 29, 0)),
        (interrupts, lambda n: (0, 0, n)),
    ):
        for n in points:
            if len(problems) < 3:
                inject(make, *fault(n))
    return len(once), len(on), len(interrupts)


with open("golden.mica", "wb") as f:
    f.write(golden)
