"""Plans below the bound of running layer after layer: neighbouring steps run in strips, some rows of each in turn.

    conv a -> b, conv b -> c           =>   rows 0-2 of b, row 0 of c, row 3 of b, row 1 of c, ...: b needs 3 rows of memory

A strip is a range of steps [i, j) with a `band`: how many rows a call makes. The rows of the tensors that leave the strip are pulled
one band after the other, each pulling the rows of its inputs that it needs and that are not there yet; so every row is made once. A
tensor that is read only inside is kept by rows: from the oldest that is still needed to the newest. What the strip reads and nobody
reads behind it may lie behind what it writes, as far as each call leaves alone what later calls read (vMCU, MLSys 2024; here by rows).

A fed input is the output of a step of its own here, which comes first and makes no step of the file: its calls are those by which the
caller delivers rows.

Which ranges become strips is decided by predicted cost: D[j] = min over i and band of D[i] + cost of [i, j), among those whose
bytes are within the limit.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mica.errors import MicaError
from mica.format.codec import StepRecord, TensorRecord, step_flags
from mica.format.order import BY_WINDOW, CALL_COST, Call, Strip, call_dims, can_stream, is_image, moves
from mica.format.schema import ALIGN, FEED
from mica.ir.graph import Graph, Node
from mica.ir.weight_layout import layout_of
from mica.kernels import KERNEL_BY_NAME
from mica.kernels.scratch import scratch_want
from mica.plan.alias import ALIASES, Places
from mica.plan.lifetimes import IN_PLACE, donors, padded
from mica.plan.plan import Plan
from mica.plan.verify import verify_strips

LONGEST = 26  # steps of a strip
BANDS = (1, 2, 4)  # rows of a call
TRIES = 400  # orders in which storages are placed, from each of the best CLIMBS to begin with
CLIMBS = 3

# (kernel, step, inputs, output, bytes of scratch) -> what it costs to run, in cycles or instructions of some core
Price = Callable[[str, StepRecord, Sequence[TensorRecord], TensorRecord, int], float]
SCRATCH = (16 << 10, 12 << 10, 8 << 10, 6 << 10, 4 << 10, 3 << 10, 2 << 10)  # bytes that are tried for it
PLACINGS = 8  # times that placing may need more than a segment's bytes before a plan is given up


@dataclass(frozen=True)
class Read:
    """What a step reads: value, the step that makes it (-1: none), how rows of it become rows of the output."""

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
        """The last step that writes bytes which `node` reads under another name, as of a part or another shape; -1: none."""
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
        """Of a step's node, or of the fed input."""
        node = self.steps[k].node
        return self.steps[k].y if node is None else node.name

    def feeds(self) -> bool:
        """Whether all that read the fed input can be in a strip that begins with it."""
        s = self.steps[0]
        last = max(s.readers, default=LONGEST)
        steps = self.steps[: last + 1]
        return last < LONGEST and self.inner(0, 0, last + 1) and all(step.streams and step.behind < 0 for step in steps)

    def inner(self, k: int, i: int, j: int) -> bool:
        """Whether the output of step k is kept by rows in the strip [i, j)."""
        span = self._spans[k]
        return span is not None and i <= span[0] and span[1] < j

    def _span(self, s: Step) -> tuple[int, int] | None:
        """First and last step that read a tensor of which some rows suffice; None where all of it has to be there."""
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
        """Bytes that the strip [i, j) takes at least: rows of one call, and the output all over the input. Quicker than a segment."""
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


@dataclass
class Segment:
    """Steps [i, j) as a strip, or one step alone (band 0). `peak`: bytes in use while it runs."""

    i: int
    j: int
    band: int
    peak: int = 0
    saved: int = 0  # bytes of the peak that laying the output over the input has saved
    shift: int = 0  # by how much the output then lies before it
    span: int = 0  # bytes of the larger of the two
    moved: int = 0  # bytes
    log: list[tuple[int, int]] = field(default_factory=list)  # (step, rows)
    calls: list[Call] = field(default_factory=list)
    ring: dict[int, int] = field(default_factory=dict)  # step -> bytes of the rows of its output that are kept
    alive: dict[int, tuple[int, int]] = field(default_factory=dict)  # step -> first and last call that needs them
    lag: dict[tuple[str, str], int] = field(default_factory=dict)  # (read, written) -> bytes it has to lie behind


def _pull(net: Net, i: int, j: int, band: int) -> list[tuple[int, int]]:
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


