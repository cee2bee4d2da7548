"""Integers that follow, number by number, from a token or from the place of a largest element are looked up in a table.

Gather(W, f(t)), t an input, W constant        =>   Gather(W[f(0), f(1) ...], t);
                                                    W itself where f leaves its rows as they are
Equal(t, 0), Cast(t % 2, to=float) ...         =>   Gather(table of f, t): t stays a row number
GatherElements(x, f(i)), i of TopK or ArgMax   =>   GatherElements(x's rows f(0), f(1) ..., i);
                                                    i may be one for all behind the axis
Gather(x, f(i)), GatherND(x, [0, f(i)])        =>   likewise
GatherND(W, [f(t)]), W constant                =>   Gather(W, f(t))
Gather(W, i[k]), i of TopK                     =>   Gather(W, i)[k]
GatherND(x, [f(i), g(i), constants])           =>   a GatherElements of what i can pick
Cast(i % 80, to=float), i // 80 as output ...  =>   Gather(table of f, i) on a scale of 1

f is any chain of elementwise operators whose other operands are single constants.
A token is a row of its embedding, a place one of the elements that were compared.
Integer arithmetic on anything else is refused.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mica.format.schema import MAX_DIM
from mica.ir.graph import Graph, Node, Quant
from mica.ir.whole import BY_NUMBER, COMPUTED, INTEGERS, bounds, small
from mica.passes import dead_code, limits
from mica.passes.index_inputs import RENAMES
from mica.passes.refusal import Refusals

Array = np.ndarray

MOST = 1 << 20  # elements that a place chooses from, where a chain computes with it


@dataclass(frozen=True)
class _Function:
    """A value that is `table[b]` for each number b of `base`, in that order; plain: it is b. ours: other passes cannot
    take it: it follows from a token, or integer arithmetic makes it of a place.
    """

    base: str
    table: Array
    ours: bool

    @property
    def plain(self) -> bool:
        return self.table.dtype.kind in "iu" and np.array_equal(self.table, np.arange(self.table.size))


@dataclass(frozen=True)
class _Chosen:
    """Some of the numbers of a value: name, and which of them, in order."""

    name: str
    places: Array


def run(g: Graph) -> Graph:
    refusals = Refusals()
    known = {x: _Function(x, np.arange(n), x in g.inputs) for x, n in _bases(g).items() if 1 < n <= MAX_DIM}
    repeated: dict[str, str] = {}  # a value that repeats another along its last axes
    chosen: dict[str, _Chosen] = {}
    for node in list(g.nodes):
        if (some := _choice(g, known, chosen, node)) is not None:
            chosen[node.outputs[0]] = some
            continue
        found = _extended(g, known, node)
        if found is not None:
            known[node.outputs[0]] = found
            if node.outputs[0] in g.outputs and found.ours:
                y = _looked_up(g, node, found, node.outputs[0])
                node.op, node.inputs, node.attrs = "Identity", [y], {}
        elif node.op in ("Expand", "Tile") and node.inputs[0] in known and _spreads(g, node):
            known[node.outputs[0]] = known[node.inputs[0]]
        elif node.op in ("Expand", "Tile") and _repeats(g, node):
            repeated[node.outputs[0]] = repeated.get(node.inputs[0], node.inputs[0])
        else:
            with refusals.at(node):
                _rows_at(g, known, chosen, node)
                _read(g, known, repeated, node)
    g = dead_code.run(g) if known else g
    for node in g.nodes:
        dtype = g.value(node.outputs[0]).dtype if node.op in COMPUTED else ""
        if dtype in INTEGERS and not small(bounds(g, node.outputs[0])):
            with refusals.at(node):
                raise ValueError(_too_many(g) or f"computes with {dtype} numbers; mica reads float32 models")
    refusals.stop()
    return g


def numbers(g: Graph) -> Graph:
    """Look up places of ArgMax and ArgMin that are computed with as real numbers, or stand in a row as an output.

    Cast(ArgMax(x), to=float)      =>   Gather(table of 0, 1 .., ArgMax(x))
    Concat(ArgMax(x), ArgMax(y))   =>   Concat of such
    """
    places = {n.outputs[0]: n for n in g.nodes if n.op in ("ArgMax", "ArgMin")}
    bases, readers = {name: name for name in places}, g.consumers()
    for node in list(g.nodes):
        out = node.outputs[0]
        to_float = node.op == "Cast" and g.value(out).dtype not in (*INTEGERS, "bool") and _computes(g, out, readers)
        if node.op == "Concat" and node.inputs and all(i in bases for i in node.inputs):
            g.value(out).dtype = "float32"
        elif not (to_float and node.inputs[0] in bases):
            if (node.op in RENAMES or node.op == "Cast") and node.inputs[0] in bases:
                bases[out] = bases[node.inputs[0]]
            continue
        for i in dict.fromkeys(node.inputs):
            place = places[bases[i]]
            n = g.value(place.inputs[0]).shape[int(place.attrs.get("axis", 0))]
            y = _looked_up(g, node, _Function(bases[i], np.arange(n), True), i)
            node.inputs = [y if x == i else x for x in node.inputs]
        if to_float:
            node.op, node.attrs = "Identity", {}
    return dead_code.run(g)


def _computes(g: Graph, x: str, readers: Mapping[str, Sequence[Node]]) -> bool:
    """Return True if a value is not only renamed on its way to outputs."""
    return any(
        n.op not in (*RENAMES, "Cast") or _computes(g, n.outputs[0], readers) for n in readers.get(x, []) if n.outputs
    )


def _too_many(g: Graph) -> str:
    """Why no places of a TopK or ArgMax are computed with: it searches more values than there are numbers;
    "" if none does."""
    for x in (n.inputs[0] for n in g.nodes if n.op in ("ArgMax", "ArgMin", "TopK")):
        if advice := limits.ends(g, x):
            return f"computes with places in {list(g.value(x).shape)}; {MAX_DIM} values are supported{advice}"
    return ""


def _bases(g: Graph) -> dict[str, int]:
    """Tokens, and places of largest elements: how many numbers there are."""
    found = {x: n for x in g.inputs if g.value(x).dtype in INTEGERS if (n := _rows(g, x))}
    for node in g.nodes:
        place = node.outputs[0] if node.op in ("ArgMax", "ArgMin") else node.outputs[1] if node.op == "TopK" else ""
        shape = g.value(node.inputs[0]).shape if place else ()
        if shape:
            found[place] = shape[int(node.attrs.get("axis", -1 if node.op == "TopK" else 0))]
    return found


def _rows(g: Graph, x: str) -> int:
    """Rows of the largest table that an input, or what is computed from it, chooses from; 0: none."""
    consumers, names, rows = g.consumers(), [x], 0
    for name in names:
        for node in consumers.get(name, []):
            if node.op == "Gather" and node.inputs[1] == name and g.is_const(node.inputs[0]):
                table = g.value(node.inputs[0]).shape
                rows = max(rows, table[int(node.attrs.get("axis", 0))] if table else 0)
            elif (node.op in RENAMES or node.op in BY_NUMBER) and g.value(node.outputs[0]).dtype in (*INTEGERS, "bool"):
                names += [node.outputs[0]] if node.outputs[0] not in names else []
    return rows


def _extended(g: Graph, known: Mapping[str, _Function], node: Node) -> _Function | None:
    """A function of what the node's operand is a function of, where that and single constants are all that it reads."""
    sources = [known[i] for i in node.inputs if i in known]
    if not sources or any(s.base != sources[0].base for s in sources) or len(node.outputs) != 1:
        return None
    if node.op in RENAMES:
        return sources[0] if node.inputs[0] in known else None
    y = g.value(node.outputs[0])
    size = g.value(sources[0].base).size
    cast = node.op == "Cast" and g.value(node.inputs[0]).dtype != y.dtype
    if node.op not in BY_NUMBER or y.size != size or (y.dtype not in (*INTEGERS, "bool") and not cast):
        return None
    operands = []
    for i in node.inputs:
        data = g.data(i)
        if i in known:
            operands.append(known[i].table)
        elif data is not None and data.size == 1:
            operands.append(data.reshape(()))
        else:
            return None
    if node.op == "Cast":
        operands.append(np.zeros((), y.dtype))
    table = BY_NUMBER[node.op](*operands)
    ours = node.op in COMPUTED or any(s.ours for s in sources)
    return _Function(sources[0].base, np.broadcast_to(table, sources[0].table.shape), ours)


