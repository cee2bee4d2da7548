"""Home Assistant's discovery: the messages at the broker, read as the user `watch`; and the rest when boards leave."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import queue
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Join
from test_fleet_mqtt import random_samples, wait_until

from mica.cli.main import main
from mica.errors import MicaError
from mica.file import codec
from mica.link import child
from mica_fleet import broker
from mica_fleet.dispatch import Settings
from mica_fleet.home_assistant import Discovery
from mica_fleet.mqtt_link import Listener, MqttLink
from mica_fleet.service import Service
from mica_fleet.site import WATCHER, Site, read_site

# It tells its numbers three times a second.
CHATTY = "import mica_fleet\nmica_fleet._STAT_MS = 300\nmica_fleet.run()"


class Watcher:
    """A stand-in for Home Assistant: the messages at these topics, read by user `watch`."""

    def __init__(self, site: Site, *topics: str) -> None:
        import paho.mqtt.client as mqtt

        self.at: dict[str, bytes] = {}
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv311)
        self.client.username_pw_set(WATCHER, site.watch)
        self.client.on_connect = lambda *_: self.client.subscribe([(t, 1) for t in topics])
        self.client.on_message = lambda client, data, m: self.at.__setitem__(m.topic, m.payload)
        self.client.reconnect_delay_set(1, 1)
        self.client.connect(site.host, site.port)
        self.client.loop_start()

    def json(self, topic: str) -> Any:
        return json.loads(self.at[topic])


@contextlib.contextmanager
def watching(site: Site, *topics: str) -> Iterator[Watcher]:
    found = Watcher(site, *topics)
    try:
        yield found
    finally:
        found.client.disconnect()
        found.client.loop_stop()


def check_shown(config: dict[str, Any], watcher: Watcher, expected: dict[str, str | None]) -> None:
    """Check the values that Home Assistant shows, from the messages at the topics of a device's configuration; None
    stands for any value. Its templates are jinja2's: without that package only the topics are checked."""
    for c in config["components"].values():
        assert c["unique_id"] and c["name"] and c["platform"] in ("sensor", "binary_sensor")
        assert {c["state_topic"], *(a["topic"] for a in c.get("availability", ()))} <= set(watcher.at)
    assert set(config["components"]) == set(expected)
    if importlib.util.find_spec("jinja2") is None:
        return
    found = shown(config, watcher)
    assert {k: v for k, v in found.items() if expected[k] is not None} == {k: v for k, v in expected.items() if v}
    assert all(found.values())


def shown(config: dict[str, Any], watcher: Watcher) -> dict[str, str]:
    import jinja2.sandbox

    env = jinja2.sandbox.ImmutableSandboxedEnvironment()

    def value(template: str, payload: bytes) -> str:
        text = payload.decode()
        with contextlib.suppress(ValueError):
            return str(env.from_string(template).render(value=text, value_json=json.loads(text)))
        return str(env.from_string(template).render(value=text))

    found = {}
    for name, c in config["components"].items():
        for a in c.get("availability", ()):
            said = watcher.at.get(a["topic"], b"").decode()
            if "value_template" in a:
                said = value(a["value_template"], said.encode())
            if said != a.get("payload_available", "online"):
                assert said == a.get("payload_not_available", "offline")
                found[name] = "unavailable"
        if name not in found and c["state_topic"] in watcher.at:
            found[name] = value(c["value_template"], watcher.at[c["state_topic"]])
    return found