def _segment(net: Net, i: int, j: int, band: int) -> Segment:
    """What a strip needs: its calls once with what each leaves alone, once more with the rows that are kept."""
    steps = net.steps
    seg = Segment(i, j, band, log=_pull(net, i, j, band))
    inner = [k for k in range(i, j) if net.inner(k, i, j)]
    outer = [k for k in range(i, j) if k not in inner]
    readers: dict[str, list[tuple[int, Read]]] = {}
    for k in range(i, j):
        for r in steps[k].reads:
            readers.setdefault(r.name, []).append((k, r))
    # What dies in here, and is a tensor of its own.
    dying = [
        x
        for x, rs in readers.items()
        if rs[0][1].maker < i and net.root(x) == x and net.last[x] < j and not any(r.whole for _, r in rs)
    ]
    done = dict.fromkeys(range(i, j), 0)

    def low(name: str, have: int) -> int:
        lows = [r.low(done[k]) if done[k] < steps[k].rows else have for k, r in readers[name]]
        return min([have, *lows])

    kept = dict.fromkeys(inner, 0)
    lows: list[int] = []
    for at, (k, rows) in enumerate(seg.log):
        s = steps[k]
        oldest = low(s.y, done[k]) if k in kept else 0
        lows.append(oldest)
        if k in kept:
            kept[k] = max(kept[k], done[k] + rows - oldest)
            seg.alive.setdefault(k, (at, at))
        else:
            made = (done[k] + rows) * s.row_bytes
            for x in dying:
                r = readers[x][0][1]
                gone = low(x, r.rows)
                if gone < r.rows:
                    pair = (x, s.y)
                    seg.lag[pair] = max(seg.lag.get(pair, 0), made - gone * r.row_bytes)
        for r in s.reads:
            if r.maker in seg.alive:
                seg.alive[r.maker] = (seg.alive[r.maker][0], at)
        done[k] += rows
    first = dict.fromkeys(inner, 0)
    have = dict.fromkeys(range(i, j), 0)
    for (k, rows), oldest in zip(seg.log, lows, strict=True):
        drop = 0
        if k in kept and have[k] - first[k] + rows > kept[k]:
            drop = oldest - first[k]
            first[k] += drop
            seg.moved += (have[k] - first[k]) * steps[k].row_bytes
        seg.calls.append(Call(k, rows, drop))
        have[k] += rows
    seg.ring = {k: padded(kept[k] * steps[k].row_bytes) for k in inner}
    outs = {net.root(steps[k].y) for k in outer}
    seg.peak = net.around(i, j) + _packed(seg)
    for (x, y), lag in seg.lag.items():
        if y in outs:
            together = max(padded(lag) + net.size[x], net.size[y])
            if (saved := net.size[x] + net.size[y] - together) > seg.saved:
                seg.saved, seg.shift, seg.span = saved, padded(lag), max(net.size[x], net.size[y])
    seg.peak -= seg.saved
    return seg


def _packed(seg: Segment) -> int:
    """Bytes of the rows that are kept, those never alive together sharing."""
    best = 1 << 62
    for key in (lambda k: -seg.ring[k], lambda k: seg.alive[k][0]):
        placed: list[tuple[int, int, int]] = []
        end = 0
        for k in sorted(seg.ring, key=key):
            at = 0
            for low, high, other in sorted(placed):
                if _meet(seg.alive[k], seg.alive[other]):
                    if at + seg.ring[k] <= low:
                        break
                    at = max(at, high)
            placed.append((at, at + seg.ring[k], k))
            end = max(end, at + seg.ring[k])
        best = min(best, end)
    return best


def _meet(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] <= b[1] and b[0] <= a[1]


