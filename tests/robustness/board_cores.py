# One session of runs on two cores, in trouble: timers that compute, collect, write files or ask for the core;
# threads that take the second core and end, or do not; cores(1) and cores(2) in turn. Every answer is compared.
# Globals: seed, runs, last ("end", "thread": leaves one running, "loop": goes on until Ctrl-C).
# Last line: runs on two cores, on one, timers' calls, threads, files written.
import gc
import time

import _thread
import mica
from machine import Timer

GONE_MS = 3  # a thread has ended by then
state = seed * 2654435761 + 12345 & 0x3FFFFFFF


def rnd(n):
    global state
    state = state * 1103515245 + 12345 & 0x3FFFFFFF
    return (state >> 12) % n


m = mica.Model("/rom/digits.mica")
frames = [bytes([(i * k * 37 + seed) % 256 for i in range(len(m.input(0)))]) for k in range(1, 4)]
uneven = mica.Model("/rom/small.mica")  # an odd number of rows: the cores do not end together
picture = bytes(range(64))
mica.cores(1)
want_uneven = uneven.predict([picture])
want = [m.predict([f]) for f in frames]
if mica.cores(2) != 2:
    raise AssertionError(f"no second core, seed {seed}")

ticks = 0
threads = 0
files = 0
scratch = bytearray(64)
ended = True
writing = False
left = time.ticks_ms()  # when a thread was last about to end; None: it is
two = one = 0
kind = which = got = timers = t = _ = None  # a thread must not look names up while the table of globals grows


def count(timer):
    global ticks
    ticks += 1
    for i in range(ticks & 31):
        scratch[i] += 1


def trouble(timer):
    global ticks
    ticks += 1
    kind = ticks & 7
    if kind == 1:
        gc.collect()
    elif kind == 2:
        write()
    elif kind == 3:
        mica.cores(2 - (ticks >> 3 & 1))
    elif kind == 4:
        begin_thread(20)
    elif kind == 5:
        try:
            if m.predict([frames[0]]) != want[0]:
                print("WRONG")
        except RuntimeError:
            pass  # the arena is busy


def write():
    # MicroPython lets timers in, and Ctrl-C, while littlefs writes a block; neither may go on in the same file system.
    # It asks before
    # and behind a write to flash whether there is a thread: one that ends between leaves the lock taken,
    # and the next write panics.
    global files, writing
    if writing or two + one >= runs:
        return
    writing = True
    if left is not None and time.ticks_diff(time.ticks_ms(), left) >= GONE_MS:
        with open("/two_cores.bin", "wb") as f:
            f.write(scratch)
        files += 1
    writing = False


def other(n):
    global ended, left
    mine = [0]
    for k in range(n):
        mine.append(k)
        if k % 16 == 15:
            mine = [0]
    left = None
    while writing:
        pass
    left = time.ticks_ms()
    ended = True


def begin_thread(n):
    global threads, ended
    if ended:
        ended = False
        try:
            _thread.start_new_thread(other, (n,))
            threads += 1
        except OSError:  # the core is in use
            ended = True


timers = [
    Timer(period=1 + rnd(3), callback=count),
    Timer(period=1 + rnd(7), callback=trouble),
    Timer(freq=200 + rnd(600), callback=count),
]
while two + one < runs or last == "loop":
    kind = rnd(24)
    if kind == 0:
        write()
    elif kind == 1:
        begin_thread(rnd(400))
    elif kind == 2:
        mica.cores(1)
    elif kind < 8:
        mica.cores(2)
    elif kind == 8:
        gc.collect()
    elif kind == 9:
        time.sleep_us(rnd(3000))
    which = rnd(3)
    try:
        got = m.predict([frames[which]])
        if (two + one) % 8 == 0 and uneven.predict([picture]) != want_uneven:
            raise AssertionError(f"another answer of small after run {two + one}, seed {seed}")
    except RuntimeError:
        continue
    if mica.cores() == 2:
        two += 1
    else:
        one += 1
    if got != want[which]:
        raise AssertionError(f"another answer in run {two + one}, seed {seed}")
    if last == "loop" and two + one == runs:
        for t in timers:
            t.deinit()  # a KeyboardInterrupt in what they call would be printed, and over
        print(two, one, ticks, threads, files)
if last == "thread":
    for t in timers:
        t.deinit()
    for _ in range(200):
        if ended:
            break
        time.sleep_ms(1)
    begin_thread(1 << 30)
print(two, one, ticks, threads, files)
