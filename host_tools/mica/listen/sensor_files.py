"""Files for the sensors of the virtual Pico: what `mica emu --i2s yes.wav` means, checked before anything starts."""

import re
from pathlib import Path

import numpy as np

from mica.data import calibration, pictures, sounds
from mica.errors import MicaError
from mica.link.sensors import Wired

PINS = 29  # the highest
ANALOGUE = (26, 27, 28)
AXES = 6
SPI_WIRES = {"sck": 2, "mosi": 3, "miso": 4, "cs": 5}
_WORD = re.compile(r",([a-z0-9]+)=([^,=]*)$")


def words(text: str, option: str, defaults: dict[str, int]) -> tuple[Path, dict[str, int]]:
    """FILE,name=N,...: the file, and the numbers with their defaults. Raises MicaError."""
    values = dict(defaults)
    expected = f"expected a file, and perhaps {', '.join(f'{k}={v}' for k, v in defaults.items())} after commas"
    found: list[tuple[str, str]] = []
    while match := _WORD.search(text):
        found.append((match[1], match[2]))
        text = text[: match.start()]
    for key, value in found:
        try:
            number = int(value, 0)
        except ValueError:
            number = -1
        if key not in defaults or number < 0 or [k for k, _ in found].count(key) > 1:
            raise MicaError(f"{option} {text}: '{key}={value}'", todo=expected)
        values[key] = number
    return Path(text), values


def pins(option: str, values: dict[str, int]) -> None:
    """Refuse pins that a Pico does not have, or two sensors' wires at one. Raises MicaError."""
    for key, pin in values.items():
        if pin > PINS:
            raise MicaError(f"{option}: {key}={pin}: a Pico has pins 0 to {PINS}")
    if len(set(values.values())) < len(values):
        raise MicaError(f"{option}: {', '.join(f'{k}={v}' for k, v in values.items())}: one pin for two wires")


def i2s(text: str) -> Wired:
    """`yes.wav`, or `yes.wav,sck=16,ws=17,sd=18`: a microphone that records this sound. Raises MicaError."""
    return _microphone(text, "--i2s", {"sck": 16, "ws": 17, "sd": 18})


def pdm(text: str) -> Wired:
    """`yes.wav`, or `yes.wav,clk=3,data=2`: the same with bits. Raises MicaError."""
    return _microphone(text, "--pdm", {"clk": 3, "data": 2})


def _microphone(text: str, option: str, wires: dict[str, int]) -> Wired:
    path, values = words(text, option, wires)
    pins(option, values)
    samples, rate = sounds.read_any(path)
    if not 1000 <= rate <= 96000:
        raise MicaError(f"{path}: has {rate} samples a second", todo="a microphone has 1000 to 96000")
    if fault := sounds.clipped(samples):
        raise MicaError(f"{path}: {fault}")
    return Wired({"name": path.name, "rate": rate, **values}, samples)


def adc(text: str) -> Wired:
    """`fan.wav`, or `fan.wav,pin=26`: a pin with the voltage of this recording around the middle of its range.
    Raises MicaError."""
    path, values = words(text, "--adc", {"pin": 26})
    if values["pin"] not in ANALOGUE:
        raise MicaError(f"--adc: pin={values['pin']}", todo="expected 26, 27 or 28, a Pico's analogue pins")
    samples, rate = sounds.read_any(path)
    return Wired({"name": path.name, "rate": rate, **values}, samples)


def _two_of_i2c(option: str, values: dict[str, int]) -> None:
    if values["sda"] % 2 or not values["scl"] % 2 or (values["sda"] ^ values["scl"]) & 2:
        raise MicaError(
            f"{option}: sda={values['sda']}, scl={values['scl']} are no two pins of one I2C",
            todo="expected sda even and scl odd, such as 4 and 5, or 2 and 3",
        )


def _at_i2c(values: dict[str, int]) -> None:
    pins("--imu", {k: values[k] for k in ("sda", "scl")})
    _two_of_i2c("--imu", values)
    if not 0x68 <= values["addr"] <= 0x6B:
        todo = "expected 0x68 or 0x69, as an MPU6050 has, or 0x6a or 0x6b of an LSM6DS3"
        raise MicaError(f"--imu: addr={values['addr']:#x}", todo=todo)


def _at_spi(values: dict[str, int]) -> None:
    pins("--imu", values)
    wires = [values[k] for k in SPI_WIRES if k != "cs"]
    if [pin % 4 for pin in wires] != [2, 3, 0] or len({pin >> 3 & 1 for pin in wires}) > 1:
        raise MicaError(
            f"--imu: {', '.join(f'{k}={values[k]}' for k in SPI_WIRES if k != 'cs')} are no three pins of one SPI",
            todo="expected such as sck=2,mosi=3,miso=4, or sck=10,mosi=11,miso=12",
        )


def imu(text: str) -> Wired:
    """`wave.npz`, or `wave.npz,sda=4,scl=5,addr=0x68`: an MPU6050 that moves as this recording, with addr=0x6a an
    LSM6DS3; `wave.npz,sck=2,mosi=3,miso=4,cs=5`: an MPU6500 at SPI. Raises MicaError.

    The file is one of `mica record --imu`: x int16 [1, n, 6] or [n, 6], acceleration and rotation in counts;
    rate, of rows a second.
    """
    at_spi = re.search(r",(sck|mosi|miso|cs)=", text) is not None
    path, values = words(text, "--imu", SPI_WIRES if at_spi else {"sda": 4, "scl": 5, "addr": 0x68})
    (_at_spi if at_spi else _at_i2c)(values)
    arrays = calibration.read_arrays(path)
    x, rate = arrays.get("x", np.zeros(0)), arrays.get("rate", np.array(100))
    if x.ndim == 3 and len(x) == 1:
        x = x[0]
    if x.dtype != np.int16 or x.ndim != 2 or x.shape[1] != AXES or len(x) == 0:
        raise MicaError(
            f"{path}: x has {x.dtype} {list(x.shape)}", todo="expected int16 [1, n, 6], as mica record --imu writes it"
        )
    if rate.ndim or rate.dtype.kind not in "iu" or not 1 <= int(rate) <= 8000:
        raise MicaError(f"{path}: its rate is {rate}", todo="expected 1 to 8000 rows a second")
    return Wired({"name": path.name, "rate": int(rate), **values}, x)


def camera(text: str) -> Wired:
    """`person.png,data=0,xclk=11,sda=14,scl=15`: an OV7670 that sees this picture, or those of a folder in turn.

    With `kind=2640` it is an OV2640. Raises MicaError.
    """
    path, values = words(text, "--camera", {"data": 0, "xclk": 11, "sda": 14, "scl": 15, "kind": 7670})
    kind = values.pop("kind")
    if kind not in (7670, 2640):
        raise MicaError(f"--camera: kind={kind}", todo="expected 7670 or 2640")
    pins("--camera", {f"D{n}": values["data"] + n for n in range(11)} | {k: values[k] for k in ("xclk", "sda", "scl")})
    _two_of_i2c("--camera", values)
    files = pictures.files(path) if path.is_dir() else [path]
    if not files:
        raise MicaError(f"{path}: has no pictures")
    sent = [made for _, made in pictures.readable(files, lambda p: pictures.resized(p, "rgb", 120, 160))]
    return Wired({"name": path.name, "kind": f"ov{kind}", **values}, np.stack(sent).reshape(-1).view("<i2"))


READERS = {"camera": camera, "i2s": i2s, "pdm": pdm, "adc": adc, "imu": imu}
