"""Boards that come back to a broker that was started again, all at once, on a virtual clock.

    returns(100_000) -> seconds after the start until the coordinator knows each

A board waits as the agent does (`firmware/mica_fleet`): 250 ms and as much again at random, doubled up to 8 s.
The broker serves one after the other; a board that waits longer than the client's time-out gives up and tries again,
and the broker has had the work all the same.
"""

import heapq
import random

FIRST_WAIT, LONGEST_WAIT = 0.25, 8.0  # seconds, of the agent
PATIENCE = 5.0  # seconds, of mqtt.py
CONNECT = 0.000058  # seconds of the broker for connect, subscription and birth (mosquitto, measured)


def returns(
    boards: int,
    down: float = 1.0,
    connect: float = CONNECT,
    coordinator: float = 0.00008,
    most: float = 300.0,
    seed: int = 0,
) -> list[float]:
    """In order, of the boards that are back within `most` seconds. down: how long the broker was away."""
    chance = random.Random(seed)
    waiting: list[tuple[float, float]] = []  # heap: when a board tries, its next wait
    for _ in range(boards):
        at, wait = -down, FIRST_WAIT
        while at < 0.0:
            at += wait + chance.random() * wait
            wait = min(2 * wait, LONGEST_WAIT)
        waiting.append((at, wait))
    heapq.heapify(waiting)
    broker = known = 0.0  # when the broker is free, and the coordinator
    found: list[float] = []
    while waiting and waiting[0][0] < most:
        at, wait = waiting[0]
        broker = max(broker, at) + connect
        if broker - at <= PATIENCE:
            heapq.heappop(waiting)
            known = max(known, broker) + coordinator
            if known <= most:
                found.append(known)
        else:
            again = at + PATIENCE + wait + chance.random() * wait
            heapq.heapreplace(waiting, (again, min(2 * wait, LONGEST_WAIT)))
    return found
