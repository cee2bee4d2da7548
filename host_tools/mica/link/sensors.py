"""Sensors of the virtual Pico: what they measure, and where they are wired (listen/sensor_files.py reads the files).

boards/common/virtual/sensors.py connects them; it is given the numbers in files.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np


@dataclass
class Wired:
    """facts: of one sensor, as sensors.py there wants them; data: the int16 numbers that it gives."""

    facts: dict[str, str | int]
    data: np.ndarray


@dataclass
class Sensors:
    """Sensors that are wired to a board, by the name of their bus: i2s, adc, imu."""

    wired: dict[str, Wired] = field(default_factory=dict)

    def description(self, folder: Path) -> str:
        """JSON for run.py; the numbers go to files in the folder."""
        described = {}
        for bus, sensor in self.wired.items():
            file = folder / bus
            file.write_bytes(sensor.data.astype("<i2").tobytes())
            described[bus] = {**sensor.facts, "file": str(file)}
        return json.dumps(described)
