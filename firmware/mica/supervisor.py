"""mica.Supervisor: a model that is watched, mended and, where that does not help, replaced by a spare.

    s = mica.Supervisor("net.mica", spare="small.mica", retries=1, timeout_ms=200, feed=wdt.feed)
    s.predict([x])  # as Model.predict
    s.counts        # {"runs": 1, "retry": 0, ...}

A run fails if a layer raises an exception, or takes longer than `timeout_ms`. It fails if guard words show that
somebody wrote past the arena's end. And it fails if the file lost its checksum, which is checked before every
`check_every`-th run and after each failure. Then the model is loaded again, and tested with its golden vectors if it
has some. The whole run is repeated up to `retries` times, from a copy of the inputs and of the state. If that fails,
the spare does the same, and stays until restore(). If the spare fails too, predict() raises Failed.

`feed` is called after each layer and after each 4 KB of a check, so a watchdog that it feeds bites when a layer hangs.
A mistake of the caller's (an input of a wrong shape, an arena in which a run has not ended) is raised as it is, and not
counted. Damage can look like a mistake, so the file is checked first. If the inputs or outputs of a damaged model are
lost, Failed says so, and the next run begins with a repaired model. No copy is kept of a fed input (`pack --feed`):
a repeated run reads the caller's buffer again, or calls the function again from row 0.
"""

import gc
from array import array
from time import ticks_diff, ticks_ms

from _mica import Quantised

from mica.model import Model

SLICE = 4096  # bytes of the file that are checked at a time
KINDS = ("runs", "exception", "timeout", "guard", "checksum", "selftest", "reload", "retry", "spare", "failed")


class Failed(RuntimeError):
    """Neither the model nor its spare could make a run; the text has the last reason."""


class _Fault(Exception):
    pass  # args: kind, detail


def _facts(m):
    """Return the facts that a model and its spare must share."""
    return [[(m.tensor(t).shape, m.tensor(t).dtype) for t in ids] for ids in (m.inputs, m.outputs)] + [m.fed]


