"""The order of the steps: the one whose peak of live bytes is smallest.

Best-first search over sets of executed steps. The peak of an order is the largest of its steps' demands, so the first
complete order that leaves the queue has the smallest peak there is. The number of sets is small for the networks that
boards run (chains with a few branches); where it is not, the search gives up after `SEARCH_STATES` and a greedy order
is compared with the file's own.
"""

import heapq
import itertools
from dataclasses import dataclass

from mica.ir.graph import Graph, Node
from mica.plan.alias import ALIASES, Places
from mica.plan.lifetimes import donors, padded

SEARCH_STATES = 30_000  # sets of executed steps the search may visit: a second or two


@dataclass(frozen=True)
class _Step:
    """A node as the search sees it: storages by number."""

    reads: tuple[int, ...]
    write: int
    in_place: tuple[int, ...]  # reads whose storage the output may take over
    needs: int  # bitmask of the steps that make what it reads


class _Problem:
    """Sizes, readers and dependencies of a graph's steps, aliases resolved to the storage they lie in."""

    def __init__(self, g: Graph) -> None:
        places = Places(g, g.nodes)
        names: dict[str, int] = {}
        self.sizes: list[int] = []

        def storage(name: str) -> int:
            name = places.find(name)[0]
            if name not in names:
                names[name] = len(self.sizes)
                self.sizes.append(0 if places.held(name) else padded(g.value(name).bytes))
            return names[name]

        self.nodes: list[Node] = []
        self.inputs = list(dict.fromkeys(storage(i) for i in g.inputs))
        makers: dict[str, int] = {}  # value -> bitmask of the steps that make it, or its parts
        self.steps: list[_Step] = []
        for n in g.nodes:
            active = [i for i in n.inputs if not g.is_const(i)]
            needs = 0
            for i in active:
                needs |= makers.get(i, 0)
            if n.op in ALIASES:
                makers[n.outputs[0]] = needs
                continue
            makers[n.outputs[0]] = 1 << len(self.nodes)
            self.nodes.append(n)
            reads = tuple(dict.fromkeys(storage(i) for i in active))
            shared = tuple(storage(i) for i in donors(g, n, places))
            self.steps.append(_Step(reads, storage(n.outputs[0]), shared, needs))
        kept = {storage(o) for o in g.outputs}
        self.readers = [0] * len(self.sizes)  # bitmask of the steps that read each storage
        self.writers = [0] * len(self.sizes)  # and of those that write it: several if it is joined from parts
        for k, s in enumerate(self.steps):
            self.writers[s.write] |= 1 << k
            for r in s.reads:
                self.readers[r] |= 1 << k
        self.users = [r | w for r, w in zip(self.readers, self.writers, strict=True)]
        for o in kept:
            self.users[o] = -1  # also steps that there are not: it never dies
        self.all_done = (1 << len(self.steps)) - 1

    def dies(self, storage: int, done: int) -> bool:
        """No step outside `done` reads or writes it, and it is no model output."""
        return not self.users[storage] & ~done

    def is_live(self, storage: int, done: int) -> bool:
        """A model input, or a part of it was written."""
        return storage in self.inputs or bool(self.writers[storage] & done)

    def run(self, k: int, done: int, live: int) -> tuple[int, int]:
        """Step k on top of `done` with `live` bytes: (bytes in use while it runs, bytes live behind it)."""
        s, rest = self.steps[k], ~(done | 1 << k)
        dying = [r for r in s.reads if not self.users[r] & rest]
        out = 0 if self.is_live(s.write, done) else self.sizes[s.write]
        during = behind = live + out
        if dying:
            if any(r in dying for r in s.in_place):
                during = live
            for r in dying:
                behind -= self.sizes[r]
        if s.write not in dying and self.dies(s.write, ~rest):  # nobody reads it
            behind -= self.sizes[s.write]
        return during, behind


def schedule(g: Graph) -> Graph:
    """g with its nodes in the best order found. An alias directly follows what makes its inputs."""
    problem = _Problem(g)
    own = list(range(len(problem.steps)))
    order = _search(problem) or min((_greedy(problem), own), key=lambda o: peak(problem, o))
    if peak(problem, order) >= peak(problem, own):
        order = own  # nothing gained: keep the order people know from the file
    g.nodes = _with_aliases(g, [problem.nodes[k] for k in order])
    return g


def peak(problem: _Problem, order: list[int]) -> int:
    """Most bytes in use at any step of an order."""
    done, live, most = 0, sum(problem.sizes[i] for i in problem.inputs), 0
    for k in order:
        during, live = problem.run(k, done, live)
        most = max(most, during)
        done |= 1 << k
    return most


def _search(problem: _Problem) -> list[int] | None:
    serial = itertools.count()
    start = sum(problem.sizes[i] for i in problem.inputs)
    queue: list[tuple[int, int, int, int, int]] = [(start, 0, next(serial), 0, start)]
    came_from: dict[int, tuple[int, int]] = {}
    best = {0: start}
    followers = [[j for j, s in enumerate(problem.steps) if s.needs >> k & 1] for k in range(len(problem.steps))]
    ready: dict[int, int] = {}  # by set that was visited: bitmask of the steps that can run next
    while queue:
        most, _, _, done, live = heapq.heappop(queue)
        if done == problem.all_done:
            order = []
            while done:
                done, k = came_from[done]
                order.append(k)
            return order[::-1]
        if done in ready:
            continue
        if done:
            before, k = came_from[done]
            waiting, news = ready[before] & ~(1 << k), followers[k]
        else:
            waiting, news = 0, list(range(len(problem.steps)))
        for j in news:
            if not problem.steps[j].needs & ~done:
                waiting |= 1 << j
        ready[done] = waiting
        if len(ready) > SEARCH_STATES:
            return None
        while waiting:
            step = waiting & -waiting  # in the file's order
            waiting ^= step
            k, after = step.bit_length() - 1, done | step
            known = best.get(after, 1 << 62)
            if known <= most:  # so many orders lead to one set that most of them end here
                continue
            during, behind = problem.run(k, done, live)
            reached = max(most, during)
            if reached < known:
                best[after] = reached
                came_from[after] = (done, k)
                # Among equal peaks, the set with more steps done first: it reaches the end without detours.
                heapq.heappush(queue, (reached, -after.bit_count(), next(serial), after, behind))
    return None


def _greedy(problem: _Problem) -> list[int]:
    """Take of the steps that can run always the one that leaves the fewest bytes live."""
    done, live, order = 0, sum(problem.sizes[i] for i in problem.inputs), []
    while done != problem.all_done:
        ready = [k for k, s in enumerate(problem.steps) if not done >> k & 1 and not s.needs & ~done]
        k = min(ready, key=lambda k: (problem.run(k, done, live)[::-1], k))
        _, live = problem.run(k, done, live)
        done |= 1 << k
        order.append(k)
    return order


def _with_aliases(g: Graph, steps: list[Node]) -> list[Node]:
    pending = [n for n in g.nodes if n.op in ALIASES]
    made = set(g.inputs)
    nodes: list[Node] = []

    def flush() -> None:
        nonlocal pending
        for n in list(pending):
            if made.issuperset(n.inputs):
                nodes.append(n)
                made.add(n.outputs[0])
                pending = [p for p in pending if p is not n]

    flush()
    for n in steps:
        nodes.append(n)
        made.update(n.outputs)
        flush()
    return nodes
