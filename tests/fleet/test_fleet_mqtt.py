"""Boards behind a broker: mosquitto, and MicroPython processes with the agent, killed at random; and errors."""

from __future__ import annotations

import dataclasses
import json
import random
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import DEMO, Join
from free_ports import free_port
from outages import SLOW, Proxy

from mica.cli.main import main
from mica.errors import MicaError
from mica.link import child
from mica.run.host import HostRunner
from mica_fleet import broker, mqtt_link
from mica_fleet.coordinator import FleetRunner
from mica_fleet.dispatch import Settings
from mica_fleet.links import Death
from mica_fleet.mqtt_link import Listener, MqttLink, await_entry
from mica_fleet.open import open_fleet
from mica_fleet.reports import parse_state
from mica_fleet.site import Site, new_password, new_site, read_site
from mica_fleet.wire import Key, Request, Status, decode_answer


def random_samples(data: bytes, n: int) -> tuple[list[list[np.ndarray]], list[bytes]]:
    """Inputs of a model, and the host's answers."""
    rng = np.random.default_rng(0)
    with HostRunner(data) as host:
        dims = host.model.tensors[host.model.inputs[0]].dims
        samples = [[rng.integers(-128, 128, dims).astype(np.int8)] for _ in range(n)]
        return samples, [y[0].tobytes() for y in host.run(samples)]


