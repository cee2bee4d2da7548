"""The virtual Picos' analogue pin and motion sensor: machine.ADC, machine.I2C and machine.SPI of the firmware,
in the board's time, with the numbers of a file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from targets import PICO, PICO2
from tones import write_wav

from mica.cli.main import main
from mica.link.emulated import EmulatedBoard
from mica.link.sensors import Sensors
from mica.link.targets import open_board
from mica.listen import recorder, sensor_files

ROWS = 60


@pytest.fixture(scope="module")
def moves() -> np.ndarray:
    """int16 [60, 6]: each row counts, all of the range occurs."""
    x = np.random.default_rng(4).integers(-32768, 32768, (ROWS, 6)).astype(np.int16)
    x[:, 0] = np.arange(ROWS) * 256
    return x


@pytest.fixture(scope="module")
def hum() -> np.ndarray:
    """int16 [300], in the steps of 12 bits."""
    return (np.arange(300) * 211 % 4096 * 16 - 32768).astype(np.int16)


@pytest.fixture(scope="module", params=[PICO, PICO2])
def target(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def of_module(
    target: str, moves: np.ndarray, hum: np.ndarray, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmulatedBoard]:
    folder = tmp_path_factory.mktemp("sensors")
    np.savez(folder / "wave.npz", x=moves[None], rate=100)
    write_wav(folder / "hum.wav", hum, rate=1000)
    imu, adc = sensor_files.imu(f"{folder / 'wave.npz'},sda=2,scl=3"), sensor_files.adc(f"{folder / 'hum.wav'},pin=27")
    with open_board(target, rom_files={"there.txt": b"is"}, sensors=Sensors({"imu": imu, "adc": adc})) as board:
        assert isinstance(board, EmulatedBoard)
        yield board


@pytest.fixture
def board(of_module: EmulatedBoard) -> EmulatedBoard:
    of_module.soft_reset()
    of_module.emulator.notes()
    return of_module


def test_recorded_pin(board: EmulatedBoard, hum: np.ndarray, tmp_path: Path) -> None:
    """`mica record --adc`: each sample of its moment, in 16 bits of which the converter has 12."""
    ((path, x),) = recorder.record(board, recorder.adc("27"), tmp_path, 1, 0.25, 1000)
    assert path.suffix == ".wav" and len(x) == 250
    np.testing.assert_array_equal((x.astype(int) + 32768) >> 4, (hum[:250].astype(int) + 32768) >> 4)
    (read,) = ast.literal_eval(board.exec("from machine import ADC\nprint([ADC(2).read_u16()])").decode())
    assert read == 0  # nothing is at pin 28
    board.exec("import time\na = ADC(1)\na.read_u16()\nfor _ in range(4):\n    time.sleep(0.1)\n    a.read_u16()")
    assert board.emulator.notes() == ["pin 27: hum.wav has ended, after 0.30 s: it stays in the middle"]


def test_samples_by_dma(board: EmulatedBoard, hum: np.ndarray) -> None:
    """mica.analog gives every sample while the program sleeps, reports losses, and frees its channel afterwards.

    On an RP2350, whose DMA counts less far, samples go on when the count has come to its end."""
    code = """
import mica.analog
mica.analog._CHIPS["RP2350"] = mica.analog._CHIPS["RP2350"][:2] + (512, 1 << 28)
from array import array
from time import sleep_ms
from mica.analog import Analog
for pin, rate, ring in ((27, 700, 256), (27, 1000, 100), (5, 1000, 256)):
    try:
        Analog(pin, rate, ring)
    except ValueError as e:
        print(e)
