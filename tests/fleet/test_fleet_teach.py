"""Heads of a fleet's boards are added up, and the sum goes back signed; boards that lie or are damaged are left out."""

from __future__ import annotations

import json
import re
import signal
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Join
from test_fleet_mqtt import wait_until

from mica.cli.main import main
from mica.errors import MicaError
from mica.learn import Head, digest
from mica_fleet.desired import encode_lesson
from mica_fleet.mqtt_link import Listener, await_entry
from mica_fleet.reports import Taught
from mica_fleet.site import Site
from mica_fleet.store import Store, Sums
from mica_fleet.teach import MOST_BYTES, add_up, counted

WIDTH = 10
MODEL = b"a model!"


def taught(
    *examples: tuple[str, int], start: Head | None = None, model: bytes = MODEL, kind: str = "prototype"
) -> Head:
    """A head with examples: the label, and the seed of an embedding."""
    head = Head(kind, WIDTH, model=model) if start is None else Head.from_state(start.state())
    for label, seed in examples:
        head.teach(np.random.default_rng(seed).integers(-128, 128, WIDTH).astype(np.int8), label)
    return head


def said(head: Head | bytes, taken: int = 0, reason: str = "") -> Taught:
    return Taught(1, taken, reason, head if isinstance(head, bytes) else head.state())


def fixed(state: bytearray) -> bytes:
    """With the checksum that it should have."""
    state[4:8] = zlib.crc32(state[8:]).to_bytes(4, "little")
    return bytes(state)


def exaggerated(word: int, value: int) -> bytes:
    """A head whose one block has another word: 0 count, 4 first sum, 4 + WIDTH first sum of squares."""
    state = bytearray(taught(("a", 1)).state())
    at = state.index(b"\x01a") + 4 + 4 * word
    state[at : at + 4] = value.to_bytes(4, "little")
    return fixed(state)


def same(a: Head | None, b: Head) -> bool:
    """Prototypes and counts are the same, in whatever order of labels."""
    if a is None or set(a.labels) != set(b.labels):
        return False
    turned = Head("prototype", a.width, model=a.model)
    for label in b.labels:
        one = Head.from_state(a.state())
        for other in set(a.labels) - {label}:
            one.forget(other)
        turned.add(one)
    return turned.state() == b.state()


def test_boards_that_lie_are_left_out_and_the_others_count() -> None:
    good = {"b1": said(taught(("a", 1), ("b", 2))), "b2": said(taught(("b", 3), ("c", 4)))}
    flipped = bytearray(taught(("a", 9)).state())
    flipped[-3] ^= 4
    narrow = Head("prototype", 3, model=MODEL)
    narrow.teach(np.zeros(3, np.int8), "a")
    bad: dict[str, tuple[Taught, str]] = {
        "l1": (said(bytes(flipped)), "damaged"),
        "l2": (said(b"rubbish"), "no state of a head"),
        "l3": (said(taught(("a", 1)).state()[:-8]), "damaged"),
        "l4": (said(taught(("a", 1), model=b"another!")), "taught with another model"),
        "l5": (said(taught(("a", 1), ("a", 2), kind="softmax")), "only prototypes"),
        "l6": (said(narrow), "a head of 3 numbers; the model gives 10"),
        "l7": (said(exaggerated(4, 129)), "sums that no examples have"),
        "l8": (said(exaggerated(4, 0x80000000)), "sums that no examples have"),
        "l9": (said(exaggerated(4 + WIDTH, 0)), "sums that no examples have"),
        "m1": (said(exaggerated(4 + WIDTH, 0xFFFFFFFF)), "sums that no examples have"),
        "m2": (said(exaggerated(0, 2000)), "2000 new examples of a label, more than --most 1000"),
        "m3": (said(exaggerated(0, 0)), "damaged"),
        "m4": (said(b"", reason="the head \x1b has learnt more"), "has learnt more"),
    }
    found = add_up(MODEL, WIDTH, None, good | {b: t for b, (t, _) in bad.items()}, lambda *_: None, 1000)
    assert same(found.total, taught(("a", 1), ("b", 2), ("b", 3), ("c", 4)))
    assert set(found.before) == set(good) and set(found.out) == set(bad)
    for board, (_, reason) in bad.items():
        assert reason in found.out[board] and found.out[board].isprintable(), found.out[board]


