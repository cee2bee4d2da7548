"""A scale and shift behind a convolution or matrix product goes into its weights and bias.

Affine(Conv(x, w, b))              =>   Conv(x, scale * w, scale * b + shift)
Affine(FullyConnected(x, w, b))    =>   FullyConnected(x, scale * w, scale * b + shift)
Affine(ConvTranspose(x, w, b))     =>   ConvTranspose(x, scale * w, scale * b + shift)
"""

import numpy as np

from mica.ir.graph import Graph


def run(g: Graph) -> Graph:
    producers, consumers = g.producers(), g.consumers()
    for node in list(g.nodes):
        linear = producers.get(node.inputs[0]) if node.op == "Affine" else None
        if linear is None or linear.op not in ("Conv", "ConvTranspose", "FullyConnected"):
            continue
        rank = len(g.value(node.inputs[0]).shape)
        channel = rank - 1 if linear.op == "FullyConnected" else 1
        weights = g.data(linear.inputs[1])
        if weights is None or g.sole_consumer(node.inputs[0], consumers) is not node:
            continue
        scale, shift = node.attrs["scale"], node.attrs["shift"]
        groups = linear.attrs.get("group", 1)
        n = weights.shape[1] * groups if linear.op == "ConvTranspose" else weights.shape[0]
        if node.attrs["axis"] is None:
            scale, shift = np.broadcast_to(scale, (n,)), np.broadcast_to(shift, (n,))
        elif node.attrs["axis"] != channel:
            continue
        bias = g.data(linear.inputs[2]) if len(linear.inputs) > 2 and linear.inputs[2] else np.zeros(n)
        if bias is None:
            continue
        if linear.op == "ConvTranspose":  # weights [C, n / groups, ...]: input channels of one group after the other
            each = np.repeat(scale.reshape(groups, -1), weights.shape[0] // groups, axis=0)
            wide = each.reshape(each.shape + (1,) * (weights.ndim - 2))
        else:
            wide = scale.reshape((n,) + (1,) * (weights.ndim - 1))
        linear.inputs = [
            linear.inputs[0],
            g.new_const(f"{linear.inputs[1]}.scaled", (weights * wide).astype(np.float32)),
            g.new_const(f"{linear.name}.bias", (bias * scale + shift).astype(np.float32)),
        ]
        if "weight_steps" in linear.attrs:  # integers stay what they are, up to the sign; a zero hides them anyway
            linear.attrs["weight_steps"] = linear.attrs["weight_steps"] * np.where(scale == 0, 1.0, np.abs(scale))
        # The convolution takes over the affine's output; the value between them is gone.
        linear.outputs = node.outputs
        g.remove(node)
        producers, consumers = g.producers(), g.consumers()
    return g
