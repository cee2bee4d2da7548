"""Puts models onto the boards behind a broker, and takes them back: drives a Rollout (rollout.py) over MQTT.

The chunks of every file are retained at the broker, and so is each board's list of desired models: a board that comes
later takes it without anybody who waits for it.
"""

import contextlib
import queue
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mica.errors import MicaError
from mica.format.names import printable
from mica.link.board import Say
from mica_fleet import capacity
from mica_fleet.desired import blob, chunks
from mica_fleet.mqtt_link import Listener
from mica_fleet.reports import Have, State, Taught, parse_have, parse_state, parse_taught
from mica_fleet.rollout import Action, Ended, Restore, Rollout, Tell, Terms
from mica_fleet.rollout import State as BoardState
from mica_fleet.site import Site
from mica_fleet.store import Names, Store

_LISTEN_SECONDS = 1.0  # for what is retained
_BACK_SECONDS = 60.0  # for boards to take what they had before
_ROM = "/rom/"
Event = State | Have | Taught
_LONGEST_NAME = 64  # bytes, as firmware/mica_fleet/push.py has it


@dataclass(frozen=True)
class Outcome:
    """`reason` is "" where the rollout went through. `boards`: state and reason of each."""

    reason: str
    boards: dict[str, tuple[BoardState, str]]
    seconds: float


class Fleet(contextlib.AbstractContextManager["Fleet"]):
    """A connection that reads reports of boards and sends them desired models. Raises MicaError without a broker."""

    def __init__(self, site: Site, say: Say = lambda line: None) -> None:
        if not site.key:
            raise MicaError(f"{site.path}: key is missing, which pushes are signed with", todo="make the fleet anew")
        self.site = site
        self.store = Store(site)
        self._events: queue.SimpleQueue[tuple[str, Event]] = queue.SimpleQueue()
        self._sent: set[int] = set()
        self.states: dict[str, State] = {}
        self._listener = Listener(site, self._heard, tell=lambda board, reason: say(f"{board}: {reason}"))

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _heard(self, board: str, what: str, payload: bytes) -> None:
        if what == "state" and payload:
            self._events.put((board, parse_state(payload)))
        elif what == "have" and payload:
            self._events.put((board, parse_have(payload)))
        elif what == "head":
            self._events.put((board, parse_taught(payload)))

    def look(self, seconds: float = _LISTEN_SECONDS) -> None:
        """Wait for the reports of boards that are there."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.next_event(left)

    def next_event(self, seconds: float) -> tuple[str, Event] | None:
        """The next report of a board, None where none comes in time."""
        try:
            board, event = self._events.get(timeout=seconds)
        except queue.Empty:
            return None
        if isinstance(event, State):
            self.states[board] = event
            if event.up:
                self.store.known[board] = _by_name(event.models)
        return board, event

    def state_again(self) -> int:
        """Send all desired models to the broker, which forgets them when it ends. Return the number of boards."""
        for board in self.store.desired:
            self._say(board)
        return len(self.store.desired)

    def _say(self, board: str) -> None:
        """Publish the files, then the list of desired models."""
        last = None
        for crc in self.store.desired[board][1].values():
            if crc is None or crc in self._sent:
                continue
            data = self.store.read(crc)
            for n, chunk in enumerate(chunks(data)):
                topic = f"mica/{self.site.fleet}/blob/{blob(data)}/{n}"
                last = self._listener.client.publish(topic, chunk, qos=1, retain=True)
            self._sent.add(crc)
        if last is not None:
            last.wait_for_publish(30.0)
        self._listener.client.publish(
            f"mica/{self.site.fleet}/to/{board}/want", self.store.want(board), qos=1, retain=True
        ).wait_for_publish(30.0)

    def send(self, board: str, what: str, payload: bytes) -> None:
        """Send a board a message that is not retained."""
        self._listener.send(board, what, payload, qos=1)

    def had(self, board: str, names: Names) -> Names:
        """CRC-32 of the board's models of these names, now or when it was last there; None for no model. Names are left
        out if their model is unknown, or if no copy of it exists."""
        known = self.store.known.get(board)
        found: Names = {} if known is None else {name: known.get(name) for name in names}
        return {name: crc for name, crc in found.items() if crc is None or self.store.has(crc)}

    def roll_out(self, desired: Mapping[str, Names], terms: Terms, say: Say, remember: bool) -> Outcome:
        """Bring boards to their desired models; if that is stopped, back to those that they had, which `remember` keeps
        for a rollback. Raises MicaError where no board is there."""
        begun = time.monotonic()
        rollout = Rollout(desired, terms)
        told: dict[str, int] = {}
        back: dict[str, Names] = {}
        actions: list[Action] = []
        for board in desired:
            if board in self.states:
                actions += rollout.up(time.monotonic(), board, self.states[board].up)
        if not actions:
            raise MicaError(f"no board of {self.site.fleet} is up", todo=f"mica fleet doctor {self.site.path.stem}")
        reason, wave = "", 0
        while True:
            self._carry_out([a for a in actions if not isinstance(a, Ended)], desired, told, back, remember)
            reason = next((a.reason for a in actions if isinstance(a, Ended)), reason)
            if rollout.wave != wave:
                wave = rollout.wave
                say(f"wave {wave} of {rollout.waves}")
            for board in sorted(rollout.changed):
                board_state, why = rollout.state(board)
                if board_state is not BoardState.IN_PROGRESS:
                    say(f"{board} {board_state}{': ' + printable(why) if why else ''}")
            rollout.changed.clear()
            if rollout.ended:
                if reason:
                    self._wait_for({board: told[board] for board in back}, say)
                return Outcome(reason, rollout.states(), time.monotonic() - begun)
            actions = self._next_actions(rollout, told)

    def _carry_out(
        self,
        actions: Sequence[Tell | Restore],
        desired: Mapping[str, Names],
        told: dict[str, int],
        back: dict[str, Names],
        remember: bool,
    ) -> None:
        """Tell boards. told: the generation that each was told last; back: what each had before the first.
        Both are added to."""
        for action in actions:
            board = action.board
            if isinstance(action, Restore):
                free = [name for name in desired[board] if name not in back[board]]
                told[board] = self.store.tell(board, back[board], free)
                continue
            if board not in back:
                back[board] = self.had(board, desired[board])
                changes = any(desired[board][name] != crc for name, crc in back[board].items())
                if remember and changes:  # a push that goes on keeps its beginning
                    self.store.before[board] = back[board]
            told[board] = self.store.tell(board, desired[board])
        if actions:
            self.store.save()  # before it is said: no generation is given twice
        for action in actions:
            self._say(action.board)

    def _next_actions(self, rollout: Rollout, told: Mapping[str, int]) -> list[Action]:
        """Wait for the next event, or for what is due."""
        due = rollout.next_due()
        event = self.next_event(min(1.0, max(0.0, due - time.monotonic())) if due is not None else 1.0)
        now = time.monotonic()
        actions = rollout.tick(now)
        if event is not None:
            board, what = event
            if isinstance(what, State):
                actions += rollout.up(now, board, what.up)
            elif isinstance(what, Have) and (
                what.generation == told.get(board) or (what.verdict == "refused" and board in told)
            ):
                actions += rollout.verdict(now, board, what.verdict, what.reason)
        return actions

    def _wait_for(self, told: dict[str, int], say: Say) -> None:
        """Boards that went back: for those that are there, not for ever."""
        n = len(told)
        end = time.monotonic() + _BACK_SECONDS
        while told and time.monotonic() < end and any(self.states[b].up for b in told if b in self.states):
            match self.next_event(0.5):
                case (board, Have(generation, "confirmed" | "rejected", _)) if told.get(board) == generation:
                    del told[board]
        say(f"{n - len(told)} of {n} boards have what they had before")


def _by_name(models: Mapping[str, int]) -> Names:
    """A board's models, by the names that a push gives: one in /rom comes before a file of the same name."""
    found: Names = {path: crc for path, crc in models.items() if not path.startswith(_ROM)}
    return found | {path.removeprefix(_ROM): crc for path, crc in models.items() if path.startswith(_ROM)}


