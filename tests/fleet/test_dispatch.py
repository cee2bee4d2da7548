"""The dispatcher: a test for each fault of its first designs; then any order of events."""

from __future__ import annotations

import pytest
from disorder import Disorder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mica.errors import MicaError
from mica_fleet.dispatch import Action, Audit, Dispatcher, Done, Failed, Quarantined, Send, Settings, Withdrawn
from mica_fleet.wire import Answer, Key, Status

MODEL = 0x1234
NO_AUDIT = Settings(audit=0, first_audits=0)


def fleet(names: str = "ab", settings: Settings = NO_AUDIT) -> Dispatcher:
    d = Dispatcher(settings)
    for name in names:
        assert d.birth(0.0, name, 1, 1, [MODEL]) == []
    return d


def submit(d: Dispatcher, n: int, now: float = 0.0, first: int = 0) -> list[Send]:
    actions: list[Action] = []
    for seq in range(first, first + n):
        actions += d.submit(now, Key(1, seq), MODEL, bytes([seq & 255]))
    return sends(actions)


def sends(actions: list[Action]) -> list[Send]:
    return [a for a in actions if isinstance(a, Send)]


def reply(send: Send, data: bytes = b"y", status: Status = Status.OK, boot: int = 1) -> tuple[str, Answer]:
    r = send.request
    return send.board, Answer(r.key, r.model, r.attempt, status, boot, 1000, data)


def test_every_board_gets_two_requests_and_the_next_with_each_answer() -> None:
    d = fleet()
    first = submit(d, 6)
    assert [s.board for s in first] == ["a", "b", "a", "b"]
    actions = d.answer(0.1, *reply(first[0]))
    assert actions[0] == Done(Key(1, 0), b"y", "a")
    assert [(s.board, s.request.key.seq) for s in sends(actions)] == [("a", 4)]


def test_a_lost_board_gives_its_credit_back_and_its_requests_go_first() -> None:
    d = fleet()
    submit(d, 10)
    actions = d.death(0.1, "a", 1, 1)
    assert sends(actions) == []  # b has its two
    actions = d.birth(0.2, "a", 2, 1, [MODEL])
    assert [s.request.key.seq for s in sends(actions)] == [0, 2]


def test_a_new_session_of_the_same_boot_frees_what_was_on_its_way() -> None:
    """The broker restarted, the board lives on: without this all boards stood still."""
    d = fleet("a")
    submit(d, 2)
    assert [s.request.key.seq for s in sends(d.birth(0.1, "a", 1, 2, [MODEL]))] == [0, 1]


def test_the_same_birth_twice_changes_nothing() -> None:
    d = fleet("a")
    submit(d, 2)
    assert d.birth(0.1, "a", 1, 1, [MODEL]) == []
    assert d.load("a") == 2


def test_a_will_that_comes_after_the_next_birth_says_nothing() -> None:
    d = fleet("a")
    submit(d, 2)
    d.birth(0.1, "a", 1, 2, [MODEL])
    assert d.death(0.2, "a", 1, 1) == []
    assert d.boards() == {"a": "up"}
    assert d.counts["old_wills"] == 1


def test_a_board_that_hangs_costs_its_credit_and_no_more() -> None:
    d = fleet()
    first = submit(d, 8)
    for send in first:
        if send.board == "b":
            d.answer(0.02, *reply(send))
    assert d.load("b") == 2
    actions = d.tick(0.51)  # a's leases are over
    assert d.load("a") == 2 and sends(actions) == []
    done = [s for s in first if s.board == "a"]
    again = [s for s in sends(d.answer(0.515, "b", reply(_held(d, "b")[0])[1])) if s.board == "b"]
    assert [s.request.key.seq for s in again] == [done[0].request.key.seq]


def _held(d: Dispatcher, board: str) -> list[Send]:
    from mica_fleet.wire import Request

    held = d._boards[board].held
    return [Send(board, Request(k, MODEL, attempt, b"")) for k, attempt in held]


def test_a_late_answer_counts_by_its_id_and_frees_its_credit() -> None:
    d = fleet("a")
    first = submit(d, 2)
    d.tick(0.7)
    assert d.answer(0.8, *reply(first[0]))[0] == Done(Key(1, 0), b"y", "a")
    assert d.load("a") == 1
    assert d.answer(0.9, *reply(first[1]))[0] == Done(Key(1, 1), b"y", "a")
    assert d.unanswered() == 0


