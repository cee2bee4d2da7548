"""A run in pieces of about a given time, so that others can use the processor in between (Model.arun, start, resume).

A piece is some rows of one layer; how many, follows from what rows of that layer took before. In the first run nothing
is known: a layer begins with one row, and only when its multiplications, at the price of those before, fit in what is
left of the slice. The model keeps these times, so later runs cut better.

Nothing of a paused run lies outside of the arena, which stays busy: whatever would overwrite it is refused.
A layer that a hook or a Python fallback carries out, and one of a single row (recurrent, a small softmax),
cannot be cut.
"""

from array import array
from time import ticks_diff, ticks_us

_UNIT = 16  # costs are kept in 1/16 us, because a row can take less than a microsecond


class Run:
    """A run that has begun: `layer` and `row` say how far it is.
    Model.start() makes it, Model.resume() goes on with it.

    `layer` counts steps, and a strip is one step; `row` is then a row of any of its layers.
    Times are kept for layers, not for strips.
    """

    def __init__(self, model: Model) -> None:
        m = model._m
        self._m = m
        self._strips = m.strips
        self._steps = model._steps
        n = m.info.n_steps
        if model._costs is None:
            # Of a row, 0 where not known; and multiplications of a row, to guess from.
            macs = array("L", [0] * n)
            for i, step in enumerate(self._steps):
                strip = getattr(step, "strip", 0)
                i = step.first if self._strips else i
                for k in range(i, i + (strip or 1)):
                    s = m.step_info(k)
                    rows = m.tensor(s.outputs[0]).shape[1] if strip else getattr(step, "rows", 1) or 1
                    macs[k] = s.macs // rows
            model._costs = array("L", [0] * n), macs
        self._costs, self._macs = model._costs
        self._rate = 0  # 1/16 us for 1024 multiplications, as the longest layer so far has shown
        self._rated = 0
        self.layer = 0
        self.row = 0
        self._inside = False

    def check(self) -> None:
        """Raise RuntimeError in a piece of the run itself: a hook, a timer or a thread may neither go on with it nor
        end it."""
        if self._inside:
            raise RuntimeError("the run is at work: only between its pieces can it be resumed or stopped")

    def resume(self, slice_us: int) -> bool:
        """Run for about slice_us microseconds, at least one piece. Returns whether there is more to do."""
        self.check()
        self._inside = True
        try:
            return self._go_on(slice_us)
        finally:
            self._inside = False

    def _go_on(self, slice_us):
        steps = self._steps
        costs = self._costs
        i = self.layer
        row = self.row
        start = now = ticks_us()
        end = slice_us * _UNIT
        left = end
        while i < len(steps):
            step = steps[i]
            rows = getattr(step, "rows", 1) or 1
            n = rows - row
            k = i
            if self._strips:
                k = step.first
                if step.strip:
                    # Of one of its layers only the rows that it makes at a time.
                    call = self._m.call(k, row)
                    k = call >> 16
                    n = call & 0xFFFF
                    if n == 0:
                        raise ValueError("the strip is not where the run has left it")
            cost = costs[k]
            if cost == 0:
                if left < end and self._macs[k] * self._rate > left << 10:
                    break
                n = 1
            elif cost * n > left:
                n = left // cost
                if n < 1:
                    if left < end:
                        break
                    n = 1
            if n >= rows:
                step()
            else:
                step(row, row + n)
            was = now
            now = ticks_us()
            took = ticks_diff(now, was) * _UNIT
            each = took // n or 1
            if cost == 0 and rows > 1:
                each += each >> 1  # a window of three lacks a third in the first row of a picture
            # Upwards at once, downwards by halves: rather too little in a slice than too much.
            costs[k] = each if each > cost else (each + cost) // 2
            if took > self._rated and self._macs[k]:
                self._rated = took
                self._rate = (each << 10) // self._macs[k]
            row += n
            if row >= rows:
                i += 1
                row = 0
            # Kept at once: what interrupts a step ends the run, but between two of them it may be paused.
            self.layer = i
            self.row = row
            left = end - ticks_diff(now, start) * _UNIT
            if left <= 0:
                break
        return i < len(steps)


def start(model: Model, inputs: Inputs | None) -> None:
    if model._run is not None:
        raise RuntimeError("a run of this model has been started and not ended: resume() or stop() it")
    run = Run(model)
    model._run = None  # an attribute of the model's own from here on: to set it again takes no memory
    model._m.begin()
    # Nothing can come between, so a run that holds the arena is one that stop() finds.
    model._run = run
    try:
        if inputs is not None:
            model._write(inputs)
    except BaseException:
        model.stop()
        raise


async def arun(model: Model, inputs: Inputs | None, slice_us: int) -> Any:
    from asyncio import sleep_ms

    start(model, inputs)
    try:
        run = model._run
        while run.resume(slice_us):
            await sleep_ms(0)
            if model._run is not run:
                raise RuntimeError("arun: stop() gave the run up")
        return None if inputs is None else model._read(False)
    finally:
        # Not stop(), whose question could be interrupted.
        model._m.end()
        model._run = None
