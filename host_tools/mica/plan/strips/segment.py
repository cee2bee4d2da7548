"""A strip, or one step alone: the rows that are kept while it runs, and the bytes that it takes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from mica.file.order import Call
from mica.plan.arena import conflicts, first_fit
from mica.plan.lifetimes import Storage, padded
from mica.plan.strips.pull import Net, Read, pull


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
    calls: list[Call] = field(default_factory=list)
    rings: dict[int, Storage] = field(
        default_factory=dict
    )  # step -> the rows of its output that are kept, alive by calls
    lag: dict[tuple[str, str], int] = field(default_factory=dict)  # (read, written whole) -> bytes it has to lie behind


def segment(net: Net, i: int, j: int, band: int) -> Segment:
    """The strip [i, j), or with band 0 step i alone."""
    if band == 0:
        return Segment(i, j, 0, net.plan.live_bytes[i - net.before])
    steps = net.steps
    seg = Segment(i, j, band)
    seg.rings = {k: Storage([steps[k].y], 0, -1, -1) for k in range(i, j) if net.inner(k, i, j)}
    log = pull(net, i, j, band)
    kept, lows = _rows_kept(net, seg, log)
    first: Counter[int] = Counter()
    have: Counter[int] = Counter()
    for (k, rows), oldest in zip(log, lows, strict=True):
        drop = 0
        if k in seg.rings and have[k] - first[k] + rows > kept[k]:
            drop = oldest - first[k]
            first[k] += drop
            seg.moved += (have[k] - first[k]) * steps[k].row_bytes
        seg.calls.append(Call(k, rows, drop))
        have[k] += rows
    for k, ring in seg.rings.items():
        ring.bytes = padded(kept[k] * steps[k].row_bytes)
    outs = {net.root(steps[k].y) for k in range(i, j) if k not in seg.rings}
    seg.peak = net.around(i, j) + _packed(list(seg.rings.values()))
    for (x, y), lag in seg.lag.items():
        if y in outs and net.first[y] >= i:
            together = max(padded(lag) + net.size[x], net.size[y])
            if (saved := net.size[x] + net.size[y] - together) > seg.saved:
                seg.saved, seg.shift, seg.span = saved, padded(lag), max(net.size[x], net.size[y])
    seg.peak -= seg.saved
    return seg


def _rows_kept(net: Net, seg: Segment, log: Sequence[tuple[int, int]]) -> tuple[dict[int, int], list[int]]:
    """Rows of each ring, and for each call the oldest that is still needed;
    sets when rings live, and what has to lie behind what."""
    steps = net.steps
    readers: dict[str, list[tuple[int, Read]]] = {}
    for k in range(seg.i, seg.j):
        for r in steps[k].reads:
            readers.setdefault(r.name, []).append((k, r))
    # What dies in here, and is a tensor of its own.
    dying = [
        x
        for x, rs in readers.items()
        if rs[0][1].maker < seg.i and net.root(x) == x and net.last[x] < seg.j and not any(r.whole for _, r in rs)
    ]
    done: Counter[int] = Counter()

    def low(name: str, have: int) -> int:
        lows = [r.low(done[k]) if done[k] < steps[k].rows else have for k, r in readers[name]]
        return min([have, *lows])

    kept = dict.fromkeys(seg.rings, 0)
    lows: list[int] = []
    for at, (k, rows) in enumerate(log):
        s = steps[k]
        ring = seg.rings.get(k)
        lows.append(low(s.y, done[k]) if ring else 0)
        if ring:
            kept[k] = max(kept[k], done[k] + rows - lows[-1])
            if ring.first < 0:
                ring.first = ring.last = at
        else:
            root, inside = net.places.find(s.y)  # of a tensor that several steps fill
            made = inside + (done[k] + rows) * s.row_bytes
            for x in dying:
                r = readers[x][0][1]
                gone = low(x, r.rows)
                if gone < r.rows:
                    pair = (x, root)
                    seg.lag[pair] = max(seg.lag.get(pair, 0), made - gone * r.row_bytes)
        for r in s.reads:
            if r.maker in seg.rings:
                seg.rings[r.maker].last = at
        done[k] += rows
    return kept, lows


def _packed(rings: Sequence[Storage]) -> int:
    """Bytes of the rows that are kept, those never alive together sharing."""
    meeting = conflicts(rings)
    orders = (sorted(range(len(rings)), key=key) for key in (lambda k: -rings[k].bytes, lambda k: rings[k].first))
    return min(first_fit(rings, meeting, order)[1] for order in orders)
