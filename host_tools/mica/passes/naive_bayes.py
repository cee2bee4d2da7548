"""Naive Bayes of scikit-learn's exporter becomes one matrix product, less the mean of the classes.

a * ReduceSum((Reshape(x) - theta) ** 2 / sigma) + c       =>   Gemm(Concat(z, z * z / 2 - 4)),
                                                                z = (x - mean) / deviation
y = Add(MatMul(x, w), b)                                   =>   likewise with w and b less their mean over the classes
Exp(y - ReduceLogSumExp(y)), ArgMax(y) of such a y         =>   Softmax(y), ArgMax(y)

x is [1, F]; theta and sigma [1, C, F]. The features of the first form then have units of their own (`features.py`).
A square less 4 has the range of a z of up to 4, so that a Concat of both has one scale.
"""

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes.builder import Builder


def run(g: Graph) -> Graph:
    for node in list(g.nodes):
        if node.op == "ReduceSum":
            _rewrite(g, node)
    for node in list(g.nodes):
        if node.op == "ReduceLogSumExp":
            _centre(g, node.inputs[0])
    return g


def _centre(g: Graph, y: str) -> None:
    """Subtracts the mean of the classes from the weights and addends of the product y."""
    producers, consumers = g.producers(), g.consumers()
    node_behind: Node | None = None
    found: list[tuple[Node, int]] = []  # nodes, and which input is a constant of one number a class
    name = y
    while (node := producers.get(name)) is not None and node.op in ("Add", "MatMul"):
        parts = _constant(g, node)
        if parts is None or (name != y and g.sole_consumer(name, consumers) is not node_behind):
            return
        found.append((node, node.inputs.index(parts[0]) ^ 1))
        name, node_behind = parts[0], node
        if node.op == "MatMul":
            break
    classes = g.value(y).shape[-1]
    if not found or found[-1][0].op != "MatMul" or found[-1][1] != 1 or g.value(y).shape != (1, classes):
        return
    arrays = [np.asarray(g.data(n.inputs[k]), np.float64) for n, k in found]
    if any(a.ndim < 1 or a.shape[-1] != classes for a in arrays) or not _shares(g, y):
        return
    for (n, k), a in zip(found, arrays, strict=True):
        n.inputs[k] = g.new_const(f"{n.name}.centred", (a - a.mean(axis=-1, keepdims=True)).astype(np.float32))


def _constant(g: Graph, node: Node) -> tuple[str, np.ndarray] | None:
    """(the other input, the constant) of a node of two inputs, one of which is constant."""
    if len(node.inputs) == 2:
        for k in (0, 1):
            c = g.data(node.inputs[1 - k])
            if c is not None and g.data(node.inputs[k]) is None:
                return node.inputs[k], c.astype(np.float64)
    return None


def _row_less(g: Graph, name: str, made: dict[str, Node]) -> tuple[str, np.ndarray, np.ndarray] | None:
    """(x, theta [C, F], sigma [C, F]) where `name` is (Reshape(x) - theta) ** 2 / sigma."""
    found: list[np.ndarray] = []
    for op in ("Div", "Pow", "Sub"):
        node = made.get(name)
        parts = _constant(g, node) if node is not None and node.op == op else None
        if node is None or parts is None or parts[0] != node.inputs[0] or len(g.consumers().get(name, [])) != 1:
            return None
        name = parts[0]
        found.append(parts[1])
    sigma, two, theta = found
    view = made.get(name)
    if view is None or view.op != "Reshape" or two.size != 1 or float(two.reshape(-1)[0]) != 2:
        return None
    x = view.inputs[0]
    shape = g.value(x).shape
    if len(shape) != 2 or shape[0] != 1 or g.value(name).shape != (1, 1, shape[1]) or not (sigma > 0).all():
        return None
    if theta.ndim != 3 or theta.shape[::2] != (1, shape[1]) or sigma.shape != theta.shape:
        return None
    return x, theta[0], sigma[0]


def _rewrite(g: Graph, node: Node) -> None:
    found = _row_less(g, node.inputs[0], g.producers())
    if found is None:
        return
    x, theta, sigma = found
    classes, n = theta.shape
    end = node
    factor, shift = np.ones(classes), np.zeros(classes)
    while True:  # what is done to the sums, class by class
        if g.value(end.outputs[0]).shape != (1, classes):
            return
        reader = g.sole_consumer(end.outputs[0], g.consumers())
        parts = _constant(g, reader) if reader is not None and reader.op in ("Add", "Sub", "Mul") else None
        if reader is None or parts is None or parts[1].size not in (1, classes):
            break
        c = np.broadcast_to(parts[1].reshape(-1), (classes,))
        if reader.op == "Mul":
            factor, shift = factor * c, shift * c
        else:
            sign = -1.0 if reader.op == "Sub" and reader.inputs[0] != parts[0] else 1.0
            factor, shift = factor * sign, shift * sign + (c if reader.op == "Add" or sign < 0 else -c)
        end = reader
    mean = theta.mean(axis=0)
    deviation = np.sqrt(sigma.mean(axis=0) + ((theta - mean) ** 2).mean(axis=0))
    t, s = (theta - mean) / deviation, sigma / deviation**2
    weights = np.concatenate([-2 * t / s, 2 / s], axis=1) * factor[:, None]
    bias = ((t * t + 8) / s).sum(axis=1) * factor + shift
    y = end.outputs[0]
    if _shares(g, y):
        weights, bias = weights - weights.mean(axis=0), bias - bias.mean()
    nodes: list[Node] = []
    b = Builder(g, nodes, node.name)

    def constant(what: str, a: np.ndarray | float) -> str:
        return g.new_const(f"{node.name}.{what}", np.asarray(a, np.float32))

    z = b.emit("Mul", [b.emit("Sub", [x, constant("mean", mean)], (1, n)), constant("scale", 1 / deviation)], (1, n))
    q = b.emit("Mul", [b.emit("Mul", [z, z], (1, n)), constant("half", 0.5)], (1, n))
    q = b.emit("Sub", [q, constant("four", 4.0)], (1, n))
    both = b.emit("Concat", [z, q], (1, 2 * n), {"axis": 1})
    b.emit_to(y, "Gemm", [both, constant("weights", weights), constant("bias", bias)], {"transB": 1})
    at = g.index(end)
    g.nodes[at : at + 1] = nodes


def _shares(g: Graph, y: str) -> bool:
    """Returns True if the readers of y depend only on differences between classes. Puts in Softmax for its pieces."""
    consumers, producers = g.consumers(), g.producers()
    readers = consumers.get(y, [])
    sums = {o for r in readers if r.op == "ReduceLogSumExp" for o in r.outputs}
    sums |= {o for s in sums for r in consumers.get(s, []) if r.op in ("Reshape", "Unsqueeze") for o in r.outputs}
    if y in g.outputs or any(s in g.outputs for s in sums):
        return False
    less = [r for r in readers if r.op == "Sub" and r.inputs[0] == y and r.inputs[1] in sums]
    over = {id(r) for s in sums for r in consumers.get(s, []) if not (set(r.outputs) & sums)}
    if any(r.op not in ("ArgMax", "ReduceLogSumExp") and r not in less for r in readers) or over != {
        id(r) for r in less
    }:
        return False
    if any(g.value(o).size != 1 for o in sums if o in producers):
        return False
    for r in less:
        for e in consumers.get(r.outputs[0], []):
            if e.op == "Exp":
                e.op, e.inputs, e.attrs = "Softmax", [y], {"axis": 1}
        r.op, r.inputs, r.attrs = "LogSoftmax", [y], {"axis": 1}
    return True
