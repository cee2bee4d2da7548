"""Rates of a fleet of MicroPython processes with mosquitto, once with nats-server: `python tests/fleet/bench`.

Boards take a given time for a request, on top of the model's own; some are killed at random, and return after a second.
Every answer is compared with the host's bytes, and a lost or wrong answer makes the run an error. Rates and latencies
(from the first sending to the answer that counts) depend on this computer and its load: they are printed, and no test
asserts them.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import mica
from mica.boards import load_board
from mica.cli import text
from mica.cli.main import main
from mica.cli.text import say
from mica.errors import MicaError
from mica.link import child
from mica.run.host import HostRunner
from mica.toolchain.build import build
from mica_fleet import broker
from mica_fleet.cutting import LinkSpeed, cut
from mica_fleet.dispatch import Settings
from mica_fleet.links import Events, Link
from mica_fleet.member import Member
from mica_fleet.mqtt_link import MqttLink
from mica_fleet.site import new_password, new_site
from mica_fleet.timing import TimedRunner

sys.path.append(str(Path(__file__).resolve().parents[1]))

import gateways
import nats_broker
from agent import SLOW
from fleet_sim import Plan, Simulation
from free_ports import free_port

DEMO = Path(mica.__file__).parent / "demo"


@dataclass(frozen=True)
class Case:
    """`ms`: time that each board takes for a request. `kill_every`: seconds, 0 for never. `parts`: of a model that was
    cut, one for each board."""

    name: str
    ms: tuple[float, ...]
    requests: int
    kill_every: float = 0.0
    seed: int = 0
    parts: tuple[bytes, ...] = ()
    nats: bool = False  # nats-server's MQTT port in mosquitto's place

    @property
    def ideal(self) -> float:
        """Requests a second; of a model in parts as many as the slowest one."""
        return 1000 / max(self.ms) if self.parts else sum(1000 / ms for ms in self.ms)


def in_parts(data: bytes) -> Case:
    """Boards that take as long as it is predicted for Picos with their links: the rate is that of the slowest part."""
    found = cut(data, 3, load_board("RPI_PICO"), LinkSpeed(8_000, 0.003))
    times = tuple(1000 * (s.seconds or 0) for s in found.stages)
    shown = ", ".join(f"{ms:.0f}" for ms in times)
    return Case(f"a model in parts of {shown} ms", times, 200, parts=tuple(s.data for s in found.stages))


CASES = (
    *(Case(f"{n} boards of 100 ms", (100,) * n, 60 * n) for n in (4, 8, 16)),
    Case("boards of 20, 20, 20 and 200 ms", (20, 20, 20, 200), 600),
    Case("8 boards of 20 ms", (20,) * 8, 2000),
    *(Case(f"8 boards of 20 ms, one killed every 0.5 s, seed {s}", (20,) * 8, 2000, 0.5, s) for s in range(3)),
    Case("the same on nats-server, seed 0", (20,) * 8, 2000, 0.5, nats=True),
)


def measure(case: Case, data: bytes, image: Path, folder: Path) -> dict[str, Any]:
    """One row of the table. Raises MicaError where an answer is wrong."""
    site = new_site(str(folder / "bench"), f"mqtt://127.0.0.1:{free_port()}")
    site.boards = {f"b{i}": new_password() for i in range(len(case.ms))}
    process = nats_broker.start(site) if case.nats else broker.start(site)
    rng = np.random.default_rng(case.seed)
    board = load_board("UNIX")
    members: list[Member] = []
    over = threading.Event()
    try:
        for k, (name, ms) in enumerate(zip(site.boards, case.ms, strict=True)):
            settings = site.board_settings(name) | {"ms": ms}
            there = {"m.mica": case.parts[k] if case.parts else data}
            members.append(Member(board, image, settings, there, lambda _: None, program=SLOW))
        with HostRunner(data) as host:
            dims = host.model.tensors[host.model.inputs[0]].dims
            samples = [[rng.integers(-128, 128, dims).astype(np.int8)] for _ in range(case.requests)]
            right = [y[0].tobytes() for y in host.run(samples)]
        first, *others = case.parts or (data,)

        def links(events: Events) -> list[Link]:
            return [MqttLink(site, events)]

        with TimedRunner(first, "fleet:bench", links, settings=Settings(), others=others) as runner:
            runner.start()
            while len(runner._dispatcher.boards()) < len(members):
                runner.run(samples[:1])
            runner.start()
            kills = _kill(members, case, over) if case.kill_every else []
            begun = time.monotonic()
            found = [y[0].tobytes() for y in runner.run(samples)]
            seconds = time.monotonic() - begun
            over.set()
            counts = runner.counts
            took = sorted(runner.took.values())
    finally:
        over.set()
        for member in members:
            member.close()
        child.stop(process)
    wrong = sum(a != b for a, b in zip(found, right, strict=True))
    if wrong:
        raise MicaError(f"{case.name}: {wrong} of {case.requests} answers are wrong")
    return {
        "case": case.name,
        "rate": case.requests / seconds,
        "ideal": case.ideal,
        "p50_ms": 1000 * took[len(took) // 2],
        "p99_ms": 1000 * took[int(0.99 * (len(took) - 1))],
        "longest_ms": 1000 * took[-1],
        "killed": len(kills),
        "asked_again": counts["asked_again"],
        "duplicates": counts["duplicates"],
        "simulated": simulated(case),
    }


def simulated(case: Case) -> float:
    """Return the rate that the simulator predicts, in requests a second."""
    seconds = [ms / 1000 for ms in case.ms]
    plan = Plan(seconds, case.requests, kill_every=case.kill_every, seed=case.seed, parts=bool(case.parts))
    return Simulation(plan).run().rate


def _kill(members: list[Member], case: Case, over: threading.Event) -> list[int]:
    kills: list[int] = []
    chance = random.Random(case.seed)

    def killer() -> None:
        while not over.wait(case.kill_every):
            process = chance.choice(members).process
            if process is not None and process.poll() is None:
                process.kill()
                kills.append(process.pid)

    threading.Thread(target=killer, daemon=True).start()
    return kills


def run() -> None:
    """All cases, one after the other, and the table on stdout."""
    image = build(load_board("UNIX"), progress=say).image
    rows = []
    with tempfile.TemporaryDirectory(prefix="mica-") as top:
        packed = Path(top) / "digits.mica"
        if main(["pack", str(DEMO / "digits.onnx"), "--plain", "-o", str(packed)]):
            raise MicaError("the digits could not be packed")
        for number, case in enumerate([*CASES, in_parts(packed.read_bytes())]):
            folder = Path(top) / str(number)
            folder.mkdir()
            say(case.name)
            rows.append(measure(case, packed.read_bytes(), image, folder))
        say("gateways at a queue")
        folder = Path(top) / "queue"
        folder.mkdir()
        queue = gateways.run(packed, folder)
    head = ("", "a second", "simulated", "ideal", "p50 ms", "p99", "longest", "killed", "asked again", "lost or wrong")
    keys = ("rate", "simulated", "ideal", "p50_ms", "p99_ms", "longest_ms", "killed", "asked_again")
    print(text.table(head, [(r["case"], *(f"{r[k]:.0f}" for k in keys), 0) for r in rows], "lrrrrrrrrr"))
    shown = f"{queue['rate']:.0f} a second of {queue['ideal']:.0f}, {queue['killed']} kills, lost or wrong 0"
    print(f"\n{queue['case']}: {shown}")


if __name__ == "__main__":
    try:
        run()
    except (MicaError, OSError) as error:
        sys.exit(f"bench: {error}")
