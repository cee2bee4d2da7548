"""The boards of a fleet behind an MQTT broker, as one link. firmware/mica/fleet.py has the topics and what boards say there.

Requests and answers go with QoS 0: the answer is the acknowledgement, and the dispatcher asks again. A board's state is retained,
and "down" is its will, so whoever connects learns at once who is there.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mica.errors import MicaError
from mica.fleet.links import Answered, Birth, Broken, Death, Events, Link, Unreachable
from mica.fleet.site import COORDINATOR, Site
from mica.fleet.wire import Request, decode_answer

_CONNECT_SECONDS = 5.0
_START_SECONDS = 3.0  # for a broker that somebody has just started
_KEEPALIVE = 10
_REFUSED = {4: "wrong user name or password", 5: "this user may not come in"}  # MQTT 3.1.1, table 3.1

_PUT_OUT, _PUT_OUT_SECONDS = 3, 20.0  # so often within so many seconds: another has the same client id

Heard = Callable[[str, str, bytes], None]


@dataclass(frozen=True)
class State:
    """What a board says of itself, and its will. `about`: of a board that is up, the JSON of its birth."""

    up: bool
    boot: int
    session: int
    about: dict[str, Any]

    @property
    def models(self) -> dict[str, int]:
        """Path on the board -> CRC-32 of the file."""
        return {str(path): int(crc, 16) for path, crc in self.about["models"].items()}

    @property
    def largest(self) -> int:
        """Bytes of inputs that it takes in one request."""
        return int(self.about["largest"])


def parse_state(payload: bytes) -> State:
    """Raises MicaError where a state is not one: anybody who may write there can leave anything."""
    words = payload.split(b" ", 3)
    try:
        if words[0] not in (b"up", b"down"):
            raise ValueError
        about = json.loads(words[3]) if words[0] == b"up" else {}
        state = State(words[0] == b"up", int(words[1]), int(words[2]), about)
        if state.up and (state.largest < 0 or any(not 0 <= crc < 1 << 32 for crc in state.models.values())):
            raise ValueError
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, RecursionError):
        raise MicaError(f"a state that cannot be read: {payload[:40]!r}") from None
    return state


class Listener:
    """A connection to the broker of a fleet. heard(board, last word of the topic, payload) is called in a thread of its own."""

    def __init__(
        self,
        site: Site,
        heard: Heard,
        client_id: str = "",
        user: str = COORDINATOR,
        will: tuple[str, str] | None = None,
        connected: Callable[[], None] = lambda: None,
    ) -> None:
        """will: topic and what is retained there when this goes. connected: is called at each new connection. Raises MicaError where there is no
        broker, or it refuses."""
        try:
            import paho.mqtt.client as mqtt
        except ImportError:
            raise MicaError(
                "the Python package paho-mqtt is missing", todo="pip install mica[fleet], or pip install paho-mqtt"
            ) from None
        self.site = site
        self._heard = heard
        self._user = user
        self._answered = threading.Event()
        self._code = -1
        self.lost: Callable[[], None] = lambda: None  # is called where the connection has ended
        self.client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2,
            client_id=client_id or f"mica-{secrets.token_hex(6)}",
            protocol=mqtt.MQTTv311,
        )
        self.client.username_pw_set(user, site.password_of(user))
        if will is not None:
            self.client.will_set(*will, qos=1, retain=True)
        self._connected = connected
        self.client.on_connect = self._on_connect
        self.client.on_message = self._on_message
        self.client.on_disconnect = lambda *_: self.lost()
        self.client.reconnect_delay_set(1, 4)
        self.client.connect_timeout = _CONNECT_SECONDS
        begun = time.monotonic()
        while True:
            try:
                self.client.connect(site.host, site.port, keepalive=_KEEPALIVE)
                break
            except (OSError, ValueError) as e:
                if time.monotonic() - begun < _START_SECONDS:
                    time.sleep(0.1)
                    continue
                reason = getattr(e, "strerror", None) or str(e)
                raise MicaError(
                    f"no broker at {site.where}: {reason}", todo=f"start one: mica fleet broker {site.path.stem}"
                ) from None
        self.client.loop_start()
        self._answered.wait(_CONNECT_SECONDS)
        if self._code != 0:
            self.close()
            why = _REFUSED.get(self._code, f"CONNACK {self._code}" if self._code >= 0 else "it does not answer")
            raise MicaError(
                f"the broker at {site.where} refuses {user}: {why}",
                todo="it is another fleet's, or the settings changed: start it with mica fleet broker",
            )

    def _on_connect(self, client: Any, userdata: object, flags: Any, reason: Any, properties: object) -> None:
        self._code = {0: 0, 134: 4, 135: 5}.get(reason.value, reason.value)  # paho tells MQTT 5's
        if self._code == 0:
            base = f"mica/{self.site.fleet}"
            client.subscribe(f"{base}/from/+/#" if self._user == COORDINATOR else f"{base}/#", 1)
            self._connected()
        self._answered.set()

    def _on_message(self, client: object, userdata: object, message: Any) -> None:
        words = message.topic.split("/")
        if len(words) == 5:
            self._heard(words[3], words[4], message.payload)

    def send(self, board: str, what: str, payload: bytes, qos: int = 0, retain: bool = False) -> None:
        self.client.publish(f"mica/{self.site.fleet}/to/{board}/{what}", payload, qos=qos, retain=retain)

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


class Boots:
    """Tells two boards of one name: a boot that was over is there again."""

    def __init__(self) -> None:
        self._of: dict[str, list[int]] = {}

    def twice(self, board: str, boot: int) -> bool:
        seen = self._of.setdefault(board, [])
        if seen and seen[-1] == boot:
            return False
        again = boot in seen
        seen.append(boot)
        del seen[:-8]
        return again


class MqttLink(Link):
    """All boards of a fleet; `name` is the fleet's. Only one such link is there at a time: the broker ends an older one."""

    many = True

    def __init__(self, site: Site, events: Events) -> None:
        self.name = site.fleet
        self._events = events
        self._boots = Boots()
        self.damaged = 0  # messages that were dropped
        self._ends: list[float] = []
        self._listener = Listener(site, self._heard, client_id=f"mica-{site.fleet}")
        self._listener.lost = self._lost

    def send(self, board: str, request: Request) -> None:
        self._listener.send(board, "run", request.encode())

    def close(self) -> None:
        self._listener.close()

    def _heard(self, board: str, what: str, payload: bytes) -> None:
        try:
            if what == "out":
                self._events.put(Answered(board, decode_answer(payload)))
            elif what == "state" and payload:
                self._state(board, parse_state(payload))
        except MicaError:
            self.damaged += 1

    def _lost(self) -> None:
        now = time.monotonic()
        self._ends = [t for t in self._ends if now - t < _PUT_OUT_SECONDS] + [now]
        if len(self._ends) >= _PUT_OUT:
            self._listener.client.disconnect()  # it would come again, and put the other out
            self._events.put(Broken("the broker lets this coordinator go again and again: there is another at work"))

    def _state(self, board: str, state: State) -> None:
        if not state.up:
            self._events.put(Death(board, state.boot, state.session, "it went off the broker"))
            return
        if self._boots.twice(board, state.boot):
            self._events.put(Unreachable(board, f"two boards are called {board}; give one another name"))
        models = frozenset(state.models.values())
        machine = str(state.about.get("board", ""))
        self._events.put(Birth(board, state.boot, state.session, models, state.largest, machine))
