"""Front ends of sensors by their words: `features:rows=50,axes=6,rate=100,stats=mean+std+ptp,bands=4`,
and how they become tables.

KEYS explains the words; host_tools/docs/sound.md has a table of them, and the same features in numpy.
"""

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from mica.errors import MicaError
from mica.ir.axes import AxisFeatures
from mica.kernels import audio
from mica.kernels.axes import MOST_ROWS, MOST_STATS, STATS
from mica.reference.axes import PER_LN
from mica.sound.words import WINDOWS, Word, defaults, one_of, read_size, read_whole, said, size, whole, window

KIND = "features"
MOST_AXES = 64


def _stats(text: str) -> tuple[int, ...]:
    names = [] if text == "none" else text.split("+")
    if len(set(names)) != len(names) or not set(names) <= set(STATS):
        raise ValueError
    return tuple(STATS.index(name) for name in names)


def _sizes(text: str) -> tuple[float, ...]:
    return tuple(read_size(part) for part in text.split("+"))


KEYS: Mapping[str, Word] = {
    "rate": whole(100),  # rows a second
    "rows": whole(),  # of a window
    "axes": whole(1),
    "stats": Word(_stats, f"some of {'+'.join(STATS)}, or none", _stats("mean+std+min+max+ptp+cross")),
    "unit": Word(_sizes, "a number such as 1/16384, or with + between them one for each axis", (1.0,)),  # of a step
    "order": one_of("axis", "feature", default=None),  # what lies together in the model's input
    "bands": Word(lambda text: 0 if text == "0" else read_whole(text), "0, or a whole number up to 65535", 4),
    "fmin": size(),  # Hz
    "fmax": size(),  # Hz
    "edges": Word(_sizes, "numbers in Hz with + between them, one more than bands"),
    "fft": whole(),  # points
    "window": one_of(*WINDOWS, default="hann"),
    "energy": one_of("rms", "power", *PER_LN, default="rms"),  # of the sum of the squares of a band's bins
    "times": size(1.0),  # what that sum is multiplied with
    "least": size(),  # what it is at least, before a logarithm
}


def parse(text: str, shape: tuple[int, ...] | None, what: str) -> AxisFeatures:
    """Read the value of --frontend for a network's input shape, None of no network. what: that input, for errors.
    Raises MicaError."""
    v = defaults(KEYS) | said(f"--frontend {KIND}", text.removeprefix(f"{KIND}:").split(","), KEYS)
    if "rows" not in v:
        raise MicaError(f"--frontend {text}: rows= is missing", todo="expected how many rows of samples a window has")
    return _checked(text, v, shape, what)


def _checked(text: str, v: Mapping[str, Any], given: tuple[int, ...] | None, what: str) -> AxisFeatures:
    rate, rows, axes = (v[key] for key in ("rate", "rows", "axes"))
    stats, unit = v["stats"], v["unit"]
    _require(text, 2 <= rows <= MOST_ROWS, f"rows={rows}: expected 2 to {MOST_ROWS}")
    _require(text, axes <= MOST_AXES, f"axes={axes}: expected {MOST_AXES} at most")
    _require(
        text, len(unit) in (1, axes), f"unit: has {len(unit)} numbers; expected one, or one for each of {axes} axes"
    )
    _require(text, min(unit) > 0 and v["times"] > 0, "unit and times have to be more than 0")
    assert len(stats) <= MOST_STATS
    fft, edges = _edges(text, v, rate, rows)
    bands = _bands(text, edges, rate, fft)
    each = len(stats) + len(bands)
    _require(text, each > 0, "stats=none with bands=0 leaves no feature")
    shape = (1, axes * each) if given is None else given
    _fit(text, shape, what, axes, each)
    long = tuple(n for n in shape if n > 1)
    across = v["order"] == "feature" if "order" in v else long == (each, axes) != (axes, each)
    if len(long) == 2 and long != ((each, axes) if across else (axes, each)):
        raise MicaError(
            f"--frontend {text}: {what} is {list(shape)}, and order={v.get('order', 'axis')} gives "
            f"{[each, axes] if across else [axes, each]}",
            todo=f"take order={'axis' if across else 'feature'}",
        )
    units = np.array(unit if len(unit) == axes else unit * axes, np.float64)
    common = {"rate": rate, "rows": rows, "axes": axes, "stats": stats, "unit": units, "across": across}
    if not bands:
        return AxisFeatures(**common)
    times = v["times"]
    return AxisFeatures(
        **common,
        bands=bands,
        fft=fft,
        window=window(str(v["window"]), rows),
        energy=str(v["energy"]),
        times=times,
        least=v.get("least", times * float(units.min()) ** 2),
    )


def _require(text: str, true: bool, todo: str) -> None:
    if not true:
        raise MicaError(f"--frontend {text}: {todo}")


def _edges(text: str, v: Mapping[str, Any], rate: int, rows: int) -> tuple[int, tuple[float, ...]]:
    """Points of the transform, and the edges of the bands in Hz; 0 and none without bands."""
    n = v["bands"]
    if n == 0 and "edges" not in v:
        return 0, ()
    points = 1 << (rows - 1).bit_length()
    fft = v.get("fft", max(audio.LEAST_POINTS, points))
    power_of_two = audio.LEAST_POINTS <= fft <= audio.MOST_POINTS and fft & (fft - 1) == 0
    _require(text, power_of_two, f"fft={fft}: expected 32, 64 and so on to {audio.MOST_POINTS}")
    _require(text, rows <= fft, f"rows={rows} is longer than fft={fft}")
    if "edges" in v:
        edges = v["edges"]
        _require(
            text, "fmin" not in v and "fmax" not in v, "edges= says where bands begin and end; leave fmin and fmax out"
        )
    else:
        fmin = v.get("fmin", rate / fft)
        fmax = v.get("fmax", rate / 2)
        edges = tuple(fmin + (fmax - fmin) * k / n for k in range(n + 1))
    rises = len(edges) > 1 and all(a < b for a, b in itertools.pairwise(edges)) and edges[-1] <= rate / 2
    _require(
        text, rises, f"bands from {edges[0]:g} to {edges[-1]:g} Hz: expected edges that rise, up to {rate / 2:g} Hz"
    )
    return fft, edges


def _bands(text: str, edges: tuple[float, ...], rate: int, fft: int) -> tuple[tuple[int, int], ...]:
    """First bin and number of bins between each two edges; what lies on an edge is of the band above it,
    on the last one of the last."""
    first = [math.ceil(edge * fft / rate - 1e-9) for edge in edges]
    if edges:
        first[-1] = math.floor(edges[-1] * fft / rate + 1e-9) + 1
    bands = tuple((a, b - a) for a, b in itertools.pairwise(first))
    empty = next((b for b, (_, n) in enumerate(bands) if n < 1), None)
    if empty is not None:
        raise MicaError(
            f"--frontend {text}: band {empty}, {edges[empty]:g} to {edges[empty + 1]:g} Hz, holds none of the lines, "
            f"which are {rate / fft:g} Hz apart",
            todo="take fewer bands or a larger fft",
        )
    return bands


def _fit(text: str, shape: tuple[int, ...], what: str, axes: int, each: int) -> None:
    if math.prod(shape) != axes * each:
        raise MicaError(
            f"--frontend {text}: gives {axes * each} features, {each} of each axis ({axes}), and {what} "
            f"is {list(shape)}",
            todo="axes=, stats= and bands= say how many there are",
        )
