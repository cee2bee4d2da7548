"""Capacity check of a push: reports of boards, and the reason of each refusal, before a byte is sent."""

from __future__ import annotations

import json
import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest

from mica.boards import load_board
from mica.cost.prediction import predict
from mica.cost.table import Table
from mica.errors import MicaError
from mica.file import codec
from mica.kernels import KERNELS
from mica_fleet import capacity
from mica_fleet.machines import board_called
from mica_fleet.member import firmware
from mica_fleet.reports import State


def state(up: bool = True, **about: Any) -> State:
    """A Pico W with all that a model needs."""
    there: dict[str, Any] = {
        "board": "Raspberry Pi Pico W with RP2040",
        "format": "1.1",
        "heap": 160_000,
        "arena": 16_384,
        "largest": 32_768,
        "kernels": ",".join(k.name for k in KERNELS),
        "python": True,
        "models": {},
        "sizes": {},
        "free": 100_000,
    }
    return State(up, 1, 1, there | about)


@pytest.fixture(scope="module")
def data(digits_file: Path) -> bytes:
    return digits_file.read_bytes()


def why(data: bytes, **about: Any) -> str:
    return capacity.misfits({"d.mica": data}, {"b1": state(**about)}).get("b1", "")


def test_each_reason_has_its_line(data: bytes) -> None:
    n = len(data)
    crc = zlib.crc32(data)
    heap = predict(codec.decode(data), data, load_board("RPI_PICO_W"), Table.read()).ram["tables"] + n
    assert why(data) == ""
    assert why(data, heap=heap) == ""
    assert why(data, heap=heap - 1).startswith(f"d.mica takes {heap:,} bytes of heap ({n:,} for the file, ")
    assert why(data, heap=heap - n, rom=[100_000, 0]) == "", "in a ROMFS it is used in place"
    assert "3,072 for tensors, " in why(data, heap=heap + 3071, arena=3071) and not why(
        data, heap=heap + 3072, arena=3071
    )
    assert why(data, format="2.0") == "d.mica has the file format 1.1; b1 reads 2.0"
    some = "add_s8,conv2d_s8,fully_connected_s8,softmax_s8"
    assert not why(data, kernels=some), "MicroPython computes the others"
    assert why(data, kernels=some, python=False) == (
        "d.mica needs depthwise_conv2d_s8, max_pool2d_s8, which the firmware of b1 lacks"
    )
    assert why(data, largest=63) == "d.mica: a request has 64 bytes of inputs; b1 takes 63"
    assert why(data, free=n) == "" and why(data, free=n - 1) == f"d.mica: {n:,} bytes; b1 has {n - 1:,} free for files"
    assert not why(data, free=0, models={"d.mica": f"{crc:08x}"}, sizes={"d.mica": n}), "it is there"
    # the half that is written holds what stays as well
    used = {"rom": [3 * n, 2 * n + 10], "models": {"/rom/d.mica": "00000001"}, "sizes": {"/rom/d.mica": n - 5}}
    assert not why(data, **used)
    assert why(data, **used | {"rom": [2 * n + 14, 2 * n + 10]}).startswith(
        f"d.mica and what stays have {2 * n + 15:,} bytes; half of the ROMFS"
    )
    assert "and what stays have" in why(data, rom=[n, n], sizes={}) or why(data, rom=[n, n]), "sizes may be missing"
    # boards that are off, or of an older version are not judged
    assert not capacity.misfits({"d.mica": data}, {"b1": State(False, 1, 1, {})})
    old = State(True, 1, 1, {"board": "x", "heap": 10, "largest": 32_768, "models": {}})
    assert not capacity.misfits({"d.mica": data}, {"b1": old})


def test_who_cannot_take_it_is_left_out(data: bytes) -> None:
    states = {"b1": state(), "b2": state(heap=9), "b3": state(free=9), "b4": state(up=False)}
    out = capacity.left_out({"d.mica": data}, states, states)
    assert list(out) == ["b2", "b3"] and out["b2"].startswith("d.mica takes ") and out["b2"].endswith("b2 has 9")
    with pytest.raises(MicaError, match=r"b2 has 9 \(and 1 more board cannot take it\); a smaller model"):
        capacity.left_out({"d.mica": data}, states, ["b2", "b3", "b4"])
    with pytest.raises(MicaError, match=r"b3 has 9 free for files; a smaller model"):
        capacity.left_out({"d.mica": data}, states, ["b3", "b4"])
    assert not capacity.left_out({"d.mica": data}, states, ["b1", "b4"])


def test_boards_are_known_by_what_they_call_themselves() -> None:
    for name in ("RPI_PICO_W", "RPI_PICO2_W", "RPI_PICO", "ESP32_GENERIC_S3"):
        header = (load_board(name).folder / "mpconfigboard.h").read_text()
        board = board_called(header.split('BOARD_NAME "')[1].split('"')[0] + " with X")
        assert board is not None and board.name == name
    assert board_called("linux [GCC 12.2.0] version") == load_board("UNIX") and board_called("?") is None
    assert board_called("RPI_PICO@emu") == load_board("RPI_PICO")


def test_what_a_board_says_of_itself(tmp_path: Path, data: bytes) -> None:
    """The agent's own words, of a MicroPython process."""
    program = """
import json, mica_fleet
class None_:
    def __getattr__(self, name):
        return lambda *a, **k: None
a = mica_fleet.Agent({"fleet": "plant", "name": "b1"}, None_())
a._paths = a._find()
print("mica: " + json.dumps(a.about()))
"""
    (tmp_path / "d.mica").write_bytes(data)
    (tmp_path / "e.mica.part").write_bytes(bytes(1000))
    done = subprocess.run([firmware(load_board("UNIX")), "-c", program], cwd=tmp_path, capture_output=True, timeout=60)
    (line,) = [line[6:] for line in done.stdout.decode().splitlines() if line.startswith("mica: ")]
    about = json.loads(line)
    assert about["models"] == {"d.mica": f"{zlib.crc32(data):08x}"} and about["sizes"] == {"d.mica": len(data)}
    assert set(about["kernels"].split(",")) == {k.name for k in KERNELS} and about["python"] is True
    assert about["free"] > 1_000_000 and about["arena"] == 65_536 and about["format"] == "1.1"
    assert not capacity.misfits({"e.mica": data}, {"b1": State(True, 1, 1, about)})
