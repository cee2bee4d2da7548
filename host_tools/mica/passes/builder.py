"""Small helpers for passes that write new nodes: each emits one core node and returns the name of its output."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from mica.ir.graph import Graph, Node

TO_NHWC = (0, 2, 3, 1)
TO_NCHW = (0, 3, 1, 2)


class Builder:
    """Appends core nodes to a list. `origin` is the ONNX node's name that all of them carry."""

    def __init__(self, g: Graph, nodes: list[Node], origin: str) -> None:
        self.g = g
        self.nodes = nodes
        self.origin = origin

    def emit(
        self, op: str, inputs: Sequence[str], shape: Iterable[int], attrs: dict[str, Any] | None = None, out: str = ""
    ) -> str:
        """out: a value that exists, and then has the shape already."""
        out = out or self.g.new_value(f"{self.origin}.{op.lower()}", shape)
        self.nodes.append(Node(op, self.origin, list(inputs), [out], dict(attrs or {})))
        return out

    def emit_to(self, out: str, op: str, inputs: Sequence[str], attrs: dict[str, Any] | None = None) -> None:
        """Emit a node into a value that exists."""
        self.nodes.append(Node(op, self.origin, list(inputs), [out], dict(attrs or {})))

    def transpose(self, x: str, perm: Sequence[int]) -> str:
        shape = self.g.value(x).shape
        return self.emit("Transpose", [x], [shape[p] for p in perm], {"perm": tuple(perm)})

    def transpose_to(self, out: str, x: str, perm: Sequence[int]) -> None:
        self.emit_to(out, "Transpose", [x], {"perm": tuple(perm)})

    def reshape(self, x: str, shape: Iterable[int]) -> str:
        return self.emit("Reshape", [x], shape)

    def constant(self, name: str, what: str) -> np.ndarray:
        """Raises ValueError where a value is computed; what: it and its like, in words."""
        data = self.g.data(name)
        if data is None:
            raise ValueError(f"{what} that are not constant")
        return data

    def axis(self, node: Node, rank: int, default: int = 0) -> int:
        """The axis of a node, counted from the first. Raises ValueError."""
        axis = int(node.attrs.get("axis", default))
        if not -rank <= axis < rank:
            raise ValueError(f"axis {axis} of a tensor of {rank} dimensions")
        return axis % rank

    def shape(self, name: str) -> tuple[int, ...]:
        return self.g.value(name).shape


Lowering = Callable[[Graph, Node, Builder], None]


def refuse(reason: str) -> Lowering:
    """Return a lowering that takes no node."""

    def lower(g: Graph, node: Node, b: Builder) -> None:
        raise ValueError(reason)

    return lower