def _repeats(g: Graph, node: Node) -> bool:
    """True if a node repeats its input along axes behind one that stays, each of which was 1."""
    if not node.inputs[0] or g.is_const(node.inputs[0]):
        return False
    x, y = g.value(node.inputs[0]), g.value(node.outputs[0])
    if x.dtype not in INTEGERS or len(x.shape) != len(y.shape):
        return False
    last = max((k for k, (a, b) in enumerate(zip(x.shape, y.shape, strict=True)) if a == b and a > 1), default=-1)
    return x.shape[: last + 1] == y.shape[: last + 1] and math.prod(x.shape[last + 1 :]) == 1


def _spreads(g: Graph, node: Node) -> bool:
    """True if a node repeats places along the axes in front of the last,
    and GatherElements along the last axis alone read them."""
    (*lead, _), (*_, last), readers = g.value(node.inputs[0]).shape, g.value(node.outputs[0]).shape, g.consumers()
    picks = [n for n in readers.get(node.outputs[0], []) if n.op == "GatherElements"]
    alone = len(picks) == len(readers.get(node.outputs[0], [])) > 0 and node.outputs[0] not in g.outputs
    axes = (int(n.attrs.get("axis", 0)) % len(g.value(n.inputs[0]).shape) for n in picks)
    return alone and set(lead) == {1} and g.value(node.inputs[0]).size == last and set(axes) == {len(lead)}


