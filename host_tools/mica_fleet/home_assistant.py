"""Home Assistant's MQTT discovery: boards and answers of a fleet as devices there, by `mica fleet serve --ha`.

    homeassistant/device/mica_F_B/config    retained, JSON: a board: runs, errors, milliseconds of a run, free heap,
                                            connection
    homeassistant/device/mica_F/config      likewise, the server: of each model what was answered last,
                                            and how sure it was
    mica/F/said/MODEL                       retained, JSON: answer, score, board
    mica/F/said/_server                     retained, and the will: online or offline

Home Assistant (2024.12 or later, which takes a whole device in one message) reads what boards say of themselves:
templates make numbers of it, so that a board is shown as it is whether or not a server runs. An empty message takes a
device away. Those who watch come in as the user `watch`, who may read this, and write nothing.
"""

import contextlib
import json
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from mica import __version__
from mica.errors import MicaError
from mica.file import scores
from mica.file.codec import ModelFile
from mica.format import output_groups
from mica_fleet.links import split
from mica_fleet.mqtt_link import Listener
from mica_fleet.reports import State, parse_state
from mica_fleet.site import Site

PREFIX = "homeassistant"  # Home Assistant's default
_ORIGIN = {"name": "mica", "sw": __version__}
_TRIGGER = {"platform": "device_automation", "automation_type": "trigger", "type": "recognised"}
_TRIGGER["value_template"] = "{{ value_json.label }}"
_SAY_SECONDS = 0.5  # an answer of a model at most so often: it is for people


def config_topic(fleet: str, board: str = "") -> str:
    """Return the topic of a board, or of the server."""
    return f"{PREFIX}/device/{_id(fleet, board)}/config"


def _id(fleet: str, board: str = "") -> str:
    return f"mica_{fleet}_{board}" if board else f"mica_{fleet}"


def _component(unique: str, name: str, topic: str, template: str, **more: Any) -> dict[str, Any]:
    found = {"platform": "sensor", "unique_id": unique, "name": name, "state_topic": topic, "value_template": template}
    return found | more