def push(
    fleet: Fleet, models: Mapping[str, bytes], terms: Terms, say: Say, boards: Sequence[str] | None = None
) -> Outcome:
    """Put models, by the names that they get, onto all boards of the fleet, or these, but not where they have no room.
    Raises MicaError."""
    for name in models:
        if not name.endswith(".mica") or len(name.encode()) > _LONGEST_NAME:
            raise MicaError(f"'{printable(name)}': expected a name such as net.mica of at most {_LONGEST_NAME} bytes")
    unknown = set(boards or ()) - set(fleet.site.boards)
    if unknown:
        raise MicaError(f"{', '.join(sorted(unknown))} is no board of {fleet.site.fleet}")
    fleet.look()
    among = [board for board in fleet.site.boards if boards is None or board in boards]
    out = {b: (BoardState.LEFT_OUT, why) for b, why in capacity.left_out(models, fleet.states, among).items()}
    crcs: Names = {name: fleet.store.add(data) for name, data in models.items()}
    desired = {board: crcs for board in among if board not in out}
    lost = [board for board in desired if len(fleet.had(board, crcs)) < len(crcs)]
    if lost:
        say(
            f"{', '.join(lost)}: what is there now could not be brought back; it is not known, or did not "
            "come from here"
        )
    if fleet.store.pushed != crcs:  # one that was broken off, and goes on, keeps what was there before it
        fleet.store.pushed, fleet.store.before = crcs, {}
    outcome = fleet.roll_out(desired, terms, say, remember=True)
    return replace(outcome, boards=outcome.boards | out)


def rollback(fleet: Fleet, terms: Terms, say: Say) -> Outcome:
    """Every board gets what it had before the last push. Raises MicaError where nothing was pushed."""
    before = {b: n for b, n in fleet.store.before.items() if b in fleet.site.boards and n}
    if not before:
        todo = "only the last one can be taken back, once, if it changed a board"
        raise MicaError(f"{fleet.site.fleet}: there is no push to take back", todo=todo)
    fleet.look()
    outcome = fleet.roll_out(before, terms, say, remember=False)
    if not outcome.reason:
        fleet.store.pushed, fleet.store.before = {}, {}
        fleet.store.save()
    return outcome
