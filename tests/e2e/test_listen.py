"""mica.audio on MicroPython on this computer: sources of each kind, bad ones, and no sound lost or told twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tones import tone

from mica.data import sounds
from mica.errors import MicaError
from mica.link.board import BoardError, Link
from mica.link.targets import open_board
from mica.listen import detection
from mica.listen.microphone import Microphone, listen_at
from mica.run.host import HostRunner

SOURCES = """
import asyncio
from array import array
import mica
from mica import audio
from mica.wav import Wav

class Quick:
    "Gives the samples in pieces of odd lengths, without interrupts."
    def __init__(self, x, rate=None):
        self.x, self.at = memoryview(x), 0
        if rate:
            self.rate = rate
    def readinto(self, buffer):
        n = min(len(buffer), 100, len(self.x) - self.at)
        buffer[:n] = self.x[self.at : self.at + n]
        self.at += n
        return 2 * n

class Interrupts:
    "Calls its handler when it is told to: give(n) blocks."
    def __init__(self, x):
        self.x, self.at, self.wide = memoryview(x), 0, False
    def irq(self, handler):
        self.handler = handler
    def readinto(self, buffer):
        self.buffer = buffer
    def give(self, n):
        for _ in range(n):
            buffer = self.buffer
            samples = self.x[self.at : self.at + 256]
            if len(buffer) == 512:
                for i in range(256):
                    buffer[2 * i + 1] = samples[i]
            else:
                buffer[:] = samples
            self.at += 256
            self.handler(self)

def tell(events):
    for e in events:
        print(e.label, e.ms, e.problem)

m = mica.Model("tones.mica")
sound = array("h", bytes(2 * 32000))
Wav("tones.wav").readinto(sound)
"""


@pytest.fixture(scope="module")
def unix_of_module(tones: Path) -> Iterator[Link]:
    with open_board("UNIX", rom_files={}) as board:
        for file in (tones, tones.with_suffix(".wav")):
            board.put(file.read_bytes(), "_data")
            board.exec(f"with open('{file.name}', 'wb') as _f: _f.write(_data)\ndel _f, _data")
        yield board


@pytest.fixture
def board(unix_of_module: Link) -> Link:
    unix_of_module.soft_reset()
    unix_of_module.exec(SOURCES)
    return unix_of_module


def lines(board: Link, code: str) -> list[str]:
    return board.exec(code, timeout=60).decode().splitlines()


def refused(board: Link, code: str) -> str:
    with pytest.raises(BoardError) as error:
        board.exec(code)
    return str(error.value)


def expected(tones: Path, threshold: float, mean: int, step: int) -> list[str]:
    """Lines by the rules from the host's answers: mean scores, a second between two, a label once until it is below."""
    x = sounds.read(tones.with_suffix(".wav"), 16000)
    ends = range(1600, len(x) + 1, step)
    with HostRunner(tones.read_bytes()) as runner:
        answers = np.stack(
            [runner.predict(x[None, None, e - 1600 : e].astype(np.float32))[0].reshape(-1) for e in ends]
        )
    events, said, last = [], None, -1000
    for k in range(mean - 1, len(answers)):
        scores = answers[k - mean + 1 : k + 1].mean(axis=0)
        best, ms = int(np.argmax(scores[:2])), ends[k] * 1000 // 16000
        said = said if said is not None and scores[said] >= threshold else None
        if scores[best] >= threshold and best != said and ms - last >= 1000:
            said, last = best, ms
            events.append(f"{('low', 'high')[best]} {ms} None")
    return events


