"""Integers of an already quantised model become the real numbers that they stand for, rounded where the model rounds.

    Dequantize(Quantize(x, s, z), s, z)       =>   Unary(x, quantise s z)
    MaxPool(int8), Reshape(int8) ...          =>   the same on real numbers
    Dequantize(int8 x, s', z'), another scale =>   Unary(Unary(x, affine), quantise s' z'): the same integers,
                                                   read again
    int8 or uint8 graph input                 =>   Unary(input, quantise), scale as its first reader has it, or 1
    ConvInteger(x, w, zx, zw)                 =>   Conv(x, (w - zw) / sx), likewise MatMulInteger
    DynamicQuantizeLinear(x)                  =>   x: its range comes from calibration like that of any float tensor

`quantise` stands between an operator and its readers, so no later pass can merge what the model rounds apart. uint8
becomes int8 by subtracting 128 from integers and zero points;
16 bits with a zero point other than 0 become int16 of the same range.
"""

from dataclasses import dataclass

import numpy as np

from mica.ir.graph import Graph, Node, Quant
from mica.ir.ops import MOVES
from mica.passes.refusal import Refusals

FLOAT = 1  # TensorProto.FLOAT
# As MOVES, of several tensors with one scale and zero point.
JOINT_MOVES = ("Concat", "Max", "Min")
INTEGER_PRODUCTS = {"ConvInteger": "Conv", "MatMulInteger": "MatMul"}


