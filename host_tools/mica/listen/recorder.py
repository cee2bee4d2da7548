"""Recordings of a board's sensor, into files that `pack --calib` and `eval` read.

A clip is recorded into the board's memory, where no port is too slow, and fetched from there with its CRC-32; where it
was damaged on its way it is fetched again. Files are numbered; a clip is written whole or not at all, so what was
interrupted goes on where it ended.
"""

import contextlib
import math
import re
import wave
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mica import whole
from mica.data import pictures, sounds
from mica.errors import MicaError, writing
from mica.link import on_board
from mica.link.board import SILENCE, BoardError, Link
from mica.listen.microphone import Microphone, PdmMicrophone

WAKE_MS = 100  # of a microphone, whose first samples are none
TRIES = 3  # to fetch a clip
_NUMBERED = re.compile(r"(\d{4,9})\.(?:wav|npz|png)")
_IMU = {  # the words of each sensor, in the order of record_motion, with what they are where they are not said
    "mpu6050": {"id": 0, "sda": None, "scl": None, "addr": 0x68},
    "lsm6ds3": {"id": 0, "sda": None, "scl": None, "addr": 0x6A},
    "mpu6500": {"id": 0, "sck": None, "mosi": None, "miso": None, "cs": None},
}
_IMU_TODO = "expected mpu6050 or lsm6ds3,sda=N,scl=N and perhaps id=N, addr=0x68; or mpu6500,sck=N,mosi=N,miso=N,cs=N"


@dataclass(frozen=True)
class Sensor:
    """program: the file of link/on_board that records; arguments: for so many samples. columns: numbers of a sample.
    picture: of a camera, which gives one and no samples.
    """

    what: str
    program: str
    arguments: Callable[[int, int], tuple[object, ...]]  # (samples, samples a second)
    columns: int = 1
    picture: tuple[int, int, int] | None = None  # height, width, bytes of a pixel


