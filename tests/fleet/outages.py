"""All faults of a fleet at once, for minutes: boards, broker and coordinator are killed, boards hang, links are cut and damaged.

Boards reach the broker through a proxy that cuts connections and changes bytes. The coordinator is `mica fleet run` with a journal, a process that is
killed and started again until it has all answers; those are compared with the host's, and the next job begins.
"""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np

from mica.boards import load_board
from mica.fleet import broker
from mica.fleet.member import Member
from mica.fleet.site import new_password, new_site
from mica.link import child
from mica.run.host import HostRunner
from mica.toolchain.build import build

BOARDS = 6
SAMPLES = 1500  # of a job
LONGEST_JOB = 300.0  # seconds; the faults go on meanwhile
# A board that takes 20 ms longer than it needs.
SLOW = """
import json, time, mica.fleet
class Slow(mica.fleet.Agent):
    def compute(self, model, inputs):
        time.sleep_ms(20)
        return super().compute(model, inputs)
with open("fleet.json") as f:
    Slow(json.load(f)).work()
"""


class Proxy:
    """A port that leads to another. cut() ends a connection at random; spoil() changes a byte of what passes next."""

    def __init__(self, port: int, chance: random.Random) -> None:
        self._to = port
        self._chance = chance
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._spoil = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        with self._lock:
            for pair in self._pairs:
                _end(pair)

    def cut(self) -> bool:
        with self._lock:
            if not self._pairs:
                return False
            _end(self._chance.choice(self._pairs))
            return True

    def spoil(self) -> None:
        with self._lock:
            self._spoil += 1

    def _accept(self) -> None:
        while True:
            try:
                board, _ = self._listener.accept()
            except OSError:
                return
            try:
                pair = board, socket.create_connection(("127.0.0.1", self._to), 1)
            except OSError:
                board.close()
                continue
            with self._lock:
                self._pairs.append(pair)
            for a, b in (pair, pair[::-1]):
                threading.Thread(target=self._carry, args=(pair, a, b), daemon=True).start()

    def _carry(self, pair: tuple[socket.socket, socket.socket], a: socket.socket, b: socket.socket) -> None:
        try:
            while data := bytearray(a.recv(65536)):
                with self._lock:
                    if self._spoil:
                        self._spoil -= 1
                        data[self._chance.randrange(len(data))] ^= 1 << self._chance.randrange(8)
                b.sendall(data)
        except OSError:
            pass
        with self._lock:
            if pair in self._pairs:
                self._pairs.remove(pair)
        _end(pair)


def _end(pair: tuple[socket.socket, socket.socket]) -> None:
    for s in pair:
        with contextlib.suppress(OSError):
            s.shutdown(socket.SHUT_RDWR)
        s.close()


def one_round(model: Path, seed: int, seconds: float) -> dict[str, int]:
    """Counts of what was done and tried, after at least so many seconds and one whole job. Raises AssertionError where an answer is lost or wrong."""
    chance = random.Random(seed)
    image = build(load_board("UNIX")).image
    x = np.random.default_rng(seed).uniform(0, 1, (SAMPLES, 1, 8, 8)).astype(np.float32)
    with HostRunner(model.read_bytes()) as host:
        right = host.predict(x)
    tried: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="mica-") as name:
        folder = Path(name)
        np.savez(folder / "x.npz", x=x)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        site = new_site(str(folder / "plant"), f"mqtt://127.0.0.1:{port}")
        site.boards = {f"b{i}": new_password() for i in range(BOARDS)}
        site.save()
        over = threading.Event()
        brokers = [broker.start(site)]
        proxy = Proxy(port, chance)
        members: list[Member] = []
        threads: list[threading.Thread] = []
        try:
            for board in site.boards:
                settings = site.board_settings(board) | {"port": proxy.port}
                there = {"digits.mica": model.read_bytes()}
                members.append(Member(load_board("UNIX"), image, settings, there, lambda _: None, program=SLOW))

            def faults() -> None:
                while not over.wait(chance.uniform(0.1, 0.9)):
                    _fault(chance, members, proxy, tried)

            def broker_dies() -> None:
                while not over.wait(chance.uniform(8, 16)):
                    brokers[-1].kill()
                    brokers[-1].wait()
                    tried["brokers killed"] += 1
                    time.sleep(chance.uniform(0.2, 1.5))
                    brokers.append(broker.start(site))

            threads += [threading.Thread(target=f) for f in (faults, broker_dies)]
            for thread in threads:
                thread.start()
            end = time.monotonic() + seconds
            while time.monotonic() < end or not tried["answers"]:
                _job(folder, site.path, model, right, chance, tried)
        finally:
            over.set()
            for thread in threads:
                thread.join(30)
            for member in members:
                member.close()
            proxy.close()
            for process in brokers:
                child.stop(process)
    return dict(tried)


