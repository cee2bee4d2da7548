from collections.abc import Sequence

import _mica

class Layer:
    index: int
    name: str
    kernel: str
    op: str  # the same
    input_shape: tuple[tuple[int, ...], ...]
    output_shape: tuple[tuple[int, ...], ...]
    macs: int
    bytes: int
    runs_in: str  # "C" or "Python"
    def __init__(self, model: _mica.Model, index: int) -> None: ...
    def input(self, i: int = 0) -> memoryview: ...
    def output(self, i: int = 0) -> memoryview: ...

def shapes(dims: Sequence[Sequence[int]]) -> str: ...