def test_a_sum_that_has_no_room() -> None:
    """Too many labels, and too many examples: the board that is one too many is left out, and it adds nothing."""
    many = taught(*((f"l{i}", i) for i in range(60)))
    found = add_up(MODEL, WIDTH, many, {"b2": said(taught(*((f"m{i}", i) for i in range(5))))}, lambda *_: None, 9)
    assert found.total is not None and len(found.total.labels) == 60 and "65 labels in all" in found.out["b2"]
    found = add_up(
        MODEL, WIDTH, many, {"b2": said(taught(*((f"m{i}", i) for i in range(5))))}, lambda *_: None, 9, ["l3"]
    )
    assert found.total is not None and len(found.total.labels) == 64 and not found.out, "what is forgotten has no room"
    full = said(exaggerated(0, 65535))
    found = add_up(MODEL, WIDTH, None, {"b1": full, "b2": said(taught(("a", 2)))}, lambda *_: None, 1 << 16)
    assert found.total is not None and found.total.counts == [65535] and "more than 65535 examples" in found.out["b2"]


@pytest.mark.parametrize("width", [32, 128, 1000])
@pytest.mark.parametrize("labels", [17, 22, 50, 62, 64])
def test_no_board_takes_the_room_of_the_others(width: int, labels: int) -> None:
    """A board of the first name makes labels up: it is left out by name if they are more than its share,
    or have no room."""

    def head(*names: str) -> Head:
        found = Head("prototype", width, model=MODEL)
        for k, name in enumerate(names):
            found.teach(np.random.default_rng(k).integers(-128, 128, width).astype(np.int8), name)
        return found

    honest = {"b2": head("a", "b"), "b3": head("b", "c")}
    given = {"b1": said(head(*(f"x{i}" for i in range(labels))))} | {b: said(h) for b, h in honest.items()}
    found = add_up(MODEL, width, None, given, lambda *_: None, 9)
    assert found.total is not None and {"a", "b", "c"} <= set(found.total.labels) and set(honest) <= set(found.before)
    assert len(found.total.state()) <= MOST_BYTES
    fits = labels <= 64 // 3 and width < 1000
    assert set(found.out) == (set() if fits else {"b1"}), found.out
    share = f"{labels} labels that no other board has; its share is 21"
    room = f"with its labels the sum has .* bytes; a fleet takes {MOST_BYTES:,}"
    assert fits or re.search(share if labels > 21 else room, found.out["b1"])
    # Labels that another board has too are no board's own, and a board that is alone has all the room.
    both = said(head(*(f"x{i}" for i in range(labels))))
    found = add_up(MODEL, 32, None, {"b1": both, "b2": both}, lambda *_: None, 9) if width == 32 else found
    alone = add_up(MODEL, 32, None, {"b1": both, "b2": said(b"")}, lambda *_: None, 9) if width == 32 else found
    assert width != 32 or (not found.out and not alone.out)


def learnt(model: bytes, shift: int) -> Head:
    """A head of 10 examples of "a" and "b", where "b" has moved."""
    rng, head = np.random.default_rng(shift), Head("prototype", WIDTH, model=model)
    for n in range(20):
        mean = (60, shift - 60)[n % 2]
        head.teach(np.rint(rng.normal(mean, 8, WIDTH)).astype(np.int8), "ab"[n % 2])
    return head


@pytest.mark.parametrize("boards", [3, 8])
def test_a_board_that_drifts_is_told_by_name(boards: int) -> None:
    """One of a few whose examples of a label have moved: that board and that label, and what it gave counts."""
    given = {f"b{k}": said(learnt(MODEL, 60 if k == 1 else 0)) for k in range(boards)}
    found = add_up(MODEL, WIDTH, None, given, lambda *_: None, 1000)
    assert {board: labels for board, labels in found.strange.items() if labels} == {"b1": ["b"]}
    assert found.total is not None and found.total.counts == [10 * boards] * 2 and not found.out


