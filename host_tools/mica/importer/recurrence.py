"""A Loop or a Scan whose body is a cell of an LSTM, a GRU or a simple network becomes that ONNX operator.

    Loop(x, h), body: h = GRU's formulas of x[k], h      =>   GRU(x, h), its weights taken from the body

Exporters write a cell in many ways, so its nodes are not compared with patterns. The body is computed with what its
functions (sigmoid, tanh, ...) return as free inputs. Everything between them is then linear, or a product of two: a row
of weights is what one input of 1 among zeros changes, without any rounding. The formulas are tested on random numbers.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

from mica.importer.evaluate import evaluator, guarded
from mica.importer.loop_bodies import Body, loop_body, origin, scan_body
from mica.importer.state import ImportState

Arrays = dict[str, np.ndarray]
Add = Callable[[onnx.NodeProto], bool]
GATES, CANDIDATES = ("Sigmoid",), ("Tanh", "Relu")
MOST_PROBES = 4096  # inputs and units of a layer together
NEAR = 1e-4
WHOLE = 1e-3  # steps that a weight of the file's integers may be off
MOST_NODES = 300  # of a cell


@dataclass
class Cell:
    """Weights of all gates in ONNX's order; hidden, cell: the states' names before the run."""

    op: str
    hidden: str
    cell: str
    weights: np.ndarray  # [G * H, I]
    recurrent: np.ndarray  # [G * H, H]
    bias: np.ndarray  # [2, G * H], of both products
    attrs: dict[str, Any]


def take(proto: onnx.NodeProto, state: ImportState, add: Add) -> bool:
    """Adds the operator, and returns True; False if the body of a Loop or a Scan is no such cell."""
    try:
        body = (scan_body if proto.op_type == "Scan" else loop_body)(proto, state)
        if body is None or len(body.graph.node) > MOST_NODES or len(body.sequences) != 1:
            return False
        cut = _Cut(body, state)
        cell = _cell(cut)
    except Exception:  # the evaluator raises whatever its numpy code raises: a cell has nothing that it cannot compute
        return False
    if cell is None:
        return False
    if cell.cell and (far := cut.reach(cut.behind[cell.cell])):
        cell.attrs["cell_scale"] = far
    states = [(behind, out) for _, _, behind, out in body.states if out]
    rows = [(behind, out, back) for behind, out, back in body.rows if out]
    kinds = {name: cut.result(cell, name) for name in [*(s[0] for s in states), *(r[0] for r in rows)]}
    if not all(kinds.values()) or any(kinds[name] != "hidden" for name, _, _ in rows):
        return False
    for source, out in body.same:
        if out:
            add(helper.make_node("Identity", [source], [out]))
    for out, number in body.numbers:
        state.add_constant(out, number)
    _write(cut, cell, [(out, kinds[name], cut.shapes[name]) for name, out in states], rows, state, add)
    return True


class _Cut:
    """The body with the results of its functions as inputs, and their arguments as outputs."""

    def __init__(self, body: Body, state: ImportState) -> None:
        self.body = body
        ((self.x, (self.source, self.axis, self.order)),) = body.sequences.items()
        known = {*body.counted, *body.constants, self.x}
        ends = [*(behind for _, _, behind, _ in body.states), *(name for name, _, _ in body.rows)]
        self.nodes = nodes = _needed([n for n in body.graph.node if known.isdisjoint(n.output)], ends)
        quantised = {o for n in nodes if n.op_type == "QuantizeLinear" for o in n.output}
        given = [body.constants.get(n.input[1]) for n in body.graph.node if n.op_type == "DequantizeLinear"]
        self.scales = sorted({float(s) for scale in given if scale is not None for s in scale.reshape(-1)})
        self.functions = [n for n in nodes if n.op_type in (*GATES, *CANDIDATES)]
        plain = [_plain(n, quantised) for n in nodes]
        whole = state.graph.values[self.source].shape
        x = (*whole[: self.axis], *whole[self.axis + 1 :])
        self.states = {name: state.graph.values[outer].shape for name, outer, _, _ in body.states}
        self.outer = {name: outer for name, outer, _, _ in body.states}
        integers = {**body.constants, **body.counted}
        self.behind = {name: behind for name, _, behind, _ in body.states}

        results = [n.output[0] for n in self.functions]
        zeros: Arrays = {self.x: np.zeros(x, np.float32)} | {k: np.zeros(s, np.float32) for k, s in self.states.items()}
        found = {**integers, **zeros}
        guarded(plain, found, state.opset)
        self.zeros = zeros | {name: np.zeros_like(found[name]) for name in results}
        self.shapes = {name: found[name].shape for name in ends}
        self.arguments = [n.input[0] for n in self.functions]
        self.names = list(dict.fromkeys([*self.arguments, *ends]))
        kept = [n for n in plain if n.output[0] not in results]
        self.model = evaluator(kept, list(self.zeros), self.names, integers, state.opset)

    def __call__(self, given: Mapping[str, np.ndarray]) -> Arrays:
        return dict(zip(self.names, self.model.run(self.names, {**self.zeros, **given}), strict=True))

    def random(self) -> Arrays:
        rng = np.random.default_rng(1)
        return {name: rng.uniform(-1, 1, a.shape).astype(np.float32) for name, a in self.zeros.items()}

    def reach(self, name: str) -> float:
        """The scale of an int8 that holds what the body's rounding of a value holds; 0 where it rounds to no int8."""
        makers = {o: n for n in self.body.graph.node for o in n.output}
        n = makers.get(origin(name, makers))
        if n is None or n.op_type != "DequantizeLinear" or any(i not in self.body.constants for i in n.input[1:]):
            return 0.0
        scale, zero = (self.body.constants[i] for i in n.input[1:3])
        return float(scale) * (1 + abs(int(zero)) / 128) if zero.dtype == np.int8 else 0.0

    def result(self, cell: Cell, name: str) -> str:
        """The kind of a state or a row behind a run: "hidden", "cell", or ""."""
        found = self(self.random())
        for kind, before in (("hidden", cell.hidden), ("cell", cell.cell)):
            if before and np.array_equal(found[self.behind[before]].reshape(-1), found[name].reshape(-1)):
                return kind
        return ""


