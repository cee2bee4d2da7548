"""States that recurrent layers hand on from run to run keep 16 bits, and a layer makes them in one step.

h -> moves -> Recurrent(x, h, c) -> y -> moves -> h'    =>    y, range, hidden, cell = Recurrent(x, h, c) {carried};
                                                              hidden -> moves -> h'

All that reads h, and all that lies between the layer and h', has to move elements only; else the state stays int8.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mica.ir import byte_pairs, strided_copy
from mica.ir.graph import Graph, Node, StatePair
from mica.passes import dead_code, prequantised_activations
from mica.passes.wide import MOVES

HIDDEN, CELL = 0, 1


@dataclass
class _Path:
    """Values of a state in front of layers and behind them; the layers, by identity,
    and what each of them gives or gets."""

    values: set[str] = field(default_factory=set)
    ends: set[tuple[int, int]] = field(default_factory=set)


def run(g: Graph, pairs: Sequence[StatePair]) -> Graph:
    nodes = {id(n): n for n in g.nodes if n.op == "Recurrent"}
    paths = {p: (_ahead(g, p[0]), _behind(g, p[1])) for p in pairs} if nodes else {}
    chosen = [p for p, (a, b) in paths.items() if a is not None and b is not None and a.ends and b.ends]
    while chosen:
        ahead = {end for p in chosen for end in paths[p][0].ends}  # type: ignore[union-attr]
        behind = {end for p in chosen for end in paths[p][1].ends}  # type: ignore[union-attr]
        sound = {k for k, n in nodes.items() if _whole(g, n) and all({(k, s)} <= ahead & behind for s in _states(n))}
        ends = {p: [k for path in paths[p] for k, _ in path.ends] for p in chosen}  # type: ignore[union-attr]
        rest = [p for p in chosen if all(k in sound for k in ends[p])]
        if rest == chosen:
            break
        chosen = rest
    if not chosen:
        return g
    made = {(k, s): _output(g, nodes[k], s) for k in sorted(sound, key=list(nodes).index) for s in _states(nodes[k])}
    for k in sound:
        nodes[k].attrs["carried"] = tuple(chosen)
    for _, result in chosen:
        _lead(g, result, made)
    return dead_code.run(prequantised_activations.run(g))  # rounding of y, which had the state's name


def _states(node: Node) -> tuple[int, ...]:
    return (HIDDEN, CELL) if node.attrs["cell"] == "lstm" else (HIDDEN,)


def _whole(g: Graph, node: Node) -> bool:
    """True if a layer gets all its states, the file gives them no scale, and their bytes end at a multiple of 4."""
    _, batch, units = g.value(node.outputs[0]).shape
    cells = g.consumers().get(node.outputs[2], []) if len(node.outputs) > 2 else []
    if any(g.value(i).quant is not None for i in node.inputs[1:-5]):
        return False
    return len(node.inputs) == 6 + len(_states(node)) and batch * units % 2 == 0 and all(_moves(g, n) for n in cells)


def _moves(g: Graph, node: Node) -> bool:
    return node.op in MOVES and node.op != "Pad" and (node.op == "Reshape" or byte_pairs.fits(g, node))


def _ahead(g: Graph, source: str) -> _Path | None:
    """From an input to layers; None if something else reads it."""
    found, todo, readers = _Path(), [source], g.consumers()
    while todo:
        name = todo.pop()
        found.values.add(name)
        for n in readers.get(name, []):
            if n.op == "Recurrent" and name in n.inputs[1:-5] and n.inputs.count(name) == 1:
                found.ends.add((id(n), n.inputs.index(name) - 1))
            elif _moves(g, n) and n.op != "Concat":
                todo.append(n.outputs[0])
            else:
                return None
        if name in g.outputs:
            return None
    return found


def _behind(g: Graph, result: str) -> _Path | None:
    """From an output back to layers; None if something else makes a part of it."""
    found, todo, makers = _Path(), [result], g.producers()
    while todo:
        name = todo.pop()
        found.values.add(name)
        end, node = _end(g, name), makers.get(name)
        if end is not None:
            found.ends.add((id(end[0]), end[1]))
        elif node is not None and _moves(g, node):
            todo += [i for i in node.inputs if not g.is_const(i)]
        else:
            return None
    return found


def _end(g: Graph, name: str) -> tuple[Node, int] | None:
    """The layer whose last state a value is, and which one."""
    node = g.producers().get(name)
    if node is None:
        return None
    if node.op == "Recurrent":
        if name != node.outputs[0]:
            return (node, CELL) if name in node.outputs[2:] else None
        return (node, HIDDEN) if g.value(name).shape[0] == 1 else None
    layer = g.producers().get(node.inputs[0])
    if (
        layer is None
        or layer.op != "Recurrent"
        or node.op not in strided_copy.OPS
        or node.inputs[0] != layer.outputs[0]
    ):
        return None
    time, batch, units = g.value(node.inputs[0]).shape
    at = 0 if layer.attrs["reverse"] else (time - 1) * batch * units
    one = strided_copy.read(g, node)
    whole = strided_copy.simplify(strided_copy.StridedCopy(at, ((batch * units, 1),)))
    return (layer, HIDDEN) if strided_copy.simplify(one) == whole else None


def _output(g: Graph, node: Node, state: int) -> str:
    """The value of a layer's last state: outputs are y, its range, hidden state, cell state."""
    time, (_, batch, units) = g.value(node.inputs[0]).shape[0], g.value(node.outputs[0]).shape
    if state == CELL:
        if len(node.outputs) == 3:  # no cell state before
            node.outputs.append(g.new_value(f"{node.name}.cell", (1, batch, units)))
        return node.outputs[3]
    if len(node.outputs) == 1:
        node.outputs.append(g.new_value(f"{node.name}.range", (2, time, batch, units)))
    node.outputs.insert(2, g.new_value(f"{node.name}.hidden", (1, batch, units)))
    return node.outputs[2]


def _lead(g: Graph, result: str, made: dict[tuple[int, int], str]) -> None:
    """The moves of a state's path, once more from what the layers now make; the old ones stay for other readers."""
    old = g.fresh(f"{result}.8")
    g.values[old] = replace(g.value(result), name=old)
    for n in g.nodes:
        n.inputs = [old if i == result else i for i in n.inputs]
        n.outputs = [old if o == result else o for o in n.outputs]
    made.update({k: old for k, v in made.items() if v == result})
    known: dict[str, str] = {}

    def again(name: str, y: str) -> str:
        if name not in known:
            end = _end(g, name)
            if end is not None:
                known[name] = made[id(end[0]), end[1]]
            else:
                node = g.producers()[name]
                inputs = [i if g.is_const(i) else again(i, g.fresh(f"{i}.16")) for i in node.inputs]
                g.values[y] = replace(g.value(name), name=y)
                g.nodes.insert(g.index(node) + 1, Node(node.op, node.name, inputs, [y], dict(node.attrs)))
                known[name] = y
        return known[name]

    if (last := again(old, result)) != result:  # the layer's own output
        for n in g.nodes:
            n.inputs = [result if i == last else i for i in n.inputs]
            n.outputs = [result if o == last else o for o in n.outputs]
        g.values[result] = replace(g.value(last), name=result)
        made.update({k: result for k, v in made.items() if v == last})