def triggers(topic: str, labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Device triggers for the words that a board listens for;
    firmware/mica_fleet/house.py has the same for a broker without a fleet."""
    return {
        f"word{k}": _TRIGGER | {"subtype": label, "payload": label, "topic": topic} for k, label in enumerate(labels)
    }


def board_config(site: Site, board: str, state: State) -> dict[str, Any]:
    """Message to Home Assistant that describes a board that is up."""
    ident, base = _id(site.fleet, board), f"mica/{site.fleet}/from/{board}"
    is_up = "{{ value.split(' ')[0] == 'up' }}"
    there = {
        "availability": [
            {
                "topic": f"{base}/state",
                "value_template": is_up,
                "payload_available": "True",
                "payload_not_available": "False",
            }
        ]
    }
    rows: dict[str, tuple[str, str, dict[str, Any]]] = {
        "runs": ("Runs", "{{ value_json.runs }}", {"state_class": "total_increasing"}),
        "errors": ("Errors", "{{ value_json.errors }}", {"state_class": "total_increasing"}),
        "ms": (
            "Time of a run",
            "{{ (value_json.ms | sum / value_json.ms | length) | round(1) if value_json.ms else None }}",
            {"state_class": "measurement", "device_class": "duration", "unit_of_measurement": "ms"},
        ),
        "heap": (
            "Free heap",
            "{{ value_json.heap | default(None) }}",
            {"state_class": "measurement", "device_class": "data_size", "unit_of_measurement": "B"},
        ),
    }
    components = {
        key: _component(f"{ident}_{key}", name, f"{base}/stat", template, entity_category="diagnostic", **there, **more)
        for key, (name, template, more) in rows.items()
    }
    components["up"] = {
        "platform": "binary_sensor",
        "unique_id": f"{ident}_up",
        "name": "Connection",
        "device_class": "connectivity",
        "state_topic": f"{base}/state",
        "value_template": is_up,
        "payload_on": "True",
        "payload_off": "False",
    }
    components |= triggers(f"{base}/event", state.about.get("words", ()))
    device = {
        "identifiers": [ident],
        "name": f"{site.fleet} {board}",
        "manufacturer": "mica",
        "model": state.about.get("board", ""),
        "hw_version": state.about.get("core", ""),
        "sw_version": state.about.get("mica", ""),
        "via_device": _id(site.fleet),
    }
    return {"device": device, "origin": _ORIGIN, "components": components}


def server_config(site: Site, models: Mapping[str, ModelFile]) -> dict[str, Any]:
    """Message to Home Assistant that describes the server and its models."""
    ident, base = _id(site.fleet), f"mica/{site.fleet}/said"
    there = {"availability": [{"topic": f"{base}/_server"}]}
    components = {}
    for name in models:
        components[f"{name}_answer"] = _component(
            f"{ident}_{name}_answer",
            f"{name} answer",
            f"{base}/{name}",
            "{{ value_json.answer }}",
            json_attributes_topic=f"{base}/{name}",
            **there,
        )
        components[f"{name}_score"] = _component(
            f"{ident}_{name}_score",
            f"{name} score",
            f"{base}/{name}",
            "{{ value_json.score }}",
            state_class="measurement",
            **there,
        )
    device = {"identifiers": [ident], "name": f"mica {site.fleet}", "manufacturer": "mica", "sw_version": __version__}
    return {"device": device, "origin": _ORIGIN, "components": components}


def answer_of(model: ModelFile, outputs: bytes) -> dict[str, Any]:
    """The class with the largest score and that score; of one value, or of a model without scores,
    just that of its first output."""
    group = output_groups.read(model)[max(scores.place(model), 0)]
    y = output_groups.joined(model, group, split(model, model.outputs, outputs)).reshape(-1)
    best = int(y.argmax())
    score = round(float(y[best]), 6)
    if y.size == 1:
        return {"answer": score, "score": score}
    name = scores.names(model, y.size)[best]
    return {"answer": name if scores.labels(model) else best, "score": score}


class Discovery:
    """Tells Home Assistant of boards as they come, and of what they answer, until close().
    `answered` may be called from any thread."""

    def __init__(self, site: Site, models: Mapping[str, ModelFile]) -> None:
        """Raises MicaError where there is no broker, or it refuses, or a model's name cannot be in a topic."""
        for name in models:
            if not name.isprintable() or set(name) & set("/+#") or name.startswith("_"):
                raise MicaError(f"a model that is called {name!r} cannot be in a topic", todo="rename the file")
        self._site, self._models = site, models
        self._told: dict[str, dict[str, Any]] = {}
        self._last: dict[str, float] = {}
        self._events: queue.SimpleQueue[tuple[str, bytes] | None] = queue.SimpleQueue()
        self._status = f"mica/{site.fleet}/said/_server"
        self._listener = Listener(site, self._heard, will=(self._status, "offline"), connected=lambda _: self._again())
        self._thread = threading.Thread(target=self._live, name="home assistant", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._events.put(None)
        self._thread.join(10)
        with contextlib.suppress(RuntimeError, ValueError):  # the broker may be away: then its will says so
            self._listener.client.publish(self._status, "offline", qos=1, retain=True).wait_for_publish(2)
        self._listener.close()

    def answered(self, name: str, outputs: bytes, board: str) -> None:
        now = time.monotonic()
        if now - self._last.get(name, -_SAY_SECONDS) < _SAY_SECONDS:
            return
        self._last[name] = now
        said = answer_of(self._models[name], outputs) | {"board": board}
        self._publish(f"mica/{self._site.fleet}/said/{name}", said, qos=0)

    # ---- inside: callbacks of the client only pass messages on

    def _heard(self, board: str, what: str, payload: bytes) -> None:
        if what == "state":
            self._events.put((board, payload))

    def _again(self) -> None:
        """There is a new connection, maybe to a broker that has forgotten all."""
        self._events.put(("", b""))

    def _live(self) -> None:
        while (event := self._events.get()) is not None:
            board, payload = event
            if not board:
                self._publish(self._status, "online")
                self._publish(config_topic(self._site.fleet), server_config(self._site, self._models))
                for known, config in self._told.items():
                    self._publish(config_topic(self._site.fleet, known), config)
            elif not payload:
                self._told.pop(board, None)
                self._publish(config_topic(self._site.fleet, board), "")
            else:
                self._board(board, payload)

    def _board(self, board: str, payload: bytes) -> None:
        try:
            state = parse_state(payload)
        except MicaError:
            return
        if state.up and self._told.get(board) != (config := board_config(self._site, board, state)):
            self._told[board] = config
            self._publish(config_topic(self._site.fleet, board), config)

    def _publish(self, topic: str, content: str | dict[str, Any], qos: int = 1) -> None:
        text = content if isinstance(content, str) else json.dumps(content)
        self._listener.client.publish(topic, text, qos=qos, retain=True)
