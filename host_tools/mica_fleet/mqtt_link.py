"""The boards of a fleet behind an MQTT broker, as one link.
firmware/mica_fleet has the topics and what boards say there.

Requests and answers go with QoS 0: the answer is the acknowledgement, and the dispatcher asks again.
A board's state is retained, and "down" is its will, so whoever connects learns at once who is there.
Client IDs are secrets: a connection with the ID of another ends it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

from mica.errors import MicaError
from mica.printable import printable
from mica_fleet import broker, lead
from mica_fleet.links import Answered, Birth, Broken, Damaged, Death, Events, Link, Restored, Unreachable
from mica_fleet.reports import State, parse_state
from mica_fleet.site import COORDINATOR, NAME, Site
from mica_fleet.wire import Key, Request, decode_answer

_CONNECT_SECONDS = 5.0
_START_SECONDS = 3.0  # for a broker that somebody has just started
_LONGEST_PAUSE = 30  # seconds until a lost broker is tried again: from 1 on, twice as long each time
_LEAD_SECONDS = 5.0  # for another coordinator to say that it is at work
_ENTRY_SECONDS = 3.0  # for a broker to read its files again
_AT_ONCE, _A_SECOND = 300.0, 30.0  # messages of a board that are no answers to what it was asked
_MUTE_SECONDS = 60.0  # for one that sends more: all others would wait behind them
_MOST_ASKED = 64  # requests to a board whose answers are known as such
_TOPICS = 500  # of one packet
_KEEPALIVE = 10
_REFUSED = {4: "wrong user name or password", 5: "this user may not come in"}  # MQTT 3.1.1, table 3.1

Handler = Callable[[str, str, bytes], None]


def _client() -> Any:
    """paho's client, whose thread no exception ends. Raises MicaError where paho is missing."""
    try:
        import paho.mqtt.client as mqtt
    except ImportError:
        raise MicaError("the Python package paho-mqtt is missing", todo="pip install 'mica-mcu[fleet]'") from None

    class Client(mqtt.Client):
        def loop_forever(self, *args: Any, **more: Any) -> Any:
            while True:
                try:
                    return super().loop_forever(*args, **more)
                except Exception:  # of bytes that were damaged on their way: a new connection mends it
                    time.sleep(1)
                    with contextlib.suppress(Exception):
                        self.reconnect()

    return Client(mqtt.CallbackAPIVersion.VERSION2, client_id=f"mica-{secrets.token_hex(8)}", protocol=mqtt.MQTTv311)


