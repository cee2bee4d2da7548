"""A broker that was started is at work."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from mica.link import child
from mica_fleet import broker
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
