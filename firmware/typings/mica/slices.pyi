from typing import Any

from .model import Inputs, Model

class Run:
    layer: int
    row: int
    def __init__(self, model: Model, inputs: Inputs | None = None) -> None: ...
    def resume(self, slice_us: int) -> bool: ...

async def arun(model: Model, inputs: Inputs | None, slice_us: int) -> Any: ...
