from array import array
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mica.model import Model

class Event(NamedTuple):
    label: str | int | None
    score: float
    ms: int
    problem: str | None

def room(samples: int, block: int) -> array[int]: ...

class Ring:
    source: Any
    count: int
    size: int
    block: int
    by_irq: bool

    def __init__(self, source: Any, samples: int, bits: int = 16, block: int = 256) -> None: ...
    def read(self) -> bool: ...
    def copy(self, end: int, buffer: Any) -> None: ...
    def still(self, end: int, n: int) -> bool: ...
    def close(self) -> None: ...

class Listener:
    model: Model
    rate: int
    labels: Sequence[str | int] | None
    threshold: float | Mapping[str, float]
    mean: int
    dead_ms: int
    step: int
    bits: int
    block: int
    spare: int
    ms: int
    slice_us: int
    scores: list[float]

    def __init__(self, model: Model, source: Any, **settings: Any) -> None: ...
    @property
    def used(self) -> float: ...
    def __iter__(self) -> Listener: ...
    def __next__(self) -> Event: ...
    def __aiter__(self) -> Listener: ...
    async def __anext__(self) -> Event: ...
    def close(self) -> None: ...
    def __enter__(self) -> Listener: ...
    def __exit__(self, *args: Any) -> None: ...

listen = Listener
