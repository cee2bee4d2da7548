"""A bus of four functions, by which peripherals know their chip, and the exception that stops the board."""

from collections.abc import Callable
from typing import NamedTuple

from clock import Clock


class Stopped(Exception):
    """The board cannot go on. `kind` is bootsel, crash or firmware."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Bus(NamedTuple):
    """read(address, size) and write(address, size, value) are registers of other blocks; irq(number, on) is an
    interrupt; `now` has the time.
    """

    read: Callable[[int, int], int]
    write: Callable[[int, int, int], None]
    irq: Callable[[int, bool], None]
    now: Clock
