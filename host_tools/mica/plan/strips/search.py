"""Choice of the steps that become strips: the cheapest cuts whose tensors fit into a number of bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from mica.errors import MicaError
from mica.file.codec import StepRecord, TensorRecord, step_flags
from mica.file.order import CALL_COST, Call, Strip, call_dims, is_image
from mica.format.schema import ALIGN, FEED
from mica.ir.graph import Graph, Node
from mica.ir.weight_layout import layout_of
from mica.kernels import KERNEL_BY_NAME
from mica.kernels.scratch import scratch_want
from mica.plan.lifetimes import IN_PLACE, padded
from mica.plan.plan import Plan
from mica.plan.strips.place import Item, place
from mica.plan.strips.pull import LONGEST, Net
from mica.plan.strips.segment import Segment, segment
from mica.plan.verify import verify_strips

BANDS = (1, 2, 4)  # rows of a call
MOVE = 0.7  # cycles a byte that is moved
WAYS = 8  # cuts that are kept at each step

# (kernel, step, inputs, output, bytes of scratch) -> what it costs to run, in cycles or instructions of some core
Price = Callable[[str, StepRecord, Sequence[TensorRecord], TensorRecord, int], float]
SCRATCH = (16 << 10, 12 << 10, 8 << 10, 6 << 10, 4 << 10, 3 << 10, 2 << 10)  # bytes that are tried for it
PLACINGS = 8  # times that placing may need more than a segment's bytes before a plan is given up


@dataclass(frozen=True)
class _Way:
    """Cuts up to some step: their cost, how far outputs have walked, the last segment, and the way before it."""

    cost: float
    walked: int
    last: Segment | None
    before: _Way | None


class Planner:
    """All segments of a net, each made when it is first asked for."""

    def __init__(self, g: Graph, plan: Plan, price: Price, fed: str | None = None) -> None:
        self.net = Net(g, plan, fed)
        self._given = price
        self._records = [StepRecord("", "", (), ())] * self.net.before + [self._record(node) for node in plan.steps]
        self._costs: dict[tuple[int, int, int], float] = {}
        self.segment = cache(partial(segment, self.net))
        self.least = cache(self.net.least)

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
        """Return the price of a call of step k in the middle of a picture, or with all its rows of the whole step."""
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

    def step_cost(self, k: int, band: int, scratch: int) -> float:
        """Return that of all calls of a step; band 0: of the step whole."""
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

        Outputs that lie before their inputs, strip after strip, walk towards the arena's beginning: what they have
        walked counts.
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


def search(
    g: Graph, plan: Plan, ram: int | None, scratch_limit: int, price: Price, fed: str | None = None
) -> Plan | None:
    """The cheapest plan whose tensors and scratch take at most `ram` bytes: `plan` itself, or one with strips;
    None: there is none.

    g: the graph of `plan`, in its order. ram: None sets no limit. scratch_limit: bytes that speed may cost at most.
    fed: the input that is to exist as some rows only. Raises MicaError where it cannot be fed.
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


def _within(planner: Planner, ram: int, scratch: int) -> tuple[float, list[Segment], list[Item]] | None:
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
        size, items = place(planner.net, cuts, room)
        if size <= room:
            return cost, cuts, items
        above, peak = limit, max(seg.peak for seg in cuts)
        limit = min(limit, peak) - (size - room)
    return None


def _plan(planner: Planner, cuts: Sequence[Segment], items: Sequence[Item], scratch: int) -> Plan:
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
        by_rows=frozenset(net.steps[k].y for seg in cuts for k in seg.rings),
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


def refusal(g: Graph, plan: Plan, ram: int, price: Price, fed: str | None = None) -> MicaError:
    """The error that says how little is enough, found by trying, and for which layers."""
    planner, scratch = Planner(g, plan, price, fed), SCRATCH[-1]
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