def _read(g: Graph, known: Mapping[str, _Function], repeated: Mapping[str, str], node: Node) -> None:
    """A node that is no such function itself reads some: as indices, or as real numbers."""
    if node.op == "Gather" and node.inputs[1] in known:
        f = known[node.inputs[1]]
        if not g.is_const(node.inputs[0]):
            _gather_rows(g, node, f, int(node.attrs.get("axis", 0)))
        elif f.ours:
            _gather_constant(g, node, f)
        return
    if node.op == "GatherElements" and not g.is_const(node.inputs[0]):
        at = repeated.get(node.inputs[1], node.inputs[1])
        if at in known:
            _gather_elements(g, node, at, known[at])
        return
    if node.op == "GatherND" and not g.is_const(node.inputs[0]) and _gather_nd(g, node, known, repeated):
        return
    if node.op == "Concat" and {n.op for n in g.consumers().get(node.outputs[0], [])} == {"GatherND"}:
        return  # which sees it
    for i in dict.fromkeys(node.inputs):
        if i in known and known[i].ours and not known[i].plain:
            y = _looked_up(g, node, known[i], i)
            node.inputs = [y if x == i else x for x in node.inputs]


def _choice(g: Graph, known: Mapping[str, _Function], chosen: Mapping[str, _Chosen], node: Node) -> _Chosen | None:
    """Return the numbers that a node chooses of a known value, or renames; None if it does neither."""
    x = node.inputs[0] if node.inputs else ""
    if x in chosen:
        return chosen[x] if node.op in RENAMES else None
    index = g.data(node.inputs[1]) if node.op == "Gather" and x in known else None
    if index is None:
        return None
    every = np.arange(g.value(x).size).reshape(g.value(x).shape)
    return _Chosen(x, np.take(every, index, axis=int(node.attrs.get("axis", 0))).reshape(-1))


def _rows_at(g: Graph, known: Mapping[str, _Function], chosen: Mapping[str, _Chosen], node: Node) -> None:
    """Rows of a constant at some numbers of a known value: those at all of its numbers, of which some are taken."""
    if node.op not in ("Gather", "GatherND") or not g.is_const(node.inputs[0]) or int(node.attrs.get("axis", 0)):
        return
    table, at = node.inputs
    some = chosen.get(at, _Chosen(at, np.arange(g.value(at).size)) if node.op == "GatherND" and at in known else None)
    if some is None or (node.op == "GatherND" and (g.value(at).shape[-1:] != (1,) or node.attrs.get("batch_dims", 0))):
        return
    inner, base = g.value(table).shape[1:], known[some.name]
    rows = g.new_value(f"{node.outputs[0]}.rows", (*g.value(base.base).shape, *inner))
    g.insert_before(node, gather := Node("Gather", node.name, [table, base.base], [rows], {"axis": 0}))
    _gather_constant(g, gather, base)
    flat = _shaped(g, node, rows, (g.value(base.base).size, *inner))
    if not np.array_equal(some.places, np.arange(g.value(base.base).size)):
        taken = g.new_value(f"{rows}.taken", (some.places.size, *inner))
        where = g.new_const(f"{rows}.at", some.places)
        g.insert_before(node, Node("Gather", node.name, [flat, where], [taken], {"axis": 0}))
        flat = taken
    wide = g.new_const(f"{rows}.shape", np.array(g.value(node.outputs[0]).shape, np.int64))
    node.op, node.inputs, node.attrs = "Reshape", [flat, wide], {}


