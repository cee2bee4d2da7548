"""A network cut before its classes: its output becomes an embedding, in which a head learns classes on a board.

    x -> layers -> e -> dense -> softmax         =>   x -> layers -> e
    x -> layers -> e [1, C, H, W], "e:max"       =>   x -> layers -> e -> GlobalMaxPool -> [1, C]
    samples -> features [1, n]                   =>   (features - mean) / deviation
    samples -> features [1, rows, n]             =>   mean and mean step of each column, less their means

The last two have no network. Means and deviations are those of the calibration data.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mica.compile.state import State
from mica.data.calibration import samples_for
from mica.errors import MicaError, did_you_mean
from mica.ir.graph import Graph, Node
from mica.passes import dead_code, pipeline
from mica.reference import float_ops
from mica.sound import front_ends, insert

DENSE = ("Gemm", "MatMul", "QGemm", "QLinearMatMul")
LAYERS = (*DENSE, "Conv", "QLinearConv")
POOLS = {"max": "GlobalMaxPool", "mean": "GlobalAveragePool"}
LISTED = 6  # layers, counted from the end
LARGE = 512  # numbers; a head keeps as many bytes for each example
RAW, FACTOR, SHIFT = "features.raw", "features.factor", "features.shift"


@dataclass(frozen=True)
class Candidate:
    """A tensor that may be the embedding, as for --embedding, and its numbers. default: no other was asked for."""

    name: str
    size: int
    default: bool = False


def candidates(g: Graph) -> list[Candidate]:
    """Inputs of the last layers of an imported graph, the last layer's first; feature maps by their maximum and mean."""
    found = dict.fromkeys(name for node in list(_layers(g, LAYERS))[: -LISTED - 1 : -1] if (name := _before(g, node)))
    try:
        first = default(g)
    except MicaError:
        first = ""
    listed = []
    for name in [first, *(n for n in found if n != first)] if first else found:
        shape = g.value(name).shape
        maps = len(shape) > 2 and g.value(name).size > shape[1]
        names = [f"{name}:{pool}" for pool in POOLS] if maps and name != first else [name]
        listed += [Candidate(n, shape[1] if maps and n != name else g.value(name).size, n == first) for n in names]
    return listed


def default(g: Graph) -> str:
    """The tensor before the last dense layer, before the last convolution where there is none. Raises MicaError."""
    for ops in (DENSE, LAYERS):
        if layers := list(_layers(g, ops)):
            if name := _before(g, layers[-1]):
                return name
            break
    raise MicaError("--embedding: no layer stands before the last dense one", todo="name a tensor: --embedding TENSOR")


def cut(s: State) -> State:
    """The graph ends at the job's embedding, [1, n]; it has no classes any more."""
    wish = s.job.embedding
    if wish is None:
        return s
    g = s.graph
    shorten(g, [wish or (g.outputs[0] if s.job.alone else default(g))])
    g.labels, s.labels, s.labels_in_graph = [], [], False
    if (size := g.value(g.outputs[0]).size) > LARGE:
        s.warn(
            f"the embedding has {size:,} numbers, and a head keeps as many for each class; see mica info for smaller ones"
        )
    return s


def shorten(g: Graph, wishes: list[str]) -> None:
    """Makes these tensors, as for --embedding, the only outputs beside states. Raises MicaError."""
    states = [result for _, result in g.states]
    g.outputs = [_output(g, wish) for wish in wishes] + states
    dead_code.run(g)
    read = {i for node in g.nodes for i in node.inputs}
    g.inputs = [i for i in g.inputs if i in read]


def of_front_end(text: str) -> Graph:
    """A graph whose input takes the features of a front end, and whose output is an embedding of them. Raises MicaError."""
    shape = front_ends.shape_alone(text)
    g = Graph("features", ["x"], ["embedding"])
    g.features = {"x"}
    n = shape[-1] * (len(shape) - 1)
    for name, form in (("x", shape), (RAW, (1, n)), ("features.scaled", (1, n)), ("embedding", (1, n))):
        g.new_value(name, form)
    if len(shape) == 3:
        _statistics(g, shape)
    else:
        g.nodes.append(Node("Identity", RAW, ["x"], [RAW]))
    g.new_const(FACTOR, np.ones((1, n), np.float32))
    g.new_const(SHIFT, np.zeros((1, n), np.float32))
    g.nodes.append(Node("Mul", "features.scaled", [RAW, FACTOR], ["features.scaled"]))
    g.nodes.append(Node("Add", "embedding", ["features.scaled", SHIFT], ["embedding"]))
    return g


