"""Per-channel energy normalisation: from real numbers to those of `pcen_s8`."""

import math

import numpy as np

from mica.format.values import clip_s16
from mica.ir.front_end import Pcen
from mica.ir.graph import Quant
from mica.kernels import pcen
from mica.reference.front_end import curve
from mica.reference.functions import log

LN2 = 0.6931471805599453
_OCTAVES = 127  # on each side of 1: as far as a logarithm may be from `origin`
_NEAR = 8  # units of the curve, 2**-8 of a step: it begins and ends where it is so near to what it would become


def parameters(
    p: Pcen, q: Quant, limits: tuple[float | None, float | None], more: float
) -> tuple[dict[str, int], np.ndarray]:
    """Return those of the normalisation, and the curve int16 [points]. more: what an energy of the kernel is more
    than the real one.

    Raises ValueError where the kernel has no numbers for them.
    """
    alpha = round(p.alpha * 2**pcen.PLACES)
    places, first, points = _shape(p, q, limits)
    values = _units(p, q, limits, first + np.arange(points) / 2**places)
    eps, eps_exponent = _number(p.eps * more)
    start, start_exponent = (0, 0) if p.start is None else _number(p.start * more)
    if p.start is not None and start == 0:  # which would be a first energy
        start, start_exponent = 1, pcen.LEAST_EXPONENT
    origin = first + (1 - alpha / 2**pcen.PLACES) * float(log(np.array(more))) / LN2
    if abs(origin) * 65536 > pcen.ORIGIN_LIMIT:
        raise ValueError("a front end whose energies lie too far from 1; change its unit")
    numbers = {
        "smooth": max(round(p.s * 2**pcen.PLACES), 1),
        "alpha": alpha,
        "eps": eps,
        "eps_exponent": eps_exponent,
        "start": start,
        "start_exponent": start_exponent,
        "origin": round(origin * 65536),
        "points": points,
        "places": places,
    }
    return numbers, np.rint(values).astype(np.int16)


def _units(p: Pcen, q: Quant, limits: tuple[float | None, float | None], octaves: np.ndarray) -> np.ndarray:
    """The curve in units of 2**-8 steps, within int16, at logarithms to base 2."""
    y = curve(p, octaves * LN2)
    least, most = limits
    y = np.clip(y, least, most) if (least, most) != (None, None) else y
    return clip_s16((y / float(q.scale) + q.zero_point) * (1 << pcen.FRACTION))


def _shape(p: Pcen, q: Quant, limits: tuple[float | None, float | None]) -> tuple[int, float, int]:
    """Points of an octave (their logarithm), where the first lies, and how many there are: as few as keep lines between
    them near to the curve."""
    for places in range(pcen.LEAST_STEPS, pcen.MOST_STEPS + 1):
        at = np.arange(-_OCTAVES << places, (_OCTAVES << places) + 1) / 2**places
        v = _units(p, q, limits, at)
        first = max(int(np.count_nonzero(v - v[0] < _NEAR)) - 1, 0)
        last = min(int(np.searchsorted(v, v[-1] - _NEAR)) + 1, len(v) - 1)
        between = _units(p, q, limits, at[first:last] + 0.5 / 2**places)
        off = np.abs((v[first:last] + v[first + 1 : last + 1]) / 2 - between)
        # Where it is cut off at an end of the int8, a line is off as far as the corner is.
        inner = (between > v[0] + _NEAR) & (v[first + 1 : last + 1] < v[-1])
        if off[inner].max(initial=0.0) <= _NEAR:
            break
    return places, float(at[first]), max(last - first + 1, 2)


def _number(value: float) -> tuple[int, int]:
    """value as m * 2**e, m an int31. Raises ValueError."""
    if value <= 0:
        return 0, 0
    mantissa, exponent = math.frexp(value)
    exponent -= 31
    whole = min(round(mantissa * 2**31), 2**31 - 1)
    if exponent > pcen.MOST_EXPONENT:
        raise ValueError(f"{value:g} in units of samples is above all sound")
    down = pcen.LEAST_EXPONENT - exponent
    return (whole >> down, pcen.LEAST_EXPONENT) if down > 0 else (whole, exponent)