def wait_until(what: Callable[[], object], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


def kill_at_random(members: list, every: float, over: threading.Event, seed: int) -> list[int]:
    """Send SIGKILL to a random board every so many seconds; the returned list grows by one for each."""
    killed: list[int] = []
    chance = random.Random(seed)

    def killer() -> None:
        while not over.wait(every):
            process = chance.choice(members).process
            if process is not None and process.poll() is None:
                process.kill()
                killed.append(process.pid)

    threading.Thread(target=killer, daemon=True).start()
    return killed


def test_boards_are_killed_and_nothing_is_lost(fleet: Site, join: Join, digits_file: Path) -> None:
    data = digits_file.read_bytes()
    samples, right = random_samples(data, 300)
    members = [join(f"b{i}", program=SLOW) for i in range(1, 5)]
    over = threading.Event()
    said: list[str] = []
    with open_fleet(data, f"fleet:{fleet.path}", said.append, Settings(audit=0.05)) as runner:
        assert [y[0].tobytes() for y in runner.run(samples[:8])] == right[:8]
        killed = kill_at_random(members, 0.5, over, seed=1)

        def is_lost() -> bool:
            return any("is lost: it went off the broker" in line for line in said)

        try:
            for _ in range(20):
                assert [y[0].tobytes() for y in runner.run(samples)] == right
                if len(killed) >= 4 and is_lost():
                    break
        finally:
            over.set()
        assert len(killed) >= 4 and is_lost(), said
    assert not any("quarantine" in line for line in said), said


def test_a_broker_that_is_killed_again_and_again_loses_nothing(
    mosquitto: subprocess.Popen[bytes], fleet: Site, join: Join, digits_file: Path
) -> None:
    """Three times within 20 s ended the coordinator, which said that another one was at work."""
    data = digits_file.read_bytes()
    samples, right = random_samples(data, 100)
    for name in ("b1", "b2"):
        join(name, program=SLOW)
    processes = [mosquitto]
    with open_fleet(data, f"fleet:{fleet.path}", settings=Settings(audit=0.05)) as runner:
        runner.run(samples[:4])
        for _ in range(3):
            found: list[list[bytes]] = []
            thread = threading.Thread(target=lambda f=found: f.append([y[0].tobytes() for y in runner.run(samples)]))
            thread.start()
            time.sleep(0.2)
            processes[-1].kill()
            wait_until(lambda: not broker.is_up(fleet))
            processes.append(broker.start(fleet))
            thread.join(60)
            assert found == [right]
    child.stop(processes[-1])


def test_share_loses_what_the_dispatcher_does_not(fleet: Site, join: Join) -> None:
    """The broker's own sharing in the same harness: messages of boards that die are gone. Each dies once, with
    some that it has taken and not answered."""
    share = """
import json, os, time
from mica_fleet.mqtt import Client
with open("fleet.json") as f:
    s = json.load(f)
c = Client("x-" + s["name"], s["host"], s["port"], user="mica", password=s["secret"], keepalive=10)
todo = []
c.set_callback(lambda topic, message: todo.append(bytes(message)))
c.connect()
c.subscribe("$share/g/mica/plant/in", 1)
c.publish("mica/plant/from/" + s["name"] + "/state", "here", qos=1)
begun = "was_here" in os.listdir()
open("was_here", "w").close()
while True:
    c.check_msg(0 if todo else 1000)
    if todo and (begun or len(todo) >= 10):
        begun = True
        time.sleep_ms(20)
        c.publish("mica/plant/from/" + s["name"] + "/out", todo.pop(0), qos=1)
"""
    answered: set[bytes] = set()
    here: set[str] = set()
    begun: set[str] = set()

    def on_message(board: str, what: str, payload: bytes) -> None:
        if what == "out":
            answered.add(payload)
            begun.add(board)
        else:
            here.add(board)

    listener = Listener(fleet, on_message)
    members = [join(f"b{i}", program=share, models={}, settings={"secret": fleet.password}) for i in range(1, 4)]
    wait_until(lambda: len(here) == 3)
    for n in range(150):
        listener.client.publish("mica/plant/in", str(n), qos=1)
    for member in members:
        wait_until(lambda name=member.name: name in begun)  # type: ignore[misc]
        assert member.process is not None
        member.process.kill()
    before = -1
    while len(answered) > before:  # those that come back do what they have
        before = len(answered)
        time.sleep(2.5)
    listener.close()
    assert 0 < len(answered) < 150


def test_a_coordinator_that_is_killed_goes_on_from_its_journal(
    fleet: Site, join: Join, digits_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for i in range(1, 4):
        join(f"b{i}", program=SLOW)
    journal = tmp_path / "j"
    words = ["fleet", "eval", str(fleet.path), str(digits_file), str(DEMO / "digits_test.npz"), "--json"]
    words += ["--samples", "250", "--journal", str(journal)]
    process = subprocess.Popen(
        [sys.executable, "-m", "mica", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_until(lambda: journal.exists() and journal.stat().st_size > 1500)
    process.kill()
    process.wait()
    size = journal.stat().st_size
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert "answers are in" in err and journal.stat().st_size > size
    assert main(["eval", str(digits_file), str(DEMO / "digits_test.npz"), "--samples", "250", "--json"]) == 0
    host = json.loads(capsys.readouterr().out)
    assert json.loads(out) == host | {"target": f"fleet:{fleet.path}"}
    words[words.index("250")] = "249"
    assert main(words) == 1
    assert "another job" in capsys.readouterr().err


def test_an_agent_survives_what_anybody_sends(fleet: Site, join: Join, digits_file: Path) -> None:
    data = digits_file.read_bytes()
    samples, right = random_samples(data, 8)
    crc = zlib.crc32(data)
    answers = []
    states: list[bytes] = []

    def on_message(board: str, what: str, payload: bytes) -> None:
        if what == "out":
            answers.append(decode_answer(payload))
        elif what == "state":
            states.append(payload)

    listener = Listener(fleet, on_message)
    member = join("b1")
    wait_until(lambda: any(s.startswith(b"up") for s in states))
    chance = random.Random(5)
    for n in range(3000):
        whole = bytearray(Request(Key(1, n % 8), crc, 1, samples[n % 8][0].tobytes()).encode())
        match n % 4:
            case 0:
                whole = bytearray(chance.randbytes(chance.randrange(60)))
            case 1:
                whole[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
            case 2:
                whole = whole[: chance.randrange(len(whole))]
            case 3:
                whole += chance.randbytes(chance.randrange(1, 9))
        listener.send("b1", chance.choice(("run", "run", "run", "want", "x")), bytes(whole))
    # Whole ones, whose sender is wrong: another model, inputs of another size.
    for key, model, inputs in ((Key(2, 0), crc ^ 1, bytes(64)), (Key(2, 1), crc, bytes(63)), (Key(2, 2), crc, b"")):
        listener.send("b1", "run", Request(key, model, 1, inputs).encode())
    wait_until(lambda: sum(a.key.job == 2 for a in answers) == 3)
    listener.send("b1", "run", Request(Key(3, 0), crc, 1, samples[0][0].tobytes()).encode())
    wait_until(lambda: any(a.key.job == 3 for a in answers))
    listener.close()
    by_key = {a.key: a for a in answers}
    assert len(answers) == 4, "an answer to what was damaged"
    assert by_key[Key(3, 0)].data == right[0]
    assert [by_key[Key(2, i)].status for i in range(3)] == [Status.NO_MODEL, Status.BAD_REQUEST, Status.BAD_REQUEST]
    assert by_key[Key(2, 1)].data == b"63 bytes of inputs; the model takes 64"
    assert member.starts == 1 and sum(s.startswith(b"up") for s in states) == 1


def test_a_board_that_hangs_costs_no_answer(fleet: Site, join: Join, digits_file: Path) -> None:
    data = digits_file.read_bytes()
    samples, right = random_samples(data, 150)
    members = [join(f"b{i}", program=SLOW) for i in range(1, 4)]
    with open_fleet(data, f"fleet:{fleet.path}") as runner:
        runner.run(samples[:6])
        hung = members[0].process
        assert hung is not None
        hung.send_signal(signal.SIGSTOP)
        try:
            assert [y[0].tobytes() for y in runner.run(samples)] == right
        finally:
            hung.send_signal(signal.SIGCONT)
        assert [y[0].tobytes() for y in runner.run(samples[:30])] == right[:30]


def test_boards_behind_the_broker_and_boards_at_a_cable_are_one_fleet(
    fleet: Site, join: Join, digits_file: Path, tmp_path: Path
) -> None:
    """Processes behind the broker, one of which is killed, and others that are driven over their REPL,
    one of which goes off."""
    data = digits_file.read_bytes()
    samples, right = random_samples(data, 200)
    said: list[str] = []
    members = [join(f"b{i}", program=SLOW) for i in (1, 2)]
    with open_fleet(data, f"fleet:{fleet.path},UNIX*2", said.append) as runner:
        assert [y[0].tobytes() for y in runner.run(samples[:20])] == right[:20]
        wait_until(lambda: bool(runner.run(samples[:8])) and len(runner._dispatcher.boards()) == 4)
        assert members[0].process is not None
        threading.Timer(0.2, members[0].process.kill).start()
        alive = runner._links["UNIX#1"]
        thread = threading.Timer(0.3, alive._events.put, [Death("UNIX#1", 1, 1, "its cable was pulled")])
        thread.start()
        for _ in range(100):
            assert [y[0].tobytes() for y in runner.run(samples)] == right
            if sum(" is lost: " in line for line in said) == 2:
                break
    assert any(line.startswith("b1 is lost") for line in said) and "UNIX#1 is lost: its cable was pulled" in said, said
    other = new_site(str(tmp_path / "other"), "mqtt://127.0.0.1")
    with pytest.raises(MicaError, match="are fleets, each with a broker"):
        open_fleet(data, f"fleet:{fleet.path},{other.path}")
    fleet.boards["UNIX"] = "x" * 24
    fleet.save()
    with pytest.raises(MicaError, match="UNIX is a board of plant, too"):
        open_fleet(data, f"fleet:{fleet.path},UNIX")


def test_a_second_coordinator_is_refused_and_the_first_stays(
    fleet: Site, join: Join, digits_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = digits_file.read_bytes()
    samples, right = random_samples(data, 40)
    join("b1", program=SLOW)
    with open_fleet(data, f"fleet:{fleet.path}") as runner:
        for _ in range(3):
            with pytest.raises(
                MicaError, match=r"another coordinator is at work for plant: process \d+ on .*; a fleet has"
            ):
                open_fleet(data, f"fleet:{fleet.path}")
        assert main(["fleet", "bench", str(fleet.path), str(digits_file)]) == 1
        assert "another coordinator is at work" in capsys.readouterr().err
        assert [y[0].tobytes() for y in runner.run(samples)] == right
    with open_fleet(data, f"fleet:{fleet.path}") as runner:
        assert [y[0].tobytes() for y in runner.run(samples[:4])] == right[:4]


def test_cut_connections_do_not_end_a_coordinator(
    fleet: Site, join: Join, digits_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four in a row, by way of a proxy, are no second coordinator;
    a word of one that has ended without a will is none either."""
    data = digits_file.read_bytes()
    samples, right = random_samples(data, 20)
    join("b1")
    said: list[str] = []
    proxy = Proxy(fleet.port, random.Random(1))
    far = dataclasses.replace(fleet, port=proxy.port)
    with FleetRunner(data, "fleet:plant", lambda events: [MqttLink(far, events)], said.append) as runner:
        assert [y[0].tobytes() for y in runner.run(samples)] == right
        for _ in range(4):
            wait_until(proxy.cut)
        assert [y[0].tobytes() for y in runner.run(samples)] == right
        with pytest.raises(MicaError, match="another coordinator is at work"):
            open_fleet(data, f"fleet:{fleet.path}")
    assert any("the connection has ended; it is tried again" in line for line in said), said
    assert f"the broker at {far.where} is back" in said, said
    listener = Listener(fleet, lambda *_: None)
    stale = b"leads 1 0123456789abcdef process 1 on nowhere"
    listener.client.publish("mica/plant/coordinator", stale, qos=1, retain=True).wait_for_publish(5)
    listener.close()
    monkeypatch.setattr(mqtt_link, "_LEAD_SECONDS", 0.5)
    with open_fleet(data, f"fleet:{fleet.path}") as runner:
        assert [y[0].tobytes() for y in runner.run(samples[:4])] == right[:4]
    proxy.close()


def test_no_board_can_end_a_connection_of_others(fleet: Site, join: Join, digits_file: Path) -> None:
    """With its own password and any client ID that can be guessed, the coordinator's and other boards' of older
    versions among them."""
    import paho.mqtt.client as mqtt

    data = digits_file.read_bytes()
    samples, right = random_samples(data, 20)
    said: list[str] = []
    members = [join("b1"), join("b2")]
    with open_fleet(data, f"fleet:{fleet.path}", said.append) as runner:
        wait_until(lambda: bool(runner.run(samples[:8])) and len(runner._dispatcher.boards()) == 2)
        lost = runner._dispatcher.counts["lost_boards"]
        for taken in ("mica-plant", "mica-plant-b2", "mica", "b2", "plant", "mica-b2"):
            thief = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=taken, protocol=mqtt.MQTTv311)
            thief.username_pw_set("b1", fleet.boards["b1"])
            thief.connect(fleet.host, fleet.port)
            thief.loop_start()
            wait_until(thief.is_connected)
            thief.disconnect()
            thief.loop_stop()
        assert [y[0].tobytes() for y in runner.run(samples)] == right
        assert runner._dispatcher.counts["lost_boards"] == lost and not said, said
    assert [m.starts for m in members] == [1, 1]


def test_ls_has_what_boards_have_done(
    fleet: Site, join: Join, digits_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Soon after the work, at a command that listens for half a second;
    and a board that was off since the broker started is "not seen"."""
    data = digits_file.read_bytes()
    samples, _ = random_samples(data, 30)
    join("b1", program="import mica_fleet\nmica_fleet._WORKED_MS, mica_fleet._STAT_MS = 100, 10**8\nmica_fleet.run()")
    with open_fleet(data, f"fleet:{fleet.path}", settings=Settings(hedge_of_p99=1e6, least_lease=60)) as runner:
        runner.run(samples)
    rows: dict[str, dict[str, object]] = {}

    def seen() -> bool:
        capsys.readouterr()
        assert main(["fleet", "ls", str(fleet.path), "--json"]) == 0
        rows.update((row["board"], row) for row in json.loads(capsys.readouterr().out)["boards"])
        return rows["b1"]["runs"] == 30

    wait_until(seen)
    assert rows["b1"]["errors"] == 0 and rows["b1"]["ms"] is not None and rows["b2"]["state"] == "not seen"
    assert main(["fleet", "ls", str(fleet.path)]) == 0
    assert "not seen: not since the broker started" in capsys.readouterr().out


def test_a_board_that_joins_waits_for_the_broker_to_know_it(tmp_path: Path) -> None:
    """The broker reads its files again a moment after `join` has written them; the board said that it is refused."""
    if broker.program() is None:
        pytest.skip("mosquitto is not installed")
    pytest.importorskip("paho.mqtt.client", reason="the Python package paho-mqtt is not installed")
    site = new_site(str(tmp_path / "plant"), f"mqtt://127.0.0.1:{free_port()}")
    process = broker.start(site)
    try:
        site.join(["b1"])
        with pytest.raises(MicaError, match="refuses b1"):
            Listener(site, lambda *_: None, user="b1")
        threading.Timer(0.5, process.send_signal, [signal.SIGHUP]).start()
        await_entry(site, ["b1"])
        Listener(site, lambda *_: None, user="b1").close()
    finally:
        child.stop(process)


def test_a_boards_memory_is_flat(fleet: Site, join: Join, digits_file: Path) -> None:
    program = """
import gc, json, mica_fleet
class Telling(mica_fleet.Agent):
    def compute(self, model, inputs):
        if self.runs % 500 == 100:
            gc.collect()
            print("mica: free", gc.mem_free())
        return super().compute(model, inputs)
with open("fleet.json") as f:
    Telling(json.load(f)).work()
"""
    data = digits_file.read_bytes()
    samples, _ = random_samples(data, 1200)
    said: list[str] = []
    join("b1", program=program, said=said)
    with open_fleet(data, f"fleet:{fleet.path}") as runner:
        runner.run(samples)
        wait_until(lambda: len(said) >= 3)
    free = [int(line.split()[-1]) for line in said]
    # What waits in its queue at that moment is a request or two.
    assert abs(free[-1] - free[0]) < 2048, free


def test_an_agent_takes_a_client_of_the_users(fleet: Site, join: Join, digits_file: Path) -> None:
    program = """
import json
from mica_fleet import Agent
from mica_fleet.mqtt import Client
class Simple:
    "What umqtt.simple's client has, and no more."
    def __init__(self, inner):
        self._inner = inner
        for name in ("set_callback", "set_last_will", "subscribe", "publish", "ping"):
            setattr(self, name, getattr(inner, name))
    def connect(self, clean_session=True):
        self._inner.connect()
        self.sock = self._inner.sock
    def check_msg(self):
        self._inner.check_msg()
with open("fleet.json") as f:
    s = json.load(f)
Agent(s, Simple(Client("mine", s["host"], s["port"], user=s["name"], password=s["password"], keepalive=10))).work()
"""
    data = digits_file.read_bytes()
    samples, right = random_samples(data, 20)
    join("b1", program=program)
    with open_fleet(data, f"fleet:{fleet.path}") as runner:
        assert [y[0].tobytes() for y in runner.run(samples)] == right


# ---- what is said where it cannot be


def test_errors_are_one_line(
    fleet: Site, join: Join, digits_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    npz = str(DEMO / "digits_test.npz")

    def fails(*words: str) -> str:
        assert main(list(words)) == 1
        err = capsys.readouterr().err.strip().splitlines()
        assert err[-1].startswith("mica: error: ") and "bug" not in err[-1], err
        return err[-1]

    run = ("eval", str(digits_file), npz, "--on")
    # a model loaded nowhere; one that asks for too much
    said: list[str] = []
    join("b1", models={}, said=said)
    assert "no board has this model (CRC-32" in fails(*run, f"fleet:{fleet.path}")
    small = "import json, mica_fleet\nmica_fleet.LARGEST = 10\nmica_fleet.run()"
    join("b2", program=small)
    assert "b2: a request has 64 bytes, and it takes 10" in fails(*run, f"fleet:{fleet.path}")
    # two boards of one name
    join("b2", program=small)
    wait_until(lambda: main(["fleet", "ls", str(fleet.path), "--json"]) == 0)
    for _ in range(5):  # each comes in when it has waited for its turn
        capsys.readouterr()
        code, out = main(["fleet", "doctor", str(fleet.path), "--seconds", "8"]), capsys.readouterr().out
        if "b2: two boards have this name" in out:
            break
    assert code == 1 and "b2: two boards have this name" in out
    # a wrong password, of the coordinator and of a board
    text = fleet.path.read_text()
    other = tmp_path / "other.toml"
    other.write_text(text.replace(fleet.password, "wrong"))
    assert "refuses mica: this user may not come in" in fails(*run, f"fleet:{other}")
    assert "refuses mica" in fails("fleet", "ls", str(other))
    join("b3", said=said, settings={"password": "wrong"})
    wait_until(lambda: any("the broker refuses the name b3 or its password" in line for line in said))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fleet = [", "damaged"),
        ('fleet = "plant"', "host is missing"),
        ('fleet = "a/b"\nhost = "h"\nport = 1\npassword = "p"', "no name for a fleet"),
        ('fleet = "a"\nhost = "h"\nport = 70000\npassword = "p"', "port is 70000"),
        ('fleet = "a"\nhost = "h"\nport = "1"\npassword = "p"', "port is '1'"),
        ('fleet = "a"\nhost = "h"\nport = 1\npassword = "p"\nboards = 3', r"\[boards\] is damaged"),
        ('fleet = "a"\nhost = "h"\nport = 1\npassword = "p"\n[boards]\nmica = "x"', "no name for a board"),
    ],
)
def test_damaged_settings(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "plant.toml"
    path.write_text(text)
    with pytest.raises(MicaError, match=message):
        read_site(str(path))


def test_no_broker_and_no_fleet(
    site: Site, digits_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("paho.mqtt.client", reason="the Python package paho-mqtt is not installed")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MicaError, match=r"no broker at 127.0.0.1:\d+: .*; start one: mica fleet broker plant"):
        open_fleet(digits_file.read_bytes(), "fleet:plant")
    with pytest.raises(MicaError, match=r"'plants' is neither .*no plants.toml here"):
        open_fleet(digits_file.read_bytes(), "fleet:plants")
    assert main(["fleet", "doctor", "plant"]) == 1
    assert "!!  nobody listens at" in capsys.readouterr().out
    assert main(["fleet", "init", "plant"]) == 1
    assert "plant.toml is there already" in capsys.readouterr().err
    assert main(["fleet", "join", "plant", "--on", "MPS2_AN385"]) == 1
    assert "MPS2_AN385 has no network" in capsys.readouterr().err
    assert site.path.stat().st_mode & 0o77 == 0
    assert read_site("plant").boards == site.boards and new_password() != new_password()


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"up",
        b"up 1 2",
        b"up 1 2 3",
        b"up 1 2 {}",
        b"down x 1",
        b'up 1 2 {"models": [], "largest": 1}',
        b'up 1 1 {"largest": 1e999, "models": {}}',
        b"\xff" * 9,
    ],
)
def test_a_state_that_is_none(payload: bytes) -> None:
    with pytest.raises(MicaError, match="a state that cannot be read"):
        parse_state(payload)


def test_a_newcomers_ten_lines(tmp_path: Path) -> None:
    """The lines of docs/fleets.md, from nothing to `fleet eval` on three emulated boards;
    with a port of the test's own."""
    if broker.program() is None:
        pytest.skip("mosquitto is not installed")
    pytest.importorskip("paho.mqtt.client", reason="the Python package paho-mqtt is not installed")
    guide = (DEMO.parents[1] / "docs" / "fleets.md").read_text()
    lines = guide.split("<!-- ten lines -->\n```\n")[1].split("```")[0]
    assert len(lines.splitlines()) <= 10
    lines = lines.replace("init plant", f"init plant --broker mqtt://127.0.0.1:{free_port()}")
    lines = lines.replace("host_tools/mica/demo", str(DEMO)).replace("pip install 'mica-mcu[fleet]'", "true")
    lines = lines.replace("sudo apt install mosquitto", "true")
    script = f'mica() {{ "{sys.executable}" -m mica "$@"; }}\n{lines}code=$?\nkill $(jobs -p)\nwait\nexit $code\n'
    result = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert "on fleet:plant" in result.stdout and "(360 samples)" in result.stdout


def test_a_broker_that_starts_while_boards_join_loses_none(tmp_path: Path) -> None:
    """It has read the settings before they joined, and writes them after."""
    site = new_site(str(tmp_path / "plant"), "mqtt://127.0.0.1")
    early, other = read_site(str(site.path)), read_site(str(site.path))
    site.join(["a", "b"])
    early.join(())
    other.join(["b", "c"])
    there = read_site(str(site.path)).boards
    assert list(there) == ["a", "b", "c"] and there["b"] == site.boards["b"] == early.boards["b"] == other.boards["b"]
    passwords = (site.broker_folder / "passwords").read_text().splitlines()
    assert [line.split(":")[0] for line in passwords] == ["mica", "watch", "a", "b", "c"]
