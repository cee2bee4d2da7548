"""Collects what a pass cannot take, so that a person is told of all of it at once."""

from collections.abc import Iterator
from contextlib import contextmanager

from mica.errors import Unsupported
from mica.ir.graph import Node


class Refusals:
    """Usage: `with refusals.at(node): rewrite(node)` notes a ValueError inside; `refusals.stop()` raises them all."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    @contextmanager
    def at(self, node: Node) -> Iterator[None]:
        try:
            yield
        except ValueError as e:
            self.reasons.append(f"node '{node.name}' ({node.op}): {e}")

    def stop(self) -> None:
        """Raises Unsupported with one line a cause, where there were any."""
        if self.reasons:
            raise Unsupported.because("cannot be packed", self.reasons)
