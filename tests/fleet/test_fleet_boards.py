"""A fleet of MicroPython processes and one in QEMU: killed at random, and every answer is the host's."""

from __future__ import annotations

import json
import random
import threading
from pathlib import Path

import numpy as np
import pytest

from mica.boards import load_board
from mica.cli.main import main
from mica.errors import MicaError
from mica.link import unix_board
from mica.link.unix_board import UnixBoard
from mica.run.host import HostRunner
from mica.toolchain.build import build
from mica_fleet.dispatch import Settings
from mica_fleet.open import open_fleet, targets_of

DEMO = Path(__file__).resolve().parents[2] / "host_tools" / "mica" / "demo"


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fleet") / "digits.mica"
    assert main(["pack", str(DEMO / "digits.onnx"), "--plain", "-o", str(path)]) == 0
    return path


def test_boards_are_killed_and_nothing_is_lost(digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(load_board("UNIX"))
    alive: list[UnixBoard] = []

    class Mortal(UnixBoard):
        def _start(self) -> None:
            super()._start()
            alive.append(self)

    monkeypatch.setattr(unix_board, "UnixBoard", Mortal)
    said: list[str] = []
    data = digits.read_bytes()
    rng = np.random.default_rng(0)
    with HostRunner(data) as host:
        dims = host.model.tensors[host.model.inputs[0]].dims
        samples = [[rng.integers(-128, 128, dims).astype(np.int8)] for _ in range(300)]
        right = [y[0].tobytes() for y in host.run(samples)]
    over = threading.Event()

    def killer() -> None:
        chance = random.Random(1)
        while not over.wait(0.3):
            process = chance.choice(alive)._process if alive else None
            if process is not None and process.poll() is None:
                process.kill()

    with open_fleet(data, "fleet:UNIX*3,MPS2_AN385", said.append, Settings(audit=0.05)) as fleet:
        thread = threading.Thread(target=killer)
        thread.start()
        try:
            for _ in range(200):
                if sum("is lost" in line for line in said) >= 3 and any("is back" in line for line in said):
                    break
                assert [y[0].tobytes() for y in fleet.run(samples)] == right
        finally:
            over.set()
            thread.join()
    assert any("is lost" in line for line in said) and any("is back" in line for line in said), said


def test_eval_takes_a_fleet(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["eval", str(digits), str(DEMO / "digits_test.npz"), "--samples", "40", "--json", "--on"]
    assert main([*words, "host"]) == 0
    host = json.loads(capsys.readouterr().out)
    assert main([*words, "fleet:UNIX*2"]) == 0
    fleet = json.loads(capsys.readouterr().out)
    assert fleet == host | {"target": "fleet:UNIX*2"}


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("fleet:", "names no board"),
        ("fleet:UNIX*0", r"UNIX\*0: expected \*1 to \*64"),
        ("fleet:UNIX,UNIX", "UNIX is named twice"),
        ("fleet:/dev/ttyNO*2", "is one board"),
        ("fleet:UNIX*40,MPS2_AN385*40", "80 boards"),
        ("fleet:Pico", "neither a board nor a port"),
        ("usb:some", "expected usb:all"),
    ],
)
def test_fleets_that_cannot_be(target: str, message: str) -> None:
    with pytest.raises(MicaError, match=message):
        targets_of(target)


def test_usb_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mica_fleet.open.usb_ports", list)
    with pytest.raises(MicaError, match="no board is plugged in"):
        targets_of("usb:all")
    monkeypatch.setattr("mica_fleet.open.usb_ports", lambda: ["/dev/ttyACM0", "/dev/ttyACM1"])
    assert list(targets_of("usb:all")) == ["/dev/ttyACM0", "/dev/ttyACM1"]
