"""A layer whose channels are split, and whose parts differ in range, becomes a layer for each part.

y = Conv2d(x); scores = Remap(y, channels 0..2), boxes = Remap(y, channels 3..34)    =>    scores = Conv2d(x);
        boxes = Conv2d(x)

Each part then has a scale of its own. It costs no multiplication more: no channel is computed twice.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from mica.ir import check
from mica.ir.graph import Graph, Node
from mica.ir.strided_copy import axis_indices
from mica.passes import dead_code
from mica.quantise import margins
from mica.quantise.calibrate import Range, Samples, calibrate
from mica.quantise.groups import width

FACTOR = 2.0  # ranges that differ by more keep scales of their own
MOST = 8  # parts of one layer
LAYERS = ("Conv2d", "FullyConnected")
SAMPLES = 32


def run(g: Graph, samples: Samples) -> Graph:
    """A core graph in which such layers are taken apart."""
    consumers = g.consumers()
    found = [(node, _parts(g, node, consumers.get(node.outputs[0], ()))) for node in g.nodes if node.op in LAYERS]
    found = [(node, cuts) for node, cuts in found if cuts]
    if not found:
        return g
    ranges = margins.widened(g, calibrate(g, samples[:: max(1, len(samples) // SAMPLES)][:SAMPLES]))
    apart = [(node, cuts) for node, cuts in found if _differ(cuts, ranges)]
    for node, cuts in apart:
        _take_apart(g, node, cuts)
    if apart:
        g = dead_code.run(g)
        check.structure(g, "layer_parts")
        check.core(g)
    return g


def _parts(g: Graph, node: Node, readers: Sequence[Node]) -> list[tuple[Node, np.ndarray]]:
    """The readers of a layer, each with the channels that it takes; none if one takes something else."""
    y, cuts = g.value(node.outputs[0]), []
    own = y.quant is not None or y.name in g.outputs or g.value(node.inputs[1]).weight_scale is not None
    if own or node.attrs.get("weight_steps") is not None or node.attrs.get("groups", 1) != 1:
        return []
    if not 1 < len(readers) <= MOST or any(n.op != "Remap" for n in readers):
        return []
    for reader in readers:
        *others, channels = (axis_indices(a) for a in reader.attrs["axes"])
        if any(not np.array_equal(a, np.arange(n)) for a, n in zip(others, y.shape, strict=False)):
            return []
        cuts.append((reader, channels))
    taken = np.concatenate([channels for _, channels in cuts])
    return cuts if len(taken) == len(set(taken.tolist())) else []


def _differ(cuts: Sequence[tuple[Node, np.ndarray]], ranges: Mapping[str, Range]) -> bool:
    wide = [width(ranges[reader.outputs[0]]) for reader, _ in cuts]
    return max(wide) > FACTOR * min(wide) > 0


def _take_apart(g: Graph, node: Node, cuts: Sequence[tuple[Node, np.ndarray]]) -> None:
    """Each reader becomes the layer itself, with its channels alone."""
    x, *constants = node.inputs
    for reader, channels in cuts:
        own = [g.new_const(f"{i}.part", np.ascontiguousarray(np.asarray(g.data(i))[channels])) for i in constants]
        reader.op, reader.name, reader.inputs, reader.attrs = node.op, node.name, [x, *own], dict(node.attrs)
