"""Adds the heads of a fleet's boards up, and gives every board the sum: drives firmware/mica_fleet/teach.py over MQTT.

Each example counts once, however often this is done: the part of a head that is in the last sum already is taken away
first.
`Store.taught` remembers, for each board, the head that it gave and the sum that it was sent.
"""

import time
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

from mica.errors import MicaError
from mica.format.names import printable
from mica.learn import MOST_LABELS, Head, digest
from mica_fleet.desired import encode_lesson
from mica_fleet.push import Fleet
from mica_fleet.reports import Taught
from mica_fleet.store import Store, Sums

MOST_BYTES = 32_000  # of a state, as firmware/mica_fleet/teach.py has it
LEAST_SHARE = 16  # labels that one board alone may bring, among however many boards


@dataclass
class Sum:
    """`before`: of the boards whose heads are counted, the head that they gave; None where there was none.
    `out`: board -> why not.
    `seen`: labels of any head. `strange`: board -> labels whose new examples lie beyond the limits of the sum."""

    total: Head | None
    seen: set[str] = field(default_factory=set)
    before: dict[str, Head | None] = field(default_factory=dict)
    out: dict[str, str] = field(default_factory=dict)
    strange: dict[str, list[str]] = field(default_factory=dict)


def add_up(
    model: bytes,
    width: int,
    last: Head | None,
    given: Mapping[str, Taught],
    basis: Callable[[str, int, bytes], Head | None],
    most: int,
    forget: Collection[str] = (),
) -> Sum:
    """Add the heads that boards gave to the last sum. basis(board, generation of the sum that it has, its state)
    gives what is counted of it already; most: examples of a label from one board;
    forget: labels that the sum is not to have.

    Labels that one board alone brings are at most its share of a head's. Who brings fewest of them is added first.
    """
    found = Sum(last)
    news: dict[str, tuple[Head, Head]] = {}  # the head, and what is new in it
    for board, taught in given.items():
        try:
            if not taught.state and not taught.reason:
                found.before[board] = None
            else:
                news[board] = _read(model, width, taught, partial(basis, board, taught.taken), most)
        except MicaError as e:
            found.out[board] = printable(str(e))[:200]
    boards_with = Counter(label for _, new in news.values() for label in new.labels)
    found.seen = {*boards_with, *(last.labels if last else ())}
    shared = {label for label, n in boards_with.items() if n > 1} | set(last.labels if last else ()) | set(forget)
    own = {board: len(set(new.labels) - shared) for board, (_, new) in news.items()}
    share = max(LEAST_SHARE, MOST_LABELS // max(1, len(news)))
    for board in sorted(news, key=lambda b: (own[b], b)):
        head, new = news[board]
        try:
            if own[board] > share:
                raise MicaError(f"{own[board]} labels that no other board has; its share is {share}")
            total = Head.from_state((found.total or head).state())
            _forget(total, total.labels if found.total is None else forget)  # a sum of nothing has a head's settings
            _forget(new, forget)
            total.add(new)
            if (size := len(total.state())) > MOST_BYTES:
                raise MicaError(f"with its labels the sum has {size:,} bytes; a fleet takes {MOST_BYTES:,}")
            found.total, found.before[board] = total, head
        except MicaError as e:
            found.out[board] = printable(str(e))[:200]
    if found.total is not None:
        found.strange = {board: found.total.strange(news[board][1]) for board in news if board in found.before}
    return found


def _forget(head: Head, labels: Collection[str]) -> None:
    for label in set(head.labels).intersection(labels):
        head.forget(label)


def _read(
    model: bytes, width: int, taught: Taught, basis: Callable[[bytes], Head | None], most: int
) -> tuple[Head, Head]:
    """Return the head that a board gave, and what is new in it. Raises MicaError."""
    if taught.reason:
        raise MicaError(taught.reason)
    head, new = (Head.from_state(taught.state, model=model) for _ in range(2))
    if head.width != width:
        raise MicaError(f"a head of {head.width} numbers; the model gives {width}")
    if (there := basis(head.state())) is not None:
        new.add(there, -1)
    if new.labels and max(new.counts) > most:
        raise MicaError(f"{max(new.counts)} new examples of a label, more than --most {most}")
    return head, new


def counted(store: Store, sums: Sums) -> Callable[[str, int, bytes], Head | None]:
    """The `basis` of add_up(), from memory. A board that was reset before it wrote the sum has the head that it
    gave."""

    def basis(board: str, taken: int, state: bytes) -> Head | None:
        generation, given, total = sums[1].get(board, (0, 0, 0))
        before, after = (Head.from_state(store.read(c)) if c and store.has(c) else None for c in (given, total))
        return after if taken == generation and (before is None or before.state() != state) else before

    return basis


Lesson = tuple[bytes, bytes]  # the state that a board gave, and the sum


def ask(fleet: Fleet, generation: int, path: str, lessons: Mapping[str, Lesson], seconds: float) -> dict[str, Taught]:
    """Send each board its lesson. The answers of those that answer in time."""
    for board, (given, total) in lessons.items():
        fleet.send(board, "teach", encode_lesson(fleet.site.key, board, generation, path, given, total))
    answers: dict[str, Taught] = {}
    end = time.monotonic() + seconds
    while len(answers) < len(lessons) and (left := end - time.monotonic()) > 0:
        match fleet.next_event(left):
            case (board, Taught() as taught) if board in lessons and taught.generation in (0, generation):
                answers.setdefault(board, taught)
    return answers


def teach(
    fleet: Fleet, name: str, data: bytes, width: int, *, path: str, most: int, forget: list[str], seconds: float
) -> tuple[Head, dict[str, tuple[str, str]]]:
    """Add up the heads of all boards that are up with the model, and give these the sum. The sum;
    and board -> state (taught, left out, failed) and reason. path: of the heads on the boards.
    most: new examples of a label from one board. forget: labels. Raises MicaError."""
    fleet.look()
    store, crc = fleet.store, zlib.crc32(data)
    asked = [board for board, state in fleet.states.items() if state.up and crc in state.models.values()]
    if not asked:
        raise MicaError(
            f"no board of {fleet.site.fleet} is up with {name}", todo=f"mica fleet push {fleet.site.path.stem} {name}"
        )
    given = ask(fleet, store.next_generation(), path, dict.fromkeys(asked, (b"", b"")), seconds)
    model = digest(data)
    key = f"{model.hex()} {path}"
    sums = store.taught.get(key, (0, {}))
    last = Head.from_state(store.read(sums[0]), model=model) if store.has(sums[0]) else None
    found = add_up(model, width, last, given, counted(store, sums), most, forget)
    silent = dict.fromkeys(set(asked) - set(given), "no answer; its mica or the broker may be older")
    out = {board: ("left out", reason) for board, reason in (silent | found.out).items()}
    if unknown := sorted(set(forget) - found.seen):
        raise MicaError(
            f"--forget {unknown[0]}: no board was taught it", todo=f"taught: {', '.join(sorted(found.seen))}"
        )
    total = found.total
    if last is not None and total is last:
        _forget(last, forget)
    if total is None or not (total.labels or forget):
        reasons = "; ".join(f"{board}: {reason}" for board, (_, reason) in sorted(out.items()))
        raise MicaError(
            f"no board of {fleet.site.fleet} has a head at {path} for {name} that "
            f"counts{'; ' + reasons if reasons else ''}",
            todo="teach boards first, and save() there",
        )
    state = total.state()
    generation, crc = store.next_generation(), store.add(state)
    gave = {b: (generation, 0 if h is None else store.add(h.state()), crc) for b, h in found.before.items()}
    store.keep_sums(key, (crc, sums[1] | gave))  # before it is sent: what boards then have is known
    due = [board for board, head in found.before.items() if head is None or head.state() != state]
    answers = ask(fleet, generation, path, {board: (given[board].state, state) for board in due}, seconds)
    for board in found.before:
        reason = "" if board not in due else "no answer; it is sent again next time"
        reason = printable(answers[board].reason) if board in answers else reason
        drift = ", ".join(found.strange.get(board, ()))
        drift = drift and f"drifts: its new examples of {printable(drift)[:100]} lie far from those of the fleet"
        out[board] = ("failed", reason) if reason else ("taught", drift)
    return total, dict(sorted(out.items()))