def _needed(nodes: Sequence[onnx.NodeProto], names: Sequence[str]) -> list[onnx.NodeProto]:
    """Return the nodes that compute some values, in their order."""
    needed, found = set(names), []
    for n in reversed(nodes):
        if not needed.isdisjoint(n.output):
            needed.update(n.input)
            found.append(n)
    return found[::-1]


def _plain(node: onnx.NodeProto, quantised: set[str]) -> onnx.NodeProto:
    """The node without the rounding of activations."""
    if node.op_type == "QuantizeLinear" or (node.op_type == "DequantizeLinear" and node.input[0] in quantised):
        return helper.make_node("Identity", node.input[:1], node.output)
    return node


@dataclass(frozen=True)
class _Gate:
    """H of the arguments of a function, of each row of the batch."""

    function: int
    place: int


def _cell(cut: _Cut) -> Cell | None:
    read = {i for n in cut.nodes for i in n.input}
    real = [name for name in cut.states if name in read]
    if not 1 <= len(real) <= 2 or len({cut.states[name] for name in real}) > 1:
        return None
    units, batch = cut.states[real[0]][-1], int(np.prod(cut.states[real[0]][:-1]))
    if cut.zeros[cut.x].size % batch or units + cut.zeros[cut.x].size // batch > MOST_PROBES:
        return None
    found: dict[bool, list[_Gate]] = {True: [], False: []}
    for k, node in enumerate(cut.functions):
        size = cut.zeros[node.output[0]].size
        if size % (batch * units):
            return None
        found[node.op_type in GATES] += [_Gate(k, j) for j in range(size // (batch * units))]
    probe = _Probe(cut, batch, units)
    makers = {(2, 3, 2): _lstm, (1, 2, 1): _gru, (1, 0, 1): _simple}
    maker = makers.get((len(real), len(found[True]), len(found[False])))
    return maker(probe, real, found[True], found[False]) if maker is not None else None


class _Probe:
    """Values [batch, units] of a run."""

    def __init__(self, cut: _Cut, batch: int, units: int) -> None:
        self.cut, self.batch, self.units = cut, batch, units
        self.random = cut.random()
        self.found = cut(self.random)

    def part(self, array: np.ndarray, gate: _Gate) -> np.ndarray:
        n = self.units
        return array.reshape(self.batch, -1)[:, gate.place * n : (gate.place + 1) * n].astype(np.float64)

    def result(self, gate: _Gate) -> np.ndarray:
        """The result of its function in the random run."""
        return self.part(self.random[self.cut.functions[gate.function].output[0]], gate)

    def argument(self, gate: _Gate, found: Arrays | None = None) -> np.ndarray:
        return self.part((found or self.found)[self.cut.arguments[gate.function]], gate)

    def before(self, name: str) -> np.ndarray:
        return self.random[name].reshape(self.batch, -1).astype(np.float64)

    def behind(self, name: str) -> np.ndarray:
        return self.found[self.cut.behind[name]].reshape(self.batch, -1).astype(np.float64)

    def kind(self, gate: _Gate) -> str:
        return self.cut.functions[gate.function].op_type

    def linear(
        self, gates: Sequence[_Gate], hidden: str, reset: _Gate | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(weights [G * H, I], recurrent [G * H, H], what a gate is where all inputs are 0 [2,
        G * H]: with the reset at 0 and at 1)."""
        cut, open_ = self.cut, {}
        if reset is not None:
            name = cut.functions[reset.function].output[0]
            open_ = {name: self._ones(name, slice(reset.place * self.units, (reset.place + 1) * self.units))}

        def at(given: Arrays) -> np.ndarray:
            found = cut(given)
            return np.concatenate([self.argument(g, found)[0] for g in gates])

        base = at(open_)
        columns = [
            np.stack(
                [at({**open_, name: self._ones(name, j)}) - base for j in range(cut.zeros[name].size // self.batch)], 1
            )
            for name in (cut.x, hidden)
        ]
        return columns[0], columns[1], np.stack([at({}), base])

    def _ones(self, name: str, places: int | slice) -> np.ndarray:
        """1 at some places of each row of the batch, else 0."""
        ones = self.cut.zeros[name].copy()
        ones.reshape(self.batch, -1)[:, places] = 1
        return ones


def _near(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.abs(a - b).max() <= NEAR * max(1.0, float(np.abs(b).max())))


def _rows(a: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.asarray((a[:, None, :] * w).sum(axis=2))


def _lstm(p: _Probe, real: list[str], gates: list[_Gate], others: list[_Gate]) -> Cell | None:
    for hidden, cell in (real, real[::-1]):
        for (i, o, f), (new, bend) in itertools.product(itertools.permutations(gates), itertools.permutations(others)):
            c = p.result(f) * p.before(cell) + p.result(i) * p.result(new)
            right = _near(p.behind(cell), c) and _near(p.argument(bend), c)
            if not right or not _near(p.behind(hidden), p.result(o) * p.result(bend)):
                continue
            order = (i, o, f, new)
            w, r, bias = p.linear(order, hidden, None)
            z = _rows(p.before(p.cut.x), w) + _rows(p.before(hidden), r) + bias[1]
            if not _near(np.concatenate([p.argument(g) for g in order], axis=1), z):
                return None
            both = np.stack([bias[1], np.zeros_like(bias[1])])
            return Cell("LSTM", hidden, cell, w, r, both, {"activations": ["Sigmoid", p.kind(new), p.kind(bend)]})
    return None


def _gru(p: _Probe, real: list[str], gates: list[_Gate], others: list[_Gate]) -> Cell | None:
    (hidden,), (new,), n = real, others, p.units
    h, made = p.before(hidden), p.result(new)
    for update, reset in itertools.permutations(gates):
        z, r = p.result(update), p.result(reset)
        turned = _near(p.behind(hidden), (1 - z) * h + z * made)
        if not turned and not _near(p.behind(hidden), z * h + (1 - z) * made):
            continue
        order = (update, reset, new)
        w, u, bias = p.linear(order, hidden, reset)
        more = bias[1] - bias[0]  # a bias behind the reset gate
        from_x, again = _rows(p.before(p.cut.x), w) + bias[0], _rows(h, u)
        argued = [p.argument(g) for g in order]
        if more[: 2 * n].any() or not _near(np.concatenate(argued[:2], axis=1), (from_x + again)[:, : 2 * n]):
            continue
        after = _near(argued[2], (from_x + np.tile(r, 3) * (again + more))[:, 2 * n :])
        if not after and (more.any() or not _near(argued[2], from_x[:, 2 * n :] + _rows(r * h, u[2 * n :]))):
            continue
        for array in (w, u, bias[0]) if turned else ():
            array[:n] *= -1  # sigmoid(-z) is 1 - sigmoid(z)
        attrs = {"activations": ["Sigmoid", p.kind(new)], "linear_before_reset": int(after)}
        return Cell("GRU", hidden, "", w, u, np.stack([bias[0], more]), attrs)
    return None


def _simple(p: _Probe, real: list[str], gates: list[_Gate], others: list[_Gate]) -> Cell | None:
    (hidden,), (new,) = real, others
    if not _near(p.behind(hidden), p.result(new)):
        return None
    w, r, bias = p.linear([new], hidden, None)
    if not _near(p.argument(new), _rows(p.before(p.cut.x), w) + _rows(p.before(hidden), r) + bias[1]):
        return None
    return Cell("RNN", hidden, "", w, r, np.stack([bias[1], np.zeros_like(bias[1])]), {"activations": [p.kind(new)]})


def _steps(weights: np.ndarray, scales: Sequence[float]) -> np.ndarray | None:
    """For each row the last scale of which it is whole multiples, as int8 holds them; None where a row has none."""
    steps = np.zeros(len(weights))
    for scale in scales:
        q = weights / scale
        steps[(np.abs(q - np.rint(q)).max(axis=1) < WHOLE) & (np.abs(q).max(axis=1) < 127.5)] = scale
    return steps if steps.all() else None


def _write(
    cut: _Cut,
    cell: Cell,
    states: Sequence[tuple[str, str, tuple[int, ...]]],
    rows: Sequence[tuple[str, str, bool]],
    state: ImportState,
    add: Add,
) -> None:
    """states: (output of the loop, "hidden" or "cell", shape). rows: of loop_bodies.Body."""
    units, time = cell.recurrent.shape[1], len(cut.order)
    batch, base = cut.zeros[cell.hidden].size // units, cut.body.graph.name or "loop"

    def constant(array: np.ndarray) -> str:
        name = state.fresh(f"{base}.{cell.op}")
        state.add_constant(name, array.astype(np.float32) if array.dtype.kind == "f" else array)
        return name

    def node(op: str, inputs: Sequence[str], outs: Sequence[str] = (), **attrs: Any) -> str:
        outs = outs or [state.fresh(f"{base}.{op}")]
        add(helper.make_node(op, list(inputs), list(outs), f"{base}.{cell.op}", **attrs))
        return outs[0]

    def shaped(x: str, shape: Sequence[int], *out: str) -> str:
        return node("Reshape", [x, constant(np.array(shape, np.int64))], out)

    x = cut.source
    if cut.axis:
        others = (k for k in range(len(state.graph.values[x].shape)) if k != cut.axis)
        x = node("Transpose", [x], perm=[cut.axis, *others])
    backwards = cut.order[0] > cut.order[-1]
    known = [name for name in (cell.hidden, cell.cell) if name]
    inputs = [shaped(x, (time, batch, cell.weights.shape[1]))]
    for array in (cell.weights, cell.recurrent):
        if (steps := _steps(array, cut.scales)) is None:
            inputs.append(constant(array[None]))
        else:
            q = np.rint(array / steps[:, None]).astype(np.int8)
            inputs.append(node("DequantizeLinear", [constant(q[None]), constant(steps), constant(0 * q[:, 0])], axis=1))
    inputs.append(constant(cell.bias.reshape(1, -1)))
    inputs += ["", *(shaped(cut.outer[name], (1, batch, units)) for name in known)]
    ends = [state.fresh(f"{base}.{what}") for what in ("states", "hidden", "cell")[: 1 + len(known)]]
    node(cell.op, inputs, ends, hidden_size=units, direction="reverse" if backwards else "forward", **cell.attrs)
    for out, kind, shape in states:
        shaped(ends[1 if kind == "hidden" else 2], shape, out)
    for name, out, back in rows:
        y = ends[0]
        if backwards != back:  # the first run makes the first row
            y = node("Gather", [y, constant(np.arange(time)[::-1].copy())], axis=0)
        shaped(y, (time, *cut.shapes[name]), out)