def _fault(chance: random.Random, members: list[Member], proxy: Proxy, tried: Counter[str]) -> None:
    """One, of a board or its link."""
    process = chance.choice(members).process
    what = chance.random()
    if what < 0.4:
        if process is not None and process.poll() is None:
            process.kill()
            tried["boards killed"] += 1
    elif what < 0.5:
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGSTOP)
            tried["boards that hung"] += 1
            threading.Timer(
                chance.uniform(0.5, 4), lambda: process.poll() is None and process.send_signal(signal.SIGCONT)
            ).start()
    elif what < 0.7:
        tried["links cut"] += proxy.cut()
    else:
        proxy.spoil()
        tried["bytes damaged"] += 1


def _job(folder: Path, site: Path, model: Path, right: np.ndarray, chance: random.Random, tried: Counter[str]) -> None:
    """All samples, by a coordinator that is killed again and again."""
    journal, y = folder / "journal", folder / "y.npy"
    words = [
        "fleet",
        "run",
        str(site),
        str(model),
        str(folder / "x.npz"),
        "--journal",
        str(journal),
        "-o",
        str(y),
        "--json",
    ]
    give_up = time.monotonic() + LONGEST_JOB
    set_aside = 0
    while True:
        assert time.monotonic() < give_up, f"a job takes longer than {LONGEST_JOB:.0f} s: {dict(tried)}"
        process = child.start([sys.executable, "-m", "mica", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert process.stderr is not None
        said: list[bytes] = []
        reader = threading.Thread(target=lambda p=process.stderr, s=said: s.extend(p))
        reader.start()
        begun = journal.stat().st_size if journal.exists() else 0
        stop_at = begun + chance.randrange(2000, 40_000)  # bytes of answers: 34 each
        while process.poll() is None and time.monotonic() < give_up:
            time.sleep(0.02)
            if journal.exists() and journal.stat().st_size > stop_at:
                process.kill()
                tried["coordinators killed"] += 1
                break
        if process.poll() is None:
            process.kill()
        code = process.wait()
        reader.join()
        process.stderr.close()
        last = said[-1].decode(errors="replace").strip() if said else ""
        if code == 0:
            break
        if code > 0 and "set aside: " in last:
            # Three kills in a row may hit the boards that one sample is at. The same command asks for it again.
            tried["samples set aside"] += 1
            set_aside += 1
            assert set_aside <= 2, f"samples are set aside again and again: {last}"
        elif code > 0:
            # A broker that is away when it begins is an error that a person answers by the same command.
            assert "no broker at" in last or "refuses" in last or "does not answer" in last, f"exit code {code}: {last}"
            tried["began without a broker"] += 1
            time.sleep(0.5)
    found = np.load(y)
    tried["answers"] += len(right)
    tried["lost"] += len(right) - len(found)
    tried["wrong"] += int((found != right).any(axis=tuple(range(1, right.ndim))).sum())
    tried["jobs"] += 1
    journal.unlink()
    y.unlink()
    assert not tried["lost"] and not tried["wrong"], dict(tried)


if __name__ == "__main__":
    print(one_round(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
