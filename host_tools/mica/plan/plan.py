"""The plan of a model: its steps, the offset of every activation, and the figures a report needs."""

from dataclasses import dataclass

from mica.file.order import Strip
from mica.ir.graph import Graph, Node
from mica.plan.alias import alias
from mica.plan.arena import lower_bound, place
from mica.plan.lifetimes import IN_PLACE, analyse
from mica.plan.schedule import schedule
from mica.plan.verify import verify


@dataclass(frozen=True)
class Plan:
    """All sizes in bytes."""

    steps: list[Node]
    offsets: dict[str, int]  # activation -> offset in the arena
    arena_bytes: int  # activations, without scratch
    lower_bound: int  # what is alive at once, at most: no plan in this order can be smaller
    peak_step: str  # name of the first step at which the lower bound is reached
    activation_bytes: int  # every activation stored once: what it would take without a plan
    live_bytes: list[int]  # alive while step k runs
    strips: tuple[Strip, ...] = ()  # steps that run together by rows (plan/strips/)
    by_rows: frozenset[str] = frozenset()  # activations of which only some rows are kept
    scratch: int | None = None  # bytes that the steps may want of it; None: nothing was decided


TRIES = 8  # steps for which best_plan compares running them with aliasing their bytes


def best_plan(g: Graph) -> tuple[Graph, Plan]:
    """An integer graph in its best order, with aliases where they cost no memory, and its plan."""
    aliased, replaced = alias(g)
    best = schedule(aliased)
    result = plan(best)
    if not replaced:
        return best, result
    kept: set[int] = set()  # ids of steps that are better run than aliased
    for more in ({id(n) for n in g.nodes}, *({id(n)} for n in replaced[:TRIES])):
        trial = schedule(_aliased_but(g, kept | more))
        trial_plan = plan(trial)
        if trial_plan.arena_bytes < result.arena_bytes:
            best, result, kept = trial, trial_plan, kept | more
    return best, result


def _aliased_but(g: Graph, kept: set[int]) -> Graph:
    return alias(g, lambda node: id(node) not in kept)[0]


def apart(g: Graph) -> Plan:
    """Every activation at a place of its own, without a search: enough to run a model once, on a computer."""
    lifetimes = analyse(g)
    at = 0
    for storage in lifetimes.storages:
        storage.offset, at = at, at + storage.bytes
    offsets = {name: lifetimes.offset(name) for name in lifetimes.of_value}
    return Plan(lifetimes.steps, offsets, at, at, "", at, [at] * len(lifetimes.steps))


def plan(g: Graph) -> Plan:
    """Plans an integer graph in its node order, and proves the plan."""
    lifetimes = analyse(g)
    n = len(lifetimes.steps)
    arena_bytes = place(lifetimes.storages, n)
    offsets = {name: lifetimes.offset(name) for name in lifetimes.of_value}
    verify(g, offsets, arena_bytes, IN_PLACE)
    bound, at = lower_bound(lifetimes.storages, n)
    made = [*g.inputs, *(node.outputs[0] for node in lifetimes.steps)]
    made = [name for name in made if g.value(name).held < 0]
    return Plan(
        steps=lifetimes.steps,
        offsets=offsets,
        arena_bytes=arena_bytes,
        lower_bound=bound,
        peak_step=lifetimes.steps[min(at, n - 1)].name if n else "",
        activation_bytes=sum(g.value(name).bytes for name in made),
        live_bytes=[sum(s.bytes for s in lifetimes.storages if s.first <= k <= s.last) for k in range(n)],
    )