@pytest.mark.parametrize(("mean", "step", "threshold"), [(2, 400, 0.8), (1, 1600, 0.6), (4, 333, 0.75)])
def test_every_source_alike(board: Link, tones: Path, mean: int, step: int, threshold: float) -> None:
    """A file, pieces of any length, interrupts of 16 and of 32 bits, plain and asynchronous, as the host says."""
    said = expected(tones, threshold, mean, step)
    assert len(said) >= 2
    with HostRunner(tones.read_bytes()) as runner:
        settings = detection.Settings(threshold, mean, 1000, step)
        events = detection.detect(runner, sounds.read(tones.with_suffix(".wav"), 16000), settings)
        assert [f"{e.label} {e.ms} None" for e in events] == said
    words = f"threshold={threshold}, mean={mean}, step={step}"
    assert lines(board, f"tell(audio.listen(m, Wav('tones.wav'), {words}))") == said
    assert lines(board, f"tell(audio.listen(m, Quick(sound), {words}))") == said
    code = f"""
async def hear(events):
    async for e in events:
        tell([e])
asyncio.run(hear(audio.listen(m, Quick(sound), {words})))
"""
    assert lines(board, code) == said
    for bits in (16, 32):
        code = f"""
source = Interrupts(sound)
audio.sleep_ms = lambda ms: source.give(1) if source.at + 256 <= len(sound) else 1 / 0
try:
    tell(audio.listen(m, source, bits={bits}, {words}))
except ZeroDivisionError:
    pass
"""
        assert lines(board, code) == said


def test_thresholds_of_labels(board: Link, tones: Path) -> None:
    """A label with a threshold out of reach gives no event; others stay as before, on the board as on the host."""
    for own, rest in (({"low": 0.8, "high": 1.0}, 0.7), ({"high": 0.8}, 0.7), ({"low": 1.0}, 0.7)):
        settings = detection.Settings(rest, 2, 1000, 400, (), own)
        with HostRunner(tones.read_bytes()) as runner:
            events = list(detection.detect(runner, sounds.read(tones.with_suffix(".wav"), 16000), settings))
        assert {e.label for e in events} == {"low", "high"} - {label for label in own if own[label] == 1}
        said = lines(board, f"tell(audio.listen(m, Wav('tones.wav'), threshold={own}, mean=2, step=400))")
        assert said == [f"{e.label} {e.ms} None" for e in events]
    assert "threshold: the model has no label 'maybe'" in refused(
        board, "audio.listen(m, Wav('tones.wav'), threshold={'maybe': 1})"
    )


def test_overrun(board: Link) -> None:
    """A late model skips to the newest samples, and reports how many it has skipped."""
    code = """
source = Interrupts(sound)
found = audio.listen(m, source, step=400, mean=1, threshold=0.6, spare=2)
source.give(60)
e = next(found)
print(e.label, e.ms, e.problem)
source.give(2)
print(found._ring.count, found._end)
e = next(found)
print(e.label, e.problem)
"""
    first, counts, second = lines(board, code)
    assert (
        first
        == f"None {60 * 256 // 16} overrun: {60 * 256 - 1600} samples were lost; take a longer step, a larger spare, "
        "or a smaller model"
    )
    assert counts == f"{62 * 256} {60 * 256}"
    assert second == "low None"


def test_unplugged(board: Link) -> None:
    """A second of equal samples is reported once; no samples at all are an error."""
    code = "tell(audio.listen(m, Quick(array('h', bytes(2 * 48000))), labels=['high'], threshold=2))"
    (line,) = lines(board, code)
    assert line.startswith("None") and "is the microphone connected" in line
    # Nor again after each sound in digital silence: within a minute it is known.
    board.exec(
        "x = array('h', bytes(2 * 12 * 16000))\n"
        "for at in range(24000, len(x) - 800, 32000):\n for k in range(800): x[at + k] = k * 7919 % 2001 - 1000"
    )
    assert len(lines(board, "tell(audio.listen(m, Quick(x), labels=['high'], threshold=2))")) == 1
    board.exec("audio.sleep_ms = lambda ms: None")
    assert "no samples: is its clock running?" in refused(board, "next(audio.listen(m, Interrupts(sound)))")


