"""The boards of a fleet, and faults of it: the output of `mica fleet ls` and `mica fleet doctor`."""

import secrets
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from mica.errors import MicaError
from mica.file import codec, parts
from mica_fleet import broker
from mica_fleet.machines import predicted_ms
from mica_fleet.mqtt_link import Boots, Listener
from mica_fleet.reports import State, parse_stat, parse_state
from mica_fleet.site import Site
from mica_fleet.store import Store

_LISTEN_SECONDS = 0.5  # for what is retained


@dataclass
class Seen:
    """The messages of a board. `problems`: for people, by the last word of the topic."""

    name: str
    state: State | None = None
    stat: dict[str, Any] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)

    def row(self) -> dict[str, Any]:
        """The keys of `mica fleet ls --json`, for one board."""
        s = self.state
        about = s.about if s is not None else {}
        runs = self.stat.get("ms") or []
        return {
            "board": self.name,
            "state": "not seen" if s is None else "up" if s.up else "down",
            "machine": about.get("board", ""),
            "core": about.get("core", ""),
            "mica": about.get("mica", ""),
            "heap": about.get("heap"),
            "models": {path: f"{crc:08x}" for path, crc in s.models.items()} if s is not None and s.up else {},
            "session": s.session if s is not None else None,
            "runs": self.stat.get("runs"),
            "errors": self.stat.get("errors"),
            "ms": sum(runs) / len(runs) if runs else None,
            "times": [],
            "problem": "; ".join(self.problems.values()),
        }

    def times(self, store: Store) -> list[dict[str, Any]]:
        """Return for each model on a board that is up: which part of a model it is, milliseconds of its last run,
        and what is predicted."""
        s = self.state
        if s is None or not s.up:
            return []
        last = self.stat.get("us", {})
        found = []
        for path, crc in s.models.items():
            us = last.get(f"{crc:08x}")
            part, predicted = None, None
            if store.has(crc):
                try:
                    data = store.read(crc)
                    place = parts.read(codec.decode(data))
                    part = None if place is None else f"{place.number}/{place.of}"
                    predicted = predicted_ms(data, s.about.get("board", ""))
                except MicaError:
                    pass  # of another version, or damaged: nothing is known
            ms = us / 1000 if us is not None else None
            found.append({"path": path, "part": part, "ms": ms, "predicted_ms": predicted})
        return found


class Inventory:
    """Listens to a fleet, beside its coordinator."""

    def __init__(self, site: Site) -> None:
        """Raises MicaError where there is no broker, or it refuses."""
        self._lock = threading.Lock()
        self._site = site
        self._boots = Boots()
        self._seen = {name: Seen(name) for name in site.boards}
        self._listener = Listener(site, self._heard)

    def _heard(self, board: str, what: str, payload: bytes) -> None:
        if what not in ("state", "stat") or not payload:
            return
        with self._lock:
            seen = self._seen.setdefault(board, Seen(board))
            try:
                if what == "stat":
                    seen.stat = parse_stat(payload)
                else:
                    seen.state = parse_state(payload)
            except MicaError as e:
                seen.problems[what] = str(e)
                return
            seen.problems.pop(what, None)
            if what == "state" and seen.state and seen.state.up and self._boots.twice(board, seen.state.boot):
                seen.problems["boot"] = "two boards have this name"

    def look(self, seconds: float = _LISTEN_SECONDS) -> list[dict[str, Any]]:
        time.sleep(seconds)
        with self._lock:
            seen = [self._seen[name] for name in sorted(self._seen)]
        store = Store(self._site)
        return [one.row() | {"times": one.times(store)} for one in seen]

    def close(self) -> None:
        self._listener.close()


@dataclass(frozen=True)
class Finding:
    what: str
    ok: bool
    todo: str = ""


def examine(site: Site, seconds: float) -> list[Finding]:
    """The parts of a fleet in the order in which one needs the other; what comes after a broken one is skipped."""
    found = [Finding(f"settings {site.path}: fleet {site.fleet}, {len(site.boards)} boards may come in", True)]
    if not broker.is_up(site):
        todo = f"mica fleet broker {site.path.stem}"
        if broker.program() is None:
            todo = "apt install mosquitto, then " + todo
        return [*found, Finding(f"nobody listens at {site.where}", False, todo)]
    try:
        inventory = Inventory(site)
    except MicaError as e:
        return [*found, Finding(e.found, False, e.todo)]
    try:
        found.append(Finding(f"the broker at {site.where} lets the coordinator in", True))
        for name in list(site.boards)[:1]:
            found.append(_acl(site, name))
        boards = inventory.look(seconds)
    finally:
        inventory.close()
    for b in boards:
        if b["problem"]:
            todo = "give each board a name of its own" if "two boards" in b["problem"] else "mica fleet join again"
            found.append(Finding(f"{b['board']}: {b['problem']}", False, todo))
        elif b["state"] != "up":
            found.append(Finding(f"{b['board']} is {b['state']}", False, "power, Wi-Fi, or mica fleet join again"))
        elif not b["models"]:
            found.append(
                Finding(f"{b['board']} has no model", False, "mica fleet join with --model, or copy a file onto it")
            )
        else:
            found.append(Finding(f"{b['board']} is up with {', '.join(b['models'])}", True))
    if not boards:
        found.append(Finding("no board has joined", False, f"mica fleet join {site.path.stem} --on UNIX*3"))
    return found


def _acl(site: Site, board: str) -> Finding:
    """Check that a board cannot receive messages for another."""
    arrived = threading.Event()
    other = f"doctor-{secrets.token_hex(4)}"
    spy = Listener(site, lambda name, what, payload: arrived.set() if name == other else None, user=board)
    coordinator = Listener(site, lambda *_: None)
    try:
        time.sleep(0.2)  # its subscription is on its way
        coordinator.send(other, "run", b"?", qos=1)
        leaked = arrived.wait(0.5)
    finally:
        spy.close()
        coordinator.close()
    if leaked:
        return Finding(
            f"{board} gets messages for other boards",
            False,
            f"give the broker {site.broker_folder / 'acl'} as its acl_file",
        )
    return Finding(f"{board} gets no messages for other boards", True)
