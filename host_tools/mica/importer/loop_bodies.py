"""The runs of a Loop or a Scan: what each of them reads, counts and hands on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx

from mica.importer.evaluate import evaluator, guarded
from mica.importer.protos import array_of
from mica.importer.state import ImportState

Arrays = dict[str, np.ndarray]
MOST_RUNS = 1 << 16


@dataclass
class Body:
    """A loop's body; its values by their names in it."""

    graph: onnx.GraphProto
    constants: Arrays
    # Name before a run, outer name, name behind it, output.
    states: list[tuple[str, str, str, str]] = field(default_factory=list)
    # Name behind a run, output, True if the last run's is first.
    rows: list[tuple[str, str, bool]] = field(default_factory=list)
    # A row of something: outer name, axis, row of each run.
    sequences: dict[str, tuple[str, int, list[int]]] = field(default_factory=dict)
    counted: Arrays = field(default_factory=dict)  # integers of the first run
    same: list[tuple[str, str]] = field(default_factory=list)  # outer name, output that is the same
    numbers: list[tuple[str, np.ndarray]] = field(default_factory=list)  # output, its value


def body(proto: onnx.NodeProto) -> onnx.GraphProto:
    return next(a.g for a in proto.attribute if a.name == "body")


def attribute(proto: onnx.NodeProto, name: str, default: int, n: int) -> list[int]:
    """A list of n integers, each the default where the node does not say."""
    found = next((list(a.ints) for a in proto.attribute if a.name == name), [])
    return found or [default] * n


def scan_body(proto: onnx.NodeProto, state: ImportState) -> Body | None:
    """None if its rows are not joined along the first axis."""
    of, n = body(proto), next(a.i for a in proto.attribute if a.name == "num_scan_inputs")
    outer, scanned, inner = list(proto.input[:-n]), proto.input[-n:], [i.name for i in of.input]
    n_rows = len(of.output) - len(outer)
    if any(attribute(proto, "scan_output_axes", 0, n_rows)):
        return None
    found = Body(of, _constants(of, state))
    behind = [o.name for o in of.output]
    found.states = list(zip(inner, outer, behind, proto.output, strict=False))
    back = attribute(proto, "scan_output_directions", 0, n_rows)
    found.rows = list(zip(behind[len(outer) :], proto.output[len(outer) :], map(bool, back), strict=False))
    axes, backwards = attribute(proto, "scan_input_axes", 0, n), attribute(proto, "scan_input_directions", 0, n)
    for name, x, axis, turned in zip(inner[len(outer) :], scanned, axes, backwards, strict=True):
        shape = state.shape(x)
        axis %= len(shape)
        found.sequences[name] = x, axis, list(range(shape[axis]))[:: -1 if turned else 1]
    return found


def loop_body(proto: onnx.NodeProto, state: ImportState) -> Body | None:
    """None if the number of runs does not follow from integers, or a run reads other rows than its own."""
    of, (trips, condition, *outer) = body(proto), (*proto.input, "", "")[: max(2, len(proto.input))]
    most, first = state.constant(trips), state.constant(condition)
    if (trips and most is None) or (condition and (first is None or not first.any())):
        return None
    found, n = Body(of, _constants(of, state)), len(outer)
    before, behind = [i.name for i in of.input[2:]], [o.name for o in of.output]
    found.rows = [(name, out, False) for name, out in zip(behind[1 + n :], proto.output[n:], strict=False)]
    found.counted = {of.input[0].name: np.array(0, np.int64), of.input[1].name: np.array(True)}
    ends = {of.input[1].name: behind[0]}
    handed = {}
    makers = {o: node for node in of.node for o in node.output}
    for name, source, end, out in zip(before, outer, behind[1 : 1 + n], proto.output, strict=False):
        data = state.constant(source)
        if origin(end, makers) == name:
            handed[name] = source
            found.same += [(source, out)]
            if data is not None:
                found.constants[name] = data
        elif data is not None and data.dtype.kind in "iub":
            found.counted[name], ends[name] = data, end
            found.numbers += [(out, data)]
        else:
            found.states.append((name, source, end, out))
    runs = _runs(found, behind[0], ends, None if most is None else int(most.reshape(-1)[0]), state.opset)
    if not runs or not _read(found, runs, handed, state):
        return None
    of_output = dict(zip(proto.output, behind[1:], strict=False))
    found.counted, last = runs[0], runs[-1]
    found.numbers = [(out, last[of_output[out]]) for out, _ in found.numbers if out]
    return found


def origin(name: str, makers: Mapping[str, onnx.NodeProto]) -> str:
    while name in makers and makers[name].op_type == "Identity":
        name = makers[name].input[0]
    return name


def _constants(of: onnx.GraphProto, state: ImportState) -> Arrays:
    """Constants that the body reads, its own and outer ones, and what follows from these alone."""
    found = {t.name: array_of(t) for t in of.initializer}
    names = {i for n in of.node for i in n.input if i} - {i.name for i in of.input} - set(found)
    found |= {name: data for name in names if (data := state.constant(name)) is not None}
    for n in of.node:
        if all(i in found for i in n.input if i):
            guarded([n], found, state.opset)
    return found


def _runs(found: Body, condition: str, ends: Mapping[str, str], most: int | None, opset: int) -> list[Arrays]:
    """The integers of each run; [] if the condition does not follow from them."""
    known = {*found.constants, *found.counted}
    nodes = []
    for n in found.graph.node:
        if n.output[0] not in known and known.issuperset(i for i in n.input if i):
            nodes.append(n)
            known.update(n.output)
    if condition not in known or not known.issuperset(ends.values()):
        return []
    guarded(nodes, {**found.constants, **found.counted}, opset)
    names = list(dict.fromkeys(o for n in nodes for o in n.output if o))
    model = evaluator(nodes, list(found.counted), names, found.constants, opset)
    runs: list[Arrays] = []
    now = found.counted
    while (most is None or len(runs) < most) and len(runs) < MOST_RUNS:
        made = [np.asarray(a) for a in model.run(names, now)]
        runs.append({**now, **dict(zip(names, made, strict=True))})
        everything = {**found.constants, **runs[-1]}
        if not np.any(everything[condition]):
            break
        count = {found.graph.input[0].name: np.array(len(runs), np.int64)}
        now = {name: everything[ends[name]] if name in ends else a for name, a in now.items()} | count
    return runs


def _read(found: Body, runs: Sequence[Arrays], handed: Mapping[str, str], state: ImportState) -> bool:
    """Notes what each run reads a row of; False where the rows are not all, in order."""
    for n in found.graph.node:
        if n.op_type != "Gather" or n.input[1] not in runs[0] or n.output[0] in runs[0]:
            continue
        source = handed.get(n.input[0], n.input[0])
        shape = state.shape(source)
        if not shape or runs[0][n.input[1]].size != 1:
            return False
        axis = next((a.i for a in n.attribute if a.name == "axis"), 0) % len(shape)
        order = [int(run[n.input[1]].reshape(-1)[0]) % shape[axis] for run in runs]
        if order not in (list(range(shape[axis])), list(range(shape[axis]))[::-1]):
            return False
        found.sequences[n.output[0]] = source, axis, order
    return True
