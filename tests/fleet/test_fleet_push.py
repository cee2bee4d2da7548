"""Models that are pushed to a fleet of MicroPython processes: signed, in chunks, tried,
and whole whenever power fails."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import signal
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import DEMO, Join

from mica.cli.main import main
from mica.errors import MicaError
from mica.link import child
from mica_fleet import broker
from mica_fleet.desired import board_key, encode_want
from mica_fleet.mqtt_link import Listener, await_entry
from mica_fleet.push import Fleet, push, rollback
from mica_fleet.reports import parse_have, parse_state
from mica_fleet.rollout import State, Terms
from mica_fleet.site import Site
from mica_fleet.store import Store

QUICK = Terms(waves=("1", "100%"), timeout=60.0)


def wait_until(what: Callable[[], object], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """digits with golden vectors: another file than digits_file, and three chunks long."""
    path = tmp_path_factory.mktemp("newer") / "digits.mica"
    words = ["pack", str(DEMO / "digits.onnx"), "--plain", "--golden", "3"]
    assert main([*words, "-o", str(path)]) == 0
    return path.read_bytes()


class Watch:
    """A record of the boards' messages."""

    def __init__(self, site: Site) -> None:
        self.models: dict[str, dict[str, int]] = {}
        self.haves: dict[str, list[Any]] = {}
        self.listener = Listener(site, self._heard)

    def _heard(self, board: str, what: str, payload: bytes) -> None:
        if what == "state" and payload.startswith(b"up"):
            self.models[board] = parse_state(payload).models
        elif what == "have":
            self.haves.setdefault(board, []).append(parse_have(payload))

    def has(self, board: str, data: bytes) -> bool:
        return list(self.models.get(board, {}).values()) == [zlib.crc32(data)]

    def last(self, board: str) -> str:
        return self.haves[board][-1].verdict if self.haves.get(board) else ""


@pytest.fixture
def watch(fleet: Site) -> Any:
    found = Watch(fleet)
    yield found
    found.listener.close()


# A board whose trials all fail, as where its flash is worn out.
BAD = """
import mica_fleet, mica.slots
mica.slots.test = lambda path, key=None: "layer 3 gives other bytes than it should"
mica_fleet.run()
"""

# A board that loses power at its n-th operation on a file, which leaves a write half done; and then never again.
CUT = """
import json, os, mica_fleet, mica_fleet.push as p
with open("fleet.json") as f:
    s = json.load(f)
left = s["cut"]
try:
    os.stat("was_cut")
    left = -1
except OSError:
    pass
def operation(torn=None):
    global left
    left -= 1
    if left == 0:
        if torn:
            torn()
        with open("was_cut", "w") as f:
            f.write("!")
        raise SystemExit
class File:
    def __init__(self, f):
        self.f = f
        self.seek, self.read, self.readinto = f.seek, f.read, f.readinto
    def __enter__(self):
        return self
    def __exit__(self, *_):
        self.f.close()
    def write(self, data):
        operation(lambda: self.f.write(data[: len(data) // 2]))
        return self.f.write(data)
class Os:
    stat, remove = os.stat, os.remove
    def rename(a, b):
        operation()
        os.rename(a, b)
real = p.examine
def examine(name, sha):
    operation()
    said = real(name, sha)
    operation()
    return said
p.os, p.examine = Os, examine
p.open = lambda path, mode="r": File(open(path, mode))
mica_fleet.Agent(s).work()
"""


