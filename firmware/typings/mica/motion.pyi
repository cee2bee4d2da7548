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
    def __init__(self, model: Model, source: Any, **settings: Any) -> None: ...

watch = Watcher
