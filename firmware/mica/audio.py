"""Listening: from a microphone, or a file, to events.

    for event in mica.audio.listen(model, I2S(...)):       # or: async for
        print(event.label, event.score, event.ms)

The model takes int16 samples (`mica pack --frontend`). A source is an object with readinto(): machine.I2S of one
channel, a mica.wav.Wav, or another that fills a buffer with int16 samples and returns how many bytes it gave,
0 at its end. One with irq(), as I2S has, is read by its interrupts while the model runs.
A source with ring(samples, block), as mica.pio_i2s.Microphone, gives a Ring that it fills itself.
"""

from array import array
from collections import namedtuple
from time import sleep_ms, ticks_diff, ticks_us

# label: the recognised word or sound, None with a problem. score: the mean of its last outputs. ms: time from the first
# sample to the end of the sound. problem: one line, or None.
Event: tuple[str | int | None, float, int, str | None] = namedtuple("Event", ("label", "score", "ms", "problem"))

_PATIENCE = 2000  # ms without new samples
_AGAIN = 60  # seconds until a problem that lasts is told again
_LOOKED_AT = 16  # samples of a step that are compared, to detect a stuck microphone
_NOT_HEARD = ("silence", "unknown", "other", "noise")


def room(samples: int, block: int) -> array[int]:
    """At least `samples` zeros, in whole blocks. They grow in place: bytes would take twice the memory."""
    data, zeros = array("h"), array("h", bytes(2 * block))
    while len(data) < samples:
        data.extend(zeros)
    return data


