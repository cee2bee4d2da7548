"""WHILE becomes ONNX's Loop, which the ONNX importer takes as a recurrent layer, or writes out.

s = WHILE(s0), of a condition and a body   =>   s = Loop(cond(s0), s0) {s, cond(s) = body(s)}
s[k] = a list of rows, of which each run   =>   a row of each run, one behind the other
replaces its own, as Keras' layers do
"""

from collections.abc import Sequence

import numpy as np
from onnx import helper

from mica.importer.tflite import schema
from mica.importer.tflite.model import Model
from mica.importer.tflite.net import Net
from mica.importer.tflite.operators.form import Form, Op

REMEDY = "build the Keras layer with unroll=True, or export the network to ONNX"


def _while(net: Net, op: Op) -> None:
    graphs = [op.integer(f"{part}_subgraph_index") for part in ("cond", "body")]
    if not net.model.loops.keys() >= set(graphs):
        raise ValueError(f"a loop inside of another graph; {REMEDY}")
    condition, body = (net.model.loops[k] for k in graphs)
    ends = (op.inputs, op.outputs, condition.inputs, body.inputs, body.outputs)
    if len({len(end) for end in ends}) > 1 or len(condition.outputs) != 1:
        raise ValueError("its graphs have other inputs and outputs than it")
    try:
        _loop(net, op, condition, body)
    except ValueError as e:
        raise ValueError(f"{e}; {REMEDY}") from None


def _loop(net: Net, op: Op, condition: Model, body: Model) -> None:
    rows = {k: row for k in range(len(op.inputs)) if (row := _row(net, op, body, k)) is not None}
    kept = [k for k in range(len(op.inputs)) if k not in rows]
    inner = _inside(net, body, [net.names.unique(f"{net.label}.before{k}") for k in range(len(op.inputs))])
    before = [inner.x(i) for i in body.inputs]
    written = {y for k in rows for o in _writing(body, k) for y in o.outputs}
    _write(inner, [o for o in body.operators if written.isdisjoint(o.outputs)])
    behind = [inner.x(rows.get(k, i)) for k, i in enumerate(body.outputs)]
    going = _asked(inner, condition, behind)
    first = _asked(net, condition, [net.x(i) for i in op.inputs])
    results = [net.names.unique(f"{net.label}.behind{k}") for k in range(len(op.inputs))]
    counter, on = (net.names.unique(f"{net.label}.{what}") for what in ("run", "on"))
    given = [(before[k], _plain(body, body.inputs[k]), body.tensors[body.inputs[k]].shape) for k in kept]
    ins = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)
        for name, kind, shape in ((counter, "int64", ()), (on, "bool", ()), *given)
    ]
    order = [*kept, *rows]
    names = [going, *(behind[k] for k in order)]
    for k, name in enumerate(names):  # an output of a graph has a node of its own
        inner.nodes.append(helper.make_node("Identity", [name], [inner.names.unique(f"{name}.end")]))
        names[k] = inner.nodes[-1].output[0]
    outs = [helper.make_empty_tensor_value_info(name) for name in names]
    graph = helper.make_graph(inner.nodes, "body", ins, outs)
    inputs = ["", first, *(net.x(op.inputs[k]) for k in kept)]
    net.nodes.append(helper.make_node("Loop", inputs, [results[k] for k in order], net.label, body=graph))
    for k, (i, name) in enumerate(zip(op.outputs, results, strict=True)):
        net.done(i, net.reshape(name, net.shape(i)) if k in rows else name, like=op.inputs[k])


def _inside(net: Net, model: Model, inputs: Sequence[str]) -> Net:
    """A graph of the loop: its own nodes, the network's names and constants."""
    inner = Net(model)
    inner.write = net.write
    inner.names, inner.label, inner.constants = net.names, net.label, net.constants
    inner.opset, inner.computed.constants = net.opset, net.constants
    inner.real.update(zip(model.inputs, inputs, strict=True))
    inner.grids.update({i: grid for i in model.inputs if (grid := inner.grid(i)) is not None})
    return inner


def _asked(net: Net, condition: Model, state: Sequence[str]) -> str:
    """The condition of a state, computed in a graph or in front of it."""
    asked = _inside(net, condition, state)
    asked.nodes = net.nodes
    _write(asked, condition.operators)
    return asked.x(condition.outputs[0])


def _write(net: Net, operators: Sequence) -> None:
    assert net.write is not None
    for op in operators:
        if problem := net.write(net, op):
            raise ValueError(f"in its graph, {problem}")


def _plain(model: Model, i: int) -> str:
    """The type of the real numbers of a tensor."""
    t = model.tensors[i]
    return t.dtype if t.grid is None or t.dtype in ("int32", "int64") else "float32"


def _writing(body: Model, k: int) -> list:
    """CONCATENATION(SLICE(list, 0, n), row, SLICE(list, n + 1)) that makes output k of input k; [] if it is another."""
    makers = {o: op for op in body.operators for o in op.outputs}
    joined = makers.get(body.outputs[k])
    if joined is None or joined.kind != "CONCATENATION" or len(joined.inputs) != 3:
        return []
    parts = [makers.get(joined.inputs[0]), makers.get(joined.inputs[2])]
    if any(p is None or p.kind != "SLICE" or p.inputs[0] != body.inputs[k] for p in parts):
        return []
    return [joined, *(p for p in parts if p is not None)]


def _row(net: Net, op: Op, body: Model, k: int) -> int | None:
    """Tensor of the row that each run writes at the place of its number; None where state k is no such list."""
    found = _writing(body, k)
    if not found:
        return None
    makers = {o: each for each in body.operators for o in each.outputs}

    def begins(i: int) -> int:
        """Source of the first of some numbers, through operators that do not change it."""
        while (each := makers.get(i)) is not None and each.kind in ("RESHAPE", "CONCATENATION", "PACK"):
            i = each.inputs[0]
        return i

    counter = begins(found[1].inputs[2])
    if counter not in body.inputs:
        return None
    at = body.inputs.index(counter)
    step, first = makers.get(body.outputs[at]), net.known(op.inputs[at])
    if step is None or step.kind != "ADD" or counter not in step.inputs or first is None or first.any():
        return None
    ones = [body.tensors[i].data for i in step.inputs if i != counter]
    sound = len(ones) == 1 and ones[0] is not None and np.all(ones[0] == 1)
    if not sound or begins(found[2].inputs[1]) != body.outputs[at]:
        return None
    return int(found[0].inputs[1])


FORMS = {"WHILE": Form(_while, "WhileOptions", (1, schema.MOST_STATES), (1, schema.MOST_STATES))}
