"""A board that listens tells a house: events at the fleet's broker and at one of the user's,
with the triggers of Home Assistant's discovery."""

from __future__ import annotations

import contextlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import Join
from test_fleet_mqtt import wait_until
from test_home_assistant import watching
from tones import FRONT_END, LABELS, save_net, tone, write_wav

from mica.boards import load_board
from mica.cli.main import main
from mica.listen import detection
from mica.run.host import HostRunner
from mica_fleet.home_assistant import Discovery, triggers
from mica_fleet.member import firmware
from mica_fleet.site import Site

LISTEN = """
import asyncio, json, mica
from mica.audio import listen
from mica.wav import Wav
from mica_fleet.house import House
settings = {settings}
async def main():
    house = House(settings, ["low", "high"])
    asyncio.create_task(house.live())
    async for event in listen(mica.Model("tones.mica"), Wav("tones.wav"), threshold=0.8, mean=2):
        house.tell(event)
    while True:
        await asyncio.sleep(1)
asyncio.run(main())
"""


@pytest.fixture(scope="module")
def ears(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], list[dict[str, Any]]]:
    """A model of tones and a recording, and the events that this computer finds there."""
    import numpy as np

    folder, rng = tmp_path_factory.mktemp("ears"), np.random.default_rng(1)
    for k in range(8):
        for label in LABELS:
            write_wav(folder / "data" / label / f"{k}.wav", tone(rng, label))
    (folder / "labels.txt").write_text("\n".join(LABELS))
    save_net(folder / "tones.onnx")
    x = np.concatenate([tone(rng, label, 8000) for label in ("silence", "low", "silence", "silence", "high")])
    wav = write_wav(folder / "tones.wav", x)
    words = ["--frontend", FRONT_END, "--calib", folder / "data", "--labels", folder / "labels.txt"]
    assert main(["pack", str(folder / "tones.onnx"), "-o", str(folder / "tones.mica"), *map(str, words)]) == 0
    data = (folder / "tones.mica").read_bytes()
    with HostRunner(data) as runner:
        found = [vars(e) for e in detection.detect(runner, x, detection.Settings(0.8, 2))]
    return {"tones.mica": data, "tones.wav": Path(wav).read_bytes()}, found


def test_at_the_fleet(fleet: Site, join: Join, ears: tuple[dict[str, bytes], list[dict[str, Any]]]) -> None:
    """`serve --ha` shows a trigger for each word; events arrive as they are on this computer;
    the will says when the board has gone."""
    files, expected = ears
    events: list[dict[str, Any]] = []
    topic, config, state = (
        "mica/plant/from/b1/event",
        "homeassistant/device/mica_plant_b1/config",
        "mica/plant/from/b1/state",
    )
    with watching(fleet, topic, config, state) as watcher, contextlib.closing(Discovery(fleet, {})):
        keep = watcher.client.on_message
        watcher.client.on_message = lambda client, data, m: (
            events.append(json.loads(m.payload)) if m.topic == topic else keep(client, data, m)
        )
        member = join("b1", files, program=LISTEN.format(settings="'fleet.json'"), revive=1000.0)
        wait_until(lambda: len(events) == len(expected) and config in watcher.at)
        assert [e["label"] for e in events] == [e["label"] for e in expected] == ["low", "high"]
        assert [(e["ms"], e["score"]) for e in events] == [
            (e["ms"], pytest.approx(e["score"], abs=1e-3)) for e in expected
        ]
        found = watcher.json(config)["components"]
        assert {k: v for k, v in found.items() if k.startswith("word")} == triggers(topic, ["low", "high"])
        assert watcher.at[state].startswith(b"up ")
        assert member.process is not None
        member.process.kill()
        wait_until(lambda: watcher.at[state].startswith(b"down "))


def test_at_another_broker(
    fleet: Site,
    mosquitto: subprocess.Popen[bytes],
    join: Join,
    ears: tuple[dict[str, bytes], list[dict[str, Any]]],
    tmp_path: Path,
) -> None:
    """A board that is in no fleet describes itself. Its broker has no rules."""
    from free_ports import free_port

    from mica.link import child
    from mica_fleet import broker

    port = free_port()
    (tmp_path / "own.conf").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    process = child.start([str(broker.program()), "-c", str(tmp_path / "own.conf")], stderr=subprocess.DEVNULL)
    try:
        settings = {"name": "kitchen", "host": "127.0.0.1", "port": port}
        own = Site(**{**vars(fleet), "port": port})
        topic, config = "mica/kitchen/event", "homeassistant/device/mica_kitchen/config"
        wait_until(lambda: broker.is_up(own))
        with watching(own, topic, config) as watcher:
            wait_until(watcher.client.is_connected)
            join("b2", ears[0], program=LISTEN.format(settings=repr(settings)), revive=1000.0)
            wait_until(lambda: config in watcher.at)
            found = watcher.json(config)
            assert found["components"] == triggers(topic, ["low", "high"])
            assert found["device"]["identifiers"] == ["mica_kitchen"] and found["origin"]["name"] == "mica"
            wait_until(lambda: topic in watcher.at and watcher.json(topic)["label"] == "high")
    finally:
        child.stop(process)


def test_names() -> None:
    """Home Assistant drops a board whose topic has other characters, and nobody is told: House refuses such a name."""
    names = ["kitchen", "Bench_1-b", "living room", "a/b", "k+", "a#", "k\u00fcche", "a.b"]
    program = f"""
from mica_fleet.house import House
for name in {names!r}:
    try:
        print("mica:", House({{"name": name, "host": "127.0.0.1"}}, ["yes"]).name)
    except ValueError as e:
        print("mica:", "refused" if str(e).endswith("not " + name) else e)
"""
    done = subprocess.run([firmware(load_board("UNIX")), "-c", program], capture_output=True, text=True, timeout=60)
    found = [line[6:] for line in done.stdout.splitlines() if line.startswith("mica: ")]
    assert found == [*names[:2], *["refused"] * 6], done
