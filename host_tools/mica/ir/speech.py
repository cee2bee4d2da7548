"""Parameters of the kernel for features of speech: all integers, those of TensorFlow Lite Micro's front end."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False, repr=False)
class Speech:
    """Constants and parameters of `pcan_s8` by their names. worth: of a step of what it rounds to int8, as a feature."""

    blobs: Mapping[str, np.ndarray]
    params: Mapping[str, int]
    worth: float
