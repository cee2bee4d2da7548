"""What the kernel of features of speech is given: integers throughout, as TensorFlow Lite Micro's front end has them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False, repr=False)
class Speech:
    """Constants and parameters of `pcan_s8` by their names. worth: of a step of what it rounds to int8, as a feature."""

    blobs: Mapping[str, np.ndarray]
    params: Mapping[str, int]
    worth: float
