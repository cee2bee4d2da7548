"""int16 that only changes its place: each element is two bytes that stay together, which the kernels of int8 move.

    y = Transpose(x), x int16 [..., C]     =>   y = Reshape(move_s8(Reshape(x))), the Reshapes to and from int8 [...,
                                                2 * C]

Where the innermost dimension itself is taken apart, the bytes have one of their own: [..., C, 2].
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from mica.format.schema import MAX_RANK
from mica.ir import strided_copy
from mica.ir.byte_pairs import Shape, apart, joined, pads_last
from mica.ir.graph import Graph, Node, Quant
from mica.quantise.kernels import movement
from mica.quantise.kernels.common import StepQuantiser, act, emit, quant

# A byte is no number: any scale serves, one for all.
BYTES = Quant(1.0, 0)


class _Bytes:
    """A node's tensors as bytes. Its inputs are put into `g`, a graph for the quantiser of the int8 step."""

    def __init__(self, g: Graph, out: Graph, node: Node) -> None:
        self.real, self.out, self.node = g, out, node
        self.g = Graph(g.name)

    def input(self, name: str, shape: Shape) -> str:
        data = self.real.data(name)
        if data is not None:
            whole = quant(self.out, self.node.outputs[0]).quantise(data)
            return self.g.new_const(name, np.ascontiguousarray(whole).view(np.int8).reshape(shape).astype(np.float32))
        return self._alias(name, shape, lambda view: Node("Reshape", self.node.name, [name], [view]))

    def step(self, op: str, inputs: Sequence[str], shape: Shape, attrs: dict[str, object], **changes: object) -> None:
        """The step on bytes, whose result has this shape, and the node's output as a name for its bytes."""
        y = self.node.outputs[0]
        made = self._alias(y, shape, None)
        step = Node(op, self.node.name, list(inputs), [made], {**attrs, **changes})
        movement.STEPS[op](self.g, self.out, step)
        self.out.nodes.append(Node("Reshape", self.node.name, [made], [y]))

    def _alias(self, name: str, shape: Shape, reshape: Callable[[str], Node] | None) -> str:
        view = self.out.new_value(f"{name}.bytes", shape, "int8")
        self.out.value(view).quant = BYTES
        self.g.values[view] = replace(self.out.value(view))
        if reshape is not None:
            self.out.nodes.append(reshape(view))
        return view


def _transpose(g: Graph, out: Graph, node: Node) -> None:
    x, perm = node.inputs[0], tuple(node.attrs["perm"])
    shape, last = g.value(x).shape, len(perm) - 1
    if perm and perm[last] == last:  # rows stay whole
        b, whole = _Bytes(g, out, node), joined(shape)
        more = tuple(range(len(perm), len(whole)))
        order = (*perm, *more)
        b.step("Transpose", [b.input(x, whole)], tuple(whole[p] for p in order), {"perm": order})
    else:
        _strided(g, out, node)


def _strided(g: Graph, out: Graph, node: Node) -> None:
    """Steps that count elements count bytes, two at a time."""
    x, y = node.inputs[0], node.outputs[0]
    move = strided_copy.read(g, node)
    places = (*((n, 2 * step) for n, step in move.places), (2, 1))
    b, moved = _Bytes(g, out, node), strided_copy.simplify(strided_copy.StridedCopy(2 * move.begin, places))
    view = b.input(x, joined(g.value(x).shape))
    b.step("StridedCopy", [view], joined(g.value(y).shape), {"begin": moved.begin, "places": moved.places})


def _remap(g: Graph, out: Graph, node: Node) -> None:
    """Move in one step, or in two, one of which moves along a single dimension."""
    x, y = node.inputs[0], node.outputs[0]
    shape = g.value(x).shape
    if len(strided_copy.read(g, node).places) < MAX_RANK or len(shape) == MAX_RANK:
        _strided(g, out, node)
        return
    b = _Bytes(g, out, node)
    axes = (*node.attrs["axes"], strided_copy.same(2))
    b.step("Remap", [b.input(x, apart(shape))], apart(g.value(y).shape), {"axes": axes})


def _gather(g: Graph, out: Graph, node: Node) -> None:
    x, y, axis = node.inputs[0], node.outputs[0], node.attrs["axis"]
    shape, made = g.value(x).shape, g.value(y).shape
    b, indices = _Bytes(g, out, node), node.inputs[1]
    data = g.data(indices)
    assert data is not None
    picked = b.g.new_const(indices, data)
    if axis < len(shape) - 1:
        b.step("Gather", [b.input(x, joined(shape)), picked], joined(made), {"axis": axis})
    else:
        flat, made = (int(np.prod(shape[:-1])), shape[-1], 2), (int(np.prod(shape[:-1])), made[-1], 2)
        b.step("Gather", [b.input(x, flat), picked], made, {"axis": 1})


def _concat(g: Graph, out: Graph, node: Node) -> None:
    y, axis = node.outputs[0], node.attrs["axis"]
    lay = joined if joined(g.value(y).shape) != apart(g.value(y).shape) else apart
    b = _Bytes(g, out, node)
    b.step("Concat", [b.input(i, lay(g.value(i).shape)) for i in node.inputs], lay(g.value(y).shape), {"axis": axis})


def _pad(g: Graph, out: Graph, node: Node) -> None:
    """Filled with zeros, whose bytes are alike; another value is added behind that."""
    x, y, a = node.inputs[0], node.outputs[0], node.attrs
    shape, q = g.value(y).shape, quant(out, y)
    fill = int(q.quantise(np.array(a["value"]))) if a["mode"] == "constant" else 0
    if fill not in (0, -1):
        _fill(g, out, node, fill)
        return
    begins, ends = list(a["begins"]), list(a["ends"])
    lay = apart if pads_last(node) or joined(shape) == apart(shape) else joined
    if lay is apart:
        begins, ends = [*begins, 0], [*ends, 0]
    else:
        begins[-1], ends[-1] = 2 * begins[-1], 2 * ends[-1]
    b, around = _Bytes(g, out, node), {"begins": tuple(begins), "ends": tuple(ends), "value": float(fill)}
    b.step("Pad", [b.input(x, lay(g.value(x).shape))], lay(shape), {**a, **around})


def _fill(g: Graph, out: Graph, node: Node, fill: int) -> None:
    """Pad with zeros, and the sum with a constant that is 0 within."""
    y, a = node.outputs[0], node.attrs
    shape, q = g.value(y).shape, quant(out, y)
    padded = out.new_value(f"{y}.padded", shape, q.dtype)
    out.value(padded).quant = q
    g.values.setdefault(padded, replace(out.value(padded)))
    _pad(g, out, replace(node, outputs=[padded], attrs={**a, "value": 0.0}))
    around = np.full(shape, fill, np.int16)
    around[tuple(slice(n, w - m) for n, w, m in zip(a["begins"], shape, a["ends"], strict=True))] = 0
    more = out.new_const(f"{y}.around", around)
    out.value(more).quant = q
    params = {"mult_a": 2, "mult_b": 2, "mult_ab": 0, "shift": 1, **act(q, (None, None))}
    emit(out, node, "binary_s16", [padded, more], [], params)


STEPS: dict[str, StepQuantiser] = {
    "Concat": _concat,
    "Gather": _gather,
    "Pad": _pad,
    "Remap": _remap,
    "StridedCopy": _strided,
    "Transpose": _transpose,
}
