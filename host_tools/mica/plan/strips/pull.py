"""The steps of a plan as a strip sees them, and the calls of a strip: each step pulls the rows that it reads."""

from dataclasses import dataclass

from mica.file.order import BY_WINDOW, can_stream, is_image, moves
from mica.ir.graph import Graph, Node
from mica.kernels import KERNEL_BY_NAME
from mica.plan.alias import ALIASES, Places
from mica.plan.lifetimes import padded
from mica.plan.plan import Plan

LONGEST = 26  # steps of a strip


@dataclass(frozen=True)
class Read:
    """A tensor that a step reads: name, the step that makes it (-1: none), and its rows for each row of the output."""

    name: str
    maker: int
    rows: int
    row_bytes: int
    window: bool
    whole: bool  # the same rows for all
    stride: int = 1
    pad: int = 0
    reach: int = 1

    def end(self, end: int) -> int:
        """Rows [0, this) are read by rows [0, end) of the output."""
        if self.whole:
            return self.rows
        return max(0, min(self.rows, (end - 1) * self.stride - self.pad + self.reach)) if self.window else end

    def low(self, begin: int) -> int:
        """The first row that row `begin` of the output, or one behind it, reads."""
        if self.whole:
            return 0
        return max(0, begin * self.stride - self.pad) if self.window else begin


@dataclass(frozen=True)
class Step:
    """A step as this planner sees it; without a node, the delivery of a fed input."""

    node: Node | None
    y: str
    rows: int
    row_bytes: int
    reads: tuple[Read, ...]
    streams: bool  # may be in a strip
    alone: bool  # its output is no model output and no part of another tensor, nor the other way round
    readers: tuple[int, ...]  # steps that read the output
    behind: int = -1  # the last step that writes what this one reads under another name; no strip holds both


