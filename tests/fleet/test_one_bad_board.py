"""One board says anything of itself: `push`, `teach`, `ls` and `eval` of the others go through,
and name it where it is left out."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import paho.mqtt.client as mqtt
import pytest
from conftest import DEMO, Join
from targets import sampled
from test_board_reports import HAVE, KINDS, STATE, TAUGHT
from test_fleet_mqtt import wait_until
from test_fleet_teach import taught

from mica.cli.main import main
from mica.learn import digest
from mica_fleet.mqtt_link import Listener
from mica_fleet.site import Site

MORE = (
    "[1, 2]",
    "1",
    "9e15",
    "-0.0",
    "1e-400",
    '"1.1"',
    '"/rom/x"',
    '{"/rom/d.mica": "00000000"}',
    '["a", 1]',
    "[0, 0]",
)
MORE += ('"' + 200 * "a" + '"', "[" + ", ".join("5" * 70) + "]", '{"a": {"a": {}}}', "false", '"\\u202e"', '"kernel,"')
MORE += ('{"": ""}', "4294967295", '{"d.mica": "ffffffff"}')
ALL_KINDS = (*KINDS, *MORE)
PLACES = ("state", "head", "labels", "models")
SECONDS = 6.0  # that teach waits for answers


class Bad:
    """A board that is another program: it says a state of itself, and answers lessons with any head."""

    def __init__(self, site: Site, name: str, crc: int) -> None:
        self.name, self.crc = name, crc
        self.head = b""
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=name, protocol=mqtt.MQTTv311)
        self.client.username_pw_set(name, site.boards[name])
        self.client.on_message = self._lesson
        self.client.connect(site.host, site.port)
        self.client.subscribe(f"mica/plant/to/{name}/teach", 1)
        self.client.loop_start()

    def _lesson(self, client: Any, data: Any, message: Any) -> None:
        generation = json.loads(message.payload[65:].split(b"\n")[0])["generation"]
        self.say("head", self.head.replace(b'"generation": 3', b'"generation": %d' % generation), retain=False)

    def say(self, what: str, payload: bytes, retain: bool = True) -> None:
        sent = self.client.publish(f"mica/plant/from/{self.name}/{what}", payload, qos=1, retain=retain)
        if retain:
            sent.wait_for_publish(5)

    def is_of(self, kind: str, place: str, field: str, labels: bytes) -> None:
        """Say of itself what is of this kind of JSON, in this place."""
        about = STATE | {"largest": 64, "models": {"digits.mica": f"{self.crc:08x}"}, "heap": 1 << 20, "free": 1 << 20}
        if place in ("state", "models"):
            about[field if place == "state" else "models"] = "KIND"
        if place == "labels":
            about["words"] = "KIND"
        self.say("state", b"up 1 1 " + json.dumps(about).replace('"KIND"', kind).encode())
        self.say("have", json.dumps(HAVE | {"reason": "KIND"}).replace('"KIND"', kind).encode())
        text = json.dumps(TAUGHT | ({"taken": "KIND"} if place == "head" else {})).replace('"KIND"', kind)
        self.head = text.encode() + b"\n" + (kind.encode() if place == "head" else labels)


def rounds() -> Iterator[tuple[str, str, str]]:
    """(kind, place, field of the state): all with scripts/test --all, else four."""
    fields = [name for name in STATE if name != "models"]
    pairs = [(kind, place) for kind in ALL_KINDS for place in PLACES]
    step = sampled(1, len(pairs) // 4 + 1)
    yield "[1, 2]", "state", "rom"
    for n, (kind, place) in enumerate(pairs[::step]):
        yield kind, place, fields[n % len(fields)]


def test_the_others_go_on(
    fleet: Site, join: Join, digits_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(set(ALL_KINDS)) >= 40
    data = digits_file.read_bytes()
    pushed = [tmp_path / str(k) / "other.mica" for k in (1, 2)]
    for k, path in enumerate(pushed, 1):
        path.parent.mkdir()
        assert main(["pack", str(DEMO / "digits.onnx"), "--plain", "--golden", str(k), "-o", str(path)]) == 0
    labels = taught(*((f"x{k}", k) for k in range(62)), model=digest(data)).state()
    join("b2", {"digits.mica": data, "learnt.0": taught(("a", 1), model=digest(data)).state()})
    up: list[str] = []
    test = dict(np.load(DEMO / "digits_test.npz"))
    np.savez(tmp_path / "few.npz", **test | {"x": test["x"][:20], "y": test["y"][:20]})
    watch = Listener(fleet, lambda board, what, payload: up.append(board) if payload[:2] == b"up" else None)
    wait_until(lambda: "b2" in up)
    watch.close()
    bad = Bad(fleet, "b1", zlib.crc32(data))
    plant = str(fleet.path)

    def said(*words: str) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        code = main(["fleet", words[0], plant, *words[1:], "--json"])
        out = capsys.readouterr()
        assert out.out, (words, out.err)
        return code, json.loads(out.out)

    for n, (kind, place, field) in enumerate(rounds()):
        bad.is_of(kind, place, field, labels)
        what = f"{place} {field} of {kind[:60]}"
        code, found = said("teach", str(digits_file), "--learnt", "learnt", "--seconds", str(SECONDS))
        assert "error" not in found, (what, found)
        states = {b["board"]: b["state"] for b in found["boards"]}
        assert states["b2"] == "taught" and [row["label"] for row in found["labels"]] == ["a"], (what, found)
        assert code == 0 or states["b1"] == "left out", (what, found)
        rows = {row["board"]: row for row in said("ls")[1]["boards"]}
        assert rows["b2"]["state"] == "up" and not rows["b2"]["problem"], (what, rows)
        code, found = said("eval", str(digits_file), str(tmp_path / "few.npz"))
        assert code == 0 and found["samples"] == 20 and found["value"] > 0.8, (what, found)
        code, found = said("push", str(pushed[n % 2]), "--timeout", "6s", "--abort", "50%", "--waves", "100%")
        assert "error" not in found, (what, found)
        states = {b["board"]: (b["state"], b["reason"]) for b in found["boards"]}
        assert states["b2"][0] == "succeeded" and not found["reason"], (what, found)
        if (kind, field) == ("[1, 2]", "rom"):
            assert code == 1 and states["b1"][0] == "left out" and "half of the ROMFS of b1 has 1" in states["b1"][1]
    bad.client.disconnect()
    bad.client.loop_stop()
