"""A model in parts over boards that die, hang and lie: the answers are those of the whole, whichever stage fails."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import DEMO, Join
from outages import SLOW
from test_coordinator import QUICK, Trouble, dies, hangs, sound
from test_fleet_mqtt import random_samples, wait_until

from mica.boards import load_board
from mica.cli.main import main
from mica.cost.prediction import predict
from mica.cost.table import Table
from mica.errors import MicaError
from mica.file.codec import decode
from mica.run.host import HostRunner
from mica.run.runner import Runner
from mica_fleet.coordinator import FleetRunner
from mica_fleet.cutting import LinkSpeed, cut
from mica_fleet.dispatch import Action, Audit, Dispatcher, Done, Send, Settings, Withdrawn
from mica_fleet.journal import Journal
from mica_fleet.links import Events, Link, RunnerLink, joined, split
from mica_fleet.open import open_fleet
from mica_fleet.site import Site
from mica_fleet.stages import Route, Stages
from mica_fleet.store import Store
from mica_fleet.wire import Answer, Request, Status

Boards = dict[str, Callable[[], Runner]]


@pytest.fixture(scope="module")
def files(digits_file: Path) -> list[bytes]:
    """The digits in three parts."""
    found = cut(digits_file.read_bytes(), 3, load_board("RPI_PICO"), LinkSpeed(1e6, 0.001), "flash")
    return [s.data for s in found.stages]


def fleet_of(
    files: list[bytes], boards: Boards, said: list[str] | None = None, settings: Settings = QUICK, **more: object
) -> FleetRunner:
    def links(events: Events) -> list[Link]:
        return [RunnerLink(name, open_it, events, retry=0.02) for name, open_it in boards.items()]

    say = (said if said is not None else []).append
    return FleetRunner(files[0], "fleet:test", links, say, settings, others=files[1:], **more)  # type: ignore[arg-type]


def bytes_of(results: list[list[np.ndarray]]) -> list[bytes]:
    return [y[0].tobytes() for y in results]


def test_boards_that_die_hang_and_lie_in_every_stage(files: list[bytes], digits_file: Path) -> None:
    samples, right = random_samples(digits_file.read_bytes(), 200)
    boards: Boards = {}
    for k, data in enumerate(files):
        boards[f"sound {k}"] = lambda data=data: Trouble(data, sound)  # type: ignore[misc]
        boards[f"dies {k}"] = lambda data=data: Trouble(data, dies)  # type: ignore[misc]
        boards[f"lies {k}"] = lambda data=data: Trouble(data, sound, lie=True)  # type: ignore[misc]
    boards["hangs"] = lambda: Trouble(files[1], hangs)
    said: list[str] = []
    with fleet_of([files[2], files[0], files[1]], boards, said) as runner:
        assert bytes_of(runner.run(samples)) == right
        assert bytes_of(runner.run(samples[:5])) == right[:5]
    for k in range(3):
        assert any(line.startswith(f"lies {k} answered wrongly") for line in said), said
        assert f"dies {k} is back" in said


def test_a_lie_that_is_found_late_takes_back_what_was_made_of_it(files: list[bytes], digits_file: Path) -> None:
    """Without threads: the first stage's audit comes after the sample is through."""
    (sample,), (right,) = random_samples(digits_file.read_bytes(), 1)
    dispatcher, route = Dispatcher(Settings(audit=1)), Route(files)
    stages = Stages(dispatcher, route, 7)
    hosts = {crc: HostRunner(data) for crc, data in zip(route.crcs, route.files, strict=True)}
    audits: list[Audit] = []
    sent: list[Request] = []

    def do(actions: list[Action]) -> None:
        """Boards answer at once; the one of the first stage lies. Audits wait."""
        while actions:
            action = actions.pop(0)
            match action:
                case Send(board, request):
                    sent.append(request)
                    y = outputs(request.model, request.inputs)
                    data = bytes(v ^ 0x55 for v in y) if board == "b0" else y
                    a = Answer(request.key, request.model, request.attempt, Status.OK, 1, 0, data)
                    actions += dispatcher.answer(0.0, board, a)
                case Done(key, y, _):
                    actions += stages.done(0.0, key, y)
                case Withdrawn(key):
                    stages.withdrawn(key)
                case Audit():
                    audits.append(action)

    def outputs(crc: int, inputs: bytes) -> bytes:
        host = hosts[crc]
        return joined(host.run([split(host.model, host.model.inputs, inputs)])[0])

    for k, crc in enumerate(route.crcs):
        do(dispatcher.birth(0.0, f"b{k}", 1, 1, [crc]))
    do(stages.begin(0.0, 0, joined(sample)))
    assert stages.answers[0] != right and len(sent) == 3 and stages.under_way == 0
    late, before = sent[-1], list(sent)
    first = audits.pop(0)
    do(dispatcher.audited(0.0, first.key, outputs(first.model, first.inputs)))
    assert stages.answers == {0: right} and dispatcher.boards()["b0"] == "quarantined"
    assert [r.key.stage for r in sent[3:]] == [1, 2] and not {r.key for r in sent[3:]} & {r.key for r in before}
    # What a board may still say of the old ones changes nothing.
    do(dispatcher.answer(0.0, "b2", Answer(late.key, late.model, late.attempt, Status.OK, 1, 0, b"?" * len(right))))
    while audits:
        one = audits.pop(0)
        do(dispatcher.audited(0.0, one.key, outputs(one.model, one.inputs)))
    assert stages.answers == {0: right} and dispatcher.boards()["b2"] == "up"


