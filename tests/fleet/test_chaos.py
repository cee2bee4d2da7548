"""The short form of chaos.py; scripts/soak has the long one."""

from __future__ import annotations

import random
import socket
import subprocess
import threading
from collections import Counter
from pathlib import Path

import chaos
import pytest
from outages import handed_out_twice

from mica_fleet.journal import ANSWER, WITHDRAWN, Journal
from mica_fleet.wire import Key


def publish(payload: bytes, qos: int = 0) -> bytes:
    body = b"\x00\x01t" + (b"\x00\x07" if qos else b"") + payload
    length = len(body)
    head = bytes((0x30 | qos << 1,)) + (bytes((length,)) if length < 128 else bytes((length & 127 | 128, length >> 7)))
    return head + body


def test_packets_are_found_wherever_the_stream_is_cut() -> None:
    sent = [b"\xc0\x00", publish(b"x" * 300), publish(b"", qos=1), publish(bytes(5))]
    stream, chance = b"".join(sent), random.Random(0)
    for _ in range(100):
        found: list[bytes] = []
        buffer = bytearray()
        at = 0
        while at < len(stream):
            step = chance.randrange(1, 50)
            buffer += stream[at : at + step]
            at += step
            found += chaos.packets(buffer)
        assert found == sent and not buffer
    assert [chaos.is_loose(p) for p in sent] == [False, True, False, True]
    with pytest.raises(ValueError, match="four bytes"):
        chaos.packets(bytearray(b"\x30\xff\xff\xff\xff\x01"))


def test_what_the_proxy_does_to_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only messages with QoS 0 are doubled, reordered or dropped; all messages arrive whole."""
    monkeypatch.setattr(chaos, "SHARES", {})
    monkeypatch.setattr(chaos, "LOOSE_SHARES", dict.fromkeys(("doubled", "reordered", "dropped"), 0.2))
    sent = [publish(bytes((i, i)), qos=i % 2) for i in range(200)]
    came = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as broker:
        tried: Counter[str] = Counter()
        proxy = chaos.Mqtt(broker.getsockname()[1], random.Random(0), tried)

        def talk() -> None:
            s, _ = broker.accept()
            with s:
                while data := s.recv(1000):
                    came.extend(data)

        thread = threading.Thread(target=talk, daemon=True)
        thread.start()
        with socket.create_connection(("127.0.0.1", proxy.port)) as s:
            s.sendall(b"".join(sent))
            s.shutdown(socket.SHUT_WR)
            thread.join(20)
        proxy.close()
    found = chaos.packets(came)
    assert not came and set(found) <= set(sent)
    assert [p for p in found if not chaos.is_loose(p)] == sent[1::2]
    loose = [p for p in found if chaos.is_loose(p)]
    for what in ("doubled", "reordered", "dropped"):
        assert tried[f"packets {what}"] > 5
    assert len(loose) == 100 + tried["packets doubled"] - tried["packets dropped"]
    assert sorted(found, key=sent.index) != found


def test_answers_that_are_handed_out_twice_are_counted(tmp_path: Path) -> None:
    with Journal(tmp_path / "j", {"model": 1}) as journal:
        for seq in range(3):
            journal.write(ANSWER, Key(1, seq), b"y")
        assert handed_out_twice((tmp_path / "j").read_bytes()) == 0
        journal.write(WITHDRAWN, Key(1, 1))
        journal.write(ANSWER, Key(1, 1), b"z")
        assert handed_out_twice((tmp_path / "j").read_bytes()) == 0
        journal.write(ANSWER, Key(1, 2), b"y")
    assert handed_out_twice((tmp_path / "j").read_bytes()) == 1


def test_a_fleet_in_chaos(mosquitto: subprocess.Popen[bytes], digits_file: Path) -> None:
    """300 samples in the middle of it: none is lost, wrong or handed out twice,
    and the coordinator ends by kills alone."""
    tried = chaos.one_round(digits_file, seed=1, seconds=10, samples=300)
    assert tried["answers"] >= 300
    assert not tried["lost"] and not tried["wrong"] and not tried["handed out twice"]
    assert (
        tried["links cut"] and tried["boards killed"] and sum(tried[f"packets {what}"] for what in chaos.LOOSE_SHARES)
    )
