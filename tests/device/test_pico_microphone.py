"""The virtual Picos' microphone: machine.I2S, PIO and mica.pio_i2s of the firmware, by the board's clock,
with the samples of a recording."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from targets import PICO, PICO2
from tones import write_wav

from mica.boards import load_board
from mica.cli.main import main
from mica.errors import MicaError
from mica.link.emulated import EmulatedBoard, start_emulator
from mica.link.sensors import Sensors
from mica.link.serial_board import SerialBoard
from mica.link.targets import open_board
from mica.listen import sensor_files
from mica.toolchain.build import BuildResult

RATE = 16000
MICROPHONE = """
from array import array
from machine import I2S, Pin
from time import ticks_diff, ticks_us
def microphone(bits=16, rate=16000, format=I2S.MONO, sck=16):
    pins = dict(sck=Pin(sck), ws=Pin(sck + 1), sd=Pin(sck + 2))
    return I2S(0, mode=I2S.RX, bits=bits, format=format, rate=rate, ibuf=8000, **pins)
def record(n, **options):
    m = microphone(**options)
    sum(range(3000))  # for longer than DMA's buffer lasts, without a look at any register
    x = array("h", bytes(2 * n))
    m.readinto(x)
    m.deinit()
    return x
"""

FILLED = """
import sys
from array import array
from time import sleep_ms
from machine import mem32
from mica.pio_i2s import Microphone
busy = (24, 12) if "RP2040" in sys.implementation._machine else (26, 16)
def channels():
    "How many channels of DMA are at work."
    return sum([mem32[0x50000010 + 64 * k] >> busy[0] & 1 for k in range(busy[1])])
def machines():
    return mem32[0x50200000] & 15, mem32[0x50300000] & 15
"""


@pytest.fixture(scope="module")
def sound() -> np.ndarray:
    """int16 [1600], a tenth of a second of everything, both ends of the range in it."""
    x = np.random.default_rng(3).integers(-32768, 32768, 1600).astype(np.int16)
    x[:4] = 1, -1, -32768, 32767
    return x


@pytest.fixture(scope="module", params=[PICO, PICO2])
def of_module(
    request: pytest.FixtureRequest, sound: np.ndarray, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmulatedBoard]:
    wav = write_wav(tmp_path_factory.mktemp("i2s") / "noise.wav", sound)
    wired = Sensors({"i2s": sensor_files.i2s(str(wav))})
    with open_board(request.param, rom_files={"there.txt": b"is"}, sensors=wired) as board:
        assert isinstance(board, EmulatedBoard)
        yield board


@pytest.fixture
def board(of_module: EmulatedBoard) -> EmulatedBoard:
    of_module.soft_reset()
    of_module.exec(MICROPHONE)
    of_module.emulator.notes()
    return of_module


def numbers(board: EmulatedBoard, code: str, dtype: str = "<i2") -> np.ndarray:
    board.exec(f"_x = {code}")
    return np.frombuffer(board.get("_x"), dtype)


def begun(x: np.ndarray) -> int:
    """Return the frame in which the clock begins: it has no bit but the level that the line was left with."""
    assert x[0] in (0, np.iinfo(x.dtype).min)
    return int(x[0])


def test_every_sample(board: EmulatedBoard, sound: np.ndarray) -> None:
    """16 bits, 32 bits, two channels: the frame in which the clock begins is empty, then come all,
    and silence when they have ended."""
    x = numbers(board, "record(1700)")
    np.testing.assert_array_equal(x, np.r_[begun(x), sound, np.zeros(99)])
    assert board.emulator.notes() == ["microphone: noise.wav has ended, after 0.10 s: it is silent"]
    x = numbers(board, "record(800, bits=32)", "<i4")
    np.testing.assert_array_equal(x, np.r_[begun(x), sound[:399].astype(int) << 16])
    both = numbers(board, "record(800, format=I2S.STEREO)").reshape(-1, 2)
    np.testing.assert_array_equal(both[:, 0], np.r_[begun(both[:, 0]), sound[:399]])
    assert not both[:, 1].any() and board.emulator.notes() == []


def test_nothing_is_left_of_a_recording_that_was_broken_off(board: EmulatedBoard, sound: np.ndarray) -> None:
    """The rest of a word that the clock's end broke off is not sent in the next recording's first frame."""
    board.exec("from time import sleep_ms")
    for n in range(100, 124, 3):
        board.exec(f"record({n}); sleep_ms(200)")
        x = numbers(board, "record(50)")
        np.testing.assert_array_equal(x, np.r_[begun(x), sound[:49]], f"after {n}")
        board.exec("sleep_ms(200)")


def test_time(board: EmulatedBoard) -> None:
    """Samples take their time, while the program waits for them and while it does something else."""
    code = """