def test_boards_and_answers_are_found_and_taken_away(
    mosquitto: subprocess.Popen[bytes], fleet: Site, join: Join, digits_file: Path
) -> None:
    data = digits_file.read_bytes()
    samples, right = random_samples(data, 1)
    topics = ("homeassistant/#", "mica/plant/from/+/state", "mica/plant/from/+/stat", "mica/plant/said/#")
    board_topic, server_topic = "homeassistant/device/mica_plant_b1/config", "homeassistant/device/mica_plant/config"
    member = join("b1", program=CHATTY, revive=1000.0)
    with watching(fleet, *topics) as watcher, contextlib.ExitStack() as stack:
        model = codec.decode(data)
        discovery = stack.enter_context(contextlib.closing(Discovery(fleet, {"digits": model})))
        stat = "mica/plant/from/b1/stat"
        wait_until(lambda: board_topic in watcher.at and server_topic in watcher.at and stat in watcher.at)
        config = watcher.json(board_topic)
        assert config["device"]["identifiers"] == ["mica_plant_b1"] and config["origin"]["name"] == "mica"
        assert config["device"]["via_device"] in watcher.json(server_topic)["device"]["identifiers"]
        check_shown(config, watcher, {"runs": "0", "errors": "0", "ms": "None", "heap": None, "up": "True"})
        # an answer, as the server has it
        service = Service(
            {"digits": [data]},
            lambda events: [MqttLink(fleet, events)],
            lambda _: None,
            Settings(least_lease=60),  # one that is late is asked again, and has two runs
            answered=discovery.answered,
        )
        stack.enter_context(contextlib.closing(service))
        wait_until(lambda: service.is_ready("digits"))
        assert service.submit("digits", [samples[0][0].tobytes()]).result(30)[0].outputs == right[0]
        wait_until(lambda: "mica/plant/said/digits" in watcher.at and watcher.json(stat)["runs"] == 1)
        said = watcher.json("mica/plant/said/digits")
        answer = int(np.frombuffer(right[0], np.int8).argmax())
        assert said["board"] == "b1" and said["answer"] == answer and 0 < said["score"] <= 1
        shown_answer: dict[str, str | None] = {"digits_answer": str(answer), "digits_score": str(said["score"])}
        check_shown(watcher.json(server_topic), watcher, shown_answer)
        check_shown(config, watcher, {"runs": "1", "errors": "0", "ms": None, "heap": None, "up": "True"})
        # without power it is shown as that, by its will
        assert member.process is not None
        member.process.kill()
        wait_until(lambda: watcher.at["mica/plant/from/b1/state"].startswith(b"down"))
        gone = dict.fromkeys(("runs", "errors", "ms", "heap"), "unavailable")
        check_shown(config, watcher, {**gone, "up": "False"})
        # a broker that has forgotten all is told again
        mosquitto.kill()
        mosquitto.wait()
        watcher.at.clear()
        process = broker.start(fleet)
        stack.callback(child.stop, process)
        wait_until(lambda: board_topic in watcher.at and server_topic in watcher.at)
        # a board that leaves is taken away, and does not come in again
        watched = threading.Thread(target=broker.watch, args=(fleet, process, lambda _: None, lambda: done.is_set()))
        done = threading.Event()
        watched.start()
        try:
            assert main(["fleet", "leave", str(fleet.path), "--boards", "b1"]) == 0
            wait_until(lambda: watcher.at[board_topic] == b"")
            assert list(read_site(str(fleet.path)).boards) == ["b2", "b3", "b4"]
        finally:
            done.set()
            watched.join()
        discovery.close()
        wait_until(lambda: watcher.at["mica/plant/said/_server"] == b"offline")


def test_who_watches_reads_and_writes_nothing(fleet: Site, digits_file: Path) -> None:
    messages: queue.SimpleQueue[str] = queue.SimpleQueue()
    listener = Listener(fleet, lambda board, what, payload: messages.put(f"{board} {what}"))
    with watching(fleet, "#") as watcher:
        for topic in (
            "mica/plant/from/b1/state",
            "mica/plant/said/x",
            "homeassistant/device/mica_plant_b1/config",
            "mica/plant/from/watch/state",
        ):
            watcher.client.publish(topic, "from the watcher", qos=1, retain=True).wait_for_publish(5)
        listener.send("b1", "want", b"a wish", qos=1, retain=True)
        listener.client.publish("mica/plant/blob/0/0", b"a chunk", qos=1, retain=True)
        listener.client.publish("mica/plant/from/b1/out", b"an answer", qos=1)
        listener.client.publish("mica/plant/from/b1/stat", b"{}", qos=1)
        wait_until(lambda: watcher.at)
        assert watcher.at == {"mica/plant/from/b1/stat": b"{}"}
        assert [messages.get(timeout=5) for _ in range(2)] == ["b1 out", "b1 stat"]
    listener.close()


def test_what_serve_says_of_home_assistant(site: Site, digits_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = codec.decode(digits_file.read_bytes())
    assert main(["fleet", "serve", "fleet:host", str(digits_file), "--http", "127.0.0.1:0", "--ha"]) == 1
    assert "host has no broker that Home Assistant could listen to" in capsys.readouterr().err
    with pytest.raises(MicaError, match="cannot be in a topic"):
        Discovery(site, {"a/b": model})
    assert main(["fleet", "leave", str(site.path), "--boards", "b1,b9"]) == 1
    assert "b9 is no board of plant" in capsys.readouterr().err
    # a fleet of before has a password for them as soon as its files are written
    text = "\n".join(line for line in site.path.read_text().splitlines() if not line.startswith("watch"))
    site.path.write_text(text)
    old = read_site(str(site.path))
    old.save()
    assert old.watch and read_site(str(site.path)).watch == old.watch
    assert "user watch\n" in (site.broker_folder / "acl").read_text()
