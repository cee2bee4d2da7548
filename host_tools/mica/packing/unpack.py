"""The reverse of pack: the integer graph of a file, in the order of its steps.

Names that no step makes (reshapes, parts of a tensor, tensors that were joined) are found by what lies where they lie:

    step a writes bytes 0-15, step b bytes 16-31, step c reads tensor t at 0-31   =>   t = Join(a, b)
    step a writes bytes 0-31, step c reads tensor t at 8-15                       =>   t = View(a, offset 8)

Strips are gone: they are an order in which steps run, and a plan's to find.
"""

from dataclasses import dataclass

from mica.errors import MicaError
from mica.file.codec import ModelFile, TensorRecord
from mica.format.weights import LAYOUT_BY_CODE
from mica.ir.graph import Graph, Node, Quant, Value
from mica.kernels import KERNEL_BY_NAME


@dataclass(frozen=True)
class Unpacked:
    """`names` of the file's tensors in the graph, by number."""

    graph: Graph
    names: list[str]


def unpack(model: ModelFile) -> Unpacked:
    """Raises MicaError for a model with state, and where a name cannot be found."""
    if model.state_bytes:
        raise MicaError("a model with state goes on from run to run", todo="it has to stay whole, on one board")
    g = Graph(model.metadata.get("name", "model"))
    names = [_add(g, t) for t in model.tensors]
    g.inputs, g.outputs = [names[t] for t in model.inputs], [names[t] for t in model.outputs]
    made = set(model.inputs)
    writers = list(model.inputs)  # the last one comes last
    makers = {o for s in model.steps for o in s.outputs} | made
    for step in model.steps:
        for t in step.inputs:
            if model.tensors[t].space != "data" and t not in made:
                _found(g, model, names, t, writers, made, makers)
        kernel = KERNEL_BY_NAME[step.kernel]
        blobs = []
        for name, _ in kernel.blobs:
            blob = g.new_const(f"{step.name}.{name}", step.blobs[name])
            if name == "weights":
                g.value(blob).bits = LAYOUT_BY_CODE[step.layout].bits
            blobs.append(blob)
        inputs, outputs = [names[t] for t in step.inputs], [names[t] for t in step.outputs]
        g.nodes.append(Node(step.kernel, step.name, inputs + blobs, outputs, dict(step.params)))
        for t in step.outputs:
            made.add(t)
            writers.append(t)
    for t in model.outputs:
        if model.tensors[t].space != "data" and t not in made:
            _found(g, model, names, t, writers, made, makers)
    return Unpacked(g, names)


def _add(g: Graph, t: TensorRecord) -> str:
    name = g.fresh(t.name or "tensor")
    g.values[name] = Value(name, tuple(t.dims), t.dtype, t.values, Quant(t.scale, t.zero_point))
    return name


def _found(
    g: Graph, model: ModelFile, names: list[str], t: int, writers: list[int], made: set[int], makers: set[int]
) -> None:
    """Adds the alias that makes tensor t."""
    x = model.tensors[t]
    if t in makers or x.space != "arena":
        raise _lost(x)
    begin, end = x.offset, x.offset + x.bytes
    # Which tensor's bytes lie at `begin`, at the end of those, and so on: of each byte the last writer counts.
    pieces: list[int] = []
    at = begin
    while at < end:
        there = ((w, model.tensors[w]) for w in reversed(writers))
        last = next((w for w, t in there if t.space == "arena" and t.offset <= at < _end(t)), None)
        if last is None:
            raise _lost(x)
        a = model.tensors[last]
        if not pieces and a.offset <= begin and a.offset + a.bytes >= end:
            attrs = {"offset": begin - a.offset}
            op = "Reshape" if a.bytes == x.bytes and not attrs["offset"] else "View"
            g.nodes.append(Node(op, x.name, [names[last]], [names[t]], attrs if op == "View" else {}))
            made.add(t)
            return
        # A tensor that was joined of these before counts as one.
        whole = [m for m in made if m not in writers and model.tensors[m].space == "arena"]
        same = [m for m in whole if model.tensors[m].offset == at and at < _end(model.tensors[m]) <= end]
        joined = [m for m in same if last in _pieces_of(g, names, m)]
        piece = max(joined, key=lambda m: model.tensors[m].bytes, default=last)
        if model.tensors[piece].offset != at or _end(model.tensors[piece]) > end:
            raise _lost(x)
        pieces.append(piece)
        at = _end(model.tensors[piece])
    g.nodes.append(Node("Join", x.name, [names[p] for p in pieces], [names[t]]))
    made.add(t)


def _pieces_of(g: Graph, names: list[str], t: int) -> list[int]:
    """Tensors that were joined into tensor t, those that were joined into them as well."""
    node = g.producers().get(names[t])
    if node is None or node.op != "Join":
        return []
    found = [names.index(i) for i in node.inputs]
    return found + [p for f in found for p in _pieces_of(g, names, f)]


def _end(t: TensorRecord) -> int:
    return t.offset + t.bytes


def _lost(t: TensorRecord) -> MicaError:
    return MicaError(
        f"tensor '{t.name}': what its bytes are made of cannot be told from the file",
        todo="pack the model without --ram and --feed, and cut it then",
    )