class Planner:
    """All segments of a net, each made when it is first asked for."""

    def __init__(self, g: Graph, plan: Plan, price: Price, fed: str | None = None) -> None:
        self.net = Net(g, plan, fed)
        self._given = price
        self._records = [StepRecord("", "", (), ())] * self.net.before + [self._record(node) for node in plan.steps]
        self._segments: dict[tuple[int, int, int], Segment] = {}
        self._costs: dict[tuple[int, int, int], float] = {}
        self._least: dict[tuple[int, int, int], int] = {}

    def _record(self, node: Node) -> StepRecord:
        kernel = KERNEL_BY_NAME[node.op]
        n = len(node.inputs) - len(kernel.blobs)
        blobs = {
            name: np.asarray(self.net.g.data(i)) for (name, _), i in zip(kernel.blobs, node.inputs[n:], strict=True)
        }
        params = {name: int(v) for name, v in node.attrs.items()}
        record = StepRecord(node.name, node.op, (), (), params, blobs)
        record.flags = step_flags(record)
        record.layout = layout_of(self.net.g, node).code
        return record

    def price(self, k: int, x_rows: int, rows: int, scratch: int) -> float:
        """Of a call of step k in the middle of a picture, or with all its rows of the whole step."""
        g, node, record = self.net.g, self.net.steps[k].node, self._records[k]
        if node is None:
            return MOVE * rows * self.net.steps[k].row_bytes
        n = len(node.inputs) - len(record.blobs)
        part = rows < self.net.steps[k].rows
        tensors = []
        for name in (*node.inputs[:n], node.outputs[0]):
            value = g.value(name)
            dims = value.shape
            if part and is_image(dims) and dims[1] > 1:
                dims = (1, rows if name == node.outputs[0] else x_rows, *dims[2:])
            assert value.quant is not None
            tensors.append(TensorRecord(name, value.dtype, dims, value.quant.scale, value.quant.zero_point))
        if part and "pad_top" in record.params:
            record = replace(record, params=record.params | {"pad_top": 0})
        record = replace(
            record, macs=KERNEL_BY_NAME[node.op].macs([t.dims for t in tensors[:-1]], tensors[-1].dims, record.blobs)
        )
        return self._given(node.op, record, tensors[:-1], tensors[-1], scratch)

    def scratch(self, cuts: Sequence[Segment], limit: int) -> int:
        """Bytes of scratch that the steps want of `limit`."""
        most = 0
        for seg in cuts:
            for k in range(seg.i, seg.j):
                node, s = self.net.steps[k].node, self.net.steps[k]
                if node is None:
                    continue
                x, y = (self.net.g.value(v).shape for v in (node.inputs[0], node.outputs[0]))
                if seg.band and s.rows > seg.band:
                    x, y = call_dims(node.op, x, y, self._records[k].params, seg.band)
                record = self._records[k]
                most = max(most, scratch_want(node.op, x, y, record.params, limit, record.unpacking))
        return most

    def segment(self, i: int, j: int, band: int) -> Segment:
        """The strip [i, j), or with band 0 step i alone."""
        key = (i, j, band)
        if key not in self._segments:
            alone = Segment(i, j, 0, self.net.plan.live_bytes[i - self.net.before]) if band == 0 else None
            self._segments[key] = alone or _segment(self.net, i, j, band)
        return self._segments[key]

    def least(self, i: int, j: int, band: int) -> int:
        """Of `Net.least`."""
        key = (i, j, band)
        if key not in self._least:
            self._least[key] = self.net.least(i, j, band)
        return self._least[key]

    def step_cost(self, k: int, band: int, scratch: int) -> float:
        """Of all calls of a step; band 0: of the step whole."""
        key = (k, band, scratch)
        if key not in self._costs:
            s = self.net.steps[k]
            x_rows = s.reads[0].rows if s.reads else 1
            if band == 0 or (not s.reads and s.node is not None):
                self._costs[key] = self.price(k, x_rows, s.rows, scratch)
            else:
                r = s.reads[0] if s.reads else None

                def call(rows: int) -> float:
                    if r is None:
                        return self.price(k, 0, rows, scratch) + CALL_COST
                    x = min(r.rows, (rows - 1) * r.stride + r.reach) if r.window else rows
                    return self.price(k, x, rows, scratch) + CALL_COST

                rest = s.rows % band
                self._costs[key] = s.rows // band * call(min(band, s.rows)) + (call(rest) if rest else 0)
        return self._costs[key]

    def cost(self, seg: Segment, scratch: int) -> float:
        steps = sum(self.step_cost(k, seg.band, scratch) for k in range(seg.i, seg.j))
        return steps + MOVE * seg.moved

    def candidates(self, j: int, limit: int) -> Iterable[Segment]:
        """Segments that end in front of step j and are within the limit."""
        steps = self.net.steps
        fed = self.net.before
        if j > fed and (alone := self.segment(j - 1, j, 0)).peak <= limit:
            yield alone
        behind = -1
        for i in range(j - 1, max(-1, j - 1 - LONGEST), -1):
            behind = max(behind, steps[i].behind)
            if not steps[i].streams or behind >= i:
                break
            if i < fed:
                if not self.net.inner(0, 0, j):
                    continue
            elif all(self.segment(k, k + 1, 0).peak <= limit for k in range(i, j)):
                continue  # one by one they cost less
            for band in BANDS:
                if (band == 1 or band < 2 * max(s.rows for s in steps[i:j])) and self.least(i, j, band) <= limit:
                    seg = self.segment(i, j, band)
                    if seg.peak <= limit:
                        yield seg

    def cheapest(self, limit: int, scratch: int) -> tuple[float, list[Segment]] | None:
        """The cuts that cost least with no segment above `limit` bytes.

        Outputs that lie before their inputs, strip after strip, walk towards the arena's beginning: what they have walked counts.
        """
        n = len(self.net.steps)
        ways: list[list[_Way]] = [[_Way(0.0, 0, None, None)]] + [[] for _ in range(n)]
        for j in range(1, n + 1):
            found = []
            for seg in self.candidates(j, limit):
                cost = self.cost(seg, scratch)
                over = seg.peak + seg.saved > limit  # only then does the output have to lie over the input
                for way in ways[seg.i]:
                    walked = way.walked + seg.shift if over else 0
                    if not over or seg.span + walked <= limit:
                        found.append(_Way(way.cost + cost, walked, seg, way))
            for way in sorted(found, key=lambda w: (w.cost, w.walked)):
                if len(ways[j]) < WAYS and all(way.walked < other.walked for other in ways[j]):
                    ways[j].append(way)
        if not ways[n]:
            return None
        cuts: list[Segment] = []
        end: _Way | None = ways[n][0]
        while end is not None and end.last is not None:
            cuts.append(end.last)
            end = end.before
        return ways[n][0].cost, cuts[::-1]


