from typing import NamedTuple

from mica.model import Model

class Box(NamedTuple):
    label: str | int
    score: float
    x: float
    y: float
    width: float
    height: float

def suppress(
    candidates: list[tuple[int, int, int, int, int, int, int]], limit: int, most: int
) -> list[tuple[int, int, int, int, int, int, int]]: ...
def yolo8(m: Model, threshold: float = 0.25, overlap: float = 0.45, most: int = 100, i: int = 0) -> list[Box]: ...
def yolo5(m: Model, threshold: float = 0.25, overlap: float = 0.45, most: int = 100, i: int = 0) -> list[Box]: ...
def fomo(m: Model, threshold: float = 0.5, cell: int = 8, most: int = 100, i: int = 0) -> list[Box]: ...
