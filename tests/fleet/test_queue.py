"""Requests from a JetStream work queue: gateways and the server are killed, and every request has its answer."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import queue_client
from free_ports import free_port
from test_fleet_mqtt import wait_until
from test_serve import Client

from mica.cli.main import main
from mica.errors import MicaError
from mica.link import child
from mica_fleet import jetstream
from mica_fleet.jetstream import Gateway, parse_address
from mica_fleet.metrics import Metrics
from mica_fleet.service import Service

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[Start]:
    """nats() starts a server with JetStream, again at the same port and with the same files; nats.url."""
    program = shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.skip("nats-server is not installed")
    if importlib.util.find_spec("nats") is None:
        pytest.skip("the Python package nats-py is not installed")
    port = free_port()
    running: list[subprocess.Popen[bytes]] = []

    def start(*words: str, jetstream: bool = True) -> subprocess.Popen[bytes]:
        options = ["-js", "-sd", str(tmp_path / "nats")] if jetstream else []
        process = child.start(
            [program, "-a", "127.0.0.1", "-p", str(port), *options, *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        running.append(process)

        def listens() -> bool:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return True
            return False

        wait_until(lambda: process.poll() is not None or listens())
        assert process.poll() is None, "nats-server has ended: another has its port"
        return process

    start.url = f"nats://127.0.0.1:{port}"  # type: ignore[attr-defined]
    yield start
    for process in running:
        child.stop(process)


@pytest.fixture
def gateway(digits_file: Path, tmp_path: Path) -> Iterator[Start]:
    """gateway(url, "fleet:host") starts one that is ready."""
    running: list[subprocess.Popen[bytes]] = []

    def start(url: str, boards: str, *words: str) -> subprocess.Popen[bytes]:
        command = [
            sys.executable,
            "-m",
            "mica",
            "fleet",
            "serve",
            boards,
            str(digits_file),
            "--queue",
            url,
            *words,
            "--json",
        ]
        said = (tmp_path / f"gateway{len(running)}").open("w+b")
        process = child.start(command, stdout=subprocess.PIPE, stderr=said)
        running.append(process)
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        while lines[-1] not in (b"}\n", b""):
            lines.append(process.stdout.readline())
        said.seek(0)
        assert lines[-1] == b"}\n", f"no gateway: {said.read().decode()}"
        process.said = json.loads(b"".join(lines))  # type: ignore[attr-defined]
        return process

    yield start
    for process in running:
        child.stop(process)


def test_gateways_and_the_server_are_killed(
    nats: Start, gateway: Start, digits_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 requests over two gateways; one of them is killed on the way, then the server, which comes back."""
    data = digits_file.read_bytes()
    bodies, right = queue_client.requests(data, 200)
    server = nats()
    url = nats.url  # type: ignore[attr-defined]
    first, second = gateway(url, "fleet:UNIX"), gateway(url, "fleet:UNIX*2")
    assert first.said["queue"] == f"mica at {url[7:]}" and first.said["url"] is None  # type: ignore[attr-defined]

    async def play() -> dict[str, queue_client.Said]:
        async with queue_client.connected(url) as js:
            await queue_client.ask(js, "mica", "digits", bodies)
            await queue_client.until(js, "mica", 40)
            first.kill()
            await queue_client.until(js, "mica", 80)
            server.kill()
            server.wait()
            await asyncio.to_thread(nats)
            await queue_client.until(js, "mica", 200)
            await queue_client.acknowledged(js, "mica", "digits")
            return await queue_client.answers(js, "mica", bodies)

    found = asyncio.run(play())
    assert len(found) == 200 and {a.status for a in found.values()} == {200}
    assert {key: queue_client.outputs(a.body) for key, a in found.items()} == right
    second.send_signal(signal.SIGINT)
    assert second.wait(60) == 130  # Ctrl-C


