"""Messages of one board's login with every field of every kind: nothing ends or slows down, other boards work on."""

from __future__ import annotations

import contextlib
import json
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Join
from test_fleet_mqtt import random_samples, wait_until

from mica.cli.main import main
from mica.errors import MicaError
from mica_fleet import capacity, mqtt_link, reports
from mica_fleet.dispatch import Dispatcher, Settings
from mica_fleet.open import links_of, open_fleet
from mica_fleet.push import Fleet
from mica_fleet.service import Service
from mica_fleet.site import Site
from mica_fleet.wire import LARGEST_MESSAGE, Answer, Key, Status

# Of each kind that JSON has, as text: so that 1e999 and numbers of 400 digits are there.
KINDS = (
    "null",
    "true",
    "1e999",
    "NaN",
    "-Infinity",
    "-1",
    "1.5",
    '"x"',
    '"\\ud800"',
    '"\\u001b[2J"',
    "[]",
    "[[]]",
    "{}",
)
KINDS += ('{"x": null}', "1" + 400 * "0", 9 * "[" + 9 * "]", "0", "[1e999, 5]", '{"a.mica": 1e999}', "5", '""')
STATE = {
    "board": "x",
    "core": "ref",
    "mica": "1.0",
    "format": "1.1",
    "heap": 9,
    "queue": 4,
    "largest": 64,
    "models": {"a.mica": "0123abcd"},
    "sizes": {"a.mica": 5},
    "arena": 0,
    "kernels": "conv2d_s8",
    "python": True,
    "rom": [1000, 0],
    "free": 7,
}
STAT = {"runs": 1, "errors": 0, "ms": [1], "us": {"0123abcd": 1000}, "heap": 5}
HAVE = {"generation": 3, "verdict": "confirmed", "reason": "x"}
TAUGHT = {"generation": 3, "taken": 0, "reason": "x"}
HEADS = (b"up 1 1 ", b"up x 1 ", b"up 1 99999999999 ", b"down 1 1 ", b"up -1 1 ", b"")


def variants(table: dict[str, Any], head: bytes) -> Iterator[bytes]:
    """Each field in turn of each kind, and missing; and the whole of each kind."""
    for name in table:
        rest = {k: v for k, v in table.items() if k != name}
        yield head + json.dumps(rest).encode()
        for kind in KINDS:
            text = json.dumps(rest)[:-1] + f"{', ' if rest else ''}{json.dumps(name)}: {kind}}}"
            yield head + text.encode()
    for kind in KINDS:
        yield head + kind.encode()
    yield head + b'{"x":' * 5000


def many(n: int) -> bytes:
    return b"up 7 1 " + json.dumps({"largest": 64, "models": {f"{i:x}": f"{i:08x}" for i in range(n)}}).encode()


def test_every_kind_in_every_field_is_read_or_refused() -> None:
    """Reports that are read have the types and bounds that the host relies on: the capacity check takes all of them."""
    read = refused = 0
    found: dict[str, reports.State] = {}
    for head in HEADS:
        for payload in variants(STATE, head):
            try:
                state = reports.parse_state(payload)
            except MicaError as e:
                refused += 1
                assert "\n" not in str(e) and str(e).isprintable() and len(str(e)) < 250, str(e)
            else:
                read += 1
                found[f"b{read}"] = state
    assert read > 20 and refused > 1000, (read, refused)
    assert not any(s.about.get("heap", 0) > 1 << 53 for s in found.values())
    for parse, table, least in (
        (reports.parse_stat, STAT, 4),
        (reports.parse_have, HAVE, 1),
        (reports.parse_taught, TAUGHT, 1),
    ):
        good = 0
        for payload in variants(table, b""):
            try:
                parse(payload)  # type: ignore[operator]
                good += 1
            except MicaError as e:
                assert "\n" not in str(e) and str(e).isprintable()
        assert good >= least
    assert reports.parse_state(many(64)).models
    with pytest.raises(MicaError, match="models has 65 entries; expected an object of at most 64 models"):
        reports.parse_state(many(65))
    with pytest.raises(MicaError, match="largest is inf; expected a whole number from 0 to 4294967295"):
        reports.parse_state(b'up 1 1 {"largest": 1e999, "models": {}}')


