"""Checks that a .mica file can hold the graph's shapes and sizes. Changes nothing."""

from mica.format import schema
from mica.ir.graph import Graph, Node, Value
from mica.passes.refusal import Refusals


def run(g: Graph) -> Graph:
    refusals = Refusals()
    for name in g.inputs:
        with refusals.at(Node("input", name, [], [])):
            _tensor(g.value(name))
    for node in g.nodes:
        with refusals.at(node):
            for name in (*node.inputs, *node.outputs):
                if name not in g.inputs and not (node.op == "Ranks" and g.is_const(name)):
                    _tensor(g.value(name), ends(g, name))
            for what in ("kernel", "strides", "dilations", "pads"):
                if max(node.attrs.get(what, (1,))) > schema.MAX_DIM:
                    raise ValueError(f"{what} {list(node.attrs[what])}; none may be larger than {schema.MAX_DIM}")
            _numbers(g, node)
    with refusals.at(Node("model", g.name, [], [])):
        if len(g.inputs) + len(g.outputs) > schema.MAX_IO:
            raise ValueError(f"{len(g.inputs)} inputs and {len(g.outputs)} outputs; a file holds {schema.MAX_IO}")
        if len(g.nodes) + len(g.inputs) > schema.MAX_TENSORS:
            raise ValueError(f"{len(g.nodes)} layers; a file holds {schema.MAX_TENSORS}")
    refusals.stop()
    return g


def ends(g: Graph, name: str) -> str:
    """Advice to end the model where nothing has been computed from a tensor that is too long; "" for any other."""
    if max(g.value(name).shape, default=1) <= schema.MAX_DIM or name not in g.producers():
        return ""
    behind, read = {name}, list(g.producers()[name].inputs)
    for node in g.nodes:
        if behind & set(node.inputs):
            behind |= set(node.outputs)
            read += node.inputs
    names = [i for i in dict.fromkeys(read) if i not in behind and i not in g.inputs and not g.is_const(i)]
    return f"; end the model at {', '.join(map(repr, names))} and compute the rest on the host" if names else ""


def _tensor(v: Value, advice: str = "") -> None:
    if len(v.shape) > schema.MAX_RANK:
        raise ValueError(f"a tensor of {len(v.shape)} dimensions; {schema.MAX_RANK} are supported")
    if max(v.shape, default=1) > schema.MAX_DIM:
        raise ValueError(f"a tensor of shape {list(v.shape)}; no dimension may be larger than {schema.MAX_DIM}{advice}")
    if v.size > schema.MAX_BYTES:
        raise ValueError(f"a tensor of {v.size} bytes; {schema.MAX_BYTES} are addressed")


def _numbers(g: Graph, node: Node) -> None:
    """Integers (row numbers of a table, places that ArgMax or TopK found) may be renamed, looked up,
    and say where rows or elements are or how many."""
    reads = node.inputs[:-1] if node.op in ("Attend", "Pick", "ScatterRows") else node.inputs  # whose last input is one
    active = [g.value(i) for i in reads if not g.is_const(i)]
    if node.op not in ("Reshape", "Embedding") and any(v.dtype == "int32" for v in active):
        raise ValueError(
            "it computes with integers (row numbers, an ArgMax, places of a TopK); only the lookup in a table reads "
            "them, and GatherElements"
        )