def _gather_constant(g: Graph, node: Node, f: _Function) -> None:
    """The rows of a table in the order of the token or place."""
    axis = int(node.attrs.get("axis", 0))
    data = np.asarray(g.data(node.inputs[0]))
    n = data.shape[axis]
    rows = np.clip(np.where(f.table < 0, f.table + n, f.table), 0, n - 1)
    table = node.inputs[0]
    if not np.array_equal(rows, np.arange(n)):
        table = g.new_const(f"{table}.rows", np.take(data, rows, axis=axis))
    node.inputs = [table, _shaped(g, node, f.base, g.value(node.inputs[1]).shape)]


def _looked_up(g: Graph, node: Node, f: _Function, name: str) -> str:
    """The function's values as real numbers, in the shape of `name`."""
    numbers = f.table.astype(np.float32)
    readers = (n for n in g.nodes if n.op == "Gather" and n.inputs[1] == f.base and g.is_const(n.inputs[0]))
    made = next((n for n in readers if np.array_equal(np.asarray(g.data(n.inputs[0])), numbers)), None)
    if made is None:
        table = g.new_const(f"{name}.table", numbers)
        if f.table.min() >= 0 and 1 < f.table.max() < 256 and np.all(numbers == np.rint(numbers)):
            g.value(table).quant = Quant(1.0, 0 if f.table.max() < 128 else -128)
        y = g.new_value(f"{name}.looked_up", g.value(f.base).shape)
        made = Node("Gather", node.name, [table, f.base], [y], {"axis": 0})
        g.insert_before(node, made)
    return _shaped(g, node, made.outputs[0], g.value(name).shape)


def _rows_of(g: Graph, node: Node, x: str, axis: int, rows: Array) -> str:
    """x's rows along an axis, in this order."""
    n = g.value(x).shape[axis]
    rows = np.clip(np.where(rows < 0, rows + n, rows), 0, n - 1)
    if np.array_equal(rows, np.arange(n)):
        return x
    shape = list(g.value(x).shape)
    shape[axis] = rows.size
    if math.prod(shape) > MOST:
        raise ValueError(
            f"the {rows.size} places that it computes with choose from {math.prod(shape)} elements; {MOST} are "
            "supported: cut the model before it, and choose on the host"
        )
    y = g.new_value(f"{x}.rows", shape)
    g.insert_before(node, Node("Gather", node.name, [x, g.new_const(f"{y}.at", rows)], [y], {"axis": axis}))
    return y


def _gather_elements(g: Graph, node: Node, at: str, f: _Function) -> None:
    x, axis = node.inputs[0], int(node.attrs.get("axis", 0)) % len(g.value(node.inputs[0]).shape)
    shape = g.value(node.outputs[0]).shape
    if g.value(f.base).size < g.value(at).size:  # one for all in front of the axis: rows of its transpose
        _gather_spread(g, node, f)
        return
    if g.value(at).shape != shape and math.prod(g.value(at).shape[axis + 1 :]) > 1:
        raise ValueError(f"places that are repeated along axis {axis}")
    node.inputs = [_rows_of(g, node, x, axis, f.table), _shaped(g, node, f.base, g.value(at).shape)]


def _gather_spread(g: Graph, node: Node, f: _Function) -> None:
    """GatherElements(x [.., n], f(i) [1, .., k] for each row)   =>   Transpose(GatherElements(Transpose(x) [n, ..],
    i [k, 1, ..]))"""
    (*lead, n), k = g.value(node.inputs[0]).shape, g.value(f.base).size
    turned = g.new_value(f"{node.inputs[0]}.turned", (n, *lead))
    perm = {"perm": [len(lead), *range(len(lead))]}
    g.insert_before(node, Node("Transpose", node.name, [node.inputs[0]], [turned], perm))
    picked = g.new_value(f"{node.outputs[0]}.picked", (k, *lead))
    inputs = [_rows_of(g, node, turned, 0, f.table), _shaped(g, node, f.base, (k, *[1] * len(lead)))]
    g.insert_before(node, Node("GatherElements", node.name, inputs, [picked], {"axis": 0}))
    node.op, node.inputs, node.attrs = "Transpose", [picked], {"perm": [*range(1, len(lead) + 1), 0]}