def test_a_journal_of_a_model_in_parts(files: list[bytes], digits_file: Path, tmp_path: Path) -> None:
    samples, right = random_samples(digits_file.read_bytes(), 20)
    boards: Boards = {f"b{k}": lambda data=data: Trouble(data, sound) for k, data in enumerate(files)}
    with fleet_of(files, boards, journal=Journal(tmp_path / "j", {})) as runner:
        assert bytes_of(runner.run(samples)) == right
    size = (tmp_path / "j").stat().st_size
    with fleet_of(files, {}, journal=Journal(tmp_path / "j", {})) as runner:  # no board is needed any more
        assert bytes_of(runner.run(samples)) == right
    assert (tmp_path / "j").stat().st_size == size


def test_a_part_that_no_board_has_is_named(files: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mica_fleet.coordinator._NOWHERE", 0.1)
    boards: Boards = {f"b{k}": lambda k=k: Trouble(files[k], sound) for k in (0, 2)}  # type: ignore[misc]
    with fleet_of(files, boards) as runner, pytest.raises(MicaError) as error:
        runner.run([[np.zeros((1, 1, 8, 8), np.int8)]])
    said = str(error.value)
    assert re.search(r"no board has part 2 of 3 \(CRC-32 \w{8}\); they have \w{8} \(on 1\), \w{8} \(on 1\); ", said), (
        said
    )
    assert said.endswith("mica fleet push sends a model, mica fleet ls lists them")


def test_each_stage_is_killed_in_turn_and_nothing_is_lost(
    fleet: Site, join: Join, files: list[bytes], digits_file: Path
) -> None:
    """Three stages, a board each and one that has them all; over MQTT."""
    samples, right = random_samples(digits_file.read_bytes(), 60)
    members = [join(f"b{k + 1}", models={f"{k}.mica": data}, program=SLOW) for k, data in enumerate(files)]
    join("b4", models={f"{k}.mica": data for k, data in enumerate(files)}, program=SLOW)
    said: list[str] = []
    with open_fleet(files[0], f"fleet:{fleet.path}", said.append, others=files[1:]) as runner:
        assert bytes_of(runner.run(samples[:6])) == right[:6]
        for member in members:
            assert member.process is not None
            threading.Timer(0.4, member.process.kill).start()
            assert bytes_of(runner.run(samples)) == right, f"{member.name} was killed"
    for member in members:
        assert f"{member.name} is lost: it went off the broker" in said, said


def test_the_commands_of_a_model_in_parts(
    fleet: Site, join: Join, files: list[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / f"d.{k}of3.mica" for k in (1, 2, 3)]
    for path, data in zip(paths, files, strict=True):
        path.write_bytes(data)
    test = str(DEMO / "digits_test.npz")
    join("b1", models={"1.mica": files[0], "2.mica": files[1]})
    join("b2", models={"3.mica": files[2]})
    words = [str(fleet.path), str(paths[1]), test, "--json"]  # any part names them all
    assert main(["fleet", "eval", *words, "--samples", "40"]) == 0
    result = json.loads(capsys.readouterr().out)
    y = tmp_path / "y.npy"
    assert main(["fleet", "run", *words[:-1], "-o", str(y)]) == 0
    assert np.load(y).shape == (360, 1, 10) and result["samples"] == 40 and result["value"] > 0.9
    capsys.readouterr()
    # links are measured at the boards that are up
    whole = tmp_path / "w.mica"
    assert main(["pack", str(DEMO / "digits.onnx"), "--plain", "-o", str(whole)]) == 0
    capsys.readouterr()
    assert main(["fleet", "cut", str(whole), "--parts", "2", "--fleet", str(fleet.path), "--json"]) == 0
    link = json.loads(capsys.readouterr().out)["link"]
    assert link["measured"] in ("b1", "b2") and link["rate"] > 10_000 and 0 < link["delay_ms"] < 1000
    # and errors
    for command, text in (
        (["eval", str(paths[0]), test, "--on", "fleet:host"], "1 boards for 3 parts"),
        (["fleet", "cut", str(whole), "--parts", "2", "--fleet", str(fleet.path), "--link-rate", "1K"], "measures"),
    ):
        assert main(command) == 1
        assert text in capsys.readouterr().err
    paths[2].unlink()
    assert main(["fleet", "eval", *words]) == 1
    assert "d.3of3.mica: no such file" in capsys.readouterr().err
    renamed = tmp_path / "other.mica"
    renamed.write_bytes(files[0])
    assert main(["fleet", "eval", words[0], str(renamed), test]) == 1
    assert "part 1 of 3 of a model" in capsys.readouterr().err


# It calls itself a Pico, takes 10 ms longer than it needs, and tells its numbers three times a second.
PICO = """
import json, time, mica_fleet
mica_fleet._STAT_MS = 300
class Pico(mica_fleet.Agent):
    def about(self):
        return super().about() | {"board": "Raspberry Pi Pico with RP2040"}
    def compute(self, model, inputs):
        time.sleep_ms(10)
        return super().compute(model, inputs)
with open("fleet.json") as f:
    Pico(json.load(f)).work()
"""


def test_predicted_times_stand_beside_measured_ones(
    fleet: Site, join: Join, files: list[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(fleet)
    predicted = []
    for k, data in enumerate(files):
        (tmp_path / f"d.{k + 1}of3.mica").write_bytes(data)
        p = predict(decode(data), data, load_board("RPI_PICO"), Table.read())
        assert p.time is not None
        predicted.append(p.time["milliseconds"])
        store.add(data)
        join(f"b{k + 1}", models={f"{k}.mica": data}, program=PICO)
    path = str(tmp_path / "d.1of3.mica")
    assert main(["fleet", "bench", str(fleet.path), path, "--seconds", "0.5", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["stages"]
    assert [(r["part"], r["board"], r["predicted_ms"]) for r in rows] == [
        (k + 1, f"b{k + 1}", predicted[k]) for k in range(3)
    ]
    assert all(r["answers"] > 0 and r["ms"] > 5 for r in rows)  # what a board slept, by its own clock

    def times() -> list[dict[str, object]]:
        assert main(["fleet", "ls", str(fleet.path), "--json"]) == 0
        return [t for b in json.loads(capsys.readouterr().out)["boards"] for t in b["times"]]

    told: list[dict[str, object]] = []

    def all_told() -> bool:
        told[:] = times()  # numbers are not retained: not every look has those of all
        return sum(t["ms"] is not None for t in told) == 3

    wait_until(all_told)
    for k, t in enumerate(told):
        assert (t["path"], t["part"], t["predicted_ms"]) == (f"{k}.mica", f"{k + 1}/3", predicted[k])
        assert isinstance(t["ms"], float) and t["ms"] > 5


def test_boards_without_a_broker_take_the_parts_in_turn(files: list[bytes], digits_file: Path, tmp_path: Path) -> None:
    samples, right = random_samples(digits_file.read_bytes(), 30)
    with open_fleet(files[0], "fleet:host,UNIX*2", others=files[1:]) as runner:
        assert bytes_of(runner.run(samples)) == right