@dataclass(frozen=True)
class _Way:
    """Cuts up to some step: their cost, how far outputs have walked, the last segment, and the way before it."""

    cost: float
    walked: int
    last: Segment | None
    before: _Way | None


WAYS = 8  # that are kept at each step


MOVE = 0.7  # cycles a byte that is moved


# ---- places


@dataclass
class _Item:
    """Bytes that are in use from segment `first` to segment `last`."""

    values: list[str]
    bytes: int
    first: int
    last: int
    ring: int = -1  # step whose rows it holds
    offset: int = -1


def _items(net: Net, cuts: Sequence[Segment]) -> list[_Item]:
    segment_of = [q for q, seg in enumerate(cuts) for _ in range(seg.i, seg.j)] + [len(cuts)]
    rings = {net.steps[k].y: (q, k) for q, seg in enumerate(cuts) for k in seg.ring}
    items: dict[str, _Item] = {}
    for root, size in net.size.items():
        if root in rings:
            q, k = rings[root]
            items[root] = _Item([root], cuts[q].ring[k], q, q, k)
        else:
            items[root] = _Item([root], size, segment_of[net.first[root]], segment_of[net.last[root]])
    # A step that runs alone may write over what it reads.
    last = dict(net.last)
    for q, seg in enumerate(cuts):
        if seg.band:
            continue
        node = net.steps[seg.i].node
        assert node is not None
        y = node.outputs[0]
        for name in donors(net.g, node, net.places):
            x = net.root(name)
            a, b = items[x], items.get(y)
            others = [items[net.root(i)] for i in net.active(node) if i != name]
            if (
                b is None
                or a is b
                or b.first != q
                or max(last[v] for v in a.values) > seg.i
                or any(o is a for o in others)
            ):
                continue
            a.values += b.values
            a.last = max(a.last, b.last)
            for v in b.values:
                items[v] = a
            break
    return list({id(item): item for item in items.values()}.values())