x, n = array("h", bytes(500)), 0
sleep_ms(250)  # after a pause the recording begins again
with Analog(27, 1000, 256) as a:
    while n < 250:
        sleep_ms(40)
        n += (a.readinto(memoryview(x)[n:]) or 0) // 2
    sleep_ms(300)
    try:
        a.readinto(x)
    except OSError as e:
        print(e)
    sleep_ms(20)
    print(15 < a.readinto(x[:100]) // 2 < 25, a.rate)
with Analog(27, 1000, 256):
    pass
"""
    *refused, lost, goes_on = board.exec(code).decode().splitlines()
    assert refused == [
        "rate is 700; 733 to 100000 is expected",
        "ring is 100; a power of two from 16 to 16384 is expected",
        "Pin doesn't have ADC capabilities",
    ]
    np.testing.assert_array_equal(np.frombuffer(board.get("x"), "<i2"), hum[:250])
    assert lost.startswith("overrun: 3") and lost.endswith("samples were lost; take a larger ring, or a smaller model")
    assert goes_on == "True 1000"


def test_recorded_moves(board: EmulatedBoard, moves: np.ndarray, tmp_path: Path) -> None:
    """`mica record --imu`: row by row, a hundred a second."""
    imu = recorder.imu("mpu6050,id=1,sda=2,scl=3")
    ((_, x),) = recorder.record(board, imu, tmp_path, 1, 0.5, 100)
    np.testing.assert_array_equal(x, moves[:50])
    with pytest.raises(Exception, match="is the sensor connected, at these pins"):
        next(recorder.record(board, recorder.imu("mpu6050,id=0,sda=4,scl=5"), tmp_path, 1, 0.05, 100))
    with pytest.raises(Exception, match="is the sensor connected, at these pins"):
        next(recorder.record(board, recorder.imu("mpu6050,id=1,sda=2,scl=3,addr=0x69"), tmp_path, 1, 0.05, 100))


def test_registers(board: EmulatedBoard, moves: np.ndarray) -> None:
    """A register tells its kind. It sleeps at first, has ranges, its FIFO fills up once, and a byte takes its time."""
    code = """
from machine import I2C, Pin
from struct import unpack
from time import sleep_ms, ticks_diff, ticks_us
i = I2C(1, sda=Pin(2), scl=Pin(3), freq=400_000)
def get(r, n=1): return i.readfrom_mem(0x68, r, n)
def put(r, v): i.writeto_mem(0x68, r, bytes([v]))
put(0x6B, 0x80)
print(get(0x75), get(0x3B, 14) == bytes(6) + bytes(8))
put(0x6B, 0)
sleep_ms(102)
t = ticks_us()
row = get(0x3B, 14)
print(unpack('>7h', row), ticks_diff(ticks_us(), t))
put(0x1C, 0x18)
put(0x1A, 1); put(0x19, 9); put(0x23, 0x78); put(0x6A, 0x04)
put(0x6B, 0); put(0x6A, 0x40)
sleep_ms(105)
n = unpack('>H', get(0x72, 2))[0]
print(n, [unpack('>h', get(0x74, 12))[0] for _ in range(n // 12)], get(0x72, 2))
sleep_ms(900)
print(unpack('>H', get(0x72, 2))[0], get(0x3A)[0] & 0x10, get(0x3A)[0] & 0x10)
"""
    known, row, fifo, full = board.exec(code).decode().splitlines()
    assert known == "b'h' True"
    numbers, took = ast.literal_eval(f"({row.replace(') ', '), ')})")
    assert (*numbers[:3], *numbers[4:]) == tuple(moves[10])
    assert 17 * 22 < took < 17 * 22 + 500  # of 9 bits of 2.5 us each; its Python waits for flash
    count, rest = fifo.split(" ", 1)
    first, left = ast.literal_eval(rest.replace("] ", "], "))
    assert count == "120" and left in (b"\0\0", b"\0\x0c")  # reading them takes nearly as long as a row
    assert first == [int(n) >> 3 for n in moves[1:11, 0]]  # at a range of 16 g
    assert full == "1024 16 0"
    assert board.emulator.notes() == ["motion sensor: wave.npz has ended, after 0.60 s: it lies still"]


@pytest.fixture(scope="module")
def at_spi(target: str, moves: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedBoard]:
    folder = tmp_path_factory.mktemp("spi")
    np.savez(folder / "wave.npz", x=moves[None], rate=100)
    wired = sensor_files.imu(f"{folder / 'wave.npz'},sck=10,mosi=11,miso=12,cs=13")
    with open_board(target, sensors=Sensors({"imu": wired})) as board:
        assert isinstance(board, EmulatedBoard)
        yield board


def test_recorded_moves_at_spi(at_spi: EmulatedBoard, moves: np.ndarray, tmp_path: Path) -> None:
    """An MPU6500 gives the same rows; the other bus and another chip select get no answer."""
    words = "mpu6500,id=1,sck=10,mosi=11,miso=12,cs={}"
    ((_, x),) = recorder.record(at_spi, recorder.imu(words.format(13)), tmp_path, 1, 0.5, 100)
    np.testing.assert_array_equal(x, moves[:50])
    for other in (words.format(15), "mpu6500,sck=2,mosi=3,miso=4,cs=5"):
        with pytest.raises(Exception, match="is the sensor connected, at these pins"):
            next(recorder.record(at_spi, recorder.imu(other), tmp_path, 1, 0.05, 100))


def test_rows_of_its_fifo_at_spi(at_spi: EmulatedBoard, moves: np.ndarray) -> None:
    """mica.motion.MPU6500 gives row after row, also by DMA. Its FIFO is half of an MPU6050's; a full one is
    reported."""
    code = """
from array import array
from machine import Pin, SPI
from time import sleep_ms, ticks_diff, ticks_us
import mica.motion
s = SPI(1, 1_000_000, sck=Pin(10), mosi=Pin(11), miso=Pin(12))
try:
    mica.motion.MPU6500(s, Pin(14))
except OSError as e:
    print(e)
sensor = mica.motion.MPU6500(s, Pin(13), rate=100)
x = array("h", bytes(12 * 60))
sleep_ms(205)
n = sensor.read(x, 0, 60)
sleep_ms(50)
n += sensor.read(x, n, 60)
print(n, [x[6 * i] for i in range(n)], list(x[6:12]))
raw = bytearray(14)
t = ticks_us()
sensor._get(0x3B, raw)
print(ticks_diff(ticks_us(), t))
sleep_ms(480)
print(sensor.read(x, 0, 60), sensor.read(x, 0, 60))
"""
    missing, rows, took, full = at_spi.exec(code).decode().splitlines()
    assert missing == "no motion sensor answers: is it connected, at these pins?"
    n, rest = rows.split(" ", 1)
    first, second = ast.literal_eval(rest.replace("] [", "], ["))
    assert int(n) in (24, 25, 26) and first == [256 * (1 + i) for i in range(int(n))]
    assert second == moves[2].tolist()
    assert 15 * 8 < int(took) < 15 * 8 + 500
    assert full == "-1 0"


def test_pins_by_hand(board: EmulatedBoard, moves: np.ndarray) -> None:
    """scan() finds it, and SoftI2C reads and writes; the bus's own block goes on afterwards."""
    code = """
from machine import I2C, Pin, SoftI2C
from struct import unpack
from time import sleep_ms
i = I2C(1, sda=Pin(2), scl=Pin(3), freq=400_000)
print(i.scan(), i.readfrom_mem(0x68, 0x75, 1))
s = SoftI2C(sda=Pin(2), scl=Pin(3), freq=400_000)
s.writeto_mem(0x68, 0x6B, b'\\x80')
s.writeto_mem(0x68, 0x6B, b'\\0')
sleep_ms(100)
print(s.scan(), s.readfrom_mem(0x68, 0x75, 1), unpack('>7h', s.readfrom_mem(0x68, 0x3B, 14)))
try:
    s.readfrom_mem(0x69, 0x75, 1)
except OSError as e:
    print(e)
print(I2C(1, sda=Pin(2), scl=Pin(3), freq=400_000).readfrom_mem(0x68, 0x6B, 1))
"""
    first, second, missing, last = board.exec(code).decode().splitlines()
    assert first == "[104] b'h'" and missing == "[Errno 19] ENODEV" and last == "b'\\x00'"
    assert second.startswith("[104] b'h' ")
    row = ast.literal_eval(second[11:])
    assert (*row[:3], *row[4:]) in {tuple(int(v) for v in moves[k]) for k in (10, 11)}


def test_lsm6ds3(target: str, moves: np.ndarray, tmp_path: Path) -> None:
    """mica.motion.LSM6DS3 and `mica record --imu lsm6ds3` give row after row;
    ranges, a full FIFO and a missing sensor."""
    np.savez(tmp_path / "wave.npz", x=moves[None], rate=104)
    wired = sensor_files.imu(f"{tmp_path / 'wave.npz'},addr=0x6a")
    with open_board(target, rom_files={"there.txt": b"is"}, sensors=Sensors({"imu": wired})) as board:
        code = """
from array import array
from machine import I2C, Pin
from time import sleep_ms
import mica.motion
i = I2C(0, sda=Pin(4), scl=Pin(5), freq=400_000)
sensor = mica.motion.LSM6DS3(i)
x = array("h", bytes(12 * 60))
n = 0
while n < 40:
    sleep_ms(60)
    n += sensor.read(x, n, 40 - n)
print(n, i.readfrom_mem(0x6A, 0x0F, 1)[0])
i.writeto_mem(0x6A, 0x10, b"\x44")  # 16 g, of which a count is 8 of 2 g
sensor._empty()
sleep_ms(11)
y = array("h", bytes(12 * 60))
print(sensor.read(y, 0, 1))
i.writeto_mem(0x6A, 0x0A, bytes((10 << 3 | 6,)))  # 6.66 kHz: 4095 words are full in a tenth of a second
sleep_ms(120)
print(sensor.read(y, 1, 60), sensor.read(y, 1, 60))
for call in (lambda: mica.motion.LSM6DS3(i, 100), lambda: mica.motion.LSM6DS3(i, address=0x6B)):
    try:
        call()
    except (OSError, ValueError) as e:
        print(e)
"""
        rows, one, over, rate, missing = board.exec(code).decode().splitlines()
        got = np.frombuffer(board.get("x"), "<i2").reshape(60, 6)[:40]
        np.testing.assert_array_equal(got, moves[1:41])
        later = np.frombuffer(board.get("y"), "<i2").reshape(60, 6)[0]
        assert any((later == [*(row[:3].astype(int) >> 3), *row[3:]]).all() for row in moves)
        assert (rows, one, over) == ("40 105", "1", "-1 0")
        assert "one of 26, 52, 104, 208, 416, 833 is expected" in rate and missing.endswith(("EIO", "ENODEV"))
        imu = recorder.imu("lsm6ds3,sda=4,scl=5")
        board.exec("i.writeto_mem(0x6A, 0x12, b'\\1')")  # a reset
        ((_, x),) = recorder.record(board, imu, tmp_path, 1, 0.3, 104)
        np.testing.assert_array_equal(x, moves[:31])


def test_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], moves: np.ndarray) -> None:
    good, flat, odd = (tmp_path / name for name in ("good.npz", "flat.npz", "odd.npz"))
    np.savez(good, x=moves, rate=100)
    np.savez(flat, x=moves[:, 0], rate=100)
    np.savez(odd, x=moves, rate=0)
    wav = write_wav(tmp_path / "a.wav", moves[:, 0], rate=1000)
    for option, words, said in (
        ("--imu", f"{good},sda=3,scl=4", "are no two pins of one I2C; expected sda even and scl odd"),
        ("--imu", f"{good},sda=4,scl=7", "are no two pins of one I2C"),
        ("--imu", f"{good},addr=0x20", "addr=0x20; expected 0x68 or 0x69"),
        ("--imu", f"{good},sck=2,mosi=3,miso=8", "miso=8 are no three pins of one SPI; expected such as sck=2"),
        ("--imu", f"{good},sck=3,mosi=2", "are no three pins of one SPI"),
        ("--imu", f"{good},cs=4", "one pin for two wires"),
        ("--imu", str(flat), "x has int16 [60]; expected int16 [1, n, 6], as mica record --imu writes it"),
        ("--imu", str(odd), "its rate is 0; expected 1 to 8000"),
        ("--imu", str(wav), "a.wav: is sound; expected an .npz or .npy file"),
        ("--imu", str(tmp_path / "none.npz"), "no such file"),
        ("--adc", f"{wav},pin=5", "pin=5; expected 26, 27 or 28"),
        ("--adc", str(good), "cannot be read as a sound file"),
    ):
        assert main(["emu", "RPI_PICO@emu", option, words]) == 1
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1, error
