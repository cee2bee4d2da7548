"""A broker that was started is at work; one that is slow to answer is waited for."""

from __future__ import annotations

import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from mica.link import child
from mica_fleet import broker
from mica_fleet.mqtt_link import Listener
from mica_fleet.site import Site

# It listens half a second before it knows the signal: mosquitto on a machine that is busy.
SLOW = """#!{python}
import signal, socket, time
server = socket.create_server(("127.0.0.1", {port}))
time.sleep(0.5)
signal.signal(signal.SIGHUP, lambda *_: None)
while True:
    with server.accept()[0] as s:
        s.recv(99)
        s.sendall(b"any")
"""


def test_it_takes_a_signal(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGHUP has it read its files again; one that came before it knew the signal would end it."""
    program = tmp_path / "mosquitto"
    program.write_text(SLOW.format(python=sys.executable, port=site.port))
    program.chmod(0o755)
    monkeypatch.setattr(broker, "program", lambda: str(program))
    process = broker.start(site)
    try:
        process.send_signal(signal.SIGHUP)
        assert broker.is_up(site, at_work=True) and process.poll() is None
    finally:
        child.stop(process)


CONNACK, SUBACK = b"\x20\x02\x00\x00", b"\x90\x03\x00\x01\x01"


def test_a_listener_has_its_topics(site: Site) -> None:
    """Commands listen for half a second to what is retained, from when the broker has taken what they ask for."""
    order: list[str] = []

    def talk() -> None:
        s, _ = server.accept()
        with s:
            s.recv(1000)
            s.sendall(CONNACK)
            s.recv(1000)
            time.sleep(0.5)  # a broker that has much to do
            order.append("taken")
            s.sendall(SUBACK)
            s.recv(1000)  # the end

    pytest.importorskip("paho.mqtt.client", reason="the Python package paho-mqtt is not installed")
    with socket.create_server((site.host, site.port)) as server:
        thread = threading.Thread(target=talk, daemon=True)
        thread.start()
        listener = Listener(site, lambda *_: None)
        order.append("there")
        listener.close()
        thread.join()
    assert order == ["taken", "there"]
