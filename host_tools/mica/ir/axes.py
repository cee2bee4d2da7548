"""A front end for sensors: what turns a window of samples of several axes into the features that a network was trained
on."""

from dataclasses import dataclass

import numpy as np

from mica.ir.front_end import FrontEnd


@dataclass(frozen=True, eq=False, repr=False)  # equal to itself alone: two tables are not looked through
class AxisFeatures:
    """Computes of each axis its statistics, and then of each band the energy of |FFT(window * (samples - mean))|.

    rows: int16 samples of each of `axes` axes, each worth unit[axis]; `rate` of them a second. stats: numbers in
    `kernels.axes.STATS`. bands: (first bin, number of bins) each; window float64 [rows], zeros behind it to `fft`.
    energy:
    "power" times * sum |X|^2, "rms" its root, or a logarithm of it ("ln", "log2", "log10", "db"), of `least` at least.
    across: features lie one behind the other, each with all axes, in place of axes, each with all features.
    """

    rate: int
    rows: int
    axes: int
    stats: tuple[int, ...]
    unit: np.ndarray  # float64 [axes]
    across: bool
    bands: tuple[tuple[int, int], ...] = ()
    fft: int = 0
    window: np.ndarray | None = None
    energy: str = "rms"
    times: float = 1.0
    least: float = 0.0
    step: float = 1.0  # of a sample, as a number that the graph reads

    @property
    def each(self) -> int:
        """Features of an axis."""
        return len(self.stats) + len(self.bands)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the features."""
        return (self.each, self.axes) if self.across else (self.axes, self.each)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of the samples. Those of a single axis lie like the samples of a sound."""
        return (1, self.rows) if self.axes == 1 else (1, self.rows, self.axes)

    def laid(self, features: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Features as an input of `shape`."""
        return features.reshape(shape)


Front = FrontEnd | AxisFeatures
