"""Functions that the host calls over the raw REPL. One call is one command; answers are lines.

The host puts bytes on the board first (as globals), then calls, for example
`from mica import remote; remote.load(data)`. Every line for the host begins with "mica:"; the host skips all other
lines, which programs print. An error is an exception, which the raw REPL reports by itself.

    call                    lines
    info()                  mica:info <major>.<minor> <isa> <static arena bytes> <kernel,kernel,...>
    load(source, arena)     mica:model <file bytes> <steps> <inputs> <outputs> <arena bytes> <ram> <copied: 0 or 1>
                            mica:tensor <in|out> <index> <id> <dtype> <nbytes> <d0xd1x...>  each input, then each output
    run(x, ...)             mica:out <index> <hex>                                          each output
    layer_hashes(x, ...)    mica:layer <index> <crc32> <nbytes>                             each step, as it has run
    layer_bytes(i, x, ...)  mica:hex <hex>                                                  up to 128 elements a line
                            mica:end <nbytes> <crc32>
    evaluate(samples)       mica:y <hex>                                                    each sample: all its outputs
                            mica:end <samples> <crc32>                                      of all these bytes
    bench(read, mask, runs, mica:step <index> <ticks> <C or Python>                         each step: its shortest
          x, ...)           mica:total <ticks>                                              Model.run(), the shortest
                            mica:heap <bytes>                                             free, with the model loaded
    unload()                nothing

source: a path or a buffer. x: one buffer for each input of the model, int8 as it lies in the tensor. samples: all
inputs of the first sample, then of the second, and so on. crc32 is zlib's, 8 hexadecimal digits, over the bytes of all
outputs of a step in turn. read() is a counter that wraps at mask + 1; the cost of reading it is subtracted. layer_bytes
runs the model up to step i, so it sees the layer's output before anything overwrites it.
"""

import gc
from binascii import crc32, hexlify

import _mica
from _mica import Quantised

from mica.layer import Layer
from mica.model import Model

model: Model | None = None


def info() -> None:
    i = _mica.info()
    print("mica:info", ".".join(str(v) for v in i.format), i.isa, i.arena_bytes, ",".join(i.kernels))


def load(source: str | Any, arena: Any | None = None) -> None:
    global model
    model = None  # before the new one asks for memory
    model = Model(source, arena)
    m = model._m
    i = m.info
    print("mica:model", i.file_bytes, i.n_steps, i.n_inputs, i.n_outputs, i.arena_bytes, m.ram, int(m.copied))
    for side, ids in (("in", m.inputs), ("out", m.outputs)):
        for index, t in enumerate(ids):
            tensor = m.tensor(t)
            shape = "x".join(str(d) for d in tensor.shape) or 1
            print("mica:tensor", side, index, t, tensor.dtype, tensor.nbytes, shape)


def unload() -> None:
    global model
    model = None


def _fill(m, inputs):
    if len(inputs) != m.info.n_inputs:
        raise ValueError(f"{len(inputs)} inputs given, {m.info.n_inputs} expected")
    for i, x in enumerate(inputs):
        m.write(i, Quantised(x))


def _digits(crc):
    return f"{crc & 0xFFFFFFFF:08x}"


def run(*inputs: Any) -> None:
    m = model._m
    _fill(m, inputs)
    model.run()
    for i in range(m.info.n_outputs):
        print("mica:out", i, str(hexlify(m.output(i)), "ascii"))


def _watch(m, inputs, last, look):
    """Run the steps up to `last`. Right after each, call look(layer, its CRC-32, its output).

    Of a strip, which ends with the last of its layers, look() is called at each piece with the CRC-32 None,
    and once more with None for what it wrote.
    """
    _fill(m, inputs)
    m.begin()
    try:
        if m.strips:
            from mica.strips import layers

            for i, crc, view in layers(m, model._steps):
                if i > last and crc is not None:
                    break
                look(i, crc, view)
            return
        for i, step in enumerate(model._steps):
            if i > last:
                break
            step()
            crc = 0
            for t in m.step_info(i).outputs:
                view = m.tensor_view(t)
                crc = crc32(view, crc)
            look(i, crc, view)
    finally:
        m.end()


def layer_hashes(*inputs: Any) -> None:
    m = model._m

    def look(i, crc, view):
        if crc is not None:
            size = sum([m.tensor(t).nbytes for t in m.step_info(i).outputs])
            print("mica:layer", i, _digits(crc), size)  # no name: a file could write lines of its own

    _watch(m, inputs, m.info.n_steps, look)


def layer_bytes(index: int, *inputs: Any) -> None:
    m = model._m

    def look(i, crc, view):
        if i != index:
            return
        if view is not None:
            for at in range(0, len(view), 128):
                print("mica:hex", str(hexlify(view[at : at + 128]), "ascii"))
        if crc is not None:
            print("mica:end", sum([m.tensor(t).nbytes for t in m.step_info(i).outputs]), _digits(crc))

    _watch(m, inputs, index, look)


def bench(read: Callable[[], int], mask: int, runs: int, *inputs: Any) -> None:
    from mica.profile import measure

    m = model._m
    gc.collect()
    free = gc.mem_free()
    best, total = measure(model, read, mask, runs, lambda: _fill(m, inputs))
    for i, ticks in enumerate(best):
        print("mica:step", i, ticks, Layer(m, i).runs_in)
    print("mica:total", total)
    print("mica:heap", free)


def evaluate(samples: Any) -> None:
    m = model._m
    data = memoryview(samples)
    sizes = [m.tensor(t).nbytes for t in m.inputs]
    step = sum(sizes)
    if len(data) % step:
        raise ValueError(f"samples: {len(data)} bytes are not a multiple of {step}")
    crc = 0
    at = 0
    for _ in range(len(data) // step):
        for i, size in enumerate(sizes):
            m.write(i, Quantised(data[at : at + size]))
            at += size
        model.run()
        line = ""
        for i in range(m.info.n_outputs):
            y = m.output(i)
            crc = crc32(y, crc)
            line += str(hexlify(y), "ascii")
        print("mica:y", line)
    print("mica:end", len(data) // step, _digits(crc))
