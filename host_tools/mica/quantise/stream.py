"""A step model out of the integer graph of a window model: convolutions without padding in time keep their rows.

x [.., T, ..] -> conv -> y [.., T', ..]      becomes, for N new rows a run,

x' [.., N, ..], s [.., S, ..]: c = Concat(s, x'); s' = the last S rows of c; conv(c) -> y' [.., N / stride, ..]

and so on from layer to layer, with s and s' paired. What takes its rows one by one (tables, sums, dense layers) goes on
with the new ones; where a layer needs all of them (padding in time, a mean, a dense layer over time), the whole value
is put together from the rows before and the new ones. The kernels and constants are those of the window model, so after
T rows every byte of an answer is that of the window.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mica.errors import MicaError
from mica.ir.graph import Graph, Node, StatePair, Value
from mica.kernels import audio
from mica.passes.streaming import Window
from mica.quantise import noise

_WINDOWS = ("conv2d_s8", "depthwise_conv2d_s8", "max_pool2d_s8", "average_pool2d_s8")
_EACH = ("lut_s8", "add_s8", "mul_s8", "minmax_s8", "div_s8")


@dataclass(frozen=True)
class Rows:
    """Holds that of a value's `length` rows on `axis` the last `new` are made in a run."""

    axis: int
    length: int
    new: int


@dataclass(frozen=True)
class Streamed:
    """pairs: the states. layers: names of those that compute new rows only. kept: of those that need whole values."""

    pairs: list[StatePair]
    layers: list[str]
    kept: list[str]


def stream(g: Graph, w: Window) -> Streamed:
    """Rewrite an integer graph. w.name: an input, or a front end's output, by its rows. Raises MicaError."""
    return _Rewriter(g, w).run()


