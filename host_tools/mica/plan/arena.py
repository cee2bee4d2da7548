"""Offsets: places storages in the arena so that those alive at the same time never touch, in as few bytes as possible.

Several greedy orders are tried; where none reaches the lower bound, random orders are searched for a bounded number of
steps, the best kept. First fit in some order reaches every optimal packing, so the search is over orders only.
(Greedy by size: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020.)
"""

import random
from collections.abc import Callable, Sequence

from mica.plan.lifetimes import Storage

SEARCH_PLACEMENTS = 200_000  # storage placements the random search may spend: about a second

ORDERS: tuple[Callable[[Storage], tuple], ...] = (
    lambda s: (-s.bytes, s.first),
    lambda s: (s.first, -s.bytes),
    lambda s: (-(s.last - s.first), -s.bytes),
    lambda s: (-s.bytes * (s.last - s.first + 1), s.first),
    lambda s: (-s.last, -s.bytes),
)


def lower_bound(storages: Sequence[Storage], n_steps: int) -> tuple[int, int]:
    """(largest number of bytes alive at once, its first step): no plan in this order can be smaller."""
    peak, at = 0, 0
    for k in range(n_steps + 1):
        live = sum(s.bytes for s in storages if s.first <= k <= s.last)
        if live > peak:
            peak, at = live, k
    return peak, at


def place(storages: Sequence[Storage], n_steps: int, seed: int = 1) -> int:
    """Sets every storage's offset; returns the bytes the arena needs."""
    if not storages:
        return 0
    bound, _ = lower_bound(storages, n_steps)
    meeting = conflicts(storages)
    best: list[int] = []
    best_bytes = 1 << 62

    def attempt(order: Sequence[int]) -> None:
        nonlocal best, best_bytes
        offsets, size = first_fit(storages, meeting, order)
        if size < best_bytes:
            best, best_bytes = offsets, size

    indices = range(len(storages))
    for key in ORDERS:
        attempt(sorted(indices, key=lambda i: key(storages[i])))
    rng = random.Random(seed)
    order = sorted(indices, key=lambda i: ORDERS[0](storages[i]))
    for _ in range(SEARCH_PLACEMENTS // len(storages)):
        if best_bytes == bound or len(storages) < 3:
            break
        trial = list(order)
        for _ in range(rng.randint(1, 3)):
            i = rng.randrange(len(trial))
            trial.insert(rng.randrange(len(trial)), trial.pop(i))
        before = best_bytes
        attempt(trial)
        if best_bytes < before:
            order = trial
    for s, offset in zip(storages, best, strict=True):
        s.offset = offset
    return best_bytes


def conflicts(storages: Sequence[Storage]) -> list[list[int]]:
    n = len(storages)
    return [[j for j in range(n) if j != i and storages[i].overlaps_in_time(storages[j])] for i in range(n)]


def first_fit(storages: Sequence[Storage], meeting: list[list[int]], order: Sequence[int]) -> tuple[list[int], int]:
    """Each storage in turn goes to the lowest offset that no placed, conflicting storage covers."""
    offsets = [-1] * len(storages)
    end = 0
    for i in order:
        taken = sorted((offsets[j], offsets[j] + storages[j].bytes) for j in meeting[i] if offsets[j] >= 0)
        at = 0
        for low, high in taken:
            if at + storages[i].bytes <= low:
                break
            at = max(at, high)
        offsets[i] = at
        end = max(end, at + storages[i].bytes)
    return offsets, end