def _rescaled(kept, t, scale, zero):
    """Return a function that feeds an input t from a buffer of the integers of another scale."""

    def f(begin, end, rows):
        at = begin * (len(rows) // (end - begin))
        for i in range(len(rows)):
            q = kept[at + i]
            q = round(scale * ((q if q < 128 else q - 256) - zero) / t.scale) + t.zero_point
            rows[i] = min(127, max(-128, q))

    return f


def _check(m, feed):
    try:
        m.check(0)  # from the beginning, whatever check was interrupted before
        while m.check(SLICE):
            if feed:
                feed()
    except ValueError as e:
        raise _Fault("checksum", e)


class _Source:
    """The source of a model, which can be loaded any number of times."""

    def __init__(self, given, arena, key, weights):
        if key is not None and isinstance(given, Model):
            raise ValueError("Supervisor: a key is for paths and buffers; give a Model its key when it is made")
        self.given, self.arena, self.key, self.weights = given, arena, key, weights
        self.model = given if isinstance(given, Model) else None

    def load(self, setup):
        """Return a new Model of it; of one that was given as a Model, that one."""
        if isinstance(self.given, Model):
            self.given._m.rearm()
            return self.given
        arena = self.arena
        if self.model is not None:
            if arena is None:
                arena = self.model.arena  # a block of the heap: another such block may not be found
            self.free()
        gc.collect()
        self.model = Model(self.given, arena, key=self.key, weights=self.weights)
        if setup:
            setup(self.model)
        return self.model

    def free(self):
        if self.model is not None and self.model is not self.given:
            self.model.stop()  # as in Supervisor._ready
            self.model.deinit()
            self.model = None
            gc.collect()


class Supervisor:
    """See above. `model` and `spare` are paths, buffers or Models; a path is read again at each reload.

    spare: takes the model's place; its inputs and outputs must have the model's shapes, else ValueError.
    Given as a Model it is in memory all the time, else only when it is needed. timeout_ms: 0 for none.
    setup(model) is called with each Model that was loaded, for hooks. on_event(kind, detail) is told of every event.
    arena, key and weights: as for Model; the last two for paths and buffers.

    model: the Model in use. on_spare: whether that is the spare. counts: of each kind of event.
    events: the last 16, as (ticks_ms, kind, detail).
    """

    def __init__(
        self,
        model: str | Model | Any,
        spare: str | Model | Any = None,
        retries: int = 1,
        timeout_ms: int = 0,
        check_every: int = 16,
        feed: Callable[[], object] | None = None,
        on_event: Callable[[str, Any], object] | None = None,
        setup: Callable[[Model], object] | None = None,
        **load: Any,
    ) -> None:
        if retries < 0 or timeout_ms < 0 or check_every < 1:
            raise ValueError("Supervisor: retries and timeout_ms from 0, check_every from 1")
        given = [load.pop(name, None) for name in ("arena", "key", "weights")]
        for name in load:
            raise TypeError(f"Supervisor: there is no argument {name!r}")
        self.counts: dict[str, int] = dict.fromkeys(KINDS, 0)
        self.events: list[tuple[int, str, str | None]] = []
        self.model: Model = None
        self._closed = False
        self._retries, self._timeout, self._feed = retries, timeout_ms, feed
        self._on_event, self._setup = on_event, setup
        self._every = self._left = check_every
        self._sources = [_Source(model, *given)]
        self._active, self._facts = 0, None
        if spare is not None:
            # Before the model, and not beside it: that can need more memory than there is.
            self._sources.append(_Source(spare, *given))
            self._learn(self._sources[1].load(None)._m)
            self._sources[1].free()
        try:
            first = self._sources[0].load(setup)
            if first is model:
                _check(first._m, feed)  # it may have been damaged since it was loaded
        except Exception as e:
            if spare is None:
                raise e.args[1] if isinstance(e, _Fault) else e
            self._failure(e)
            self._sound = self._to_spare()
            return
        if spare is not None and (facts := _facts(first._m)) != self._facts:
            self._sources[0].free()
            if facts[2] != self._facts[2]:
                raise ValueError("Supervisor: the inputs of model and spare have to be fed alike")
            raise ValueError("Supervisor: the spare's inputs or outputs have other shapes than the model's")
        self._learn(first._m)
        self._use(first)
        self._sound = self._proved()

    # ---- What a Model has

    on_spare: bool = property(lambda self: self._active == 1)

    def input(self, i: int = 0) -> memoryview:
        """Return the quantised input of the model that is in use: ask again for each run, it can be another one."""
        self._check_open()
        if not self._sound:
            self._mend_or_fail("")
        while True:
            try:
                return self.model.input(i)
            except Exception as e:
                wrong = e
            self._blame(wrong)

    def output(self, i: int = 0) -> memoryview:
        return self._of_the_run("output", i)

    def top(self, k: int = 1, i: int | str | None = None) -> list[tuple[str | int, float]]:
        """Do as Model.top."""
        return self._of_the_run("top", k, i)

    def _of_the_run(self, name, *args):
        try:
            return getattr(self.model, name)(*args)
        except Exception as e:
            wrong = e
        self._blame(wrong)
        self._event("failed")
        raise Failed("supervisor: the model was damaged, and with it its outputs: run again")

    def reset(self) -> None:
        """Clear the state of a streaming model."""
        self._kept_state = None
        if self._sound:
            self._m.reset_state()

    # overload: (self, inputs: Inputs, *, raw: Literal[False] = False) -> list[list[float]]
    # overload: (self, inputs: Inputs, *, raw: Literal[True]) -> list[array[int]]
    def predict(self, inputs, *, raw=False):
        """Do as Model.predict, under supervision."""
        self._before()
        while True:
            m = self._m
            m.begin()
            try:
                try:
                    self.model._write(inputs)
                finally:
                    m.end()
                break
            except Exception as e:
                wrong = e
            self._blame(wrong)
        self._keep()
        return self._supervise(True, raw)

    def run(self) -> None:
        """Run all layers on the present inputs, under supervision; as Model.run."""
        self._check_open()
        if not self._sound:
            self._mend_or_fail("")
            raise Failed("supervisor: the model has been mended, and its inputs are lost: write them again")
        self._keep()  # before a check: where that finds damage, the model that is loaded is tested in their place
        self._before()
        self._supervise(False, False)

    def restore(self) -> bool:
        """Go back from the spare to the model: True when it loads and its self-test is passed, else the spare stays."""
        self._check_open()
        if self._active == 0:
            return True
        self._sound = False
        self._active = 0
        if self._ready():
            self._sources[1].free()
            return True
        self._to_spare()
        return False

    def deinit(self) -> None:
        """Give the memory back; Models that were given stay as they are. A run after that raises RuntimeError."""
        for source in self._sources:
            source.free()
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.deinit()

    def __repr__(self):
        n, which = self.counts, "spare" if self._active else "model"
        return f"<mica.Supervisor on the {which}: {n['runs']} runs, {n['retry'] + n['failed']} failures>"

    # ---- How it does it

    def _event(self, kind, detail=None):
        self.counts[kind] += 1
        try:
            del self.events[:-15]
            # The text, not the exception: that would keep its traceback, and what it names, alive.
            self.events.append((ticks_ms(), kind, None if detail is None else str(detail)))
        except MemoryError:
            pass  # it is counted, and mending may still be possible
        if self._on_event:
            self._on_event(kind, detail)

    def _failure(self, e):
        """Count an exception."""
        if isinstance(e, _Fault):
            self._event(*e.args)
        else:
            self._event("exception", e)

    def _check_open(self):
        if self._closed:
            raise RuntimeError("the supervisor was closed by deinit()")

    def _use(self, model):
        self.model = model
        self._m = m = model._m
        # Asked for now, when the file has just been checked: later a damaged one might name other places.
        tensors = [m.tensor(t) for t in m.inputs]
        self._own_scales = [(t.scale, t.zero_point) for t in tensors]
        self._views = [None if i == m.fed else m.input(i) for i in range(len(tensors))]

    def _learn(self, m):
        """Reserve the memory that a retry needs for a copy of the inputs."""
        inputs = [m.tensor(t) for t in m.inputs]
        self._facts = _facts(m)
        self._kept = [None if i == m.fed else memoryview(array(t.dtype, bytes(t.nbytes))) for i, t in enumerate(inputs)]
        self._given = [None if kept is None else Quantised(kept) for kept in self._kept]
        self._scales = [(t.scale, t.zero_point) for t in inputs]
        self._views = self._kept_state = None

    def _keep(self):
        m = self._m
        for i, kept in enumerate(self._kept):
            if i == m.fed:
                if m.source is None:
                    raise ValueError("Supervisor: the input is fed: give predict() a buffer or a function")
                self._kept[i] = self._given[i] = m.source
            else:
                kept[:] = self._views[i]
        self._scales = self._own_scales
        self._keep_state()

    def _keep_state(self):
        state = self._m.state
        if state is not None and self._kept_state is not None and len(self._kept_state) == len(state):
            self._kept_state[:] = state
        else:
            self._kept_state = None if state is None else bytearray(state)

    def _before(self):
        """Find damage before the input is taken, and mend it: nothing is lost then."""
        self._check_open()
        if not self._sound:
            self._mend_or_fail("")
        arena = self.model.arena
        if arena.busy:
            self._m.begin()  # raises: a run that is not ours has not ended
            self._m.end()
        self._left -= 1
        fault = None
        if self._left <= 0:
            try:
                _check(self._m, self._feed)
            except _Fault as e:
                fault = e
            self._left = self._every
        if fault is None and not arena.intact:
            fault = _Fault("guard", "written past the arena's end")
        if fault is not None:
            self._damaged(fault)

    def _damaged(self, fault):
        """Count damage that was found between two runs, and mend it."""
        self._sound = False
        self._keep_state()
        self._event(*fault.args)
        self._mend_or_fail(fault.args[0] + "; ")

    def _mend_or_fail(self, why):
        if not self._mend():
            self._event("failed")
            raise Failed("supervisor: %sneither model nor spare can be loaded" % why)
        self._put_state()

    def _blame(self, wrong):
        """Raise `wrong` as the caller's mistake where the file is sound; else count the damage and mend it."""
        self._check_open()
        try:
            if self._sound:
                _check(self._m, self._feed)
        except _Fault as e:
            fault = e
        else:
            raise wrong
        self._damaged(fault)

    def _proved(self):
        """Return True if the model in use passes its self-test; count a failure."""
        try:
            if self._m.info.n_golden:
                from mica.selftest import selftest

                bad = selftest(self.model, self._feed)
                if bad is not None:
                    raise _Fault("selftest", bad.name)
            else:
                _check(self._m, self._feed)
            return True
        except _Fault as e:
            self._event(*e.args)
        except Exception as e:
            self._event("selftest", e)
        return False

    def _ready(self):
        """Load the source in use again, and test it."""
        self._views = None  # they would hold the memory that is needed now
        self._event("reload")
        source = self._sources[self._active]
        try:
            if source.model is not None:
                source.model.stop()  # a run of it that has not ended would keep the arena from what is loaded now
            self._use(source.load(self._setup))
            if _facts(self._m) != self._facts:
                raise ValueError("the file now has other shapes")
        except Exception as e:
            self._event("exception", e)
            return False
        self._sound = self._proved()
        return self._sound

    def _to_spare(self):
        self._views = None
        self._sources[0].free()
        self._active = 1
        self._event("spare")
        return self._ready()

    def _mend(self):
        """Bring up a model that is sound: the one in use, or the spare."""
        for _ in range(self._retries + 1):
            if self._ready():
                return True
        if self._active == 0 and len(self._sources) > 1 and self._to_spare():
            return True
        self._active = 0  # the next call begins again
        return False

    def _put_state(self):
        if self._active == 0:  # a spare's state is its own, and begins again
            self._m.put_state(self._kept_state)

    def _supervise(self, answer, raw):
        self.counts["runs"] += 1
        tries = self._retries
        fault = None
        while True:
            found = None
            try:
                if fault is None:
                    return self._attempt(answer, raw)
                if self._sound:
                    self._put_state()
                    return self._attempt(answer, raw)
            except Exception as e:
                found = e
            except BaseException:  # Ctrl-C: nothing is wrong with the model, but part of the run is in its state
                self._put_state()
                raise
            # Whatever it was: loaded again and tested, before it is tried again.
            self._sound = False
            if found is not None:
                fault = found
                self._failure(fault)
            if tries > 0:
                tries -= 1
                self._event("retry")
                self._ready()
            elif self._active == 0 and len(self._sources) > 1:
                tries = self._retries
                self._to_spare()
            else:
                break
        self._event("failed", fault)
        if self._ready():  # with the state from before the run
            self._put_state()
        reason = fault.args[1] if isinstance(fault, _Fault) else repr(fault)
        raise Failed("supervisor: the run failed: %s" % (reason,))

    def _attempt(self, answer, raw):
        m = self._m
        m.begin()
        try:
            self._fill(m)
            start = ticks_ms()
            for step in self.model._steps:
                if getattr(step, "strip", 0):
                    from mica.strips import calls

                    for _, at, rows in calls(m, step):
                        step(at, at + rows)
                        self._look(start)
                else:
                    step()
                    self._look(start)
            if not m.arena.intact:
                raise _Fault("guard", "written past the arena's end")
            return self.model._read(raw) if answer else None
        finally:
            m.end()

    def _look(self, start):
        """After a layer, or a call of a strip."""
        if self._feed:
            self._feed()
        if self._timeout and ticks_diff(ticks_ms(), start) > self._timeout:
            raise _Fault("timeout", "more than %d ms" % self._timeout)

    def _fill(self, m):
        """Write the kept inputs; into a spare with another scale, the numbers that they stand for."""
        for i, kept in enumerate(self._kept):
            t = m.tensor(m.inputs[i])
            scale, zero = self._scales[i]
            if t.dtype != "b" or (t.scale == scale and t.zero_point == zero):
                m.write(i, self._given[i])
            elif i == m.fed:
                own = isinstance(kept, Quantised)
                m.write(i, _rescaled(memoryview(kept), t, scale, zero) if own else kept)
            else:
                m.write(i, [scale * (q - zero) for q in kept])
