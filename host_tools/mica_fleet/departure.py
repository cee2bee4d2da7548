"""Takes boards out of a fleet: no password, no desired models, and no messages left at the broker."""

import time
from collections.abc import Sequence

from mica.errors import MicaError
from mica.link.board import Say
from mica_fleet import home_assistant
from mica_fleet.mqtt_link import Listener
from mica_fleet.reports import parse_state
from mica_fleet.site import Site
from mica_fleet.store import Store

_LISTEN_SECONDS = 0.5  # for what is retained
_GONE_SECONDS = 3.0  # for the broker to read its files again, and end the boards' connections


def leave(site: Site, boards: Sequence[str], say: Say) -> None:
    """Raises MicaError where one is no board of the fleet, or there is no broker: what it has retained would come back
    with it."""
    unknown = [b for b in boards if b not in site.boards]
    if unknown:
        raise MicaError(f"{', '.join(unknown)} is no board of {site.fleet}", todo=f"mica fleet ls {site.path.stem}")
    up: dict[str, bool] = {}

    def on_message(board: str, what: str, payload: bytes) -> None:
        if what == "state" and board in boards:
            up[board] = False  # of one that is damaged
            up[board] = parse_state(payload).up

    listener = Listener(site, on_message)
    try:
        time.sleep(_LISTEN_SECONDS)
        site.leave(boards)
        store = Store(site)
        store.drop(boards)
        end = time.monotonic() + _GONE_SECONDS
        while any(up.values()) and time.monotonic() < end:  # its will is retained, so it has to be gone first
            time.sleep(0.05)
        topics = [
            f"mica/{site.fleet}/{t}"
            for b in boards
            for t in (f"from/{b}/state", f"from/{b}/stat", f"from/{b}/have", f"to/{b}/want")
        ]
        topics += [home_assistant.config_topic(site.fleet, b) for b in boards]
        for told in [listener.client.publish(topic, b"", qos=1, retain=True) for topic in topics]:
            told.wait_for_publish(5.0)
    finally:
        listener.close()
    for board in boards:
        if up.get(board):
            say(f"{board} is connected still: end it, or have the broker read its files again (SIGHUP)")
