"""The same boards and the same coordinator behind another MQTT broker: nats-server's MQTT port, nothing changed."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import nats_broker
import pytest
from conftest import Join
from outages import SLOW
from test_fleet_mqtt import kill_at_random, random_samples, wait_until

from mica.errors import MicaError
from mica.link import child
from mica_fleet import broker
from mica_fleet.dispatch import Settings
from mica_fleet.mqtt_link import Listener
from mica_fleet.open import open_fleet
from mica_fleet.site import Site


@pytest.fixture
def nats(site: Site) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The broker of `site`, and those that a test starts in its place."""
    if nats_broker.program() is None:
        pytest.skip("nats-server is not installed")
    if importlib.util.find_spec("paho") is None:
        pytest.skip("the Python package paho-mqtt is not installed")
    running = [nats_broker.start(site)]
    yield running
    for process in running:
        child.stop(process)


@pytest.fixture
def fleet(site: Site, nats: list[subprocess.Popen[bytes]]) -> Site:
    return site


def test_boards_and_the_server_are_killed_and_nothing_is_lost(
    nats: list[subprocess.Popen[bytes]], fleet: Site, join: Join, digits_file: Path
) -> None:
    data = digits_file.read_bytes()
    samples, right = random_samples(data, 300)
    members = [join(f"b{i}", program=SLOW) for i in range(1, 5)]
    over = threading.Event()
    said: list[str] = []
    with open_fleet(data, f"fleet:{fleet.path}", said.append, Settings(audit=0.05)) as runner:
        assert [y[0].tobytes() for y in runner.run(samples[:8])] == right[:8]
        killed = kill_at_random(members, 0.5, over, seed=1)
        found: list[list[bytes]] = []

        def work() -> None:
            while len(killed) < 4 or len(found) < 2:
                found.append([y[0].tobytes() for y in runner.run(samples)])

        worker = threading.Thread(target=work, daemon=True)
        try:
            worker.start()
            time.sleep(0.8)
            nats[-1].kill()
            wait_until(lambda: not broker.is_up(fleet))
            nats.append(nats_broker.start(fleet))
            worker.join(90)
        finally:
            over.set()
        assert not worker.is_alive() and len(found) >= 2 and all(answers == right for answers in found)
    assert any("is lost: it went off the broker" in line for line in said), said
    assert not any("quarantine" in line for line in said), said


def test_a_board_speaks_for_no_other(fleet: Site, join: Join) -> None:
    """A board cannot send under another's name; messages under its own name arrive."""
    liar = """
import json
from mica_fleet.mqtt import Client
with open("fleet.json") as f:
    s = json.load(f)
c = Client("x", s["host"], s["port"], user=s["name"], password=s["password"], keepalive=10)
c.connect()
for name in ("b2", s["name"]):
    c.publish("mica/plant/from/" + name + "/stat", json.dumps({"by": s["name"]}), qos=1)
while True:
    c.check_msg(1000)
"""
    came: list[tuple[str, object]] = []
    listener = Listener(fleet, lambda board, what, payload: came.append((board, json.loads(payload))))
    join("b1", program=liar, models={})
    wait_until(lambda: came)
    time.sleep(0.2)
    assert came == [("b1", {"by": "b1"})]
    listener.close()


def test_a_second_coordinator_is_refused_and_the_first_stays(
    nats: list[subprocess.Popen[bytes]], fleet: Site, join: Join, digits_file: Path
) -> None:
    """It is refused before and after the server is killed, which keeps retained messages and sends no will. A
    coordinator that was killed with the server does not count."""
    data = digits_file.read_bytes()
    samples, right = random_samples(data, 10)
    join("b1")

    def refused() -> None:
        with pytest.raises(MicaError, match="another coordinator is at work for plant"):
            open_fleet(data, f"fleet:{fleet.path}")

    said: list[str] = []
    with open_fleet(data, f"fleet:{fleet.path}", said.append) as runner:
        refused()
        nats[-1].kill()
        wait_until(lambda: not broker.is_up(fleet))
        nats.append(nats_broker.start(fleet))
        assert [y[0].tobytes() for y in runner.run(samples)] == right
        assert f"the broker at {fleet.where} is back" in said
        refused()
        assert [y[0].tobytes() for y in runner.run(samples)] == right
    with open_fleet(data, f"fleet:{fleet.path}") as runner:
        assert [y[0].tobytes() for y in runner.run(samples)] == right
