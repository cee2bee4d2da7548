"""A board's microphone: the program that reads it, and the lines that come back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mica.errors import MicaError
from mica.file import codec
from mica.file.codec import ModelFile
from mica.link.board import BoardError, Link, Say
from mica.link.diagnosis import check_board
from mica.link.targets import open_board
from mica.listen.detection import Detector, Event, Settings
from mica.listen.gate import Gate
from mica.run import sound
from mica.run.board import Placed, out_of_memory_of, place

_PDM_WORDS = "expected clk=N,data=N and perhaps ratio=64, 128 or 256, gain=1 to 64"
_WORDS = "expected sck=N,ws=N,sd=N and perhaps id=N, bits=16 or 32"
QUIET = 30.0  # seconds in which a board says nothing at all

_PROGRAM = """
import mica, sys
from mica.{module} import listen
{setup}
_words = listen(mica.Model({model}), _source, rate={rate}, bits={bits}, threshold={threshold},
    mean={mean}, dead_ms={dead_ms}, step={step}, labels={labels}, ms={ms}{gate})
_model = _gate = None
try:
    for _e in _words:
        if _e.label is None:
            print('problem', _e.ms, _e.problem)
        else:
            print('event', _e.ms, _e.score, _words._names.index(_e.label))
finally:
    _words.close()
    if hasattr(_source, 'deinit'):
        _source.deinit()
print('used', _words.used)
"""


def _values(option: str, text: str, keys: Sequence[str], named: Sequence[str], words: str) -> dict[str, Any]:
    """Numbers of `key=1,key=2`; names, too, of the keys in `named`. Raises MicaError, which says `words`."""
    values: dict[str, Any] = {}
    for word in text.split(","):
        key, _, value = word.partition("=")
        is_name = key in named and value.isidentifier()
        if key not in keys or key in values or not (value.isdecimal() or is_name):
            raise MicaError(f"{option} {text}: '{word}'", todo=words)
        values[key] = value if is_name else int(value)
    return values


@dataclass(frozen=True)
class Microphone:
    """An I2S microphone of one channel by the numbers of its pins.
    bits: of a sample as I2S gives it, which reads 32 and keeps the upper ones."""

    sck: int
    ws: int
    sd: int
    id: int = 0
    bits: int = 16
    wires: ClassVar[str] = "SCK, WS and SD"

    @classmethod
    def read(cls, text: str) -> Microphone:
        """`sck=16,ws=17,sd=18`. Raises MicaError."""
        values = _values("--i2s", text, ("sck", "ws", "sd", "id", "bits"), (), _WORDS)
        if not {"sck", "ws", "sd"} <= set(values) or values.get("bits", 16) not in (16, 32):
            raise MicaError(f"--i2s {text}", todo=_WORDS)
        return cls(**values)

    def setup(self, rate: int) -> str:
        """Statements that make _source on the board: mica.pio_i2s, which costs it no time, or machine.I2S."""
        pins = ", ".join(f"{name}=Pin({pin})" for name, pin in (("sck", self.sck), ("ws", self.ws), ("sd", self.sd)))
        return f"""
try:
    if sys.platform != 'rp2' or {self.bits} != 16: raise ImportError
    from mica.pio_i2s import Microphone
    _source = Microphone({self.sck}, {self.ws}, {self.sd}, {rate})
except ImportError:
    from machine import I2S, Pin
    _source = I2S({self.id}, {pins}, mode=I2S.RX, bits={self.bits}, format=I2S.MONO, rate={rate}, ibuf=20000)
