"""Positions, indices and weights that Resize reads for each output along one axis, as ONNX defines them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Axis:
    """One axis of a Resize: `scale` as the model gives it or as the sizes imply, `roi` for tf_crop_and_resize."""

    n_in: int
    n_out: int
    scale: float
    coordinates: str
    roi: tuple[float, float] = (0.0, 1.0)

    def positions(self) -> Array:
        """Positions of the outputs in x, in elements of x. Raises ValueError for a mode that is not supported."""
        y = np.arange(self.n_out, dtype=np.float64)
        wide = self.scale * self.n_in
        mode = self.coordinates
        if mode == "align_corners":
            return np.zeros_like(y) if wide == 1 else y * (self.n_in - 1) / (wide - 1)
        if mode == "asymmetric":
            return y / self.scale
        if mode == "half_pixel":
            return (y + 0.5) / self.scale - 0.5
        if mode == "pytorch_half_pixel":
            return np.full_like(y, -0.5) if wide == 1 else (y + 0.5) / self.scale - 0.5
        if mode == "half_pixel_symmetric":
            offset = self.n_in / 2 * (1 - self.n_out / wide)
            return offset + (y + 0.5) / self.scale - 0.5
        if mode == "tf_crop_and_resize":
            start, end = self.roi
            reach = (end - start) * (self.n_in - 1)
            at = np.full_like(y, reach / 2) if wide == 1 else y * reach / (wide - 1)
            at = at + start * (self.n_in - 1)
            if np.any((at < 0) | (at > self.n_in - 1)):
                raise ValueError("a region that reaches outside the input (extrapolation_value)")
            return at
        raise ValueError(f"coordinate_transformation_mode '{mode}'")


_ROUND: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda at: np.ceil(at - 0.5),
    "round_prefer_ceil": lambda at: np.floor(at + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def nearest(axis: Axis, rounding: str) -> Array:
    """int64 [n_out]: the element that each output is."""
    if rounding not in _ROUND:
        raise ValueError(f"nearest_mode '{rounding}'")
    return np.clip(_ROUND[rounding](axis.positions()), 0, axis.n_in - 1).astype(np.int64)


def _cubic(a: float) -> Callable[[Array], Array]:
    def kernel(distance: Array) -> Array:
        d = np.abs(distance)
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        return np.where(d <= 1, near, np.where(d < 2, far, 0.0))

    return kernel


def weighted(axis: Axis, cubic: float | None, antialias: bool, exclude_outside: bool) -> tuple[Array, Array]:
    """First element int64 [n_out] and weights float64 [n_out, taps]; beyond the ends, x goes on as it ends.

    cubic: the coefficient of cubic interpolation, None for linear. Antialiasing widens the kernel where x shrinks.
    """
    kernel, radius = (lambda d: np.clip(1 - np.abs(d), 0, 1), 1) if cubic is None else (_cubic(cubic), 2)
    shrink = min(axis.scale, 1.0) if antialias else 1.0
    at = axis.positions()
    reach = math.ceil(radius / shrink)
    # The taps of an output, as many for each: those a little outside the kernel get the weight 0.
    taps = np.ceil(at).astype(np.int64)[:, None] + np.arange(-reach, reach + 1)
    weights = kernel((taps - at[:, None]) * shrink)
    if exclude_outside:
        weights = np.where((taps < 0) | (taps >= axis.n_in), 0.0, weights)
    total = weights.sum(axis=1, keepdims=True)
    weights = weights / np.where(total == 0, 1.0, total)
    taps = np.clip(taps, 0, axis.n_in - 1)
    # The shortest window that holds all taps with a weight, the same length for all outputs.
    used = weights != 0
    low = np.where(used, taps, axis.n_in).min(axis=1)
    high = np.where(used, taps, -1).max(axis=1)
    width = int((high - low).max()) + 1
    first = np.minimum(low, axis.n_in - width)
    table = np.zeros((axis.n_out, width))
    places = np.where(used, taps - first[:, None], 0)
    np.add.at(table, (np.arange(axis.n_out)[:, None], places), np.where(used, weights, 0.0))
    return first, table