class Listener:
    """A connection to the broker of a fleet.

    A thread of its own calls `handle(board, last word of the topic, payload)`, which raises MicaError if a message is
    damaged; `damaged` counts these by board.
    """

    def __init__(
        self,
        site: Site,
        handle: Handler,
        user: str = COORDINATOR,
        will: tuple[str, str] | None = None,
        connected: Callable[[Listener], None] = lambda listener: None,
        lost: Callable[[str], None] = lambda reason: None,
        tell: Callable[[str, str], None] = lambda board, reason: None,
        beside: tuple[str, Callable[[bytes, bool], None]] | None = None,
    ) -> None:
        """will: topic and what is retained there when this goes.
        connected, lost: are called at each new connection, and where one has ended, or cannot be made. tell: gets a
        board's name and a line about its damaged messages, but not of each. beside: another topic, and what takes its
        messages, and whether they were retained. Raises MicaError where there is no broker, or it refuses."""
        self.site = site
        self.damaged: Counter[str] = Counter()
        self._handle, self._connected, self._lost, self._tell, self._beside = handle, connected, lost, tell, beside
        self._user = user
        self._answered = threading.Event()
        self._code = -1
        self.client = _client()
        self.client.username_pw_set(user, site.password_of(user))
        if will is not None:
            self.client.will_set(*will, qos=1, retain=True)
        self.client.suppress_exceptions = True
        self.client.on_connect = self._on_connect
        self.client.on_message = self._on_message
        self.client.on_subscribe = lambda *_: self._answered.set()  # what is retained follows at once
        self.client.on_disconnect = lambda *_: self._lost(self._why())
        self.client.on_connect_fail = lambda *_: self._lost(self._why())
        self.client.reconnect_delay_set(1, _LONGEST_PAUSE)
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
            raise MicaError(
                f"the broker at {site.where} refuses {user}: {self._refusal()}",
                todo="it is another fleet's, or the settings changed: start it with mica fleet broker",
            )

    def _refusal(self) -> str:
        return _REFUSED.get(self._code, f"CONNACK {self._code}" if self._code >= 0 else "it does not answer")

    def _why(self) -> str:
        """Say why a connection has ended, or cannot be made."""
        found = "the connection has ended" if self._code == 0 else f"it refuses {self._user}: {self._refusal()}"
        return f"{found}; it is tried again, after pauses of up to {_LONGEST_PAUSE} s"

    def _on_connect(self, client: Any, userdata: object, flags: Any, reason: Any, properties: object) -> None:
        self._code = {0: 0, 134: 4, 135: 5}.get(reason.value, reason.value)  # paho tells MQTT 5's
        if self._code == 0:
            base = f"mica/{self.site.fleet}"
            client.subscribe(f"{base}/from/+/#" if self._user == COORDINATOR else f"{base}/#", 1)
            if self._beside is not None:
                client.subscribe(self._beside[0], 1)
            self._connected(self)
        else:
            self._answered.set()

    def _on_message(self, client: object, userdata: object, message: Any) -> None:
        """Pass a message on. No message, however damaged, ends the thread."""
        board = ""
        try:
            words = message.topic.split("/")
            if self._beside is not None and message.topic == self._beside[0]:
                self._beside[1](message.payload, message.retain)
            elif len(words) == 5 and NAME.fullmatch(words[3]):
                board = words[3]
                self._handle(board, words[4], message.payload)
        except Exception as e:
            self.damaged[board] += 1
            n = self.damaged[board]
            if str(n).strip("0") == "1":  # 1, 10, 100, ...
                reason = str(e) if isinstance(e, MicaError) else f"{type(e).__name__}: {e}"
                some = "a damaged message" if n == 1 else f"{n} damaged messages, the last one"
                self._tell(board, f"{some}: {printable(reason)}")

    def take_from(self, boards: Collection[str], muted: Collection[str]) -> None:
        """Have the broker pass on what all boards send; or, where some are muted,
        what these boards send but for those."""
        base = f"mica/{self.site.fleet}/from"
        named = [f"{base}/{board}/+" for board in sorted(boards) if board not in muted]
        if not muted:
            self.client.subscribe(f"{base}/+/#", 1)
        for at in range(0, len(named), _TOPICS):
            some = named[at : at + _TOPICS]
            if muted:
                self.client.subscribe([(topic, 1) for topic in some])
            else:
                self.client.unsubscribe(some)
        if muted:
            self.client.unsubscribe([f"{base}/+/#", *(f"{base}/{board}/+" for board in muted)])

    def send(self, board: str, what: str, payload: bytes, qos: int = 0, retain: bool = False) -> None:
        self.client.publish(f"mica/{self.site.fleet}/to/{board}/{what}", payload, qos=qos, retain=retain)

    def close(self) -> None:
        self._lost = lambda reason: None
        self.client.disconnect()
        self.client.loop_stop()


def await_entry(site: Site, boards: Sequence[str]) -> None:
    """Wait until the broker knows the passwords of boards that have just joined, as far as there is one here;
    not for ever."""
    end = time.monotonic() + _ENTRY_SECONDS
    while broker.is_up(site) and time.monotonic() < end:
        try:
            Listener(site, lambda *_: None, user=boards[-1]).close()
            return
        except MicaError:
            time.sleep(0.1)


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


class Pace:
    """Limit for unrequested messages of a board: so many at once, and so many a second."""

    def __init__(self) -> None:
        self._left: dict[str, tuple[float, float]] = {}  # and when

    def may(self, board: str, now: float) -> bool:
        left, then = self._left.get(board, (_AT_ONCE, now))
        left = min(_AT_ONCE, left + _A_SECOND * (now - then))
        self._left[board] = (left - 1 if left >= 1 else left, now)
        return left >= 1


