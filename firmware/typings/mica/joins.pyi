from collections.abc import Callable
from typing import Any

import _mica

class Join:
    name: str
    first: int
    parts: int
    rows: int
    runs: list[int]
    shape: tuple[int, ...]

    def __init__(self, m: _mica.Model, name: str, first: int, parts: int, axis: int) -> None: ...
    def read(self, m: _mica.Model) -> Any: ...
    def read_into(self, m: _mica.Model, y: Any) -> None: ...
    def top(self, m: _mica.Model, k: int, largest: Callable[[Any, int], list[int]]) -> list[tuple[int, float]]: ...

def read(m: _mica.Model, text: str) -> list[Join]: ...
