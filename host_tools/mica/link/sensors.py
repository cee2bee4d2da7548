"""Sensors of the virtual Pico, fed from files: what `mica emu --i2s yes.wav` means, checked before anything starts.

boards/common/rp2040/sensors.mjs connects them; it is given numbers in files, and where they are wired.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mica import sounds
from mica.errors import MicaError

PINS = 29  # the highest
_WORD = re.compile(r",([a-z0-9]+)=([^,=]*)$")


@dataclass
class Wired:
    """facts: of one sensor, as sensors.mjs wants them; data: the numbers it gives."""

    facts: dict[str, str | int]
    data: np.ndarray


@dataclass
class Sensors:
    """What is wired to a board, by the name of its bus."""

    wired: dict[str, Wired] = field(default_factory=dict)

    def description(self, folder: Path) -> str:
        """JSON for run.mjs; the numbers go to files in the folder."""
        described = {}
        for bus, sensor in self.wired.items():
            file = folder / bus
            file.write_bytes(sensor.data.tobytes())
            described[bus] = {**sensor.facts, "file": str(file)}
        return json.dumps(described)


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
    """`yes.wav`, or `yes.wav,sck=16,ws=17,sd=18`: a microphone that hears this. Raises MicaError."""
    path, values = words(text, "--i2s", {"sck": 16, "ws": 17, "sd": 18})
    pins("--i2s", values)
    samples, rate = sounds.read_any(path)
    if not 1000 <= rate <= 96000:
        raise MicaError(f"{path}: has {rate} samples a second", todo="a microphone has 1000 to 96000")
    if fault := sounds.clipped(samples):
        raise MicaError(f"{path}: {fault}")
    return Wired({"name": path.name, "rate": rate, **values}, samples.astype("<i2"))