def _place(net: Net, cuts: Sequence[Segment], limit: int) -> tuple[int, list[_Item]]:
    """Sets the offset of every item; returns the bytes of the arena."""
    items = _items(net, cuts)
    n = len(items)
    of = {v: k for k, item in enumerate(items) for v in item.values}
    apart: list[set[int]] = [set() for _ in range(n)]  # which items share no byte with this one
    lag: dict[tuple[int, int], int] = {}
    for q, seg in enumerate(cuts):
        for (x, y), behind in seg.lag.items():
            a, b = of[net.root(x)], of[net.root(y)]
            if a != b and items[a].last == q and items[b].first == q:
                lag[a, b] = padded(behind)
    for a in range(n):
        for b in range(a):
            one, two = items[a], items[b]
            clash = one.first <= two.last and two.first <= one.last
            if clash and one.ring >= 0 and two.ring >= 0:
                clash = _meet(cuts[one.first].alive[one.ring], cuts[one.first].alive[two.ring])
            if clash:
                apart[a].add(b)
                apart[b].add(a)

    def free(a: int, at: int, b: int, other: int) -> bool:
        if at + items[a].bytes <= other or other + items[b].bytes <= at:
            return True
        if (a, b) in lag:
            return at - other >= lag[a, b]
        return (b, a) in lag and other - at >= lag[b, a]

    def fit(order: Sequence[int]) -> tuple[int, list[int]]:
        offsets = [-1] * n
        end = 0
        for a in order:
            placed = [b for b in apart[a] if offsets[b] >= 0]
            tries = {0}
            for b in placed:
                tries.add(offsets[b] + items[b].bytes)
                if (a, b) in lag:
                    tries.add(offsets[b] + lag[a, b])
                if (b, a) in lag and offsets[b] >= lag[b, a]:
                    tries.add(offsets[b] - lag[b, a])
            offsets[a] = next(at for at in sorted(tries) if all(free(a, at, b, offsets[b]) for b in placed))
            end = max(end, offsets[a] + items[a].bytes)
        return end, offsets

    starts: tuple[Callable[[int], tuple[int, ...]], ...] = (
        lambda a: (-items[a].bytes,),
        lambda a: (items[a].first, -items[a].bytes),
        lambda a: (-(items[a].last - items[a].first), -items[a].bytes),
        # What lies over the end of another comes before it, so that the other can leave room below.
        lambda a: (-items[a].bytes, -items[a].first),
        lambda a: (-items[a].first, -items[a].bytes),
        lambda a: (items[a].ring >= 0, -items[a].first, -items[a].bytes),
    )
    enough = max(max(seg.peak for seg in cuts), limit)
    orders = [sorted(range(n), key=key) for key in starts]
    tried = sorted(((*fit(order), order) for order in orders), key=lambda found: found[0])
    best = tried[0][:2]
    rng = random.Random(1)
    for size, offsets, order in tried[:CLIMBS]:
        here = size
        if here < best[0]:
            best = (size, offsets)
        for _ in range(TRIES):
            if best[0] <= enough:
                break
            trial = list(order)
            for _ in range(rng.randint(1, 3)):
                trial.insert(rng.randrange(n), trial.pop(rng.randrange(n)))
            found = fit(trial)
            if found[0] <= here:
                here, order = found[0], trial
            if found[0] < best[0]:
                best = found
    for item, at in zip(items, best[1], strict=True):
        item.offset = at
    return best[0], items


# ---- the plan


def plan_within(
    g: Graph, plan: Plan, ram: int | None, scratch_limit: int, price: Price, fed: str | None = None
) -> Plan:
    """As `search`; raises MicaError, with the least that can be, where there is none."""
    found = search(g, plan, ram, scratch_limit, price, fed)
    if found is None:
        raise refusal(g, plan, ram or 0, price, fed)
    return found


def search(
    g: Graph, plan: Plan, ram: int | None, scratch_limit: int, price: Price, fed: str | None = None
) -> Plan | None:
    """The cheapest plan whose tensors and scratch take at most `ram` bytes: `plan` itself, or one with strips; None: there is none.

    g: the graph of `plan`, in its order. ram: None sets no limit. scratch_limit: bytes that speed may cost at most. fed: the input
    that is to exist as some rows only. Raises MicaError where it cannot be fed.
    """
    planner = Planner(g, plan, price, fed)
    if fed is not None and not planner.net.feeds():
        raise _not_fed(planner.net)
    if ram is None:
        ram = plan.arena_bytes + 2 * scratch_limit + max((s.rows * s.row_bytes for s in planner.net.steps), default=0)
    best: tuple[float, Plan] | None = None
    for scratch in dict.fromkeys(min(s, scratch_limit) for s in SCRATCH):
        if (way := _within(planner, ram, scratch)) is not None:
            cost, cuts, items = way
            if best is None or cost < best[0]:
                best = (cost, _plan(planner, cuts, items, scratch))
    if best is None:
        return None
    found = best[1]
    verify_strips(g, found.steps, found.offsets, found.arena_bytes, found.strips, IN_PLACE, fed)
    return found


def refusal(g: Graph, plan: Plan, ram: int, price: Price, fed: str | None = None) -> MicaError:
    """The error that says how little is enough."""
    return _too_little(Planner(g, plan, price, fed), ram)


