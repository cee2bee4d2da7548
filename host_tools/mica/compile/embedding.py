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
from pathlib import Path

import numpy as np
import onnx

from mica.compile.state import State
from mica.data.calibration import samples_for
from mica.errors import MicaError, did_you_mean
from mica.importer.onnx_file import import_proto
from mica.ir.graph import Graph, Node
from mica.passes import dead_code, pipeline
from mica.reference import float_ops
from mica.sound import front_ends, insert

DENSE = ("Gemm", "MatMul", "QGemm", "QLinearMatMul")
LAYERS = (*DENSE, "Conv", "QLinearConv")
PLAIN = ("Reshape", "Flatten", "DequantizeLinear", "QuantizeLinear")
POOLS = {"max": "GlobalMaxPool", "mean": "GlobalAveragePool"}
LISTED = 6  # layers, counted from the end
LARGE = 512  # numbers; a head keeps as many bytes for each example
RAW, FACTOR, SHIFT = "raw", "factor", "shift"
# x [1, rows, n] -> the mean of each column, and of its steps' sizes [1, 2 n]
STATISTICS = """mean = ReduceMean <axes=[1], keepdims=0> (x)
    later = Slice <axes=[1], starts=[1], ends=[2147483647]> (x)
    earlier = Slice <axes=[1], starts=[0], ends=[-1]> (x)
    step = Sub(later, earlier)
    size = Abs(step)
    steps = ReduceMean <axes=[1], keepdims=0> (size)
    raw = Concat <axis=1> (mean, steps)"""


@dataclass(frozen=True)
class Candidate:
    """A tensor for --embedding, and its numbers. accuracy: of few_shot.py, None without data."""

    name: str
    size: int
    default: bool = False
    accuracy: float | None = None


def candidates(g: Graph) -> list[Candidate]:
    """Return inputs of an imported graph's last layers, the last first; feature maps by their maximum and mean."""
    found = dict.fromkeys(_before(g, node) for node in list(_layers(g, LAYERS))[: -LISTED - 1 : -1])
    first = _default(g)
    listed = []
    for name in dict.fromkeys((first, *found)):
        if name:
            shape, size = g.value(name).shape, g.value(name).size
            maps = len(shape) > 2 and size > shape[1] and name != first
            names = [f"{name}:{pool}" for pool in POOLS] if maps else [name]
            listed += [Candidate(n, shape[1] if maps else size, n == first) for n in names]
    return listed


def default(g: Graph) -> str:
    """The tensor before the last dense layer, before the last convolution where there is none. Raises MicaError."""
    if name := _default(g):
        return name
    raise MicaError("--embedding: no layer stands before the last dense one", todo="name a tensor: --embedding TENSOR")


def _default(g: Graph) -> str:
    layers = list(_layers(g, DENSE)) or list(_layers(g, LAYERS))
    return _before(g, layers[-1]) if layers else ""


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
            f"the embedding has {size:,} numbers, and a head keeps as many for each class; see mica info "
            "for smaller ones"
        )
    return s


def shorten(g: Graph, wishes: list[str]) -> None:
    """Makes these tensors, as for --embedding, the only outputs beside states. Raises MicaError."""
    states = [result for _, result in g.states]
    g.outputs = [_output(g, wish) for wish in wishes] + states
    dead_code.run(g)
    read = {i for node in g.nodes for i in node.inputs}
    g.inputs = [i for i in g.inputs if i in read]


def front_end_graph(text: str) -> Graph:
    """A graph whose input takes the features of a front end, and whose output is an embedding of them.
    Raises MicaError."""
    shape = front_ends.shape_alone(text)
    n = shape[-1] * (len(shape) - 1)
    body = STATISTICS if len(shape) == 3 else "raw = Identity(x)"
    values = {
        name: f"float[1,{n}] {name} = {{{','.join([value] * n)}}}" for name, value in ((FACTOR, "1"), (SHIFT, "0"))
    }
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 9]> features (float{list(shape)} x) => (float[1,{n}] embedding) '
        f"<{', '.join(values.values())}> {{ {body} scaled = Mul(raw, factor) embedding = Add(scaled, shift) }}"
    )
    g = import_proto(Path("features"), model, 9, front_end=True)
    g.values = {name: g.values[name] for name in ("x", "embedding", *g.values)}  # the order of tensors in the file
    return g


def centre(s: State) -> State:
    """Centre the features of a front end alone: calibration says what is 0, and what is 1 where features differ in
    their units."""
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
    while (maker := makers.get(back)) is not None and maker.op in PLAIN:
        back = maker.inputs[0]
    return "" if maker is None else name
