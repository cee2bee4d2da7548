"""A fleet whose messages are delayed, cut, stalled, doubled, reordered and dropped, and whose boards,
broker and coordinator are killed.

All of it goes through a proxy that knows MQTT's packets. Requests and answers (QoS 0) may be doubled,
reordered and dropped; whatever else there is may come late, or end with its connection at any packet, or in one.
The coordinator is `mica fleet run` with a journal, as in outages.py: what it answers is compared with the host's,
and what it has noted with what it was asked.

    python tests/fleet/chaos.py digits.mica SEED SECONDS
"""

from __future__ import annotations

import contextlib
import random
import socket
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import outages
from outages import Proxy

from mica_fleet.site import Site

PUBLISH = 3
SHARES = {"delayed": 0.004, "stalled": 0.0005, "cut": 0.0007, "cut in mid-packet": 0.0005}  # of all packets
LOOSE_SHARES = {"doubled": 0.01, "reordered": 0.01, "dropped": 0.005}  # of those with QoS 0
_SILENT = 14.0  # seconds; longer than the broker's patience with a client


def packets(buffer: bytearray) -> list[bytes]:
    """Whole packets, which are taken from the buffer. Raises ValueError where it is no MQTT."""
    found = []
    while len(buffer) >= 2:
        length = shift = 0
        at = 1
        while True:
            if at == len(buffer):
                return found
            length |= (buffer[at] & 127) << shift
            shift += 7
            at += 1
            if not buffer[at - 1] & 128:
                break
            if shift > 21:
                raise ValueError("a length of more than four bytes")
        if len(buffer) < at + length:
            break
        found.append(bytes(buffer[: at + length]))
        del buffer[: at + length]
    return found


def is_loose(packet: bytes) -> bool:
    """Return True for a message with QoS 0, which may be lost, doubled or out of order."""
    return packet[0] >> 4 == PUBLISH and not packet[0] & 0b111


class Mqtt(Proxy):
    """Proxy of packets: each goes on as it is, or meets with one of SHARES and LOOSE_SHARES. `tried` counts them."""

    spoils = False

    def __init__(self, port: int, chance: random.Random, tried: Counter[str]) -> None:
        self.tried = tried
        self.over = threading.Event()
        super().__init__(port, chance)

    def close(self) -> None:
        self.over.set()
        super().close()

    def _carry(self, pair: tuple[socket.socket, socket.socket], a: socket.socket, b: socket.socket) -> None:
        chance = random.Random(self._chance.random())
        buffer, late = bytearray(), b""
        try:
            while data := a.recv(65536):
                buffer += data
                for packet in packets(buffer):
                    what = self._drawn(chance, packet)
                    self.tried[f"packets {what}"] += 1
                    if what == "reordered" and not late:
                        late = packet
                        continue
                    for one in self._changed(chance, what, packet):
                        b.sendall(one)
                    if what.startswith("cut"):
                        raise OSError
                    if late:
                        b.sendall(late)
                        late = b""
        except OSError:
            pass
        with self._lock:
            if pair in self._pairs:
                self._pairs.remove(pair)
        outages._end(pair)

    def _drawn(self, chance: random.Random, packet: bytes) -> str:
        at = chance.random()
        for what, share in (SHARES | LOOSE_SHARES if is_loose(packet) else SHARES).items():
            if at < share:
                return what
            at -= share
        return "as they are"

    def _changed(self, chance: random.Random, what: str, packet: bytes) -> list[bytes]:
        if what == "delayed":
            self.over.wait(chance.uniform(0.01, 0.5))
        elif what == "stalled":
            self.over.wait(chance.uniform(1, _SILENT))
        elif what == "cut in mid-packet":
            return [packet[: chance.randrange(len(packet))]]
        elif what == "doubled":
            return [packet, packet]
        elif what in ("dropped", "cut"):
            return []
        return [packet]


def one_round(model: Path, seed: int, seconds: float, samples: int = outages.SAMPLES) -> dict[str, int]:
    """Do outages.one_round through this proxy. Raises AssertionError if an answer is lost, wrong or given twice, or the
    coordinator ends by itself."""

    def through(site: Site, port: int) -> Path:
        own = replace(site, path=site.path.with_name("through.toml"), port=port)
        own.save()
        return own.path

    return outages.one_round(model, seed, seconds, Mqtt, through, samples)


if __name__ == "__main__":
    begun = time.monotonic()
    with contextlib.suppress(KeyboardInterrupt):
        print(one_round(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])), f"{time.monotonic() - begun:.0f} s")
