"""A broker of the tests' own, and boards of a fleet on this computer."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from free_ports import free_port

from mica.boards import load_board
from mica.cli.main import main
from mica.link import child
from mica.link.board import Link
from mica.link.unix_board import UnixBoard
from mica_fleet import broker
from mica_fleet.member import Member, firmware
from mica_fleet.site import Site, new_password, new_site

DEMO = Path(__file__).resolve().parents[2] / "host_tools" / "mica" / "demo"

Join = Callable[..., Member]


@pytest.fixture(scope="session")
def unix_board_of_session() -> Iterator[Link]:
    """With mica_fleet in it."""
    facts = load_board("UNIX")
    with UnixBoard(facts, firmware(facts)) as board:
        yield board


@pytest.fixture(scope="session")
def digits_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("digits") / "digits.mica"
    assert main(["pack", str(DEMO / "digits.onnx"), "--plain", "-o", str(path)]) == 0
    return path


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A fleet without a broker, that four boards may come into."""
    found = new_site(str(tmp_path / "plant"), f"mqtt://127.0.0.1:{free_port()}")
    for i in range(1, 5):
        found.boards[f"b{i}"] = new_password()
    found.save()
    return found


@pytest.fixture
def mosquitto(site: Site) -> Iterator[subprocess.Popen[bytes]]:
    """The broker of `site`."""
    if broker.program() is None:
        pytest.skip("mosquitto is not installed")
    if importlib.util.find_spec("paho") is None:
        pytest.skip("the Python package paho-mqtt is not installed")
    process = broker.start(site)
    yield process
    child.stop(process)


@pytest.fixture
def fleet(site: Site, mosquitto: subprocess.Popen[bytes]) -> Site:
    """A fleet with its broker."""
    return site


@pytest.fixture
def join(fleet: Site, digits_file: Path) -> Iterator[Join]:
    """join("b1") starts a board with digits.mica that is b1; more arguments are Member's."""
    board = load_board("UNIX")
    image = firmware(board)
    members: list[Member] = []

    def start(name: str, models: dict[str, bytes] | None = None, **more: object) -> Member:
        there = {"digits.mica": digits_file.read_bytes()} if models is None else models
        settings = fleet.board_settings(name) | more.pop("settings", {})  # type: ignore[operator]
        said: list[str] = more.pop("said", [])  # type: ignore[assignment]
        members.append(Member(board, image, settings, there, said.append, **more))  # type: ignore[arg-type]
        return members[-1]

    yield start
    for member in members:
        member.close()
