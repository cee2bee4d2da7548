from collections.abc import Mapping, Sequence
from typing import Any

from mica.audio import Listener
from mica.model import Model

class MPU6050:
    axes: int
    rate: int

    def __init__(self, i2c: Any, rate: int = 100, address: int = 0x68) -> None: ...
    def read(self, buffer: Any, at: int, most: int) -> int: ...

class MPU6500(MPU6050):
    def __init__(self, spi: Any, cs: Any, rate: int = 100) -> None: ...

class Rows:
    by_irq: bool
    block: int
    source: Any
    count: int
    size: int
    lost: bool

    def __init__(self, source: Any, rows: int) -> None: ...
    def read(self) -> bool: ...
    def copy(self, end: int, buffer: Any) -> None: ...
    def still(self, end: int, n: int) -> bool: ...
    def close(self) -> None: ...

class Watcher(Listener):
    def __init__(
        self,
        model: Model,
        source: Any,
        labels: Sequence[str | int] | None,
        threshold: float | Mapping[str, float],
        mean: int,
        dead_ms: int,
        step: int,
        ms: int,
        slice_us: int,
    ) -> None: ...

def watch(
    model: Model,
    source: Any,
    *,
    labels: Sequence[str | int] | None = None,
    threshold: float | Mapping[str, float] = 0.7,
    mean: int = 3,
    dead_ms: int = 1000,
    step: int = 0,
    ms: int = 0,
    slice_us: int = 10_000,
) -> Watcher: ...
