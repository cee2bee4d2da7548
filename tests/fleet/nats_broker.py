"""nats-server with an MQTT port as the broker of a fleet. Its users have the rights of those in mosquitto's files."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from typing import Any

from free_ports import free_port

from mica.link import child
from mica_fleet import broker
from mica_fleet.site import COORDINATOR, WATCHER, Site, write_private
from mica_fleet.wire import LARGEST_MESSAGE

_START_SECONDS = 10.0


def program() -> str | None:
    return shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin:/usr/local/sbin")


def _subjects(*topics: str) -> list[str]:
    """NATS's names of MQTT topics: "/" is ".". "#" also stands for no level, ".>" does not, so "a/#" has two names."""
    found = []
    for topic in topics:
        name = topic.replace("/", ".").replace("+", "*")
        found += [name[:-2], f"{name[:-1]}>"] if name.endswith(".#") else [name]
    return found


def _user(name: str, password: str, reads: tuple[str, ...], writes: tuple[str, ...]) -> dict[str, Any]:
    reads_of_nats = [*_subjects(*reads), "$MQTT.sub.>", "$MQTT.deliver.pubrel.>"]
    return {
        "user": name,
        "password": password,
        "permissions": {"subscribe": {"allow": reads_of_nats}, "publish": {"allow": _subjects(*writes)}},
    }


def _settings(site: Site, port: int) -> dict[str, Any]:
    """NATS's own port has to be somewhere, and messages that are retained in a folder."""
    top = f"mica/{site.fleet}"
    users = [
        _user(COORDINATOR, site.password, (f"{top}/#",), (f"{top}/#",)),
        _user(WATCHER, site.watch, tuple(f"{top}/from/+/{what}" for what in ("state", "stat", "have", "event")), ()),
    ]
    users += [
        _user(name, password, (f"{top}/to/{name}/#", f"{top}/blob/#"), (f"{top}/from/{name}/#",))
        for name, password in site.boards.items()
    ]
    return {
        "server_name": "mica",
        "host": "127.0.0.1",
        "port": port,
        "max_payload": LARGEST_MESSAGE + 1024,
        "jetstream": {"store_dir": str(site.broker_folder.resolve() / "nats")},
        "mqtt": {"host": "127.0.0.1", "port": site.port},
        "authorization": {"users": users},
    }


def start(site: Site) -> subprocess.Popen[bytes]:
    """A broker that ends with this process, at the site's address."""
    found = program()
    assert found, "nats-server is missing"
    site.join(())
    settings = site.broker_folder / "nats.conf"
    write_private(settings, json.dumps(_settings(site, free_port())))
    with (site.broker_folder / "nats.log").open("ab") as log:
        process = child.start([found, "-c", settings], stdout=log, stderr=log)
    end = time.monotonic() + _START_SECONDS
    while not broker.is_up(site):
        if process.poll() is not None or time.monotonic() > end:
            child.stop(process)
            raise AssertionError((site.broker_folder / "nats.log").read_text(errors="replace")[-2000:])
        time.sleep(0.02)
    return process