def test_refused(board: Link) -> None:
    assert "8000 samples a second and the model takes 16000" in refused(board, "audio.listen(m, Quick(sound, 8000))")
    assert "8000 samples a second" in refused(board, "audio.listen(m, Quick(sound), rate=8000)")
    assert "no label 'yes', only low, high" in refused(board, "audio.listen(m, Quick(sound), labels=['yes'])")
    assert "bits is 24" in refused(board, "audio.listen(m, Quick(sound), bits=24)")
    assert "mean and step" in refused(board, "audio.listen(m, Quick(sound), mean=0)")
    assert "no setting 'treshold', only rate, labels, threshold, " in refused(
        board, "audio.listen(m, Quick(sound), treshold=1)"
    )
    board.exec(
        "open('text.wav', 'w').write('nothing'); open('half.wav', 'wb').write(open('tones.wav', 'rb').read()[:30])"
    )
    assert "text.wav: no .wav file" in refused(board, "Wav('text.wav')")
    assert "half.wav: ends before its samples" in refused(board, "Wav('half.wav')")
    board.exec("d = bytearray(open('tones.wav', 'rb').read())\nd[22] = 2\nopen('stereo.wav', 'wb').write(d)")
    assert "2 channels of 16 bits" in refused(board, "Wav('stereo.wav')")


def test_samples_as_they_are(board: Link, tones: Path) -> None:
    """array("h") and numbers are the same input, its bytes are as the tensor itself; all give the host's answer."""
    x = tone(np.random.default_rng(7), "high")
    with HostRunner(tones.read_bytes()) as runner:
        (answer,) = runner.run([[x[None]]])[0]
    board.put(x.tobytes(), "x")
    code = """
m = mica.Model("tones.mica")
print(m.input_dtype, m.input_shape)
for way in (array("h", x), mica.Quantised(x), memoryview(array("h", x)), list(array("h", x))):
    print(bytes(m.predict([way], raw=True)[0]).hex())
"""
    head, *found = lines(board, code)
    assert head == "('h',) ((1, 1600),)"
    assert found == [answer.tobytes().hex()] * 4
    assert "fewer than the 1600 values" in refused(board, "m.predict([array('h', x)[:1599]])")
    assert "mica.Quantised" in refused(board, "m.predict([x])")
    assert "a buffer of 3200 bytes is expected for 1600 values, not of 3199" in refused(
        board, "m.predict([mica.Quantised(x[:3199])])"
    )


def test_mica_listen(tones: Path, unix_of_module: Link) -> None:
    """`mica listen` at a board's microphone prints an event a line as they come, and the microphone's messages."""
    board = unix_of_module
    board.soft_reset()
    board.exec((Path(__file__).parent / "i2s_stand_in.py").read_text())
    events: list[detection.Event] = []
    problems: list[str] = []
    settings = detection.Settings(0.8, 2, 1000, 400)
    microphone = Microphone.read("sck=16,ws=17,sd=18")
    used = listen_at(board, tones.read_bytes(), microphone, settings, 1.9, events.append, problems.append)
    assert [e.label for e in events] == ["low", "high"] and used is not None and 0 < used < 1
    assert [f"{e.label} {e.ms} None" for e in events] == expected(tones, 0.8, 2, 400) and not problems
    events.clear()
    listen_at(
        board, tones.read_bytes(), microphone, replace(settings, thresholds={"low": 1.0}), 1.9, events.append, print
    )
    assert [e.label for e in events] == ["high"]


def test_microphone_words() -> None:
    for words in ("", "sck=1,ws=2", "sck=1,ws=2,sd=x", "sck=1,ws=2,sd=3,bits=24", "sck=1,sck=1,ws=2,sd=3"):
        with pytest.raises(MicaError, match="expected sck=N"):
            Microphone.read(words)


def test_a_ring_of_most_of_the_heap() -> None:
    """A second of sound beside its model: nothing is there twice, not even for a moment."""
    with open_board("MPS2_AN385") as board:
        program = "import gc\nfrom mica.audio import Ring\ngc.collect()\n"
        program += "n = gc.mem_free() * 3 // 10\nprint(Ring(None, n).size >= n)"
        assert board.exec(program).decode().strip() == "True"
