"""Graph, node, value: what every stage between the ONNX file and the packed bytes works on.

A `Value` is one tensor: an activation, or a constant when `data` is set. A `Node` applies one operator (a row of
`ir/ops.py`) to values. A `Graph` keeps its nodes in an order in which every value is made before it is read. Passes
take a graph and return one; they may change it in place, the caller no longer uses the old one.
"""

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mica.format.values import HIGH, HIGH16, LOW, LOW16, dequantise_f64, quantise16_f64, quantise_f64

StatePair = tuple[str, str]  # names of a state: its input, and the output that becomes it


@dataclass(frozen=True)
class Quant:
    """Scale and zero point of a tensor: real = scale * (q - zero_point), the same for all its elements.

    q is int8; with bits = 16 it is int16, and the zero point 0.
    """

    scale: float
    zero_point: int
    bits: int = 8

    @property
    def dtype(self) -> str:
        """Element type of the integers."""
        return "int16" if self.bits == 16 else "int8"

    @property
    def limits(self) -> tuple[int, int]:
        """The least integer and the largest."""
        return (LOW16, HIGH16) if self.bits == 16 else (LOW, HIGH)

    @property
    def reals(self) -> tuple[float, float]:
        """The real numbers that these stand for."""
        low, high = self.limits
        return (low - self.zero_point) * self.scale, (high - self.zero_point) * self.scale

    def quantise(self, real: np.ndarray) -> np.ndarray:
        """Real numbers -> integers, for tables and constants."""
        if self.bits == 16:
            return quantise16_f64(real, self.scale)
        return quantise_f64(real, self.scale, self.zero_point)

    def dequantise(self, q: np.ndarray) -> np.ndarray:
        """Integers -> float32 real numbers."""
        return dequantise_f64(q, self.scale, self.zero_point).astype(np.float32)

    def levels(self) -> np.ndarray:
        """The real numbers of all 256 integers, or 65536, float64."""
        low, high = self.limits
        return dequantise_f64(np.arange(low, high + 1), self.scale, self.zero_point)


@dataclass
class Value:
    """One tensor. `shape` is always fully known; `data` is a constant's array, `quant` an int8 activation's scale.

    In a float graph `quant` is what an already quantised model says: it binds the quantiser, and a pass may not drop a
    value that has one. `weight_scale` belongs to a float constant that came as integers: what one step of each of its
    elements is worth, an array that broadcasts to the data. `whole` inputs are integers that count as real numbers.
    `bits` are those that an integer weight takes in a file. `held`: it is a state that is written in place, this many
    bytes into the space of states (pack/state.py); -1: it is not.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    data: np.ndarray | None = None
    quant: Quant | None = None
    weight_scale: np.ndarray | None = None
    whole: bool = False
    bits: int = 8
    held: int = -1

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)  # a file can say 2**93, which an int64 cannot

    @property
    def bytes(self) -> int:
        """Bytes in the arena, in an integer graph."""
        return self.size * np.dtype(self.dtype).itemsize


@dataclass
class Node:
    """One operator application. `name` is the ONNX node's, so that an error can point at it; absent inputs are ''."""

    op: str
    name: str
    inputs: list[str]
    outputs: list[str]
    attrs: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        attrs = ", ".join(f"{k}={v}" for k, v in self.attrs.items() if not isinstance(v, np.ndarray))
        return f"{', '.join(self.outputs)} = {self.op}({', '.join(self.inputs)}) {{{attrs}}}  # {self.name}"


class Graph:
    """Nodes in execution order over a table of values."""

    def __init__(self, name: str, inputs: Iterable[str] = (), outputs: Iterable[str] = ()) -> None:
        self.name = name
        self.nodes: list[Node] = []
        self.values: dict[str, Value] = {}
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.states: list[
            tuple[str, str]
        ] = []  # an input and an output that are one tensor, which lives from run to run
        self.labels: list[str] = []  # names of the classes, where the file has some
        self.warnings: list[str] = []  # messages of the importer and the passes to a person
        self.coarser: list[str] = []  # int16 tensors that become int8
        self.features: set[str] = set()  # inputs that a front end will make: int8, never NaN
        self._serial = itertools.count()

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __str__(self) -> str:
        """A textual dump: inputs, one line a node with its output shapes, outputs."""
        lines = [f"graph {self.name}"]
        lines += [f"  input {n} {list(self.values[n].shape)}" for n in self.inputs]
        for node in self.nodes:
            shapes = " ".join(str(list(self.values[o].shape)) for o in node.outputs)
            lines.append(f"  {node} {shapes}")
        lines += [f"  output {n} {list(self.values[n].shape)}" for n in self.outputs]
        return "\n".join(lines)

    # Values

    def value(self, name: str) -> Value:
        return self.values[name]

    def data(self, name: str) -> np.ndarray | None:
        """The constant behind a name, or None when it is an activation or absent."""
        return self.values[name].data if name else None

    def is_given(self, name: str) -> bool:
        """True if a value is an input of the model that no front end makes: it may stay float32."""
        return name in self.inputs and name not in self.features

    def is_const(self, name: str) -> bool:
        return bool(name) and self.values[name].data is not None

    def fresh(self, base: str) -> str:
        """A value name not in use, derived from `base`."""
        name = base
        while name in self.values:
            name = f"{base}.{next(self._serial)}"
        return name

    def new_value(self, base: str, shape: Iterable[int], dtype: str = "float32") -> str:
        name = self.fresh(base)
        self.values[name] = Value(name, tuple(int(d) for d in shape), dtype)
        return name

    def new_const(self, base: str, data: np.ndarray) -> str:
        name = self.fresh(base)
        self.values[name] = Value(name, tuple(data.shape), str(data.dtype), data)
        return name

    # Nodes

    def producers(self) -> dict[str, Node]:
        """Value name -> the node that makes it. Built on each call: passes change the graph between calls."""
        return {o: n for n in self.nodes for o in n.outputs if o}

    def consumers(self) -> dict[str, list[Node]]:
        """Value name -> the nodes that read it, once per reading node."""
        table: dict[str, list[Node]] = {}
        for n in self.nodes:
            for i in dict.fromkeys(n.inputs):
                if i:
                    table.setdefault(i, []).append(n)
        return table

    def sole_consumer(self, name: str, consumers: dict[str, list[Node]]) -> Node | None:
        """The only reader of a value that is not a graph output, or None."""
        readers = consumers.get(name, [])
        return readers[0] if len(readers) == 1 and name not in self.outputs else None

    def insert_before(self, node: Node, new: Node) -> None:
        self.nodes.insert(self.index(node), new)

    def index(self, node: Node) -> int:
        """Position of a node, by identity: two equal nodes may stand in one graph."""
        return next(i for i, n in enumerate(self.nodes) if n is node)

    def remove(self, node: Node) -> None:
        del self.nodes[self.index(node)]

    def replace_uses(self, old: str, new: str) -> None:
        """Every reader of `old`, and the graph outputs, read `new` instead."""
        for n in self.nodes:
            if old in n.inputs:  # seldom: a list for each node would take most of the time
                n.inputs = [new if i == old else i for i in n.inputs]
        self.outputs = [new if o == old else o for o in self.outputs]

    def rename_value(self, old: str, new: str) -> None:
        """Gives a value another name everywhere; `new` must be free."""
        value = self.values.pop(old)
        value.name = new
        self.values[new] = value
        for n in self.nodes:
            n.inputs = [new if i == old else i for i in n.inputs]
            n.outputs = [new if o == old else o for o in n.outputs]
        self.inputs = [new if i == old else i for i in self.inputs]
        self.outputs = [new if o == old else o for o in self.outputs]