def i2s(text: str) -> Sensor:
    """`sck=16,ws=17,sd=18`. Raises MicaError."""
    m = Microphone.read(text)
    return Sensor(
        "microphone", "record_i2s", lambda n, rate: (m.id, m.sck, m.ws, m.sd, m.bits, rate, n, rate * WAKE_MS // 1000)
    )


def pdm(text: str) -> Sensor:
    """`clk=3,data=2`. Raises MicaError."""
    m = PdmMicrophone.read(text)
    return Sensor(
        "microphone", "record_pdm", lambda n, rate: (m.clk, m.data, m.ratio, m.gain, rate, n, rate * WAKE_MS // 1000)
    )


def adc(text: str) -> Sensor:
    """A pin's number. Raises MicaError."""
    if not text.isdecimal():
        raise MicaError(f"--adc {text}", todo="expected the number of a pin")
    return Sensor("analogue pin", "record_adc", lambda n, rate: (int(text), n, 1_000_000 // rate))


def imu(text: str) -> Sensor:
    """`mpu6050,sda=4,scl=5`, at I2C, or `mpu6500,sck=2,mosi=3,miso=4,cs=5`, at SPI. Raises MicaError."""
    kind, *words = text.split(",")
    if kind not in _IMU:
        raise MicaError(f"--imu {text}", todo=_IMU_TODO)
    values = dict(_IMU[kind])
    for word in words:
        key, _, value = word.partition("=")
        try:
            values[key] = int(value, 0)
        except ValueError:
            raise MicaError(f"--imu {text}: '{word}'", todo=_IMU_TODO) from None
    wires = tuple(v for v in values.values() if v is not None and v >= 0)
    if values.keys() != _IMU[kind].keys() or len(wires) < len(values):
        raise MicaError(f"--imu {text}", todo=_IMU_TODO)
    return Sensor("motion sensor", "record_motion", lambda n, rate: (wires, n, 1_000_000 // rate), 6)


_CAMERA = {"id": 1, "sda": 14, "scl": 15, "data": 0, "xclk": 11, "width": 160, "height": 120, "mirror": 0, "flip": 0}
_CAMERA_TODO = (
    f"expected ov7670 or ov2640, and perhaps {', '.join(f'{k}={v}' for k, v in _CAMERA.items())}, exposure=N, rgb565be"
)
SETTLE_MS = 500  # of a camera's exposure


def camera(text: str) -> Sensor:
    """`ov7670,width=96,height=96`, in grey, or with `rgb565be` in colours. Raises MicaError."""
    kind, *words = text.split(",")
    values: dict[str, int] = dict(_CAMERA)
    format_ = "rgb565be" if "rgb565be" in words else "grey"
    for word in words:
        key, _, value = word.partition("=")
        if word != format_ and (key not in (*_CAMERA, "exposure") or not value.isdecimal()):
            raise MicaError(f"--camera {text}: '{word}'", todo=_CAMERA_TODO)
        values.update({key: int(value)} if value else {})
    if kind not in ("ov7670", "ov2640"):
        raise MicaError(f"--camera {text}", todo=_CAMERA_TODO)
    wires = [values.pop(k) for k in ("id", "sda", "scl")]
    settings = {**values, "format": format_}
    size = (values["height"], values["width"], 1 if format_ == "grey" else 2)
    return Sensor("camera", "record_camera", lambda n, rate: (kind, *wires, settings, SETTLE_MS), picture=size)


def _pixels(data: bytes, size: tuple[int, int, int]) -> np.ndarray:
    """uint8 [height, width, 1 or 3], of RGB565 with its low bits filled up."""
    if size[2] == 1:
        return np.frombuffer(data, np.uint8).reshape(size)
    words = np.frombuffer(data, ">u2").reshape(size[:2]).astype(np.uint32)
    parts = (words >> 11 << 3, words >> 5 << 2 & 0xFC, words << 3 & 0xF8)
    return np.stack([p | p >> (6 if k == 1 else 5) for k, p in enumerate(parts)], axis=-1).astype(np.uint8)


def clip(board: Link, sensor: Sensor, n: int, rate: int) -> np.ndarray:
    """int16 [n] or [n, columns], or uint8 of a picture. Raises MicaError where the sensor cannot do it,
    or gives nothing."""
    program = on_board.call(sensor.program, *sensor.arguments(n, rate), into="_clip, _late")
    try:
        late = int(board.exec(program + "print(_late)\n", timeout=n / rate + SILENCE))
        size = math.prod(sensor.picture) if sensor.picture else 2 * n * sensor.columns
        data = _fetched(board, size)
    except BoardError as e:
        if e.exception == "MemoryError":
            raise MicaError(
                f"{board.name}: has no {2 * n * sensor.columns:,} bytes free for {n / rate:g} s",
                todo="take fewer --seconds",
            ) from None
        if sensor.picture or (e.exception == "OSError" and sensor.columns > 1):
            raise MicaError(
                f"{board.name}: {e.found}", todo="is the sensor connected, at these pins and this address?"
            ) from None
        raise
    finally:
        with contextlib.suppress(BoardError):  # one that is gone has said so
            board.exec("_clip = None\n")
    if late > n // 100:
        raise MicaError(
            f"{board.name}: {late} of {n} samples came late: it cannot read {rate} a second", todo="take a lower --rate"
        )
    if sensor.picture:
        return _pixels(data, sensor.picture)
    x = np.frombuffer(data, "<i2").reshape(-1, sensor.columns)
    if (x == x[0]).all():
        raise MicaError(
            f"{board.name}: all samples are {int(x[0, 0])}", todo=f"is the {sensor.what} connected, at these pins?"
        )
    return x[:, 0] if sensor.columns == 1 else x


def _fetched(board: Link, size: int) -> bytes:
    for left in range(TRIES, 0, -1):
        try:
            data = board.get("_clip", limit=2 * size + 10_000)
            if len(data) == size:
                return data
        except BoardError as e:
            if e.exception or left == 1:
                raise
    raise BoardError(f"{board.name}: sent a clip of {len(data):,} bytes, not {size:,}", todo="try again")


def next_number(folder: Path) -> int:
    """One more than the largest there is."""
    found = [int(m[1]) for p in folder.iterdir() if (m := _NUMBERED.fullmatch(p.name))] if folder.is_dir() else []
    return max(found, default=0) + 1


def save(folder: Path, number: int, x: np.ndarray, rate: int) -> Path:
    """A clip as NNNN.wav, or NNNN.npz where a sample has several numbers: x int16 [1, n, columns], and rate.

    A picture becomes NNNN.png. Raises MicaError.
    """
    is_picture = x.dtype == np.uint8
    path = folder / f"{number:04d}{sounds.ENDING if x.ndim == 1 else '.png' if is_picture else '.npz'}"
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
    with whole.file(path) as file:
        if x.ndim == 1:
            with wave.open(file, "wb") as sound:
                sound.setparams((1, 2, rate, 0, "NONE", ""))
                sound.writeframes(x.astype("<i2").tobytes())
        elif is_picture:
            file.write(pictures.png(x))
        else:
            np.savez(file, x=x[None], rate=rate)
    return path


def record(
    board: Link, sensor: Sensor, folder: Path, count: int, seconds: float, rate: int
) -> Iterator[tuple[Path, np.ndarray]]:
    """So many clips, one after the other, each with its file. Raises MicaError."""
    for _ in range(count):
        x = clip(board, sensor, round(seconds * rate), rate)
        yield save(folder, next_number(folder), x, rate), x
