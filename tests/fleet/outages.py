"""All faults of a fleet at once, for minutes: boards, broker and coordinator are killed, boards hang,
links are cut and damaged.

Boards reach the broker through a proxy that cuts connections and changes bytes.
The coordinator is `mica fleet run` with a journal, a process that is killed and started again until it has all answers;
those are compared with the host's, and the next job begins.
"""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from free_ports import free_port

from mica.boards import load_board
from mica.link import child
from mica.run.host import HostRunner
from mica_fleet import broker
from mica_fleet.member import Member, firmware
from mica_fleet.site import Site, new_password, new_site

BOARDS = 6
SAMPLES = 1500  # of a job
HEAD = 400  # bytes of a journal without an answer, at most
LONGEST_JOB = 300.0  # seconds; the faults go on meanwhile
# A board that takes 20 ms longer than it needs.
SLOW = """
import json, time, mica_fleet
class Slow(mica_fleet.Agent):
    def compute(self, model, inputs):
        time.sleep_ms(20)
        return super().compute(model, inputs)
with open("fleet.json") as f:
    Slow(json.load(f)).work()
"""


class Proxy:
    """A port that leads to another. cut() ends a connection at random; spoil() changes a byte on the way `spoils`."""

    spoils = True

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


def one_round(
    model: Path,
    seed: int,
    seconds: float,
    make_proxy: Callable[[int, random.Random, Counter[str]], Proxy] = lambda port, chance, tried: Proxy(port, chance),
    through: Callable[[Site, int], Path] | None = None,
    samples: int = SAMPLES,
) -> dict[str, int]:
    """Counts of faults and requests, after at least so many seconds and one whole job. Raises AssertionError if an
    answer is lost or wrong.

    through: makes the settings of a coordinator that goes through the proxy at that port, too;
    it then may end by a kill alone."""
    chance = random.Random(seed)
    image = firmware(load_board("UNIX"))
    x = np.random.default_rng(seed).uniform(0, 1, (samples, 1, 8, 8)).astype(np.float32)
    with HostRunner(model.read_bytes()) as host:
        right = host.predict(x)
    tried: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="mica-") as name:
        folder = Path(name)
        np.savez(folder / "x.npz", x=x)
        port = free_port()
        site = new_site(str(folder / "plant"), f"mqtt://127.0.0.1:{port}")
        site.boards = {f"b{i}": new_password() for i in range(BOARDS)}
        site.save()
        over = threading.Event()
        brokers = [broker.start(site)]
        proxy = make_proxy(port, chance, tried)
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
            own = site.path if through is None else through(site, proxy.port)
            end = time.monotonic() + seconds
            while time.monotonic() < end or not tried["answers"]:
                _job(folder, own, model, right, chance, tried, strict=through is not None)
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
    elif what < 0.7 or not proxy.spoils:
        tried["links cut"] += proxy.cut()
    else:
        proxy.spoil()
        tried["bytes damaged"] += 1


def _job(
    folder: Path, site: Path, model: Path, right: np.ndarray, chance: random.Random, tried: Counter[str], strict: bool
) -> None:
    """All samples, by a coordinator that is killed again and again. strict: once begun it never ends by itself."""
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
            assert not strict or not journal.exists() or journal.stat().st_size <= max(begun, HEAD), f"it ended: {last}"
            tried["began without a broker"] += 1
            time.sleep(0.5)
    found = np.load(y)
    tried["answers"] += len(right)
    tried["lost"] += len(right) - len(found)
    tried["wrong"] += int((found != right).any(axis=tuple(range(1, right.ndim))).sum())
    tried["jobs"] += 1
    tried["handed out twice"] += handed_out_twice(journal.read_bytes())
    journal.unlink()
    y.unlink()
    assert not tried["lost"] and not tried["wrong"] and not tried["handed out twice"], dict(tried)


def handed_out_twice(journal: bytes) -> int:
    """Answers in a journal to requests that have one already, which was not taken back."""
    (length,) = struct.unpack_from("<I", journal, 8)
    at, there, twice = 12 + length + 4, set(), 0
    while at + 20 <= len(journal):
        job, seq, stage, kind, size = struct.unpack_from("<IIHHI", journal, at)
        at += 16 + size + 4
        key = job, seq, stage
        if kind == 0:
            twice += key in there
            there.add(key)
        else:
            there.discard(key)
    assert len(there) and at == len(journal)
    return twice


if __name__ == "__main__":
    print(one_round(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
