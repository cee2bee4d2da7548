"""One good client of `mica fleet serve` among many bad ones: half requests, large bodies,
and a board that floods the broker.

python tests/fleet/crowd.py digits.mica [SECONDS]        the full form: 2,000 half requests, 4 bodies, 3 boards
"""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
from free_ports import free_port

from mica.boards import load_board
from mica.file import codec
from mica.link import child
from mica_fleet import broker
from mica_fleet.member import Member, firmware
from mica_fleet.site import Site, new_password, new_site

INFER = "/v2/models/digits/infer"
HALVES = (
    b"",
    b"POST " + INFER.encode() + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ",
    b"POST " + INFER.encode() + b' HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n\r\n{"inputs": [',
)


def half_requests(port: int, n: int) -> list[socket.socket]:
    """n connections: nothing sent, half a head, half a body, in turn. Some of them the server may end."""
    found = []
    for i in range(n):
        with contextlib.suppress(OSError):
            s = socket.create_connection(("127.0.0.1", port), 10)
            found.append(s)
            s.sendall(HALVES[i % len(HALVES)])
    return found


def one(port: int, body: bytes, path: str = INFER) -> tuple[int, bytes]:
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        c.request("POST", path, body)
        r = c.getresponse()
        return r.status, r.read()
    finally:
        c.close()


def body_of(model: codec.ModelFile, samples: int, outputs: int = 0, long: bool = False) -> bytes:
    """long: numbers have as many digits as one may have."""
    t = model.tensors[model.inputs[0]]
    number = "0.12345678901234567890" if long else "1"
    data = ", ".join([number] * (samples * math.prod(t.dims)))
    head = {"name": t.name, "shape": [samples, *t.dims[1:]], "datatype": "FP32"}
    text = f'{{"inputs": [{json.dumps(head)[:-1]}, "data": [{data}]}}]'
    names = [{"name": model.tensors[model.outputs[0]].name}] * outputs
    return (text + (f', "outputs": {json.dumps(names)}' if outputs else "") + "}").encode()


# Asks with a body again and again, until it is ended; a line for each answer.
_CLIENT = """
import http.client, sys
body = open(sys.argv[2], "rb").read()
while True:
    c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
    try:
        c.request("POST", sys.argv[3], body)
        r = c.getresponse()
        r.read()
        print(r.status, flush=True)
    except OSError as e:
        print(type(e).__name__, flush=True)
    c.close()
"""


@contextlib.contextmanager
def many(clients: int, port: int, body: bytes) -> Iterator[Counter[str]]:
    """Run clients that ask again and again, in processes of their own; return counts of their answers in the end."""
    found = Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        path, said = Path(name) / "body", Path(name) / "said"
        path.write_bytes(body)
        command = [sys.executable, "-c", _CLIENT, str(port), str(path), INFER]
        with said.open("wb") as out:
            running = [child.start(command, stdout=out) for _ in range(clients)]
            try:
                yield found
            finally:
                for process in running:
                    child.stop(process)
        found.update(said.read_text().split())


def memory_mb(pid: int, what: str = "VmHWM") -> float:
    """The most that a process has taken."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024


def good_times(port: int, body: bytes, seconds: float) -> list[float]:
    """Seconds of each answer that a client gets that asks again and again."""
    found: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begun = time.monotonic()
        status, said = one(port, body)
        found.append(time.monotonic() - begun)
        assert status == 200, (status, said[:200])
        time.sleep(0.02)
    return found


@contextlib.contextmanager
def flood(site: Site, board: str, a_second: int) -> Iterator[None]:
    """Messages with this board's own login: states, answers and rubbish, so many a second."""
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=f"flood-{os.getpid()}")
    client.username_pw_set(board, site.boards[board])
    client.connect(site.host, site.port)
    client.loop_start()
    over = threading.Event()
    base = f"mica/{site.fleet}/from/{board}"
    said = (("out", bytes(200)), ("state", b"up 7 1 {"), ("stat", b"{}"), ("out", b""))

    def go() -> None:
        while not over.wait(0.05):
            for i in range(a_second // 20):
                what, payload = said[i % len(said)]
                client.publish(f"{base}/{what}", payload)

    thread = threading.Thread(target=go)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        client.disconnect()
        client.loop_stop()


@contextlib.contextmanager
def serving(*words: str, files: int = 0) -> Iterator[tuple[subprocess.Popen[bytes], int, Path]]:
    """A server: its process, its port, and the file with its stderr. files: how many it may open."""
    with tempfile.TemporaryDirectory() as name:
        said = Path(name) / "said"
        command = [sys.executable, "-m", "mica", "fleet", "serve", *words, "--http", "127.0.0.1:0", "--json"]
        if files:
            command = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *command]
        process = child.start(command, stdout=subprocess.PIPE, stderr=said.open("wb"))
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline()]
            while lines[-1] not in (b"}\n", b""):
                lines.append(process.stdout.readline())
            yield process, int(json.loads(b"".join(lines))["url"].rpartition(":")[2]), said
        finally:
            child.stop(process)


