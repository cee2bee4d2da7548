"""A response that is normalised by those of the channels beside it.

y = LRN(x)    =>   y = x / (bias + alpha * AveragePool(x * x, along the channels))**beta

The window counts its padding, as in the sums of ONNX; so PyTorch's exporter writes it too.
`one_axis_pools` takes the pool.
"""

import math

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes.refusal import Refusals


def run(g: Graph) -> Graph:
    refusals = Refusals()
    for node in list(g.nodes):
        if node.op == "LRN":
            with refusals.at(node):
                _spelled_out(g, node)
    refusals.stop()
    return g


def _spelled_out(g: Graph, node: Node) -> None:
    x, a = node.inputs[0], node.attrs
    shape, size = g.value(x).shape, int(a["size"])
    if len(shape) < 3 or size < 1:
        raise ValueError(f"a window of {size} channels of a tensor of {len(shape)} dimensions")
    volume = (shape[0], 1, shape[1], math.prod(shape[2:]), 1)

    def add(op: str, inputs: list[str], result: tuple[int, ...], **attrs: object) -> str:
        y = g.new_value(f"{node.name}.{op}", result)
        g.insert_before(node, Node(op, node.name, inputs, [y], attrs))
        return y

    def number(value: float) -> str:
        return g.new_const(f"{node.name}.number", np.float32(value).reshape(1))

    def reshape(v: str, result: tuple[int, ...]) -> str:
        return add("Reshape", [v, g.new_const(f"{node.name}.shape", np.array(result, np.int64))], result)

    pads = [(size - 1) // 2, 0, 0, size // 2, 0, 0]
    window = {"kernel_shape": [size, 1, 1], "strides": [1, 1, 1], "pads": pads, "count_include_pad": 1}
    v = add("AveragePool", [reshape(add("Mul", [x, x], shape), volume)], volume, **window)
    v = add("Mul", [reshape(v, shape), number(a.get("alpha", 1e-4))], shape)
    v = add("Add", [v, number(a.get("bias", 1.0))], shape)
    v = add("Pow", [v, number(a.get("beta", 0.75))], shape)
    node.op, node.inputs, node.attrs = "Div", [x, v], {}
