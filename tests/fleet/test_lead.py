"""Choice of the leader among several coordinators: any order of messages, cuts and deaths, without a broker."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

from mica_fleet.lead import Lead, Message, State


@dataclass
class Broker:
    """One topic: its retained message, and the connected clients. Messages arrive in one order for all."""

    retained: bytes = b""
    inboxes: dict[int, deque[tuple[bytes, bool]]] = field(default_factory=dict)

    def publish(self, message: Message | None) -> None:
        if message is None:
            return
        if message.retain:
            self.retained = message.payload
        for inbox in self.inboxes.values():
            inbox.append((message.payload, False))

    def connect(self, n: int) -> None:
        self.inboxes[n] = deque([(self.retained, True)] if self.retained else [])

    def cut(self, n: int, will: bool = True) -> None:
        if self.inboxes.pop(n, None) is not None and will:
            self.publish(Message(b"", True))


class World:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.broker = Broker()
        self.leads: dict[int, Lead] = {}

    def start(self) -> int:
        n = len(self.leads)
        self.leads[n] = Lead(f"process {n} on here", n + 1)
        self.connect(n, 0.0)
        return n

    def connect(self, n: int, away: float) -> None:
        self.broker.connect(n)
        self.broker.publish(self.leads[n].connected(n + 1, away))

    def step(self) -> bool:
        waiting = [n for n, inbox in self.broker.inboxes.items() if inbox]
        if not waiting:
            return False
        n = self.chance.choice(waiting)
        self.broker.publish(self.leads[n].handle(*self.broker.inboxes[n].popleft()))
        if self.leads[n].state is State.LOST:
            self.broker.cut(n, will=False)
        return True

    def calm(self) -> None:
        for _ in range(10_000):
            if not self.step():
                return
        raise AssertionError("they talk without end")

    def leaders(self) -> list[int]:
        return [n for n, lead in self.leads.items() if lead.state is State.LEADS and n in self.broker.inboxes]


def test_the_first_stays_and_a_second_is_refused_by_name() -> None:
    world = World(random.Random(0))
    first = world.start()
    world.calm()
    assert world.leads[first].state is State.LEADS and world.leads[first].certain
    second = world.start()
    world.calm()
    assert world.leads[second].state is State.LOST and world.leads[second].other == "process 0 on here"
    assert world.leaders() == [first]


def test_of_any_that_start_at_once_one_leads() -> None:
    for seed in range(200):
        world = World(random.Random(seed))
        for _ in range(world.chance.randrange(1, 5)):
            world.start()
            for _ in range(world.chance.randrange(4)):
                world.step()
        world.calm()
        assert len(world.leaders()) == 1, seed


def test_cuts_and_late_wills_do_not_end_who_leads() -> None:
    """Others come all the time; of each connection that is cut the will may come at once, late, or never."""
    for seed in range(200):
        world = World(random.Random(seed))
        first = world.start()
        world.calm()
        late = 0
        for _ in range(30):
            match world.chance.randrange(5):
                case 0:
                    now = world.chance.random() < 0.5
                    world.broker.cut(first, will=now)
                    late += not now
                    if world.chance.random() < 0.3:
                        world.start()
                    for _ in range(world.chance.randrange(6)):
                        world.step()
                    world.connect(first, world.chance.uniform(0, 29))
                case 1 if late:
                    late -= 1
                    world.broker.publish(Message(b"", True))
                case 2:
                    world.start()
                case _:
                    world.step()
        world.calm()
        assert world.leaders() == [first] and world.leads[first].state is State.LEADS, seed


def test_one_that_was_away_for_long_asks_and_a_word_without_an_author_does_not_count() -> None:
    world = World(random.Random(0))
    first = world.start()
    world.calm()
    world.broker.cut(first)
    second = world.start()
    world.calm()
    assert world.leaders() == [second]
    world.connect(first, 60.0)
    world.calm()
    assert world.leaders() == [second] and world.leads[first].state is State.LOST
    world.broker.cut(second, will=False)  # the broker was killed with it, and has kept its word
    third = world.start()
    world.calm()
    assert world.leads[third].state is State.ASKS and not world.leads[third].certain
    world.broker.publish(world.leads[third].unanswered())
    world.calm()
    assert world.leaders() == [third] and world.leads[third].unanswered() is None


def test_what_is_no_word_of_a_coordinator_says_nothing() -> None:
    lead = Lead("process 1 on here", 1)
    lead.connected(1, 0.0)
    for payload in (b"x", b"leads", b"leads 1 x y", b"asks", b"asks ", b"leads 9" * 20, b"\xff" * 40):
        assert lead.handle(payload, False) is None and lead.state is State.ASKS
