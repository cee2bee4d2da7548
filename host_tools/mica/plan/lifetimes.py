"""Storages that activations share by construction, and the first and last step at which each storage is alive."""

from __future__ import annotations

from dataclasses import dataclass, field

from mica.format.schema import ALIGN
from mica.ir.graph import Graph, Node
from mica.kernels import IN_PLACE as _IN_PLACE
from mica.kernels import KERNEL_BY_NAME
from mica.plan.alias import ALIASES, Places

# Inputs that a kernel may write its output over, where they have its shape: it reads each element before it writes it.
IN_PLACE = {name: tuple(range(KERNEL_BY_NAME[name].n_inputs)) for name in _IN_PLACE}


def padded(size: int) -> int:
    """Bytes that a tensor of `size` bytes takes in the arena."""
    return -(-size // ALIGN) * ALIGN


@dataclass
class Storage:
    """A run of arena bytes that one or more values use. Alive from step `first` to step `last`, both included."""

    values: list[str]
    bytes: int
    first: int
    last: int
    offset: int = -1

    def overlaps_in_time(self, other: Storage) -> bool:
        return self.first <= other.last and other.first <= self.last


@dataclass
class Lifetimes:
    """`steps` are the graph's nodes that execute; the others (plan/alias.py) only give bytes another name."""

    steps: list[Node]
    storages: list[Storage] = field(default_factory=list)
    of_value: dict[str, Storage] = field(default_factory=dict)
    inside: dict[str, int] = field(default_factory=dict)  # offset of a value in its storage, bytes

    def offset(self, name: str) -> int:
        """Offset of a value in the arena, once its storage has a place."""
        return self.of_value[name].offset + self.inside[name]


def analyse(g: Graph) -> Lifetimes:
    """Storages of an integer graph in its node order.

    Model inputs are alive from step 0, before which they are written; model outputs up to the last step, after which
    they are read. Inputs may be overwritten once their last reader ran. A value that others are parts of is alive from
    the first write to any of its parts to the last read of any. States that are written in place are in none.
    """
    steps = [n for n in g.nodes if n.op not in ALIASES]
    result = Lifetimes(steps)
    places = Places(g, g.nodes)
    last_read = _last_reads(g, steps, places)
    at: dict[str, Storage] = {}  # root value -> its storage

    def write(name: str, k: int) -> None:
        """Step k, or the caller before step 0, writes `name` where nothing else decides where it lies."""
        root, _ = places.find(name)
        if places.held(root):
            return
        if root not in at:
            at[root] = Storage([], padded(g.value(root).bytes), k, last_read.get(root, k))
            result.storages.append(at[root])
        at[root].last = max(at[root].last, k)

    for name in g.inputs:
        write(name, 0)
    for k, node in enumerate(steps):
        y = node.outputs[0]
        root, _ = places.find(y)
        donor = _donor(g, node, k, places, at) if root == y and not places.held(y) else None
        if donor is None:
            write(y, k)
        else:
            at[root] = donor
            donor.last = max(donor.last, k, last_read.get(root, k))
    for name, value in g.values.items():
        root, inside = places.find(name)
        if value.data is None and root in at:
            at[root].values.append(name)
            result.of_value[name] = at[root]
            result.inside[name] = inside
    return result


def _last_reads(g: Graph, steps: list[Node], places: Places) -> dict[str, int]:
    """Root value -> index of the last step that reads any of its bytes."""
    last: dict[str, int] = {}
    for k, node in enumerate(steps):
        for i in node.inputs:
            if not g.is_const(i):
                last[places.find(i)[0]] = k
    for o in g.outputs:
        last[places.find(o)[0]] = len(steps)
    return last


def donors(g: Graph, node: Node, places: Places) -> list[str]:
    """Inputs that a kernel may write over: of the output's shape, filling a storage of their own, read once by it."""
    y = node.outputs[0]
    active = [i for i in node.inputs if not g.is_const(i)]
    found = []
    for index in IN_PLACE.get(node.op, ()):
        name = node.inputs[index]
        if g.is_const(name) or g.value(name).shape != g.value(y).shape or places.find(y) != (y, 0):
            continue
        root = places.find(name)[0]
        if places.held(root):
            continue
        whole = padded(g.value(root).bytes) == padded(g.value(y).bytes)
        if whole and sum(places.find(i)[0] == root for i in active) == 1:
            found.append(name)
    return found


def _donor(g: Graph, node: Node, k: int, places: Places, at: dict[str, Storage]) -> Storage | None:
    """The storage of an input whose bytes die at this step and may become the output's."""
    for name in donors(g, node, places):
        storage = at[places.find(name)[0]]
        active = [i for i in node.inputs if i != name and not g.is_const(i) and not places.held(i)]
        others = [at[places.find(i)[0]] for i in active]
        if storage.last <= k and all(s is not storage for s in others):
            return storage
    return None
