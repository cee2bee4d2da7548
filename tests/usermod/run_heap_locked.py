# models: small two many state
# Steps, begin, end and the runtime's loop allocate nothing: here the heap is locked while they run.
import gc
import micropython

import mica


def locked(f):
    micropython.heap_lock()
    try:
        f()
    finally:
        micropython.heap_unlock()


for source, x, arena in (
    (small, small_x, None), (two, two_x, None), (many, many_x, None), (state, state_x, None),
    (small, small_x, bytearray(2048)),
):
    m = mica.Model(source, arena)
    answers = []
    for _ in range(3):
        at = 0
        for i, t in enumerate(m._m.inputs):
            size = m._m.tensor(t).nbytes
            m._m.write(i, mica.Quantised(memoryview(x)[at : at + size]))
            at += size
        locked(m.run)
        answers.append(bytes(m.output(0)))
    same = answers[0] == answers[1] == answers[2]
    print(m.name or "unnamed", m._m.info.n_steps, same or m._m.info.state_bytes > 0)


def allocated(n):
    before = gc.mem_alloc()
    for _ in range(n):
        m.run()
    return gc.mem_alloc() - before


# Hundreds of runs leave the heap as it was.
m = mica.Model(many)
allocated(1)
print("allocated", allocated(300))

# run() does not lock by itself: a hook between two layers may allocate.
m._m.begin()
print("lock depth", micropython.heap_locked() if hasattr(micropython, "heap_locked") else 0)
m._m.end()
