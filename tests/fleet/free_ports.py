"""A port for a server that is started with its number, as a broker is."""

from __future__ import annotations

import random
import socket

# Below those that the system gives to connections and to servers without a number: between the choice and the server's
# start, and while it is down, nobody else comes to have it.
_PLACES = range(12_000, 32_000)


def free_port() -> int:
    """Return one that nobody listens at."""
    chance = random.SystemRandom()
    for _ in range(100):
        port = chance.choice(_PLACES)
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # an ended connection of it is in nobody's way
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise AssertionError("no port is free")