def test_a_push_and_its_rollback(
    fleet: Site,
    join: Join,
    watch: Watch,
    digits_file: Path,
    newer: bytes,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    old = digits_file.read_bytes()
    store = Store(fleet)
    store.known["b3"] = {"digits.mica": store.add(old)}  # as mica fleet join has it
    store.save()
    for name in ("b1", "b2"):
        join(name)
    wait_until(lambda: watch.has("b1", old) and watch.has("b2", old))
    path = tmp_path / "digits.mica"
    path.write_bytes(newer)
    capsys.readouterr()
    assert main(["fleet", "push", str(fleet.path), str(path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [(b["board"], b["state"]) for b in result["boards"]] == [
        ("b1", "succeeded"),
        ("b2", "succeeded"),
        ("b3", "queued"),
        ("b4", "queued"),
    ]
    wait_until(lambda: watch.has("b1", newer) and watch.has("b2", newer))
    # b3 was off; it takes it when it comes, and answers with it
    join("b3")
    wait_until(lambda: watch.has("b3", newer))
    assert (
        main(["eval", str(path), str(DEMO / "digits_test.npz"), "--samples", "40", "--on", f"fleet:{fleet.path}"]) == 0
    )
    capsys.readouterr()
    assert main(["fleet", "rollback", str(fleet.path)]) == 0
    assert capsys.readouterr().out.startswith("done; 3 succeeded, in")
    wait_until(lambda: all(watch.has(b, old) for b in ("b1", "b2", "b3")))
    assert main(["fleet", "rollback", str(fleet.path)]) == 1
    assert "no push to take back; only the last one" in capsys.readouterr().err
    # the last push is taken back, and no more: of three boards the second push was for one
    assert main(["fleet", "push", str(fleet.path), str(path)]) == 0
    path.write_bytes(old)
    assert main(["fleet", "push", str(fleet.path), str(path), "--boards", "b2"]) == 0
    wait_until(lambda: watch.has("b1", newer) and watch.has("b2", old))
    assert main(["fleet", "rollback", str(fleet.path)]) == 0
    wait_until(lambda: all(watch.has(b, newer) for b in ("b1", "b2", "b3")))
    capsys.readouterr()
    for words in (["--waves", "0"], ["--abort", "2"], ["--timeout", "3"], ["--boards", "b9"], ["--min", "0"]):
        assert main(["fleet", "push", str(fleet.path), str(path), *words]) == 1
        assert capsys.readouterr().err.splitlines()[-1].startswith("mica: error: "), words


def test_power_is_cut_at_every_operation(
    mosquitto: Any, fleet: Site, join: Join, watch: Watch, digits_file: Path, newer: bytes
) -> None:
    """One board for each; 14 operations are in a push."""
    old = digits_file.read_bytes()
    for i in range(5, 17):
        fleet.boards[f"b{i}"] = "x" * 24
    fleet.save()
    mosquitto.send_signal(signal.SIGHUP)
    await_entry(fleet, list(fleet.boards))
    said: dict[int, list[str]] = {}
    for i in range(1, 17):
        said[i] = []
        join(f"b{i}", program=CUT, settings={"cut": i}, revive=0.2, said=said[i])
    wait_until(lambda: all(watch.has(f"b{i}", old) for i in range(1, 17)), 60)
    with Fleet(fleet) as f:
        outcome = push(f, {"digits.mica": newer}, Terms(waves=("100%",), timeout=60.0, retry=1), said[1].append)
    assert outcome.reason == "" and {s for s, _ in outcome.boards.values()} == {State.SUCCEEDED}, outcome
    wait_until(lambda: all(watch.has(f"b{i}", newer) for i in range(1, 17)))
    cut = [i for i in range(1, 17) if any("has ended" in line for line in said[i])]
    assert all("it is started again in " in line for i in cut for line in said[i] if "has ended" in line)
    assert cut == list(range(1, len(cut) + 1)) and 13 <= len(cut) < 16, cut
    rejected = [b for b, haves in watch.haves.items() if any(h.verdict == "rejected" for h in haves)]
    # before the trial, after it, and in both halves of writing that it was passed
    assert len(rejected) == 4 and all("reset during the trial" in watch_reason(watch, b) for b in rejected)


def test_twelve_boards_lose_power_and_three_reject_it(
    mosquitto: Any, fleet: Site, join: Join, watch: Watch, digits_file: Path, newer: bytes
) -> None:
    """Power is cut in each phase of nine boards, once; the last three fail their trials, so the gate stops it,
    and all go back."""
    old = digits_file.read_bytes()
    Store(fleet).add(old)
    names = [f"b{i}" for i in range(1, 13)]
    fleet.boards = {name: fleet.boards.get(name, "x" * 24) for name in names}
    fleet.save()
    mosquitto.send_signal(signal.SIGHUP)
    await_entry(fleet, list(fleet.boards))
    phases = (1, 2, 4, 6, 8, 9, 10, 11, 12)  # operations: of the chunks, before and in the trial, after it
    members = [
        join(name, program=CUT, settings={"cut": cut}, revive=0.2) for name, cut in zip(names, phases, strict=False)
    ]
    for name in names[9:]:
        join(name, program=BAD)
    wait_until(lambda: all(watch.has(b, old) for b in names), 60)
    said: list[str] = []
    with Fleet(fleet) as f:
        terms = Terms(waves=("4", "8", "100%"), abort=0.2, timeout=60.0, retry=1)
        outcome = push(f, {"digits.mica": newer}, terms, said.append)
    # A board that is still without power does not count yet.
    assert re.fullmatch("3 of (1[012]|9) boards failed in wave 3, more than 20 %", outcome.reason), outcome
    # A board that is still without power takes it back when it has some again.
    assert re.fullmatch("(1[012]|9) of 12 boards have what they had before", said[-1]), said[-1]
    wait_until(lambda: all(watch.has(b, old) for b in names))
    assert all(m.starts == 2 for m in members), "each lost power once"


def watch_reason(watch: Watch, board: str) -> str:
    return next(h.reason for h in watch.haves[board] if h.verdict == "rejected")


def test_where_boards_reject_it_all_go_back(
    fleet: Site, join: Join, watch: Watch, digits_file: Path, newer: bytes
) -> None:
    old = digits_file.read_bytes()
    Store(fleet).add(old)
    for name in ("b1", "b2", "b4"):
        join(name)
    join("b3", program=BAD)
    wait_until(lambda: all(watch.has(b, old) for b in fleet.boards))
    said: list[str] = []
    with Fleet(fleet) as f:
        outcome = push(f, {"digits.mica": newer}, Terms(waves=("1", "3", "100%"), timeout=60.0), said.append)
    assert outcome.reason == "1 of 3 boards failed in wave 2, more than 2 %"
    assert outcome.boards["b3"] == (
        State.FAILED,
        "digits.mica: layer 3 gives other bytes than it should",
    )
    assert outcome.boards["b4"][0] is State.QUEUED and not any(h.generation for h in watch.haves["b4"]), (
        "the gate kept it from the fourth"
    )
    wait_until(lambda: all(watch.has(b, old) for b in fleet.boards))
    assert said[-1] == "3 of 3 boards have what they had before"


def test_a_broker_that_forgets_is_told_again(
    mosquitto: Any, fleet: Site, join: Join, digits_file: Path, newer: bytes
) -> None:
    join("b1")
    with Fleet(fleet) as f:
        wait_until(lambda: f.look(0.1) or f.states)
        assert push(f, {"digits.mica": newer}, QUICK, lambda line: None).reason == ""
    mosquitto.kill()
    wait_until(lambda: not broker.is_up(fleet))
    process = broker.start(fleet)
    try:
        with Fleet(fleet) as f:
            assert f.state_again() == 4
        watch = Watch(fleet)
        join("b2")
        wait_until(lambda: watch.has("b2", newer))
        watch.listener.close()
    finally:
        child.stop(process)


def test_what_is_not_signed_is_refused(fleet: Site, join: Join, watch: Watch, digits_file: Path, newer: bytes) -> None:
    old = digits_file.read_bytes()
    join("b1")
    wait_until(lambda: watch.has("b1", old) and watch.haves.get("b1"))
    good = encode_want(fleet.key, "b1", 5, {"digits.mica": newer})
    text = good[65:]

    def signed(body: bytes, key: str = board_key(fleet.key, "b1")) -> bytes:
        return hmac.new(bytes.fromhex(key), body, "sha256").hexdigest().encode() + b" " + body

    path = json.loads(text)
    path["models"][0]["name"] = "../digits.mica"
    short = json.loads(text)
    short["models"][0]["chunks"] = "00"
    refused = {
        b"{}": "not signed",
        text: "not signed",
        b"0" * 64 + b" " + text: "not signed with",
        good[:-1] + b" ": "not signed with",
        signed(text, fleet.key): "not signed with",
        signed(text, board_key(fleet.key, "b2")): "not signed with",
        encode_want(fleet.key, "b2", 5, {"digits.mica": newer}): "not signed with",
        signed(text.replace(b'"b1"', b'"b2"')): "another board",
        signed(b"[]"): "",
        signed(b"{"): "",
        signed(json.dumps(path).encode()): "no name for a model",
        signed(json.dumps(short).encode()): "chunks",
    }
    for message, why in refused.items():
        before = len(watch.haves["b1"])
        watch.listener.send("b1", "want", message, qos=1, retain=True)
        wait_until(lambda n=before: len(watch.haves["b1"]) > n)
        have = watch.haves["b1"][-1]
        assert have.verdict == "refused" and why in have.reason, (message, have)
    assert watch.has("b1", old)
    with Fleet(fleet) as f:
        f.look(0.5)
        assert push(f, {"digits.mica": newer}, Terms(waves=("100%",), timeout=60.0), lambda line: None).reason == ""
    wait_until(lambda: watch.has("b1", newer))
    # what was signed once is no way back
    watch.listener.send("b1", "want", encode_want(fleet.key, "b1", 5, {"digits.mica": old}), qos=1, retain=True)
    wait_until(lambda: watch.last("b1") == "refused")
    assert watch.haves["b1"][-1].reason == "it is older than the last one"
    # chunks that are not what was signed: it waits, and takes the right ones
    topic = f"mica/plant/blob/{hashlib.sha256(old).hexdigest()[:16]}/"
    watch.listener.client.publish(topic + "0", b"?" * 4096, qos=1, retain=True)
    watch.listener.send("b1", "want", encode_want(fleet.key, "b1", 2**31, {"digits.mica": old}), qos=1, retain=True)
    wait_until(lambda: watch.last("b1") == "fetching")
    for n in range(-(-len(old) // 4096)):
        watch.listener.client.publish(topic + str(n), old[4096 * n : 4096 * (n + 1)], qos=1, retain=True)
    wait_until(lambda: watch.has("b1", old))


SMALL = """
import json, mica_fleet
class Small(mica_fleet.Agent):
    def about(self):
        return super().about() | {"heap": 5000}
with open("fleet.json") as f:
    Small(json.load(f)).work()
"""


def test_a_model_that_a_board_has_no_room_for_is_not_sent(
    fleet: Site, join: Join, watch: Watch, newer: bytes, digits_file: Path
) -> None:
    join("b1", program=SMALL)
    join("b2")
    wait_until(lambda: len(watch.models) == 2)
    refused = pytest.raises(MicaError, match=r"digits.mica takes .* bytes of heap .*; b1 has 5,000")
    with Fleet(fleet) as f, refused:
        push(f, {"digits.mica": newer}, QUICK, print, ["b1"])
    assert not Store(fleet).desired and not Store(fleet).has(zlib.crc32(newer))
    with Fleet(fleet) as f:
        assert "b1 has 5,000" in push(f, {"digits.mica": newer}, QUICK, print).boards["b1"][1]
    wait_until(lambda: watch.has("b2", newer))
    assert not any(have.generation for have in watch.haves.get("b1", ()))


def test_a_fleet_without_a_key_and_one_without_boards(fleet: Site, digits_file: Path) -> None:
    with Fleet(fleet) as f:
        with pytest.raises(MicaError, match="no board of plant is up"):
            push(f, {"digits.mica": digits_file.read_bytes()}, QUICK, lambda line: None)
        with pytest.raises(MicaError, match="there is no push to take back"):
            rollback(f, QUICK, lambda line: None)
        with pytest.raises(MicaError, match="expected a name such as"):
            push(f, {"x": b""}, QUICK, lambda line: None)
    fleet.key = ""
    with pytest.raises(MicaError, match="key is missing"):
        Fleet(fleet)
