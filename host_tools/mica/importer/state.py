"""The graph of one import as far as it has grown, and the problems that were found on the way."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx

from mica.importer import precision
from mica.importer.bounds import Bound
from mica.importer.protos import node_name
from mica.ir.graph import Graph, Node, Value


class ImportState:
    """State that the importer's files share. used: names of the file's values; file_bytes: the file's size."""

    def __init__(self, name: str, opset: int, ir_version: int, used: Iterable[str], file_bytes: int) -> None:
        self.graph = Graph(name)
        self.opset = opset
        self.ir_version = ir_version
        self.problems: list[str] = []
        self.fatal = False  # a problem that leaves no graph behind, so that the passes cannot name it with theirs
        self.unknown: set[str] = set()  # activations behind a problem: their shapes are not known
        self.bound = Bound(file_bytes)
        self._names = set(used)

    def stop(self, problem: str) -> None:
        self.problems.append(problem)
        self.fatal = True

    def add_constant(self, name: str, array: np.ndarray) -> None:
        array = precision.single(array)
        self.graph.values[name] = Value(name, tuple(array.shape), str(array.dtype), array)

    def add_exact(self, name: str, array: np.ndarray) -> str:
        """A constant that keeps its float64, or its integers."""
        dtype = "float32" if array.dtype.kind == "f" else str(array.dtype)
        self.graph.values[name] = Value(name, tuple(array.shape), dtype, array)
        return name

    def constant(self, name: str) -> np.ndarray | None:
        return self.graph.values[name].data if name in self.graph.values else None

    def shape(self, x: str) -> tuple[int, ...]:
        """Return the shape of a value; () where it is not known."""
        return self.graph.values[x].shape if x in self.graph.values else ()

    def fresh(self, base: str) -> str:
        """A name that no value of the file has or will get."""
        name, k = base, 0
        while name in self._names or name in self.graph.values:
            k += 1
            name = f"{base}.{k}"
        self._names.add(name)
        return name

    def add_rows(self, op: str, proto: onnx.NodeProto, out: str, width: int, attrs: dict[str, Any]) -> str:
        """An operator on rows of features that ONNX has no definition of: [..., F] -> [..., width],
        or the same shape for width 0."""
        g, x = self.graph, proto.input[0]
        if x not in g.values:
            self.unknown.add(out)
            return out
        if g.is_const(x):
            raise ValueError("its input is constant")
        shape = g.values[x].shape
        g.values[out] = Value(out, (*shape[:-1], width or shape[-1]) if shape else (width or 1,), "float32")
        g.nodes.append(Node(op, node_name(proto), [x], [out], attrs))
        return out
