"""Time of each layer of a model: Model.profile().

p = m.profile()
p                # a table: microseconds, share, million multiply-accumulates a second, C or Python
p.chart()        # bars
p.save("p.json") # for chrome://tracing or ui.perfetto.dev
p.us             # microseconds of each layer, the shortest of the runs; p.total: of run(),
                 p.overhead: outside of layers
"""

import gc
from array import array


def _ticks(read, mask, f):
    start = read()
    f()
    return read() - start & mask


def _by_rows(m, steps, best, read, mask, idle):
    """Measure the steps if some of them are strips: the times of a layer's calls are added up."""
    from mica.strips import calls

    for step in steps:
        i = step.first
        if not step.strip:
            best[i] = min(best[i], _ticks(read, mask, step))
            continue
        took = array("L", [idle] * step.strip)
        for layer, at, rows in calls(m, step):
            took[layer - i] += max(0, _ticks(read, mask, lambda: step(at, at + rows)) - idle)
        for k in range(step.strip):
            best[i + k] = min(best[i + k], took[k])


def measure(
    model: Model, read: Callable[[], int], mask: int, runs: int, fill: Callable[[], object] | None = None
) -> tuple[Sequence[int], int]:
    """Run `runs` times and return (ticks of each layer, ticks of run()), the shortest of each.

    read() is a counter that wraps at mask + 1; what reading it costs is taken off. fill() puts the inputs in place.
    """
    m = model._m
    steps = model._steps
    best = array("L", [mask] * m.info.n_steps)
    total = mask
    idle = min([_ticks(read, mask, gc.isenabled) for _ in range(8)])
    for _ in range(runs):
        # A counter can be a number that needs memory; a collection of it would count as a layer's.
        gc.collect()
        gc.disable()
        try:
            if fill is not None:
                fill()
            total = min(total, _ticks(read, mask, model.run))
            if fill is not None:
                fill()
            m.begin()
            try:
                if m.strips:
                    _by_rows(m, steps, best, read, mask, idle)
                else:
                    for i in range(len(steps)):
                        best[i] = min(best[i], _ticks(read, mask, steps[i]))
            finally:
                m.end()
        finally:
            gc.enable()
    for i in range(len(best)):
        best[i] = max(0, best[i] - idle)
    return best, max(0, total - idle)


class Profile:
    """Times of a model's layers. Its repr is a table."""

    def __init__(self, layers: list[Layer], us: array[int], total: int, runs: int) -> None:
        self.layers = layers
        self.us = us
        self.total = total
        self.runs = runs

    @property
    def overhead(self) -> int:
        return max(0, self.total - sum(self.us))

    def _share(self, us):
        return 100 * us / max(1, self.total)

    def __repr__(self):
        lines = ["       us  share  MMAC/s  in      layer"]
        for layer, us in zip(self.layers, self.us):
            rate = f"{layer.macs / us:7.2f}" if us and layer.macs else "      -"
            lines.append(
                f"{us:9d} {self._share(us):5.1f}% {rate}  {layer.runs_in:6s}  {layer.index} {layer.kernel} {layer.name}"
            )
        macs = sum([layer.macs for layer in self.layers])
        lines.append(f"{self.overhead:9d} {self._share(self.overhead):5.1f}%       -  Python  between layers")
        lines.append(f"{self.total:9d} 100.0% {macs / max(1, self.total):7.2f}          in all, best of {self.runs}")
        return "\n".join(lines)

    def chart(self, width: int = 40) -> None:
        """Print a bar for each layer, the longest `width` characters long."""
        most = max(1, max(self.us)) if self.us else 1
        for layer, us in zip(self.layers, self.us):
            bar = "#" * ((us * width + most // 2) // most)
            print(f"{layer.index:3d} {layer.kernel[:20]:20s} {bar:{width}s} {self._share(us):5.1f}%")

    def trace(self, write: Callable[[str], object]) -> None:
        """Write the layers as Chrome-trace JSON, piece by piece, by calls of write(text)."""
        from json import dumps

        at = 0
        write('{"displayTimeUnit":"ms","traceEvents":[')
        for layer, us in zip(self.layers, self.us):
            event = {
                "name": layer.name or layer.kernel,
                "cat": layer.kernel,
                "ph": "X",
                "pid": 1,
                "tid": 1,
                "ts": at,
                "dur": us,
                "args": {"index": layer.index, "macs": layer.macs, "in": layer.runs_in},
            }
            write(("," if layer.index else "") + dumps(event))
            at += us
        write("]}")

    def save(self, path: str) -> None:
        """Write a Chrome-trace file."""
        with open(path, "w") as f:
            self.trace(f.write)


def profile(model: Model, runs: int, inputs: Inputs | None) -> Profile:
    from time import ticks_us

    if not 0 < runs <= 10000:
        raise ValueError("profile: 1 to 10000 runs are expected")
    fill = None if inputs is None else lambda: model._write(inputs)
    us, total = measure(model, ticks_us, 0x3FFFFFFF, runs, fill)
    return Profile(model.layers, us, total, runs)