m = microphone()
x = array("h", bytes(1024))
m.readinto(x)
a = ticks_us()
for _ in range(4): m.readinto(x)
b = ticks_us()
n = 0
def more(m):
    global n
    n += 1
    m.readinto(x)
m.irq(more)
m.readinto(x)
while ticks_diff(ticks_us(), b) < 150_000: pass
m.deinit()
print(ticks_diff(b, a), n)
"""
    took, n = map(int, board.exec(code).split())
    assert abs(took - 4 * 512 * 1e6 / RATE) < 2000 and n == 4


def test_another_rate(board: EmulatedBoard) -> None:
    assert not numbers(board, "record(400, rate=8000)")[2:].any()
    assert board.emulator.notes() == [
        "microphone: the board reads 8000 samples a second, and noise.wav has 16000: it is silent"
    ]


def test_other_pins(board: EmulatedBoard) -> None:
    """Nothing is there."""
    assert not numbers(board, "record(400, sck=6)").any() and board.emulator.notes() == []


@pytest.mark.parametrize("sm", [7, 2])
def test_filled_by_dma(board: EmulatedBoard, sound: np.ndarray, sm: int) -> None:
    """Every sample, twice round a ring, and again with another;
    at the end nothing is at work, and nothing of PIO's memory is taken."""
    board.exec(FILLED)
    code = f"""
x = memoryview(array("h", bytes(2 * 1700)))
for block in (256, 50, 64):
    ring = Microphone(16, 17, 18, sm={sm}).ring(700, block)
    for end in range(100, 1701, 100):
        while ring.count < end: pass
        ring.copy(end, x[end - 100 : end])
    print(ring.size, channels(), *machines())
    ring.close()
    ring.close()
    sleep_ms(20)  # so that the recording begins again
print(channels(), *machines(), 1700 <= ring.count < 1800, ring.count == ring.count)
"""
    on = f"0 {1 << sm - 4}" if sm > 3 else f"{1 << sm} 0"
    assert board.exec(code).decode().splitlines() == [
        *(f"{size} 1 {on}" for size in (768, 700, 704)),
        "0 0 0 True True",
    ]
    np.testing.assert_array_equal(numbers(board, "x"), np.r_[0, sound, np.zeros(99)])


def test_filled_while_nobody_looks(board: EmulatedBoard, sound: np.ndarray) -> None:
    """The time tells how often the ring went round; its content is the newest samples."""
    board.exec(FILLED)
    code = """
ring = Microphone(16, 17, 18).ring(256, 256)
sleep_ms(70)
n = ring.count
x = array("h", bytes(2 * 100))
ring.copy(n, x)
ring.close()
print(n)
"""
    n = int(board.exec(code))
    assert 69 * 16 <= n < 75 * 16  # sleep_ms() counts whole milliseconds, the first of which has begun
    np.testing.assert_array_equal(numbers(board, "x"), sound[n - 101 : n - 1])


def test_filled_by_one(board: EmulatedBoard) -> None:
    """If two microphones take the same state machine, the first one ends; a mistake gives one line."""
    board.exec(FILLED)
    code = """
a = Microphone(16, 17, 18).ring(256, 256)
sleep_ms(5)
b = Microphone(16, 17, 18).ring(256, 256)
n = a.count
sleep_ms(5)
print(a.count - n, b.count > 40, channels())
a.close()
sleep_ms(5)
print(b.count > 100, channels())
b = None
import gc, rp2
gc.collect()
print(channels(), *machines())
Microphone(16, 17, 18).ring(256, 256).close()
taken = [rp2.DMA() for _ in range(busy[1] - 1)]
for words in ((16, 18, 17), (16, 17, 18, 16000, 8), (16, 17, 18)):
    try:
        Microphone(*words).ring(256, 256)
    except (ValueError, OSError) as e:
        print(e)
for d in taken: d.close()
print(channels(), *machines())
"""
    assert board.exec(code).decode().splitlines() == [
        "0 True 1",
        "True 1",
        "1 0 8",
        "ws is pin 18; pin 17 is expected, the one after sck",
        "sm is 8; 0 to 7 is expected",
        "2 channels of DMA are needed, and 1 are free",
        "0 0 0",
    ]


