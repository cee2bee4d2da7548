"""A board that cannot be given its files does not join: the fleet's file and its models stay what they were."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from mica.cli.main import main
from mica.errors import MicaError
from mica_fleet.cli import boards
from mica_fleet.site import new_site, read_site
from mica_fleet.store import Store

PORTS = {"/dev/ttyACM0": "/dev/ttyACM0", "/dev/ttyACM1": "/dev/ttyACM1"}


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(boards, "targets_of", lambda where: PORTS)
    return str(new_site(str(tmp_path / "plant"), "mqtt://192.168.1.5").path)


def _join(plant: str, *models: Path) -> int:
    return main(["fleet", "join", plant, "--on", "usb:all", *(w for m in models for w in ("--model", str(m)))])


@pytest.mark.parametrize(
    "error", [MicaError("the board says nothing"), OSError("the cable is out"), KeyboardInterrupt()]
)
@pytest.mark.parametrize("opens", [True, False])
def test_a_board_that_fails(
    error: BaseException, opens: bool, plant: str, monkeypatch: pytest.MonkeyPatch, digits_file: Path
) -> None:
    """Let the second of two boards fail, while it is opened or written; the first one has joined."""
    failing = {"/dev/ttyACM1"}
    written: dict[str, str] = {}

    @contextlib.contextmanager
    def opened(port: str) -> Iterator[str]:
        if port in failing and not opens:
            raise error
        yield port

    def install(port: str, settings: Mapping[str, str], models: object) -> None:
        if port in failing:
            raise error
        written[settings["name"]] = settings["password"]

    monkeypatch.setattr(boards, "open_board", opened)
    monkeypatch.setattr(boards, "install", install)
    assert _join(plant, digits_file) != 0
    site = read_site(plant)
    assert site.boards == written and list(written) == ["ttyacm0-1"]
    assert list(Store(site).known) == ["ttyacm0-1"]
    text = Path(plant).read_bytes()
    known = Store(site).known

    failing.add("/dev/ttyACM0")  # has joined, and stays as it is
    assert _join(plant) != 0
    assert Path(plant).read_bytes() == text and Store(read_site(plant)).known == known

    failing.clear()
    assert _join(plant) == 0
    assert read_site(plant).boards == written and list(written) == ["ttyacm0-1", "ttyacm1-2"]