class MqttLink(Link):
    """All boards of a fleet; `name` is the fleet's. One such link is there at a time: a second one is refused,
    and the first stays."""

    many = True

    def __init__(self, site: Site, events: Events) -> None:
        """Raises MicaError as Listener does, and where another coordinator is at work."""
        self.name, self.site = site.fleet, site
        self._events = events
        self._boots = Boots()
        self._pace = Pace()
        self._lock = threading.Lock()
        self._asked: dict[str, dict[tuple[Key, int], None]] = {}
        self._last: dict[str, tuple[int, int]] = {}  # boot and session
        self._muted: set[str] = set()
        self._where = f"the broker at {site.where}"
        self._away = 0.0  # since when, on the monotonic clock; 0 for not
        self._certain = threading.Event()
        self._broken = False
        self._lead = lead.Lead(f"process {os.getpid()} on {socket.gethostname()}", time.time_ns())
        self._topic = f"mica/{site.fleet}/coordinator"
        self._listener = Listener(
            site,
            self._handle,
            will=(self._topic, ""),
            connected=self._connected,
            lost=self._lost,
            tell=lambda board, reason: self._events.put(Damaged(board, reason)),
            beside=(self._topic, self._lead_heard),
        )
        self._certain.wait(2 * _LEAD_SECONDS)
        if self._lead.state is lead.State.LOST:
            self._listener.close()
            raise MicaError(self._other(), todo="a fleet has one at a time: wait until it ends, or end it")

    def send(self, board: str, request: Request) -> None:
        with self._lock:
            asked = self._asked.setdefault(board, {})
            asked[request.key, request.attempt] = None
            if len(asked) > _MOST_ASKED:
                del asked[next(iter(asked))]
        self._listener.send(board, "run", request.encode())

    def close(self) -> None:
        if self._lead.state is lead.State.LEADS:
            with contextlib.suppress(RuntimeError, ValueError):  # the broker may be away: then its will says so
                self._listener.client.publish(self._topic, b"", qos=1, retain=True).wait_for_publish(2)
        self._listener.close()

    def _handle(self, board: str, what: str, payload: bytes) -> None:
        if board in self._muted:
            return
        asked = False
        try:
            if what == "out":
                answer = decode_answer(payload)
                with self._lock:
                    asked = self._asked.get(board, {}).pop((answer.key, answer.attempt), 0) is None
                self._events.put(Answered(board, answer))
            elif what == "state" and payload:
                self._state(board, parse_state(payload))
        finally:
            if not asked and not self._pace.may(board, time.monotonic()):
                self._mute(board)

    def _mute(self, board: str) -> None:
        self._muted.add(board)
        self._listener.take_from({*self.site.boards, *self._last}, self._muted)
        reason = (
            f"it sends more than {_A_SECOND:.0f} messages a second unasked, and is ignored for {_MUTE_SECONDS:.0f} s"
        )
        if board in self._last:
            self._events.put(Death(board, *self._last[board], reason))
        else:
            self._events.put(Damaged(board, reason))
        timer = threading.Timer(_MUTE_SECONDS, self._unmute, [board])
        timer.daemon = True
        timer.start()

    def _unmute(self, board: str) -> None:
        self._muted.discard(board)
        self._listener.take_from({*self.site.boards, *self._last}, self._muted)

    def _state(self, board: str, state: State) -> None:
        self._last[board] = (state.boot, state.session)
        if not state.up:
            self._events.put(Death(board, state.boot, state.session, "it went off the broker"))
            return
        if self._boots.twice(board, state.boot):
            self._events.put(Unreachable(board, f"two boards are called {board}; give one another name"))
        models = frozenset(state.models.values())
        machine = state.about.get("board", "")
        self._events.put(Birth(board, state.boot, state.session, models, state.largest, machine))

    # ---- the connection, and who leads; in the client's thread

    def _lost(self, reason: str) -> None:
        self._away = self._away or time.monotonic()
        self._events.put(Unreachable(self._where, reason))

    def _connected(self, listener: Listener) -> None:
        self._listener = listener
        away = time.monotonic() - self._away if self._away else 0.0
        if self._away:
            self._events.put(Restored(self._where))
        self._away = 0.0
        if self._muted:
            listener.take_from({*self.site.boards, *self._last}, self._muted)
        self._publish(self._lead.connected(time.time_ns(), away))
        if self._lead.state is lead.State.ASKS:
            timer = threading.Timer(_LEAD_SECONDS, lambda: self._publish(self._lead.unanswered()))
            timer.daemon = True
            timer.start()

    def _lead_heard(self, payload: bytes, retained: bool) -> None:
        self._publish(self._lead.handle(payload, retained))
        if self._lead.state is lead.State.LOST and not self._broken:
            self._broken = True
            self._listener.client.disconnect()
            self._events.put(Broken(self._other()))

    def _publish(self, message: lead.Message | None) -> None:
        if message is not None:
            self._listener.client.publish(self._topic, message.payload, qos=1, retain=message.retain)
        if self._lead.certain:
            self._certain.set()

    def _other(self) -> str:
        return f"another coordinator is at work for {self.name}: {self._lead.other}"