def test_three_late_leases_make_a_board_suspect_and_an_answer_in_time_clears_it() -> None:
    d = fleet("a")
    first = submit(d, 5)
    assert sends(d.tick(0.6)) == sends(d.tick(1.2)) == []
    probe = sends(d.tick(1.8))
    assert d.boards() == {"a": "suspect"}
    assert len(probe) == 1 and d.load("a") == 1
    assert d.answer(1.85, *reply(first[0]))[0] == Done(Key(1, 0), b"y", "a")  # late, and right
    assert len(sends(d.answer(1.95, *reply(probe[0])))) == 2
    assert d.boards() == {"a": "up"}


def test_the_last_ones_are_hedged() -> None:
    d = fleet("abc")
    first = submit(d, 3)
    assert [s.board for s in first] == ["a", "b", "c"]
    for send in first[:2]:
        d.answer(0.1, *reply(send))
    due = d.next_due()
    assert due is not None and due == pytest.approx(0.15)
    hedged = sends(d.tick(due))
    assert [(s.board, s.request.key.seq) for s in hedged] == [("a", 2)]
    assert d.answer(0.2, *reply(hedged[0]))[0] == Done(Key(1, 2), b"y", "a")
    assert d.answer(0.3, *reply(first[2])) == []  # a duplicate, equal
    assert d.counts["duplicates"] == 1


def test_two_boards_that_differ_make_an_audit_and_the_liar_goes() -> None:
    d = fleet("abc")
    first = submit(d, 3)
    for send in first[:2]:
        d.answer(0.1, *reply(send))
    hedge = sends(d.tick(0.16))[0]
    d.answer(0.2, *reply(hedge, b"lie"))
    actions = d.answer(0.3, *reply(first[2], b"y"))
    assert actions == [Audit(Key(1, 2), MODEL, bytes([2]))]
    actions = d.audited(0.4, Key(1, 2), b"y")
    assert actions[:2] == [Withdrawn(Key(1, 2)), Done(Key(1, 2), b"y", "host")]
    # a gave the answer of request 0 as well, which nobody audited
    assert Quarantined("a", 1) in actions and Withdrawn(Key(1, 0)) in actions
    assert [s.request.key.seq for s in sends(actions)] == [0]
    assert d.boards()["a"] == "quarantined"


def test_the_first_answers_of_a_board_are_audited() -> None:
    d = fleet("a", Settings(audit=0.0, first_audits=3))
    audits = 0
    waiting = submit(d, 6)
    while waiting:
        actions = d.answer(0.1, *reply(waiting.pop(0)))
        audits += sum(isinstance(a, Audit) for a in actions)
        waiting += sends(actions)
    assert audits == 3


def test_a_request_that_kills_boards_is_set_aside() -> None:
    d = fleet("a")
    submit(d, 2)
    failed: list[Action] = []
    for boot in (2, 3, 4, 5):
        failed += [a for a in d.birth(0.1 * boot, "a", boot, 1, [MODEL]) if isinstance(a, Failed)]
        if failed:
            break
    assert failed == [Failed(Key(1, 0), "set aside: 3 boards were lost while they worked on it")]
    assert boot == 4
    # Before its last chance it was alone on its board, so the other one is not to blame.
    assert [h.work.key.seq for h in d._boards["a"].held.values()] == [1]


@pytest.mark.parametrize("deaths", [2, 3, 4])
def test_a_request_on_its_last_chance_waits_for_an_idle_board(deaths: int) -> None:
    """An idle board gets it alone, and may die of it, too: then no other request is lost with it."""
    d = fleet("a", Settings(audit=0, first_audits=0, deaths=deaths))
    submit(d, 1)
    for boot in range(2, deaths + 1):
        d.birth(0.1 * boot, "b", boot, 1, [])
        if boot == deaths:
            d.birth(0.1 * boot, "b", boot, 2, [MODEL])
            assert [s.board for s in submit(d, 1, first=1)] == ["b"]
            assert sends(d.death(0.5, "a", boot - 1, 1)) == [], "b has another request, and room for a second one"
        else:
            assert [s.board for s in sends(d.birth(0.1 * boot, "a", boot, 1, [MODEL]))] == ["a"]
    (busy,) = (h for h in d._boards["b"].held.values())
    request = busy.work.key
    actions = d.answer(0.6, "b", Answer(request, MODEL, busy.attempt, Status.OK, deaths, 1000, b"y"))
    assert [(s.board, s.request.key.seq) for s in sends(actions)] == [("b", 0)]


def test_where_boards_die_of_other_things_a_request_has_more_chances() -> None:
    """Two boards are lost again and again: their request is set aside at the eighth time, not at the third."""
    d = fleet("ab")
    submit(d, 40)
    (work,) = (h.work for h in d._boards["a"].held.values() if h.work.key.seq == 0)
    failed: list[Action] = []
    for boot in range(2, 12):
        at = next(b.name for b in d._boards.values() if any(h.work is work for h in b.held.values()))
        other = "b" if at == "a" else "a"
        failed += [a for a in d.birth(0.1 * boot, other, boot, 1, [MODEL]) if isinstance(a, Failed)]
        failed += [a for a in d.birth(0.1 * boot, at, boot, 1, [MODEL]) if isinstance(a, Failed)]
        if failed:
            break
    reason = "set aside: 8 boards were lost while they worked on it"
    assert failed == [Failed(Key(1, 1), reason), Failed(Key(1, 0), reason)]


