"""The board's MQTT client on MicroPython: against mosquitto, and against peers that stall, lie or go."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mica.link.board import Link
from mica_fleet.site import Site

SOURCE = Path(__file__).resolve().parents[2] / "firmware" / "mica_fleet" / "mqtt.py"
CONNACK = b"\x20\x02\x00\x00"
PINGRESP = b"\xd0\x00"


def test_it_has_at_most_200_lines() -> None:
    assert len(SOURCE.read_text().splitlines()) <= 200


def on(board: Link, site: Site, code: str, user: str = "b1", password: str | None = None) -> list[str]:
    """Run a program that has a connected client `c` of board b1, which notes messages in `got`."""
    start = f"""
import time
from mica_fleet.mqtt import Client, MQTTException
got = []
def client(password={password or site.boards[user]!r}):
    c = Client("x-{user}", "{site.host}", {site.port}, user={user!r}, password=password, keepalive=10)
    c.timeout_ms = 20000
    c.set_callback(lambda topic, message: got.append((topic, bytes(message))))
    return c
T = "mica/{site.fleet}/from/b1/t"
c = client()
c.connect()
"""
    return board.exec(start + code).decode().splitlines()


def test_messages_come_back_with_qos_1_and_ids_wrap(unix_board: Link, fleet: Site) -> None:
    # The board may not read what it writes, so the coordinator's user is taken.
    fleet.boards["mica"] = fleet.password
    code = """
c.subscribe(T, 1)
c._pid = 65530
for i in range(20):
    c.publish(T, bytes([i]) * (100 * i), qos=1)
while len(got) < 20:
    c.wait_msg()
print([len(m) for _, m in got] == [100 * i for i in range(20)], c._pid)
"""
    assert on(unix_board, fleet, code, user="mica") == ["True 15"]


def test_a_callback_may_publish(unix_board: Link, fleet: Site) -> None:
    fleet.boards["mica"] = fleet.password
    code = """
count = [0]
def again(topic, message):
    count[0] += 1
    if count[0] <= 60:
        c.publish(T, b"a", qos=1)
        c.publish(T, b"b")
c.set_callback(again)
c.subscribe(T, 1)
c.publish(T, b"first", qos=1)
while count[0] < 121:
    c.wait_msg()
print(count[0])
"""
    assert on(unix_board, fleet, code, user="mica") == ["121"]


def test_a_wrong_password_is_refused_and_the_acl_holds(unix_board: Link, fleet: Site) -> None:
    code = """
try:
    client("wrong").connect()
except MQTTException as e:
    print(e)
spy = client()
spy.connect()
spy.subscribe("mica/#")
c.publish("mica/plant/to/b2/run", b"?", qos=1)
c.publish("mica/plant/from/b2/out", b"?", qos=1)
c.publish("mica/plant/from/b1/out", b"?", qos=1)
c.publish("mica/plant/to/b1/run", b"?", qos=1)
time.sleep_ms(200)
spy.check_msg()
print(got)
"""
    # Both connections have one name: the broker ends the older, whose publish fails. So the spy speaks for itself.
    assert on(unix_board, fleet, code.replace("c.publish", "spy.publish")) == ["5", "[]"]


@pytest.fixture
def peer() -> Iterator[Callable[[Callable[[socket.socket], None]], int]]:
    """peer(talk) -> port of a server that hands its connections to talk(), each in a thread."""
    servers: list[socket.socket] = []

    def start(talk: Callable[[socket.socket], None]) -> int:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=_quietly, args=(talk, connection), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        return int(server.getsockname()[1])

    yield start
    for server in servers:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


def _quietly(talk: Callable[[socket.socket], None], connection: socket.socket) -> None:
    try:
        with connection:
            talk(connection)
    except OSError:
        pass


def against(board: Link, port: int, code: str, timeout_ms: int = 400) -> str:
    start = f"""
import time
from mica_fleet.mqtt import Client, MQTTException
got = []
c = Client("x", "127.0.0.1", {port}, keepalive=10, largest=1000)
c.timeout_ms = {timeout_ms}
c.set_callback(lambda topic, message: got.append((topic, bytes(message))))
t = time.ticks_ms()
"""
    return board.exec(start + code).decode().strip()


TIMED = """
try:
    {}
except OSError as e:
    print(e.errno, 300 < time.ticks_diff(time.ticks_ms(), t) < 15000)
"""


def test_timeouts_hold(unix_board: Link, peer: Callable[[Callable[[socket.socket], None]], int]) -> None:
    over = threading.Event()

    def silent(s: socket.socket) -> None:
        over.wait(20)

    def half_open(s: socket.socket) -> None:
        s.sendall(CONNACK)
        over.wait(20)

    def dribbles(s: socket.socket) -> None:
        s.sendall(CONNACK + b"\x30\x7f")
        while not over.wait(0.1):
            s.sendall(b"x")

    assert against(unix_board, peer(silent), TIMED.format("c.connect()")) == "110 True"
    port = peer(half_open)
    assert against(unix_board, port, TIMED.format("c.connect(); c.ping(); c.wait_msg()")) == "110 True"
    assert against(unix_board, port, TIMED.format("c.connect(); c.publish('t', 'x', qos=1)")) == "110 True"
    assert against(unix_board, peer(dribbles), TIMED.format("c.connect(); c.wait_msg()")) == "110 True"
    over.set()


def test_a_packet_is_one_write_and_a_long_one_is_dropped(
    unix_board: Link, peer: Callable[[Callable[[socket.socket], None]], int]
) -> None:
    seen: list[bytes] = []

    def talk(s: socket.socket) -> None:
        s.recv(4096)
        s.sendall(CONNACK)
        seen.append(s.recv(4096))
        s.sendall(b"\x30\xd0\x0f\x00\x01a" + bytes(2000 - 3) + b"\x30\x04\x00\x01bB")
        s.recv(4096)

    code = "c.connect(); c.publish('topic', b'message')\nwhile not got: c.wait_msg()\nprint(got, c.dropped)"
    # wait_msg() returns after each packet that is no message, too.
    assert against(unix_board, peer(talk), code, timeout_ms=20_000) == "[(b'b', b'B')] 1"
    assert seen == [b"\x30\x0e\x00\x05topicmessage"]


def test_a_peer_that_sends_anything(unix_board: Link, peer: Callable[[Callable[[socket.socket], None]], int]) -> None:
    """Bytes of any kind raise only OSError and MQTTException, and the client goes on with the next connection."""
    chance = random.Random(3)

    def talk(s: socket.socket) -> None:
        s.recv(4096)
        s.sendall(CONNACK)
        for _ in range(40):
            kind = chance.choice((0x20, 0x30, 0x32, 0x34, 0x40, 0x90, 0xD0, chance.randrange(256)))
            body = chance.randbytes(chance.choice((0, 1, 2, 3, 5, 40)))
            s.sendall(bytes((kind, len(body))) + body)
        s.sendall(chance.randbytes(30))

    code = """
ends = 0
for _ in range(60):
    try:
        c.connect()
        while True:
            c.check_msg(400)
            c.ping()
    except (OSError, MQTTException):
        ends += 1
print(ends)
"""
    assert against(unix_board, peer(talk), code) == "60"
