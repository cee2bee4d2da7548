"""The ONNX graph under construction: nodes and constants under names of their own."""

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


class Builder:
    """The graph under construction."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._names: set[str] = set()
        self._node_names: set[str] = set()
        self._made: dict[tuple[Any, ...], str] = {}  # small constants, each once

    def fresh(self, base: str) -> str:
        return _free(base, self._names)

    def fresh_node(self, base: str) -> str:
        return _free(base or "step", self._node_names)

    def const(self, array: np.ndarray, base: str = "c", apart: bool = False) -> str:
        """A constant; a small one that is there already is used again, unless it has to stand apart."""
        array = np.asarray(array, order="C")
        key = (array.dtype.str, array.shape, array.tobytes()) if array.size <= 16 and not apart else None
        if key is not None and key in self._made:
            return self._made[key]
        name = self.fresh(base)
        self.constants.append(numpy_helper.from_array(array, name))
        if key is not None:
            self._made[key] = name
        return name

    def node(self, op: str, *inputs: str, base: str = "v", domain: str = "", output: int = 0, **attributes: Any) -> str:
        """Adds a node; the name of its output, of several that of number `output`, the last that is made."""
        made = [self.fresh(base) for _ in range(output + 1)]
        named = self.fresh_node(f"{base}/{op}")
        self.nodes.append(helper.make_node(op, inputs, made, name=named, domain=domain, **attributes))
        return made[-1]

    def forget(self, begun: int) -> None:
        """Takes back the nodes from number `begun` on, and constants that nobody reads then."""
        del self.nodes[begun:]
        read = {i for n in self.nodes for i in n.input}
        gone = {c.name for c in self.constants} - read
        self.constants = [c for c in self.constants if c.name not in gone]
        self._made = {key: name for key, name in self._made.items() if name not in gone}


def _free(base: str, taken: set[str]) -> str:
    name, k = base, 0
    while name in taken:
        k += 1
        name = f"{base}.{k}"
    taken.add(name)
    return name
