"""Copies of weights in RAM. Flash makes a layer wait that reads each of its weights once.

    m = mica.Model("/rom/m.mica", weights=60000)  # bytes at most
    m = mica.Model("/rom/m.mica", weights="auto")  # three quarters of the free heap at most, and never its last 24 kB

The layers that gain most for a byte come first: the metadata `weights` of a file, which `mica pack --board` writes,
names them. Without it those that multiply come, in their order. deinit() gives the copies back.
If an allocation fails, the layer reads flash.
"""

import gc

_LEFT = 24 * 1024  # bytes of the heap that "auto" never takes


def _room():
    """Return the bytes that "auto" may take."""
    gc.collect()
    free = gc.mem_free()
    return free - max(_LEFT, free // 4)


def _order(m):
    """Return the numbers of the steps, those first that gain most for a byte."""
    text = m.meta("weights")
    if text is None:
        return [i for i in range(m.info.n_steps) if m.step_info(i).macs]
    return [int(word) for word in text.split()]


def _size(m, i):
    """Return the bytes of RAM that a copy of a step's constants takes."""
    return 16 + sum([len(m.step_constant(i, k, "b")) + 15 & ~15 for k in range(6)])


def hold(m: _mica.Model, most: int | str) -> None:
    """Copy the constants of layers into RAM, `most` bytes of them, or "auto"."""
    if most == "auto":
        most = 0 if m.held is None else _room()  # None: the file is in RAM already
    elif isinstance(most, bool) or not isinstance(most, int) or most < 0:
        raise ValueError('weights: "auto" is expected, a number of bytes, or None')
    for i in _order(m):
        if (m.held or 0) + _size(m, i) <= most:
            try:
                m.hold(i)
            except MemoryError:
                pass  # it reads flash
