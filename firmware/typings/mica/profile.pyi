from array import array
from collections.abc import Callable, Sequence

from .layer import Layer
from .model import Inputs, Model

class Profile:
    layers: list[Layer]
    us: array[int]
    total: int
    runs: int
    overhead: int
    def __init__(self, layers: list[Layer], us: array[int], total: int, runs: int) -> None: ...
    def chart(self, width: int = 40) -> None: ...
    def trace(self, write: Callable[[str], object]) -> None: ...
    def save(self, path: str) -> None: ...

def measure(
    model: Model, read: Callable[[], int], mask: int, runs: int, fill: Callable[[], object] | None = None
) -> tuple[Sequence[int], int]: ...
def profile(model: Model, runs: int, inputs: Inputs | None) -> Profile: ...