def test_a_lost_cancellation_does_not_hold_up_the_end(
    nats: Start, digits_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nats-py drops a cancellation that comes while it flushes: here its close() does, and then waits for ever."""
    import nats as library

    lost = []

    async def close(self: object) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            lost.append(1)
            await asyncio.sleep(60)

    nats()
    address = parse_address(nats.url)  # type: ignore[attr-defined]
    door = Gateway(address, [], lambda text: None)
    monkeypatch.setattr(library.aio.client.Client, "close", close)
    with contextlib.closing(Service({}, lambda events: [], lambda text: None)) as service:
        thread = threading.Thread(target=door.run, args=(service, Metrics(), 1.0, door.stop), daemon=True)
        thread.start()
        thread.join(40)
    assert lost and not thread.is_alive()


def test_what_a_queue_is_told(nats: Start, gateway: Start, digits_file: Path) -> None:
    """Bad requests have their answers, too; without an ID the number counts;
    HTTP is served beside it where it is asked for."""
    bodies, right = queue_client.requests(digits_file.read_bytes(), 1)
    (good,) = bodies.values()
    nats()
    url = nats.url  # type: ignore[attr-defined]
    process = gateway(url, "fleet:host", "--http", "127.0.0.1:0")

    async def play() -> list[queue_client.Said]:
        async with queue_client.connected(url) as js:
            numbers = [
                (await js.publish("mica.ask.digits", body, 20)).seq
                for body in (good, b"{", good[:-1] + b',"outputs":[1]}')
            ]
            await js.publish("mica.ask.digits", good, 20, headers={"Nats-Msg-Id": "no token.*"})
            await queue_client.until(js, "mica", 4)
            await queue_client.acknowledged(js, "mica", "digits")
            await queue_client.waiting(js, "mica", 0)
            return [await queue_client.answer(js, "mica", str(n)) for n in (*numbers, numbers[-1] + 1)]

    said = asyncio.run(play())
    assert [a.status for a in said] == [200, 400, 400, 200]
    assert queue_client.outputs(said[0].body) == next(iter(right.values())) == queue_client.outputs(said[3].body)
    assert "no JSON" in json.loads(said[1].body)["error"] and "outputs" in json.loads(said[2].body)["error"]
    ask = Client(int(process.said["url"].rpartition(":")[2]))  # type: ignore[attr-defined]
    assert ask("GET", "/v2/models/digits/ready")[0] == 200
    assert 'mica_requests_total{model="digits",board="host",status="ok"} 2' in ask("GET", "/metrics")[1].decode()


def test_a_model_that_no_gateway_has(nats: Start, gateway: Start, digits_file: Path) -> None:
    """Its requests have the answer 404; those of one that had a gateway wait until it comes back."""
    bodies, _ = queue_client.requests(digits_file.read_bytes(), 3)
    names = ("other", "no$name", 200 * "n")
    nats()
    url = nats.url  # type: ignore[attr-defined]
    Gateway(parse_address(url), ["away"], lambda text: None)
    gateway(url, "fleet:host", "--timeout", "1s")

    async def play() -> list[queue_client.Said]:
        async with queue_client.connected(url) as js:
            await js.publish("mica.ask.away", b"", 20)
            await queue_client.ask(js, "mica", "other", bodies)
            numbers = [(await js.publish(f"mica.ask.{name}", b"{", 20)).seq for name in names]
            await queue_client.until(js, "mica", 6)
            await queue_client.waiting(js, "mica", 1)
            assert (await js.consumer_info("mica", "away")).num_pending == 1
            return [await queue_client.answer(js, "mica", str(key)) for key in (*bodies, *numbers)]

    said = asyncio.run(play())
    assert [a.status for a in said] == 6 * [404]
    told = [json.loads(a.body)["error"] for a in said]
    assert told[:4] == 4 * ["no gateway has the model 'other'"] and "'no$name'" in told[4] and len(told[5]) < 100


def test_a_queue_that_cannot_be_used(
    nats: Start, digits_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(url: str, model: Path = digits_file) -> str:
        assert main(["fleet", "serve", "fleet:host", str(model), "--queue", url]) == 1
        said = capsys.readouterr().err.strip().splitlines()
        assert len(said) == 1 and said[0].startswith("mica: error: "), said
        return said[0]

    for url in (
        "x",
        "http://a",
        "nats://",
        "nats://a:0",
        "nats://a:99999",
        "nats://a/b.c",
        "nats://a/b/c",
        "nats://:p@a",
        "nats://a?b",
    ):
        assert "--queue" in fails(url) and "expected such as nats://" in fails(url)
    assert "secret" not in fails("nats://u:secret@h/a.b")
    url = nats.url  # type: ignore[attr-defined]
    assert f"no NATS server at {url[7:]}: Connection refused" in fails(url)
    plain = nats(jetstream=False)
    assert "has no JetStream" in fails(url)
    child.stop(plain)
    locked = nats("--user", "u", "--pass", "p")
    for login in ("", "u:wrong@"):
        assert "refuses this user or password" in fails(url.replace("//", f"//{login}"))
    named = url.replace("//", "//u:p@")
    assert "has no stream none" in fails(named + "/none")
    odd = tmp_path / "a b.mica"
    odd.write_bytes(digits_file.read_bytes())
    assert "called 'a b' cannot be asked for in a queue" in fails(named, odd)

    async def other(name: str, **what: object) -> None:
        async with queue_client.connected(named) as js:
            await js.add_stream(name=name, **what)

    asyncio.run(other("kept", subjects=["kept.ask.*"]))
    assert "kept is no work queue" in fails(named + "/kept")
    asyncio.run(other("else", subjects=["x"], retention="workqueue"))
    assert "has the subjects x" in fails(named + "/else")
    child.stop(locked)
    monkeypatch.setattr(jetstream, "_CONNECT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(MicaError, match="it does not answer"):
        Gateway(parse_address(f"nats://127.0.0.1:{silent.getsockname()[1]}"), ["m"], print)


def test_without_the_package(
    digits_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nats", None)
    assert main(["fleet", "serve", "fleet:host", str(digits_file), "--queue", "nats://127.0.0.1"]) == 1
    assert "nats-py is missing; pip install 'mica-mcu[fleet]'" in capsys.readouterr().err


def test_an_address_keeps_its_password_to_itself() -> None:
    a = parse_address("nats://u:secret@host:4333/work")
    assert (a.where, a.stream, a.answers, a.named) == ("host:4333", "work", "work-answers", True)
    assert "secret" in a.url and "secret" not in repr(a)
    assert parse_address("nats://[::1]") == jetstream.Address("nats://[::1]:4222", "[::1]:4222", "mica", False)
