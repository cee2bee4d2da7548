"""Samples on their way through a model, or through the parts of a cut one: a part's outputs are the next part's inputs.

Each part of each sample is a request like any other. So the dispatcher's rules hold when boards fail, and the sample
goes on from the last part that was answered. No I/O, as the dispatcher itself: `Done` and `Withdrawn` go in, actions
come out.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from mica.file import codec, parts
from mica.file.codec import ModelFile
from mica_fleet.dispatch import Action, Dispatcher
from mica_fleet.wire import Key


class Route:
    """The models that a sample passes, in order: of a model that is whole just that.
    Raises MicaError where they do not belong together."""

    def __init__(self, files: Sequence[bytes]) -> None:
        chain = parts.chain([codec.decode(data) for data in files])
        by_number = {p.number: data for data in files if (p := parts.read(codec.decode(data))) is not None}
        self.files = [by_number[n] for n in sorted(by_number)] or list(files)
        self.crcs = [zlib.crc32(data) for data in self.files]
        self.models = chain.models
        self.parts = chain.parts
        self.whole: ModelFile = chain.whole

    def __len__(self) -> int:
        return len(self.parts)

    def named(self, crc: int) -> str:
        """A model of it, for people."""
        n = self.crcs.index(crc) + 1
        return f"part {n} of {len(self)}" if len(self) > 1 else "this model"

    def input_bytes(self, crc: int) -> int:
        """Count those of one request for a model; 0 for one that is not of this route."""
        if crc not in self.crcs:
            return 0
        model = self.models[self.crcs.index(crc)]
        return sum(model.tensors[t].bytes for t in model.inputs)


@dataclass
class _Trip:
    """One sample. `pool`: tensors of the whole that are known; `keys`: of its requests, one a stage, as far as it is;
    `used`: with those that were withdrawn."""

    sample: int
    pool: dict[int, bytes]
    keys: list[Key] = field(default_factory=list)
    used: set[Key] = field(default_factory=set)


UNDER_WAY = 16  # samples that may be between parts, and 4 more a board
_FRESH = 1 << 31  # numbers of requests that are made once more; samples have smaller ones


class Stages:
    """The samples of one job. `answers`: sample -> outputs of the whole, of those that are through."""

    def __init__(self, dispatcher: Dispatcher, route: Route, job: int) -> None:
        self.answers: dict[int, bytes] = {}
        self.steps = 0  # requests that were answered
        self._dispatcher, self._route, self._job = dispatcher, route, job
        self._next = _FRESH
        self._trips: dict[Key, _Trip] = {}
        self._by_sample: dict[int, _Trip] = {}

    @property
    def under_way(self) -> int:
        """Samples that have begun, and are not through."""
        return len(self._by_sample) - len(self.answers)

    def begin(self, now: float, sample: int, inputs: bytes) -> list[Action]:
        whole = self._route.whole
        trip = _Trip(sample, _apart(whole, whole.inputs, self._route.parts[0].inputs, inputs))
        self._by_sample[sample] = trip
        return self._ask(now, trip, Key(self._job, sample, 0), inputs if len(self._route) == 1 else None)

    def sample(self, key: Key) -> int | None:
        trip = self._trips.get(key)
        return None if trip is None else trip.sample

    def done(self, now: float, key: Key, outputs: bytes) -> list[Action]:
        trip = self._trips.get(key)
        if trip is None:
            return []
        self.steps += 1
        part = self._route.parts[key.stage]
        model = self._route.models[key.stage]
        trip.pool |= _apart(model, model.outputs, part.gives, outputs)
        if key.stage + 1 == len(self._route):
            self.answers[trip.sample] = b"".join(trip.pool[t] for t in part.outputs)
            return []
        following = Key(self._job, trip.sample, key.stage + 1)
        if following in trip.used:  # boards may still answer it, from what was withdrawn
            following = Key(self._job, self._next, key.stage + 1)
            self._next = _FRESH | (self._next + 1) & 0xFFFFFFFF
        return self._ask(now, trip, following)

    def withdrawn(self, key: Key) -> None:
        """Drop all that was computed from this answer; the right one follows."""
        trip = self._trips.get(key)
        if trip is None:
            return
        self.answers.pop(trip.sample, None)
        for later in trip.keys[key.stage + 1 :]:
            self._dispatcher.abandon(later)
            del self._trips[later]
        del trip.keys[key.stage + 1 :]

    def forget(self, sample: int) -> None:
        """Drop a sample; late answers are ignored."""
        trip = self._by_sample.pop(sample, None)
        if trip is None:
            return
        if self.answers.pop(sample, None) is None:
            for key in trip.keys:
                self._dispatcher.abandon(key)
        self._dispatcher.forget(trip.used)
        for key in trip.keys:
            self._trips.pop(key, None)

    def forget_all(self) -> None:
        for sample in list(self._by_sample):
            self.forget(sample)

    def _ask(self, now: float, trip: _Trip, key: Key, inputs: bytes | None = None) -> list[Action]:
        if inputs is None:
            inputs = b"".join(trip.pool[t] for t in self._route.parts[key.stage].takes)
        trip.keys.append(key)
        trip.used.add(key)
        self._trips[key] = trip
        model = self._route.models[key.stage]
        size = sum(model.tensors[t].bytes for t in model.outputs)
        return self._dispatcher.submit(now, key, self._route.crcs[key.stage], inputs, size=size)


def _apart(model: ModelFile, tensors: Sequence[int], numbers: Sequence[int], data: bytes) -> dict[int, bytes]:
    """Tensors that lie one after the other, by their numbers in the whole."""
    found, at = {}, 0
    for t, number in zip(tensors, numbers, strict=True):
        size = model.tensors[t].bytes
        found[number] = data[at : at + size]
        at += size
    return found
