"""Room in the ranges of a model's outputs: few samples hold none of those that lie further out.

What 64 samples reach, every thirtieth of the next ones leaves, and what is cut off there makes most of a small model's
error. An output has steps to spare: what is inside of a network rounds more. From FULL samples on, ranges are as seen.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mica.ir.graph import Graph
from mica.ir.ops import CORE_BY_NAME
from mica.passes.leaf_trees import bounds
from mica.quantise.histogram import Range

FULL = 128  # samples
MOST = 0.15  # of the width, on each side


def outputs(g: Graph, ranges: Mapping[str, Range], samples: int) -> dict[str, Range]:
    """The ranges, those of outputs wider, as far as these can go. samples: how many were seen."""
    result, producers, todo = dict(ranges), g.producers(), list(g.outputs)
    part = MOST * max(0.0, 1 - samples / FULL)
    while part and todo:
        name = todo.pop()
        node = producers.get(name)
        if node is None or name not in ranges or (node.op == "Unary" and node.inputs[0] in g.inputs):
            continue  # a function of each number of an input reaches what the input does
        op, seen = CORE_BY_NAME[node.op], ranges[name]
        todo += [i for i in node.inputs[: len(node.inputs) if op.joins else int(op.keeps_quant)] if not g.is_const(i)]
        low, high = min(seen.low, 0.0), max(seen.high, 0.0)
        more = part * (high - low)
        ends = _ends(node.attrs)
        if low < 0:
            low = min(low, max(low - more, ends.low))
        if high > 0:
            high = max(high, min(high + more, ends.high))
        result[name] = Range(low, high)
    return result


def _ends(attrs: Mapping[str, Any]) -> Range:
    """Return the range that an operator cannot leave."""
    if "forest" in attrs:
        low, high = bounds(attrs["forest"])
        return Range(float(low.min()), float(high.max()))
    low, high = attrs.get("clip", (None, None))
    return Range(-np.inf if low is None else low, np.inf if high is None else high)
