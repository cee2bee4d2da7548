"""Repairs files that ONNX Runtime loads but ONNX's checker refuses: tools and editors of graphs omit small things."""

from graphlib import CycleError, TopologicalSorter

import onnx
from onnx import helper
from onnx.shape_inference import infer_shapes

CONSTANTS_ARE_INPUTS = 3  # up to this version of the IR a graph lists its initialisers as inputs, too


def mend(model: onnx.ModelProto) -> bool:
    """Changes `model` in place. Returns True if there was anything to change.

    Some tools add an output with a name and no type, or value_info without a type, which says nothing. In some files of
    IR version 3 initialisers are missing among the inputs. Others, such as ONNX Runtime's converter to float16, append
    nodes that belong further up.
    """
    g = model.graph
    moved = _sort(g)
    untyped = [o for o in g.output if not o.HasField("type")]
    typed = [v for v in g.value_info if v.HasField("type")]
    idle = len(g.value_info) - len(typed)
    if idle:
        del g.value_info[:]
        g.value_info.extend(typed)
    listed = {i.name for i in g.input}
    missing = [t for t in g.initializer if t.name not in listed] if model.ir_version <= CONSTANTS_ARE_INPUTS else []
    g.input.extend(helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in missing)
    if untyped:
        try:
            inferred = {v.name: v for v in infer_shapes(model).graph.output if v.HasField("type")}
        except (RuntimeError, ValueError):  # the checker says what is wrong
            return bool(moved or idle or missing)
        for o in untyped:
            o.CopyFrom(inferred.get(o.name, o))
    return bool(moved or untyped or idle or missing)


def _sort(g: onnx.GraphProto) -> bool:
    """Puts each node behind those that it reads. Returns True if one stood before them."""
    makers = {o: k for k, n in enumerate(g.node) for o in n.output if o}
    reads = {k: {makers[i] for i in _names(n) if i in makers} for k, n in enumerate(g.node)}
    if all(k > max(before, default=-1) for k, before in reads.items()):
        return False
    try:
        order = [g.node[k] for k in TopologicalSorter(reads).static_order()]
    except CycleError:  # the checker says so
        return False
    nodes = [n.SerializeToString() for n in order]
    del g.node[:]
    for content in nodes:
        g.node.add().ParseFromString(content)
    return True


def _names(n: onnx.NodeProto) -> set[str]:
    """The values that a node reads, with those that its branches and bodies read."""
    inner = [m for a in n.attribute for graph in (a.g, *a.graphs) for m in graph.node]
    return {*n.input}.union(*(_names(m) for m in inner))