class _Rewriter:
    def __init__(self, g: Graph, w: Window) -> None:
        self.g = g
        self.w = w
        self.what = f"--stream {w.name}={w.rows}"
        self.shapes = {name: v.shape for name, v in g.values.items()}  # of the window model
        self.rows: dict[str, Rows] = {}
        self.joined: dict[tuple[str, int], str] = {}  # a value, how many rows before -> both together
        self.nodes: list[Node] = []
        self.done = Streamed([], [], [])

    def run(self) -> Streamed:
        g, w = self.g, self.w
        outputs = list(g.outputs)
        if w.name in g.inputs:
            shape = self.shapes[w.name]
            axis = next((i for i, n in enumerate(shape) if n > 1), 0) if w.axis is None else w.axis
            self._begin(w.name, axis)
        nodes, g.nodes = g.nodes, self.nodes
        for node in nodes:
            if node.op in ("log_mel_s8", *noise.KEEPS) and not self.rows:
                self._front_end(node)
                continue
            self._node(node)
        if not self.done.layers:
            raise MicaError(
                f"{self.what}: no layer can work on new rows alone; '{[*self.done.kept, w.name][0]}' needs all of them",
                todo="take --window",
            )
        g.outputs = [*(self._whole(o) for o in outputs), *(result for _, result in self.done.pairs)]
        g.inputs += [source for source, _ in self.done.pairs]
        return self.done

    def _begin(self, name: str, axis: int) -> None:
        shape, n = self.shapes[name], self.w.rows
        if not 0 <= axis < len(shape):
            raise MicaError(f"{self.what}: axis {axis} of an input of shape {list(shape)}")
        if not 0 < n < shape[axis]:
            raise MicaError(
                f"{self.what}: the input has {shape[axis]} rows on axis {axis}",
                todo=f"expected 1 to {shape[axis] - 1} new ones a run",
            )
        self._set(name, Rows(axis, shape[axis], n))

    def _front_end(self, node: Node) -> None:
        p, x, y = node.attrs, node.inputs[0], node.outputs[0]
        flags = p.get("flags", 0)
        if flags & audio.PEAK:
            raise MicaError(
                f"{self.what}: the front end divides by the largest sample of all rows (peak=yes)", todo="take peak=no"
            )
        if p.get("preemphasis") and not flags & audio.BEFORE:
            raise MicaError(f"{self.what}: pre-emphasis needs the sample before the new ones", todo="add before=yes")
        before = bool(flags & audio.BEFORE)
        self._begin(y, len(self.shapes[y]) - 2)
        samples = before + p["frame"] + (self.w.rows - 1) * p["hop"]
        self.g.value(x).shape = (*self.shapes[x][:-1], samples)
        self.nodes.append(node)
        if node.op in noise.KEEPS:
            moves, pair = noise.split(self.g, node)
            self.nodes += moves
            self.done.pairs.append(pair)
            self.done.layers.append(node.name)  # whose rows depend on all before: what reads it may need them all

    def _set(self, name: str, r: Rows) -> None:
        """The value holds its new rows alone; all of them where there are no others."""
        if r.new < r.length:
            self.rows[name] = r
            shape = list(self.shapes[name])
            shape[r.axis] = r.new
            self.g.value(name).shape = tuple(shape)

    def _node(self, node: Node) -> None:
        xs = [i for i in node.inputs if i in self.rows]
        if xs:
            if (rule := self._rule(node)) is not None:
                rule(node)
                return
            node.inputs = [self._whole(i) for i in node.inputs]
            self.done.kept.append(node.name)
        self.nodes.append(node)

    def _rule(self, node: Node) -> Callable[[Node], None] | None:
        """Method that makes new rows of a node's output from new rows of its input, or None."""
        x, y = node.inputs[0], node.outputs[0]
        if x not in self.rows:
            return self._each if node.op in _EACH and self._alike(node) else None
        r = self.rows[x]
        if node.op == "Reshape":
            return self._reshape if self._axis_after(x, y, r) is not None else None
        if node.op in _WINDOWS:
            return self._window if self._before(node) is not None else None
        if node.op == "transpose_s8":
            return self._transpose
        if node.op == "fully_connected_s8":
            return self._each if r.axis < len(self.shapes[x]) - 1 else None
        if node.op == "softmax_s8":
            return self._each if r.axis < len(self.shapes[x]) - 1 and len(node.attrs) == 0 else None
        return self._each if node.op in _EACH and self._alike(node) else None

    def _alike(self, node: Node) -> bool:
        """True if all inputs have the same new rows, or one row for all, and none is stretched along the others."""
        shape = self.shapes[node.outputs[0]]
        found = {self.rows[i] for i in node.inputs if i in self.rows}
        if len(found) != 1:
            return False
        (r,) = found
        for i in node.inputs:
            if i in self.rows:
                if len(self.shapes[i]) != len(shape) or shape[r.axis] != r.length:
                    return False
            elif self.g.value(i).data is None:  # another activation; tables and factors have no rows
                place = r.axis - (len(shape) - len(self.shapes[i]))
                if place >= 0 and self.shapes[i][place] != 1:
                    return False
        return True

    def _each(self, node: Node) -> None:
        r = next(self.rows[i] for i in node.inputs if i in self.rows)
        self._set(node.outputs[0], r)
        self._streamed(node)

    def _streamed(self, node: Node) -> None:
        self.nodes.append(node)
        if node.op not in ("Reshape", "transpose_s8"):
            self.done.layers.append(node.name)

    def _axis_after(self, x: str, y: str, r: Rows) -> int | None:
        """Axis of the rows after a reshape: as many rows, and as many elements before them. None if there is none."""
        before = math.prod(self.shapes[x][: r.axis])
        shape = self.shapes[y]
        places = [i for i, n in enumerate(shape) if n == r.length and math.prod(shape[:i]) == before]
        return places[0] if places else None

    def _reshape(self, node: Node) -> None:
        x, y = node.inputs[0], node.outputs[0]
        axis = self._axis_after(x, y, self.rows[x])
        assert axis is not None
        self._set(y, Rows(axis, self.rows[x].length, self.rows[x].new))
        self._streamed(node)

    def _transpose(self, node: Node) -> None:
        x, y = node.inputs[0], node.outputs[0]
        r = self.rows[x]
        axis = next(i for i in range(len(self.shapes[x])) if node.attrs[f"perm_{i}"] == r.axis)
        self._set(y, Rows(axis, r.length, r.new))
        self._streamed(node)

    def _before(self, node: Node) -> tuple[int, Rows] | None:
        """Number of rows that a window needs before the new ones, and the rows of its output; None if it needs all."""
        x, y, p = node.inputs[0], node.outputs[0], node.attrs
        r = self.rows[x]
        if r.axis not in (1, 2) or len(self.shapes[x]) != 4:
            return None
        side, pad = ("h", "pad_top") if r.axis == 1 else ("w", "pad_left")
        stride, reach = p[f"stride_{side}"], (p[f"kernel_{side}"] - 1) * p.get(f"dilation_{side}", 1) + 1
        made = self.shapes[y][r.axis]
        if p[pad] or (made - 1) * stride + reach > r.length or r.new % stride:
            return None
        new = min(r.new // stride, made)
        before = r.length - r.new - (made - new) * stride
        return (before, Rows(r.axis, made, new)) if before >= 0 else None

    def _window(self, node: Node) -> None:
        found = self._before(node)
        assert found is not None
        before, r = found
        node.inputs[0] = self._with_before(node.inputs[0], before)
        self._set(node.outputs[0], r)
        self._streamed(node)

    def _whole(self, name: str) -> str:
        if name not in self.rows:
            return name
        r = self.rows[name]
        return self._with_before(name, r.length - r.new)

    def _with_before(self, name: str, n: int) -> str:
        """n rows of the runs before, and the new ones."""
        if n == 0:
            return name
        if (name, n) in self.joined:
            return self.joined[name, n]
        g, r = self.g, self.rows[name]
        shape, quant = g.value(name).shape, g.value(name).quant

        def with_rows(k: int) -> tuple[int, ...]:
            return (*shape[: r.axis], k, *shape[r.axis + 1 :])

        def named(suffix: str, k: int) -> str:
            fresh = g.fresh(f"{name}.{suffix}")
            g.values[fresh] = Value(fresh, with_rows(k), "int8", None, quant)
            return fresh

        old, both, after = named("before", n), named("rows", n + r.new), named("after", n)
        outer, inner = math.prod(shape[: r.axis]), math.prod(shape[r.axis + 1 :])
        places = [[outer, (n + r.new) * inner], [n * inner, 1]] if outer > 1 else [[n * inner, 1]]
        copied = g.new_const(f"{name}.slide.map", np.array(places, np.int32))
        self.nodes.append(Node("concat_s8", f"{name}.join", [old, name], [both], {"axis": r.axis}))
        slide = {"begin": r.new * inner, "rank": len(places)}
        self.nodes.append(Node("move_s8", f"{name}.slide", [both, copied], [after], slide))
        self.done.pairs.append((old, after))
        self.joined[name, n] = both
        return both
