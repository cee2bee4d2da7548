"""Loop and Scan whose number of runs is known are written out: the body once for each run.
Cells of recurrent layers are not.

y, ys = Loop(3, true, x), body b       =>   s1, y1 = b(0, x); s2, y2 = b(1, s1); y, y3 = b(2, s2); ys = Concat(y1, y2,
                                            y3)
y, ys = Scan(x, xs), body b            =>   likewise, with xs[0], xs[1], xs[2] for the counter

The importer adds each run's nodes as those of a file, so counters and conditions fold to constants.
As Keras' GRU and LSTM become ONNX (tf2onnx).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

from mica.importer import recurrence
from mica.importer.loop_bodies import attribute, body
from mica.importer.protos import array_of
from mica.importer.state import ImportState

MOST_RUNS = 1024
MOST_NODES = 10_000  # of all runs together

Fresh = Callable[[str], str]


@dataclass(frozen=True)
class _Place:
    state: ImportState
    add: Callable[[onnx.NodeProto], bool]


def unroll(proto: onnx.NodeProto, state: ImportState, add: Callable[[onnx.NodeProto], bool]) -> None:
    """Writes a Loop or a Scan out. Raises ValueError with the reason where its runs are not known, or too many.

    add: puts a node of the file into the graph, and returns whether all is well so far; a run behind one that is not
    would say the same again.
    """
    if proto.op_type == "Scan" and state.opset < 9:
        raise ValueError("a Scan of opset 8; export the model with a newer opset")
    place = _Place(state, add)
    if recurrence.take(proto, state, add):
        return
    if proto.op_type == "Scan":
        _scan(proto, place)
    else:
        _loop(proto, place)


def _loop(proto: onnx.NodeProto, place: _Place) -> None:
    trips, condition, *state = (*proto.input, "", "")[: max(2, len(proto.input))]
    most = _known(place, trips, "its number of runs is") if trips else None
    go_on = not condition or bool(_known(place, condition, "its condition is").any())
    of, k = body(proto), 0
    rows: list[list[str]] = [[] for _ in of.output[1 + len(state) :]]
    while go_on and (most is None or k < int(most.reshape(-1)[0])):
        check_runs(k + 1 if most is None else int(most.reshape(-1)[0]), of, most is not None)
        counter, going = (
            place.state.fresh(f"{proto.output[0]}.run{k}"),
            place.state.fresh(f"{proto.output[0]}.going{k}"),
        )
        place.state.add_constant(counter, np.array(k, np.int64))
        place.state.add_constant(going, np.array(True))
        ends = _run(of, [counter, going, *state], k, place)
        if ends is None:
            return
        go_on = bool(_known(place, ends[0], "its condition is").any())
        state = ends[1 : 1 + len(state)]
        for made, end in zip(rows, ends[1 + len(state) :], strict=True):
            made.append(end)
        k += 1
    _finish(proto, place, state, [(made, 0) for made in rows])


def _scan(proto: onnx.NodeProto, place: _Place) -> None:
    n = next(a.i for a in proto.attribute if a.name == "num_scan_inputs")
    state, scanned = list(proto.input[:-n]), list(proto.input[-n:])
    of = body(proto)
    n_rows = len(of.output) - len(state)
    axes = [
        a % len(place.state.shape(x)) for a, x in zip(attribute(proto, "scan_input_axes", 0, n), scanned, strict=True)
    ]
    backwards = attribute(proto, "scan_input_directions", 0, n)
    runs = place.state.shape(scanned[0])[axes[0]]
    check_runs(runs, of)
    rows: list[list[str]] = [[] for _ in range(n_rows)]
    for k in range(runs):
        given = list(state)
        for x, axis, back in zip(scanned, axes, backwards, strict=True):
            nodes, one = row(x, runs - 1 - k if back else k, axis, proto.name, place.state.fresh)
            for node in nodes:
                place.add(node)
            given.append(one)
        ends = _run(of, given, k, place)
        if ends is None:
            return
        state = ends[: len(state)]
        for made, end in zip(rows, ends[len(state) :], strict=True):
            made.append(end)
    for made, back in zip(rows, attribute(proto, "scan_output_directions", 0, n_rows), strict=True):
        if back:
            made.reverse()
    _finish(proto, place, state, list(zip(rows, attribute(proto, "scan_output_axes", 0, n_rows), strict=True)))


def _known(place: _Place, name: str, what: str) -> np.ndarray:
    value = place.state.constant(name)
    if value is None:
        raise ValueError(f"control flow: {what} computed from data; a loop of a fixed number of runs is unrolled")
    return value


def _run(of: onnx.GraphProto, given: Sequence[str], k: int, place: _Place) -> list[str] | None:
    """Adds run k. Returns the names of its outputs, or None if a node of it is a problem."""
    nodes, constants, ends = one_run(of, given, k, place.state.fresh)
    for c in constants:
        place.state.add_constant(c.name, array_of(c))
    added = [place.add(node) for node in nodes]  # all of them, so that all problems are said
    return ends if all(added) else None


def _finish(
    proto: onnx.NodeProto, place: _Place, state: Sequence[str], rows: Sequence[tuple[Sequence[str], int]]
) -> None:
    """The node's outputs, those that somebody may read."""
    for last, out in zip(state, proto.output, strict=False):
        if out:
            place.add(helper.make_node("Identity", [last], [out], proto.name))
    for (made, axis), out in zip(rows, proto.output[len(state) :], strict=False):
        if not out:
            continue
        if not made:
            raise ValueError("a loop of no runs, whose rows are an output")
        for node in stacked(made, axis, out, proto.name, place.state.opset, place.state.fresh):
            place.add(node)


