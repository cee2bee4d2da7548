from array import array
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Literal, TypeVar, overload

import _mica

from .hooks import Hook, Which
from .layer import Layer
from .profile import Profile

Fill = Callable[[memoryview, tuple[int, ...], int], object]  # buffer, shape, ord(dtype)
Input = Sequence[Any] | Any | Fill  # numbers, a buffer, or a function that fills the tensor
Inputs = Sequence[Input] | Mapping[str, Input]
_Outputs = TypeVar("_Outputs", Sequence[Any], Mapping[str, Any])

def register(op: str, f: Callable[[Any, Any, dict[str, Any]], object] | None) -> None: ...

class Model:
    input_names: tuple[str, ...]
    input_shape: tuple[tuple[int, ...], ...]
    input_dtype: tuple[str, ...]
    input_scale: tuple[float, ...]
    input_zero_point: tuple[int, ...]
    output_names: tuple[str, ...]
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
    def __init__(
        self,
        source: str | Any,
        arena: Any = None,
        *,
        strict: bool = False,
        python: bool | Sequence[str] = (),
        key: bytes | None = None,
    ) -> None: ...
    @overload
    def predict(self, inputs: Inputs, *, raw: Literal[False] = False) -> list[list[float]]: ...
    @overload
    def predict(self, inputs: Inputs, *, raw: Literal[True]) -> list[array[int]]: ...
    def predict_into(self, inputs: Inputs, outputs: _Outputs) -> _Outputs: ...
    def top(self, k: int = 1, i: int | str | None = None) -> list[tuple[str | int, float]]: ...
    def run(self) -> None: ...
    def see(
        self,
        frame: Any,
        width: int,
        height: int,
        format: str,
        part: tuple[int, int, int, int] | None = None,
        area: bool | None = None,
    ) -> None: ...
    def selftest(self) -> Layer | None: ...
    def reset(self) -> None: ...
    def input(self, i: int | str = 0) -> memoryview: ...
    def output(self, i: int | str = 0) -> memoryview: ...
    def hook(
        self,
        which: Which = "*",
        before: Callable[[Layer], object] | None = None,
        after: Callable[[Layer], object] | None = None,
        around: Callable[[Layer, Callable[[], None]], object] | None = None,
    ) -> Hook: ...
    def profile(self, n: int = 10, inputs: Inputs | None = None) -> Profile: ...
    @overload
    def arun(self, inputs: None = None, *, slice_us: int = 1000) -> Coroutine[Any, Any, None]: ...
    @overload
    def arun(self, inputs: Inputs, *, slice_us: int = 1000) -> Coroutine[Any, Any, list[list[float]]]: ...
    def start(self, inputs: Inputs | None = None) -> None: ...
    def resume(self, slice_us: int = 1000) -> bool: ...
    def stop(self) -> None: ...
    def deinit(self) -> None: ...
    def __enter__(self) -> Model: ...
    def __exit__(self, *_: object) -> None: ...