class Net:
    """The steps of a plan, and when each tensor lives: root value -> first and last step that touches it.

    With a fed input the first step delivers it, and all others come `before` = 1 step later than in the plan.
    """

    def __init__(self, g: Graph, plan: Plan, fed: str | None = None) -> None:
        self.g = g
        self.plan = plan
        self.before = 0 if fed is None else 1
        self.places = Places(g, g.nodes)
        self.first: dict[str, int] = dict.fromkeys((self.root(i) for i in g.inputs), 0)
        self.last: dict[str, int] = {}
        makers: dict[str, int] = {}
        readers: dict[str, list[int]] = {}
        n = len(plan.steps) + self.before
        if fed is not None:
            makers[fed] = 0
        for k, node in enumerate(plan.steps, self.before):
            for i in self.active(node):
                self.last[self.root(i)] = k
                readers.setdefault(i, []).append(k)
            y = node.outputs[0]
            makers[y] = k
            self.first.setdefault(self.root(y), k)
            self.last[self.root(y)] = max(self.last.get(self.root(y), k), k)
        for o in g.outputs:
            self.last[self.root(o)] = n
        renamed = {v for node in g.nodes if node.op in ALIASES for v in (*node.inputs, *node.outputs)}
        self.size = {root: padded(g.value(root).bytes) for root in self.first}
        writers: dict[str, list[int]] = {}
        for name, k in makers.items():
            writers.setdefault(self.root(name), []).append(k)
        self.steps = [
            self._step(node, makers, readers, renamed, self._behind(node, makers, writers)) for node in plan.steps
        ]
        if fed is not None:
            x = g.value(fed)
            alone = fed not in renamed and fed not in g.outputs and is_image(x.shape)
            rows = x.shape[1] if is_image(x.shape) else 1
            self.steps.insert(0, Step(None, fed, rows, x.bytes // rows, (), True, alone, tuple(readers.get(fed, []))))
        self._spans = [self._span(s) for s in self.steps]

    def root(self, name: str) -> str:
        return self.places.find(name)[0]

    def active(self, node: Node) -> list[str]:
        return [i for i in node.inputs if not self.g.is_const(i)]

    def _behind(self, node: Node, makers: dict[str, int], writers: dict[str, list[int]]) -> int:
        """The last step that writes bytes which `node` reads under another name, as of a part or another shape;
        -1: none."""
        here = makers[node.outputs[0]]
        found = (k for x in self.active(node) if x not in makers for k in writers.get(self.root(x), []))
        return max((k for k in found if k < here), default=-1)

    def _step(
        self, node: Node, makers: dict[str, int], readers: dict[str, list[int]], renamed: set[str], behind: int
    ) -> Step:
        y = self.g.value(node.outputs[0])
        kernel = KERNEL_BY_NAME[node.op]
        operands = node.inputs[: len(node.inputs) - len(kernel.blobs)]
        p = {k: int(v) for k, v in node.attrs.items()}
        shapes = [self.g.value(x).shape for x in operands]
        streams = y.dtype == "int8" and can_stream(node.op, shapes, y.shape, p)
        found = []
        for x in operands:
            if self.g.is_const(x) or not streams:
                continue
            value = self.g.value(x)
            rows = value.shape[1] if is_image(value.shape) else 1
            window = node.op in BY_WINDOW
            geometry = (p["stride_h"], p["pad_top"], (p["kernel_h"] - 1) * p["dilation_h"] + 1) if window else (1, 0, 1)
            whole = not window and not moves(value.shape, y.shape)
            found.append(Read(x, makers.get(x, -1), rows, value.bytes // rows, window, whole, *geometry))
        # A window that lies in the padding whole reads no row, and a call reads one at least.
        for r in found:
            n = y.shape[1]
            streams = streams and all(r.low(i) < r.end(i + 1) for i in (range(n) if r.window else ()))
        name = node.outputs[0]
        alone = name not in renamed and name not in self.g.outputs and is_image(y.shape)
        own = readers.get(name, [])
        rows = y.shape[1] if is_image(y.shape) else 1
        return Step(node, name, rows, y.bytes // rows, tuple(found), streams, alone, tuple(own), behind)

    def name(self, k: int) -> str:
        """Return that of a step's node, or of the fed input."""
        node = self.steps[k].node
        return self.steps[k].y if node is None else node.name

    def feeds(self) -> bool:
        """True if all steps that read the fed input can be in a strip that begins with it."""
        s = self.steps[0]
        last = max(s.readers, default=LONGEST)
        steps = self.steps[: last + 1]
        return last < LONGEST and self.inner(0, 0, last + 1) and all(step.streams and step.behind < 0 for step in steps)

    def inner(self, k: int, i: int, j: int) -> bool:
        """True if the output of step k is kept by rows in the strip [i, j)."""
        span = self._spans[k]
        return span is not None and i <= span[0] and span[1] < j

    def _span(self, s: Step) -> tuple[int, int] | None:
        """First and last step that read a tensor row by row; None if all of it has to be there."""
        if not s.alone or not s.readers:
            return None
        if any(read.whole for r in s.readers for read in self.steps[r].reads if read.name == s.y):
            return None
        return min(s.readers), max(s.readers)

    def around(self, i: int, j: int) -> int:
        """Bytes of whole tensors that are alive while the strip [i, j) runs."""
        own = {self.steps[k].y for k in range(i, j) if self.inner(k, i, j)}
        alive = (root for root in self.size if self.first[root] < j and self.last[root] >= i and root not in own)
        return sum(self.size[root] for root in alive)

    def least(self, i: int, j: int, band: int) -> int:
        """Bytes that the strip [i, j) takes at least: rows of one call, and the output all over the input.
        Quicker than a segment."""
        inner = {k for k in range(i, j) if self.inner(k, i, j)}
        reads = (self.size[self.root(r.name)] for k in range(i, j) for r in self.steps[k].reads if r.maker < i)
        outs = (self.size.get(self.root(self.steps[k].y), 0) for k in range(i, j) if k not in inner)
        rows = 0
        for k in range(i, j):
            s = self.steps[k]
            n = min(band, s.rows)
            at = s.rows // 2 // band * band
            both = n * s.row_bytes if k in inner else 0
            both += sum((r.end(min(at + n, s.rows)) - r.low(at)) * r.row_bytes for r in s.reads if r.maker in inner)
            rows = max(rows, both)
        return self.around(i, j) + rows - min(max(reads, default=0), max(outs, default=0))


def pull(net: Net, i: int, j: int, band: int) -> list[tuple[int, int]]:
    """The calls of a strip: (step, rows)."""
    steps = net.steps
    have = dict.fromkeys(range(i, j), 0)
    log: list[tuple[int, int]] = []

    def make(k: int, upto: int) -> None:
        s = steps[k]
        while have[k] < upto:
            rows = min(band, s.rows - have[k])
            for r in s.reads:
                if r.maker >= i:
                    make(r.maker, r.end(have[k] + rows))
            log.append((k, rows))
            have[k] += rows

    ends = [k for k in range(i, j) if not net.inner(k, i, j)]
    while ends:  # all at one pace: what they share is not kept longer than needed
        k = min(ends, key=lambda k: have[k] / steps[k].rows)
        make(k, min(steps[k].rows, have[k] + band))
        ends = [k for k in ends if have[k] < steps[k].rows]
    for k in range(i, j):  # rows that no stride reaches are made, too: a layer's checksum is of all
        if steps[k].node is not None:
            make(k, steps[k].rows)
    return log
