"""A scale and shift behind an operator that has constants of its own, or a factor, goes into these.

Affine(MatMul(a, b)), one positive scale       =>   MatMul(a, b) {factor}
Affine(LayerNormalization(x, g, c))            =>   LayerNormalization(x, scale * g, scale * c + shift)
Affine(InstanceNormalization(x, g, c))         =>   likewise, also GroupNormalization; RMSNormalization without a shift
Affine(Reshape(InstanceNormalization(Reshape(x))))   =>   GroupNormalization(x), as PyTorch writes it out
Conv(Affine(LayerNormalization(x, 1)), w, b)   =>   Conv(LayerNormalization(x, 1), w * scale, b + w shift),
                                                    of one pixel,
                                                    where the norm is over channels and places
"""

import numpy as np

from mica.ir.graph import Graph, Node

NORMS = ("GroupNormalization", "InstanceNormalization", "LayerNormalization", "RMSNormalization")


def run(g: Graph) -> Graph:
    producers, consumers = g.producers(), g.consumers()
    for node in list(g.nodes):
        first = producers.get(node.inputs[0]) if node.op == "Affine" else None
        if first is None or g.sole_consumer(node.inputs[0], consumers) is not node:
            continue
        if first.op == "MatMul":
            changed = _product(node, first)
        elif first.op in NORMS:
            changed = _below(g, node, first, consumers) or (not any(first.outputs[1:]) and _norm(g, node, first))
        else:
            changed = first.op == "Reshape" and _group_norm(g, node, first, producers, consumers)
        if changed:
            g.remove(node)
            producers, consumers = g.producers(), g.consumers()
    return g


def _product(node: Node, first: Node) -> bool:
    scale, shift = node.attrs["scale"], node.attrs["shift"]
    if node.attrs["axis"] is not None or float(scale) <= 0 or np.any(shift):
        return False
    first.attrs["factor"] = first.attrs.get("factor", 1.0) * float(scale)
    first.outputs = node.outputs
    return True


def _constants(g: Graph, norm: Node) -> list[np.ndarray] | None:
    """Its scale and shift, float64; None where one is computed."""
    found = [g.data(i) if i else None for i in (*norm.inputs[1:3], "")[:2]]
    if found[0] is None or (len(norm.inputs) > 2 and norm.inputs[2] and found[1] is None):
        return None
    gamma = np.asarray(found[0], np.float64)
    return [gamma, np.zeros_like(gamma) if found[1] is None else np.asarray(found[1], np.float64)]


def _norm(g: Graph, node: Node, norm: Node) -> bool:
    constants = _constants(g, norm)
    if constants is None:
        return False
    gamma, beta = constants
    scale, shift, axis = node.attrs["scale"], node.attrs["shift"], node.attrs["axis"]
    shape = g.value(norm.inputs[0]).shape
    if norm.op in ("LayerNormalization", "RMSNormalization"):
        if norm.op == "RMSNormalization" and np.any(shift):
            return False
        if axis is not None and axis < norm.attrs.get("axis", -1) % len(shape):
            return False
        if axis is not None:
            scale, shift = (v.reshape(-1, *[1] * (len(shape) - 1 - axis)) for v in (scale, shift))
    elif axis is not None and (axis != 1 or gamma.size != shape[1]):
        return False
    gamma, beta = np.broadcast_arrays(gamma * scale, beta * scale + shift)
    norm.inputs = [norm.inputs[0], *_new(g, norm, gamma, beta)]
    if norm.op == "RMSNormalization":
        norm.inputs = norm.inputs[:2]
    norm.outputs = node.outputs
    return True


def _below(g: Graph, node: Node, norm: Node, consumers: dict[str, list[Node]]) -> bool:
    """Into the convolutions that read it: a norm over a whole map then has no constants."""
    shape, constants, out = g.value(norm.inputs[0]).shape, _constants(g, norm), node.outputs[0]
    whole = norm.op == "LayerNormalization" and norm.attrs.get("axis", -1) % len(shape) == 1 and len(shape) > 2
    readers = consumers.get(out, [])
    if not whole or node.attrs["axis"] != 1 or constants is None or np.any(constants[0] != 1) or np.any(constants[1]):
        return False
    if not readers or out in g.outputs or not all(_of_one_pixel(g, conv, out) for conv in readers):
        return False
    for conv in readers:
        w = np.asarray(g.data(conv.inputs[1]), np.float64)
        bias = g.data(conv.inputs[2]) if len(conv.inputs) > 2 and conv.inputs[2] else np.zeros(len(w))
        moved = np.asarray(bias, np.float64) + w.reshape(len(w), -1) @ node.attrs["shift"]
        w = w * node.attrs["scale"].reshape(-1, *[1] * (w.ndim - 2))
        parts = {"scaled": w, "bias": moved}
        made = [g.new_const(f"{conv.name}.{what}", a.astype(np.float32)) for what, a in parts.items()]
        conv.inputs = [conv.inputs[0], *made]
    norm.outputs = node.outputs
    return True


def _of_one_pixel(g: Graph, conv: Node, x: str) -> bool:
    w = g.data(conv.inputs[1]) if conv.op == "Conv" and conv.inputs[0] == x else None
    if w is None or any(n != 1 for n in w.shape[2:]) or any(conv.attrs.get("pads", ())):
        return False
    known = len(conv.inputs) < 3 or not conv.inputs[2] or g.is_const(conv.inputs[2])
    return known and conv.attrs.get("group", 1) == 1 and "weight_steps" not in conv.attrs


def _new(g: Graph, norm: Node, gamma: np.ndarray, beta: np.ndarray) -> list[str]:
    parts = {"gamma": gamma, "beta": np.array(beta)}
    return [g.new_const(f"{norm.name}.{what}", np.asarray(a, np.float32)) for what, a in parts.items()]


def _group_norm(g: Graph, node: Node, back: Node, producers: dict[str, Node], consumers: dict[str, list[Node]]) -> bool:
    norm = producers.get(back.inputs[0])
    if norm is None or norm.op != "InstanceNormalization" or g.sole_consumer(back.inputs[0], consumers) is not back:
        return False
    there, constants = producers.get(norm.inputs[0]), _constants(g, norm)
    if there is None or there.op != "Reshape" or constants is None:
        return False
    x = there.inputs[0]
    shape, rows = g.value(x).shape, g.value(norm.inputs[0]).shape
    if g.value(back.outputs[0]).shape != shape or len(shape) < 2 or rows[0] != shape[0]:
        return False
    c, groups = shape[1], rows[1]
    if c % groups or node.attrs["axis"] not in (None, 1):
        return False
    gamma, beta = (np.repeat(v.reshape(-1), c // groups) for v in constants)
    scale, shift = node.attrs["scale"], node.attrs["shift"]
    norm.op = "GroupNormalization"
    norm.attrs = {"num_groups": groups, "epsilon": norm.attrs.get("epsilon", 1e-5)}
    norm.inputs = [x, *_new(g, norm, gamma * scale, beta * scale + shift)]
    norm.outputs = node.outputs
    g.remove(back)  # nobody else reads it; `there` is left to dead_code
    return True