def test_what_was_counted_counts_once(site: Site) -> None:
    """Boards learn on from the sum, or miss it, or are reset while they write it,
    or begin again: each example counts once."""
    store = Store(site)
    sums: Sums = (0, {})
    first, second = taught(("a", 1), ("b", 2)), taught(("a", 3))

    def round_of(generation: int, last: Head | None, given: dict[str, Taught]) -> Head:
        found = add_up(MODEL, WIDTH, last, given, counted(store, sums), 1000)
        assert not found.out and found.total is not None
        total = store.add(found.total.state())
        for board, head in found.before.items():
            sums[1][board] = generation, 0 if head is None else store.add(head.state()), total
        return Head.from_state(found.total.state())

    one = round_of(5, None, {"b1": said(first), "b2": said(second), "b3": said(b"")})
    assert same(one, taught(("a", 1), ("b", 2), ("a", 3)))
    given = {
        "b1": said(taught(("a", 4), start=one), 5),  # has the sum, and learnt more
        "b2": said(taught(("a", 5), ("c", 6), start=second)),  # never got it
        "b3": said(taught(("b", 7), start=one), 5),  # had no head
    }
    two = round_of(9, one, given)
    assert same(two, taught(("a", 1), ("b", 2), ("a", 3), ("a", 4), ("a", 5), ("c", 6), ("b", 7)))
    again = {
        "b1": said(two, 9),
        "b2": said(taught(("a", 5), ("c", 6), start=second), 9),  # reset before it was written
        "b3": said(taught(("b", 8)), 9),  # all was forgotten, and one example taught
    }
    right = taught(("b", 8), start=two)
    assert same(round_of(12, two, again), right)


def test_the_store_keeps_what_was_counted(site: Site) -> None:
    store = Store(site)
    old, crc = store.add(taught(("a", 2)).state()), store.add(taught(("a", 1)).state())
    store.keep_sums("00 /learnt", (old, {"b1": (7, 0, old), "b2": (7, crc, old)}))
    assert Store(site).taught == store.taught
    store = Store(site)
    store.keep_sums("00 /learnt", (crc, {"b1": (9, 0, crc), "b2": (9, crc, crc)}))
    assert store.has(crc) and not store.has(old)
    store.drop(["b2"])
    assert list(Store(site).taught["00 /learnt"][1]) == ["b1"]


# It teaches itself where it has learnt nothing yet, says what it knows, and works for the fleet.
LEARNS = """
import array, mica, mica_fleet
m = mica.Model("digits.mica")
h = mica.Learner(m, path="learnt")
print("mica:", h.labels, h.counts)
if not h.labels:
    for k in range(3):
        h.teach([array.array("f", [k * 0.1] * 64)], "own")
    h.save()
m.deinit()
mica_fleet.run()
"""

Reply = Callable[[int, bytes], bytes]


class Liar:
    """A board of that name that is another program: it says that it has the model,
    and answers each lesson as it likes."""

    def __init__(self, site: Site, name: str, crc: int, reply: Reply) -> None:
        self.lessons: list[bytes] = []

        def heard(board: str, what: str, payload: bytes) -> None:
            if what == "teach":
                self.lessons.append(payload)
                generation = json.loads(payload[65:].split(b"\n")[0])["generation"]
                self.listener.client.publish(f"mica/plant/from/{name}/head", reply(generation, payload), qos=1)

        self.listener = Listener(site, heard, user=name)
        about = json.dumps({"largest": 64, "models": {"digits.mica": f"{crc:08x}"}})
        self.listener.client.publish(f"mica/plant/from/{name}/state", f"up 1 1 {about}", qos=1, retain=True)


def head_at(folder: Path, data: bytes) -> Head | None:
    """The newest head of a board that runs here."""
    slots = [p.read_bytes() for k in (0, 1) if (p := folder / f"learnt.{k}").is_file()]
    best = max(slots, key=lambda s: int.from_bytes(s[12:16], "little"), default=None)
    return None if best is None else Head.from_state(best, model=digest(data))


def report(generation: int, state: bytes, **more: Any) -> bytes:
    return json.dumps({"generation": generation, "taken": 0, "reason": ""} | more).encode() + b"\n" + state