def test_a_request_that_killed_two_boards_goes_to_a_suspect_that_is_idle() -> None:
    """Found by random orders: where all boards were suspects it was never asked again."""
    d = fleet("a")
    submit(d, 1)
    for boot in (2, 3):
        (send,) = sends(d.birth(0.1 * boot, "a", boot, 1, [MODEL]))
    assert not sends(d.answer(0.4, *reply(send, status=Status.BUSY, boot=3)))
    d._boards["a"].suspect = True
    (again,) = sends(d.tick(0.5))
    assert (again.board, again.request.key) == ("a", Key(1, 0))


def test_busy_boards_are_asked_later_and_a_board_without_the_model_never() -> None:
    d = fleet("a")
    first = submit(d, 1)
    assert sends(d.answer(0.1, *reply(first[0], b"", Status.BUSY))) == []
    assert d.next_due() == pytest.approx(0.15)
    again = sends(d.tick(0.16))
    assert len(again) == 1
    assert sends(d.answer(0.2, *reply(again[0], b"", Status.NO_MODEL))) == []
    assert len(sends(d.birth(0.3, "b", 1, 1, [MODEL]))) == 1


def test_a_request_that_fails_everywhere_is_given_up_with_the_boards_words() -> None:
    d = fleet("a")
    waiting = submit(d, 1)
    actions: list[Action] = []
    while waiting:
        actions = d.answer(0.1, *reply(waiting.pop(), b"ValueError: 3 bytes", Status.BAD_REQUEST))
        waiting = sends(actions)
    assert actions == [Failed(Key(1, 0), "a: ValueError: 3 bytes")]
    assert d.unanswered() == 0, "nobody waits for one that was given up"
    submit(d, 3, first=1)
    assert d.unanswered() == 3


def test_later_stages_go_first() -> None:
    d = fleet("")
    for key in (Key(1, 0, 0), Key(1, 1, 0), Key(1, 9, 1)):
        d.submit(0.0, key, MODEL, b"")
    assert [s.request.key.stage for s in sends(d.birth(0.1, "a", 1, 1, [MODEL]))] == [1, 0]


def test_what_is_submitted_twice_or_set_wrongly_is_refused() -> None:
    d = fleet("a")
    submit(d, 1)
    with pytest.raises(MicaError, match="submitted before"):
        submit(d, 1)
    with pytest.raises(MicaError, match="credit 0"):
        Settings(credit=0)


def test_forgotten_requests_leave_nothing_behind() -> None:
    d = fleet("a")
    waiting = submit(d, 1000)
    while waiting:
        actions = d.answer(0.1, *reply(waiting.pop(0)))
        waiting += sends(actions)
        d.forget(a.key for a in actions if isinstance(a, Done))
    d.tick(1e9)
    assert not d._works and not d._boards["a"].unaudited and not d._leases
    assert all(not m.queue and not m.once for m in d._models.values())


def test_abandoned_requests_are_not_asked_again_and_leave_nothing_behind() -> None:
    """Some are with a board, some wait; whether the board answers, dies or hangs makes no difference."""
    for end in ("answers", "dies", "hangs"):
        d = fleet("a")
        held = submit(d, 4)
        for seq in range(4):
            d.abandon(Key(1, seq))
        if end == "answers":
            assert [d.answer(0.1, *reply(s)) for s in held] == [[], []]
        elif end == "dies":
            assert d.death(0.1, "a", 1, 1) == [] and d.birth(0.2, "a", 2, 1, [MODEL]) == []
        for t in range(1, 20):
            assert d.tick(float(t)) == []
        (again,) = submit(d, 1, now=30.0, first=9)
        boot = 2 if end == "dies" else 1
        assert d.answer(30.1, *reply(again, boot=boot))[0] == Done(Key(1, 9), b"y", "a")
        d.forget([Key(1, 9)])
        d.tick(1e9)
        assert not d._works and not d._leases and d.load("a") == 0
        assert all(not m.queue and not m.once and not m.waiting for m in d._models.values())


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(st.lists(st.integers(0, 2**16), min_size=20, max_size=400), st.integers(1, 5), st.integers(0, 2))
def test_any_order_of_events(numbers: list[int], boards: int, liars: int) -> None:
    Disorder(numbers, boards, liars).run()
