from array import array
from collections.abc import Callable, Sequence
from typing import Any

from mica.model import Fill, Model

SLICE: int
KINDS: tuple[str, ...]

class Failed(RuntimeError): ...

class Supervisor:
    model: Model
    on_spare: bool
    counts: dict[str, int]
    events: list[tuple[int, str, str | None]]
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
    ) -> None: ...
    def predict(
        self, inputs: Sequence[Sequence[Any] | Any | Fill] | dict[str, Any], *, raw: bool = False
    ) -> list[list[float]] | list[array[Any]]: ...
    def run(self) -> None: ...
    def input(self, i: int = 0) -> memoryview: ...
    def output(self, i: int = 0) -> memoryview: ...
    def top(self, k: int = 1, i: int | str | None = None) -> list[tuple[str | int, float]]: ...
    def reset(self) -> None: ...
    def restore(self) -> bool: ...
    def deinit(self) -> None: ...
    def __enter__(self) -> Supervisor: ...
    def __exit__(self, *_: object) -> None: ...