def test_a_push_is_not_ended_by_what_is_read(digits_file: Path) -> None:
    data = digits_file.read_bytes()
    states = {}
    for n, payload in enumerate(variants(STATE, b"up 1 1 ")):
        with contextlib.suppress(MicaError):
            states[f"b{n}"] = reports.parse_state(payload)
    assert capacity.misfits({"d.mica": data}, states)


def calls(action: Callable[[], object]) -> int:
    """Number of lines of Python that an action executes: a measure of time that does not depend on the machine."""
    n = 0

    def count(frame: object, event: str, arg: object) -> object:
        nonlocal n
        n += event == "line"
        return count

    sys.settrace(count)
    try:
        action()
    finally:
        sys.settrace(None)
    return n


def test_models_that_nobody_submitted_cost_nothing() -> None:
    d = Dispatcher(Settings(audit=0, first_audits=0))
    d.birth(0.0, "good", 1, 1, [7])

    def ask(n: int) -> None:
        (send,) = d.submit(float(n), Key(1, n), 7, b"x")
        answer = Answer(Key(1, n), 7, send.request.attempt, Status.OK, 1, 1, b"y")  # type: ignore[union-attr]
        d.answer(float(n), "good", answer)
        d.forget([Key(1, n)])
        d.next_due()

    ask(0)
    before = calls(lambda: ask(1))
    for k in range(200):
        d.birth(2.0, "b1", 1, k, range(100 * k + 8, 100 * k + 108))
    assert set(d._models) == {7}
    d.birth(2.0, "b1", 1, 300, [])
    assert calls(lambda: ask(3)) <= 1.5 * before


