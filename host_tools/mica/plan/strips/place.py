"""Places of the tensors of strips: apart if in use at one time, an output behind input rows that are still read."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mica.plan.lifetimes import Storage, donors, padded
from mica.plan.strips.pull import Net
from mica.plan.strips.segment import Segment

TRIES = 400  # orders in which storages are placed, from each of the best CLIMBS to begin with
CLIMBS = 3


@dataclass
class Item(Storage):
    """Bytes that are in use from segment `first` to segment `last`."""

    ring: int = -1  # step whose rows it holds


def _items(net: Net, cuts: Sequence[Segment]) -> list[Item]:
    segment_of = [q for q, seg in enumerate(cuts) for _ in range(seg.i, seg.j)] + [len(cuts)]
    rings = {net.steps[k].y: (q, k) for q, seg in enumerate(cuts) for k in seg.rings}
    items: dict[str, Item] = {}
    for root, size in net.size.items():
        if root in rings:
            q, k = rings[root]
            items[root] = Item([root], cuts[q].rings[k].bytes, q, q, ring=k)
        else:
            items[root] = Item([root], size, segment_of[net.first[root]], segment_of[net.last[root]])
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


class _FirstFit:
    """The items of some cuts, and how far apart each two of them lie."""

    def __init__(self, net: Net, cuts: Sequence[Segment]) -> None:
        self.items = items = _items(net, cuts)
        self.apart: list[set[int]] = [set() for _ in items]  # which items share no byte with this one
        self.lag: dict[tuple[int, int], int] = {}
        of = {v: k for k, item in enumerate(items) for v in item.values}
        for q, seg in enumerate(cuts):
            for (x, y), behind in seg.lag.items():
                a, b = of[net.root(x)], of[net.root(y)]
                if a != b and items[a].last == q and items[b].first == q:
                    self.lag[a, b] = padded(behind)
        for a, one in enumerate(items):
            for b, two in enumerate(items[:a]):
                if _clash(one, two, cuts):
                    self.apart[a].add(b)
                    self.apart[b].add(a)

    def free(self, a: int, at: int, b: int, other: int) -> bool:
        """True if item a may lie at byte `at` while b lies at `other`."""
        if at + self.items[a].bytes <= other or other + self.items[b].bytes <= at:
            return True
        if (a, b) in self.lag:
            return at - other >= self.lag[a, b]
        return (b, a) in self.lag and other - at >= self.lag[b, a]

    def __call__(self, order: Sequence[int]) -> tuple[int, list[int]]:
        """Each item in turn goes to the lowest offset that is free; returns the bytes of the arena, and the offsets."""
        items, lag = self.items, self.lag
        offsets = [-1] * len(items)
        end = 0
        for a in order:
            placed = [b for b in self.apart[a] if offsets[b] >= 0]
            tries = {0}
            for b in placed:
                tries.add(offsets[b] + items[b].bytes)
                if (a, b) in lag:
                    tries.add(offsets[b] + lag[a, b])
                if (b, a) in lag and offsets[b] >= lag[b, a]:
                    tries.add(offsets[b] - lag[b, a])
            offsets[a] = next(at for at in sorted(tries) if all(self.free(a, at, b, offsets[b]) for b in placed))
            end = max(end, offsets[a] + items[a].bytes)
        return end, offsets


def _clash(one: Item, two: Item, cuts: Sequence[Segment]) -> bool:
    """True if both are in use at one time."""
    if one.overlaps_in_time(two) and one.ring >= 0 and two.ring >= 0:
        rings = cuts[one.first].rings
        return rings[one.ring].overlaps_in_time(rings[two.ring])
    return one.overlaps_in_time(two)


_ORDERS: tuple[Callable[[Item], tuple[int, ...]], ...] = (
    lambda item: (-item.bytes,),
    lambda item: (item.first, -item.bytes),
    lambda item: (-(item.last - item.first), -item.bytes),
    # What lies over the end of another comes before it, so that the other can leave room below.
    lambda item: (-item.bytes, -item.first),
    lambda item: (-item.first, -item.bytes),
    lambda item: (item.ring >= 0, -item.first, -item.bytes),
)


def place(net: Net, cuts: Sequence[Segment], limit: int) -> tuple[int, list[Item]]:
    """Sets the offset of every item; returns the bytes of the arena."""
    fit = _FirstFit(net, cuts)
    n = len(fit.items)
    enough = max(max(seg.peak for seg in cuts), limit)
    orders = [sorted(range(n), key=lambda a: key(fit.items[a])) for key in _ORDERS]
    tried = sorted(((*fit(order), order) for order in orders), key=lambda found: found[0])
    best = tried[0][:2]
    rng = random.Random(1)
    for here, _, order in tried[:CLIMBS]:
        for _ in range(TRIES):
            if best[0] <= enough:
                break
            trial = list(order)
            for _ in range(rng.randint(1, 3)):
                trial.insert(rng.randrange(n), trial.pop(rng.randrange(n)))
            found = fit(trial)
            if found[0] <= here:
                here, order = found[0], trial
            best = min(best, found, key=lambda found: found[0])
    for item, at in zip(fit.items, best[1], strict=True):
        item.offset = at
    return best[0], fit.items