def centre(s: State) -> State:
    """Of a front end alone: calibration says what is 0, and what is 1 where features differ in their units."""
    if not s.job.alone:
        return s
    if s.calibration is None:
        raise MicaError(
            "--frontend without a network needs --calib", todo="give recordings: their features become the scale"
        )
    assert s.sound is not None
    g = copy.deepcopy(s.graph)
    g.outputs = [RAW]
    g = insert.put(pipeline.run(dead_code.run(g)), s.sound.front, s.sound.name)
    seen = np.stack([float_ops.run(g, one)[RAW].reshape(-1) for one in samples_for(g, s.calibration)]).astype(
        np.float64
    )
    deviation = seen.std(axis=0)
    of_axes = len(s.graph.value("x").shape) == 2
    factor = 1 / np.where(deviation > 0, deviation, 1) if of_axes else np.ones(len(deviation))
    for name, data in ((FACTOR, factor), (SHIFT, -seen.mean(axis=0) * factor)):
        s.graph.value(name).data = data.astype(np.float32)[None]
    return s


def _statistics(g: Graph, shape: tuple[int, ...]) -> None:
    """x [1, rows, n] -> the mean of each column, and of its steps' sizes [1, 2 n]"""
    _, rows, n = shape
    for name, form in (("later", rows - 1), ("earlier", rows - 1), ("step", rows - 1), ("size", rows - 1)):
        g.new_value(name, (1, form, n))
    for name in ("mean", "steps"):
        g.new_value(name, (1, n))
    zero, one, last, end = (g.new_const(f"row.{k}", np.array([k])) for k in (0, 1, rows - 1, rows))
    reduce = {"axes": [1], "keepdims": 0}
    g.nodes += [
        Node("ReduceMean", "mean", ["x"], ["mean"], reduce),
        Node("Slice", "later", ["x", one, end, one], ["later"]),
        Node("Slice", "earlier", ["x", zero, last, one], ["earlier"]),
        Node("Sub", "step", ["later", "earlier"], ["step"]),
        Node("Abs", "size", ["step"], ["size"]),
        Node("ReduceMean", "steps", ["size"], ["steps"], dict(reduce)),
        Node("Concat", RAW, ["mean", "steps"], [RAW], {"axis": 1}),
    ]


def _output(g: Graph, wish: str) -> str:
    """The value of an embedding, [1, n], with its pooling and reshaping. Raises MicaError."""
    name, _, pool = wish.rpartition(":")
    if pool not in POOLS or wish in g.values:
        name, pool = wish, ""
    value = g.values.get(name)
    if value is None or value.data is not None:
        hint = did_you_mean(name, [o for node in g.nodes for o in node.outputs])
        raise MicaError(f"--embedding {wish}: the model has no such tensor", todo=hint or "mica info MODEL lists some")
    if pool:
        if len(value.shape) < 3:
            raise MicaError(
                f"--embedding {wish}: '{name}' is {list(value.shape)}, no feature map", todo="leave the pooling out"
            )
        pooled = g.new_value(f"{name}.{pool}", (1, value.shape[1], *[1] * (len(value.shape) - 2)))
        g.nodes.append(Node(POOLS[pool], pooled, [name], [pooled]))
        name, value = pooled, g.value(pooled)
    if value.shape != (1, value.size):
        flat = g.new_value(f"{name}.flat", (1, value.size))
        g.nodes.append(Node("Reshape", flat, [name, g.new_const(f"{flat}.shape", np.array([1, value.size]))], [flat]))
        name = flat
    return name


def _layers(g: Graph, ops: tuple[str, ...]) -> Iterator[Node]:
    """Nodes of these operators that have constant weights."""
    makers = g.producers()

    def constant(name: str) -> bool:
        node = makers.get(name)
        return g.is_const(name) or (node is not None and all(constant(i) for i in node.inputs if i))

    for node in g.nodes:
        if node.op in ops and constant(node.inputs[3 if node.op.startswith("Q") else 1]):
            yield node


def _before(g: Graph, node: Node) -> str:
    """The data that a layer reads, as the layers before it made it; "" where that is an input of the model."""
    makers, name = g.producers(), node.inputs[0]
    back = name
    while (maker := makers.get(back)) is not None and maker.op in (
        "Reshape",
        "Flatten",
        "DequantizeLinear",
        "QuantizeLinear",
    ):
        back = maker.inputs[0]
    return "" if maker is None else name
