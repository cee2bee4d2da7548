from collections.abc import Callable, Sequence
from typing import Any

import _mica

Fill = Callable[[memoryview, tuple[int, ...], int], object]  # buffer, shape, ord(dtype)

class Layer:
    index: int
    name: str
    op: str
    input_shape: tuple[tuple[int, ...], ...]
    output_shape: tuple[tuple[int, ...], ...]
    macs: int
    bytes: int
    runs_in: str  # "C" or "Python"

class Model:
    input_shape: tuple[tuple[int, ...], ...]
    input_dtype: tuple[str, ...]
    input_scale: tuple[float, ...]
    input_zero_point: tuple[int, ...]
    output_shape: tuple[tuple[int, ...], ...]
    output_dtype: tuple[str, ...]
    output_scale: tuple[float, ...]
    output_zero_point: tuple[int, ...]
    name: str
    labels: list[str]
    len: int
    ram: int
    copied: bool
    arena: _mica.Arena
    layers: list[Layer]
    def __init__(self, source: str | Any, arena: Any = None) -> None: ...
    def predict(self, inputs: Sequence[Sequence[Any] | Any | Fill]) -> list[list[float]]: ...
    def run(self) -> None: ...
    def input(self, i: int = 0) -> memoryview: ...
    def output(self, i: int = 0) -> memoryview: ...
    def selftest(self) -> Layer | None: ...
    def deinit(self) -> None: ...
    def __enter__(self) -> Model: ...
    def __exit__(self, *_: object) -> None: ...