def test_soft_reset_ends_dma(board: EmulatedBoard) -> None:
    """After a soft reset no DMA goes on writing into the next program's heap."""
    board.exec(FILLED)
    board.exec("ring = Microphone(16, 17, 18).ring(2000, 256)\nat = ring._begin[0]")
    assert board.exec("sleep_ms(5)\nprint(channels(), ring.count > 40, at >> 28)") == b"1 True 2\n"
    board.soft_reset()
    board.exec(FILLED)
    assert board.exec("print(channels(), *machines())") == b"0 0 0\n"


def test_pio_keeps_time(board: EmulatedBoard) -> None:
    """Dividers, delays, waits for a word and for another machine's interrupt; and DMA at the pace of a machine."""
    code = """
import rp2
@rp2.asm_pio()
def counts():
    pull()
    mov(x, osr)
    label("again")
    jmp(x_dec, "again") [9]
    push()
@rp2.asm_pio()
def waits():
    wait(1, irq, 0)
    push()
@rp2.asm_pio()
def asks():
    set(x, 19) [31]
    label("again")
    jmp(x_dec, "again") [31]
    irq(0)
def took(machine, freq, n):
    machine.put(n - 1)
    begun = ticks_us()
    machine.get()
    return ticks_diff(ticks_us(), begun)
a = rp2.StateMachine(0, counts, freq=1_000_000)
b = rp2.StateMachine(1, counts, freq=125_000_000)
a.active(1)
b.active(1)
print(took(a, 1_000_000, 2000), took(b, 125_000_000, 200_000))
a.active(0)
b.active(0)
w, q = rp2.StateMachine(4, waits, freq=10_000_000), rp2.StateMachine(5, asks, freq=1_000_000)
w.active(1)
q.active(1)
w.get()
begun = ticks_us()
for _ in range(10): w.get()
print(ticks_diff(ticks_us(), begun))
w.active(0)
q.active(0)
@rp2.asm_pio(autopush=True, push_thresh=32, in_shiftdir=rp2.PIO.SHIFT_LEFT)
def ramps():
    mov(x, invert(null))
    label("again")
    mov(isr, x) [19]
    push()
    jmp(x_dec, "again")
r = rp2.StateMachine(0, ramps, freq=2_000_000)
d = rp2.DMA()
words = array("I", bytes(4 * 1500))
d.config(read=0x50200020, write=words, count=1500, ctrl=d.pack_ctrl(inc_read=False, treq_sel=4))
begun = ticks_us()
d.active(1)
r.active(1)
while d.active(): pass
print(ticks_diff(ticks_us(), begun), [w ^ 0xffffffff for w in words] == list(range(1500)))
d.close()
"""
    pauses, fast, asked, moved, right = board.exec(code).split()
    assert abs(int(pauses) - 20_000) < 200 and abs(int(fast) - 16_000) < 200
    assert abs(int(asked) - 10 * (32 + 20 * 32 + 1)) < 150
    assert abs(int(moved) - 1500 * 11) < 400 and right == b"True"


