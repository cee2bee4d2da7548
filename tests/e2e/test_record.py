"""`mica record` with stand-ins for sensors, on MicroPython on this computer: the files hold the sensors' data."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mica.cli import record
from mica.cli.main import main
from mica.data import sounds
from mica.errors import MicaError
from mica.link.board import BoardError, Link
from mica.link.targets import open_board
from mica.listen import recorder

SENSORS = """
import sys

class time:
    "Each look at the clock takes 20 us, whatever else this computer does."
    now = 0
    def ticks_us():
        time.now += 20
        return time.now
    def ticks_diff(a, b):
        return a - b
    def ticks_add(a, b):
        return a + b

sys.modules["time"] = time

class Pin:
    def __init__(self, number):
        self.number = number

class ADC:
    "Counts; pin 27 has nothing on it, pin 28 is slow, pin 29 too loud."
    def __init__(self, pin):
        self.pin, self.n = pin.number, 0
    def read_u16(self):
        self.n += 1
        if self.pin == 28:
            time.now += 5000
        return 32768 if self.pin == 27 else 65535 if self.pin == 29 and self.n > 1 else 32768 + self.n

class I2S:
    RX = MONO = 1
    closed = 0
    def __init__(self, id, *, sck, ws, sd, mode, bits, format, rate, ibuf):
        self.bits, self.n = bits, 0
    def readinto(self, buffer):
        k = 1 if self.bits == 16 else 2
        for i in range(len(buffer) // k):
            buffer[k * i + k - 1] = self.n % 30000
            if k == 2:
                buffer[2 * i] = 77
            self.n += 1
        return 2 * len(buffer)
    def deinit(self):
        I2S.closed += 1

class I2C:
    def __init__(self, id, *, sda, scl, freq):
        self.n, self.there = 0, sda.number == 4
    def writeto_mem(self, address, register, data):
        if not self.there or address != 0x68:
            raise OSError(5)
        assert (register, data) == (0x6B, b"\\0")
    def readfrom_mem_into(self, address, register, buffer):
        assert (register, len(buffer)) == (0x3B, 14)
        for k, v in enumerate((-self.n, 1000, 16384, 99, 2, 3, 4)):
            buffer[2 * k], buffer[2 * k + 1] = v >> 8 & 255, v & 255
        self.n += 1

class machine:
    pass

machine.Pin, machine.ADC, machine.I2S, machine.I2C = Pin, ADC, I2S, I2C
sys.modules["machine"] = machine
"""


@pytest.fixture(scope="module")
def board() -> Iterator[Link]:
    with open_board("UNIX", rom_files={}) as board:
        board.exec(SENSORS)
        yield board


@pytest.fixture
def opened(board: Link, monkeypatch: pytest.MonkeyPatch) -> Link:
    """The board with the sensors, which the command opens in place of any target."""
    monkeypatch.setattr(record, "open_board", lambda target, progress: contextlib.nullcontext(board))
    return board


@pytest.mark.parametrize(("words", "skipped"), [("bits=16", 1600), ("bits=32", 1600), ("id=1", 1600)])
def test_microphone(opened: Link, words: str, skipped: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After a tenth of a second in which it wakes up, sample by sample; numbers go on where there are files already."""
    args = ["record", "--on", "UNIX", "--i2s", f"sck=16,ws=17,sd=18,{words}", "--label", "yes", "-o", str(tmp_path)]
    assert main([*args, "--seconds", "0.5", "--count", "2", "--json"]) == 0
    r = json.loads(capsys.readouterr().out)
    assert [Path(f["file"]).name for f in r["files"]] == ["0001.wav", "0002.wav"] and r["rate"] == 16000
    for name in ("0001.wav", "0002.wav"):
        x = sounds.read(tmp_path / "yes" / name, 16000)
        np.testing.assert_array_equal(x, skipped + np.arange(8000))
    assert main(args) == 0
    assert "0003.wav  16000 samples" in capsys.readouterr().out
    assert sorted(p.name for p in (tmp_path / "yes").iterdir()) == ["0001.wav", "0002.wav", "0003.wav"]


def test_analogue_pin(opened: Link, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["record", "--on", "UNIX", "--label", "fan", "-o", str(tmp_path), "--seconds", "0.1"]
    assert main([*args, "--adc", "26"]) == 0
    np.testing.assert_array_equal(sounds.read(tmp_path / "fan" / "0001.wav", 1000), 1 + np.arange(100))
    assert main([*args, "--adc", "29"]) == 0
    assert "99.00% of its samples are clipped; record with less gain" in capsys.readouterr().err
    for words, said in (
        (["--adc", "27"], "all samples are 0; is the analogue pin connected, at these pins?"),
        (["--adc", "28"], "it cannot read 1000 a second; take a lower --rate"),
        (["--adc", "A0"], "expected the number of a pin"),
        (["--adc", "26", "--seconds", "0"], "expected at least one sample"),
        (["--adc", "26", "--count", "0"], "expected at least one sample"),
        (["--adc", "26", "--label", "a/b"], "a folder's name"),
        (["--i2s", "sck=1"], "expected sck=N"),
    ):
        assert main([*args, *words]) == 1
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1, error
    assert len(list((tmp_path / "fan").iterdir())) == 2


def test_motion_sensor(opened: Link, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows of acceleration and rotation, without the temperature between them."""
    args = ["record", "--on", "UNIX", "--label", "wave", "-o", str(tmp_path), "--seconds", "0.2"]
    assert main([*args, "--imu", "mpu6050,sda=4,scl=5"]) == 0
    with np.load(tmp_path / "wave" / "0001.npz") as data:
        x, rate = data["x"], int(data["rate"])
    assert rate == 100 and x.shape == (1, 20, 6) and x.dtype == np.int16
    np.testing.assert_array_equal(x[0, :, 0], -np.arange(20))
    assert x[0, 7, 1:].tolist() == [1000, 16384, 2, 3, 4]
    capsys.readouterr()
    for words, said in (
        ("mpu6050,sda=6,scl=7", "is the sensor connected, at these pins and this address?"),
        ("mpu6050,sda=4,scl=5,addr=0x69", "is the sensor connected"),
        ("mpu6050,sda=4", "expected mpu6050 or lsm6ds3,sda=N,scl=N"),
        ("adxl345,sda=4,scl=5", "expected mpu6050 or lsm6ds3,sda=N,scl=N"),
        ("mpu6050,sda=x,scl=5", "'sda=x'"),
        ("mpu6500,sck=2,mosi=3,miso=4", "or mpu6500,sck=N,mosi=N,miso=N,cs=N"),
        ("mpu6500,sck=2,mosi=3,miso=4,cs=-1", "or mpu6500,sck=N"),
    ):
        assert main([*args, "--imu", words]) == 1
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1, error


def test_damaged_on_its_way(board: Link, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clip is still on the board: it is fetched again, and never written with a wrong byte."""
    really, failures = board.get, [BoardError("damaged"), BoardError("damaged")]

    def get(expr: str, limit: int) -> bytes:
        if failures:
            raise failures.pop()
        return really(expr, limit)

    monkeypatch.setattr(board, "get", get)
    ((path, x),) = recorder.record(board, recorder.adc("26"), tmp_path, 1, 0.05, 1000)
    np.testing.assert_array_equal(x, 1 + np.arange(50))
    failures += [BoardError("damaged")] * recorder.TRIES
    with pytest.raises(BoardError, match="damaged"):
        next(recorder.record(board, recorder.adc("26"), tmp_path, 1, 0.05, 1000))
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_numbers(tmp_path: Path) -> None:
    assert recorder.next_number(tmp_path / "none") == 1
    for name in ("0007.wav", "0009.npz", "12.wav", "0100.wav.part", "notes.txt"):
        (tmp_path / name).write_bytes(b"")
    assert recorder.next_number(tmp_path) == 10
    with pytest.raises(MicaError, match="cannot be written"):
        recorder.save(tmp_path / "notes.txt", 1, np.zeros(3, np.int16), 16000)