def _gather_rows(g: Graph, node: Node, f: _Function, axis: int) -> None:
    """Gather of a computed tensor at computed places: whole rows."""
    x, y = node.inputs[0], node.outputs[0]
    shape = g.value(x).shape
    axis %= len(shape)
    if math.prod(shape[:axis]) != 1:
        raise ValueError(f"computed places along axis {axis} of {list(shape)}; 0 is supported, and 1 of a single row")
    k = g.value(f.base).size
    rows = _rows_of(g, node, x, axis, f.table)
    picked = g.new_value(f"{y}.picked", (*shape[:axis], k, *shape[axis + 1 :]))
    at = _shaped(g, node, f.base, (*shape[:axis], k, *[1] * (len(shape) - axis - 1)))
    g.insert_before(node, Node("GatherElements", node.name, [rows, at], [picked], {"axis": axis}))
    wide = g.new_const(f"{y}.shape", np.array(g.value(y).shape, np.int64))
    node.op, node.inputs, node.attrs = "Reshape", [picked, wide], {}


def _gather_nd(g: Graph, node: Node, known: Mapping[str, _Function], repeated: Mapping[str, str]) -> bool:
    """Indices of which each part is a constant or a function of one place."""
    made = g.producers().get(node.inputs[1])
    shape = g.value(node.inputs[0]).shape
    batch = int(node.attrs.get("batch_dims", 0))
    if made is None or math.prod(shape[:batch]) != 1:
        return False
    last = made.op == "Concat" and int(made.attrs.get("axis", 0)) % len(g.value(made.outputs[0]).shape)
    parts = made.inputs if last == len(g.value(made.outputs[0]).shape) - 1 else [node.inputs[1]]
    found = [known.get(repeated.get(i, i)) for i in parts]
    bases = {f.base for f in found if f is not None}
    if len(bases) != 1 or any(f is None and not g.is_const(i) for f, i in zip(found, parts, strict=True)):
        return False
    f = next(f for f in found if f is not None)
    k, n = g.value(f.base).size, f.table.size
    # indices[b, e]: of element e of the result, where its place is b
    columns = []
    for part, i in zip(found, parts, strict=True):
        data = g.data(i)
        if part is not None:
            columns.append(np.broadcast_to(part.table[:, None], (n, k)))
        elif data is not None:
            columns += [np.broadcast_to(c.reshape(1, -1), (n, k)) for c in np.moveaxis(data, -1, 0)]
    index = np.zeros((n, k), np.int64)
    inner = shape[batch + len(columns) :]
    for c, d in zip(columns, shape[batch:], strict=False):
        index = index * d + np.where(c < 0, c + d, c)
    rows = math.prod(shape[batch : batch + len(columns)])
    flat = _shaped(g, node, node.inputs[0], (rows, *inner))
    if np.all(index == index[:, :1]):  # each element chooses among the same rows
        table, at = _rows_of(g, node, flat, 0, index[:, 0]), _shaped(g, node, f.base, (k, *[1] * len(inner)))
        axis, picked = 0, (k, *inner)
    elif not inner:
        table = _shaped(g, node, _rows_of(g, node, flat, 0, index.reshape(-1)), (n, k))
        axis, picked, at = 0, (1, k), _shaped(g, node, f.base, (1, k))
    else:
        return False
    y = g.new_value(f"{node.outputs[0]}.picked", picked)
    g.insert_before(node, Node("GatherElements", node.name, [table, at], [y], {"axis": axis}))
    wide = g.new_const(f"{y}.shape", np.array(g.value(node.outputs[0]).shape, np.int64))
    node.op, node.inputs, node.attrs = "Reshape", [y, wide], {}
    return True


def _shaped(g: Graph, node: Node, x: str, shape: tuple[int, ...]) -> str:
    if g.value(x).shape == shape:
        return x
    y = g.new_value(f"{x}.view", shape, g.value(x).dtype)
    wide = g.new_const(f"{y}.shape", np.array(shape, np.int64))
    g.insert_before(node, Node("Reshape", node.name, [x, wide], [y], {}))
    return y