def test_pio_begins_at_once(board: EmulatedBoard) -> None:
    """A program that looks at no register sees an interrupt of PIO as soon as it comes: after a machine has started,
    after a word for one that waits, after one less in a full FIFO, after a level at a pin."""
    waits = {
        "nop()": "m.active(1)",
        "pull()": "m.put(1)",
        "for _ in range(5): push()": "m.get()",
        "wait(1, gpio, 9)": "pin.value(1)",
    }
    board.exec("import rp2\nfrom time import sleep_ms\npin = Pin(9, Pin.OUT, value=0)")
    for first, cause in waits.items():
        code = f"""
@rp2.asm_pio()
def program():
    {first}
    irq(rel(0))
    label("end")
    jmp("end")
def came(m):
    global seen
    seen = True
def loops():
    {cause}
    for n in range(1000):
        if seen: return n
seen = False
m = rp2.StateMachine(0, program, freq=10_000_000)
m.irq(came, hard=True)
{"" if "active" in cause else "m.active(1)"}
sleep_ms(20)
print(seen, loops())
m.active(0)
rp2.PIO(0).remove_program()
"""
        before, loops = board.exec(code, timeout=60).split()
        assert before == b"False" and int(loops) < 20, first  # PIO steps each 2,000 cycles; a turn has 300,000


def test_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], sound: np.ndarray) -> None:
    """Settings are refused before anything starts, in one line that says what to do."""
    quiet = sound // 2
    files = {
        "slow.wav": write_wav(tmp_path / "slow.wav", quiet, rate=100),
        "fast.wav": write_wav(tmp_path / "fast.wav", quiet, rate=100000),
        "empty.wav": write_wav(tmp_path / "empty.wav", quiet[:0]),
        "loud.wav": write_wav(tmp_path / "loud.wav", np.full(99, 32767, np.int16)),
        "half.wav": tmp_path / "half.wav",
        "none.wav": tmp_path / "none.wav",
        "good.wav": write_wav(tmp_path / "good.wav", quiet),
    }
    files["half.wav"].write_bytes(files["good.wav"].read_bytes()[:20])
    for words, said in {
        "slow.wav": "has 100 samples a second; expected 1,000 or more",
        "fast.wav": "has 100000 samples a second; a microphone has 1000 to 96000",
        "empty.wav": "holds no samples; record it again",
        "loud.wav": "100.00% of its samples are clipped; record with less gain",
        "half.wav": "cannot be read as a sound file",
        "none.wav": "no such file",
        "good.wav,sck=30,ws=31,sd=32": "sck=30: a Pico has pins 0 to 29",
        "good.wav,sck=16,ws=17,sd=16": "one pin for two wires",
        "good.wav,sck=a": "'sck=a'; expected a file, and perhaps sck=16, ws=17, sd=18 after commas",
        "good.wav,id=1": "'id=1'; expected a file",
    }.items():
        assert main(["emu", "RPI_PICO@emu", "--i2s", str(tmp_path / words)]) == 1
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1, error
    with pytest.raises(
        MicaError, match=r"MPS2_AN385 has no sensors; the virtual Picos have: RPI_PICO@emu, RPI_PICO2@emu"
    ):
        start_emulator(
            load_board("MPS2_AN385"), tmp_path, sensors=Sensors({"i2s": sensor_files.i2s(f"{files['good.wav']}")})
        )


def test_mica_emu(firmware: Callable[[str], BuildResult], tmp_path: Path, sound: np.ndarray) -> None:
    """`mica emu` for another program: the pins are those of the option, and it prints the microphone's messages."""
    firmware("RPI_PICO")
    wav = write_wav(tmp_path / "two words.wav", sound)
    command = [sys.executable, "-c", "import sys; from mica.cli.main import main; sys.exit(main())"]
    command += ["emu", "RPI_PICO@emu", "--json", "--i2s", f"{wav},sck=2,ws=3,sd=4"]
    environment = {**os.environ, "MICA_FLASH": str(tmp_path / "flash.bin")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        lines = ""
        while not lines.endswith("}\n"):
            line = process.stdout.readline()
            assert line, process.communicate()[1]
            lines += line
        said = json.loads(lines)
        with SerialBoard(said["port"]) as board:
            board.exec(MICROPHONE)
            board.exec("x = record(1700, sck=2)")
            np.testing.assert_array_equal(np.frombuffer(board.get("x"), "<i2"), np.r_[0, sound, np.zeros(99)])
        assert process.stderr is not None
        ended = "mica: microphone: two words.wav has ended, after 0.10 s: it is silent\n"
        stop = threading.Timer(300, process.kill)
        stop.start()
        assert ended in iter(process.stderr.readline, "")
        stop.cancel()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=300)
    assert process.returncode == 130
