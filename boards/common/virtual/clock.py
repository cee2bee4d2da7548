"""The board's time, by core 0's cycles, and the alarms that ring in it."""

import math
from collections.abc import Callable

from native import State

POLL = 1000  # cycles at most that pass at one look


class Alarm:
    """Calls `action` at a time; one time at most is set."""

    def __init__(self, clock: "Clock", action: Callable[[], None]) -> None:
        self.clock, self.action = clock, action
        self.at = math.inf

    def schedule(self, nanos: float) -> None:
        self.at = self.clock.nanos + nanos
        self.clock.alarms.add(self)
        self.clock.changed()

    def cancel(self) -> None:
        self.at = math.inf
        self.clock.alarms.discard(self)
        self.clock.changed()


class Clock:
    """`state` is core 0's; `end_turn` is called where an alarm is due before its turn ends."""

    def __init__(self, state: State, end_turn: Callable[[int], None]) -> None:
        self.state, self.end_turn = state, end_turn
        self.alarms: set[Alarm] = set()
        self.nanos_per_cycle = 1e9 / 12_000_000
        self._cycles, self._nanos = state.cycles, 0.0
        self.skipped = 0.0  # cycles that went by while core 0 executed nothing
        self.deadline: float = math.inf  # in cycles

    @property
    def nanos(self) -> float:
        return self._nanos + (self.state.cycles - self._cycles) * self.nanos_per_cycle

    @property
    def micros(self) -> int:
        return int(self.nanos / 1000 + 1e-6)

    def alarm(self, action: Callable[[], None]) -> Alarm:
        return Alarm(self, action)

    def changed(self) -> None:
        first = min((alarm.at for alarm in self.alarms), default=math.inf)
        self.deadline = math.inf
        if first != math.inf:
            self.deadline = self._cycles + math.ceil((first - self._nanos) / self.nanos_per_cycle)
            self.end_turn(self.deadline)

    def ring(self) -> None:
        """Call the alarms whose time has come, the earliest first."""
        while True:
            due = [alarm for alarm in self.alarms if alarm.at <= self.nanos + 0.5]
            if not due:
                break
            alarm = min(due, key=lambda a: a.at)
            self.alarms.discard(alarm)
            alarm.at = math.inf
            alarm.action()
        self.changed()

    @property
    def idle_nanos(self) -> float:
        """Until the next alarm; infinite where there is none."""
        return max(0.0, min((alarm.at for alarm in self.alarms), default=math.inf) - self.nanos)

    def skip(self, nanos: float) -> None:
        """Let time pass in which core 0 executes nothing."""
        self._nanos, self._cycles = self.nanos + nanos, self.state.cycles
        self.skipped += nanos / self.nanos_per_cycle
        self.ring()

    def poll(self, alarm: Alarm) -> None:
        """A program asks again and again whether an alarm has rung: let time pass for it,
        which is faster than its loop."""
        if alarm in self.alarms:
            self.state.cycles += max(0, min(POLL, int((alarm.at - self.nanos) / self.nanos_per_cycle)))

    def set_frequency(self, hertz: float) -> None:
        self._nanos, self._cycles = self.nanos, self.state.cycles
        self.nanos_per_cycle = 1e9 / hertz
        self.changed()