@contextlib.contextmanager
def plant(digits: Path, boards: int) -> Iterator[Site]:
    """A broker and boards that have digits.mica; b0 has a login, and is no board."""
    with tempfile.TemporaryDirectory(prefix="mica-") as name, contextlib.ExitStack() as stack:
        site = new_site(str(Path(name) / "plant"), f"mqtt://127.0.0.1:{free_port()}")
        site.boards = {f"b{i}": new_password() for i in range(boards + 1)}
        site.save()
        process = broker.start(site)
        stack.callback(child.stop, process)
        board = load_board("UNIX")
        image = firmware(board)
        for i in range(1, boards + 1):
            there = {"digits.mica": digits.read_bytes()}
            member = Member(board, image, site.board_settings(f"b{i}"), there, lambda _: None)
            stack.callback(member.close)
        yield site


def compare(port: int, pid: int, digits: Path, halves: int, bodies: int, seconds: float) -> dict[str, Any]:
    """The good client's median before, among invalid bodies, and among valid ones of the largest size;
    and the server's memory."""
    model = codec.decode(digits.read_bytes())
    good = body_of(model, 1)
    while one(port, good)[0] != 200:
        time.sleep(0.1)
    good_times(port, good, 1)  # it warms up
    quiet = statistics.median(good_times(port, good, seconds))
    found: dict[str, Any] = {"quiet ms": round(1000 * quiet, 2)}
    valid = body_of(model, 1024, long=True)
    empty = b'{"inputs": [' + b"[]," * ((len(valid) - 20) // 3) + b"[]]}"
    open_ones = half_requests(port, halves)
    try:
        for name, body in (("invalid", empty), ("valid", valid)):
            with many(bodies, port, body) as said:
                times = good_times(port, good, seconds)
            found[name] = {
                "ratio": round(statistics.median(times) / quiet, 2),
                "worst ms": round(1000 * max(times)),
                "bodies": dict(said),
            }
    finally:
        for s in open_ones:
            s.close()
    return found | {"MB": round(memory_mb(pid))}


def problem(found: dict[str, Any]) -> str | None:
    """The findings of `main` as JSON if one of them is out of bounds, else None."""
    ratios = [form[kind]["ratio"] for form in (found["no flood"], found["flood"]) for kind in ("invalid", "valid")]
    if max(ratios) <= 2 and found["flood"]["MB"] < 150 and found["lines of log"] < 10:
        return None
    return json.dumps(found)


def main(digits: Path, seconds: float) -> dict[str, Any]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with plant(digits, 3) as site, serving(str(site.path), str(digits)) as (process, port, said):
        model = codec.decode(digits.read_bytes())
        while one(port, body_of(model, 1))[0] != 200:
            time.sleep(0.1)
        with flood(site, "b0", 0):
            found = {"no flood": compare(port, process.pid, digits, 2000, 4, seconds)}
        quiet = found["no flood"]["quiet ms"]
        with flood(site, "b0", 2000):
            flooded = compare(port, process.pid, digits, 2000, 4, seconds)
            for name in ("invalid", "valid"):
                flooded[name]["ratio"] = round(flooded[name]["ratio"] * flooded["quiet ms"] / quiet, 2)
        return found | {
            "flood": flooded,
            "lines of log": len(said.read_text().splitlines()),
            "log": said.read_text()[-600:],
        }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 10.0), indent=1))
