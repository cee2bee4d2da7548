from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import _mica
from mica.hooks import Hook
from mica.layer import Layer

def calls(m: _mica.Model, step: Any, begin: int = 0, end: int | None = None) -> Iterator[tuple[int, int, int]]: ...
def made(m: _mica.Model, t: int, writable: bool = False) -> memoryview: ...
def read(m: _mica.Model, t: int, y: int, params: Mapping[str, int]) -> tuple[memoryview, int]: ...
def layers(
    m: _mica.Model, steps: Sequence[Any], feed: Callable[[], object] | None = None
) -> Iterator[tuple[int, int | None, memoryview | None]]: ...

class Hooked:
    rows: int
    first: int
    strip: int
    def __init__(self, step: Any, layer: Layer, hook: Hook, model: _mica.Model) -> None: ...
    def __call__(self, begin: int = 0, end: int | None = None) -> None: ...

def fallback(
    step_of: Callable[[_mica.Model, int], Any],
    make: Callable[[Any], Callable[[], None]],
    model: _mica.Model,
    index: int,
) -> Callable[[], None]: ...
