"""Passwords stand in no list of processes, and nobody guesses the client id that would end a board's connection."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mica.boards import load_board
from mica.cli.main import main
from mica_fleet.cli import boards, secret
from mica_fleet.member import firmware
from mica_fleet.site import new_site


@pytest.fixture
def joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """joined(*words): what `mica fleet join` with these words writes onto a board as its network."""
    given: list[dict[str, Any]] = []
    names = itertools.count()
    monkeypatch.setattr(boards, "targets_of", lambda where: {where.removeprefix("fleet:"): "/dev/ttyACM0"})
    monkeypatch.setattr(boards, "open_board", lambda port: contextlib.nullcontext())
    monkeypatch.setattr(boards, "install", lambda board, settings, models: given.append(settings))
    new_site(str(tmp_path / "plant"), "mqtt://192.168.1.5")

    def join(*words: str) -> Any:
        code = main(
            ["fleet", "join", str(tmp_path / "plant"), "--on", "/dev/ttyACM0", "--name", f"b{next(names)}", *words]
        )
        return given[-1].get("wifi") if code == 0 else None

    return join


def test_the_networks_password(
    joined: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "password"
    file.write_text("from a file\nsecond line\n")
    assert joined() is None
    assert joined("--wifi", "net", "--wifi-password-file", str(file)) == ["net", "from a file"]
    assert "warning" not in capsys.readouterr().err
    assert joined("--wifi", "net", "--wifi-password", "typed") == ["net", "typed"]
    assert "warning: other users see --wifi-password" in capsys.readouterr().err
    assert joined("--wifi", "net") == ["net", ""], "nobody is there to be asked"
    monkeypatch.setattr(secret.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(secret.getpass, "getpass", lambda question: f"answer to {question}")
    assert joined("--wifi", "net") == ["net", "answer to password of net (none: Enter): "]
    capsys.readouterr()
    assert joined("--wifi", "net", "--wifi-password-file", str(tmp_path / "none")) is None
    assert "none: cannot be read: No such file" in capsys.readouterr().err


def test_client_ids() -> None:
    """Boards with a broker of their own have one, too: with a password always the same, else another at each start."""
    program = """
from mica_fleet.house import House
for more in ({"password": "a"}, {"password": "a"}, {"password": "b"}, {}, {"fleet": "plant", "password": "a"}):
    house = House(dict({"name": "kitchen", "host": "127.0.0.1"}, **more), ["yes"])
    print("mica:", house.client.client_id)
"""
    found: list[str] = []
    for _ in range(2):
        done = subprocess.run([firmware(load_board("UNIX")), "-c", program], capture_output=True, text=True, timeout=60)
        found += [line[6:] for line in done.stdout.splitlines() if line.startswith("mica: ")]
    assert len(found) == 10, done
    assert found[0] == found[1] == found[5] == found[6] and len(set(found)) == 5, found
    assert not any("kitchen" in one for one in found) and all(len(one) == len("mica-") + 16 for one in found)
