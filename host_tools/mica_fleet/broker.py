"""Runs Debian's mosquitto as the broker of a fleet, with the files that belong to its settings."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable

from mica.errors import MicaError
from mica.link import child
from mica.link.board import Say
from mica_fleet.site import Site, read_site

_START_SECONDS = 10.0
_CONNECT = b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x0a\x00\x00"  # nobody's: it is refused


def program() -> str | None:
    """mosquitto; Debian keeps it where only root's PATH looks."""
    return shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/opt/homebrew/sbin")


def is_up(site: Site, at_work: bool = False) -> bool:
    """True if a server listens at the broker's address; at_work: and answers. Before, SIGHUP would end mosquitto."""
    try:
        with socket.create_connection((site.host, site.port), timeout=1) as s:
            s.sendall(_CONNECT if at_work else b"")
            return not at_work or bool(s.recv(1))
    except OSError:
        return False


def start(site: Site) -> subprocess.Popen[bytes]:
    """A broker that ends with this process. Raises MicaError where it does not come up."""
    found = program()
    if found is None:
        raise MicaError(
            "mosquitto is missing", todo="apt install mosquitto (Debian's service of that name is not needed)"
        )
    if is_up(site):
        raise MicaError(f"there is a broker at {site.where} already", todo="use it, or end it first")
    site.join(())  # its files go with its settings
    log = (site.broker_folder / "log").open("wb")
    process = child.start([found, "-c", site.broker_folder / "mosquitto.conf"], stdout=log, stderr=subprocess.STDOUT)
    log.close()
    begun = time.monotonic()
    while not is_up(site, at_work=True):
        if process.poll() is not None or time.monotonic() - begun > _START_SECONDS:
            child.stop(process)
            lines = (site.broker_folder / "log").read_text(errors="replace").splitlines()
            said = next((line for line in lines if "rror" in line), "it says nothing")
            raise MicaError(f"mosquitto does not come up at {site.where}: {said}")
        time.sleep(0.02)
    return process


def watch(site: Site, process: subprocess.Popen[bytes], say: Say, until: Callable[[], bool] = lambda: False) -> None:
    """Until it ends: have it read its files again when boards have joined. Raises MicaError when it ends by itself."""
    seen = _stamp(site)
    process.send_signal(signal.SIGHUP)  # boards may have joined while it started
    while process.poll() is None:
        if until():
            return
        time.sleep(0.2)
        if _stamp(site) != seen:
            seen = _stamp(site)
            process.send_signal(signal.SIGHUP)
            say(f"{len(read_site(str(site.path)).boards)} boards may come in")
    raise MicaError(
        f"mosquitto has ended with exit code {process.returncode}", todo=f"see {site.broker_folder / 'log'}"
    )


def _stamp(site: Site) -> int:
    try:
        return os.stat(site.broker_folder / "passwords").st_mtime_ns
    except OSError:
        return 0