class Ring:
    """The newest samples of a source. count: number of samples so far; at least the last `samples` are kept."""

    def __init__(self, source: Any, samples: int, bits: int = 16, block: int = 256) -> None:
        if bits not in (16, 32):
            raise ValueError(f"bits is {bits}; 16 or 32 is expected, as I2S was given")
        blocks = -(-samples // block) + 1
        self.source = source
        self.count = 0
        self.size: int = blocks * block
        self.block = block
        self._data = memoryview(room(self.size, block))
        # Made once: an interrupt allocates nothing.
        self._places = [self._data[k * block : (k + 1) * block] for k in range(blocks)]
        self._wide = memoryview(array("h", bytes(4 * block))) if bits == 32 else None
        self._got = None  # what the source gave that is not counted yet: Ctrl-C loses none of it
        self.by_irq: bool = hasattr(source, "irq")
        if self.by_irq:
            source.irq(self._filled)
            source.readinto(self._place())

    def _place(self):
        return self._places[self.count // self.block % len(self._places)] if self._wide is None else self._wide

    def _filled(self, source):
        self._took(self.block)
        source.readinto(self._place())

    def _took(self, n):
        """Count n samples; of 32 bits the upper halves are kept."""
        if self._wide is not None:
            wide, data, at = self._wide, self._data, self.count % self.size
            for i in range(n):
                data[at + i] = wide[2 * i + 1]
        self.count += n
        self._got = None

    def read(self) -> bool:
        """Read up to a block from a source without interrupts; return False at its end."""
        if self._got is None:
            at = self.count % self.block
            self._got = self.source.readinto(self._place()[at if self._wide is None else 2 * at :])
        n = self._got
        if n is None:  # nothing there yet
            return True
        bytes_each = 2 if self._wide is None else 4
        if n % bytes_each or (self._wide is not None and n and n != 4 * self.block):
            self._got = None
            raise ValueError(f"the source gave {n} bytes, which are no whole samples, or no whole block of 32 bits")
        self._took(n // bytes_each)
        return n > 0

    def copy(self, end: int, buffer: Any) -> None:
        """Fill an array of int16 with the samples before `end`."""
        n = len(buffer)
        at = (end - n) % self.size
        first = min(n, self.size - at)
        buffer[:first] = self._data[at : at + first]
        if first < n:
            buffer[first:] = self._data[: n - first]

    def still(self, end: int, n: int) -> bool:
        """Return True if a few of the n samples before `end`, evenly apart, are all the same."""
        one = self._data[(end - 1) % self.size]
        for k in range(1, _LOOKED_AT):
            if self._data[(end - 1 - k * n // _LOOKED_AT) % self.size] != one:
                return False
        return True

    def close(self) -> None:
        """End the interrupts."""
        if self.by_irq:
            self.source.irq(None)


class Listener:
    """An iterator over the events that the model recognises, for `for` and `async for`; it ends when its source does.

    Settings are given by name: threshold=0.8. An event comes when the mean of a label's last outputs reaches the
    threshold. The same label gives another event only after its mean has been below. Each label of a file of
    `mica pack --together` is judged alone. scores: means of the last outputs, one for each label. used: share of the
    time so far that runs of the model have taken.
    """

    rate: int = 0  # samples a second, where the source does not say so
    labels: Sequence[str | int] | None = None  # those that count; None: all but silence, unknown, other and noise
    threshold: float | Mapping[str, float] = 0.7  # of a label's mean, or {label: number}; the model may have its own
    mean: int | Sequence[int] = 3  # last outputs that the mean is of, or one for each label
    dead_ms: int = 1000  # from one event to the next, at least
    step: int = 0  # samples between two runs; 0: what is new for a model with a window, else a quarter of its input
    bits: int = 16  # of a sample of the source: 16 or 32
    block: int = 256  # samples that are read at once
    spare: int = 2  # steps that may wait while the model runs
    ms: int = 0  # of sound, after which it ends; 0: where the source does
    slice_us: int = (
        10_000  # with `async for`: how long others may wait at a time; a run that takes no longer is not cut
    )

    _SETTINGS = ("rate", "labels", "threshold", "mean", "dead_ms", "step", "bits", "block", "spare", "ms", "slice_us")
    _kept = 0  # samples that the ring has beyond those
    _SAME = "all samples are the same: is the microphone connected, on these pins?"

    def __init__(self, model: Model, source: Any, **settings) -> None:
        expected = int(model._m.meta("sample_rate") or 0)
        if model.input_dtype != ("h",) or not expected or len(model.input(0)) != model.input_shape[0][-1]:
            raise ValueError("this model takes no sound; mica pack --frontend puts a front end into it")
        rate = settings.get("rate") or getattr(source, "rate", expected)
        if rate != expected:
            raise ValueError(
                f"the source has {rate} samples a second and the model takes {expected}; change the source's rate"
            )
        self._n = len(model.input(0))
        self._prepare(model, rate, settings)
        self._fill = lambda buffer, shape, dtype: self._ring.copy(self._end, buffer)
        block = self.block
        samples = self._n + self.spare * self.step + self._kept + block
        # A source with ring() fills one itself.
        if isinstance(source, Ring):
            self._ring = source
        elif hasattr(source, "ring"):
            self._ring = source.ring(samples, block)
        else:
            self._ring = Ring(source, samples, self.bits, block)

    def _prepare(self, model, rate, settings):
        """All but where samples come from. The model's file may have a threshold and a mean, or some for each label."""
        self._place, n = model._scores()
        self._names = model._names_of(n)
        least = _numbers(model, "listen_threshold", self.threshold, float)
        means = _numbers(model, "listen_mean", self.mean, int)
        apart = len(least) > 1
        self.threshold = dict(zip(self._names, least)) if apart else least[0]
        self.mean = means if apart else means[0]
        for name in settings:
            if name not in self._SETTINGS:
                raise TypeError(f"there is no setting {name!r}, only {', '.join(self._SETTINGS)}")
            setattr(self, name, settings[name])
        self.model: Model = model
        self.rate = rate
        self._stream = model._m.info.state_bytes > 0
        self.step = self.step or self._usual_step()
        self._means = [self.mean] * n if isinstance(self.mean, int) else list(self.mean)
        if len(self._means) != n or len(least) not in (1, n):
            raise ValueError("expected a threshold and a mean for each label; pack the model again")
        if min(self._means) < 1 or self.step < 1:
            raise ValueError("mean and step are 1 or more")
        self._choose(least, apart)
        # A step is done when its answer is taken, all at once. Until then whatever interrupts it leaves it to be done
        # again.
        self._events = []  # that nobody has been given yet
        self._output = None  # answer of the model that is not taken yet
        self._begun = False  # whether the model was given a step without an answer: part of its state may be new
        self._busy = self._took = 0
        self._whole = False
        self._runs = 0
        self._end = self._n
        self._moved = self._n - self.step  # end of the last step whose samples were not all the same
        self._told = -_AGAIN * self.rate  # where it was told last that all samples are the same
        self._last_end = self.ms * rate // 1000

    def _choose(self, least, apart):
        """The labels that count, and what gives an event. least: thresholds of the file, for each label if apart."""
        labels, threshold = self.labels, self.threshold
        for name in labels or ():
            if name not in self._names:
                raise ValueError(f"the model has no label {name!r}, only {', '.join([str(v) for v in self._names])}")
        self._chosen = [
            (name in labels) if labels else str(name).strip("_").lower() not in _NOT_HEARD for name in self._names
        ]
        own = threshold if isinstance(threshold, dict) else {}
        for name in own:
            if name not in self._names:
                raise ValueError(f"threshold: the model has no label {name!r}")
        self._least = [
            own.get(name, least[k if apart else 0] if own else threshold) for k, name in enumerate(self._names)
        ]
        n = len(self._names)
        self.scores: list[float] = [0.0] * n
        # Labels of one network: one of them at a time gives an event.
        self._groups = [range(k, k + 1) for k in range(n)] if apart else [range(n)]
        self._past = []
        self._said = [None] * len(self._groups)  # label of the last event, until its score is below the threshold
        self._last = [-self.dead_ms] * len(self._groups)

    def _usual_step(self):
        """Default step in samples: all new ones if the model keeps earlier rows, else a quarter of its input."""
        m = self.model._m
        for i in range(m.info.n_steps if self._stream else 0):
            if m.step_info(i).kernel in ("log_mel_s8", "pcan_s8", "pcen_s8"):
                frame, hop = m.step_params(i)[:2]
                return (1 + (self._n - frame) // hop) * hop
        return self._n // 4 or 1

    @property
    def used(self) -> float:
        return self._busy * self.rate / (1e6 * self.step * self._runs) if self._runs else 0.0

    def _ms(self, end):
        return end * 1000 // self.rate

    def _missing(self):
        return self._ring.count < self._end

    def _late(self):
        """Return True if samples of the next step were overwritten."""
        ring = self._ring
        return ring.count - self._end + self._n > ring.size - ring.block

    def _overrun(self):
        end = self._ring.count
        text = f"overrun: {end - self._end} samples were lost; take a longer step, a larger spare, or a smaller model"
        self._lost(end, end, text)

    def _closed(self):
        """Return True instead of a run of the model if that is not its turn."""
        return False

    def _problem(self):
        """Check the newest samples before they are used. Return True if something is wrong; the event then tells it."""
        if self._late():
            self._overrun()
            return True
        if not self._ring.still(self._end, self.step):
            self._moved = self._end
        elif self._end - self._moved >= self.rate and self._end - self._told >= _AGAIN * self.rate:
            events = [Event(None, 0.0, self._ms(self._end), self._SAME)]
            self._told, self._events = self._end, events
            return True
        return False

    def _lost(self, end, at, text):
        """Go on at `end`; the event says that something was lost before `at`."""
        events = [Event(None, 0.0, self._ms(at), text)]
        self._forget()
        self._moved += end - self._end
        self._end, self._events = end, events

    def _forget(self):
        self._past = []
        if self._stream:
            self.model.reset()

    def _answer(self):
        """Scores of the samples, as predict() gives them, without its look-ups of 250 microseconds on a Pico."""
        model = self.model
        if model._groups:
            return model.predict([self._fill])[self._place]
        m = model._m
        m.begin()
        try:
            self._ring.copy(self._end, m.input(0))
            for step in model._steps:
                step()
            return m.read(self._place)
        finally:
            m.end()

    def _run(self):
        """Have the model's answer, in one go."""
        begun = ticks_us()
        self._output = self._answer()
        self._took = ticks_diff(ticks_us(), begun)
        if self._runs == 2:
            self._whole = self._took <= self.slice_us

    async def _arun(self):
        """Run the model in slices, so that other tasks can run; their time does not count. Slices cost more, so a run
        shorter than one is not cut. The first run learns the slices; if the second is short, the third is whole."""
        import asyncio

        if self._whole or (self._runs == 2 and self._took < 2 * self.slice_us):
            await asyncio.sleep_ms(0)
            self._run()
            return
        model, took = self.model, 0
        begun = ticks_us()
        model.start([self._fill])
        try:
            while model.resume(self.slice_us):
                took += ticks_diff(ticks_us(), begun)
                await asyncio.sleep_ms(0)
                begun = ticks_us()
        except BaseException:
            model.stop()
            raise
        self._output = model._read(False)[self._place]
        self._took = took + ticks_diff(ticks_us(), begun)

    def _prepare_run(self):
        """A step that was broken off is done again: by a model with a window, from an empty one."""
        if self._begun and self._stream:
            self._forget()
        self._begun = True

    def _heard(self):
        """Take the answer of the model; there may be events."""
        ms, end, runs = self._ms(self._end), self._end + self.step, self._runs + 1
        past = (self._past + [self._output])[-max(self._means) :]
        n = len(past)
        busy = self._busy + self._took
        scores = []
        for k in range(len(self.scores)):
            total, first = 0.0, max(n - self._means[k], 0)
            for j in range(first, n):
                total += past[j][k]
            scores.append(total / (n - first))
        events, said, last = [], self._said[:], self._last[:]
        for number, group in enumerate(self._groups):
            best = -1
            for k in group:
                if self._chosen[k] and scores[k] >= self._least[k] and (best < 0 or scores[k] > scores[best]):
                    best = k
            now = said[number]
            if now is not None and scores[now] < self._least[now]:
                said[number] = now = None
            if best >= 0 and n >= self._means[best] and best != now and ms - last[number] >= self.dead_ms:
                events.append(Event(self._names[best], scores[best], ms, None))
                said[number], last[number] = best, ms
        # Assignments alone: nothing comes between them.
        self._past = past
        self.scores = scores
        self._said = said
        self._last = last
        self._end = end
        self._runs = runs
        self._busy = busy
        self._output = None
        self._begun = False
        self._events = events

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        while True:
            if self._events:
                return self._events.pop(0)
            if 0 < self._last_end < self._end:
                raise StopIteration
            waited = 0
            while self._missing():
                if not self._ring.by_irq:
                    if not self._ring.read():
                        raise StopIteration
                    continue
                sleep_ms(1)
                waited = self._patient(waited + 1)
            if self._output is None:
                if self._closed() or self._problem():
                    continue
                self._prepare_run()
                self._run()
            self._heard()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        import asyncio

        while True:
            if self._events:
                return self._events.pop(0)
            if 0 < self._last_end < self._end:
                raise StopAsyncIteration
            waited = 0
            while self._missing():
                if not self._ring.by_irq and not self._ring.read():
                    raise StopAsyncIteration
                await asyncio.sleep_ms(1 if self._ring.by_irq else 0)
                if self._ring.by_irq:
                    waited = self._patient(waited + 1)
            if self._output is None:
                if self._closed() or self._problem():
                    continue
                self._prepare_run()
                await self._arun()
            self._heard()

    def _patient(self, waited):
        if waited > _PATIENCE:
            raise OSError("the source gives no samples: is its clock running?")
        return waited

    def close(self) -> None:
        """End reading; the source stays open."""
        self._ring.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: Any) -> None:
        self.close()


def _numbers(model, key, usual, kind):
    """Numbers that the file has under this key."""
    return [kind(word) for word in (model._m.meta(key) or str(usual)).split()]


listen = Listener