def test_two_boards_a_newcomer_a_liar_and_a_damaged_head(
    mosquitto: Any, fleet: Site, join: Join, digits_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.join(["b5"])
    mosquitto.send_signal(signal.SIGHUP)
    await_entry(fleet, ["b5"])
    data = digits_file.read_bytes()
    model, there = digest(data), {"digits.mica": data}
    b2 = taught(("own", 1), ("b", 2), model=model)
    flipped = bytearray(taught(("c", 3), model=model).state())
    flipped[-2] ^= 1
    lines: list[str] = []
    members = {"b1": join("b1", there, program=LEARNS, said=lines, revive=0.2)}
    members["b2"] = join("b2", there | {"learnt.0": b2.state()})
    members["b3"] = join("b3", there)
    members["b4"] = join("b4", there | {"learnt.0": bytes(flipped)})
    liar = Liar(
        fleet,
        "b5",
        zlib.crc32(data),
        lambda g, _: report(g, fixed(bytearray(taught(("own", 7), model=model).state()[:-4] + b"\0\0\0\x40"))),
    )
    up: set[str] = set()
    watch = Listener(
        fleet, lambda board, what, payload: up.add(board) if what == "state" and payload[:2] == b"up" else None
    )
    wait_until(lambda: len(up) == 5)
    where = {name: member._folder for name, member in members.items()}
    own = head_at(where["b1"], data)
    assert own is not None and own.counts == [3]
    words = ["fleet", "teach", str(fleet.path), str(digits_file), "--learnt", "learnt"]
    capsys.readouterr()
    assert main([*words, "-o", str(tmp_path / "sum.learnt"), "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    states = {b["board"]: (b["state"], b["reason"]) for b in result["boards"]}
    assert [states[f"b{i}"] for i in (1, 2, 3)] == [("taught", "")] * 3, states
    assert states["b4"][0] == "left out" and "learnt.0 or .1 is damaged" in states["b4"][1]
    assert states["b5"][0] == "left out" and "sums that no examples have" in states["b5"][1]
    right = Head.from_state(own.state())
    right.add(b2)
    assert (tmp_path / "sum.learnt").read_bytes() == right.state()
    assert result["labels"] == [{"label": "own", "examples": 4}, {"label": "b", "examples": 1}]
    for name in ("b1", "b2", "b3"):
        head = head_at(where[name], data)
        assert head is not None and head.state() == right.state(), name
    assert len(liar.lessons) == 1
    # a Learner takes it up where it is made again
    assert members["b1"].process is not None
    up.discard("b1")
    members["b1"].process.kill()
    wait_until(lambda: "b1: ['own', 'b'] [4, 1]" in lines and "b1" in up)
    # once more: nothing is new, so nothing is written; then one board has learnt more
    files = {p: p.read_bytes() for name in ("b1", "b2", "b3") for p in where[name].glob("learnt.?")}
    assert main([*words, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["labels"] == result["labels"]
    assert files == {p: p.read_bytes() for name in ("b1", "b2", "b3") for p in where[name].glob("learnt.?")}
    more = taught(("b", 5), start=head_at(where["b3"], data), model=model)
    for k in (0, 1):
        (where["b3"] / f"learnt.{k}").write_bytes(more.state())
    assert main([*words, "--forget", "oven"]) == 1
    assert "--forget oven: no board was taught it; taught: b, own" in capsys.readouterr().err
    assert main([*words, "--forget", "own"]) == 1
    out = capsys.readouterr().out
    assert "b4 left out: " in out and out.splitlines()[-1] == "3 of 5 boards have it"
    for name in ("b1", "b2", "b3"):
        head = head_at(where[name], data)
        assert head is not None and (head.labels, head.counts) == (["b"], [2]), name
    # what is not signed, is another board's, is old, or comes after the board has learnt more, changes nothing
    heard: list[tuple[dict[str, Any], bytes]] = []

    def answers(board: str, what: str, payload: bytes) -> None:
        if (board, what) == ("b2", "head"):
            text, state = payload.split(b"\n", 1)
            if (say := json.loads(text))["reason"]:  # what it said to the command may come here later than there
                heard.append((say, state))

    watch._handle = answers
    generation = Store(fleet).taught[f"{model.hex()} learnt"][1]["b2"][0]
    state = head_at(where["b2"], data)
    assert state is not None
    files = {p: p.read_bytes() for p in where["b2"].glob("learnt.?")}
    newest = max(files.values(), key=lambda s: int.from_bytes(s[12:16], "little"))
    letter = encode_lesson(fleet.key, "b2", generation + 9, "learnt", newest, b2.state())
    for bad, reason in (
        (b"", "it is not signed"),
        (b"x" * 70, "it is not signed"),
        (letter[:-1], "it is not signed with this board's key"),
        (
            encode_lesson(fleet.key, "b1", generation + 9, "learnt", newest, b2.state()),
            "not signed with this board's key",
        ),
        (encode_lesson(fleet.key, "b2", generation, "learnt", newest, b2.state()), "it is older than the last one"),
        (encode_lesson(fleet.key, "b2", generation + 9, "learnt", b"other", b2.state()), "has learnt more meanwhile"),
        (encode_lesson(fleet.key, "b2", generation + 9, "no/such", b"", b2.state()), "was not written"),
        (encode_lesson(fleet.key, "b2", generation + 9, 5, newest, b2.state()), ""),  # type: ignore[arg-type]
        (encode_lesson(fleet.key, "b2", generation + 9, "learnt", newest, b"mlrn?"), "no state of a head, or damaged"),
    ):
        n = len(heard)
        watch.send("b2", "teach", bad, qos=1)
        wait_until(lambda n=n: len(heard) > n)  # type: ignore[misc]
        assert reason in heard[-1][0]["reason"] and not heard[-1][1], heard[-1]
        assert files == {p: p.read_bytes() for p in where["b2"].glob("learnt.?")}
    watch.close()
    liar.listener.close()


# A board that loses power once, where it would write the sum.
CUT = """
import mica.learn, mica_fleet, os
store = mica.learn.store
def cut(path, state):
    if "was_cut" in os.listdir():
        return store(path, state)
    open("was_cut", "w").close()
    raise SystemExit
mica.learn.store = cut
mica_fleet.run()
"""


def test_power_is_cut_before_the_sum_is_written(
    fleet: Site, join: Join, digits_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has the head that it gave, which is not counted again."""
    data = digits_file.read_bytes()
    heads = [taught(("a", 1), ("b", 2), model=digest(data)), taught(("a", 3), model=digest(data))]
    up: list[str] = []
    watch = Listener(
        fleet, lambda board, what, payload: up.append(board) if what == "state" and payload[:2] == b"up" else None
    )
    members = [
        join(name, {"digits.mica": data, "learnt.0": head.state()}, program=CUT if name == "b1" else LEARNS, revive=0.2)
        for name, head in zip(("b1", "b2"), heads, strict=True)
    ]
    wait_until(lambda: set(up) == {"b1", "b2"})
    words = ["fleet", "teach", str(fleet.path), str(digits_file), "--learnt", "learnt"]
    capsys.readouterr()
    assert main([*words, "--seconds", "3"]) == 1
    assert "b1 failed: no answer; it is sent again next time" in capsys.readouterr().out
    wait_until(lambda: up.count("b1") > 1)
    found = head_at(members[0]._folder, data)
    assert found is not None and found.state() == heads[0].state()
    right = Head.from_state(heads[0].state())
    right.add(heads[1])
    for _ in range(2):
        assert main(words) == 0
        found = head_at(members[0]._folder, data)
        assert found is not None and found.state() == right.state()
    watch.close()


def test_lines_where_there_is_nothing_to_add_up(
    fleet: Site, digits_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No board is up with the model; none has a head; all are of another model, or softmax; one is silent."""
    data = digits_file.read_bytes()
    words = ["fleet", "teach", str(fleet.path), str(digits_file), "--seconds", "5"]

    def error() -> str:
        capsys.readouterr()
        assert main(words) == 1
        return capsys.readouterr().err.splitlines()[-1]

    assert "no board of plant is up with digits.mica; mica fleet push plant digits.mica" in error()
    said_by: dict[str, Reply] = {name: lambda g, _: report(g, b"") for name in ("b1", "b2")}
    liars = [Liar(fleet, name, zlib.crc32(data), lambda g, p, name=name: said_by[name](g, p)) for name in ("b1", "b2")]
    assert "no board of plant has a head at /learnt for digits.mica that counts; teach boards first" in error()
    said_by["b1"] = lambda g, _: report(g, taught(("a", 1)).state())
    said_by["b2"] = lambda g, _: report(g - 1, taught(("a", 1), model=digest(data)).state())  # of another lesson
    found = error()
    assert "b1: taught with another model" in found and "b2: no answer" in found
    said_by["b1"] = lambda g, _: report(g, taught(("a", 1), model=digest(data), kind="softmax").state())
    said_by["b2"] = lambda g, _: b"{" * 50
    found = error()
    assert "b1: only prototypes" in found and "b2: no answer" in found
    answers = {name: learnt(digest(data), 60 if name == "b3" else 0).state() for name in ("b1", "b2", "b3")}
    liars.append(Liar(fleet, "b3", zlib.crc32(data), lambda g, p: said_by["b3"](g, p)))
    said_by |= {name: lambda g, _, name=name: report(g, answers[name]) for name in answers}
    assert main(words) == 0
    drifts = [line.strip() for line in capsys.readouterr().out.splitlines() if "drifts" in line]
    assert drifts == ["b3 taught: drifts: its new examples of b lie far from those of the fleet"]
    for more, reason in (
        (["--most", "0"], "expected positive numbers"),
        (["--seconds", "-1"], "expected positive numbers"),
    ):
        capsys.readouterr()
        assert main([*words, *more]) == 1
        assert reason in capsys.readouterr().err
    for liar in liars:
        liar.listener.close()
    with pytest.raises(MicaError, match="only prototypes"):
        taught(("a", 1)).add(taught(("a", 1), kind="softmax"), -1)