def check_runs(runs: int, of: onnx.GraphProto, known: bool = True) -> None:
    """Raises ValueError if there are too many runs; known: True if these are all."""
    most = min(MOST_RUNS, MOST_NODES // max(1, len(of.node)))
    if runs > most:
        count = f"{runs:,}" if known else f"more than {most:,}"
        raise ValueError(
            f"a loop of {count} runs of {len(of.node)} nodes; at most {most:,} are unrolled. Export the model "
            "for fewer steps"
        )


def one_run(
    of: onnx.GraphProto, given: Sequence[str], k: int, fresh: Fresh
) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto], list[str]]:
    """Nodes, constants and output names of run k, all names its own; given: outer names of the body's inputs."""
    names = dict(zip((i.name for i in of.input), given, strict=False))
    constants, nodes = _renamed(of, names, k, fresh)
    return nodes, constants, [names.get(o.name, o.name) for o in of.output]


def _renamed(
    graph: onnx.GraphProto, names: dict[str, str], k: int, fresh: Fresh
) -> tuple[list[onnx.TensorProto], list[onnx.NodeProto]]:
    """Constants and nodes of a graph under new names, which are added to `names`."""
    constants = []
    for init in graph.initializer:
        names[init.name] = fresh(f"{init.name}.{k}")
        copy = onnx.TensorProto()
        copy.CopyFrom(init)
        copy.name = names[init.name]
        constants.append(copy)
    nodes = []
    for node in graph.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.name = f"{node.name}.{k}" if node.name else ""
        for o in node.output:
            if o:
                names[o] = fresh(f"{o}.{k}")
        copy.input[:] = [names.get(i, i) for i in copy.input]
        copy.output[:] = [names.get(o, o) for o in copy.output]
        for a in copy.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                _rename_inside(a.g, dict(names), k, fresh)
        nodes.append(copy)
    return constants, nodes


def _rename_inside(graph: onnx.GraphProto, names: dict[str, str], k: int, fresh: Fresh) -> None:
    """Renames all values of a branch or a body inside of a body, in place."""
    for i in graph.input:
        names[i.name] = i.name = fresh(f"{i.name}.{k}")
    constants, nodes = _renamed(graph, names, k, fresh)
    del graph.initializer[:], graph.node[:]
    graph.initializer.extend(constants)
    graph.node.extend(nodes)
    for o in graph.output:
        o.name = names.get(o.name, o.name)


def stacked(parts: Sequence[str], axis: int, out: str, name: str, opset: int, fresh: Fresh) -> list[onnx.NodeProto]:
    """out = the parts, each with a new dimension of 1 at `axis`, one behind the other."""
    nodes, wide = [], []
    axes = numpy_helper.from_array(np.array([axis], np.int64))
    for part in parts:
        wide.append(fresh(f"{part}.row"))
        if opset < 13:
            nodes.append(helper.make_node("Unsqueeze", [part], [wide[-1]], name, axes=[axis]))
            continue
        nodes.append(helper.make_node("Constant", [], [fresh(f"{part}.axis")], name, value=axes))
        nodes.append(helper.make_node("Unsqueeze", [part, nodes[-1].output[0]], [wide[-1]], name))
    # A negative axis counts in the wide shape: so it does for both.
    return [*nodes, helper.make_node("Concat", wide, [out], name, axis=axis)]


def row(x: str, k: int, axis: int, name: str, fresh: Fresh) -> tuple[list[onnx.NodeProto], str]:
    """x[k] along an axis: nodes, and the name of the result."""
    index, out = fresh(f"{x}.place{k}"), fresh(f"{x}.{k}")
    value = numpy_helper.from_array(np.array(k, np.int64))
    return [
        helper.make_node("Constant", [], [index], name, value=value),
        helper.make_node("Gather", [x, index], [out], name, axis=axis),
    ], out