@dataclass(frozen=True)
class View:
    """Relation of the file's integers to the real numbers in the graph: real = scale * (integer - zero_point).

    dtype is the integers' type; "real" after dynamic quantisation, because the graph then has real numbers.
    """

    scale: float
    zero_point: int
    dtype: str

    @property
    def lopsided(self) -> bool:
        """True of 16 bits whose range has no middle at 0."""
        return self.dtype == "uint16" or (self.dtype == "int16" and self.zero_point != 0)

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest real number."""
        limits = np.iinfo(self.dtype)
        return self.scale * (int(limits.min) - self.zero_point), self.scale * (int(limits.max) - self.zero_point)

    @property
    def grid(self) -> Quant:
        """Return the grid of int8, or int16, whose zero point is 0: as many steps on either side as the longer one
        has."""
        if self.lopsided:
            return Quant(max(-self.ends[0], self.ends[1]) / 32767, 0, 16)
        if self.dtype == "int16":
            return Quant(self.scale, 0, 16)
        return Quant(self.scale, self.zero_point - 128 if self.dtype == "uint8" else self.zero_point)


def run(g: Graph) -> Graph:
    rewriter = _Rewriter(g)
    rewriter.inputs()
    for node in g.nodes:
        with rewriter.refusals.at(node):
            rewriter.node(node)
    rewriter.refusals.stop()
    rewriter.outputs()
    g.nodes = rewriter.nodes
    for value in g.values.values():
        if value.data is None and value.name not in g.inputs:
            value.dtype = "float32"
    return g


def quantise(x: str, y: str, name: str, grid: Quant) -> Node:
    """y = what int8 with this scale and zero point makes of x, or int16 with this scale."""
    wide = {"function": "quantise16", "arguments": (grid.scale,)}
    narrow = {"function": "quantise", "arguments": (grid.scale, grid.zero_point)}
    return Node("Unary", name, [x], [y], wide if grid.bits == 16 else narrow)


def is_quantise(node: Node | None) -> bool:
    return node is not None and node.op == "Unary" and node.attrs["function"] in ("quantise", "quantise16")


def grid_of(node: Node) -> Quant:
    """Scale and zero point of a quantise node."""
    if node.attrs["function"] == "quantise16":
        return Quant(node.attrs["arguments"][0], 0, 16)
    return Quant(*node.attrs["arguments"])


class _Rewriter:
    """views: the values that hold integers in the file; reals: the values that hold real numbers instead."""

    def __init__(self, g: Graph) -> None:
        self.g = g
        self.nodes: list[Node] = []
        self.views: dict[str, View] = {}
        self.reals: dict[str, str] = {}
        self.refusals = Refusals()

    def inputs(self) -> None:
        """Integer inputs of the graph."""
        consumers = self.g.consumers()
        for name in self.g.inputs:
            value = self.g.value(name)
            if value.dtype not in ("int8", "uint8"):
                continue
            reader = self._reader(name, consumers)
            view = View(1.0, 0, value.dtype)
            if reader is not None:
                with self.refusals.at(reader):
                    if reader.op in INTEGER_PRODUCTS:
                        view = View(1.0, int(self._parameter(reader, 2, "zero point")), value.dtype)
                    else:
                        view = self._view(reader, value.dtype)
            real = self._integers(name, view)
            self.nodes.append(quantise(name, real, name, view.grid))

    def outputs(self) -> None:
        """Integer outputs of the graph: the real numbers under the integers' name, at no cost."""
        for name in self.g.outputs:
            if name in self.reals and name not in self.g.inputs:
                self.nodes.append(Node("Reshape", name, [self.reals[name]], [name]))

    def _integers(self, name: str, view: View) -> str:
        """Notes that `name` holds integers; returns the value for its real numbers."""
        self.views[name] = view
        self.reals[name] = self.g.new_value(f"{name}.real", self.g.value(name).shape)
        return self.reals[name]

    def _reader(self, name: str, consumers: dict[str, list[Node]]) -> Node | None:
        """The first node behind `name` that says what its integers are, through operators that move its elements."""
        todo = [(name, node) for node in reversed(consumers.get(name, []))]
        while todo:
            name, node = todo.pop()
            if node.op == "DequantizeLinear" or (node.op in INTEGER_PRODUCTS and node.inputs[0] == name):
                return node
            if node.op in MOVES and node.inputs[0] == name:
                moved = node.outputs[0]
                todo += [(moved, n) for n in reversed(consumers.get(moved, []))]
        return None

    def node(self, node: Node) -> None:
        op = node.op
        if op == "QuantizeLinear":
            self._quantise(node)
        elif op == "DequantizeLinear":
            self._dequantise(node)
        elif op == "DynamicQuantizeLinear":
            real = self._integers(node.outputs[0], View(1.0, 0, "real"))
            self.nodes.append(Node("Identity", node.name, node.inputs, [real]))
        elif op in INTEGER_PRODUCTS:
            self._product(node)
        elif op == "Cast" and node.inputs[0] in self.views:
            self._cast(node)
        elif not any(i in self.views for i in node.inputs):
            self.nodes.append(node)
        else:
            self._move(node)

    def _quantise(self, node: Node) -> None:
        x, y = node.inputs[0], node.outputs[0]
        if x in self.views:
            raise ValueError("it quantises what is quantised already")
        view = self._view(node, self.g.value(y).dtype)
        if view.lopsided and y in self.g.outputs:
            raise ValueError(
                "an output of 16-bit integers with a zero point other than 0; a DequantizeLinear may follow"
            )
        if view.lopsided:  # the grid has more on one side; a Relu may stand in the shorter one's end
            ends = [self.g.new_const(f"{y}.end", np.array(end, np.float32)) for end in view.ends]
            clipped = self.g.new_value(f"{y}.clipped", self.g.value(y).shape)
            self.nodes.append(Node("Clip", node.name, [x, *ends], [clipped]))
            x = clipped
        self.nodes.append(quantise(x, self._integers(y, view), node.name, view.grid))

    def _view(self, node: Node, dtype: str) -> View:
        """Parameters of a QuantizeLinear or DequantizeLinear of an activation."""
        if dtype not in ("int8", "uint8", "int16", "uint16"):
            raise ValueError(f"activations of {dtype}; mica takes those of 8 and 16 bits. Quantise the model to 8 bits")
        scale = self._parameter(node, 1, "scale")
        if not (np.isfinite(scale) and scale > 0):
            raise ValueError(f"a scale of {scale}")
        return View(float(np.float32(scale)), int(self._parameter(node, 2, "zero point")), dtype)

    def _parameter(self, node: Node, index: int, what: str) -> float:
        """The only entry of a constant input; 0 where it is absent."""
        if len(node.inputs) <= index or not node.inputs[index]:
            return 0
        data = self.g.data(node.inputs[index])
        if data is None:
            raise ValueError(f"a {what} that is not constant")
        if data.size != 1:
            raise ValueError(f"a {what} for each channel of an activation; mica has one for a tensor")
        return float(data.reshape(-1)[0])

    def _dequantise(self, node: Node) -> None:
        x, y = node.inputs[0], node.outputs[0]
        view = self.views.get(x)
        if view is None:
            raise ValueError(f"it reads '{x}', which holds no integers")
        if view.dtype == "int32":
            self._dequantise_sums(node, view)
        elif view.dtype == "real":
            raise ValueError("a dynamically quantised tensor, read with a fixed scale")
        else:
            self._alias(node, self._reread(x, self._view(node, view.dtype), node), y)

    def _dequantise_sums(self, node: Node, view: View) -> None:
        """Dequantize(int32 x) => Affine(x): it is folded into the product that made x."""
        scale = self.g.data(node.inputs[1])
        if scale is None or (len(node.inputs) > 2 and node.inputs[2] and np.any(self.g.data(node.inputs[2]))):
            raise ValueError("a scale that is not constant, or 32-bit integers with a zero point")
        axis = None if scale.size == 1 else int(node.attrs.get("axis", 1)) % len(self.g.value(node.inputs[0]).shape)
        factor = scale.astype(np.float64).reshape(() if axis is None else -1)
        attrs = {"axis": axis, "scale": factor, "shift": np.zeros_like(factor)}
        self.nodes.append(Node("Affine", node.name, [self.reals[node.inputs[0]]], node.outputs, attrs))

    def _alias(self, node: Node, x: str, y: str) -> None:
        """Readers of y read x. An output keeps its name through a Reshape, which costs nothing."""
        if y in self.g.outputs:
            self.nodes.append(Node("Reshape", node.name, [x], [y]))
        else:
            self.g.replace_uses(y, x)

    def _reread(self, x: str, expected: View, node: Node) -> str:
        """The integers x as real numbers by the parameters of `expected`."""
        has, real = self.views[x], self.reals[x]
        if (has.scale, has.zero_point) == (expected.scale, expected.zero_point):
            return real
        # real' = scale' * (q - zero'), q = real / scale + zero
        arguments = (expected.scale / has.scale, (has.zero_point - expected.zero_point) * expected.scale)
        shape = self.g.value(x).shape
        affine = self.g.new_value(f"{x}.reread", shape)
        y = self.g.new_value(f"{x}.reread", shape)
        self.nodes.append(Node("Unary", node.name, [real], [affine], {"function": "affine", "arguments": arguments}))
        self.nodes.append(quantise(affine, y, node.name, expected.grid))
        return y

    def _product(self, node: Node) -> None:
        """ConvInteger(x, w, zx, zw): sum((x - zx) * (w - zw)) = sum(real x * (w - zw) / scale)."""
        x, w_name = node.inputs[:2]
        view, w = self.views.get(x), self.g.data(w_name)
        if view is None or w is None:
            raise ValueError("operands must be a quantised tensor and constant weights")
        zero = int(self._parameter(node, 2, "zero point"))
        if view.dtype == "real" and zero != view.zero_point:
            raise ValueError("a zero point that is not the one of its dynamic quantisation")
        if view.zero_point != zero:
            view = View(1.0, zero, view.dtype)
        real = self._reread(x, view, node)
        zw = self.g.data(node.inputs[3]) if len(node.inputs) > 3 and node.inputs[3] else np.zeros((), np.int8)
        if zw is None:
            raise ValueError("a zero point that is not constant")
        integers = w.astype(np.int64)
        if zw.size > 1:  # one for each output channel
            zw = zw.reshape((-1,) + (1,) * (w.ndim - 1)) if node.op == "ConvInteger" else zw.reshape(-1)
        integers = integers - zw.astype(np.int64)
        weights = self.g.new_const(f"{w_name}.real", (integers / view.scale).astype(np.float32))
        self.g.value(weights).weight_scale = np.full((1,) * w.ndim, 1.0 / view.scale)
        y = self._integers(node.outputs[0], View(1.0, 0, "int32"))
        self.nodes.append(Node(INTEGER_PRODUCTS[node.op], node.name, [real, weights], [y], node.attrs))

    def _cast(self, node: Node) -> None:
        """Integers as numbers, whatever they stood for."""
        x, y = node.inputs[0], node.outputs[0]
        view = self.views[x]
        if node.attrs.get("to") != FLOAT:
            raise ValueError("a cast of quantised integers to another type than float")
        self._alias(node, self._reread(x, View(1.0, 0, view.dtype), node), y)

    def _move(self, node: Node) -> None:
        """An operator that means on integers what it means on real numbers."""
        views = {self.views[i] for i in node.inputs if i in self.views}
        view = next(iter(views))
        if node.op in JOINT_MOVES:
            if len(views) > 1 or not all(i in self.views for i in node.inputs):
                raise ValueError("it combines integers of different scales or zero points")
        elif node.op == "Pad":
            self._real_constants(node, (2,), view, default=0)
        elif node.op == "Clip":
            self._real_constants(node, (1, 2), view)
        elif node.op not in MOVES or node.inputs[0] not in self.views:
            raise ValueError(f"computes with {view.dtype} numbers; only quantised operators do that")
        inputs = [self.reals.get(i, i) for i in node.inputs]
        outputs = [self._integers(o, view) if o else "" for o in node.outputs]
        if node.op in ("Max", "Min"):  # elements of several tensors: their kernel could give them another scale
            y, outputs = outputs[0], [self.g.new_value(f"{node.name}.joint", self.g.value(outputs[0]).shape)]
            self.nodes.append(Node(node.op, node.name, inputs, outputs, node.attrs))
            self.nodes.append(quantise(outputs[0], y, node.name, view.grid))
            return
        self.nodes.append(Node(node.op, node.name, inputs, outputs, node.attrs))

    def _real_constants(self, node: Node, indices: tuple[int, ...], view: View, default: int | None = None) -> None:
        """Constant inputs that are integers on the view's scale, as real numbers."""
        for k in indices:
            if len(node.inputs) > k and node.inputs[k]:
                data = self.g.data(node.inputs[k])
                if data is None:
                    raise ValueError("an operand that is not constant")
                real = ((data.astype(np.float64) - view.zero_point) * view.scale).astype(np.float32)
            elif default is not None:
                real = np.array((default - view.zero_point) * view.scale, np.float32)
            else:
                continue
            node.inputs += [""] * (k + 1 - len(node.inputs))
            node.inputs[k] = self.g.new_const(f"{node.name}.real", real)
