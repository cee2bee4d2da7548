"""Room in ranges when samples are few: these hold none of the values that lie further out.

What 64 samples reach, every thirtieth of the next ones leaves, and what is cut off there makes most of a small model's
error. The fewer numbers calibration saw of an activation, the more room pays, even if it rounds more. Softmax scores
need none (`margins.py`): a class survives a cut. From FULL samples on, ranges are as the methods say.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from mica.ir.graph import Graph
from mica.passes.leaf_trees import bounds
from mica.quantise import margins
from mica.quantise.histogram import Range

FULL = 128  # samples
SEEN = 10_000  # numbers; an activation of which so many were seen gets no room
PART = 0.06  # of the width, for each factor e that an activation is below that: a tail falls by as much there
MOST = 0.3  # of the width, on each side


def needed(g: Graph, samples: int) -> bool:
    """Return True if samples are few, and outputs tell numbers, which a range may cut off, and no class."""
    classes = any(g.value(name).dtype == "int32" for name in g.outputs)
    return samples < FULL and not classes and bool(_numbers(g))


def _numbers(g: Graph) -> set[str]:
    """Return the outputs that tell numbers, and what sigmoids make scores of, each by itself: none survives a cut."""
    ends = margins.heads(g)
    return set(g.outputs) - margins.scores(g, ends) | {n.inputs[0] for n in ends if n.op == "Unary"}


def spread(g: Graph, ranges: Mapping[str, Range], samples: int) -> dict[str, Range]:
    """The ranges, those of what makes numbers wider, as far as these can go. samples: how many were seen."""
    result, near = dict(ranges), _numbers(g)
    if not needed(g, samples):
        return result
    for node in reversed(g.nodes):
        near.update(node.inputs if near.intersection(node.outputs) else ())
    ends = {name: _ends(node.attrs) for node in g.nodes for name in node.outputs}
    share = min(1.0, 2 * (1 - samples / FULL))
    for name in near & ranges.keys():
        low, high = min(ranges[name].low, 0.0), max(ranges[name].high, 0.0)
        part = share * PART * max(0.0, math.log(SEEN / (g.value(name).size * samples)))
        more, end = min(part, MOST) * (high - low), ends.get(name, Range(-np.inf, np.inf))
        low, high = (low - more * (low < 0), high + more * (high > 0))
        result[name] = Range(max(low, min(end.low, ranges[name].low)), min(high, max(end.high, ranges[name].high)))
    return result


def _ends(attrs: Mapping[str, Any]) -> Range:
    """Return the range that an operator cannot leave."""
    if "forest" in attrs:
        low, high = bounds(attrs["forest"])
        return Range(float(low.min()), float(high.max()))
    low, high = attrs.get("clip", (None, None))
    return Range(-np.inf if low is None else low, np.inf if high is None else high)
