"""Gateways at one JetStream work queue, which are killed, and the server, too: a part of `python tests/fleet/bench`.

Three gateways (`mica fleet serve --queue`), each with a broker and four boards of its own: MicroPython processes that
take 100 ms for a request. Every 5 s one of the gateways is killed, in turn, and is back after a second;
once, after 8 s, the server is killed. The answers are compared with the host's bytes,
and one that is lost or wrong is an error.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from agent import SLOW

from mica.boards import load_board
from mica.errors import MicaError
from mica.link import child
from mica_fleet import broker
from mica_fleet.member import Member, firmware
from mica_fleet.site import Site, new_password, new_site

sys.path.append(str(Path(__file__).resolve().parents[1]))

import queue_client
from free_ports import free_port

GATEWAYS, BOARDS, MS = 3, 4, 100
KILL_EVERY, SERVER_AFTER, BACK = 5.0, 8.0, 1.0


class _Program:
    """One that is started again, a moment after it was killed."""

    def __init__(self, command: list[str | Path], log: Path) -> None:
        self._command, self._log = command, log
        self.kills = 0
        self._closing = threading.Event()
        self._start()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()

    def _start(self) -> None:
        with self._log.open("ab") as log:
            self.process = child.start(self._command, stdout=log, stderr=log)

    def _live(self) -> None:
        while not self._closing.is_set():
            if self.process.poll() is not None and not self._closing.wait(BACK):
                self._start()
            self._closing.wait(0.05)

    def kill(self) -> None:
        self.process.kill()
        self.kills += 1

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        child.stop(self.process)


def run(digits: Path, folder: Path, requests: int = 2000) -> dict[str, Any]:
    """The row of the table. Raises MicaError where an answer is lost or wrong."""
    program = shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        raise MicaError("nats-server is missing", todo="apt install nats-server")
    data, board = digits.read_bytes(), load_board("UNIX")
    image = firmware(board)
    port = free_port()
    url = f"nats://127.0.0.1:{port}"
    closing: list[Any] = []
    try:
        server = _Program(
            [program, "-js", "-sd", folder / "nats", "-a", "127.0.0.1", "-p", str(port)], folder / "nats.log"
        )
        closing.append(server.close)
        gateways = []
        for g in range(GATEWAYS):
            site: Site = new_site(str(folder / f"g{g}"), f"mqtt://127.0.0.1:{free_port()}")
            site.boards = {f"b{i}": new_password() for i in range(BOARDS)}
            process: subprocess.Popen[bytes] = broker.start(site)
            closing.append(lambda process=process: child.stop(process))
            for name in site.boards:
                settings = site.board_settings(name) | {"ms": MS}
                member = Member(board, image, settings, {"m.mica": data}, lambda _: None, program=SLOW)
                closing.append(member.close)
            words = ["fleet", "serve", str(site.path), str(digits), "--queue", url]
            gateways.append(_Program([sys.executable, "-m", "mica", *words], folder / f"g{g}.log"))
            closing.append(gateways[-1].close)
        bodies, right = queue_client.requests(data, requests)
        logs = [folder / f"g{g}.log" for g in range(GATEWAYS)]
        begun = seconds = 0.0
        over = threading.Event()
        killer = threading.Thread(target=_kill, args=(gateways, server, over), daemon=True)

        async def play() -> dict[str, queue_client.Said]:
            async with queue_client.connected(url) as js:
                nonlocal begun, seconds
                while not all("queue" in log.read_text() for log in logs):
                    await asyncio.sleep(0.1)
                begun = time.monotonic()
                killer.start()
                await queue_client.ask(js, "mica", "digits", bodies)
                await queue_client.until(js, "mica", requests, 180.0)
                seconds = time.monotonic() - begun
                over.set()
                return await queue_client.answers(js, "mica", bodies)

        found = asyncio.run(play())
        over.set()
    finally:
        for close in reversed(closing):
            close()
    wrong = sum(a.status != 200 or queue_client.outputs(a.body) != right[key] for key, a in found.items())
    if wrong or len(found) != requests:
        raise MicaError(f"queue: {requests - len(found)} of {requests} answers are lost, {wrong} are wrong")
    return {
        "case": f"{GATEWAYS} gateways of {BOARDS} boards of {MS} ms, one killed every {KILL_EVERY:.0f} s, the "
        "queue's server once",
        "rate": requests / seconds,
        "ideal": GATEWAYS * BOARDS * 1000 / MS,
        "killed": sum(g.kills for g in gateways),
        "server_killed": server.kills,
    }


def _kill(gateways: list[_Program], server: _Program, over: threading.Event) -> None:
    begun, n = time.monotonic(), 0
    while not over.wait(0.1):
        now = time.monotonic() - begun
        if now >= SERVER_AFTER and not server.kills:
            server.kill()
        if now >= KILL_EVERY * (n + 1):
            gateways[n % len(gateways)].kill()
            n += 1