def test_all_of_it_from_one_boards_login(
    fleet: Site,
    join: Join,
    digits_file: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import paho.mqtt.client as mqtt

    monkeypatch.setattr(mqtt_link, "_AT_ONCE", 1e9)  # or it would be muted
    data = digits_file.read_bytes()
    crc = zlib.crc32(data)
    samples, right = random_samples(data, 30)
    join("b2")
    said: list[str] = []
    ended: list[str] = []
    service = Service({"digits": [data]}, links_of([data], f"fleet:{fleet.path}"), said.append, broken=ended.append)
    link = service._many
    assert isinstance(link, mqtt_link.MqttLink)
    wait_until(lambda: service.owners("digits") == 1)

    def ask() -> list[bytes]:
        return [service.submit("digits", [x[0].tobytes()]).result(20)[0].outputs for x in samples]

    assert ask() == right
    hostile = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id="any", protocol=mqtt.MQTTv311)
    hostile.username_pw_set("b1", fleet.boards["b1"])
    hostile.connect(fleet.host, fleet.port)
    hostile.loop_start()

    def say(what: str, payload: bytes, board: str = "b1", retain: bool = False) -> mqtt.MQTTMessageInfo:
        return hostile.publish(f"mica/plant/from/{board}/{what}", payload, qos=1, retain=retain)

    n = 0
    for what, table, head in (("state", STATE, b"up 1 1 "), ("stat", STAT, b""), ("have", HAVE, b"")):
        for payload in variants(table, head):
            last = say(what, payload)
            n += 1
    for key in (Key(1, 1), Key(2**32 - 1, 2**32 - 1, 65535)):
        for status in range(6):
            for outputs in (b"", b"x", bytes(10), b"\xff" * 5000):
                last = say("out", Answer(key, crc, 1, status, 1, 2**32 - 1, outputs).encode())  # type: ignore[arg-type]
    for board, what in (("b2", "state"), ("b1", "state/x"), ("b1", "anything")):
        last = say(what, b"down 1 1", board, retain=True)
    last.wait_for_publish(30)
    wait_until(lambda: link._listener.damaged["b1"] > n // 4)
    wait_until(lambda: service.counts().get("unasked", 0) >= 32)
    assert ask() == right and not ended and service._thread.is_alive()
    assert service.boards()["b2"] == "up"
    assert len(service._dispatcher._models) == 1 and link._listener.damaged["b2"] == 0
    lines = [line for line in said if "damaged message" in line]
    assert lines and all(line.startswith("b1: ") for line in lines) and len(lines) <= 6, lines
    # Each of these is retained: what the commands find first.
    worst = (
        ("stat", b'{"ms": 5}'),
        ("stat", b'{"ms": [1' + 400 * b"0" + b"]}"),
        ("state", b'up 1 1 {"largest": 1e999, "models": {}}'),
        ("state", b'up 1 1 {"largest": 9, "models": {}, "rom": [1000000, 0], "heap": 1e999}'),
        ("state", many(65)),
    )
    for what, payload in worst:
        say(what, payload, retain=True).wait_for_publish(5)
        capsys.readouterr()
        assert main(["fleet", "ls", str(fleet.path), "--json"]) == 0
        rows = {r["board"]: r for r in json.loads(capsys.readouterr().out)["boards"]}
        assert "cannot be read" in rows["b1"]["problem"] and rows["b2"]["state"] == "up" and not rows["b2"]["problem"]
    told: list[str] = []
    with Fleet(fleet, told.append) as f:
        f.look(0.3)
        assert f.states["b2"].up and "b1" not in f.states
    assert any(line.startswith("b1: a damaged message") for line in told)
    # A message of any size does not come through; the board that sends it is cut off.
    came = link._listener.damaged["b1"]
    say("state", bytes(LARGEST_MESSAGE + 1))
    say("out", bytes(1 << 22))
    time.sleep(0.3)
    assert link._listener.damaged["b1"] == came
    hostile.disconnect()
    hostile.loop_stop()
    assert ask() == right and not ended
    service.close()


def test_one_liar_of_three_gives_a_third_at_most() -> None:
    """It has three turns of five, so it would give most answers; then it answers the numbers around as well."""
    for around in (False, True):
        found = [lies(seed, around, honest_first=4) for seed in range(30)]
        assert all(3 * wrong <= total for wrong, total in found), found
        assert any(wrong for wrong, _ in found), "or nothing was tried"
    # One that was honest for long may have saved some of its share.
    late = [lies(seed, True, honest_first=150) for seed in range(10)]
    assert all(wrong <= 16 + total / 3 for wrong, total in late), late


def lies(seed: int, around: bool, honest_first: int) -> tuple[int, int]:
    """A fleet of three, of which one lies after so many honest answers: wrong answers and all since,
    until its quarantine, or 400."""
    from mica_fleet.dispatch import Audit, Done, Quarantined, Send

    d = Dispatcher(Settings(audit=0.01), seed)
    for name in ("a", "b", "liar"):
        d.birth(0.0, name, 1, 1, [7])
    given: dict[Key, bytes] = {}
    inbox: dict[str, list[Send]] = {"a": [], "b": [], "liar": []}
    honest, submitted, begun, now = 0, 0, 0, 0.0
    actions: list[Any] = []
    while len(given) < begun + 400 and not d.states["quarantined"]:
        now += 0.01
        while submitted < len(given) + 12:
            actions += d.submit(now, Key(1, submitted), 7, bytes([submitted & 255]), size=1)
            submitted += 1
        turn = ["liar", "liar", "liar", "a", "b"][int(now * 100) % 5]
        if inbox[turn]:
            r = inbox[turn].pop(0).request
            lie = turn == "liar" and honest >= honest_first
            honest += turn == "liar"
            begun = len(given) if honest < honest_first else begun
            y = b"!" if lie else r.inputs
            actions += d.answer(now, turn, Answer(r.key, 7, r.attempt, Status.OK, 1, 1, y))
            for off in range(-12, 13) if around and lie else ():
                key = Key(1, max(0, r.key.seq + off))
                for attempt in (1, 2):
                    actions += d.answer(now, "liar", Answer(key, 7, attempt, Status.OK, 1, 1, b"!"))
        audited = {a.key for a in actions if isinstance(a, Audit)}
        for action in actions:  # which grows meanwhile
            match action:
                case Send(board, _):
                    inbox[board].append(action)
                case Audit(key, _, inputs):
                    actions += d.audited(now, key, inputs)
                case Done(key, y, _) if key not in audited or y == bytes([key.seq & 255]):
                    given.setdefault(key, y)  # the first that users get: of one that is audited, after the audit
                case Quarantined(board, _):
                    assert board == "liar"
        actions = []
    return sum(y != bytes([k.seq & 255]) for k, y in given.items()), len(given) - (begun if honest_first > 4 else 0)


def test_an_answer_counts_only_from_a_board_that_was_asked() -> None:
    d = Dispatcher(Settings(audit=0, first_audits=0))
    d.birth(0.0, "good", 1, 1, {7})
    assert len(d.submit(0.0, Key(5, 1), 7, b"x")) == 1
    d.birth(0.0, "bad", 9, 1, {8})
    assert d.answer(0.1, "bad", Answer(Key(5, 1), 7, 1, Status.OK, 9, 1, b"WRONG")) == []
    assert d.counts["unasked"] == 1
    assert [type(a).__name__ for a in d.answer(0.2, "good", Answer(Key(5, 1), 7, 1, Status.OK, 1, 1, b"y"))] == ["Done"]
    assert d.answer(0.3, "good", Answer(Key(5, 1), 7, 1, Status.OK, 1, 1, b"z")) == [], "one answer to one asking"


def test_a_late_honest_answer_exposes_a_liar_after_its_request_is_forgotten() -> None:
    from mica_fleet.dispatch import Audit, Quarantined

    d = Dispatcher(Settings(audit=0, first_audits=0))
    d.birth(0.0, "slow", 1, 1, {7})
    (first,) = d.submit(0.0, Key(5, 1), 7, b"x")
    d.birth(0.1, "liar", 1, 1, {7})
    (second,) = d.tick(0.6)
    done = d.answer(0.7, "liar", Answer(Key(5, 1), 7, 2, Status.OK, 1, 1, b"lie"))
    assert done[0].outputs == b"lie"  # type: ignore[union-attr]
    d.forget([Key(5, 1)])
    assert d.answer(0.9, "slow", Answer(Key(5, 1), 7, 1, Status.OK, 1, 1, b"y")) == [Audit(Key(5, 1), 7, b"x")]
    assert d.audits_open() == 1
    assert d.audited(1.0, Key(5, 1), b"y") == [Quarantined("liar", 0)]
    assert d.audits_open() == 0 and not d._past and first != second
    d.submit(1.0, Key(5, 2), 7, b"x")
    d.death(1.1, "slow", 1, 1)
    d.tick(1000.0)
    assert not d._past


def test_an_answer_of_another_size_is_a_lie() -> None:
    from mica_fleet.dispatch import Audit, Quarantined

    d = Dispatcher(Settings(audit=0, first_audits=0))
    d.birth(0.0, "liar", 1, 1, {7})
    d.submit(0.0, Key(5, 1), 7, b"x", size=1)
    actions = d.answer(0.1, "liar", Answer(Key(5, 1), 7, 1, Status.OK, 1, 1, b""))
    assert Audit(Key(5, 1), 7, b"x") in actions
    assert Quarantined("liar", 0) in d.audited(0.2, Key(5, 1), b"y")
    assert d.unanswered() == 1


def test_a_liar_does_not_end_a_run(fleet: Site, join: Join, digits_file: Path) -> None:
    """Answers of no bytes after some honest ones, and answers of stages that are not there: run and bench go on."""
    liar = """
import json, mica_fleet
class Liar(mica_fleet.Agent):
    def compute(self, model, inputs):
        return super().compute(model, inputs) if self.runs < 4 else b""
with open("fleet.json") as f:
    Liar(json.load(f)).work()
"""
    data = digits_file.read_bytes()
    samples, right = random_samples(data, 60)
    said: list[str] = []
    join("b2")  # first: a run ends with an error where every board that it knows is in quarantine
    with open_fleet(data, f"fleet:{fleet.path}", said.append) as runner:
        assert runner.run(samples[:8])
        join("b1", program=liar)
        wait_until(lambda: bool(runner.run(samples[:8])) and len(runner._dispatcher.boards()) == 2)
        for _ in range(30):
            assert [y[0].tobytes() for y in runner.run(samples)] == right
            if any("quarantine" in line for line in said):
                break
    assert any(line.startswith("b1 answered wrongly") for line in said), said


def test_a_board_that_fails_at_all_it_is_asked_gives_up_no_sample() -> None:
    """It answers at once, so each sample came to it three times before another board was free."""
    d = Dispatcher(Settings(audit=0, first_audits=0))
    for name in ("good", "bad"):
        d.birth(0.0, name, 1, 1, {7})
    inbox: dict[str, list[Any]] = {"good": [], "bad": []}
    done: set[int] = set()
    actions: list[Any] = []
    for seq in range(20):
        actions += d.submit(0.0, Key(1, seq), 7, b"x")
    for turn in range(400):
        for action in actions:
            match type(action).__name__:
                case "Send":
                    inbox[action.board].append(action.request)
                case "Done":
                    done.add(action.key.seq)
                case other:
                    raise AssertionError(other)
        name = "good" if turn % 5 == 4 else "bad"
        actions = d.tick(0.001 * turn)
        if inbox[name]:
            r = inbox[name].pop(0)
            status, data = (Status.OK, b"y") if name == "good" else (Status.FAILED, b"no\x1b[2J")
            actions += d.answer(0.001 * turn, name, Answer(r.key, 7, r.attempt, status, 1, 1, data))
    assert done == set(range(20))


def test_a_board_that_floods_is_muted_and_the_others_are_not(
    fleet: Site, join: Join, digits_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers of others came behind the flood, or were dropped by the broker: each took several leases."""
    import paho.mqtt.client as mqtt

    monkeypatch.setattr(mqtt_link, "_MUTE_SECONDS", 2.0)
    data = digits_file.read_bytes()
    samples, right = random_samples(data, 50)
    said: list[str] = []
    join("b2")
    with open_fleet(data, f"fleet:{fleet.path}", said.append) as runner:
        assert [y[0].tobytes() for y in runner.run(samples)] == right
        link = runner._many
        assert isinstance(link, mqtt_link.MqttLink)
        flood = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id="x", protocol=mqtt.MQTTv311)
        flood.username_pw_set("b1", fleet.boards["b1"])
        flood.connect(fleet.host, fleet.port)
        flood.loop_start()
        for n in range(3000):
            last = flood.publish("mica/plant/from/b1/state", f'up {n} 1 {{"largest": 64, "models": {{}}}}', qos=1)
        last.wait_for_publish(20)
        assert [y[0].tobytes() for y in runner.run(samples)] == right
        wait_until(lambda: link._muted == {"b1"})
        assert runner._dispatcher.counts["sent"] <= 2.5 * len(samples), "or b2 was asked again and again"
        wait_until(lambda: not link._muted)
        flood.publish("mica/plant/from/b1/state", b'up 1 2 {"largest": 64, "models": {}}', qos=1, retain=True)
        wait_until(lambda: bool(runner.run(samples[:4])) and runner._dispatcher.boards().get("b1") == "up")
        flood.disconnect()
        flood.loop_stop()
    assert sum("is ignored for" in line for line in said) == 1, said


def test_what_a_board_sends_unasked_has_a_pace() -> None:
    pace = mqtt_link.Pace()
    assert sum(pace.may("b1", 0.001 * n) for n in range(10_000)) <= 600
    assert all(pace.may("b2", 0.1 * n) for n in range(1000))