def _within(planner: Planner, ram: int, scratch: int) -> tuple[float, list[Segment], list[_Item]] | None:
    """The cheapest cuts with `scratch`, and where everything lies; None where they take more than `ram`."""
    limit = room = ram - scratch
    above = 0  # the least limit whose cuts were not placed within `room`
    peak = 0  # of these cuts
    for _ in range(PLACINGS):
        found = planner.cheapest(limit, scratch)
        if found is None:
            if above - limit < ALIGN:
                return None
            limit = peak if limit < peak < above else (limit + above) // 2  # the last step down was too long
            continue
        cost, cuts = found
        if (expected := planner.scratch(cuts, scratch)) > ram - room:  # a smallest tile that is larger
            limit -= expected - (ram - room)
            room = ram - expected
            continue
        size, items = _place(planner.net, cuts, room)
        if size <= room:
            return cost, cuts, items
        above, peak = limit, max(seg.peak for seg in cuts)
        limit = min(limit, peak) - (size - room)
    return None


def _plan(planner: Planner, cuts: Sequence[Segment], items: Sequence[_Item], scratch: int) -> Plan:
    net = planner.net
    offsets = {}
    for item in items:
        offsets.update(dict.fromkeys(item.values, item.offset))
    for name, value in net.g.values.items():
        root, inside = net.places.find(name)
        if value.data is None and root in offsets:
            offsets[name] = offsets[root] + inside
    peaks = [seg.peak for seg in cuts for _ in range(seg.i, seg.j)]
    most = max(peaks)
    return replace(
        net.plan,
        offsets=offsets,
        arena_bytes=padded(max(item.offset + item.bytes for item in items)),
        peak_step=net.name(max(peaks.index(most), net.before)),
        live_bytes=peaks[net.before :],
        strips=tuple(_strip(seg, net.before) for seg in cuts if seg.band),
        by_rows=frozenset(net.steps[k].y for seg in cuts for k in seg.ring),
        scratch=scratch,
    )


def _strip(seg: Segment, before: int) -> Strip:
    """The strip as the file has it: of a fed input no step, but calls."""
    calls = (Call(FEED if c.step < before else c.step - before, c.rows, c.drop) for c in seg.calls)
    first = max(0, seg.i - before)
    return Strip(first, seg.j - before - first, tuple(calls))


def _not_fed(net: Net) -> MicaError:
    """Why the input cannot be fed."""
    s = net.steps[0]
    todo = "pack it without --feed"
    if not s.alone:
        shape = list(net.g.value(s.y).shape)
        return MicaError(
            f"--feed: input '{s.y}' {shape} has no rows of its own: a picture [1, H, W, C] is expected", todo=todo
        )
    for k in s.readers:
        for read in net.steps[k].reads:
            if read.name == s.y and read.whole:
                return MicaError(f"--feed: '{net.name(k)}' reads all rows of input '{s.y}' at once", todo=todo)
    for k in range(1, max(s.readers, default=0) + 1):
        node = net.steps[k].node
        if node is not None and (not net.steps[k].streams or net.steps[k].behind >= 0):
            what = "reads" if k in s.readers else "comes before the last reader of"
            return MicaError(
                f"--feed: '{net.name(k)}' ({node.op}) {what} input '{s.y}' and cannot run by rows", todo=todo
            )
    return MicaError(f"--feed: input '{s.y}' is read by no step, or more than {LONGEST} steps later", todo=todo)


def _too_little(planner: Planner, ram: int) -> MicaError:
    """The refusal: the least that can be, found by trying, and the layers that need it."""
    scratch = SCRATCH[-1]
    low, high = ram, ram
    while (found := _within(planner, high, scratch)) is None:
        low, high = high, 2 * high
    while high - low > 16:
        middle = (low + high) // 2
        if (better := _within(planner, middle, scratch)) is None:
            low = middle
        else:
            high, found = middle, better
    cuts = found[1]
    seg = max(cuts, key=lambda seg: seg.peak)
    first, last = planner.net.name(seg.i), planner.net.name(seg.j - 1)
    names = f"'{first}'" + (f" to '{last}'" if first != last else "")
    return MicaError(
        f"--ram {ram:,}: the least that this model runs in is {high:,} bytes of tensors and scratch, for {names}",
        todo="try a smaller input or fewer channels" + ("" if planner.net.before else ", or --feed"),
    )