"""


@dataclass(frozen=True)
class PdmMicrophone:
    """A PDM microphone by its pins, numbers or names that the board knows. ratio: bits of a sample."""

    clk: int | str
    data: int | str
    ratio: int = 64
    gain: int = 1
    bits: ClassVar[int] = 16
    wires: ClassVar[str] = "CLK and DATA"

    @classmethod
    def read(cls, text: str) -> PdmMicrophone:
        """`clk=3,data=2`. Raises MicaError."""
        values = _values("--pdm", text, ("clk", "data", "ratio", "gain"), ("clk", "data"), _PDM_WORDS)
        ratio, gain = values.get("ratio", 64), values.get("gain", 1)
        if not {"clk", "data"} <= set(values) or ratio not in (64, 128, 256) or not 1 <= gain <= 64:
            raise MicaError(f"--pdm {text}", todo=_PDM_WORDS)
        return cls(**values)

    def setup(self, rate: int) -> str:
        """Statements that make _source on the board."""
        words = f"{self.clk!r}, {self.data!r}, {rate}, ratio={self.ratio}, gain={self.gain}"
        return f"from mica.pdm import Microphone\n_source = Microphone({words})\n"


def listen(
    data: bytes,
    target: str,
    microphone: Microphone | PdmMicrophone,
    settings: Settings,
    seconds: float | None,
    tell: Callable[[Event], None],
    say: Say,
    gate: tuple[Gate, bytes] | None = None,
) -> float | None:
    """Listens at a board for so long, or until it is interrupted; returns the share of the time that the model took.
    Raises MicaError.

    gate: a small model, and its file, whose answers let the model run.
    """
    model = codec.decode(data)
    Detector(model, settings)  # settings that the model cannot have are told before the board is asked
    sound.input_of(model, "a microphone")
    if gate is not None:
        gate[0].check(codec.decode(gate[1]), model)
    with open_board(target, progress=say) as board:
        check_board(board, data)
        return listen_at(board, data, microphone, settings, seconds, tell, say, gate)


def listen_at(
    board: Link,
    data: bytes,
    microphone: Microphone | PdmMicrophone,
    settings: Settings,
    seconds: float | None,
    tell: Callable[[Event], None],
    say: Say,
    gate: tuple[Gate, bytes] | None = None,
) -> float | None:
    """The same on a board that is open."""
    placed = None
    try:
        placed = place(board, data, "_model")
        words = "" if gate is None else _gate_words(gate[0], place(board, gate[1], "_gate"))
        return _follow(board, codec.decode(data), (placed.source, words), microphone, settings, seconds, tell, say)
    except BoardError as e:
        if "no samples" in str(e):
            raise MicaError(f"{board.name}: {e.found}", todo=f"are {microphone.wires} at these pins?") from None
        if e.exception == "ImportError" and isinstance(microphone, PdmMicrophone):
            raise MicaError(
                f"{board.name}: cannot read a PDM microphone", todo="take a board with an RP2040 or RP2350"
            ) from None
        if e.exception == "MemoryError":
            raise out_of_memory_of(board, data, placed) from None
        raise


def _gate_words(gate: Gate, placed: Placed) -> str:
    """The settings of mica.gate.listen."""
    return (
        f", gate=mica.Model({placed.source}), gate_threshold={gate.threshold}, lead_ms={gate.lead}, hold_ms={gate.hold}"
    )


def _follow(
    board: Link,
    model: ModelFile,
    sources: tuple[str, str],
    microphone: Microphone | PdmMicrophone,
    settings: Settings,
    seconds: float | None,
    tell: Callable[[Event], None],
    say: Say,
) -> float | None:
    detector = Detector(model, settings)
    names, rate = detector.names, sound.input_of(model, "a microphone").rate
    labelled = set(names) <= set(model.metadata.get("labels", "").split("\n"))
    keys: list[str | int] = [name if labelled else int(name) for name in names]  # what the board calls them
    own = dict(zip(keys, detector.least.tolist(), strict=True))
    program = _PROGRAM.format(
        model=sources[0],
        module="gate" if sources[1] else "audio",
        gate=sources[1],
        setup=microphone.setup(rate),
        rate=rate,
        bits=microphone.bits,
        threshold=own if settings.thresholds else settings.threshold,
        mean=list(settings.means) or settings.mean,
        dead_ms=settings.dead_ms,
        step=settings.step,
        labels=[keys[names.index(label)] for label in settings.labels] or None,
        ms=0 if seconds is None else round(seconds * 1000),
    )
    half = b""
    used: float | None = None

    def lines(received: bytes) -> None:
        nonlocal half, used
        *whole, half = (half + received).split(b"\n")
        for raw in whole:
            kind, _, rest = raw.decode("utf-8", "replace").strip().partition(" ")
            try:
                if kind == "event":
                    ms, score, k = rest.split()
                    tell(Event(names[int(k)], float(score), int(ms)))
                elif kind == "problem":
                    ms, _, what = rest.partition(" ")
                    say(f"warning: at {int(ms) / 1000:.2f} s: {what}")
                elif kind == "used":
                    used = float(rest)
            except (ValueError, IndexError):
                raise MicaError(f"{board.name}: its answer was damaged on the way", todo="try again") from None

    board.exec_follow(program, lines, None if seconds is None else seconds + QUIET)
    return used
