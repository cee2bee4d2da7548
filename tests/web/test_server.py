"""The server of `mica web` and clients that go away: nothing is printed, and the next one is served."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mica.web import server


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "index.html").write_text("<p>here" * 100_000)
    httpd = server.bind(0)
    httpd.show(tmp_path)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    yield httpd.server_port
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def test_clients_that_go_away(port: int, capfd: pytest.CaptureFixture[str]) -> None:
    head = f"POST /facts HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 100000\r\n\r\n"
    for k in range(60):
        with socket.create_connection(("127.0.0.1", port), 10) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # its end is a reset
            s.sendall(
                (head + "x" * 500 * (k % 3) if k % 4 else f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n").encode()
            )
    for words, code in ((("GET", "/"), 200), (("POST", "/facts", b"rubbish"), 422), (("GET", "/none"), 404)):
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        link.request(*words)
        assert link.getresponse().status == code
        link.close()
    assert capfd.readouterr().err == ""
